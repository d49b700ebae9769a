package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestStager commits until the stager is woken, and waits until it has staged what there is, with nobody looking.
func TestStager(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	s, tx := st.shards[0], st.NewTx()
	tx.Begin(st.All()) // so nobody else looks
	defer tx.End()
	if err := errors.Join(tx.SetSystem("key", bytes.Repeat([]byte{'v'}, testPendingBytes)), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	for s.pending.bytes.Load() > 0 {
		runtime.Gosched()
	}
	if val, _, staged := s.staged.get(rowHash(systemKey("key")), systemKey("key")); !staged || len(val) != testPendingBytes {
		t.Errorf("%q is staged: %t", val, staged)
	}
}

// TestPendingOrder writes few rows over and over, by commits that are handed over, by such as are staged at once and by such as pass the
// stages, and looks for rows now and then: the last commit's must be there, whichever way it took, and in what is applied at last.
func TestPendingOrder(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	s, tx := st.shards[0], st.NewTx()
	rng := rand.New(rand.NewPCG(5, 6))
	model := map[string]string{}
	check := func(key string) {
		t.Helper()
		got, _, err := s.get(systemKey(key))
		if err != nil || string(got) != model[key] {
			t.Fatalf("%s: %.20q…, %v; want %.20q…", key, got, err, model[key])
		}
	}
	for i := range 5000 {
		key := fmt.Sprint(rng.IntN(5))
		model[key] = fmt.Sprint(i, strings.Repeat("v", []int{10, 100, pendingMost * testPendingBytes, testStageBytes}[rng.IntN(4)]))
		commitRow(t, tx, key, model[key])
		if rng.IntN(4) == 0 {
			s.mu.Lock()
			check(fmt.Sprint(rng.IntN(5)))
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unstage(); err != nil {
		t.Fatal(err)
	}
	for key, want := range model {
		check(key)
		val, closer, err := s.db.Get(systemKey(key))
		if err != nil || string(val) != want {
			t.Fatalf("%s is applied as %.20q…, %v; want %.20q…", key, val, err, want)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPendingList pops the elements of a list, more than its windows have, while all of its rows are pending.
func TestPendingList(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.stageBytes, opts.pendingBytes, opts.CacheBytes = 1<<20, 1<<20, 1<<20
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, st)
	const elements = 600
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	list, err := tx.DB(0).List([]byte("list"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range elements {
		if err := errors.Join(list.Push(Tail, fmt.Appendf(nil, "%0300d", i)), tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range elements {
		if st.shards[0].pending.bytes.Load() == 0 && i == 0 {
			t.Error("nothing is pending")
		}
		val, ok, err := list.Pop(Head)
		if err = errors.Join(err, tx.Commit()); err != nil || !ok || string(val) != fmt.Sprintf("%0300d", i) {
			t.Fatalf("element %d is %q, %t, %v", i, val, ok, err)
		}
	}
}

// TestPendingMarks hands over rows that are new and rows of which that is not known, by two commits that are staged together.
func TestPendingMarks(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	s, tx := st.shards[0], st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	s.stagePending()
	for n := range 3 { // the new row of each commit stands at another place
		for i := range 3 {
			if i == n {
				s.insert(systemKey(fmt.Sprint("new", n)), nil)
			}
			if err := tx.SetSystem(fmt.Sprint(n, i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	s.stagePending()
	for i := range s.staged.rows {
		row := &s.staged.rows[i]
		if key := string(s.staged.keyOf(row)); row.isNew != strings.HasPrefix(key, string(systemKey("new"))) {
			t.Errorf("%q is new: %t", key, row.isNew)
		}
	}
}

func systemKey(name string) []byte { return append([]byte{rowSystem}, name...) }

// commitRow commits a row that is not cached.
func commitRow(t *testing.T, tx *Tx, name, val string) {
	t.Helper()
	tx.Begin(tx.store.All())
	err := errors.Join(tx.SetSystem(name, []byte(val)), tx.Commit())
	tx.End()
	if err != nil {
		t.Fatal(err)
	}
}
