package shard

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestDiskLow has a disk fill and empty, and the limit change: the store tells when it is looked at, each second.
func TestDiskLow(t *testing.T) {
	fs := vfs.NewMem()
	room := func(bytes uint64) { fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1000}) }
	room(100)
	clk := clock.NewManual(testStart)
	opts := testOptions(fs, 1, clk)
	opts.DiskLimit = 100
	st := openTest(t, opts)
	defer closeTest(t, st)
	want := func(low bool, free int64) {
		t.Helper()
		if st.DiskLow() != low || st.DiskFree() != free {
			t.Errorf("low is %t with %d bytes, want %t with %d", st.DiskLow(), st.DiskFree(), low, free)
		}
	}
	want(false, 100)
	pass := func(free int64) {
		for st.DiskFree() != free {
			clk.Advance(diskInterval)
			runtime.Gosched() // until the watcher has looked, or the test's time is over
		}
	}
	room(99)
	want(false, 100)
	pass(99)
	want(true, 99)
	st.SetDiskLimit(99)
	want(false, 99)
	st.SetDiskLimit(1 << 40)
	want(true, 99)
	st.SetDiskLimit(0)
	want(false, 99)
	st.SetDiskLimit(100)
	room(0)
	pass(0)
	want(true, 0)
	fs.TestingSetDiskUsage(vfs.DiskUsage{UsedBytes: 1}) // of a file system that has no size
	pass(-1)
	want(false, -1)
	room(100)
	pass(100)
	want(false, 100)
}

// TestLogIsShortOnALowDisk writes less than the log may hold, on a disk that is nearly full: all but two segments of it go.
func TestLogIsShortOnALowDisk(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 40})
	opts := testOptions(fs, 4, clock.NewManual(testStart))
	opts.Fsync, opts.MemtableBytes, opts.LogMax = FsyncEverySec, 64<<20, 1<<30
	st := openTest(t, opts)
	defer closeTest(t, st)
	commitMany(t, st, 4000)
	if st.log.size() < 4*opts.LogSegment {
		t.Fatalf("the test's log has %d bytes only", st.log.size())
	}
	st.SetDiskLimit(2 << 30)
	for st.log.size() > 3*opts.LogSegment {
		runtime.Gosched() // until it is cut, or the test's time is over
	}
}

// TestDiskThatDoesNotTell is never low.
func TestDiskThatDoesNotTell(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.DiskLimit = 1 << 40
	st := openTest(t, opts)
	if st.DiskLow() || st.DiskFree() != -1 {
		t.Errorf("low is %t, with %d bytes", st.DiskLow(), st.DiskFree())
	}
	closeTest(t, st)
}

// TestLowDiskIsCleared deletes all that there is, on a disk that is nearly full: the files that held it go, though Pebble alone would leave them.
func TestLowDiskIsCleared(t *testing.T) {
	fs := vfs.NewMem()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 40})
	clk := clock.NewManual(testStart)
	opts := testOptions(fs, 2, clk)
	st := openTest(t, opts)
	defer closeTest(t, st)
	key := func(i int) []byte { return fmt.Append(nil, "key", i) }
	commit := func(fn func(d DB, i int) error) {
		t.Helper()
		tx := st.NewTx()
		for i := range 200 {
			tx.Begin(st.All())
			if err := errors.Join(fn(tx.DB(0), i), tx.Commit()); err != nil {
				t.Fatal(err)
			}
			tx.End()
		}
		if err := st.Save(); err != nil {
			t.Fatal(err)
		}
	}
	commit(func(d DB, i int) error {
		h, err := d.Hash(key(i))
		if err == nil {
			_, err = h.Set([]byte("f"), bytes.Repeat([]byte{byte(i)}, 2*apartBytes))
		}
		return err
	})
	commit(func(d DB, i int) error {
		_, err := d.Delete(key(i))
		return err
	})
	files := func() (values uint64) {
		for _, s := range st.shards {
			values += s.db.Metrics().BlobFiles.LiveCount
		}
		return values
	}
	if files() == 0 {
		t.Fatal("there is nothing to clear")
	}
	st.SetDiskLimit(2 << 30)
	for files() > 0 {
		clk.Advance(diskInterval)
		runtime.Gosched() // until they are gone, or the test's time is over
	}
}

// TestCompactionsLeaveRoom: a compaction fails when an eighth of the limit is not left, and the next one waits for a pause to be over.
func TestCompactionsLeaveRoom(t *testing.T) {
	fs, clk := vfs.NewMem(), clock.NewManual(testStart)
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 40})
	opts := testOptions(fs, 1, clk)
	opts.DiskLimit = 800
	st := openTest(t, opts)
	defer closeTest(t, st)
	s := st.shards[0]
	for i := range 2 {
		if err := errors.Join(commitBoth(st, st.NewTx(), i), s.unstage(), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 99, TotalBytes: 1 << 40})
	compact := func() error { return s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false) }
	if err := compact(); !errors.Is(err, errDiskSpent) {
		t.Fatalf("a compaction without room: %v", err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 40})
	ended := make(chan error)
	go func() { ended <- compact() }() // waited for below
	for waited := time.Duration(0); ; {
		select {
		case err := <-ended:
			if err != nil || waited < firstCompactionPause {
				t.Errorf("a compaction with room, %v after one that failed: %v", waited, err)
			}
			return
		default:
			if clk.Awaited(clk.Now().Add(compactionInterval)) {
				clk.Advance(compactionInterval)
				waited += compactionInterval
			}
			runtime.Gosched() // until it has ended, or the test's time is over
		}
	}
}

// TestLargeCommitOnALowDisk: a transaction that would take a third of what is free is refused, and leaves nothing.
func TestLargeCommitOnALowDisk(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	defer closeTest(t, st)
	set := func(free uint64) error {
		fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 40})
		st.SetDiskLimit(1 << 30)
		tx := st.NewTx()
		tx.Begin(st.All())
		defer tx.End()
		return errors.Join(tx.DB(0).Set([]byte("k"), bytes.Repeat([]byte{'x'}, largeOnLowDisk), 0), tx.Commit())
	}
	if err := set(3 * largeOnLowDisk); !errors.Is(err, ErrNoRoom) {
		t.Errorf("without room: %v", err)
	}
	if err := set(4 * largeOnLowDisk); err != nil {
		t.Errorf("with room: %v", err)
	}
	if err := set(1 << 30); err != nil {
		t.Errorf("on a disk that is not low: %v", err)
	}
}
