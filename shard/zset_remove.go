package shard

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// Removing a stretch of a sorted set's order. A few entries go row by row. Of many, the score rows, which stand together, go
// with one range deletion, and the members' rows, which don't, one by one; but when few entries stay, these are written to a
// new collection, and the old one is left to the janitor. So what such a command costs in log is the smaller of what goes and
// what stays, and no row of an entry that goes needs to be held in memory.

const (
	// manyRows is how many rows have to go at once for a range deletion. Readers have to sort the ranges that a memtable
	// has after each that is added, so a client that removes a few hundred again and again is better off without.
	manyRows = 8192
	// keepShare is the part (one in so many) of what goes up to which the entries that stay are written anew.
	keepShare = 4
)

// stretch is a part of the order: the entries from one up to another, which is not among them, or to the end.
type stretch struct {
	from, to scored
	endless  bool
}

func (r stretch) empty() bool { return !r.endless && !r.from.less(r.to) }

func (r stretch) has(e scored) bool { return !e.less(r.from) && (r.endless || e.less(r.to)) }

// end is the suffix of the score rows that the stretch ends before, nil for the end.
func (r stretch) end() []byte {
	if r.endless {
		return nil
	}
	return r.to.suffix()
}

// RemoveByScore removes the members in the range and tells how many they were.
func (z ZSet) RemoveByScore(r ScoreRange) (int64, error) { return z.removeStretch(r.stretch()) }

// RemoveByRank removes the members whose ranks are start … stop, counted from the low end, and tells how many they were.
// 0 <= start <= stop < Len.
func (z ZSet) RemoveByRank(start, stop int64) (int64, error) {
	if stop-start+1 < z.db.tx.store.opts.manyRows {
		return z.removeEach(func(fn func([]byte, float64) bool) error { return z.RangeByRank(start, stop, false, fn) })
	}
	total, err := z.Len()
	if err != nil {
		return 0, err
	}
	r := stretch{from: scored{score: math.Inf(-1)}, endless: stop == total-1}
	at := func(rank int64) (found scored, err error) {
		err = z.RangeByRank(rank, rank, false, func(member []byte, score float64) bool {
			found = scored{score, string(member)}
			return false
		})
		return found, err
	}
	if start > 0 {
		if r.from, err = at(start); err != nil {
			return 0, err
		}
	}
	if !r.endless {
		if r.to, err = at(stop); err != nil {
			return 0, err
		}
		r.to = r.to.next()
	}
	return z.removeStretch(r)
}

// RemoveByLex removes the members in the range and tells how many they were. As in Redis, all members must have the same score.
func (z ZSet) RemoveByLex(r LexRange) (int64, error) {
	within, together, err := z.lexStretch(r)
	if err != nil {
		return 0, err
	}
	if !together {
		return z.removeEach(func(fn func([]byte, float64) bool) error { return z.RangeByLex(r, false, fn) })
	}
	return z.removeStretch(within)
}

// removeEach removes the members that walk finds, one by one.
func (z ZSet) removeEach(walk func(fn func(member []byte, score float64) bool) error) (int64, error) {
	var found []scored
	err := walk(func(member []byte, score float64) bool {
		found = append(found, scored{score, string(member)})
		return true
	})
	for i := 0; i < len(found) && err == nil; i++ {
		var s *Shard
		var o *object
		if s, o, err = z.home([]byte(found[i].member)); err == nil {
			s.removeScored(o, found[i])
		}
	}
	return int64(len(found)), err
}

func (z ZSet) removeStretch(r stretch) (n int64, err error) {
	if r.empty() {
		return 0, nil
	}
	err = z.each(func(s *Shard, o *object) error {
		gone, err := s.removeStretch(o, r)
		n += gone
		return err
	})
	return n, err
}

// removeStretch is ZSet.removeStretch in one fragment.
func (s *Shard) removeStretch(o *object, r stretch) (n int64, err error) {
	var few []scored
	err = s.ascend(o, r.from, func(e scored) bool {
		if !r.has(e) {
			return false
		}
		few = append(few, e)
		return int64(len(few)) < s.store.opts.manyRows
	})
	if err != nil {
		return 0, err
	}
	if int64(len(few)) < s.store.opts.manyRows {
		for _, e := range few {
			s.removeScored(o, e)
		}
		return int64(len(few)), nil
	}
	if n, err = s.countRows(o, r.from.suffix(), r.end(), o.count); err != nil {
		return 0, err
	}
	switch stay := o.count - n; {
	case stay == 0:
		err = s.remove(o)
	case stay <= n/keepShare:
		err = s.keepOthers(o, r)
	default:
		err = s.cutOut(o, r, n)
	}
	return n, err
}

// keepOthers moves the entries outside the stretch, of which there are some, to a new collection.
func (s *Shard) keepOthers(o *object, r stretch) error {
	kept := newZSetBody(o.commonName())
	order := scoreWindow{tree: newScoreTree()}
	keep := func(e scored) bool {
		order.load(e)
		kept.putNew(e.member, e.score, scoreSize)
		return true
	}
	err := s.ascend(o, scored{score: math.Inf(-1)}, func(e scored) bool { return e.less(r.from) && keep(e) })
	if err == nil && !r.endless {
		err = s.ascend(o, r.to, keep)
	}
	if err != nil {
		return err
	}
	s.modify(o)
	s.dig(KindZSet, o.id, o.count)
	kept.setWhole(order)
	o.id, o.count, o.zset = s.state.nextID, int64(order.tree.Len()), kept
	s.state.nextID++
	order.tree.Scan(func(e scored) bool {
		s.putScored(o, []byte(e.member), e.score, true)
		return true
	})
	return nil
}

// putScored writes the rows of an entry that is not there with this score, whose member is new or has another one.
func (s *Shard) putScored(o *object, member []byte, score float64, isNew bool) {
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	s.valBuf = binary.BigEndian.AppendUint64(s.valBuf[:0], sortableScore(score))
	s.put(s.keyBuf, s.valBuf, isNew)
	s.keyBuf = appendScoreKey(s.keyBuf[:0], o.id, score, member)
	s.insert(s.keyBuf, nil)
}

// cutOut removes the n entries of the stretch where they are.
func (s *Shard) cutOut(o *object, r stretch, n int64) error {
	b := o.zset
	it, err := s.scoreRows(o, r.from.suffix(), r.end())
	if err != nil {
		return err
	}
	s.modify(o)
	ranked := s.cache.ranks.get(o.id) != nil
	for ok := it.First(); ok; ok = it.Next() {
		score, member := scoreOf(it.Key())
		s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
		s.delete(s.keyBuf)
		if b.find(member) != nil {
			b.kill(s, o, member, scoreSize)
		} else {
			b.removed(s, o, member)
		}
		if ranked {
			s.cache.ranks.change(o.id, scored{score, string(member)}, -1)
		}
	}
	if err := s.finish(it); err != nil {
		return err
	}
	start := append(appendElementPrefix(nil, rowScore, o.id), r.from.suffix()...)
	end := appendElementPrefix(nil, rowScore, o.id+1)
	if !r.endless {
		end = append(appendElementPrefix(nil, rowScore, o.id), r.to.suffix()...)
	}
	s.deleteRange(start, end)
	o.count -= n
	b.cutOut(r)
	return nil
}

// cutOut makes the cached order that of what stays, of which no more than bounds are known, and notes what is gone.
func (b *zsetBody) cutOut(r stretch) {
	low, high := b.lowMark(), b.highMark()
	if bytes.Compare(r.from.suffix(), low) <= 0 && !r.endless {
		low = r.to.suffix()
	}
	if r.endless || len(high) > 0 && bytes.Compare(r.to.suffix(), high) >= 0 {
		high, b.cut = r.from.suffix(), true
	}
	b.low, b.high = scoreWindow{mark: low}, scoreWindow{mark: high}
	b.gone = append(b.gone, r)
}

// isGone tells whether the store still has an entry that the transaction has removed with others.
func (b *zsetBody) isGone(e scored) bool {
	return slices.ContainsFunc(b.gone, func(r stretch) bool { return r.has(e) })
}
