package shard

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"codeq/internal/clock"
)

// readFault is a store with one key of each kind on a disk whose reads of tables and of files of values can be made to fail. Every second
// value is so long that it stands apart from its key.
type readFault struct {
	t    *testing.T
	st   *Store
	left atomic.Int64 // reads until they fail; negative: they don't
}

var errUnreadable = errors.New("injected")

const faultElements = 60

func faultVal(i int) []byte {
	return fmt.Append(nil, i, strings.Repeat("x", i%2*200))
}

func faultField(i int) []byte { return fmt.Append(nil, "f", i) }

// open opens the store on what the file system has, with nothing in its caches.
func (f *readFault) open(fs vfs.FS) {
	f.left.Store(-1)
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		isRead := op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpFileRead
		isRead = isRead && (strings.HasSuffix(op.Path, ".sst") || strings.HasSuffix(op.Path, ".blob"))
		if !isRead || f.left.Load() < 0 || f.left.Add(-1) >= 0 {
			return nil
		}
		f.left.Store(0)
		return errUnreadable
	})
	opts := testOptions(errorfs.Wrap(fs, inject), 1, clock.NewManual(testStart))
	opts.CacheBytes, opts.stringBytes, opts.chunkBits = 8<<20, modelStringBytes, 12
	f.st = openTest(f.t, opts)
}

// faultKeys are the keys of a readFault.
type faultKeys struct {
	DB
	list   List
	hash   Hash
	set    Set
	zset   ZSet
	stream Stream
}

func keysOf(d DB) (k faultKeys, err error) {
	var errs [5]error
	k.DB = d
	k.list, errs[0] = d.List([]byte("list"))
	k.hash, errs[1] = d.Hash([]byte("hash"))
	k.set, errs[2] = d.SetOf([]byte("set"))
	k.zset, errs[3] = d.ZSet([]byte("zset"))
	k.stream, errs[4] = d.Stream([]byte("stream"))
	return k, errors.Join(errs[:]...)
}

// do runs a transaction, whose error it returns.
func (f *readFault) do(fn func(k faultKeys) error) error {
	tx := f.st.NewTx()
	tx.Begin(f.st.All())
	defer tx.End()
	k, err := keysOf(tx.DB(0))
	if err == nil {
		err = fn(k)
	}
	if err == nil {
		err = tx.Commit()
	}
	return err
}

func (f *readFault) fill(k faultKeys) error {
	long, err := k.StringOf([]byte("long"))
	if err == nil {
		err = errors.Join(long.Write(0, bytes.Repeat(faultVal(1), 200)), k.Set([]byte("string"), faultVal(1), 0))
	}
	for i := range faultElements {
		_, err1 := k.hash.Set(faultField(i), faultVal(i))
		_, err2 := k.set.Add(faultField(i))
		_, err3 := k.zset.Set(faultField(i), float64(i))
		err4 := k.stream.Add(StreamID{Ms: uint64(i + 1)}, [][]byte{[]byte("f"), faultVal(i)})
		err = errors.Join(err, err1, err2, err3, err4, k.list.Push(Tail, faultVal(i)))
	}
	return err
}

// read returns all that the keys hold, element by element and by walks.
func (f *readFault) read() string {
	f.t.Helper()
	var out strings.Builder
	err := f.do(func(k faultKeys) (err error) {
		for _, key := range []string{"string", "long"} {
			val, _, err1 := k.Get([]byte(key))
			fmt.Fprintf(&out, "%s=%s\n", key, val)
			err = errors.Join(err, err1)
		}
		for i := range faultElements + 1 {
			item, _, err1 := k.list.Index(int64(i))
			val, _, err2 := k.hash.Get(faultField(i))
			has, err3 := k.set.Has(faultField(i))
			score, _, err4 := k.zset.Score(faultField(i))
			entry, _, err5 := k.stream.Get(StreamID{Ms: uint64(i + 1)})
			fmt.Fprintf(&out, "%d %s %s %v %v %v\n", i, item, val, has, score, entry)
			err = errors.Join(err, err1, err2, err3, err4, err5)
		}
		n, err1 := k.zset.Count(ScoreRange{Min: 10, Max: 50})
		m, err2 := k.hash.Len()
		fmt.Fprintln(&out, n, m)
		err3 := k.list.Range(0, faultElements-1, func(val []byte) { fmt.Fprintf(&out, "%s ", val) })
		return errors.Join(err, err1, err2, err3)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.String()
}

// faultyReads are what commands do that read much, and change nothing when they fail.
var faultyReads = map[string]func(k faultKeys) error{
	"string":      func(k faultKeys) error { _, _, err := k.Get([]byte("string")); return err },
	"long string": func(k faultKeys) error { _, _, err := k.Get([]byte("long")); return err },
	"pop head":    func(k faultKeys) error { _, _, err := k.list.Pop(Head); return err },
	"pop tail":    func(k faultKeys) error { _, _, err := k.list.Pop(Tail); return err },
	"index":       func(k faultKeys) error { _, _, err := k.list.Index(faultElements / 2); return err },
	"range":       func(k faultKeys) error { return k.list.Range(0, faultElements-1, func([]byte) {}) },
	"remove":      func(k faultKeys) error { _, err := k.list.Remove(0, faultVal(faultElements/2)); return err },
	"insert":      func(k faultKeys) error { _, err := k.list.Insert(true, faultVal(9), []byte("new")); return err },
	"field":       func(k faultKeys) error { _, _, err := k.hash.Get(faultField(1)); return err },
	"fields": func(k faultKeys) error {
		return k.hash.Fetch([][]byte{faultField(1), faultField(2), faultField(3), faultField(5)})
	},
	"set field":   func(k faultKeys) error { _, err := k.hash.Set(faultField(1), []byte("v")); return err },
	"all fields":  func(k faultKeys) error { return k.hash.Each(func(_, _ []byte) bool { return true }) },
	"random":      func(k faultKeys) error { return k.hash.Random(5, func(_, _ []byte) {}) },
	"members":     func(k faultKeys) error { return k.set.Each(func([]byte) bool { return true }) },
	"pop members": func(k faultKeys) error { return k.set.Pop(5, func([]byte) {}) },
	"scores": func(k faultKeys) error {
		return k.zset.Fetch([][]byte{faultField(1), faultField(2), faultField(3), faultField(5)})
	},
	"pop least": func(k faultKeys) error { _, _, _, err := k.zset.Pop(true); return err },
	"count":     func(k faultKeys) error { _, err := k.zset.Count(ScoreRange{Min: 10, Max: 50}); return err },
	"rank":      func(k faultKeys) error { _, _, _, err := k.zset.Rank(faultField(44), false); return err },
	"entries": func(k faultKeys) error {
		return k.stream.Range(StreamID{}, LastStreamID(), false, func(StreamID, Fields) bool { return true })
	},
}

// TestReadsFail: whoever reads from a disk that fails is told, and the cache knows nothing from then on but what is so.
func TestReadsFail(t *testing.T) {
	f, mem := &readFault{t: t}, vfs.NewMem()
	f.open(mem)
	if err := f.do(f.fill); err != nil {
		t.Fatal(err)
	}
	want := f.read()
	for name, op := range faultyReads {
		for good := int64(0); ; good++ { // reads that succeed before all others fail
			closeTest(t, f.st)
			f.open(mem)
			f.left.Store(good)
			err := f.do(func(k faultKeys) error {
				if err := op(k); err != nil {
					return err
				}
				return errUnread
			})
			f.left.Store(-1)
			for range 2 { // what one walk makes known may be what the next believes
				if f.read() != want {
					t.Fatalf("%s fails after %d reads: %v, and what is read behind it is not what it was", name, good, err)
				}
			}
			if err == errUnread {
				break // it needs no more reads
			}
		}
	}
	closeTest(t, f.st)
}

// errUnread ends a transaction in which every read succeeded, so that nothing is changed.
var errUnread = errors.New("nothing is to be changed")
