package shard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// What the slot index has in memory only saves reads: these tests bring it into the states in which it could be wrong.

// removeSlots removes the elements from the list.
func removeSlots(t *testing.T, l List, vals ...string) {
	t.Helper()
	for _, val := range vals {
		if n, err := l.Remove(1, []byte(val)); n != 1 || err != nil {
			t.Fatalf("%d of %s removed, %v", n, val, err)
		}
	}
}

// many are elements of slot 0, the first one first.
func many(from, to int) string {
	var vals []string
	for i := from; i < to; i++ {
		vals = append(vals, fmt.Sprintf("00-%d", i))
	}
	return strings.Join(vals, " ")
}

// TestSlotElementsRemovedUnread removes elements that the index has not read, in a transaction that pops then.
func TestSlotElementsRemovedUnread(t *testing.T) {
	for _, cache := range []int{1, 1 << 20} { // nothing is known of the slot, or its first elements
		st := openSlotted(t, cache)
		const n = 60 // several times what is read at once
		inSlots(t, st, func(l List) {
			pushSlots(t, l, many(0, n))
			if got := popSlots(t, l, SlotRange{0, 0}, 1); got != "00-0" {
				t.Errorf("popped %s", got)
			}
		})
		inSlots(t, st, func(l List) { l.o.list.shrink(0) })
		inSlots(t, st, func(l List) { // the next ones are read from what is committed
			if got := popSlots(t, l, SlotRange{0, 0}, 1); got != "00-1" {
				t.Errorf("popped %s", got)
			}
		})
		inSlots(t, st, func(l List) {
			removeSlots(t, l, "00-40", "00-59")
			want := many(2, 40) + " " + many(41, 53)
			if got := popSlots(t, l, SlotRange{0, 0}, 50); got != want {
				t.Errorf("cache %d: popped %s, want %s", cache, got, want)
			}
		})
		inSlots(t, st, func(l List) {
			if x := l.o.list.slots; x.unread { // so that it is read as ever, without the copy of what the transaction writes
				t.Error("what was committed counts as not read")
			}
		})
		closeTest(t, st)
	}
}

// TestSlotElementsNotIndexed: an element that is not in the index yet leaves by no more rows than that of a list without one.
func TestSlotElementsNotIndexed(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Tracker, opts.slotStep, opts.stageBytes, opts.CacheBytes = cutBy(2), 3, stageBytes, 1<<20
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, st)
	inSlots(t, st, func(l List) { pushSlots(t, l, many(0, 20)) })
	popHead := func(l List) (rows uint32) {
		before := l.s.batch.Count()
		if _, found, err := l.Pop(Head); !found || err != nil {
			t.Fatal(found, err)
		}
		return l.s.batch.Count() - before
	}
	inSlots(t, st, func(l List) {
		plain := popHead(l)
		popSlots(t, l, SlotRange{0, 0}, 1)
		if l.o.list.slots.from == allIndexed {
			t.Error("the index reaches to all elements")
		}
		if got := popHead(l); got != plain {
			t.Errorf("%d rows go with an element that has none in the index, %d in a list without one", got, plain)
		}
	})
}

// TestSlotElementsDropped: elements that are too many bytes are dropped from memory at the commit, and found again, before those that
// came later.
func TestSlotElementsDropped(t *testing.T) {
	st := openSlotted(t, 64<<20)
	defer closeTest(t, st)
	big := strings.Repeat("x", slotMaxBytes/8)
	inSlots(t, st, func(l List) {
		for i := range 12 {
			pushSlots(t, l, fmt.Sprintf("00-%d%s", i, big))
		}
		popSlots(t, l, SlotRange{0, 0}, 1)
	})
	inSlots(t, st, func(l List) {
		if n := l.o.list.slots.bytes; n != 0 {
			t.Errorf("%d bytes are held", n)
		}
		pushSlots(t, l, "00-last")
		for i := 1; i < 12; i++ {
			if got, want := popSlots(t, l, SlotRange{0, 0}, 1), fmt.Sprintf("00-%dx", i); !strings.HasPrefix(got, want) {
				t.Fatalf("popped %.9s, want %s", got, want)
			}
		}
		if got := popSlots(t, l, SlotRange{0, 0}, 2); got != "00-last" {
			t.Errorf("popped %.9s at last", got)
		}
	})
}

// TestSlotPopsLeaveNoGap: a list stays known to have an element at every index while pops by slot take what is at its ends.
func TestSlotPopsLeaveNoGap(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	inSlots(t, st, func(l List) { pushSlots(t, l, "01-tail "+many(0, 5)+" 02-head") })
	inSlots(t, st, func(l List) { popSlots(t, l, SlotRange{1, 1}, 1) })
	for _, r := range []SlotRange{{2, 2}, {0, 0}} {
		inSlots(t, st, func(l List) {
			s, o := l.s, l.o
			it, found, err := s.nextOf(o, r)
			if !found || err != nil {
				t.Fatal(found, err)
			}
			o.list.shrink(0) // so that head and tail can't be seen from what is in memory
			s.modify(o)
			if s.takeItem(o, it); !o.list.contiguous(o) {
				t.Errorf("%d elements stand from %d to %d", o.count, o.list.head, o.list.tail)
			}
		})
	}
}

// TestSlotNewsAreBounded: beyond some slots everybody is told.
func TestSlotNewsAreBounded(t *testing.T) {
	var n, other slotNews
	for slot := range uint16(slotMaxNews) {
		n.add(slot, 2)
		other.add(slot, 2)
	}
	if n.any || n.concern(&SlotRange{0x2000, 0xffff}) || !n.concern(&SlotRange{0x1f00, 0x1f00}) {
		t.Errorf("news of %d slots concern others, or not all of these", slotMaxNews)
	}
	n.merge(&slotNews{})
	if n.any {
		t.Error("no news are added, and concern everybody")
	}
	n.add(99, 2)
	if len(n.ranges) != 0 || !n.concern(&SlotRange{0x2000, 0x2000}) || !n.concern(&SlotRange{0x6300, 0x6300}) {
		t.Errorf("one more: %d ranges are told apart", len(n.ranges))
	}
	one := slotNews{ranges: []SlotRange{{0xff00, 0xffff}}}
	other.merge(&one)
	if !other.concern(&SlotRange{0xff00, 0xff00}) || len(other.ranges) > slotMaxNews || len(one.ranges) != 0 {
		t.Errorf("%d ranges are told apart of two sets of news", len(other.ranges))
	}
}

// slotPopper waits for an element of some slots in the lists of a group, as a claim does.
type slotPopper struct {
	w   *Waiter
	got string
}

func (p *slotPopper) try(tx *Tx, key []byte) (bool, error) {
	l, err := tx.DB(0).List(key)
	if err != nil {
		return false, err
	}
	r := SlotRange{p.w.slots.From >> 8, p.w.slots.To >> 8}
	val, found, err := l.PopSlot(2, r)
	p.got = string(val)
	return found, err
}

// waitForSlots registers waiters for slots of two digits, and returns what each has got when fn has run in a transaction.
func waitForSlots(t *testing.T, st *Store, slots []uint16, fn func(l List)) (got []string) {
	t.Helper()
	poppers := make([]*slotPopper, len(slots))
	var woken sync.WaitGroup
	for i, slot := range slots {
		p := &slotPopper{}
		p.w = NewWaiter(0, KindGroup, byteKeys([]string{"slots"}), p.try, woken.Done)
		p.w.SetSlots(&SlotRange{slot << 8, slot<<8 | 0xff})
		tx := st.NewTx()
		tx.Begin(st.All())
		if waits, err := block(tx, p.w); !waits || err != nil {
			t.Fatalf("slot %d: waits %t, %v", slot, waits, err)
		}
		tx.End()
		poppers[i] = p
	}
	woken.Add(len(slots))
	inSlots(t, st, fn)
	tx := st.NewTx()
	for _, p := range poppers {
		p.w.Withdraw(tx)
		served, _, err := p.w.Result()
		if err != nil {
			t.Fatal(err)
		}
		if !served {
			p.got = ""
		}
		got = append(got, p.got)
	}
	return got
}

// TestSlotNewsOutliveTheIndex: who waits for slots learns of what came to them in a transaction that then had the list cut anew.
func TestSlotNewsOutliveTheIndex(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	inSlots(t, st, func(l List) {
		pushSlots(t, l, "00-a 00-b 00-c")
		popSlots(t, l, SlotRange{0, 0}, 1)
	})
	got := waitForSlots(t, st, []uint16{5, 7}, func(l List) {
		pushSlots(t, l, "070-a 051-a")
		if _, _, err := l.PopSlot(3, SlotRange{0xfff, 0xfff}); err != nil {
			t.Fatal(err)
		}
	})
	if want := []string{"051-a", "070-a"}; !slices.Equal(got, want) {
		t.Errorf("who waits gets %q, want %q", got, want)
	}
}

// TestSlotNewsOfManySlots: a transaction may push into more slots than are told apart.
func TestSlotNewsOfManySlots(t *testing.T) {
	st := openSlotted(t, 1<<20)
	defer closeTest(t, st)
	inSlots(t, st, func(l List) {
		if err := l.ExpectSlots(); err != nil {
			t.Fatal(err)
		}
	})
	var slots []uint16
	var vals, want []string
	for slot := range uint16(slotMaxNews + 8) {
		slots, vals = append(slots, slot), append(vals, fmt.Sprintf("%02x-a", slot))
	}
	want = vals
	got := waitForSlots(t, st, slots, func(l List) { pushSlots(t, l, strings.Join(vals, " ")) })
	if !slices.Equal(got, want) {
		t.Errorf("who waits gets %q", got)
	}
}

// TestSpreadSlotsTakeTurns: the fragments of a partitioned list take turns in pops by slot, as in those at the tail.
func TestSpreadSlotsTakeTurns(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 3, clock.NewManual(testStart))
	opts.Tracker = cutBy(2)
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	l, err := tx.DB(0).List([]byte("part:l"))
	if err != nil {
		t.Fatal(err)
	}
	left := make([]int, 3)
	for i := range 30 {
		val := fmt.Sprintf("00-%d", i)
		left[st.placer.Home([]byte(val))]++
		pushSlots(t, l, val)
	}
	for turn := 0; slices.Max(left) > 0; turn++ {
		val, found, err := l.PopSlot(2, SlotRange{0, 0})
		if !found || err != nil {
			t.Fatal(found, err)
		}
		for left[turn%3] == 0 {
			turn++
		}
		if home := st.placer.Home(val); home != turn%3 {
			t.Fatalf("%s was popped, of fragment %d, at the turn of %d", val, home, turn%3)
		}
		left[turn%3]--
	}
}
