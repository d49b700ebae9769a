package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// level is tables of a size that begin with the keys.
func level(size uint64, keys ...string) (tables []pebble.SSTableInfo) {
	for _, key := range keys {
		var table pebble.SSTableInfo
		table.Smallest.UserKey, table.Size = []byte(key), size
		tables = append(tables, table)
	}
	return tables
}

// cutsTest has a window of 100 bytes.
type cutsTest struct {
	*testing.T
	cuts
}

func (t *cutsTest) apply(size int, keys ...string) {
	t.note(len(keys), func(i int) []byte { return []byte(keys[i]) }, size)
	t.publish(100)
}

// want compares the cuts, and what is told of each place between them.
func (t *cutsTest) want(want ...string) {
	t.Helper()
	keys := *t.keys.Load()
	if fmt.Sprintf("%s", keys) != fmt.Sprint(want) {
		t.Fatalf("the cuts are %s, want %s", keys, want)
	}
	for start := byte('a'); start <= 'z'; start++ {
		_, end, err := t.policy([]byte{start})
		next := ""
		if i := slices.IndexFunc(want, func(key string) bool { return key > string(start) }); i >= 0 {
			next = want[i]
		}
		if string(end) != next || err != nil {
			t.Fatalf("a table that begins with %c ends before %q, want %q: %v", start, end, next, err)
		}
	}
}

func TestCuts(t *testing.T) {
	c := &cutsTest{T: t}
	if _, end, err := c.policy([]byte("a")); end != nil || err != nil {
		t.Fatalf("before anything is known a table ends before %q: %v", end, err)
	}
	c.replace(level(cutBytes/2, "b", "d", "f", "h", "j", "l"))
	c.apply(60, "a", "b", "k", "z")
	c.want() // which of them were written before is not known
	c.apply(60, "b", "k", "z")
	c.want("h")
	c.apply(60, "c", "f1", "f2")
	c.want() // nothing is left out that is worth it
	c.apply(59, "c", "j", "y")
	c.want()
	c.apply(60, "c", "k", "y")
	c.want("h") // f is so long ago that it is not in a memtable any more
	c.replace(level(cutBytes/2, "b", "e", "g", "i", "k", "m", "o"))
	c.apply(1, "c", "y")
	c.want("g") // those where the last one was stand for it
	c.replace(nil)
	c.apply(1000, "a")
	c.want()
}

// TestCutsLeaveOutMost: there are no more cuts than maxCuts, and these leave out most.
func TestCutsLeaveOutMost(t *testing.T) {
	c := &cutsTest{T: t}
	var tables []pebble.SSTableInfo
	var rows, want []string
	for i := range 2 * maxCuts {
		size := uint64(cutBytes + i)
		if i%2 == 1 {
			size = uint64(2*cutBytes + i)
			want = append(want, fmt.Sprintf("%03d b", i))
		}
		rows = append(rows, fmt.Sprintf("%03d a", i))
		tables = append(tables, level(1, rows[i])...)
		tables = append(tables, level(size, fmt.Sprintf("%03d b", i))...)
	}
	rows = append(rows, "z")
	c.replace(append(tables, level(1, "z")...))
	c.apply(0, rows...)
	c.apply(101, rows...)
	if keys := *c.keys.Load(); fmt.Sprintf("%s", keys) != fmt.Sprint(want) {
		t.Errorf("the cuts are %s, want %s", keys, want)
	}
}

// longList is a store of one shard with a long list, most of which has sunk below L0.
type longList struct {
	*testing.T
	st    *Store
	noise *rand.ChaCha8
}

const (
	longListLength  = 150_000
	longListElement = 100 // bytes that can't be compressed
	longListPart    = 250 // elements that are pushed or popped together: a stage holds more than one
)

func openLongList(t *testing.T) *longList {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Fsync, opts.LogMax = FsyncNo, 64<<20
	st, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	l := &longList{T: t, st: st, noise: rand.NewChaCha8([32]byte{})}
	for range longListLength / longListPart {
		l.change(l.push)
	}
	l.flush()
	if err := st.shards[0].db.Compact(t.Context(), nil, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *longList) change(fns ...func(List) error) {
	l.Helper()
	change(l.T, l.st, l.st.All(), func(_ *Tx, d DB) error {
		list, err := d.List([]byte("list"))
		for i := 0; i < len(fns) && err == nil; i++ {
			err = fns[i](list)
		}
		return err
	})
}

func (l *longList) push(list List) error {
	val := make([]byte, longListElement)
	for range longListPart {
		_, _ = l.noise.Read(val) // never fails
		if err := list.Push(Head, val); err != nil {
			return err
		}
	}
	return nil
}

func (l *longList) pop(list List) error {
	for range longListPart {
		if _, _, err := list.Pop(Tail); err != nil {
			return err
		}
	}
	return nil
}

func (l *longList) flush() {
	l.Helper()
	tx := l.st.NewTx()
	tx.Begin(l.st.All())
	defer tx.End()
	if s := l.st.shards[0]; errors.Join(s.unstage(), s.db.Flush()) != nil {
		l.Fatal("can't flush")
	}
}

// tables returns those of L0 and those of the level below.
func (l *longList) tables() (l0, below []pebble.SSTableInfo) {
	l.Helper()
	levels, err := l.st.shards[0].db.SSTables()
	if err != nil {
		l.Fatal(err)
	}
	for _, below = range levels[1:] {
		if len(below) > 0 {
			break
		}
	}
	return levels[0], below
}

// TestTablesLeaveOutWhatWaits writes at both ends of a long list. The tables of the flush have nothing to do with the middle.
func TestTablesLeaveOutWhatWaits(t *testing.T) {
	l := openLongList(t)
	defer closeTest(t, l.st)
	for range 25 { // until what is known of the time before is not in a memtable any more
		l.change(l.pop, l.push)
	}
	l.flush()
	before, _ := l.tables()
	l.change(l.pop, l.push)
	l.flush()
	made, below := l.tables()
	made = slices.DeleteFunc(made, func(table pebble.SSTableInfo) bool {
		return slices.ContainsFunc(before, func(old pebble.SSTableInfo) bool { return old.FileNum == table.FileNum })
	})
	met := 0
	for _, b := range below {
		if slices.ContainsFunc(made, func(a pebble.SSTableInfo) bool {
			return bytes.Compare(a.Smallest.UserKey, b.Largest.UserKey) <= 0 && bytes.Compare(b.Smallest.UserKey, a.Largest.UserKey) <= 0
		}) {
			met++
		}
	}
	if len(made) < 2 || len(below) < 4 || met > 2 {
		t.Errorf("the flush has %d tables, which meet %d of the %d of the level below", len(made), met, len(below))
	}
}
