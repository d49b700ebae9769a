package shard

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// cuts says where the tables of a flush end. A queue with a backlog is written at both of its ends, so a flush has rows from before all that
// waits and rows from behind it. A table with both would have L0's next compaction write all between them anew, which no row of
// the flush is about: the more waits, the more. So tables end where the rows that are written leave out that much of the level below, those
// that compactions make as well, which Pebble does not tell from those of flushes. See ADR 0030.
//
// What it knows is about right at best: levels change, and rows of large commits are not looked at. Tables that end anywhere else are as
// true.
type cuts struct {
	stale atomic.Int32 // how often below is to be made again, since the levels have changed

	mu      sync.Mutex   // guards what follows
	below   []lowerTable // of the level below L0, in order
	applied int          // bytes of rows, since the start

	keys atomic.Pointer[[][]byte] // where tables end, in order
}

// lowerTable is a table of the level below L0.
type lowerTable struct {
	smallest []byte // key
	size     uint64
	touched  int // what was applied in all when a row from here to the next table was, or might have been
}

const (
	// cutBytes of a level that are left out are worth a table. A table costs about a millisecond; a megabyte that is compacted costs twenty, in
	// one of layersL0 flushes.
	cutBytes = 1 << 20
	// maxCuts is how many cuts there are at a time, those that leave out most: a flush makes so many tables more at most.
	maxCuts = 32
)

// policy is where the table ends that begins with the key; a pebble.SpanPolicyFunc.
func (c *cuts) policy(start []byte) (_ pebble.SpanPolicy, end []byte, _ error) {
	keys := c.keys.Load()
	if keys == nil {
		return pebble.SpanPolicy{}, nil, nil
	}
	n, found := slices.BinarySearchFunc(*keys, start, bytes.Compare)
	if found {
		n++
	}
	if n < len(*keys) {
		end = (*keys)[n]
	}
	return pebble.SpanPolicy{}, end, nil
}

// compacted notes that the levels have changed. It is called a moment before the change can be seen, so below is made again with the next
// stage, and with the one after that.
func (c *cuts) compacted(pebble.CompactionInfo) { c.stale.Store(2) }

// reload lists the tables of the level below L0, if they can be listed.
func (c *cuts) reload(db *pebble.DB) {
	c.stale.Add(-1)
	levels, err := db.SSTables()
	if err != nil {
		return // what was known goes on to be about right
	}
	var below []pebble.SSTableInfo
	for _, below = range levels[1:] {
		if len(below) > 0 {
			break
		}
	}
	c.replace(below) // also when nothing is left anywhere
}

// replace has other tables stand for what was applied before. Where there was none, rows may have been applied.
func (c *cuts) replace(level []pebble.SSTableInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.below
	c.below = make([]lowerTable, len(level))
	for i, table := range level {
		c.below[i] = lowerTable{smallest: bytes.Clone(table.Smallest.UserKey), size: table.Size, touched: c.applied}
	}
	from := 0 // the first of the old ones that reaches to the table or behind it
	for i := range c.below {
		t := &c.below[i]
		for from+1 < len(old) && bytes.Compare(old[from+1].smallest, t.smallest) <= 0 {
			from++
		}
		if from == len(old) || bytes.Compare(old[from].smallest, t.smallest) > 0 {
			continue
		}
		t.touched = old[from].touched
		for k := from + 1; k < len(old) && (i+1 == len(c.below) || bytes.Compare(old[k].smallest, c.below[i+1].smallest) < 0); k++ {
			t.touched = max(t.touched, old[k].touched)
		}
	}
}

// note notes that rows are applied, n of them in order and size bytes in all.
func (c *cuts) note(n int, key func(int) []byte, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied += size
	for i := 0; i < n; {
		first := key(i)
		next := sort.Search(len(c.below), func(t int) bool { return bytes.Compare(c.below[t].smallest, first) > 0 })
		if next > 0 {
			c.below[next-1].touched = c.applied
		}
		if next == len(c.below) {
			break
		}
		i += sort.Search(n-i, func(k int) bool { return bytes.Compare(key(i+k), c.below[next].smallest) >= 0 })
	}
}

// publish has the tables of flushes end by what was noted. A memtable has window bytes of rows at most.
func (c *cuts) publish(window int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.gaps(window)
	c.keys.Store(&keys)
}

// gaps returns, for who has locked mu, where the last tables of the gaps that are worth a cut begin. A gap is tables side by side that no row
// was applied to in the last window bytes.
func (c *cuts) gaps(window int) [][]byte {
	type gap struct {
		size uint64
		end  []byte
	}
	var found []gap
	size := uint64(0)
	for i, table := range c.below {
		if table.touched+window < c.applied {
			size += table.size
			continue
		}
		if size >= cutBytes {
			found = append(found, gap{size, c.below[i-1].smallest})
		}
		size = 0
	}
	if len(found) > maxCuts {
		slices.SortFunc(found, func(a, b gap) int { return cmp.Compare(b.size, a.size) })
		found = found[:maxCuts]
		slices.SortFunc(found, func(a, b gap) int { return bytes.Compare(a.end, b.end) })
	}
	keys := make([][]byte, len(found))
	for i, g := range found {
		keys[i] = g.end
	}
	return keys
}
