package shard

import (
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestBeginWithin: a shard that hangs costs those that are only busy no time, keeps nobody from those that are free meanwhile, and is
// not waited for later.
func TestBeginWithin(t *testing.T) {
	const hung, busy, patience = 0, 2, time.Second
	clk := clock.NewManual(testStart)
	st := openTest(t, testOptions(vfs.NewMem(), 4, clk))
	defer closeTest(t, st)
	hold := func(n int) *Tx {
		tx := st.NewTx()
		tx.Begin(MaskOf(n))
		return tx
	}
	hanging, working := hold(hung), hold(busy)
	tx, begun := st.NewTx(), make(chan struct{})
	go func() { // ends when the patience does
		tx.BeginWithin(st.All(), patience)
		close(begun)
	}()
	for !clk.Awaited(testStart.Add(patience)) {
		runtime.Gosched()
	}
	for n := range 4 {
		if n != hung && n != busy {
			hold(n).End() // nobody holds it
		}
	}
	working.End()
	for st.shards[busy].probes.Load() > 0 {
		runtime.Gosched()
	}
	clk.Advance(patience)
	<-begun
	if got, want := tx.Locked(), MaskOf(1, 2, 3); got != want {
		t.Errorf("locked are %v, want %v", got, want)
	}
	if _, err := tx.shard(hung); err != ErrBusy {
		t.Errorf("the shard that hangs: %v", err)
	}
	tx.End()
	hanging.End()
	tx.BeginWithin(st.All(), patience)
	if tx.Locked() != st.All() {
		t.Errorf("locked are %v of shards that are free", tx.Locked())
	}
	tx.End()
	tx.Begin(MaskOf(0))
	if _, err := tx.shard(1); err != nil || tx.partial {
		t.Errorf("a transaction of Begin: %v", err)
	}
	tx.End()
}
