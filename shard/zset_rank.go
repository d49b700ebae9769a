package shard

import (
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// Ranks in sorted sets, and counting. Near an end of the order, or between two entries that are not far apart, rows are
// counted one by one. For everything else a sorted set gets an index of its ranks (rankIndex) when it is first asked for one,
// from one pass over its score rows. ZSet.Set and its like keep the index up.

const (
	// rankAt is how many rows are counted one by one before an index is made, so a smaller sorted set never gets one.
	rankAt = 1024
	// rankNear is how far from the end of the order a range may begin or stop for its entries to be found by walking there.
	rankNear = 2 * runFill
)

// RangeByRank calls fn for the members whose ranks are start … stop, counted from the low end or, with rev,
// from the high end, until it returns false. 0 <= start <= stop < Len.
func (z ZSet) RangeByRank(start, stop int64, rev bool, fn func(member []byte, score float64) bool) error {
	total, err := z.Len()
	if err != nil {
		return err
	}
	if fromEnd := total - 1 - stop; start > rankNear && fromEnd+stop-start <= rankNear && !z.inMemory() {
		return z.rangeFromFarEnd(fromEnd, stop-start+1, rev, fn)
	}
	skip := start
	walk := func(s *Shard, o *object, take func(scored) bool) error {
		if rev {
			return s.descendAll(o, take)
		}
		return s.ascend(o, scored{score: math.Inf(-1)}, take)
	}
	if start > rankNear || start > 0 && z.inMemory() {
		skip = 0
		first, err := z.entryAt(start, total, rev)
		if err != nil {
			return err
		}
		walk = func(s *Shard, o *object, take func(scored) bool) error {
			if rev {
				return s.descend(o, first.next(), take)
			}
			return s.ascend(o, first, take)
		}
	}
	left := stop - start + 1
	return z.ordered(rev, walk, func(member []byte, score float64) bool {
		if skip > 0 {
			skip--
			return true
		}
		left--
		return fn(member, score) && left > 0
	})
}

// inMemory tells whether the order is in memory as one.
func (z ZSet) inMemory() bool { return !z.partitioned && z.o.kind != KindNone && z.o.zset.low.whole() }

// next is the least entry that is greater.
func (a scored) next() scored { return scored{a.score, a.member + "\x00"} }

// rangeFromFarEnd calls fn for n entries of which the last has skip entries behind it: they are found from there, and turned
// round.
func (z ZSet) rangeFromFarEnd(skip, n int64, rev bool, fn func(member []byte, score float64) bool) error {
	found := make([]scored, 0, n)
	err := z.RangeByRank(skip, skip+n-1, !rev, func(member []byte, score float64) bool {
		found = append(found, scored{score, string(member)})
		return true
	})
	for i := len(found) - 1; i >= 0 && err == nil; i-- {
		if !fn([]byte(found[i].member), found[i].score) {
			break
		}
	}
	return err
}

// entryAt returns the entry of the rank: of all separators that the fragments know, the greatest that can't be behind the
// entry, and from there on it is counted.
func (z ZSet) entryAt(rank, total int64, rev bool) (found scored, err error) {
	if rev {
		rank = total - 1 - rank
	}
	if z.inMemory() {
		found, _ = z.o.zset.low.tree.GetAt(int(rank))
		return found, nil
	}
	var sources []rankSource
	err = z.each(func(s *Shard, o *object) error {
		source, err := s.rankSource(o)
		sources = append(sources, source)
		return err
	})
	if err != nil {
		return found, err
	}
	notBehind := func(e scored) bool {
		most := int64(0)
		for _, source := range sources {
			most += source.most(e)
		}
		return most <= rank
	}
	begin := scored{score: math.Inf(-1)}
	for _, source := range sources {
		if e, ok := source.greatest(notBehind); ok && begin.less(e) {
			begin = e
		}
	}
	before, err := z.before(begin)
	if err != nil {
		return found, err
	}
	skip, missing := rank-before, true
	err = z.ordered(false, func(s *Shard, o *object, take func(scored) bool) error {
		return s.ascend(o, begin, take)
	}, func(member []byte, score float64) bool {
		skip--
		if skip < 0 {
			found, missing = scored{score, string(member)}, false
		}
		return missing
	})
	if err == nil && missing {
		err = z.db.tx.store.shards[0].readError(errCorruptRow)
	}
	return found, err
}

// Count counts the members whose score is in the range.
func (z ZSet) Count(r ScoreRange) (n int64, err error) {
	part := r.stretch()
	if part.empty() {
		return 0, nil
	}
	return z.count(part)
}

// CountByLex counts the members in the range. As in Redis, all members must have the same score.
func (z ZSet) CountByLex(r LexRange) (n int64, err error) {
	part, together, err := z.lexStretch(r)
	switch {
	case err != nil:
		return 0, err
	case !together:
		err = z.RangeByLex(r, false, func([]byte, float64) bool { n++; return true })
		return n, err
	case part.empty():
		return 0, nil
	}
	return z.count(part)
}

// lexStretch is the part of the order that the range is. What is in the range stands together if all scores are the same.
func (z ZSet) lexStretch(r LexRange) (part stretch, together bool, err error) {
	least, greatest := math.Inf(1), math.Inf(-1)
	err = z.each(func(s *Shard, o *object) error {
		first, err := s.endOf(o, false)
		if err != nil {
			return err
		}
		last, err := s.endOf(o, true)
		least, greatest = min(least, first.score), max(greatest, last.score)
		return err
	})
	from, to := scored{least, string(r.Min)}, scored{least, string(r.Max)}
	if r.MinEx {
		from = from.next()
	}
	if !r.MaxEx {
		to = to.next()
	}
	return stretch{from, to, r.MaxInf}, least >= greatest, err
}

// count counts the entries of a part of the order.
func (z ZSet) count(part stretch) (n int64, err error) {
	err = z.each(func(s *Shard, o *object) error {
		inside, err := s.countEntries(o, part)
		n += inside
		return err
	})
	return n, err
}

// before counts the entries that are less than e.
func (z ZSet) before(e scored) (int64, error) {
	return z.count(stretch{from: scored{score: math.Inf(-1)}, to: e})
}

// Rank returns how many members are before the member, counted from the low end or, with rev, from the high
// end, and its score.
func (z ZSet) Rank(member []byte, rev bool) (rank int64, score float64, ok bool, err error) {
	score, ok, err = z.Score(member)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	total, err := z.Len()
	if err != nil {
		return 0, 0, false, err
	}
	rank, err = z.before(scored{score, string(member)})
	if rev {
		rank = total - 1 - rank
	}
	return rank, score, true, err
}

// countEntries is ZSet.count in one fragment.
func (s *Shard) countEntries(o *object, part stretch) (n int64, err error) {
	behind, known := o.count, part.endless
	if !known {
		behind, known = o.zset.rankCached(o, part.to)
	}
	before, alsoKnown := o.zset.rankCached(o, part.from)
	if known && alsoKnown {
		return behind - before, nil
	}
	if s.cache.ranks.get(o.id) == nil {
		if n, err = s.countRows(o, part.from.suffix(), part.end(), rankAt); err != nil || n < rankAt {
			return n, err
		}
	}
	ix, err := s.rankIndex(o)
	if err == nil && !known {
		behind, err = s.rankIn(ix, o, part.to)
	}
	if err == nil && !alsoKnown {
		before, err = s.rankIn(ix, o, part.from)
	}
	return behind - before, err
}

// rankCached counts the entries that are less than e, if that takes no reading.
func (b *zsetBody) rankCached(o *object, e scored) (n int64, ok bool) {
	switch {
	case e == scored{score: math.Inf(-1)}:
		return 0, true
	case b.lowCovers(e):
		return b.low.rank(e), true
	case b.highCovers(e):
		return o.count - int64(b.high.tree.Len()) + b.high.rank(e), true
	}
	return 0, false
}

// rankIn counts the entries that are less than e by the index.
func (s *Shard) rankIn(ix *rankIndex, o *object, e scored) (int64, error) {
	at := ix.find(e)
	n, run := ix.before(at), ix.run(at)
	if !run.from.less(e) || run.n == 0 {
		return n, nil
	}
	inside, err := s.countRows(o, run.from.suffix(), e.suffix(), run.n)
	return n + inside, err
}

// countRows counts the score rows with suffixes in [from, to), up to a limit; an empty to stands for the end.
func (s *Shard) countRows(o *object, from, to []byte, limit int64) (n int64, err error) {
	it, err := s.scoreRows(o, from, to)
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && n < limit; ok = it.Next() {
		n++
	}
	return n, s.finish(it)
}

// rankSource returns what is known of the fragment's ranks.
func (s *Shard) rankSource(o *object) (rankSource, error) {
	switch {
	case o.zset.low.whole():
		return wholeOrder{o.zset.low}, nil
	case o.count < rankAt && s.cache.ranks.get(o.id) == nil:
		return fewEntries(o.count), nil
	}
	return s.rankIndex(o)
}

// rankIndex returns the index of the fragment's ranks, made if there is none.
func (s *Shard) rankIndex(o *object) (*rankIndex, error) {
	ranks := &s.cache.ranks
	if ix := ranks.use(o.id); ix != nil {
		return ix, nil
	}
	ix := newRankIndex(o.id, o.count, ranks.budget()/2)
	it, err := s.scoreRows(o, nil, nil)
	if err != nil {
		return nil, err
	}
	runs := cutRuns(it, scored{score: math.Inf(-1)}, o.count, ix.fill)
	if err := s.finish(it); err != nil {
		return nil, err
	}
	ix.fresh = o.dirty
	ix.setRuns(runs)
	ix.fit()
	if ix.total != o.count {
		return nil, s.readError(errCorruptRow)
	}
	ranks.add(ix)
	return ix, nil
}

// cutRuns divides the next n score rows of the iterator, from a separator on, into runs of the size.
func cutRuns(it *pebble.Iterator, from scored, n, size int64) []rankRun {
	runs := []rankRun{{from: from}}
	last := &runs[0]
	var before []byte
	for ok := it.First(); ok && n > 0; ok = it.Next() {
		if last.n == size {
			runs = append(runs, rankRun{from: separator(before, it.Key())})
			last = &runs[len(runs)-1]
		}
		if last.n++; last.n == size {
			before = append(before[:0], it.Key()...)
		}
		n--
	}
	return runs
}

// separator returns the shortest entry that is greater than one score row and not greater than the next one.
func separator(row, next []byte) scored {
	before, name := scoreOf(row)
	score, member := scoreOf(next)
	if score != before {
		return scored{score: score}
	}
	n := 0
	for n < len(name) && name[n] == member[n] {
		n++
	}
	return scored{score, string(member[:n+1])}
}

// tidyRanks brings the index of a sorted set that a commit has changed into shape. One that can't be is given up: it is
// made again when it is asked for.
func (s *Shard) tidyRanks(o *object) {
	ranks := &s.cache.ranks
	ix := ranks.get(o.id)
	if ix == nil {
		return
	}
	err := ix.tidy(func(run rankRun) ([]rankRun, error) {
		it, err := s.scoreRows(o, run.from.suffix(), nil)
		if err != nil {
			return nil, err
		}
		parts := cutRuns(it, run.from, run.n, ix.fill)
		if err := s.finish(it); err != nil {
			return nil, err
		}
		if c := newRankChunk(parts); c.n != run.n {
			return nil, s.readError(errCorruptRow)
		}
		return parts, nil
	})
	if err != nil {
		ranks.drop(o.id)
		return
	}
	ranks.charge(ix)
}
