package shard

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestTooBigIsKnownEarly checks what a transaction counts of the rows that are encoded only when it commits, and that one which
// is too big is told so before, and leaves nothing.
func TestTooBigIsKnownEarly(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.stringBytes = 1 << 20
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx, key := st.NewTx(), []byte("k")
	tx.Begin(st.All())
	defer tx.End()
	value := make([]byte, 1000)
	for range 100 { // written again and again, and deleted in between
		if err := tx.DB(0).Set(key, value, 0); err != nil {
			t.Fatal(err)
		}
		text, err := tx.DB(0).StringOf(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := text.Write(int64(len(value)), value); err != nil {
			t.Fatal(err)
		}
		if want := len(key) + 2*len(value) + dirtyOverhead; tx.spent.unwritten != want {
			t.Fatalf("counts %d bytes, want %d", tx.spent.unwritten, want)
		}
		if _, err := tx.DB(0).Delete(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.DB(0).Set(key, value, 0); err != nil {
		t.Fatal(err)
	}
	if err := tx.Check(); err != nil {
		t.Fatal(err)
	}
	tx.spend(maxTransaction)
	if err := tx.Check(); !errors.Is(err, ErrTooBig) {
		t.Errorf("known before the commit: %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, ErrTooBig) {
		t.Errorf("committed: %v", err)
	}
	if exists, err := tx.DB(0).Exists(key); exists || err != nil || tx.Check() != nil || tx.spent.unwritten != 0 {
		t.Errorf("afterwards the key exists: %t, %v, %v, %d bytes", exists, err, tx.Check(), tx.spent.unwritten)
	}
}
