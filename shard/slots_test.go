package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// openSlotted opens a store of one shard whose lists are cut into slots by two digits.
func openSlotted(t *testing.T, cache int) *Store {
	t.Helper()
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Tracker, opts.CacheBytes, opts.LogSegment, opts.LogMax = cutBy(2), cache, 1<<30, 1<<30
	opts.stageBytes = stageBytes
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// inSlots runs fn on a list in a transaction, which it commits.
func inSlots(t *testing.T, st *Store, fn func(l List)) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	l, err := tx.DB(0).List([]byte("slots"))
	if err != nil {
		t.Fatal(err)
	}
	fn(l)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func pushSlots(t *testing.T, l List, vals string) {
	t.Helper()
	for _, val := range strings.Fields(vals) {
		if err := l.Push(Head, []byte(val)); err != nil {
			t.Fatal(err)
		}
	}
}

// popSlots pops from the range until there is nothing left, or n elements.
func popSlots(t *testing.T, l List, r SlotRange, n int) string {
	t.Helper()
	var vals []string
	for range n {
		val, ok, err := l.PopSlot(2, r)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		vals = append(vals, string(val))
	}
	return strings.Join(vals, " ")
}

// TestSlotsTakeTurns: no slot has to wait until another is empty.
func TestSlotsTakeTurns(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	inSlots(t, st, func(l List) {
		pushSlots(t, l, "05-a 05-b 05-c 07-a 09-a 09-b 05-d 0a-a 05-e")
		for _, step := range []struct {
			r    SlotRange
			n    int
			want string
		}{
			{SlotRange{4, 9}, 4, "05-a 07-a 09-a 05-b"},
			{SlotRange{0, 5}, 1, "05-c"},
			{SlotRange{4, 9}, 2, "09-b 05-d"},
			{SlotRange{0, 255}, 9, "05-e 0a-a"},
		} {
			if got := popSlots(t, l, step.r, step.n); got != step.want {
				t.Errorf("%v: %s, want %s", step.r, got, step.want)
			}
		}
	})
}

// TestSlotsCutAnew: a list that is popped by another number of digits is indexed anew in steps of bounded cost, and leaves no rows of the
// index that it had.
func TestSlotsCutAnew(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	const n = 5 * slotStep
	inSlots(t, st, func(l List) {
		if err := l.ExpectSlots(); err != nil {
			t.Fatal(err)
		}
	})
	inSlots(t, st, func(l List) {
		for i := range n {
			pushSlots(t, l, fmt.Sprintf("%03x-%d", i%4096, i))
		}
	})
	pop := func(digits int, r SlotRange, want string) {
		t.Helper()
		inSlots(t, st, func(l List) {
			before := l.s.stats.RowsRead
			val, ok, err := l.PopSlot(digits, r)
			if err != nil || !ok || string(val) != want {
				t.Fatalf("popped %s, %v, %v by %d digits, want %s", val, ok, err, digits, want)
			}
			if read := l.s.stats.RowsRead - before; read > slotStep+2*aheadMost {
				t.Errorf("a pop by %d digits reads %d rows", digits, read)
			}
		})
	}
	pop(2, SlotRange{0xff, 0xff}, "ff0-4080")
	pop(3, SlotRange{0x3e0, 0x3ff}, "3e0-992")
	inSlots(t, st, func(l List) {
		for more := true; more; {
			var err error
			if more, err = l.ExtendSlots(); err != nil {
				t.Fatal(err)
			}
		}
	})
	pop(3, SlotRange{0xfff, 0xfff}, "fff-4095")
	inSlots(t, st, func(l List) {
		if err := l.s.unstage(); err != nil {
			t.Fatal(err)
		}
		rows := 0
		if err := l.s.eachRow([]byte{rowSlot}, []byte{rowSlot + 1}, func(_, _ []byte) error { rows++; return nil }); err != nil {
			t.Fatal(err)
		}
		if rows != n-3 {
			t.Errorf("%d rows by slot of %d elements", rows, n-3)
		}
	})
}

// TestSlotInsertedBetween inserts an element between two that are in memory, where another was.
func TestSlotInsertedBetween(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	inSlots(t, st, func(l List) {
		pushSlots(t, l, "00-a 00-b 01-x 00-c")
		if got := popSlots(t, l, SlotRange{0, 0}, 1) + popSlots(t, l, SlotRange{1, 1}, 1); got != "00-a01-x" {
			t.Errorf("popped %s", got)
		}
	})
	inSlots(t, st, func(l List) {
		if _, err := l.Insert(true, []byte("00-b"), []byte("00-new")); err != nil {
			t.Fatal(err)
		}
		if got := popSlots(t, l, SlotRange{0, 0}, 9); got != "00-b 00-new 00-c" {
			t.Errorf("popped %s", got)
		}
	})
}

// TestSlotsLeaveNothingBehind removes indexed lists in every way, and in the end there is no row of them.
func TestSlotsLeaveNothingBehind(t *testing.T) {
	for name, remove := range map[string]func(l List) error{
		"delete":    func(l List) error { _, err := l.db.Delete([]byte("slots")); return err },
		"overwrite": func(l List) error { return l.db.Set([]byte("slots"), []byte("x"), 0) },
		"flush":     func(l List) error { return l.db.Flush() },
		"trim":      func(l List) error { return l.Trim(5, 4) },
		"pop": func(l List) error {
			for {
				if _, found, err := l.Pop(Tail); !found || err != nil {
					return err
				}
			}
		},
	} {
		for _, n := range []int{3, 200, 2500} {
			clk := clock.NewManual(testStart)
			opts := testOptions(vfs.NewMem(), 1, clk)
			opts.Tracker, opts.stageBytes, opts.LogMax = cutBy(2), stageBytes, 8<<20
			st, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			inSlots(t, st, func(l List) {
				for i := range n {
					pushSlots(t, l, fmt.Sprintf("%02x-%d", i%256, i))
				}
			})
			inSlots(t, st, func(l List) { popSlots(t, l, SlotRange{0, 255}, 1) })
			inSlots(t, st, func(l List) {
				if err := remove(l); err != nil {
					t.Fatal(name, err)
				}
			})
			for leftRows(t, st) {
				clk.Advance(1e8)
			}
			closeTest(t, st)
		}
	}
}

// TestSlotCosts: a pop by slot reads as much with few elements in other slots as with very many, also when these were there first, when
// most of what was there is gone, and when nothing is cached; and so does a pop at the tail behind many pops by slot.
func TestSlotCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long under the race detector, which has nothing to find in it")
	}
	read := func(others, cache int) (costs [4]int64) {
		st := openSlotted(t, cache)
		defer closeTest(t, st)
		rows := func(fn func(l List)) int64 {
			s := st.shards[0]
			before := rowsRead(s)
			inSlots(t, st, fn)
			return rowsRead(s) - before
		}
		inSlots(t, st, func(l List) { // so that the list is indexed when it is filled
			if err := l.ExpectSlots(); err != nil {
				t.Fatal(err)
			}
		})
		for from := 0; from < others; from += 1000 {
			inSlots(t, st, func(l List) {
				for i := from; i < min(from+1000, others); i++ {
					pushSlots(t, l, fmt.Sprintf("%02x-%d", 1+i%255, i))
				}
			})
		}
		inSlots(t, st, func(l List) { pushSlots(t, l, "00-a 00-b 00-c 00-d") })
		costs[0] = rows(func(l List) { popSlots(t, l, SlotRange{0, 0}, 1) })
		costs[1] = rows(func(l List) { popSlots(t, l, SlotRange{0, 0}, 1) })
		for from := 0; from < others-3; from += 1000 { // all but the first few of the others
			inSlots(t, st, func(l List) { popSlots(t, l, SlotRange{4, 255}, min(1000, others-3-from)) })
		}
		costs[2] = rows(func(l List) { popSlots(t, l, SlotRange{0, 0}, 1) })
		for range 3 {
			costs[3] = max(costs[3], rows(func(l List) {
				if _, _, err := l.Pop(Tail); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return costs
	}
	const slack = 2 * aheadMost
	for _, cache := range []int{1, 16 << 20} {
		few, many := read(10, cache), read(100_000, cache)
		t.Logf("cache %d: rows read %v and %v", cache, few, many)
		for i, what := range []string{"the first pop", "the next", "one after all others", "one at the tail"} {
			if many[i] > few[i]+slack {
				t.Errorf("cache %d: %s reads %d rows with 10 in other slots, %d with 100,000", cache, what, few[i], many[i])
			}
		}
	}
}
