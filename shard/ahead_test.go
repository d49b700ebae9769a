package shard

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestAhead: as long as all that was read is used, twice as many are read each time. What was read in vain has it begin again.
func TestAhead(t *testing.T) {
	var a Ahead
	read := func(use int) int {
		n := a.Next()
		a.Read(n - 1)
		for range use {
			a.Use()
		}
		return n
	}
	var sizes []int
	for _, use := range []int{15, 31, 63, 127, 255, 300, 254, 15, 30, 0, 0} {
		sizes = append(sizes, read(use))
	}
	if want := []int{16, 32, 64, 128, 256, 256, 256, 16, 32, 16, 16}; !slices.Equal(sizes, want) {
		t.Errorf("with all used, then all but one, read were %v, want %v", sizes, want)
	}
	a = Ahead{}
	a.Next()
	a.Read(3) // there were no more
	for range 3 {
		a.Use()
	}
	if n := a.Next(); n != 2*aheadLeast {
		t.Errorf("after few that were all used, %d are read, want %d", n, 2*aheadLeast)
	}
}

// TestListWindowGrows: popping a list from disk reads few of its elements at first, and more with each turn, and few again once the cache has
// let go of some.
func TestListWindowGrows(t *testing.T) {
	for _, end := range []End{Head, Tail} {
		st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
		onList(t, st, func(l List) error {
			for i := range 2000 {
				if err := l.Push(Tail, numbered(i)); err != nil {
					return err
				}
			}
			return nil
		})
		onList(t, st, func(l List) error {
			l.s.cache.dropAll()
			return l.s.unstage()
		})
		var read []int64
		onList(t, st, func(l List) error {
			for popped := 0; popped < 16+32+64+128+256+256; popped++ {
				if popped == 16+32+64 {
					l.o.list.shrink(1 << 20)
				}
				before := l.o.list.cached()
				if _, _, err := l.Pop(end); err != nil {
					return err
				}
				if n := l.o.list.cached() + 1 - before; n > 0 {
					read = append(read, n)
				}
			}
			return nil
		})
		if want := []int64{16, 32, 64, 16, 32, 64, 128, 256, 256}; !slices.Equal(read, want) {
			t.Errorf("from end %v, elements were read in steps of %v, want %v", end, read, want)
		}
		closeTest(t, st)
	}
}
