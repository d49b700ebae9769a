package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// spreadModel is a partitioned list as plain slices, one a shard, and whose turn it is.
type spreadModel struct {
	parts [][]string
	turn  int
}

// order is the whole list from the tail on: taken in turns.
func (m *spreadModel) order() (all []string) {
	for rank, found := 0, true; found; rank++ {
		found = false
		for i := range m.parts {
			if p := m.parts[(m.turn+i)%len(m.parts)]; rank < len(p) {
				all, found = append(all, p[len(p)-1-rank]), true
			}
		}
	}
	return all
}

// pop takes an element from an end of the whole.
func (m *spreadModel) pop(end End) (val string, ok bool) {
	all := m.order()
	if len(all) == 0 {
		return "", false
	}
	if end == Head {
		val = all[len(all)-1]
	} else {
		val = all[0]
	}
	for i, p := range m.parts {
		if end == Head && len(p) > 0 && p[0] == val {
			m.parts[i] = p[1:]
		}
		if end == Tail && len(p) > 0 && p[len(p)-1] == val {
			m.parts[i], m.turn = p[:len(p)-1], (i+1)%len(m.parts)
			return val, true
		}
	}
	return val, true
}

// TestSpreadListAgainstModel: a partitioned list answers as one list would that is taken in turns.
func TestSpreadListAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "shards")
		st := openForRapid(t, testOptions(vfs.NewMem(), n, clock.NewManual(testStart)))
		defer st.Close()
		m := &spreadModel{parts: make([][]string, n)}
		next := 0
		for range rapid.IntRange(1, 25).Draw(t, "transactions") {
			m.transaction(t, st, &next)
		}
	})
}

func (m *spreadModel) transaction(t *rapid.T, st *Store, next *int) {
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		list, err := tx.DB(0).List([]byte("part:l"))
		ok(t, err)
		m.step(t, st, list, next)
	}
	ok(t, tx.Commit())
}

func openForRapid(t *rapid.T, opts Options) *Store {
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (m *spreadModel) step(t *rapid.T, st *Store, list List, next *int) {
	home := func(val string) int { return st.placer.Home([]byte(val)) }
	all := m.order()
	fromHead := slices.Clone(all)
	slices.Reverse(fromHead)
	at := func() int64 { return rapid.Int64Range(0, int64(len(all))).Draw(t, "position") }
	fresh := func() string {
		*next++
		return fmt.Sprintf("e%d", *next)
	}
	switch rapid.IntRange(0, 8).Draw(t, "op") {
	case 0, 1, 2:
		val, end := fresh(), Head
		part := &m.parts[home(val)]
		if rapid.Bool().Draw(t, "tail") {
			end = Tail
			*part = append(*part, val)
		} else {
			*part = slices.Insert(*part, 0, val)
		}
		ok(t, list.Push(end, []byte(val)))
	case 3:
		end := End(rapid.IntRange(0, 1).Draw(t, "end"))
		val, found, err := list.Pop(end)
		ok(t, err)
		want, wantFound := m.pop(end)
		equal(t, "pop", []any{string(val), found}, []any{want, wantFound})
	case 4:
		i := at()
		val, found, err := list.Index(i)
		ok(t, err)
		if found != (int(i) < len(all)) || found && string(val) != fromHead[i] {
			t.Fatalf("index %d of %q is %q, %v", i, fromHead, val, found)
		}
	case 5:
		i, val := at(), fresh()
		found, err := list.Set(i, []byte(val))
		switch {
		case int(i) >= len(all):
			equal(t, "set", []any{found, err}, []any{false, error(nil)})
		case home(fromHead[i]) != home(val):
			equal(t, "set elsewhere", err, ErrOtherHome)
		default:
			ok(t, err)
			part := m.parts[home(val)]
			part[slices.Index(part, fromHead[i])] = val
		}
	case 6:
		m.stepInsertOrRemove(t, list, fromHead, home, fresh)
	case 7:
		start, stop := at(), at()
		ok(t, list.Trim(start, stop))
		for i, part := range m.parts {
			m.parts[i] = slices.DeleteFunc(part, func(val string) bool {
				pos := int64(slices.Index(fromHead, val))
				return pos < start || pos > stop
			})
		}
	}
	m.check(t, list)
}

func (m *spreadModel) stepInsertOrRemove(t *rapid.T, list List, fromHead []string, home func(string) int, fresh func() string) {
	pivot := "none"
	if len(fromHead) > 0 {
		pivot = rapid.SampledFrom(fromHead).Draw(t, "pivot")
	}
	part := &m.parts[home(pivot)]
	i := slices.Index(*part, pivot)
	if rapid.Bool().Draw(t, "remove") {
		n, err := list.Remove(0, []byte(pivot))
		ok(t, err)
		if i >= 0 {
			*part = slices.Delete(*part, i, i+1)
		}
		equal(t, "removed", n == 1, i >= 0)
		return
	}
	val, before := fresh(), rapid.Bool().Draw(t, "before")
	found, err := list.Insert(before, []byte(pivot), []byte(val))
	switch {
	case i < 0:
		equal(t, "insert", []any{found, err}, []any{false, error(nil)})
	case home(val) != home(pivot):
		equal(t, "insert elsewhere", err, ErrOtherHome)
	default:
		ok(t, err)
		if !before {
			i++
		}
		*part = slices.Insert(*part, i, val)
	}
}

func (m *spreadModel) check(t *rapid.T, list List) {
	want := m.order()
	slices.Reverse(want)
	n, err := list.Len()
	ok(t, err)
	equal(t, "len", int(n), len(want))
	if n == 0 {
		return
	}
	start := rapid.Int64Range(0, n-1).Draw(t, "start")
	stop := rapid.Int64Range(start, n-1).Draw(t, "stop")
	var got []string
	ok(t, list.Range(start, stop, func(val []byte) { got = append(got, string(val)) }))
	equal(t, "range", got, want[start:stop+1])
}

// TestSpreadListRemovesEqual: what equals an element is where it is, so LREM counts from the right end.
func TestSpreadListRemovesEqual(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		list, err := d.List([]byte("part:l"))
		if err != nil {
			return err
		}
		for _, val := range []string{"a", "b", "a", "c", "a"} {
			if err := list.Push(Head, []byte(val)); err != nil {
				return err
			}
		}
		n, err := list.Remove(-2, []byte("a"))
		if err != nil || n != 2 {
			return fmt.Errorf("removed %d, %w", n, err)
		}
		left, err := list.Len()
		if left != 3 {
			return fmt.Errorf("%d are left, %w", left, err)
		}
		return err
	})
}

// TestWaitSpreadList: a waiter for a partitioned list is served with the lock of the shard where an element came.
func TestWaitSpreadList(t *testing.T) {
	st := openWaiting(t)
	p := newPopper(t, st, "", "part:l").block()
	val := keyOn(st, 2, "val")
	tx := st.NewTx()
	tx.Begin(MaskOf(2))
	err := pushTo(tx.DB(0), "part:l", val)
	if err == nil {
		err = tx.Commit()
	}
	locked := tx.Locked()
	tx.End()
	if err != nil || locked != MaskOf(2) {
		t.Fatalf("the commit held %v, %v; want the lock of shard 2 alone", locked, err)
	}
	p.wantServed("part:l=" + val)
}

// TestNarrow: a narrowed transaction sees one fragment and takes one lock, while elements go home.
func TestNarrow(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	here, there := keyOn(st, 2, "here"), keyOn(st, 1, "there")
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		for _, val := range []string{here, there} {
			if err := pushTo(d, "part:l", val); err != nil {
				return err
			}
		}
		return nil
	})
	change(t, st, MaskOf(2), func(tx *Tx, d DB) error {
		defer d.NarrowTo(d.Narrow(2))
		list, err := d.List([]byte("part:l"))
		if err != nil {
			return err
		}
		n, err := list.Len()
		if n != 1 || err != nil {
			return fmt.Errorf("the fragment has %d, %w", n, err)
		}
		val, _, err := list.Pop(Tail)
		if string(val) != here || err != nil {
			return fmt.Errorf("popped %q, %w", val, err)
		}
		if exists, err := d.Exists([]byte("part:l")); exists || err != nil {
			return fmt.Errorf("the empty fragment exists: %v, %w", exists, err)
		}
		if tx.Locked() != MaskOf(2) {
			return fmt.Errorf("locks were taken besides: %v", tx.Locked())
		}
		set, err := d.SetOf([]byte("part:s"))
		if err == nil {
			_, err = set.Add([]byte(keyOn(st, 3, "above")))
		}
		if held := tx.Locked(); err == nil && !held.Has(3) {
			err = fmt.Errorf("the member was not put at its home")
		}
		return err
	})
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		list, err := d.List([]byte("part:l"))
		if err != nil {
			return err
		}
		if n, err := list.Len(); n != 1 || err != nil {
			return fmt.Errorf("%d are left, %w", n, err)
		}
		n, err := d.Size()
		if n != 2 {
			return fmt.Errorf("%d keys, %w", n, err)
		}
		return err
	})
}
