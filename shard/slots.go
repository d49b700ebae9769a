package shard

import (
	"math"

	"github.com/gammazero/deque"
)

// The slot index of a list, see ADR 0017. What a list's elements mean may say that each is in a slot, which are its first hexadecimal
// digits, and a list that elements are popped from by slot has a second set of rows: by slot, and within a slot from the
// tail to the head, so that the next element of any slot is one seek away, whatever waits in others.
//
//   - An element has a row in the index exactly if its own index is not less than slotIndex.from. Whatever adds, removes or
//     moves an element goes through putItem and dropItem, which keep to this.
//   - A list that was there before it was first popped by slot is indexed from the tail on, some elements at a time, which are the
//     next ones of every slot. Until the head is reached, elements that are not yet in the index are not found by slot.
//   - A new list of a group that is popped by slot is indexed from its first element on.
//   - A list that is popped by another number of digits than it is indexed by is indexed anew, as one that has no index yet.
//
// In memory the index knows which slots may have something, and of each the next elements. What it knows only saves reads: it
// is dropped with the object, and begins with knowing nothing.

// SlotRange is the slots from one to another, both included.
type SlotRange struct{ From, To uint16 }

// MaxSlotDigits is by how many digits a list can be cut at most.
const MaxSlotDigits = 4

type slotIndex struct {
	digits int
	from   int64    // elements with indices from here on have rows; allIndexed: all have
	maybe  []uint64 // a bit for each slot, which is clear if the slot is known to be empty

	queues map[uint16]*slotQueue // of slots of which more is known than that they may have something
	turns  map[SlotRange]uint16  // the slot whose turn is next
	bytes  int                   // of what the queues hold
	unread bool                  // the transaction has changed rows that the queues do not hold
	news   slotNews
}

// slotQueue is what is known of a slot.
type slotQueue struct {
	items deque.Deque[listItem] // the next elements, without a gap
	below int64                 // all others have indices less than this
	whole bool                  // there are no others
}

const (
	allIndexed    = math.MinInt64
	slotStep      = 1000    // elements that one transaction puts into the index of a list that was there before
	slotMaxTurns  = 1024    // ranges whose turns are remembered
	slotMaxBytes  = 1 << 20 // of elements in memory for each list, after which they are dropped at the commit
	slotQueueSize = 128     // resident bytes of a queue besides its elements, about
)

// slotsOf is how many slots so many digits make.
func slotsOf(digits int) int { return 1 << (4 * digits) }

// fill is how many elements of a slot are read at once.
func (x *slotIndex) fill() int { return min(max(4096/slotsOf(x.digits), 2), aheadMost) }

// newSlotIndex is the index of a list that has no rows in it, for elements from an index on.
func newSlotIndex(digits int, from int64) *slotIndex {
	return &slotIndex{
		digits: digits, from: from, maybe: make([]uint64, (slotsOf(digits)+63)/64),
		queues: make(map[uint16]*slotQueue), turns: make(map[SlotRange]uint16),
	}
}

// decodeSlots is the index of a list that was stored, nil for one without.
func decodeSlots(r *varintReader) *slotIndex {
	if len(r.rest) == 0 {
		return nil
	}
	digits := r.uvarint()
	if digits < 1 || digits > MaxSlotDigits {
		r.bad = true
		return nil
	}
	x := newSlotIndex(int(digits), r.varint())
	for i := range x.maybe {
		x.maybe[i] = math.MaxUint64
	}
	return x
}

func (x *slotIndex) footprint() int {
	return len(x.maybe)*8 + len(x.queues)*slotQueueSize + len(x.turns)*16 + x.bytes
}

func (x *slotIndex) may(slot int) bool { return x.maybe[slot/64]&(1<<(slot%64)) != 0 }

// setEmpty notes that the slot has nothing.
func (x *slotIndex) setEmpty(slot uint16) {
	x.forget(slot)
	x.maybe[slot/64] &^= 1 << (slot % 64)
}

// forget drops what is known of the slot.
func (x *slotIndex) forget(slot uint16) {
	if q := x.queues[slot]; q != nil {
		x.release(q)
		delete(x.queues, slot)
	}
	x.maybe[slot/64] |= 1 << (slot % 64)
}

// release drops the elements of a queue, which have to be read again.
func (x *slotIndex) release(q *slotQueue) {
	if q.items.Len() > 0 {
		q.below, q.whole = q.items.Front().index+1, false
	}
	for q.items.Len() > 0 {
		x.bytes -= len(q.items.PopBack().val) + listItemOverhead
	}
}

// shrink drops all elements. Where each slot's next ones are is still known.
func (x *slotIndex) shrink() {
	for _, q := range x.queues {
		x.release(q)
	}
}

// settle ends what the transaction has changed.
func (x *slotIndex) settle() {
	if x.unread = false; x.bytes > slotMaxBytes {
		x.shrink()
	}
}

// put notes an element that comes to the slot.
func (x *slotIndex) put(slot uint16, it listItem) {
	q := x.queues[slot]
	switch {
	case q == nil && x.may(int(slot)):
		x.unread = true
		return
	case q == nil:
		q = &slotQueue{below: it.index + 1, whole: true}
		x.queues[slot] = q
		x.maybe[slot/64] |= 1 << (slot % 64)
	}
	last := q.items.Len() > 0 && it.index < q.items.Back().index
	switch {
	case q.items.Len() == 0 && q.whole, last && q.whole && q.items.Len() < x.fill():
		q.items.PushBack(it)
		q.below = it.index
	case it.index < q.below: // behind what is held
		q.whole, x.unread = false, true
		return
	case q.items.Len() == 0 || it.index > q.items.Front().index:
		q.items.PushFront(it)
	default: // between two that are held
		x.forget(slot)
		x.unread = true
		return
	}
	x.bytes += len(it.val) + listItemOverhead
}

// drop notes that an element leaves the slot.
func (x *slotIndex) drop(slot uint16, index int64) {
	q := x.queues[slot]
	if q == nil || index < q.below {
		x.unread = true
		return
	}
	if i := q.items.Index(func(it listItem) bool { return it.index == index }); i >= 0 {
		x.bytes -= len(q.items.Remove(i).val) + listItemOverhead
	}
	if q.items.Len() == 0 && q.whole {
		x.setEmpty(slot)
	}
}

// next is the first slot from at on that may have something, and after the end of the range the first from its beginning on.
func (x *slotIndex) next(r SlotRange, at uint16) (slot uint16, ok bool) {
	if at < r.From || at > r.To {
		at = r.From
	}
	if slot, ok = x.firstOf(int(at), int(r.To)); !ok && at > r.From {
		slot, ok = x.firstOf(int(r.From), int(at)-1)
	}
	return slot, ok
}

func (x *slotIndex) firstOf(from, to int) (slot uint16, ok bool) {
	for slot := from; slot <= to; {
		if word := x.maybe[slot/64] >> (slot % 64); word&1 == 1 {
			return uint16(slot), true
		} else if word == 0 {
			slot = (slot/64 + 1) * 64
		} else {
			slot++
		}
	}
	return 0, false
}

// takeTurn has the range go on behind the slot the next time.
func (x *slotIndex) takeTurn(r SlotRange, slot uint16) {
	if len(x.turns) >= slotMaxTurns {
		clear(x.turns)
	}
	x.turns[r] = slot + 1
}

// putItem writes the rows of an element. One that is new has none yet, nor had another at its index.
func (s *Shard) putItem(o *object, it listItem, isNew bool) {
	s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, it.index)
	s.put(s.keyBuf, it.val, isNew)
	if o.list.slots != nil {
		s.putSlot(o, it, isNew)
	}
}

// dropItem deletes the rows of an element.
func (s *Shard) dropItem(o *object, it listItem) {
	s.keyBuf = appendIndexKey(s.keyBuf[:0], o.id, it.index)
	s.deleteIndexed(s.keyBuf)
	if o.list.slots != nil {
		s.dropSlot(o, it)
	}
}

// putSlot puts an element into the list's index, if that reaches to it.
func (s *Shard) putSlot(o *object, it listItem, isNew bool) {
	x := o.list.slots
	if it.index < x.from {
		return
	}
	slot := s.store.tracker.Slot(it.val, x.digits)
	s.keyBuf = appendSlotKey(s.keyBuf[:0], o.id, slot, it.index)
	s.put(s.keyBuf, it.val, isNew)
	x.put(slot, it)
	if len(s.queues) > 0 {
		x.news.add(slot, x.digits)
	}
}

// dropSlot takes an element out of the list's index.
func (s *Shard) dropSlot(o *object, it listItem) {
	x := o.list.slots
	if it.index < x.from {
		return
	}
	slot := s.store.tracker.Slot(it.val, x.digits)
	s.keyBuf = appendSlotKey(s.keyBuf[:0], o.id, slot, it.index)
	s.delete(s.keyBuf)
	x.drop(slot, it.index)
}

// ExpectSlots says that lists of the group which the list's key belongs to are popped by slot, so that new ones are indexed.
func (l List) ExpectSlots() error {
	return l.db.fragments(l.key, func(s *Shard, o *object) error {
		if t := o.track; t != nil && t.Group != "" {
			s.enlist(registryKey{s.state.spaces[o.db.n].id, slottedGroup, t.Group})
		}
		return nil
	})
}

// PopSlot removes an element from one of the slots, the one of that slot which is nearest to the tail. The slots of a range take turns.
func (l List) PopSlot(digits int, r SlotRange) (val []byte, ok bool, err error) {
	if l.partitioned {
		return l.popSlotSpread(digits, r)
	}
	s, o := l.s, l.o
	if o.kind == KindNone {
		return nil, false, nil
	}
	b := o.list
	if b.slots == nil || b.slots.digits != digits {
		s.beginSlots(o, digits)
	}
	it, ok, err := s.nextOf(o, r)
	if !ok && err == nil && b.slots.from != allIndexed {
		if err = s.extendSlots(o); err == nil {
			it, ok, err = s.nextOf(o, r)
		}
	}
	if b.slots.from != allIndexed {
		s.schedule(s.agendaKey(o), 0)
	}
	if !ok || err != nil {
		return nil, false, err
	}
	if b.back.Len() == 0 && !b.complete(o) && !o.dirty {
		// So that the tail follows what is popped, and nobody who comes to that end has to step over it.
		if _, err := s.window(o, Tail); err != nil {
			return nil, false, err
		}
	}
	s.modify(o)
	s.takeItem(o, it)
	return it.val, true, nil
}

// beginSlots gives the list an index that reaches to none of its elements yet, in place of the one that it may have. The news of that
// one go with it: every element is news when the index reaches it.
func (s *Shard) beginSlots(o *object, digits int) {
	s.modify(o)
	if o.list.slots != nil {
		s.deleteRange(appendElementPrefix(nil, rowSlot, o.id), appendElementPrefix(nil, rowSlot, o.id+1))
	}
	o.list.slots = newSlotIndex(digits, o.list.tail)
}

// popSlotSpread is PopSlot for a partitioned list: its fragments take turns as for those who pop at the tail.
func (l List) popSlotSpread(digits int, r SlotRange) (val []byte, ok bool, err error) {
	sl, err := l.spread()
	if err != nil {
		return nil, false, err
	}
	for _, part := range sl.parts {
		if val, ok, err = part.PopSlot(digits, r); ok || err != nil {
			l.db.tx.store.rotors.set(l.db.n, l.key, part.s.ordinal+1)
			return val, ok, err
		}
	}
	return nil, false, nil
}

// takeItem removes an element from wherever it is in the list.
func (s *Shard) takeItem(o *object, it listItem) {
	b := o.list
	s.dropItem(o, it)
	if !b.back.remove(it.index) {
		b.front.remove(it.index)
	}
	if it.index == b.head {
		b.head++
	}
	if it.index == b.tail-1 {
		b.tail--
	}
	if s.removed(o); o.kind == KindList {
		b.tighten(o)
	}
}

// remove drops the element at the index, if the window has it.
func (w *listWindow) remove(index int64) bool {
	if w.Len() == 0 || index < w.Front().index || index > w.Back().index {
		return false
	}
	low, high := 0, w.Len()-1
	for low < high {
		if mid := (low + high) / 2; w.At(mid).index < index {
			low = mid + 1
		} else {
			high = mid
		}
	}
	w.bytes -= len(w.Remove(low).val) + listItemOverhead
	return true
}

// nextOf finds the next element of the range.
func (s *Shard) nextOf(o *object, r SlotRange) (it listItem, ok bool, err error) {
	x := o.list.slots
	for at := x.turns[r]; ; {
		slot, ok := x.next(r, at)
		if !ok {
			return listItem{}, false, nil
		}
		if q := x.queues[slot]; q != nil && q.items.Len() > 0 {
			x.takeTurn(r, slot)
			return q.items.Front(), true, nil
		}
		if err := s.readSlots(o, slot, r.To); err != nil {
			return listItem{}, false, err
		}
	}
}

// readSlots reads the next elements of the slot. If it has none, those of the first slot behind it that has some, among those of which nothing
// is known: others are not looked at, lest what was popped from them be stepped over. So the slot has elements in memory
// then, or is known to be empty.
func (s *Shard) readSlots(o *object, slot, last uint16) error {
	x, index := o.list.slots, o.list.tail
	if q := x.queues[slot]; q != nil {
		index = min(index, q.below)
	}
	end := int(slot)
	for end < int(last) && x.may(end+1) && x.queues[uint16(end+1)] == nil {
		end++
	}
	reader := s.reader(o)
	if !x.unread {
		reader = s.db
	}
	it, err := s.iterate(reader, appendSlotKey(nil, o.id, slot, index-1), upperBound(appendSlotPrefix(nil, o.id, uint16(end))))
	if err != nil {
		return err
	}
	found, q, more, bytes := end+1, &slotQueue{}, false, 0
	for ok := it.First(); ok; ok = it.Next() {
		of, index := slotOf(it.Key())
		if q.items.Len() == 0 {
			found = int(of)
		} else if more = int(of) == found; !more || q.items.Len() == x.fill() {
			break
		}
		more = false
		val, err := it.ValueAndErr()
		if err != nil {
			break
		}
		q.items.PushBack(listItem{index: index, val: append(make([]byte, 0, len(val)), val...)})
		bytes += len(val) + listItemOverhead
		q.below = index
	}
	if err := s.finish(it); err != nil {
		return err
	}
	for empty := int(slot); empty < found; empty++ {
		x.setEmpty(uint16(empty))
	}
	if found <= end {
		q.whole = !more
		x.queues[uint16(found)] = q
		x.bytes += bytes
	}
	return nil
}

// extendSlots puts some more elements of a list that was there before into its index.
func (s *Shard) extendSlots(o *object) error {
	s.modify(o)
	b := o.list
	var items []listItem
	step := s.store.opts.slotStep
	take := func(it listItem) bool {
		items = append(items, it)
		return len(items) < step
	}
	var err error
	if b.slots.from >= b.tail {
		err = s.walk(o, Tail, take)
	} else {
		err = s.eachIndex(o, b.head, b.slots.from, Tail, take)
	}
	if err != nil {
		return err
	}
	if b.slots.from = allIndexed; len(items) == step {
		b.slots.from = items[step-1].index
	}
	for _, it := range items {
		s.putSlot(o, it, true)
	}
	return nil
}

// ExtendSlots puts some more elements of the list into its index, and tells whether there are others left. A list without an
// index gets none.
func (l List) ExtendSlots() (more bool, err error) {
	err = l.each(func(s *Shard, o *object) error {
		x := o.list.slots
		if x == nil || x.from == allIndexed {
			return nil
		}
		err := s.extendSlots(o)
		more = more || x.from != allIndexed
		return err
	})
	return more, err
}

// slotNews is where elements came to, for those who wait by slot: ranges of four digits.
type slotNews struct {
	ranges []SlotRange
	any    bool // anything may have changed
}

// slotMaxNews is how many slots are told apart.
const slotMaxNews = 32

func (n *slotNews) add(slot uint16, digits int) {
	if n.any {
		return
	}
	if n.any = len(n.ranges) >= slotMaxNews; n.any {
		n.ranges = n.ranges[:0]
		return
	}
	shift := 4 * (MaxSlotDigits - digits)
	n.ranges = append(n.ranges, SlotRange{slot << shift, slot<<shift | (1<<shift - 1)})
}

// concern tells whether there may be something in the range.
func (n *slotNews) concern(r *SlotRange) bool {
	for _, news := range n.ranges {
		if news.From <= r.To && r.From <= news.To {
			return true
		}
	}
	return n.any
}

// merge adds other news, and leaves none there.
func (n *slotNews) merge(other *slotNews) {
	if n.any = n.any || other.any || len(n.ranges)+len(other.ranges) > slotMaxNews; !n.any {
		n.ranges = append(n.ranges, other.ranges...)
	}
	other.clear()
}

func (n *slotNews) clear() { n.ranges, n.any = n.ranges[:0], false }
