package shard

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

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
	tx := st.NewTx()
	for i := 1; i <= 4000; i++ {
		if err := commitBoth(st, tx, i); err != nil {
			t.Fatal(err)
		}
	}
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
