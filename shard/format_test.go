package shard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/internal/clock"
)

// crashImages runs do on the file system and returns what kill -9 and power loss would have left before each of its
// operations that change something. Power loss takes all that was not fsynced: Pebble itself relies on a directory's entries
// becoming durable in their order.
func crashImages(fs *vfs.MemFS, do func(vfs.FS)) (images []*vfs.MemFS) {
	var mu sync.Mutex
	do(errorfs.Wrap(lockApartFS{fs, &mu}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			rnd := rand.New(rand.NewPCG(uint64(len(images)), 0))
			for _, kept := range []int{0, 100} { // of what was not fsynced; after kill -9 all of it is there
				images = append(images, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rnd}))
			}
		}
		return nil
	})))
	if testing.Short() { // a third of them, of either kind
		third := images[:0]
		for i := 0; i < len(images); i += 3 {
			third = append(third, images[i])
		}
		images = third
	}
	return images
}

// lockApartFS locks files while mu is held, and so no image is taken meanwhile: MemFS.Lock takes MemFS' own lock for reading twice, and
// waits for ever if CrashClone asks for it in between.
type lockApartFS struct {
	vfs.FS
	mu *sync.Mutex
}

func (fs lockApartFS) Lock(name string) (io.Closer, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.FS.Lock(name)
}

// TestCreationIsCrashSafe crashes a server at every step of its first start, and of a start that adds a shard: the next start
// completes what was begun, and loses nothing.
func TestCreationIsCrashSafe(t *testing.T) {
	fs := vfs.NewCrashableMem()
	optionsOn := func(fs vfs.FS, shards int) Options {
		o := testOptions(fs, shards, clock.NewManual(testStart))
		o.DefaultShards, o.Placer = 2, testPlacer{2}
		return o
	}
	first := crashImages(fs, func(fs vfs.FS) { closeTest(t, openTest(t, optionsOn(fs, 2))) })
	for i, image := range first {
		st := openTest(t, optionsOn(image, 2))
		if err := commitBoth(st, st.NewTx(), 1); err != nil {
			t.Fatalf("image %d: %v", i, err)
		}
		closeTest(t, st)
	}

	st := openTest(t, optionsOn(fs, 2))
	if err := commitBoth(st, st.NewTx(), 1); err != nil {
		t.Fatal(err)
	}
	closeTest(t, st)
	added := crashImages(fs, func(fs vfs.FS) { closeTest(t, openTest(t, optionsOn(fs, 3))) })
	for _, image := range added {
		for range 2 {
			st := openTest(t, optionsOn(image, 3))
			if a, b, listed := readBoth(t, st); a != 1 || b != 1 || listed != 1 {
				t.Fatalf("after the start there is %d, %d and a list of %d, want 1 each", a, b, listed)
			}
			closeTest(t, st)
		}
	}
	t.Logf("%d and %d crashes", len(first), len(added))
}

// TestOpenRefusesMissingParts takes a part of the data directory away. Starting without it would lose its data without a word,
// so the start fails, also the next time, and works again when the part is back.
func TestOpenRefusesMissingParts(t *testing.T) {
	tests := []struct {
		name, part string
		emptied    bool
		reason     string
	}{
		{"a shard", "shards/default-1", false, "default-1 is missing"},
		{"all shards", "shards", false, "default-0 is missing"},
		{"the log", "log", false, "log is missing"},
		{"FORMAT", "FORMAT", false, "FORMAT is missing"},
		{"a shard's files", "shards/default-1", true, "default-1 is missing or empty"},
		{"the log's files", "log", true, "log has no segment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			opts := testOptions(fs, 2, clock.NewManual(testStart))
			st := openTest(t, opts)
			if err := commitBoth(st, st.NewTx(), 1); err != nil {
				t.Fatal(err)
			}
			closeTest(t, st)
			part := "data/" + tt.part
			if err := fs.Rename(part, "aside"); err != nil {
				t.Fatal(err)
			}
			if tt.emptied {
				if err := fs.MkdirAll(part, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			wantRefused(t, opts, tt.reason)
			if _, err := fs.Stat(part); (err == nil) != tt.emptied {
				t.Errorf("the failed start left %s: %v", part, err)
			}
			if err := fs.RemoveAll(part); err != nil {
				t.Fatal(err)
			}
			if err := fs.Rename("aside", part); err != nil {
				t.Fatal(err)
			}
			st = openTest(t, opts)
			defer closeTest(t, st)
			if a, b, listed := readBoth(t, st); a != 1 || b != 1 || listed != 1 {
				t.Errorf("after the start there is %d, %d and a list of %d, want 1 each", a, b, listed)
			}
		})
	}
}

// wantRefused has the start fail, also the next time, with an error that tells the reason and what to do.
func wantRefused(t *testing.T, opts Options, reason string) {
	t.Helper()
	for range 2 {
		st, err := Open(opts)
		if err == nil {
			closeTest(t, st)
			t.Fatal("opened")
		}
		if !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "restore") {
			t.Fatalf("error %q lacks %q or what to do", err, reason)
		}
	}
}

// TestOpenRefusesAnOlderLog puts the log's files of some time ago in the place of the later ones, as a backup that was taken in parts does.
func TestOpenRefusesAnOlderLog(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 2, clock.NewManual(testStart))
	st := openTest(t, opts)
	for n := range 2 {
		if err := commitBoth(st, st.NewTx(), n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if _, err := vfs.Clone(fs, fs, "data/log", "older"); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeTest(t, st)
	for _, move := range [][2]string{{"data/log", "newer"}, {"older", "data/log"}} {
		if err := fs.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	wantRefused(t, opts, "the log ends at 1")
	if err := errors.Join(fs.RemoveAll("data/log"), fs.Rename("newer", "data/log")); err != nil {
		t.Fatal(err)
	}
	closeTest(t, openTest(t, opts))
}

// rewriteFormat makes the closed data directory one that was made with the version.
func rewriteFormat(t *testing.T, opts Options, version int) {
	t.Helper()
	st := openTest(t, opts)
	for _, s := range st.shards {
		s.mu.Lock() // the janitor reads, too
		raw, _, err := s.get([]byte{rowIdentity})
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		var id identity
		if err := json.Unmarshal(raw, &id); err != nil {
			t.Fatal(err)
		}
		id.Version = version
		if raw, err = json.Marshal(id); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.db.Set([]byte{rowIdentity}, raw, pebble.NoSync), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	f, err := st.openFormat()
	if err != nil {
		t.Fatal(err)
	}
	f.Version = version
	if err := st.writeFormat(f); err != nil {
		t.Fatal(err)
	}
	closeTest(t, st)
}

// TestOpenUpgradesFormat opens a directory of the oldest format that is read, which keeps its data and becomes one of the
// newest.
func TestOpenUpgradesFormat(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 2, clock.NewManual(testStart))
	st := openTest(t, opts)
	if err := commitBoth(st, st.NewTx(), 1); err != nil {
		t.Fatal(err)
	}
	closeTest(t, st)
	rewriteFormat(t, opts, oldestFormat)
	for range 2 {
		st := openTest(t, opts)
		if a, b, listed := readBoth(t, st); a != 1 || b != 1 || listed != 1 {
			t.Fatalf("after the start there is %d, %d and a list of %d, want 1 each", a, b, listed)
		}
		if f, err := st.openFormat(); err != nil || f.Version != formatVersion {
			t.Fatalf("after the start the format is %d: %v", f.Version, err)
		}
		closeTest(t, st)
	}
}

// TestOldFormatHasNoKeyPatterns opens a directory of the oldest format with key patterns, which it was made without.
func TestOldFormatHasNoKeyPatterns(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	closeTest(t, openTest(t, opts))
	rewriteFormat(t, opts, oldestFormat)
	opts.KeyPatterns = []string{"bull:{queue}:*"}
	if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), `the key patterns [] put them, the configuration has ["bull:{queue}:*"]`) {
		t.Fatalf("opened with error %v", err)
	}
}

// TestOpenRefusesMissingTable removes a table of a shard.
func TestOpenRefusesMissingTable(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 2, clock.NewManual(testStart))
	st := openTest(t, opts)
	if err := commitBoth(st, st.NewTx(), 1); err != nil {
		t.Fatal(err)
	}
	closeTest(t, st)
	dir := "data/shards/default-1"
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, name := range names {
		if isTable(name) {
			removed++
			if err := fs.Remove(fmt.Sprint(dir, "/", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st, err := Open(opts); err == nil {
		closeTest(t, st)
		t.Fatalf("opened without %d tables", removed)
	} else if !strings.Contains(err.Error(), "default-1") {
		t.Fatal(err)
	}
}

// TestOpenRefusesMissingValues removes, and cuts, one of two files that hold long values, with the files of no use that a crash may leave, and puts it back.
func TestOpenRefusesMissingValues(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	for i := range 2 {
		tx := st.NewTx()
		tx.Begin(st.All())
		h, err := tx.DB(0).Hash([]byte("hash"))
		for field := 0; field < 50 && err == nil; field++ {
			_, err = h.Set(fmt.Append(nil, i, field), bytes.Repeat([]byte{'v'}, apartBytes))
		}
		if err := errors.Join(err, tx.Commit(), st.shards[0].unstage(), st.shards[0].db.Flush()); err != nil {
			t.Fatal(err)
		}
		tx.End()
	}
	closeTest(t, st)
	dir := "data/shards/default-0"
	names, err := fs.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, valuesSuffix) })
	if err != nil || len(names) < 2 {
		t.Fatalf("%d files of values, %v", len(names), err)
	}
	path := fs.PathJoin(dir, names[0])
	kept := logTestRead(t, fs, path)
	refused := func(what string) {
		t.Helper()
		if st, err := Open(opts); err == nil {
			closeTest(t, st)
			t.Fatalf("opened %s", what)
		} else if !strings.Contains(err.Error(), dir+" has ") || !strings.Contains(err.Error(), "restore the whole data directory") {
			t.Fatal(err)
		}
	}
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("without a file")
	logTestWrite(t, fs, path, kept[:len(kept)-1])
	refused("with a file that is cut")
	logTestWrite(t, fs, path, kept)
	logTestWrite(t, fs, fs.PathJoin(dir, "900000"+valuesSuffix), []byte("of a compaction that a crash has cut off"))
	closeTest(t, openTest(t, opts))
}

// TestOpenRefusesOtherKeyPatterns opens a directory with patterns other than those that it was made with.
func TestOpenRefusesOtherKeyPatterns(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	opts.KeyPatterns = []string{"bull:{queue}:*", "bq:{queue}:*"}
	closeTest(t, openTest(t, opts))
	for _, other := range [][]string{nil, {"bull:{queue}:*"}, {"bq:{queue}:*", "bull:{queue}:*"}, {"bull:{queue}:*", "bq:{queue}:*", "rq:{x}"}} {
		opts.KeyPatterns = other
		st, err := Open(opts)
		if err == nil {
			closeTest(t, st)
			t.Fatalf("opened with %q", other)
		}
		want := `the key patterns ["bull:{queue}:*" "bq:{queue}:*"] put them, the configuration has ` + fmt.Sprintf("%q", other)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set key-patterns") {
			t.Errorf("error %q lacks %q or what to do", err, want)
		}
	}
	opts = testOptions(fs, 2, clock.NewManual(testStart))
	opts.DefaultShards, opts.KeyPatterns = 1, []string{"bull:{queue}:*", "bq:{queue}:*"}
	closeTest(t, openTest(t, opts)) // a shard more
	closeTest(t, openTest(t, opts))
}

// lookFS calls looked before each look at a file of values.
type lookFS struct {
	vfs.FS
	looked func()
}

func (fs lookFS) Stat(name string) (vfs.FileInfo, error) {
	if strings.HasSuffix(name, valuesSuffix) {
		fs.looked()
	}
	return fs.FS.Stat(name)
}

// TestValuesGoDuringTheCheck has files of values become of no use, and go, while they are looked at.
func TestValuesGoDuringTheCheck(t *testing.T) {
	looked := func() {}
	opts := testOptions(lookFS{vfs.NewMem(), func() { looked() }}, 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	defer closeTest(t, st)
	s := st.shards[0]
	write := func(fn func(h Hash) error) {
		tx := st.NewTx()
		tx.Begin(st.All())
		defer tx.End()
		h, err := tx.DB(0).Hash([]byte("hash"))
		if err == nil {
			err = fn(h)
		}
		if err := errors.Join(err, tx.Commit(), s.unstage(), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	write(func(h Hash) error {
		_, err := h.Set([]byte("f"), bytes.Repeat([]byte{'v'}, apartBytes))
		return err
	})
	looked = func() {
		looked = func() {}
		write(func(h Hash) error {
			_, err := h.Delete([]byte("f"))
			return err
		})
		if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
			t.Fatal(err)
		}
		for live := s.db.Metrics().BlobFiles; live.LiveCount+live.ZombieCount+live.ObsoleteCount > 0; live = s.db.Metrics().BlobFiles {
			runtime.Gosched() // until they are gone, or the test's time is over
		}
	}
	if err := s.checkValues("data/shards/default-0"); err != nil {
		t.Error(err)
	}
}
