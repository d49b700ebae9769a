package shard

import (
	"bytes"
	"cmp"
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"codeq/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPlacer hashes keys over the shards; keys that begin with "part:" are partitioned, their kind by the
// letter that follows.
type testPlacer struct{ shards int }

func (p testPlacer) Place(_ int, key []byte) (Placement, error) {
	kinds := map[byte]Kind{'h': KindHash, 's': KindSet, 'z': KindZSet, 'l': KindList}
	if len(key) > 5 && string(key[:5]) == "part:" {
		return Placement{Partitioned: true, Kind: kinds[key[5]]}, nil
	}
	return Placement{Shard: p.Home(key)}, nil
}

func (p testPlacer) Partitioned(int) [][]byte {
	return [][]byte{[]byte("part:h"), []byte("part:s"), []byte("part:z"), []byte("part:l")}
}

func (p testPlacer) PartitionsGroups(int) bool { return false }

func (p testPlacer) GroupKeys([]byte) [][]byte { return nil }

func (p testPlacer) Abandoned(int, int, []byte, Former) ([][]byte, error) { return nil, nil }

func (p testPlacer) Home(element []byte) int {
	h := fnv.New32a()
	h.Write(element)
	return int(h.Sum32()>>3) % p.shards
}

// seeds is how many seeds a test of one goroutine runs with: n, or two in a short run, which is what the race detector gets.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return 2
	}
	return n
}

// rounds is how many rounds such a test has with each seed: n, or a quarter of them in a short run.
func rounds(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testOptions are those of a store of n shards on fs with a cache so small that most of what it read is gone
// at the next transaction.
func testOptions(fs vfs.FS, n int, clk clock.Clock) Options {
	names := []string{"default-0", "default-1", "default-2", "default-3"}
	return Options{
		Dir: "data", FS: fs, Names: names[:n], DefaultShards: n, Databases: 4, Placer: testPlacer{n}, Clock: clk,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Fsync: FsyncAlways,
		CacheBytes: 8 << 10, BlockCache: 8 << 20, MemtableBytes: 256 << 10, LogSegment: 64 << 10, LogMax: 512 << 10,
		ExpireInterval: 100, Random: rand.NewPCG(1, 2), Fatal: func(err error) { panic(err) },
	}
}

// openTest opens a store whose stages are so small that every test sees them turn, and with strings in chunks.
func openTest(t testing.TB, opts Options) *Store {
	t.Helper()
	opts.stageBytes, opts.pendingBytes = testStageBytes, testPendingBytes
	opts.namesLeast = cmp.Or(opts.namesLeast, 1)
	opts.stringBytes = cmp.Or(opts.stringBytes, testStringBytes)
	opts.chunkBits = cmp.Or(opts.chunkBits, testChunkBits)
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

const (
	testStageBytes   = 700
	testPendingBytes = 150
	testStringBytes  = 150
	testChunkBits    = 6
)

func closeTest(t testing.TB, st *Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDeletedRowsWait flushes what is popped from lists, and counts that no table is compacted for being made of tombstones.
func TestDeletedRowsWait(t *testing.T) {
	const lists, elements, rounds, pops = 10, 400, 10, 20
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	s, tx := st.shards[0], st.NewTx()
	change := func(fn func(List) error) {
		tx.Begin(st.All())
		for i := range lists {
			l, err := tx.DB(0).List(strconv.AppendInt(nil, int64(i), 10))
			if err == nil {
				err = fn(l)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(tx.Commit(), s.unstage(), s.db.Flush())
		tx.End()
		if err != nil {
			t.Fatal(err)
		}
	}
	change(func(l List) error {
		for range elements {
			if err := l.Push(Head, []byte("element")); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.db.Compact(t.Context(), nil, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		change(func(l List) error {
			for range pops {
				if _, ok, err := l.Pop(Tail); !ok || err != nil {
					return errors.Join(err, errors.New("nothing to pop"))
				}
			}
			return nil
		})
	}
	if n := s.db.Metrics().Compact.TombstoneDensityCount; n != 0 {
		t.Errorf("%d compactions were for tombstones' sake", n)
	}
}

// TestLongValuesStandApart flushes values of both kinds, finds the long ones in files of their own, and reads all of them when
// compactions have moved the keys and when the store has been opened again.
func TestLongValuesStandApart(t *testing.T) {
	const fields, rounds = 50, 3
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	value := func(length, round, field int) []byte {
		return bytes.Repeat([]byte{byte('a' + (round+field)%26)}, length)
	}
	write := func(key string, length, round int) pebble.Metrics {
		t.Helper()
		s, tx := st.shards[0], st.NewTx()
		tx.Begin(st.All())
		h, err := tx.DB(0).Hash([]byte(key))
		for field := 0; field < fields && err == nil; field++ {
			_, err = h.Set(strconv.AppendInt(nil, int64(field), 10), value(length, round, field))
		}
		if err := errors.Join(err, tx.Commit(), s.unstage(), s.db.Flush()); err != nil {
			t.Fatal(err)
		}
		tx.End()
		return *s.db.Metrics()
	}
	if m := write("short", apartBytes/2, 0); m.BlobFiles.LiveCount > 0 {
		t.Fatalf("short values are in %d files of their own", m.BlobFiles.LiveCount)
	}
	for round := range rounds {
		if m := write("long", apartBytes, round); m.BlobFiles.LiveCount == 0 || m.BlobFiles.ReferencedValueSize < fields*apartBytes {
			t.Fatalf("%d bytes of long values are in %d files of their own", m.BlobFiles.ReferencedValueSize, m.BlobFiles.LiveCount)
		}
	}
	check := func() {
		t.Helper()
		tx := st.NewTx()
		tx.Begin(st.All())
		defer tx.End()
		for key, want := range map[string]func(field int) []byte{
			"short": func(field int) []byte { return value(apartBytes/2, 0, field) },
			"long":  func(field int) []byte { return value(apartBytes, rounds-1, field) },
		} {
			h, err := tx.DB(0).Hash([]byte(key))
			if err != nil {
				t.Fatal(err)
			}
			for field := range fields {
				got, found, err := h.Get(strconv.AppendInt(nil, int64(field), 10))
				if err != nil || !found || !bytes.Equal(got, want(field)) {
					t.Fatalf("field %d of %s is %q, %v, %v", field, key, got, found, err)
				}
			}
		}
	}
	if err := st.shards[0].db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	closeTest(t, st)
	st = openTest(t, opts)
	check()
	closeTest(t, st)
}
