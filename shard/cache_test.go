package shard

import (
	"fmt"
	"reflect"
	"testing"
)

// TestCacheEvictsOldest: what was used last stays, also what is used so often that its place in the ring is not brought up to date
// each time.
func TestCacheEvictsOldest(t *testing.T) {
	const n = 8
	c := newObjectCache(1, 0)
	add := func(name string) *object {
		o := &object{key: name, db: c.dbs[0], kind: KindString}
		c.add(o)
		return o
	}
	first := add("first")
	for i := range n {
		add(fmt.Sprint(i))
	}
	c.get(0, []byte("first"))
	if c.dbs[0].root.next == first {
		t.Fatal("it was moved at once: this tests nothing")
	}
	for i := range n {
		if o := c.oldest(); o.key != fmt.Sprint(i) {
			t.Fatalf("the oldest is %q, want %d", o.key, i)
		} else {
			c.drop(o)
		}
	}
	if o := c.oldest(); o != first {
		t.Errorf("the oldest is %v, want the first", o)
	}
	add("last")
	for range movedAfter {
		c.get(0, []byte("last"))
	}
	if c.get(0, []byte("first")); c.dbs[0].root.next != first {
		t.Error("it was not moved after many uses of others")
	}
}

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
