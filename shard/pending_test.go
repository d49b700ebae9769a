package shard

import (
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
	commitRow(t, tx, "key", strings.Repeat("v", testPendingBytes))
	for s.pending.bytes.Load() > 0 {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if val, _, staged := s.staged.get(systemKey("key")); !staged || len(val) != testPendingBytes {
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
