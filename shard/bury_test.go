package shard

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

const (
	buriedNames    = 40
	buriedNameSize = 200 << 10
	// buriedRecord is what no record of the log exceeds in the tests below: a collection has 8 MB of names.
	buriedRecord = 3 << 20
)

// buriedCollections makes, at keys of one shard, collections with few but very long names, and a string as long, each element by a commit of its own.
func buriedCollections(t *testing.T, st *Store, tx *Tx) (keys [][]byte) {
	t.Helper()
	adds := map[string]func(d DB, key, name []byte) error{
		"hash": func(d DB, key, name []byte) error {
			h, err := d.Hash(key)
			if err == nil {
				_, err = h.Set(name, []byte("value"))
			}
			return err
		},
		"set": func(d DB, key, name []byte) error {
			s, err := d.SetOf(key)
			if err == nil {
				_, err = s.Add(name)
			}
			return err
		},
		"string": func(d DB, key, name []byte) error {
			s, err := d.StringOf(key)
			if err == nil {
				err = s.Write(s.Len(), name)
			}
			return err
		},
		"zset": func(d DB, key, name []byte) error {
			z, err := d.ZSet(key)
			if err == nil {
				_, err = z.Set(name, 1)
			}
			return err
		},
	}
	for kind, add := range adds {
		keys = append(keys, []byte(kind))
		for i := range buriedNames {
			tx.Begin(st.All())
			name := fmt.Sprint(i, strings.Repeat("n", buriedNameSize))
			if err := add(tx.DB(0), []byte(kind), []byte(name)); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx.End()
		}
	}
	return keys
}

// TestBuryIsBounded removes collections with long names in every way there is. The names don't get into one transaction, which
// they could exceed, and in the end nothing of them is left.
func TestBuryIsBounded(t *testing.T) {
	ways := map[string]func(d DB, key []byte) error{
		"delete": func(d DB, key []byte) error { _, err := d.Delete(key); return err },
		"set":    func(d DB, key []byte) error { return d.Set(key, []byte("value"), 0) },
		"rename": func(d DB, key []byte) error { return d.Rename([]byte("other"), key) },
		"expire": func(d DB, key []byte) error { _, err := d.SetExpireAt(key, d.Now()+1); return err },
		"flush":  func(d DB, _ []byte) error { return d.Flush() },
	}
	if testing.Short() { // the others end in the same graves
		maps.DeleteFunc(ways, func(name string, _ func(DB, []byte) error) bool { return name != "flush" })
	}
	for name, remove := range ways {
		for _, cache := range []int{8 << 10, 256 << 20} {
			t.Run(fmt.Sprintf("%s/cache %d", name, cache), func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				clk := clock.NewManual(testStart)
				opts := testOptions(fs, 1, clk)
				opts.CacheBytes, opts.LogSegment, opts.LogMax, opts.MemtableBytes = cache, 1<<30, 1<<30, 64<<20
				opts.chunkBits = chunkBits
				st := openTest(t, opts)
				tx := st.NewTx()
				for _, key := range buriedCollections(t, st, tx) {
					tx.Begin(st.All())
					if err := tx.DB(0).Set([]byte("other"), []byte("value"), 0); err != nil {
						t.Fatal(err)
					}
					if err := remove(tx.DB(0), key); err != nil {
						t.Fatal(err)
					}
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					tx.End()
				}
				for leftRows(t, st) {
					clk.Advance(1e8)
					runtime.Gosched() // until the janitor has cleared them, or the test's time is over
				}
				if err := st.log.sync(); err != nil {
					t.Fatal(err)
				}
				greatest := greatestRecord(t, fs)
				closeTest(t, st)
				if greatest > buriedRecord {
					t.Errorf("a record has %d bytes", greatest)
				}
			})
		}
	}
}

// leftRows tells whether there are rows of elements, or graves.
func leftRows(t *testing.T, st *Store) bool {
	t.Helper()
	s := st.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unstage(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []byte{rowElement, rowScore, rowSlot, rowDead, rowDeadKeyspace} {
		it, err := s.iterate(s.db, []byte{row}, []byte{row + 1})
		if err != nil {
			t.Fatal(err)
		}
		found := it.First()
		if err := s.finish(it); err != nil {
			t.Fatal(err)
		}
		if found {
			return true
		}
	}
	return false
}

// greatestRecord is the length of the longest batch in the log.
func greatestRecord(t *testing.T, fs *vfs.MemFS) (greatest int) {
	t.Helper()
	image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
	log, err := openLog(logOptions{FS: image, Dir: "data/log", Policy: FsyncNo, Logger: slog.New(slog.DiscardHandler)}, func(parts []logPart) error {
		for _, p := range parts {
			n, err := p.full()
			if err != nil {
				return err
			}
			greatest = max(greatest, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	return greatest
}
