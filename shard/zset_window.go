package shard

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"
)

// scoreWindow caches one end of a sorted set's order: every entry from that end up to and including bound, or all entries
// when it is unbounded. A nil tree means that nothing is cached.
//
// Rows that were removed leave tombstones, and an iterator that begins at an end of the order has to step over all of
// them. So the metadata row remembers a mark for either end, beyond which there is no live score row, and iterators keep
// within the marks. A mark is known from the cached entries, or is the one that the row had.
type scoreWindow struct {
	tree      *btree.BTreeG[scored]
	unbounded bool
	bound     scored
	mark      []byte // valid while tree is nil; empty: unknown
	bytes     int    // resident, about
}

const (
	scoreSize    = 8
	scoredSize   = 64  // resident bytes of an entry besides its member, about
	windowSize   = 256 // entries that a window is filled with
	maxMarkBytes = 8 + 64
	// agendaSize is the entries from which on the window of an agenda is cut to the first ones, which alone are asked for.
	agendaSize = 16 * windowSize
)

func newScoreTree() *btree.BTreeG[scored] {
	return btree.NewBTreeGOptions(scored.less, btree.Options{NoLocks: true})
}

// load adds an entry that is greater than all others in a new window.
func (w *scoreWindow) load(e scored) {
	w.tree.Load(e)
	w.bytes += scoredSize + len(e.member)
}

func (w *scoreWindow) set(e scored) {
	if _, replaced := w.tree.Set(e); !replaced {
		w.bytes += scoredSize + len(e.member)
	}
}

func (w *scoreWindow) delete(e scored) {
	if _, deleted := w.tree.Delete(e); deleted {
		w.bytes -= scoredSize + len(e.member)
	}
}

// whole tells whether the window has every entry. Only the low one ever has.
func (w *scoreWindow) whole() bool { return w.tree != nil && w.unbounded }

// rank counts the entries that are less than e.
func (w *scoreWindow) rank(e scored) int64 {
	lo, hi := 0, w.tree.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if at, _ := w.tree.GetAt(mid); at.less(e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return int64(lo)
}

// lowCovers and highCovers tell whether the window would hold the entry.
func (b *zsetBody) lowCovers(e scored) bool {
	return b.low.tree != nil && (b.low.unbounded || !b.low.bound.less(e))
}

func (b *zsetBody) highCovers(e scored) bool { return b.high.tree != nil && !e.less(b.high.bound) }

// greatest is the last entry of the order, if it is cached.
func (b *zsetBody) greatest() (e scored, ok bool) {
	switch {
	case b.low.whole():
		return b.low.tree.Max()
	case b.high.tree != nil:
		return b.high.tree.Max()
	}
	return e, false
}

// lowMark is a lower bound of the live score rows' suffixes, empty for none. A prefix of a bound is a bound.
func (b *zsetBody) lowMark() []byte {
	mark := b.low.mark
	if b.low.tree != nil {
		mark = nil
		if first, ok := b.low.tree.Min(); ok {
			mark = first.suffix()
		} else if !b.low.unbounded {
			mark = b.low.bound.suffix()
		}
	}
	return mark[:min(len(mark), maxMarkBytes)]
}

// highMark is above the live score rows' suffixes, empty for none. It is kept only if the high end was ever cut, since it
// is written with every commit, and most sorted sets are consumed from the low end alone.
func (b *zsetBody) highMark() []byte {
	if !b.cut {
		return nil
	}
	mark := b.high.mark
	if last, ok := b.greatest(); ok {
		mark = append(last.suffix(), 0)
	} else if b.high.tree != nil {
		mark = b.high.bound.suffix()
	}
	if len(mark) > maxMarkBytes {
		mark = upperBound(mark[:maxMarkBytes])
	}
	return mark
}

// insert and remove keep the cached order in step with the rows.
func (b *zsetBody) insert(e scored) {
	if b.lowCovers(e) {
		b.low.set(e)
	} else if b.low.tree == nil && len(b.low.mark) > 0 {
		if suffix := e.suffix(); bytes.Compare(suffix, b.low.mark) < 0 {
			b.low.mark = suffix
		}
	}
	if b.highCovers(e) {
		b.high.set(e)
	} else if b.high.tree == nil && len(b.high.mark) > 0 {
		if suffix := e.suffix(); bytes.Compare(suffix, b.high.mark) >= 0 {
			b.high.mark = append(suffix, 0)
		}
	}
}

func (b *zsetBody) remove(e scored) {
	if last, ok := b.greatest(); ok && !e.less(last) {
		b.cut = true
	}
	if b.lowCovers(e) {
		b.low.delete(e)
	}
	if b.highCovers(e) {
		b.high.delete(e)
	}
}

// shrink drops half of the scores, the high window, and the upper part of the low one, or all of it if it is short.
func (b *zsetBody) shrink(o *object) {
	b.thin(o, scoreBytes)
	b.high = scoreWindow{mark: b.highMark()}
	switch {
	case b.low.tree == nil:
	case b.low.tree.Len() <= windowSize:
		b.low = scoreWindow{mark: b.lowMark()}
	default:
		b.cutLow()
	}
}

// cutLow drops all of the low window but the lowest entries.
func (b *zsetBody) cutLow() {
	short := scoreWindow{tree: newScoreTree()}
	b.low.tree.Scan(func(e scored) bool {
		short.load(e)
		short.bound = e
		return short.tree.Len() < windowSize
	})
	b.low = short
}

// setWhole makes the low window hold every entry, which are those of tree, so that the high one has no use.
func (b *zsetBody) setWhole(w scoreWindow) {
	w.unbounded = true
	b.low, b.high = w, scoreWindow{}
}

// fillLow loads entries until the low window has some, or all if there are none.
func (s *Shard) fillLow(o *object) error {
	b := o.zset
	if b.low.tree != nil && (b.low.unbounded || b.low.tree.Len() > 0) {
		return nil
	}
	w := scoreWindow{tree: newScoreTree()}
	end, err := s.ascendRows(o, b.behindLow(), func(e scored) bool {
		w.load(e)
		w.bound = e
		return w.tree.Len() < windowSize
	})
	if err != nil {
		return err
	}
	if end {
		b.setWhole(w)
	} else {
		b.low = w
	}
	s.cache.charge(o)
	return nil
}

// behindLow is where the rows begin that an empty low window does not have.
func (b *zsetBody) behindLow() []byte {
	if b.low.tree == nil {
		return b.low.mark
	}
	return append(b.low.bound.suffix(), 0)
}

// fillHigh loads entries until the high window has some, unless the low one has all.
func (s *Shard) fillHigh(o *object) error {
	b := o.zset
	if b.low.whole() || b.high.tree != nil && b.high.tree.Len() > 0 {
		return nil
	}
	to := b.high.mark
	if b.high.tree != nil {
		to = b.high.bound.suffix()
	}
	w := scoreWindow{tree: newScoreTree()}
	end, err := s.descendRows(o, to, func(e scored) bool {
		w.set(e)
		w.bound = e
		return w.tree.Len() < windowSize
	})
	if err != nil {
		return err
	}
	if end {
		b.setWhole(w)
	} else {
		b.high = w
	}
	s.cache.charge(o)
	return nil
}

// scoreRows opens an iterator over the score rows with suffixes in [from, to), as far as there may be live ones; an empty
// bound stands for the end.
func (s *Shard) scoreRows(o *object, from, to []byte) (*pebble.Iterator, error) {
	if mark := o.zset.lowMark(); bytes.Compare(from, mark) < 0 {
		from = mark
	}
	if mark := o.zset.highMark(); len(mark) > 0 && (len(to) == 0 || bytes.Compare(mark, to) < 0) {
		to = mark
	}
	if len(to) > 0 && bytes.Compare(to, from) < 0 {
		to = from
	}
	end := appendElementPrefix(nil, rowScore, o.id+1)
	if len(to) > 0 {
		end = append(appendElementPrefix(nil, rowScore, o.id), to...)
	}
	return s.iterate(s.reader(o), append(appendElementPrefix(nil, rowScore, o.id), from...), end)
}

// ascendRows calls fn for the score rows whose suffix is at least from until it returns false; it returns
// true when it came to the end.
func (s *Shard) ascendRows(o *object, from []byte, fn func(scored) bool) (end bool, err error) {
	it, err := s.scoreRows(o, from, nil)
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
// false; it returns true when it came to the end. An empty to stands for the end.
func (s *Shard) descendRows(o *object, to []byte, fn func(scored) bool) (end bool, err error) {
	it, err := s.scoreRows(o, nil, to)
	if err != nil {
		return false, err
	}
	end = true
	for ok := it.Last(); ok && end; ok = it.Prev() {
		score, member := scoreOf(it.Key())
		end = fn(scored{score, string(member)})
	}
	return end, s.finish(it)
}

// ascend calls fn for the entries that are not less than from, in order, until it returns false: from memory
// as far as the low window goes, then from the rows.
func (s *Shard) ascend(o *object, from scored, fn func(scored) bool) error {
	if err := s.fillLow(o); err != nil {
		return err
	}
	b := o.zset
	start := from.suffix()
	if b.lowCovers(from) {
		goOn := true
		b.low.tree.Ascend(from, func(e scored) bool {
			goOn = fn(e)
			return goOn
		})
		if !goOn || b.low.unbounded {
			return nil
		}
		start = append(b.low.bound.suffix(), 0)
	}
	_, err := s.ascendRows(o, start, fn)
	return err
}

// descend calls fn for the entries that are less than to, from the highest down, until it returns false.
func (s *Shard) descend(o *object, to scored, fn func(scored) bool) error {
	b := o.zset
	goOn := true
	each := func(e scored) bool {
		goOn = !e.less(to) || fn(e)
		return goOn
	}
	start := to.suffix()
	switch {
	case b.lowCovers(to):
		b.low.tree.Descend(to, each)
		return nil
	case b.highCovers(to):
		b.high.tree.Descend(to, each)
		start = b.high.bound.suffix()
	}
	if !goOn {
		return nil
	}
	_, err := s.descendRows(o, start, fn)
	return err
}

// descendAll calls fn for all entries, from the highest down, until it returns false. No entry stands for the
// end, since no member is the greatest one of the score +inf.
func (s *Shard) descendAll(o *object, fn func(scored) bool) error {
	if err := s.fillHigh(o); err != nil {
		return err
	}
	b := o.zset
	if b.low.whole() {
		b.low.tree.Reverse(fn)
		return nil
	}
	goOn := true
	b.high.tree.Reverse(func(e scored) bool {
		goOn = fn(e)
		return goOn
	})
	if !goOn {
		return nil
	}
	_, err := s.descendRows(o, b.high.bound.suffix(), fn)
	return err
}
