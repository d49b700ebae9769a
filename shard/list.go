package shard

import (
	"bytes"
	"errors"
	"slices"

	"github.com/gammazero/deque"
)

// End is one of a list's two ends.
type End int

// The ends: elements are pushed to the left of Head and to the right of Tail.
const (
	Head End = iota
	Tail
)

// List is the list at a key. The handle of a missing key is an empty list.
type List struct{ handle }

// List returns the list at the key, or ErrWrongType.
func (d DB) List(key []byte) (List, error) {
	h, err := d.collection(key, KindList)
	return List{h}, err
}

// listBody is a list's shape and its cached ends. Elements stand at indices in [head, tail), in order but
// not necessarily at every one: removing from the middle leaves a hole instead of shifting what follows.
// front holds the first elements of the list and back the last, without a gap within either; when together
// they hold as many as the list counts, they hold all of it. So pushes and pops at either end are map-free
// steps in memory, and only popping into what was pushed long ago reads rows, a window at a time.
type listBody struct {
	head, tail  int64
	front, back listWindow
	slots       *slotIndex // nil: nobody pops the list by slot
	inner       bool       // the transaction has written elements between the windows
	ahead       Ahead      // see List.Ahead
}

type listItem struct {
	index int64
	val   []byte
}

type listWindow struct {
	deque.Deque[listItem]
	bytes int
	ahead Ahead // how far it is filled
}

const (
	listItemOverhead = 56
	listWindowBytes  = 64 << 10 // a window that grew beyond this is cut to half of it after the commit
	listWindowSpan   = 1024     // indices that a window is filled over at most, lest it step over all that was removed in between
)

func (w *listWindow) push(end End, it listItem) {
	w.bytes += len(it.val) + listItemOverhead
	if end == Head {
		w.PushFront(it)
	} else {
		w.PushBack(it)
	}
}

func (w *listWindow) pop(end End) listItem {
	var it listItem
	if end == Head {
		it = w.PopFront()
	} else {
		it = w.PopBack()
	}
	w.bytes -= len(it.val) + listItemOverhead
	return it
}

// cut drops elements at the end until the window has at most so many bytes.
func (w *listWindow) cut(end End, bytes int) {
	for w.bytes > bytes {
		w.pop(end)
	}
}

// removeIf drops the elements that fn chooses.
func (w *listWindow) removeIf(fn func(listItem) bool) {
	for range w.Len() {
		if it := w.pop(Head); !fn(it) {
			w.push(Tail, it)
		}
	}
}

func (b *listBody) footprint() int {
	n := b.front.bytes + b.back.bytes
	if b.slots != nil {
		n += b.slots.footprint()
	}
	return n
}

// shrink cuts both windows, at the ends that face the middle of the list.
func (b *listBody) shrink(bytes int) {
	b.front.cut(Tail, bytes)
	b.back.cut(Head, bytes)
	b.front.ahead, b.back.ahead = Ahead{}, Ahead{}
	if b.slots != nil {
		b.slots.shrink()
	}
}

// cached tells how many elements are cached; complete whether all are.
func (b *listBody) cached() int64             { return int64(b.front.Len() + b.back.Len()) }
func (b *listBody) complete(o *object) bool   { return b.cached() == o.count }
func (b *listBody) contiguous(o *object) bool { return b.tail-b.head == o.count }

// at returns the cached element at the position, if it is cached.
func (b *listBody) at(o *object, pos int64) (listItem, bool) {
	if pos < int64(b.front.Len()) {
		return b.front.At(int(pos)), true
	}
	if fromEnd := o.count - pos; fromEnd <= int64(b.back.Len()) {
		return b.back.At(b.back.Len() - int(fromEnd)), true
	}
	return listItem{}, false
}

// gap is the range of indices that neither window reaches into.
func (b *listBody) gap() (from, to int64) {
	from, to = b.head, b.tail
	if n := b.front.Len(); n > 0 {
		from = b.front.Back().index + 1
	}
	if b.back.Len() > 0 {
		to = b.back.Front().index
	}
	return from, to
}

// settle cuts windows that have grown; a small list stays whole.
func (b *listBody) settle() {
	b.inner = false
	if b.front.bytes > listWindowBytes {
		b.front.cut(Tail, listWindowBytes/2)
	}
	if b.back.bytes > listWindowBytes {
		b.back.cut(Head, listWindowBytes/2)
	}
	if b.slots != nil {
		b.slots.settle()
	}
}

// settle is called for every object that a commit changed.
func (o *object) settle() {
	switch {
	case o.list != nil:
		o.list.settle()
	case o.hash != nil:
		o.hash.settle()
	case o.set != nil:
		o.set.settle()
	case o.zset != nil:
		o.zset.settle()
	case o.stream != nil:
		o.stream.settle(o)
	}
}

// Push puts the value at the end.
func (l List) Push(end End, val []byte) error {
	s, o, err := l.writable(val)
	if err != nil {
		return err
	}
	s.modify(o)
	b := o.list
	it := listItem{val: append(make([]byte, 0, len(val)), val...)}
	if end == Head {
		b.head--
		it.index = b.head
		b.front.push(Head, it)
	} else {
		it.index = b.tail
		b.tail++
		b.back.push(Tail, it)
	}
	o.count++
	s.putItem(o, it, true)
	return nil
}

// Pop removes the element at the end.
func (l List) Pop(end End) (val []byte, ok bool, err error) {
	if l.partitioned {
		return l.popSpread(end)
	}
	s, o := l.s, l.o
	if o.kind == KindNone {
		return nil, false, nil
	}
	w, err := s.window(o, end)
	if err != nil {
		return nil, false, err
	}
	s.modify(o)
	it := w.pop(end)
	if end == Head {
		o.list.head = it.index + 1
	} else {
		o.list.tail = it.index
	}
	s.dropItem(o, it)
	s.removed(o)
	return it.val, true, nil
}

// Peek returns the element that Pop would remove. Of a partitioned list that is one of any fragment, unless the transaction is narrowed to a shard.
func (l List) Peek(end End) (val []byte, ok bool, err error) {
	if l, err = l.seen(); err != nil {
		return nil, false, err
	}
	if l.partitioned {
		if end == Tail {
			return l.Index(-1)
		}
		return l.Index(0)
	}
	if l.o.kind == KindNone {
		return nil, false, nil
	}
	w, err := l.s.window(l.o, end)
	if err != nil {
		return nil, false, err
	}
	l.s.cache.charge(l.o)
	if end == Head {
		return w.Front().val, true, nil
	}
	return w.Back().val, true, nil
}

// LenAt counts the elements on the shard of one of them.
func (l List) LenAt(element []byte) (int64, error) {
	_, o, err := l.home(element)
	if err != nil {
		return 0, err
	}
	return o.count, nil
}

// Next lists up to n elements that will be popped next at the end, as far as they are cached. They may not be changed. Of a partitioned
// list it lists none, unless the transaction is narrowed to a shard.
func (l List) Next(end End, n int) (vals [][]byte, err error) {
	if l, err = l.seen(); err != nil || l.partitioned || l.o.list == nil {
		return nil, err
	}
	near, far := &l.o.list.front, &l.o.list.back
	if end == Tail {
		near, far = far, near
	}
	add := func(it listItem) bool {
		vals = append(vals, it.val)
		return len(vals) < n
	}
	if walkWindow(near, end, add) && l.o.list.complete(l.o) {
		walkWindow(far, end, add)
	}
	return vals, nil
}

// Ahead is for those who read ahead what the elements name that they pop. The cache forgets it with the list. Without such a list, and for one of which
// Next lists nothing, it is nil.
func (l List) Ahead() (*Ahead, error) {
	l, err := l.seen()
	if err != nil || l.partitioned || l.o.list == nil {
		return nil, err
	}
	return &l.o.list.ahead, nil
}

// seen is the fragment that the transaction sees of a partitioned list, if it sees one only.
func (l List) seen() (List, error) {
	if first, last := l.db.span(); l.partitioned && first == last {
		return l.fragment(first)
	}
	return l, nil
}

// window returns the window that holds the element at the end, filled if it has to be.
func (s *Shard) window(o *object, end End) (*listWindow, error) {
	b := o.list
	near, far := &b.front, &b.back
	if end == Tail {
		near, far = far, near
	}
	if near.Len() > 0 {
		return near, nil
	}
	if int64(far.Len()) == o.count {
		return far, nil
	}
	from, to := b.gap()
	each := s.eachIndex
	if b.contiguous(o) && !b.inner {
		each = s.everyIndex
	}
	items := near.ahead.Next()
	err := each(o, from, to, end, func(it listItem) bool {
		near.push(1-end, it)
		return near.Len() < items && near.bytes < listWindowBytes/2 && near.Back().index-near.Front().index < listWindowSpan
	})
	if err == nil && near.Len() == 0 {
		err = s.readError(errCorruptRow)
	}
	return near, err
}

// eachIndex calls fn for the element rows with indices in [from, to), beginning at the end, until it returns
// false. The values are copies.
func (s *Shard) eachIndex(o *object, from, to int64, end End, fn func(listItem) bool) error {
	if from >= to {
		return nil
	}
	it, err := s.iterate(s.reader(o), appendIndexKey(nil, o.id, from), appendIndexKey(nil, o.id, to))
	if err != nil {
		return err
	}
	first, next := it.First, it.Next
	if end == Tail {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		v, err := it.ValueAndErr()
		if err != nil {
			break
		}
		if !fn(listItem{index: indexOf(it.Key()), val: append(make([]byte, 0, len(v)), v...)}) {
			break
		}
	}
	return s.finish(it)
}

// everyIndex is eachIndex for a list that has an element at every index, of which the transaction has written none. As it is known
// which rows there must be, those that are staged are looked up, and need not be applied first: of a queue that is being
// popped, little else is staged than the deletions of what was popped.
func (s *Shard) everyIndex(o *object, from, to int64, end End, fn func(listItem) bool) error {
	if from >= to {
		return nil
	}
	s.stagePending()
	// A stage that is applied meanwhile would be missed if it were asked for later than the iterator is made.
	applying := s.applying.Load()
	it, err := s.iterateApplied(s.db, appendIndexKey(nil, o.id, from), appendIndexKey(nil, o.id, to))
	if err != nil {
		return err
	}
	index, last, step, first, next := from, to-1, int64(1), it.First, it.Next
	if end == Tail {
		index, last, step, first, next = to-1, from, -1, it.Last, it.Prev
	}
	ok := first()
	for goOn := true; goOn; index += step {
		s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, index)
		hash := rowHash(s.keyBuf)
		val, deleted, staged := s.staged.get(hash, s.keyBuf)
		if !staged {
			val, deleted, staged = applying.get(hash, s.keyBuf)
		}
		applied := ok && indexOf(it.Key()) == index
		if !staged && applied {
			if val, err = it.ValueAndErr(); err != nil {
				break
			}
		}
		if deleted || !staged && !applied {
			err = s.readError(errCorruptRow)
			break
		}
		goOn = fn(listItem{index: index, val: append(make([]byte, 0, len(val)), val...)}) && index != last
		if applied {
			ok = next()
		}
	}
	return errors.Join(err, s.finish(it))
}

// walk calls fn for the elements, beginning at the end, until it returns false: from the windows where they
// reach, from rows in between.
func (s *Shard) walk(o *object, end End, fn func(listItem) bool) error {
	b := o.list
	near, far := &b.front, &b.back
	if end == Tail {
		near, far = far, near
	}
	if !walkWindow(near, end, fn) {
		return nil
	}
	if !b.complete(o) {
		from, to := b.gap()
		goOn := true
		err := s.eachIndex(o, from, to, end, func(it listItem) bool {
			goOn = fn(it)
			return goOn
		})
		if err != nil || !goOn {
			return err
		}
	}
	walkWindow(far, end, fn)
	return nil
}

func walkWindow(w *listWindow, end End, fn func(listItem) bool) bool {
	for i := range w.Len() {
		if end == Tail {
			i = w.Len() - 1 - i
		}
		if !fn(w.At(i)) {
			return false
		}
	}
	return true
}

// position turns an index that may count from the tail into a position from the head.
func position(i, count int64) (pos int64, ok bool) {
	if i < 0 {
		i += count
	}
	return i, i >= 0 && i < count
}

// locate finds the element at a position that exists.
func (s *Shard) locate(o *object, pos int64) (found listItem, err error) {
	b := o.list
	if it, ok := b.at(o, pos); ok {
		return it, nil
	}
	if b.contiguous(o) {
		index := b.head + pos
		err = s.eachIndex(o, index, index+1, Head, func(it listItem) bool {
			found = it
			return false
		})
		return found, err
	}
	end, skip := Head, pos
	if fromTail := o.count - 1 - pos; fromTail < pos {
		end, skip = Tail, fromTail
	}
	err = s.walk(o, end, func(it listItem) bool {
		found = it
		skip--
		return skip >= 0
	})
	return found, err
}

// Index returns the element at the position; negative ones count from the tail.
func (l List) Index(i int64) (val []byte, ok bool, err error) {
	if l.partitioned {
		return l.indexSpread(i)
	}
	if l.o.kind == KindNone {
		return nil, false, nil
	}
	pos, ok := position(i, l.o.count)
	if !ok {
		return nil, false, nil
	}
	it, err := l.s.locate(l.o, pos)
	return it.val, err == nil, err
}

// Set replaces the element at the position; negative ones count from the tail. It returns false when there
// is no such position.
func (l List) Set(i int64, val []byte) (ok bool, err error) {
	if l.partitioned {
		return l.setSpread(i, val)
	}
	s, o := l.s, l.o
	if o.kind == KindNone {
		return false, nil
	}
	pos, ok := position(i, o.count)
	if !ok {
		return false, nil
	}
	it, err := s.locate(o, pos)
	if err != nil {
		return false, err
	}
	s.modify(o)
	b := o.list
	copied := append(make([]byte, 0, len(val)), val...)
	if b.slots != nil {
		s.dropSlot(o, it)
	}
	s.putItem(o, listItem{it.index, copied}, false)
	if pos < int64(b.front.Len()) {
		b.front.replace(int(pos), copied)
	} else if fromEnd := o.count - pos; fromEnd <= int64(b.back.Len()) {
		b.back.replace(b.back.Len()-int(fromEnd), copied)
	} else {
		b.inner = true
	}
	return true, nil
}

func (w *listWindow) replace(i int, val []byte) {
	it := w.At(i)
	w.bytes += len(val) - len(it.val)
	it.val = val
	w.Deque.Set(i, it)
}

// Range calls fn for the elements at the positions start … stop, 0 <= start <= stop < Len.
func (l List) Range(start, stop int64, fn func(val []byte)) error {
	if l.partitioned {
		return l.rangeSpread(start, stop, fn)
	}
	s, o := l.s, l.o
	if o.kind == KindNone {
		return nil
	}
	b := o.list
	_, startCached := b.at(o, start)
	if !startCached && b.contiguous(o) {
		return s.eachIndex(o, b.head+start, b.head+stop+1, Head, func(it listItem) bool {
			fn(it.val)
			return true
		})
	}
	if pos := start; pos >= int64(b.front.Len()) && startCached {
		for ; pos <= stop; pos++ {
			it, _ := b.at(o, pos)
			fn(it.val)
		}
		return nil
	}
	if o.count-start <= stop {
		return s.rangeFromTail(o, o.count-1-stop, stop-start+1, fn)
	}
	pos := int64(-1)
	return s.walk(o, Head, func(it listItem) bool {
		if pos++; pos >= start {
			fn(it.val)
		}
		return pos < stop
	})
}

// rangeFromTail calls fn for n elements of which the last has skip elements behind it: they are found from the tail, and
// turned round.
func (s *Shard) rangeFromTail(o *object, skip, n int64, fn func(val []byte)) error {
	vals := make([][]byte, 0, n)
	err := s.walk(o, Tail, func(it listItem) bool {
		if skip--; skip < 0 {
			vals = append(vals, it.val)
		}
		return int64(len(vals)) < n
	})
	if err != nil {
		return err
	}
	for _, val := range slices.Backward(vals) {
		fn(val)
	}
	return nil
}

// Remove removes elements that equal val: the first count from the head, or for a negative count from the
// tail, or all for 0. It returns how many it removed.
func (l List) Remove(count int64, val []byte) (n int64, err error) {
	s, o, err := l.home(val)
	if err != nil {
		return 0, err
	}
	if o.kind == KindNone {
		return 0, nil
	}
	end, limit := Head, count
	if count < 0 {
		end, limit = Tail, max(-count, 0) // the least count has no opposite, and means all
	}
	var gone []listItem
	bound := -1 // elements between the end and the first that stays
	err = s.walk(o, end, func(it listItem) bool {
		if bytes.Equal(it.val, val) {
			gone = append(gone, it)
		} else if bound < 0 {
			bound = len(gone)
		}
		return limit == 0 || int64(len(gone)) < limit
	})
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	if bound < 0 {
		bound = len(gone)
	}
	s.modify(o)
	if end == Head {
		o.list.cutEnds(gone[:bound], nil)
	} else {
		o.list.cutEnds(nil, gone[:bound])
	}
	s.removeItems(o, gone)
	return int64(len(gone)), nil
}

// cutEnds moves head and tail past elements that go: the outermost ones at either end, from there inwards.
func (b *listBody) cutEnds(first, last []listItem) {
	if n := len(first); n > 0 {
		b.head = first[n-1].index + 1
	}
	if n := len(last); n > 0 {
		b.tail = last[n-1].index
	}
}

// removeItems removes elements.
func (s *Shard) removeItems(o *object, gone []listItem) {
	set := make(map[int64]struct{}, len(gone))
	for _, it := range gone {
		set[it.index] = struct{}{}
		s.dropItem(o, it)
	}
	isGone := func(it listItem) bool {
		_, ok := set[it.index]
		return ok
	}
	b := o.list
	b.front.removeIf(isGone)
	b.back.removeIf(isGone)
	if o.count -= int64(len(gone)); o.count == 0 {
		s.forget(o)
		return
	}
	b.tighten(o)
}

// tighten moves head and tail to the elements that the windows show to be the outermost.
func (b *listBody) tighten(o *object) {
	if b.front.Len() > 0 {
		b.head = b.front.Front().index
	} else if b.complete(o) {
		b.head = b.back.Front().index
	}
	if b.back.Len() > 0 {
		b.tail = b.back.Back().index + 1
	} else if b.complete(o) {
		b.tail = b.front.Back().index + 1
	}
}

// Trim keeps the elements at the positions start … stop and removes the others. When stop < start it removes
// the list.
func (l List) Trim(start, stop int64) error {
	if l.partitioned {
		return l.trimSpread(start, stop)
	}
	s, o := l.s, l.o
	if o.kind == KindNone {
		return nil
	}
	if start > stop || start >= o.count {
		return s.remove(o)
	}
	stop = min(stop, o.count-1)
	head, tail := o.list.head, o.list.tail
	var err error
	if start > 0 {
		if head, err = s.indexAt(o, start); err != nil {
			return err
		}
	}
	if stop < o.count-1 {
		if tail, err = s.indexAt(o, stop); err != nil {
			return err
		}
		tail++
	}
	var gone []listItem // where the rows by slot have to go as well
	if o.list.slots != nil {
		if gone, err = s.outermost(o, start, o.count-1-stop); err != nil {
			return err
		}
	}
	s.modify(o) // for those who watch the key: as in Redis a trim that removes nothing counts, too
	for _, it := range gone {
		s.dropSlot(o, it)
	}
	s.deleteIndices(o, o.list.head, head)
	s.deleteIndices(o, tail, o.list.tail)
	o.list.keep(head, tail)
	o.count = stop - start + 1
	return nil
}

// outermost returns so many elements from the head on, and so many from the tail.
func (s *Shard) outermost(o *object, first, last int64) (items []listItem, err error) {
	for end, n := range [...]int64{Head: first, Tail: last} {
		if n == 0 {
			continue
		}
		err := s.walk(o, End(end), func(it listItem) bool {
			items = append(items, it)
			n--
			return n > 0
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// indexAt is the index of the element at a position that exists.
func (s *Shard) indexAt(o *object, pos int64) (int64, error) {
	if o.list.contiguous(o) {
		return o.list.head + pos, nil
	}
	it, err := s.locate(o, pos)
	return it.index, err
}

// deleteIndices deletes the rows with indices in [from, to), many with one range deletion. Which of few are holes is not worth
// a look.
func (s *Shard) deleteIndices(o *object, from, to int64) {
	if to-from >= s.store.opts.manyRows {
		s.deleteRange(appendIndexKey(nil, o.id, from), appendIndexKey(nil, o.id, to))
		return
	}
	for index := from; index < to; index++ {
		s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, index)
		s.delete(s.keyBuf)
	}
}

// keep cuts the list to the elements with indices in [head, tail).
func (b *listBody) keep(head, tail int64) {
	b.head, b.tail = head, tail
	for _, w := range []*listWindow{&b.front, &b.back} {
		for w.Len() > 0 && w.Front().index < head {
			w.pop(Head)
		}
		for w.Len() > 0 && w.Back().index >= tail {
			w.pop(Tail)
		}
	}
}
