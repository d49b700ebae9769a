package shard

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"

	"github.com/tidwall/btree"
)

// ZSet is the sorted set at a key. The handle of a missing key is an empty sorted set.
type ZSet struct{ handle }

// ZSet returns the sorted set at the key, or ErrWrongType.
func (d DB) ZSet(key []byte) (ZSet, error) {
	h, err := d.collection(key, KindZSet)
	return ZSet{h}, err
}

// scored is a member with its score: what a sorted set is ordered by.
type scored struct {
	score  float64
	member string
}

func (a scored) less(b scored) bool {
	if a.score != b.score {
		return a.score < b.score
	}
	return a.member < b.member
}

// suffix is the entry's place among the score rows: the row's key without its prefix.
func (a scored) suffix() []byte {
	return append(binary.BigEndian.AppendUint64(nil, sortableScore(a.score)), a.member...)
}

func newScoreTree() *btree.BTreeG[scored] {
	return btree.NewBTreeGOptions(scored.less, btree.Options{NoLocks: true})
}

// zsetBody caches a sorted set. Beside the members' scores it holds the low end of the order: what delayed
// tasks, retention and ZPOPMIN ask for. low has every entry up to and including bound, or all entries when it
// is unbounded; nil means that nothing of the order is cached.
//
// Rows that were popped leave tombstones at the low end, and an iterator that begins there has to step over
// all of them. So the metadata row remembers the low mark: no live score row is below it, and iterators
// start there.
type zsetBody struct {
	elements[float64]
	low       *btree.BTreeG[scored]
	unbounded bool
	bound     scored
	mark      []byte // the low mark as long as low is nil; empty: unknown
}

func newZSetBody() *zsetBody { return &zsetBody{elements: newElements[float64]()} }

const (
	scoreSize    = 8
	scoredSize   = 64  // resident bytes of an entry of low, about, its member shared with the elements
	lowWindow    = 256 // entries that low is filled with
	maxMarkBytes = 8 + 64
)

func (b *zsetBody) footprint() int {
	n := b.bytes
	if b.low != nil {
		n += b.low.Len() * scoredSize
	}
	return n
}

func (b *zsetBody) complete(o *object) bool { return int64(b.live()) == o.count }

// lowMark is a lower bound of the live score rows' suffixes. A prefix of a bound is a bound.
func (b *zsetBody) lowMark() []byte {
	mark := b.mark
	if b.low != nil {
		mark = nil
		if first, ok := b.low.Min(); ok {
			mark = first.suffix()
		} else if !b.unbounded {
			mark = b.bound.suffix()
		}
	}
	return mark[:min(len(mark), maxMarkBytes)]
}

// shrink drops half of the scores and the upper part of low, or all of it if it is short.
func (b *zsetBody) shrink() {
	b.halve(func(float64) int { return scoreSize })
	if b.low == nil {
		return
	}
	if b.low.Len() <= lowWindow {
		b.mark = b.lowMark()
		b.low, b.unbounded = nil, false
		return
	}
	short := newScoreTree()
	b.low.Scan(func(e scored) bool {
		short.Load(e)
		b.bound = e
		return short.Len() < lowWindow
	})
	b.low, b.unbounded = short, false
}

// covers tells whether low would hold the entry.
func (b *zsetBody) covers(e scored) bool {
	return b.low != nil && (b.unbounded || !b.bound.less(e))
}

// insert and remove keep the cached order in step with the rows.
func (b *zsetBody) insert(e scored) {
	if b.covers(e) {
		b.low.Set(e)
		return
	}
	if b.low == nil && len(b.mark) > 0 {
		if suffix := e.suffix(); bytes.Compare(suffix, b.mark) < 0 {
			b.mark = suffix
		}
	}
}

func (b *zsetBody) remove(e scored) {
	if b.covers(e) {
		b.low.Delete(e)
	}
}

// fillLow loads entries until low has some, or all if there are none.
func (s *Shard) fillLow(o *object) error {
	b := o.zset
	if b.low != nil && (b.unbounded || b.low.Len() > 0) {
		return nil
	}
	from := b.mark
	if b.low != nil {
		from = append(b.bound.suffix(), 0)
	}
	low := newScoreTree()
	last := scored{}
	end, err := s.ascendRows(o, from, func(e scored) bool {
		low.Load(e)
		last = e
		return low.Len() < lowWindow
	})
	if err != nil {
		return err
	}
	b.low, b.unbounded, b.bound = low, end, last
	s.cache.charge(o)
	return nil
}

// ascendRows calls fn for the score rows whose suffix is at least from until it returns false; it returns
// true when it came to the end.
func (s *Shard) ascendRows(o *object, from []byte, fn func(scored) bool) (end bool, err error) {
	prefix := appendElementPrefix(nil, rowScore, o.id)
	it, err := s.iterate(s.reader(o), append(prefix, from...), appendElementPrefix(nil, rowScore, o.id+1))
	if err != nil {
		return false, err
	}
	end = true
	for ok := it.First(); ok && end; ok = it.Next() {
		score, member := scoreOf(it.Key())
		end = fn(scored{score, string(member)})
	}
	return end, s.finish(it)
}

// descendRows calls fn for the score rows whose suffix is below to, from the highest down, until it returns
// false. A nil to stands for the end.
func (s *Shard) descendRows(o *object, to []byte, fn func(scored) bool) error {
	end := appendElementPrefix(nil, rowScore, o.id+1)
	if to != nil {
		end = append(appendElementPrefix(nil, rowScore, o.id), to...)
	}
	it, err := s.iterate(s.reader(o), append(appendElementPrefix(nil, rowScore, o.id), o.zset.lowMark()...), end)
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		score, member := scoreOf(it.Key())
		if !fn(scored{score, string(member)}) {
			break
		}
	}
	return s.finish(it)
}

// ascend calls fn for the entries that are not less than from, in order, until it returns false: from memory
// as far as low goes, then from the rows.
func (s *Shard) ascend(o *object, from scored, fn func(scored) bool) (goOn bool, err error) {
	if err := s.fillLow(o); err != nil {
		return false, err
	}
	b := o.zset
	start := from.suffix()
	if b.covers(from) {
		goOn = true
		b.low.Ascend(from, func(e scored) bool {
			goOn = fn(e)
			return goOn
		})
		if !goOn || b.unbounded {
			return goOn, nil
		}
		start = append(b.bound.suffix(), 0)
	}
	return s.ascendRows(o, start, fn)
}

// descend calls fn for the entries that are less than to, from the highest down, until it returns false.
func (s *Shard) descend(o *object, to scored, fn func(scored) bool) (goOn bool, err error) {
	goOn = true
	each := func(e scored) bool {
		goOn = !e.less(to) || fn(e)
		return goOn
	}
	if b := o.zset; b.covers(to) {
		b.low.Descend(to, each)
		return goOn, nil
	}
	return goOn, s.descendRows(o, to.suffix(), each)
}

// descendAll calls fn for all entries, from the highest down, until it returns false. No entry stands for the
// end, since no member is the greatest one of the score +inf.
func (s *Shard) descendAll(o *object, fn func(scored) bool) (goOn bool, err error) {
	goOn = true
	each := func(e scored) bool {
		goOn = fn(e)
		return goOn
	}
	if b := o.zset; b.low != nil && b.unbounded {
		b.low.Reverse(each)
		return goOn, nil
	}
	return goOn, s.descendRows(o, nil, each)
}

// score reads one member's score through the cache.
func (s *Shard) score(o *object, member []byte) (score float64, ok bool, err error) {
	if o.kind == KindNone {
		return 0, false, nil
	}
	if el, ok := o.zset.rows[string(member)]; ok {
		return el.val, !el.dead, nil
	}
	if o.zset.complete(o) {
		return 0, false, nil
	}
	s.keyBuf = appendFieldKey(s.keyBuf[:0], o.id, member)
	raw, ok, err := s.get(s.keyBuf)
	if err != nil || !ok {
		return 0, false, err
	}
	if len(raw) != scoreSize {
		return 0, false, s.readError(errCorruptRow)
	}
	score = scoreFromSortable(binary.BigEndian.Uint64(raw))
	o.zset.put(member, score, scoreSize, scoreSize)
	s.cache.charge(o)
	return score, true, nil
}

// Score returns the member's score.
func (z ZSet) Score(member []byte) (score float64, ok bool, err error) {
	s, o, err := z.home(member)
	if err != nil {
		return 0, false, err
	}
	return s.score(o, member)
}

// Set gives the member the score, which must not be NaN, and tells whether the member is new. Minus zero is
// stored as zero.
func (z ZSet) Set(member []byte, score float64) (added bool, err error) {
	s, o, err := z.writable(member)
	if err != nil {
		return false, err
	}
	score += 0
	old, ok, err := s.score(o, member)
	if err != nil || ok && old == score {
		return false, err
	}
	s.modify(o)
	if ok {
		s.deleteScore(o, scored{old, string(member)})
	} else {
		o.count++
	}
	var raw [scoreSize]byte
	binary.BigEndian.PutUint64(raw[:], sortableScore(score))
	s.keyBuf = appendFieldKey(s.keyBuf[:0], o.id, member)
	s.set(s.keyBuf, raw[:])
	s.keyBuf = appendScoreKey(s.keyBuf[:0], o.id, score, member)
	s.set(s.keyBuf, nil)
	o.zset.put(member, score, scoreSize, scoreSize)
	o.zset.insert(scored{score, string(member)})
	return !ok, nil
}

func (s *Shard) deleteScore(o *object, e scored) {
	s.keyBuf = appendScoreKey(s.keyBuf[:0], o.id, e.score, []byte(e.member))
	s.delete(s.keyBuf)
	o.zset.remove(e)
}

// Remove removes the member and tells whether it was there.
func (z ZSet) Remove(member []byte) (bool, error) {
	s, o, err := z.home(member)
	if err != nil {
		return false, err
	}
	score, ok, err := s.score(o, member)
	if err != nil || !ok {
		return false, err
	}
	s.removeScored(o, scored{score, string(member)})
	return true, nil
}

func (s *Shard) removeScored(o *object, e scored) {
	s.modify(o)
	member := []byte(e.member)
	s.keyBuf = appendFieldKey(s.keyBuf[:0], o.id, member)
	s.delete(s.keyBuf)
	s.deleteScore(o, e)
	o.zset.kill(member, scoreSize)
	s.removed(o)
}

// Pop removes the member of the lowest score, or with highest the one of the highest.
func (z ZSet) Pop(highest bool) (member []byte, score float64, ok bool, err error) {
	var s *Shard
	var o *object
	var best scored
	err = z.each(func(fs *Shard, fo *object) error {
		e, err := fs.endOf(fo, highest)
		if err == nil && (s == nil || (highest && best.less(e)) || (!highest && e.less(best))) {
			s, o, best = fs, fo, e
		}
		return err
	})
	if err != nil || s == nil {
		return nil, 0, false, err
	}
	s.removeScored(o, best)
	return []byte(best.member), best.score, true, nil
}

// endOf returns the fragment's lowest or highest entry. A collection that exists has one.
func (s *Shard) endOf(o *object, highest bool) (e scored, err error) {
	found := false
	take := func(x scored) bool {
		e, found = x, true
		return false
	}
	if highest {
		_, err = s.descendAll(o, take)
	} else if err = s.fillLow(o); err == nil {
		e, found = o.zset.low.Min()
	}
	if err == nil && !found {
		err = s.readError(errCorruptRow)
	}
	return e, err
}

// Each calls fn for every member, in no order, until it returns false.
func (z ZSet) Each(fn func(member []byte, score float64) bool) error {
	return untilStopped(&z.handle, func(s *Shard, o *object) (bool, error) {
		if o.zset.complete(o) {
			for name, el := range o.zset.rows {
				if !el.dead && !fn([]byte(name), el.val) {
					return false, nil
				}
			}
			return true, nil
		}
		return s.eachElement(o, 0, func(member, raw []byte) bool {
			score := scoreFromSortable(binary.BigEndian.Uint64(raw))
			if o.count <= cacheWholeLimit {
				if _, cached := o.zset.rows[string(member)]; !cached {
					o.zset.put(member, score, scoreSize, scoreSize)
				}
			}
			return fn(member, score)
		})
	})
}

// Scan visits members from the cursor on, see handle.scan.
func (z ZSet) Scan(cursor uint64, count int, fn func(member []byte, score float64)) (next uint64, err error) {
	visit := func(member, raw []byte) { fn(member, scoreFromSortable(binary.BigEndian.Uint64(raw))) }
	return z.scan(cursor, count, visit, func(each func(name, val []byte) bool) error {
		return z.Each(func(member []byte, score float64) bool {
			return each(member, binary.BigEndian.AppendUint64(nil, sortableScore(score)))
		})
	})
}

// ScoreRange is a range of scores, which includes Min and Max unless MinEx and MaxEx say otherwise.
type ScoreRange struct {
	Min, Max     float64
	MinEx, MaxEx bool
}

// begin is the least entry that may be in the range; end is the least one above it, unless it has no end.
func (r ScoreRange) begin() (from scored, empty bool) {
	if !r.MinEx {
		return scored{score: r.Min}, false
	}
	return scored{score: math.Nextafter(r.Min, math.Inf(1))}, math.IsInf(r.Min, 1)
}

func (r ScoreRange) end() (to scored, endless bool) {
	if r.MaxEx {
		return scored{score: r.Max}, false
	}
	return scored{score: math.Nextafter(r.Max, math.Inf(1))}, math.IsInf(r.Max, 1)
}

// LexRange is a range of members of one score, which includes Min and Max unless MinEx and MaxEx say
// otherwise. MinInf and MaxInf stand for "-" and "+".
type LexRange struct {
	Min, Max       []byte
	MinEx, MaxEx   bool
	MinInf, MaxInf bool
}

// RangeByScore calls fn for the members in the range, in order of score and bytes or, with rev, against it,
// until it returns false.
func (z ZSet) RangeByScore(r ScoreRange, rev bool, fn func(member []byte, score float64) bool) error {
	from, empty := r.begin()
	to, endless := r.end()
	if empty || !endless && !from.less(to) {
		return nil
	}
	inside := func(e scored) bool { return endless || e.less(to) }
	above := func(e scored) bool { return !e.less(from) }
	return z.ordered(rev, func(s *Shard, o *object, take func(scored) bool) error {
		var err error
		switch {
		case !rev:
			_, err = s.ascend(o, from, func(e scored) bool { return inside(e) && take(e) })
		case endless:
			_, err = s.descendAll(o, func(e scored) bool { return above(e) && take(e) })
		default:
			_, err = s.descend(o, to, func(e scored) bool { return above(e) && take(e) })
		}
		return err
	}, fn)
}

// RangeByLex calls fn for the members in the range, in order of their bytes or, with rev, against it, until
// it returns false. As in Redis, all members must have the same score.
func (z ZSet) RangeByLex(r LexRange, rev bool, fn func(member []byte, score float64) bool) error {
	below := func(e scored) bool {
		return !r.MinInf && (e.member < string(r.Min) || r.MinEx && e.member == string(r.Min))
	}
	above := func(e scored) bool {
		return !r.MaxInf && (e.member > string(r.Max) || r.MaxEx && e.member == string(r.Max))
	}
	return z.ordered(rev, func(s *Shard, o *object, take func(scored) bool) error {
		first, err := s.endOf(o, rev)
		if err != nil {
			return err
		}
		if rev {
			each := func(e scored) bool { return above(e) || !below(e) && take(e) }
			if r.MaxInf {
				_, err = s.descendAll(o, each)
			} else {
				_, err = s.descend(o, scored{first.score, string(r.Max) + "\x00"}, each)
			}
			return err
		}
		_, err = s.ascend(o, scored{first.score, string(r.Min)}, func(e scored) bool {
			return below(e) || !above(e) && take(e)
		})
		return err
	}, fn)
}

// ordered runs walk over the fragments and calls fn for what it takes, in order over all of them.
func (z ZSet) ordered(rev bool, walk func(s *Shard, o *object, take func(scored) bool) error, fn func(member []byte, score float64) bool) error {
	call := func(e scored) bool { return fn([]byte(e.member), e.score) }
	if !z.partitioned {
		if z.o.kind == KindNone {
			return nil
		}
		return walk(z.s, z.o, call)
	}
	return z.merge(rev, walk, call)
}

// RangeByRank calls fn for the members whose ranks are start … stop, counted from the low end or, with rev,
// from the high end, until it returns false. 0 <= start <= stop < Len.
func (z ZSet) RangeByRank(start, stop int64, rev bool, fn func(member []byte, score float64) bool) error {
	left := stop - start + 1
	take := func(member []byte, score float64) bool {
		if start > 0 {
			start--
			return true
		}
		left--
		return fn(member, score) && left > 0
	}
	if !z.partitioned && z.o.kind != KindNone && !rev && z.o.zset.low != nil && z.o.zset.unbounded {
		first, _ := z.o.zset.low.GetAt(int(start))
		start = 0
		_, err := z.s.ascend(z.o, first, func(e scored) bool { return take([]byte(e.member), e.score) })
		return err
	}
	return z.ordered(rev, func(s *Shard, o *object, take func(scored) bool) error {
		var err error
		if rev {
			_, err = s.descendAll(o, take)
		} else {
			_, err = s.ascend(o, scored{score: math.Inf(-1)}, take)
		}
		return err
	}, take)
}

// Count counts the members whose score is in the range.
func (z ZSet) Count(r ScoreRange) (n int64, err error) {
	from, empty := r.begin()
	to, endless := r.end()
	if empty || !endless && !from.less(to) {
		return 0, nil
	}
	err = z.each(func(s *Shard, o *object) error {
		if b := o.zset; b.low != nil && b.unbounded {
			high := b.low.Len()
			if !endless {
				high = b.rank(to)
			}
			n += int64(high - b.rank(from))
			return nil
		}
		_, err := s.ascend(o, from, func(e scored) bool {
			if !endless && !e.less(to) {
				return false
			}
			n++
			return true
		})
		return err
	})
	return n, err
}

// rank counts the entries of low that are less than e.
func (b *zsetBody) rank(e scored) int {
	lo, hi := 0, b.low.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if at, _ := b.low.GetAt(mid); at.less(e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
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
	self := scored{score, string(member)}
	err = z.each(func(s *Shard, o *object) error {
		if o.zset.covers(self) {
			rank += int64(o.zset.rank(self))
			return nil
		}
		_, err := s.ascend(o, scored{score: math.Inf(-1)}, func(e scored) bool {
			if !e.less(self) {
				return false
			}
			rank++
			return true
		})
		return err
	})
	if rev {
		rank = total - 1 - rank
	}
	return rank, score, true, err
}

// compareScored orders entries for merging.
func compareScored(a, b scored) int {
	switch {
	case a.score < b.score:
		return -1
	case a.score > b.score:
		return 1
	}
	return strings.Compare(a.member, b.member)
}
