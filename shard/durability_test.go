package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/internal/clock"
)

// commitBoth writes i to a key on each of two shards, pushes it on a list, appends it to a text, and commits.
func commitBoth(st *Store, tx *Tx, i int) error {
	tx.Begin(st.All())
	d := tx.DB(0)
	for _, key := range []string{"a", "b"} {
		if err := d.Set([]byte(key), fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 200)), 0); err != nil {
			return err
		}
	}
	l, err := d.List([]byte("list"))
	if err == nil {
		err = l.Push(Tail, strconv.AppendInt(nil, int64(i), 10))
	}
	if err == nil {
		var text String
		if text, err = d.StringOf([]byte("text")); err == nil {
			err = text.Write(text.Len(), fmt.Appendf(nil, textLine, i))
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		tx.End()
		return err
	}
	return st.Wait(tx.End())
}

// textLine is how commitBoth appends a number.
const textLine = "line %7d\n"

// readBoth returns what commitBoth left: the two keys' numbers and the list's length, after checking that the
// list and the text have every number in order.
func readBoth(t *testing.T, st *Store) (a, b, listed int) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	d := tx.DB(0)
	number := func(key string) int {
		val, found, err := d.Get([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			return 0
		}
		n, err := strconv.Atoi(strings.Fields(string(val))[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l, err := d.List([]byte("list"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.Len()
	if err != nil {
		t.Fatal(err)
	}
	err = l.Range(0, n-1, func(val []byte) {
		if listed++; string(val) != strconv.Itoa(listed) {
			t.Fatalf("element %d of the list is %q", listed, val)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range listed {
		want = fmt.Appendf(want, textLine, i+1)
	}
	if text, _, err := d.Get([]byte("text")); err != nil || !bytes.Equal(text, want) {
		t.Fatalf("the text of %d numbers is %q: %v", listed, text, err)
	}
	return number("a"), number("b"), listed
}

func TestKeysOfDurabilityTestsAreApart(t *testing.T) {
	p := testPlacer{4}
	if p.Home([]byte("a")) == p.Home([]byte("b")) {
		t.Fatal("a and b must be on different shards for the tests below to mean anything")
	}
}

// TestPowerLoss commits transactions over shards, syncs the log now and then as the everysec ticker does, and
// loses power with any part of what was not synced. Everything up to the last sync must be there, and every
// transaction whole or absent. Memtables are small, so that tables are flushed ahead of the log's ticks.
func TestPowerLoss(t *testing.T) {
	for _, policy := range []FsyncPolicy{FsyncAlways, FsyncEverySec, FsyncNo} {
		for seed := range seeds(12) {
			t.Run(fmt.Sprintf("policy %d/seed %d", policy, seed), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				fs := vfs.NewCrashableMem()
				opts := testOptions(fs, 4, clock.NewManual(testStart))
				opts.Fsync, opts.MemtableBytes = policy, 32<<10
				done, safe := 0, 0
				for range 4 {
					st := openTest(t, opts)
					tx := st.NewTx()
					for range rnd.IntN(400) {
						done++
						if err := commitBoth(st, tx, done); err != nil {
							t.Fatal(err)
						}
						if policy == FsyncAlways {
							safe = done
						} else if rnd.IntN(50) == 0 {
							if err := st.log.sync(); err != nil {
								t.Fatal(err)
							}
							safe = done
						}
					}
					crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
					closeTest(t, st)
					fs = crashed
					opts.FS = fs
					st = openTest(t, opts)
					a, b, listed := readBoth(t, st)
					if a != b || a != listed {
						t.Fatalf("torn: a %d, b %d, list %d", a, b, listed)
					}
					if a < safe || a > done {
						t.Fatalf("%d after the power loss, want %d … %d", a, safe, done)
					}
					done = a
					closeTest(t, st)
					safe = done
				}
			})
		}
	}
}

// TestLogFailure injects a failure into the log's writes or fsyncs: the commit isn't acknowledged, nor is any
// later one, the server is told to end, once, and what was acknowledged is there after the next start.
func TestLogFailure(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			var armed atomic.Bool
			injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed.Load() && op.Kind == kind && strings.Contains(op.Path, "/log/") {
					return errors.New("injected")
				}
				return nil
			})
			opts := testOptions(errorfs.Wrap(mem, injector), 4, clock.NewManual(testStart))
			fatal := make(chan error, 2)
			opts.Fatal = func(err error) { fatal <- err }
			st := openTest(t, opts)
			tx := st.NewTx()
			for i := 1; i <= 10; i++ {
				if err := commitBoth(st, tx, i); err != nil {
					t.Fatal(err)
				}
			}
			armed.Store(true)
			failed := 0
			for i := 11; i <= 20; i++ {
				if err := commitBoth(st, tx, i); err != nil {
					failed++
				}
			}
			armed.Store(false)
			if failed != 10 {
				t.Fatalf("%d of 10 commits failed, want all", failed)
			}
			if err := commitBoth(st, tx, 21); err == nil {
				t.Fatal("a commit was acknowledged after the log had failed")
			}
			if err := <-fatal; !strings.Contains(err.Error(), "injected") || !errors.Is(st.Err(), err) {
				t.Fatalf("the server ends with %v, the store's failure is %v", err, st.Err())
			}
			crashed := mem.CrashClone(vfs.CrashCloneCfg{})
			if err := st.Close(); err == nil {
				t.Fatal("close says nothing of the failure")
			}
			if len(fatal) > 0 {
				t.Fatalf("the server was told to end again: %v", <-fatal)
			}
			opts.FS = crashed
			st = openTest(t, opts)
			defer closeTest(t, st)
			if a, b, listed := readBoth(t, st); a != b || a != listed || a < 10 || a > 11 {
				t.Fatalf("a %d, b %d, list %d, want 10 or 11 in all", a, b, listed)
			}
		})
	}
}

// TestFailureClosesTheLog fails the store behind the log, as an error after a commit does: from then on nothing gets into the
// log, since a shard's memory may not be what the log says.
func TestFailureClosesTheLog(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 4, clock.NewManual(testStart))
	fatal := make(chan error, 1)
	opts.Fatal = func(err error) { fatal <- err }
	st := openTest(t, opts)
	tx := st.NewTx()
	if err := commitBoth(st, tx, 1); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := st.fail(broken); err != broken {
		t.Fatal(err)
	}
	<-fatal
	if err := commitBoth(st, tx, 2); !errors.Is(err, broken) {
		t.Errorf("a commit after the failure: %v", err)
	}
	if err := st.Wait(0); !errors.Is(err, broken) {
		t.Errorf("a reply after the failure: %v", err)
	}
	if err := st.Close(); !errors.Is(err, broken) {
		t.Errorf("closed with %v", err)
	}
	opts.Fatal = func(err error) { panic(err) }
	st = openTest(t, opts)
	defer closeTest(t, st)
	if a, b, listed := readBoth(t, st); a != 1 || b != 1 || listed != 1 {
		t.Errorf("after the start there is %d, %d and a list of %d, want 1 each", a, b, listed)
	}
}

// commitMany commits 1 to n.
func commitMany(t *testing.T, st *Store, n int) {
	t.Helper()
	tx := st.NewTx()
	for i := 1; i <= n; i++ {
		if err := commitBoth(st, tx, i); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogIsTrimmedWithoutFlushes writes more than the log may hold into memtables that are far from full, on one shard of
// four: closing a segment of the log is enough for it to be cut.
func TestLogIsTrimmedWithoutFlushes(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 4, clock.NewManual(testStart))
	opts.Fsync, opts.MemtableBytes, opts.LogMax = FsyncEverySec, 64<<20, 128<<10
	st := openTest(t, opts)
	defer closeTest(t, st)
	commitMany(t, st, 4000)
	for st.log.size() > opts.LogMax+opts.LogSegment { // it is looked at when a segment is closed, and the next one grows behind that
		runtime.Gosched() // until it is cut, or the test's time is over
	}
}

// unlockableFS is one whose files can't be opened for writing.
type unlockableFS struct{ vfs.FS }

func (unlockableFS) Lock(name string) (io.Closer, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestOpenRefuses(t *testing.T) {
	base := func(fs vfs.FS) Options { return testOptions(fs, 2, clock.NewManual(testStart)) }
	tests := []struct {
		name   string
		spoil  func(t *testing.T, fs *vfs.MemFS, o *Options)
		hold   bool
		reason string
	}{
		{"in use", func(*testing.T, *vfs.MemFS, *Options) {}, true, "in use"},
		{"not writable", func(_ *testing.T, _ *vfs.MemFS, o *Options) { o.FS = unlockableFS{o.FS} }, false, "data can't be written: open data/LOCK: permission denied"},
		{"other shard count", func(_ *testing.T, _ *vfs.MemFS, o *Options) {
			*o = testOptions(o.FS, 4, o.Clock)
		}, false, "has 2 shards, the configuration says 4: start with --shards 2"},
		{"shard gone", func(_ *testing.T, _ *vfs.MemFS, o *Options) { o.Names = o.Names[:1] }, false, "named-shards"},
		{"shard renamed", func(_ *testing.T, _ *vfs.MemFS, o *Options) { o.Names = []string{"default-0", "other"} }, false, "keep the order"},
		{"format before", func(t *testing.T, fs *vfs.MemFS, _ *Options) {
			writeTestFile(t, fs, "data/FORMAT", `{"version":1,"default_shards":2,"names":["default-0","default-1"]}`)
		}, false, "has format 1, this server reads formats 2 to 5"},
		{"other format", func(t *testing.T, fs *vfs.MemFS, _ *Options) {
			writeTestFile(t, fs, "data/FORMAT", `{"version":99,"default_shards":2,"names":["default-0","default-1"]}`)
		}, false, "has format 99, this server reads formats 2 to 5"},
		{"damaged format", func(t *testing.T, fs *vfs.MemFS, _ *Options) { writeTestFile(t, fs, "data/FORMAT", "{") }, false, "FORMAT is not readable"},
		{"shards swapped", func(t *testing.T, fs *vfs.MemFS, _ *Options) {
			for _, mv := range [][2]string{{"default-0", "x"}, {"default-1", "default-0"}, {"x", "default-1"}} {
				if err := fs.Rename("data/shards/"+mv[0], "data/shards/"+mv[1]); err != nil {
					t.Fatal(err)
				}
			}
		}, false, "put each shard's files back"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			st := openTest(t, base(fs))
			if !tt.hold {
				closeTest(t, st)
			}
			opts := base(fs)
			tt.spoil(t, fs, &opts)
			again, err := Open(opts)
			if err == nil {
				closeTest(t, again)
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.reason) {
				t.Fatalf("error %q lacks %q", err, tt.reason)
			}
			if tt.hold {
				closeTest(t, st)
			}
		})
	}
}

func writeTestFile(t *testing.T, fs vfs.FS, path, content string) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLogIsTrimmed writes far more than the log may hold and sees it stay near its limit.
func TestLogIsTrimmed(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 4, clock.NewManual(testStart))
	opts.Fsync = FsyncEverySec
	st := openTest(t, opts)
	commitMany(t, st, 8000)
	closeTest(t, st)
	if size := st.log.size(); size > 2*opts.LogSegment {
		t.Fatalf("the log has %d bytes after a clean close, segments have %d", size, opts.LogSegment)
	}
}
