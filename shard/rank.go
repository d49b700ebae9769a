package shard

import (
	"slices"
	"sort"
)

// rankIndex knows where ranks are in a large sorted set without having its entries in memory: it divides the order into
// runs, of a few hundred entries at most, and counts each. The rank of an entry is the sum of the runs before its own and
// what a walk over the rows finds before it within that. See ADR 0011.
//
// Runs stand in chunks, which have sums as well, so that neither a sum nor an insertion has to touch them all. Each run
// begins at a separator, which is not less than any entry before the run and not greater than any of its own; it ends where
// the next one begins. Entries that come and go change the count of their run. The runs themselves change between
// transactions only (tidy), so that undoing a transaction is a matter of numbers.
type rankIndex struct {
	id      uint64 // of the collection
	chunks  []rankChunk
	total   int64
	fill    int64        // entries that a new run has
	limit   int          // bytes that it may take
	bytes   int          // resident, about
	charged int          // of them, in the cache
	changes []rankChange // of the transaction in progress
	fresh   bool         // made from rows that the transaction in progress has written
}

// rankRun is a part of the order.
type rankRun struct {
	from scored // its separator; the member may be cut short
	n    int64
}

// rankChunk is a number of runs.
type rankChunk struct {
	runs []rankRun
	n    int64
}

// rankPlace is where a run stands.
type rankPlace struct{ chunk, run int }

// rankChange is an entry that came to a run or left it.
type rankChange struct {
	at rankPlace
	by int64
}

const (
	// runFill is how many entries a new run has, unless the index would take too much memory then.
	runFill = 128
	// runSplit is the part of its first size that a run may grow to, and runMerge the part of that which it may fall to.
	runSplit = 4
	runMerge = 4
	// chunkFill is how many runs a new chunk has, chunkMax how many one may have.
	chunkFill = 64
	chunkMax  = 128
	runSize   = 48 // resident bytes of a run besides the separator's member, about
)

// newRankIndex makes the index of a collection of so many entries.
func newRankIndex(id uint64, count int64, limit int) *rankIndex {
	ix := &rankIndex{id: id, fill: runFill, limit: limit}
	for count/ix.fill*runSize > int64(limit) {
		ix.fill *= 2
	}
	return ix
}

// setRuns gives the index its runs.
func (ix *rankIndex) setRuns(runs []rankRun) {
	ix.chunks, ix.total, ix.bytes = nil, 0, 0
	for part := range slices.Chunk(runs, chunkFill) {
		c := newRankChunk(part)
		ix.chunks = append(ix.chunks, c)
		ix.total += c.n
		ix.bytes += c.bytes()
	}
}

func newRankChunk(runs []rankRun) rankChunk {
	c := rankChunk{runs: slices.Clone(runs)}
	for _, r := range runs {
		c.n += r.n
	}
	return c
}

func (c *rankChunk) bytes() (n int) {
	for _, r := range c.runs {
		n += runSize + len(r.from.member)
	}
	return n
}

// find returns the run that the entry is in, or would be in.
func (ix *rankIndex) find(e scored) rankPlace {
	at, _ := ix.last(func(from scored) bool { return !e.less(from) })
	return at
}

// last returns the last run whose separator fn accepts, or the first run and false if there is none. fn accepts all
// separators up to one and none from there on.
func (ix *rankIndex) last(fn func(from scored) bool) (at rankPlace, ok bool) {
	at.chunk = sort.Search(len(ix.chunks), func(i int) bool { return !fn(ix.chunks[i].runs[0].from) }) - 1
	if at.chunk < 0 {
		return rankPlace{}, false
	}
	runs := ix.chunks[at.chunk].runs
	at.run = sort.Search(len(runs), func(i int) bool { return !fn(runs[i].from) }) - 1
	return at, true
}

func (ix *rankIndex) run(at rankPlace) *rankRun { return &ix.chunks[at.chunk].runs[at.run] }

// before counts the entries of the runs before one.
func (ix *rankIndex) before(at rankPlace) (n int64) {
	for i := range at.chunk {
		n += ix.chunks[i].n
	}
	for i := range at.run {
		n += ix.chunks[at.chunk].runs[i].n
	}
	return n
}

// change counts an entry that comes or goes.
func (ix *rankIndex) change(e scored, by int64) {
	ch := rankChange{ix.find(e), by}
	ix.apply(ch)
	if last := len(ix.changes) - 1; last >= 0 && ix.changes[last].at == ch.at {
		ix.changes[last].by += by
		return
	}
	ix.changes = append(ix.changes, ch)
}

func (ix *rankIndex) apply(ch rankChange) {
	ix.run(ch.at).n += ch.by
	ix.chunks[ch.at.chunk].n += ch.by
	ix.total += ch.by
}

// undo takes the transaction's changes back.
func (ix *rankIndex) undo() {
	for _, ch := range ix.changes {
		ch.by = -ch.by
		ix.apply(ch)
	}
	ix.forgetChanges()
}

// maxKeptChanges is how many changes an index keeps memory for between transactions.
const maxKeptChanges = 256

func (ix *rankIndex) forgetChanges() {
	if ix.changes = ix.changes[:0]; cap(ix.changes) > maxKeptChanges {
		ix.changes = nil
	}
}

// tidy brings the runs that the transaction has changed back to size, once it is committed: split divides one that has
// grown too long, small ones are joined.
func (ix *rankIndex) tidy(split func(rankRun) ([]rankRun, error)) error {
	var unfit []int // chunks
	for _, ch := range ix.changes {
		if n := ix.run(ch.at).n; n > runSplit*ix.fill || n < ix.fill/runMerge && ix.total > n {
			unfit = append(unfit, ch.at.chunk)
		}
	}
	ix.forgetChanges()
	slices.Sort(unfit)
	for _, i := range slices.Backward(slices.Compact(unfit)) {
		if err := ix.tidyChunk(i, split); err != nil {
			return err
		}
	}
	ix.fit()
	return nil
}

// fit makes the runs as long as it takes for the index to keep to its limit.
func (ix *rankIndex) fit() {
	for ix.bytes > ix.limit && (len(ix.chunks) > 1 || len(ix.chunks[0].runs) > 1) {
		ix.coarsen()
	}
}

func (ix *rankIndex) tidyChunk(i int, split func(rankRun) ([]rankRun, error)) error {
	var runs []rankRun
	for _, r := range ix.chunks[i].runs {
		if r.n > runSplit*ix.fill {
			parts, err := split(r)
			if err != nil {
				return err
			}
			runs = append(runs, parts...)
			continue
		}
		if len(runs) > 0 && ix.joins(runs[len(runs)-1].n, r.n) {
			runs[len(runs)-1].n += r.n
			continue
		}
		runs = append(runs, r)
	}
	ix.replace(i, runs)
	return nil
}

// joins tells whether neighbours of these sizes become one run.
func (ix *rankIndex) joins(a, b int64) bool {
	least := min(a, b)
	return least == 0 || least < ix.fill/runMerge && a+b <= 2*ix.fill
}

// replace puts runs in the place of a chunk's. A chunk that is left with few joins the one before, one that has too many is
// divided.
func (ix *rankIndex) replace(i int, runs []rankRun) {
	ix.bytes -= ix.chunks[i].bytes()
	from := i
	if i > 0 && (len(runs)+len(ix.chunks[i-1].runs) <= chunkFill || len(runs) == 1 && runs[0].n == 0) {
		from = i - 1
		ix.bytes -= ix.chunks[from].bytes()
		before := ix.chunks[from].runs
		if runs[0].n == 0 {
			runs = runs[1:]
		}
		runs = append(slices.Clone(before), runs...)
	}
	var chunks []rankChunk
	if len(runs) <= chunkMax {
		chunks = []rankChunk{newRankChunk(runs)}
	} else {
		for part := range slices.Chunk(runs, chunkFill) {
			chunks = append(chunks, newRankChunk(part))
		}
	}
	for _, c := range chunks {
		ix.bytes += c.bytes()
	}
	ix.chunks = slices.Replace(ix.chunks, from, i+1, chunks...)
}

// coarsen joins runs in pairs.
func (ix *rankIndex) coarsen() {
	ix.fill *= 2
	var runs []rankRun
	odd := false
	for _, c := range ix.chunks {
		for _, r := range c.runs {
			if odd {
				runs[len(runs)-1].n += r.n
			} else {
				runs = append(runs, r)
			}
			odd = !odd
		}
	}
	ix.setRuns(runs)
}

// A rankSource is what is known of the ranks in a fragment without reading rows.
type rankSource interface {
	// greatest returns the greatest of the separators that it has which fn accepts. fn accepts all up to one.
	greatest(fn func(scored) bool) (e scored, ok bool)
	// most is an upper bound of how many entries are less than e.
	most(e scored) int64
}

func (ix *rankIndex) greatest(fn func(scored) bool) (e scored, ok bool) {
	at, ok := ix.last(fn)
	return ix.run(at).from, ok
}

func (ix *rankIndex) most(e scored) int64 {
	at := ix.find(e)
	n, run := ix.before(at), ix.run(at)
	if run.from.less(e) {
		n += run.n
	}
	return n
}

// wholeOrder is an order that is in memory.
type wholeOrder struct{ scoreWindow }

func (w wholeOrder) greatest(fn func(scored) bool) (e scored, ok bool) {
	i := sort.Search(w.tree.Len(), func(i int) bool {
		at, _ := w.tree.GetAt(i)
		return !fn(at)
	})
	return w.tree.GetAt(i - 1)
}

func (w wholeOrder) most(e scored) int64 { return w.rank(e) }

// fewEntries is a fragment that has so few entries that they are walked over.
type fewEntries int64

func (n fewEntries) greatest(func(scored) bool) (e scored, ok bool) { return e, false }
func (n fewEntries) most(scored) int64                              { return int64(n) }
