package shard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// slotTracker tracks the lists whose names begin with "slots", which are of one group. An element's slot is what it begins with.
type slotTracker struct {
	noTracker
	digits *atomic.Int32 // by which new lists are cut
}

func cutBy(digits int) slotTracker {
	t := slotTracker{digits: new(atomic.Int32)}
	t.digits.Store(int32(digits))
	return t
}

func (slotTracker) Track(key []byte) *Tracking {
	if strings.HasPrefix(string(key), "slots") {
		return &Tracking{Group: "slots", Feeds: true}
	}
	return nil
}

func (slotTracker) Due(db DB, _ int, key []byte, _ int) (againMs int64, err error) {
	l, err := db.List(key)
	if err != nil {
		return 0, err
	}
	more, err := l.ExtendSlots()
	if more {
		againMs = db.Now()
	}
	return againMs, err
}

func (slotTracker) Slot(element []byte, digits int) uint16 {
	n, _ := strconv.ParseUint(string(element[:digits]), 16, 16)
	return uint16(n)
}

func (t slotTracker) SlotDigits([]byte) int { return int(t.digits.Load()) }

// slotMachine compares lists that are popped by slot, and in every other way, with slices.
type slotMachine struct {
	fs      *vfs.MemFS
	clk     *clock.Manual
	tracker slotTracker
	cache   int
	step    int
	st      *Store
	tx      *Tx
	model   map[string][]string // committed
	next    map[string][]string
	popped  int // by slot
}

func (m *slotMachine) open(t *rapid.T) {
	opts := testOptions(m.fs, 1, m.clk)
	opts.Tracker, opts.CacheBytes, opts.stageBytes, opts.slotStep = m.tracker, m.cache, testStageBytes, m.step
	opts.pendingBytes = testPendingBytes
	st, err := Open(opts)
	ok(t, err)
	m.st, m.tx = st, st.NewTx()
}

func cloneLists(lists map[string][]string) map[string][]string {
	c := map[string][]string{}
	for k, v := range lists {
		c[k] = slices.Clone(v)
	}
	return c
}

var slotKeys = []string{"slots1", "slots2", "plain"}

func (m *slotMachine) drawValue(t *rapid.T) string {
	digits := rapid.SampledFrom([]string{"0", "0", "1", "4", "f"})
	return fmt.Sprintf("%s%s%s-%d", digits.Draw(t, "first"), digits.Draw(t, "second"), digits.Draw(t, "third"), rapid.IntRange(0, 3).Draw(t, "value"))
}

func (m *slotMachine) list(t *rapid.T, key string) List {
	l, err := m.tx.DB(0).List([]byte(key))
	ok(t, err)
	return l
}

func (m *slotMachine) change(t *rapid.T) {
	key := rapid.SampledFrom(slotKeys).Draw(t, "key")
	list := m.next[key]
	l := m.list(t, key)
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0, 1, 2:
		end := End(rapid.IntRange(0, 3).Draw(t, "end") / 3)
		for range rapid.IntRange(1, 30).Draw(t, "pushes") {
			val := m.drawValue(t)
			ok(t, l.Push(end, []byte(val)))
			if end == Head {
				list = slices.Insert(list, 0, val)
			} else {
				list = append(list, val)
			}
		}
	case 3:
		end := End(rapid.IntRange(0, 1).Draw(t, "end"))
		for range rapid.IntRange(1, 10).Draw(t, "pops") {
			list = popAny(t, l, end, list)
		}
	case 4, 5, 6:
		list = m.popSlots(t, key, l, list)
	case 7:
		list = m.changeMiddle(t, l, list)
	case 8:
		if len(list) > 0 {
			start := rapid.IntRange(0, min(len(list)-1, 5)).Draw(t, "start")
			stop := rapid.IntRange(max(start, len(list)-5), len(list)-1).Draw(t, "stop")
			ok(t, l.Trim(int64(start), int64(stop)))
			list = slices.Clone(list[start : stop+1])
		}
	case 9:
		dst := rapid.SampledFrom(slotKeys).Draw(t, "dst")
		if len(list) > 0 && dst != key {
			ok(t, m.tx.DB(0).Rename([]byte(key), []byte(dst)))
			m.next[dst], list = list, nil
		}
	case 10:
		if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
			_, err := m.tx.DB(0).Delete([]byte(key))
			ok(t, err)
			list = nil
		}
	case 11:
		if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
			ok(t, m.tx.DB(0).Flush())
			clear(m.next)
			list = nil
		}
	}
	m.next[key] = list
}

func popAny(t *rapid.T, l List, end End, list []string) []string {
	got, found, err := l.Pop(end)
	ok(t, err)
	equal(t, "pop found", found, len(list) > 0)
	if !found {
		return nil
	}
	at := 0
	if end == Tail {
		at = len(list) - 1
	}
	equal(t, "pop", string(got), list[at])
	return slices.Delete(list, at, at+1)
}

// changeMiddle removes, inserts or replaces.
func (m *slotMachine) changeMiddle(t *rapid.T, l List, list []string) []string {
	if len(list) == 0 {
		return list
	}
	at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
	val := m.drawValue(t)
	switch rapid.IntRange(0, 3).Draw(t, "middle op") {
	case 0:
		v := modelValue{list: list}
		new(storeMachine).stepListRemove(t, l, &v)
		return v.list
	case 1:
		done, err := l.Set(int64(at), []byte(val))
		ok(t, err)
		equal(t, "set", done, true)
		list[at] = val
	default:
		at, before := slices.Index(list, list[at]), rapid.Bool().Draw(t, "before")
		_, err := l.Insert(before, []byte(list[at]), []byte(val))
		ok(t, err)
		if !before {
			at++
		}
		list = slices.Insert(list, at, val)
	}
	return list
}

// popSlots pops by slot: whatever slot has its turn, it is its element nearest to the tail, and there is none only if no slot of
// the range has one.
func (m *slotMachine) popSlots(t *rapid.T, key string, l List, list []string) []string {
	digits := m.tracker.SlotDigits(nil)
	last := slotsOf(digits) - 1
	r := SlotRange{uint16(rapid.IntRange(0, 4).Draw(t, "from")), uint16(last)}
	if to := rapid.IntRange(int(r.From), 6).Draw(t, "to"); to < 6 {
		r.To = uint16(to)
	}
	if key != "plain" {
		ok(t, l.ExpectSlots())
	}
	for range rapid.IntRange(1, 20).Draw(t, "pops") {
		within := func(val string) bool {
			slot := m.tracker.Slot([]byte(val), digits)
			return slot >= r.From && slot <= r.To
		}
		got, found, err := l.PopSlot(digits, r)
		for more := true; !found && more && err == nil; {
			if more, err = l.ExtendSlots(); err == nil {
				got, found, err = l.PopSlot(digits, r)
			}
		}
		ok(t, err)
		equal(t, fmt.Sprintf("found in %v", r), found, slices.ContainsFunc(list, within))
		if !found {
			break
		}
		val := string(got)
		at := len(list) - 1
		for ; at >= 0 && list[at][:digits] != val[:digits]; at-- {
		}
		if at < 0 || list[at] != val || !within(val) {
			t.Fatalf("popped %s from %v of %v", val, r, list)
		}
		list = slices.Delete(list, at, at+1)
		m.popped++
	}
	return list
}

// check compares every list, and its index with its elements.
func (m *slotMachine) check(t *rapid.T) {
	m.tx.Begin(m.st.All())
	defer m.tx.End()
	for _, key := range slotKeys {
		l := m.list(t, key)
		list := m.model[key]
		n, err := l.Len()
		ok(t, err)
		equal(t, "length of "+key, n, len(list))
		if n == 0 {
			continue
		}
		var got []string
		ok(t, l.Range(0, n-1, func(val []byte) { got = append(got, string(val)) }))
		equal(t, key, got, list)
		var elements, indexed []string
		from, digits := int64(math.MaxInt64), 1
		if x := l.o.list.slots; x != nil {
			from, digits = x.from, x.digits
		}
		ok(t, l.s.eachIndex(l.o, l.o.list.head, l.o.list.tail, Head, func(it listItem) bool {
			if it.index >= from {
				elements = append(elements, fmt.Sprint(m.tracker.Slot(it.val, digits), it.index, string(it.val)))
			}
			return true
		}))
		it, err := l.s.iterate(l.s.db, appendElementPrefix(nil, rowSlot, l.o.id), appendElementPrefix(nil, rowSlot, l.o.id+1))
		ok(t, err)
		for valid := it.First(); valid; valid = it.Next() {
			slot, index := slotOf(it.Key())
			indexed = append(indexed, fmt.Sprint(slot, index, string(it.Value())))
		}
		ok(t, l.s.finish(it))
		slices.Sort(elements)
		slices.Sort(indexed)
		equal(t, "the index of "+key, indexed, elements)
	}
}

// TestSlotModel draws transactions, some of them aborted, other numbers of digits, restarts and power losses.
func TestSlotModel(t *testing.T) {
	popped := 0
	rapid.Check(t, func(t *rapid.T) {
		m := &slotMachine{
			fs: vfs.NewCrashableMem(), clk: clock.NewManual(testStart), model: map[string][]string{},
			tracker: cutBy(rapid.IntRange(1, 3).Draw(t, "digits")),
			cache:   rapid.SampledFrom([]int{1, 8 << 10, 1 << 20}).Draw(t, "cache"),
			step:    rapid.SampledFrom([]int{3, 40, 1000}).Draw(t, "step"),
		}
		m.open(t)
		for range rapid.IntRange(1, 25).Draw(t, "transactions") {
			if rapid.IntRange(0, 7).Draw(t, "cut anew") == 0 {
				m.tracker.digits.Store(int32(rapid.IntRange(1, 3).Draw(t, "digits")))
			}
			m.next = cloneLists(m.model)
			m.tx.Begin(m.st.All())
			for range rapid.IntRange(1, 6).Draw(t, "steps") {
				m.change(t)
				ok(t, m.tx.Check())
			}
			if rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
				m.tx.Abort()
			} else {
				ok(t, m.tx.Commit())
				m.model = m.next
			}
			ok(t, m.st.Wait(m.tx.End()))
			m.check(t)
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				ok(t, m.st.Close())
				m.open(t)
			case 1:
				crashed := m.fs.CrashClone(vfs.CrashCloneCfg{})
				ok(t, m.st.Close())
				m.fs = crashed
				m.open(t)
			}
		}
		popped += m.popped
		m.check(t)
		ok(t, m.st.Close())
	})
	t.Logf("%d elements were popped by slot", popped)
}
