package shard

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/internal/clock"
)

// TestFlushFailures checks that flushes which fail are not tried again for ever, and that the log still has everything.
func TestFlushFailures(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	var tries atomic.Int32
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpCreate && isTable(op.Path) {
			tries.Add(1)
			return errors.New("no space left on device")
		}
		return nil
	})
	clk := clock.NewManual(testStart)
	opts := testOptions(errorfs.Wrap(mem, injector), 2, clk)
	failed := make(chan struct{})
	var once sync.Once
	opts.Fatal = func(error) { once.Do(func() { close(failed) }) }
	st := openTest(t, opts)
	if err := commitBoth(st, st.NewTx(), 1); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	for _, s := range st.shards {
		if _, err := s.beginFlush(); err != nil {
			t.Fatal(err)
		}
	}
	for st.Err() == nil { // and not until it is told: they are tried on meanwhile
		clk.Advance(firstFlushPause)
		runtime.Gosched()
	}
	<-failed
	if err := st.Err(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the store's failure is %v", err)
	}
	if n := tries.Load(); n < maxFlushFailures || n > 2*(maxFlushFailures+1) {
		t.Errorf("tried %d times, want about %d a shard", n, maxFlushFailures)
	}
	if err := st.Close(); err == nil {
		t.Error("a failed store closed without an error")
	}

	full.Store(false)
	opts.FS = mem
	st = openTest(t, opts)
	defer closeTest(t, st)
	if a, b, listed := readBoth(t, st); a != 1 || b != 1 || listed != 1 {
		t.Errorf("after the start there is %d, %d and a list of %d, want 1 each", a, b, listed)
	}
}
