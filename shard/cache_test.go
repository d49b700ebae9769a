package shard

import (
	"fmt"
	"reflect"
	"testing"
)

// TestCacheSpares: an object that is used again is as new, and none is used twice at once.
func TestCacheSpares(t *testing.T) {
	c := newObjectCache(1, 1<<20)
	for range 2 {
		var used []*object
		for i := range 2 * maxSpares {
			o := c.newObject()
			if !reflect.DeepEqual(*o, object{}) {
				t.Fatalf("a new object is %v", o)
			}
			*o = object{key: fmt.Sprint(i), db: c.dbs[0], kind: KindString, str: []byte("value"), dirty: true}
			c.add(o)
			used = append(used, o)
		}
		for i, o := range used {
			if c.get(0, []byte(fmt.Sprint(i))) != o {
				t.Fatalf("%d is another object", i)
			}
			c.drop(o)
			c.spare(o)
		}
		if len(c.spares) != maxSpares || c.bytes != 0 {
			t.Errorf("%d objects are kept, want %d; %d bytes are counted", len(c.spares), maxSpares, c.bytes)
		}
	}
}
