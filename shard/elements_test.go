package shard

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestNamesInCommon: one name goes into several collections as one string, and a long one is kept by none of them longer than it has it.
func TestNamesInCommon(t *testing.T) {
	var common string
	a, b := newElements[int](&common), newElements[string](&common)
	one := a.put([]byte("one"), 1, 1, 0).name
	a.put([]byte("two"), 2, 1, 0)
	b.absent([]byte("two"))
	if unsafe.StringData(a.rows["two"].name) != unsafe.StringData(b.rows["two"].name) {
		t.Error("a name is kept twice")
	}
	a.find([]byte("one"))
	if name := b.put([]byte("one"), "1", 1, 0).name; unsafe.StringData(name) != unsafe.StringData(one) {
		t.Error("a name that was looked for is kept twice")
	}
	long := bytes.Repeat([]byte("x"), maxCommon+1)
	if b.put(long, "", 0, 0); common != "one" || b.rows[string(long)] == nil {
		t.Errorf("%d bytes are kept", len(common))
	}
}

// TestSparesAreCounted: entries that are kept to be used again count as memory, and go when the collection has to give memory back.
func TestSparesAreCounted(t *testing.T) {
	e := newElements[int](nil)
	size := func(int) int { return 0 }
	for i := range 4 * maxSpares {
		e.putNew(fmt.Sprint(i), 0, 0)
	}
	for i := range 2 * maxSpares {
		e.drop(e.find([]byte(fmt.Sprint(i))), size)
	}
	if len(e.spares) != maxSpares || e.footprint() != e.bytes+maxSpares*elementOverhead {
		t.Errorf("%d entries are kept, and %d bytes are counted besides the others'", len(e.spares), e.footprint()-e.bytes)
	}
	e.thin(&object{count: 1 << 10}, size)
	if len(e.spares) != 0 || e.footprint() != e.bytes {
		t.Errorf("%d entries are kept when memory is needed", len(e.spares))
	}
}

// TestElementsCount holds what elements count as they change against their rows.
func TestElementsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newElements[int](nil)
		size := func(val int) int { return val }
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "bb", "ccc", "dddd"}).Draw(t, "name")
			old := 0
			if el := e.find([]byte(name)); el != nil {
				old = el.val
			}
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				val := rapid.IntRange(0, 9).Draw(t, "size")
				if _, there := e.rows[name]; !there && rapid.Bool().Draw(t, "insert") {
					e.putNew(name, val, val)
				} else if kept := e.put([]byte(name), val, val, old); kept != e.rows[name] {
					t.Fatalf("%q is kept as %v", name, kept)
				}
			case 2:
				e.kill(nil, nil, []byte(name), old)
			case 3:
				e.absent([]byte(name))
			case 4:
				e.settle()
			case 5:
				if el := e.find([]byte(name)); el != nil {
					e.drop(el, size)
				}
			}
			dead, bytes := 0, 0
			for name, el := range e.rows {
				bytes += len(name) + elementOverhead + size(el.val)
				if el.name != name {
					t.Fatalf("the entry of %q is named %q", name, el.name)
				}
				if el.dead {
					dead++
				}
			}
			for _, el := range e.spares {
				if *el != (element[int]{}) {
					t.Fatalf("an entry to be used again is %v", el)
				}
			}
			if e.dead != dead || e.bytes != bytes || e.live() != len(e.rows)-dead {
				t.Fatalf("counts %d dead of %d bytes, but has %d of %d: %v", e.dead, e.bytes, dead, bytes, e.rows)
			}
		}
	})
}
