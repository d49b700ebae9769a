package shard

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/internal/clock"
)

// stats reads the store's counters.
func stats(st *Store) Stats {
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	return tx.Stats()
}

func TestLookupsAreCounted(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	db := tx.DB(0)
	here, twin, gone := []byte("here"), []byte("here"), []byte("gone")
	check := func(name string, hits, misses int64) {
		t.Helper()
		if got := tx.Stats(); got.Hits != hits || got.Misses != misses {
			t.Errorf("%s: %d hits and %d misses, want %d and %d", name, got.Hits, got.Misses, hits, misses)
		}
	}
	look := func(key []byte) {
		t.Helper()
		if _, err := db.Type(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Set(here, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	look(here)
	check("not counted", 0, 0)
	tx.CountLookups(true)
	look(here)
	look(here)
	check("one argument", 1, 0)
	look(twin)
	check("two arguments", 2, 0)
	look(gone)
	check("a missing key", 2, 1)
	tx.CountLookups(true)
	look(gone)
	check("the next command", 2, 2)
	part := []byte("part:h")
	hash, err := db.Hash(part)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := hash.Set(fmt.Appendf(nil, "field %d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	look(part)
	check("a partitioned key", 2, 3) // the first fragment was looked up before it was there
	tx.CountLookups(true)
	look(part)
	check("a partitioned key that is there", 3, 3)
	tx.CountLookups(false)
	look(here)
	check("not counted any more", 3, 3)
}

func TestExpiredKeysAreCounted(t *testing.T) {
	clk := clock.NewManual(testStart)
	st := openTest(t, testOptions(vfs.NewMem(), 1, clk))
	defer closeTest(t, st)
	st.SetActiveExpiry(false)
	tx := st.NewTx()
	begin := func() DB { tx.Begin(st.All()); return tx.DB(0) }
	db := begin()
	for i := range 10 {
		if err := db.Set(fmt.Appendf(nil, "%d", i), nil, clk.NowMs()+1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx.End()
	clk.Advance(2 * time.Second)
	for range 100 { // what the janitor would do, it could do now
		st.shards[0].wakeJanitor()
		runtime.Gosched()
	}

	for _, commit := range []bool{false, true} { // what is undone does not count
		db = begin()
		if found, err := db.Exists([]byte("1")); found || err != nil {
			t.Fatal(found, err)
		}
		if commit {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		tx.End()
	}
	db = begin()
	size, err := db.Size()
	if got := tx.Stats().Expired; got != 1 || size != 9 || err != nil {
		t.Errorf("%d keys expired, %d are left (%v); want 1 and 9", got, size, err)
	}
	tx.End()

	st.SetActiveExpiry(true)
	for stats(st).Expired < 10 {
		clk.Advance(time.Second)
		runtime.Gosched()
	}
	if got := stats(st).Expired; got != 10 {
		t.Errorf("%d keys expired, want 10", got)
	}
}

// TestSave checks that a save reaches the tables and cuts the log, and that what it has saved survives a loss of power.
func TestSave(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, 4, clock.NewManual(testStart))
	opts.Fsync = FsyncNo
	st := openTest(t, opts)
	tx := st.NewTx()
	for i := range 1000 {
		if err := commitBoth(st, tx, i+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Save(); err != nil {
		t.Fatal(err)
	}
	for _, s := range st.shards {
		n, err := s.durableNumber()
		if err != nil || n != s.state.number {
			t.Errorf("shard %s has commit %d in its tables (%v), want %d", s.name, n, err, s.state.number)
		}
	}
	// The commits take more than a segment.
	if after := st.log.size(); after > opts.LogSegment {
		t.Errorf("the log has %d bytes after the save, want one segment of %d at most", after, opts.LogSegment)
	}
	if err := commitBoth(st, tx, 1001); err != nil {
		t.Fatal(err)
	}
	saved := make(chan error, 1)
	st.SaveSoon(func(err error) { saved <- err })
	if err := <-saved; err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, st)

	opts.FS = crashed
	st = openTest(t, opts)
	defer closeTest(t, st)
	if a, b, listed := readBoth(t, st); a != 1001 || b != 1001 || listed != 1001 {
		t.Errorf("after the crash there is %d, %d and a list of %d, want 1001 each", a, b, listed)
	}
}

// TestSaveEndsWithTheStore checks that a save whose flushes fail does not keep the store from closing.
func TestSaveEndsWithTheStore(t *testing.T) {
	var full atomic.Bool
	tried := make(chan struct{}, 1)
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !full.Load() || op.Kind != errorfs.OpCreate || !isTable(op.Path) {
			return nil
		}
		select {
		case tried <- struct{}{}:
		default:
		}
		return errors.New("no space left on device")
	})
	opts := testOptions(errorfs.Wrap(vfs.NewMem(), injector), 1, clock.NewManual(testStart))
	opts.Fatal = func(error) {}
	st := openTest(t, opts)
	if err := commitBoth(st, st.NewTx(), 1); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	saved := make(chan error, 1)
	st.SaveSoon(func(err error) { saved <- err })
	<-tried
	_ = st.fail(errors.New("the disk is full"))
	if err := st.Close(); err == nil {
		t.Error("a failed store closed without an error")
	}
	if err := <-saved; !errors.Is(err, errClosing) {
		t.Errorf("the save ended with %v", err)
	}
	if err := st.Save(); err == nil {
		t.Error("a failed store was saved")
	}
}
