package shard

import (
	"encoding/binary"
	"math"
	"strings"
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

// zsetBody caches a sorted set: members' scores, and both ends of the order. The low end is what delayed tasks, retention
// and ZPOPMIN ask for, the high one is for ZPOPMAX and ZREVRANGE.
type zsetBody struct {
	elements[float64]
	low, high scoreWindow
	cut       bool      // an entry was removed at the high end, see highMark
	gone      []stretch // that the transaction has cut out: the store still has the entries, and the cache has none
}

func newZSetBody(common *string) *zsetBody { return &zsetBody{elements: newElements[float64](common)} }

func (b *zsetBody) footprint() int { return b.elements.footprint() + b.low.bytes + b.high.bytes }

func scoreBytes(float64) int { return scoreSize }

func (b *zsetBody) settle() {
	b.elements.settle()
	b.settleIdle(scoreBytes)
	b.gone = nil
}

// encode appends what the metadata row has of a sorted set: the length of the low mark as a uvarint, the low mark, the
// high mark.
func (b *zsetBody) encode(dst []byte) []byte {
	mark := b.lowMark()
	dst = append(binary.AppendUvarint(dst, uint64(len(mark))), mark...)
	return append(dst, b.highMark()...)
}

func decodeZSet(r *varintReader, common *string) *zsetBody {
	b := newZSetBody(common)
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return b
	}
	b.low.mark = append([]byte(nil), r.rest[:n]...)
	b.high.mark = append([]byte(nil), r.rest[n:]...)
	b.cut = len(b.high.mark) > 0
	return b
}

// score reads one member's score through the cache.
func (s *Shard) score(o *object, member []byte) (score float64, ok bool, err error) {
	if o.kind == KindNone {
		return 0, false, nil
	}
	if el := o.zset.find(member); el != nil {
		return el.val, !el.dead, nil
	}
	if o.zset.lacks(o, member) {
		return 0, false, nil
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	raw, ok, err := s.get(s.keyBuf)
	if err == nil && !ok {
		s.missElement(o, &o.zset.names)
	}
	if err != nil || !ok {
		return 0, false, err
	}
	score, ok, err = s.learnScore(o, member, raw)
	s.cache.charge(o)
	return score, ok, err
}

// learnScore caches the score of a member, of which the value of its row is given, unless the transaction has cut it out.
func (s *Shard) learnScore(o *object, member, raw []byte) (score float64, ok bool, err error) {
	if len(raw) != scoreSize {
		return 0, false, s.readError(errCorruptRow)
	}
	score = scoreFromSortable(binary.BigEndian.Uint64(raw))
	if len(o.zset.gone) > 0 && o.zset.isGone(scored{score, string(member)}) {
		return 0, false, nil
	}
	o.zset.put(member, score, scoreSize, scoreSize)
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
	return s.setMember(o, member, score+0)
}

func (s *Shard) setMember(o *object, member []byte, score float64) (added bool, err error) {
	old, ok, err := s.score(o, member)
	if err != nil || ok && old == score {
		return false, err
	}
	if ok {
		s.modify(o)
		s.deleteScore(o, scored{old, string(member)})
	}
	s.setScore(o, member, score, ok)
	return !ok, nil
}

// SetIdle is Set followed by Uncache.
func (z ZSet) SetIdle(member []byte, score float64) error {
	s, o, err := z.writable(member)
	if err != nil {
		return err
	}
	if _, err := s.setMember(o, member, score+0); err != nil {
		return err
	}
	s.uncacheMember(o, member)
	return nil
}

// SetNew gives the score to a member that is not there, which the caller knows for sure, so it need not be looked for.
func (z ZSet) SetNew(member []byte, score float64) error {
	s, o, err := z.writable(member)
	if err == nil {
		s.setScore(o, member, score+0, false)
	}
	return err
}

// Uncache has the cache forget a member that nobody is expected to ask for soon, with the commit if the transaction has changed the
// sorted set.
func (z ZSet) Uncache(member []byte) error {
	s, o, err := z.home(member)
	if err == nil && o.zset != nil {
		s.uncacheMember(o, member)
	}
	return err
}

func (s *Shard) uncacheMember(o *object, member []byte) {
	o.zset.uncache(o, member, scoreBytes)
	s.cache.charge(o)
}

// setScore gives the member the score, in place of one whose row is deleted already if it is there.
func (s *Shard) setScore(o *object, member []byte, score float64, there bool) {
	s.modify(o)
	if !there {
		o.count++
		o.zset.created(s, o, member)
	}
	s.putScored(o, member, score, !there)
	e := scored{score, o.zset.put(member, score, scoreSize, scoreSize).name}
	o.zset.insert(e)
	s.cache.ranks.change(o.id, e, 1)
}

func (s *Shard) deleteScore(o *object, e scored) {
	s.keyBuf = appendScoreKey(s.keyBuf[:0], o.id, e.score, []byte(e.member))
	s.delete(s.keyBuf)
	o.zset.remove(e)
	s.cache.ranks.change(o.id, e, -1)
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
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	s.delete(s.keyBuf)
	s.deleteScore(o, e)
	o.zset.kill(s, o, member, scoreSize)
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
		err = s.descendAll(o, take)
	} else if err = s.fillLow(o); err == nil {
		e, found = o.zset.low.tree.Min()
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
				if o.zset.find(member) == nil {
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

// stretch is the part of the order that the range is.
func (r ScoreRange) stretch() stretch {
	from, to := scored{score: r.Min}, scored{score: r.Max}
	switch {
	case r.MinEx && math.IsInf(r.Min, 1):
		return stretch{}
	case r.MinEx:
		from.score = math.Nextafter(r.Min, math.Inf(1))
	}
	if r.MaxEx {
		return stretch{from: from, to: to}
	}
	to.score = math.Nextafter(r.Max, math.Inf(1))
	return stretch{from, to, math.IsInf(r.Max, 1)}
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
	part := r.stretch()
	if part.empty() {
		return nil
	}
	return z.ordered(rev, func(s *Shard, o *object, take func(scored) bool) error {
		inside := func(e scored) bool { return part.has(e) && take(e) }
		switch {
		case !rev:
			return s.ascend(o, part.from, inside)
		case part.endless:
			return s.descendAll(o, inside)
		}
		return s.descend(o, part.to, inside)
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
				return s.descendAll(o, each)
			}
			return s.descend(o, scored{first.score, string(r.Max) + "\x00"}, each)
		}
		return s.ascend(o, scored{first.score, string(r.Min)}, func(e scored) bool {
			return below(e) || !above(e) && take(e)
		})
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
