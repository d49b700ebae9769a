package shard

import "math"

// searchHead returns the place of the first id in head that is not before id, and whether it is id.
func (b *streamBody) searchHead(id StreamID) (i int, found bool) {
	low, high := 0, b.head.Len()
	for low < high {
		if mid := (low + high) / 2; b.head.At(mid).Less(id) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < b.head.Len() && b.head.At(low) == id
}

// fillHead makes the ids of the first n entries known, see frontID. n is at most streamHeadItems.
func (s *Shard) fillHead(o *object, n int) error {
	b := o.stream
	if b.whole() || b.head.Len() >= n || int64(b.head.Len()+b.tail.Len()) == o.count {
		return nil
	}
	from := b.first
	if b.head.Len() > 0 {
		from, _ = b.head.Back().Next()
	}
	_, err := s.entryRows(o, from, b.tailAfter, false, func(e streamEntry) bool {
		b.head.PushBack(e.id)
		return b.head.Len() < streamHeadItems
	})
	return err
}

// known is the number of first entries whose ids are known.
func (b *streamBody) known(o *object) int {
	if n := b.head.Len() + b.tail.Len(); int64(n) == o.count {
		return n
	}
	return b.head.Len()
}

// frontID returns the id of the entry at a place below known.
func (b *streamBody) frontID(i int) StreamID {
	if i < b.head.Len() {
		return b.head.At(i)
	}
	return b.tail.At(i - b.head.Len()).id
}

// Delete removes the entry and tells whether it was there.
func (st Stream) Delete(id StreamID) (bool, error) {
	s, o := st.s, st.o
	if !st.Exists() {
		return false, nil
	}
	ok, err := s.hasEntry(o, id)
	if err != nil || !ok {
		return false, err
	}
	b := o.stream
	isFirst := id == b.first
	if isFirst { // before anything is written: what follows the first entry may have to be read
		if err := s.fillHead(o, 2); err != nil {
			return false, err
		}
	}
	s.changeStream(o, false)
	s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, id)
	s.delete(s.keyBuf)
	b.forgetEntry(id)
	b.maxDeleted = laterID(b.maxDeleted, id)
	if o.count--; o.count == 0 {
		b.empty()
	} else if isFirst {
		b.first = b.frontID(0)
	}
	return true, nil
}

// forgetEntry takes a deleted entry out of the cache.
func (b *streamBody) forgetEntry(id StreamID) {
	if b.covers(id) {
		b.tail.remove(id)
	} else {
		if b.gone == nil {
			b.gone = make(map[StreamID]struct{})
		}
		b.gone[id] = struct{}{}
		if i, ok := b.searchHead(id); ok {
			b.head.Remove(i)
		}
	}
	for _, g := range b.groups {
		if g.ahead.Len() > 0 {
			before := g.ahead.bytes
			g.ahead.remove(id)
			b.groupBytes += g.ahead.bytes - before
		}
	}
}

// StreamTrim says which entries a trim may remove from the front of a stream.
type StreamTrim struct {
	// MaxLen is the length to keep, negative for any; MinID the id before which entries go, zero for none.
	MaxLen int64
	MinID  StreamID
	// Approximate trims in whole blocks of StreamTrimBlock entries, unless all entries go, and removes at most Limit;
	// 0 is no limit.
	Approximate bool
	Limit       int64
}

// StreamTrimBlock is what an approximate trim rounds down to. Redis removes whole nodes of its tree, which hold a hundred
// small entries.
const StreamTrimBlock = 100

// Trim removes entries from the front and returns how many.
func (st Stream) Trim(t StreamTrim) (n int64, err error) {
	s, o := st.s, st.o
	if !st.Exists() || o.count == 0 {
		return 0, nil
	}
	limit := int64(math.MaxInt64)
	if t.Approximate && t.Limit > 0 {
		limit = t.Limit
	}
	if t.MaxLen >= 0 {
		n = max(o.count-t.MaxLen, 0)
	}
	if !t.MinID.IsZero() {
		below, err := s.countBelow(o, t.MinID, limit)
		if err != nil {
			return 0, err
		}
		n = max(n, below)
	}
	n = min(n, limit)
	if t.Approximate && n < o.count {
		n -= n % StreamTrimBlock
	}
	if n == 0 {
		return 0, nil
	}
	return n, s.trimFront(o, n)
}

// countBelow counts the entries before id, up to the limit.
func (s *Shard) countBelow(o *object, id StreamID, limit int64) (n int64, err error) {
	b := o.stream
	switch {
	case !b.first.Less(id):
		return 0, nil
	case b.last.Less(id):
		return min(o.count, limit), nil
	}
	if err := s.fillHead(o, streamHeadItems); err != nil {
		return 0, err
	}
	known := int64(b.known(o))
	for n < min(known, limit) {
		if !b.frontID(int(n)).Less(id) {
			return n, nil
		}
		n++
	}
	if n == o.count || n == limit {
		return n, nil
	}
	from := b.first
	if n > 0 {
		from, _ = b.frontID(int(n - 1)).Next()
	}
	err = s.ascendEntries(o, from, id, func(e streamEntry) bool {
		if e.id == id {
			return false
		}
		n++
		return n < limit
	})
	return n, err
}

// trimFront removes the first n entries: a few row by row, many with one range deletion.
func (s *Shard) trimFront(o *object, n int64) error {
	b := o.stream
	few := n < streamHeadItems
	if few {
		if err := s.fillHead(o, int(min(n+1, o.count))); err != nil {
			return err
		}
	}
	next := StreamID{}
	if n < o.count {
		var err error
		if next, err = s.nthEntry(o, n); err != nil {
			return err
		}
	}
	s.changeStream(o, false)
	if few {
		for i := range int(n) {
			s.keyBuf = appendEntryKey(s.keyBuf[:0], o.id, b.frontID(i))
			s.delete(s.keyBuf)
		}
	} else {
		end := appendElementPrefix(nil, rowElement, o.id+1)
		if n < o.count {
			end = appendEntryKey(nil, o.id, next)
		}
		s.deleteRange(appendEntryKey(nil, o.id, b.first), end)
	}
	if o.count -= n; o.count == 0 {
		b.empty()
		return nil
	}
	b.first = next
	for b.head.Len() > 0 && b.head.Front().Less(next) {
		b.head.PopFront()
	}
	b.tail.dropBelow(next)
	for _, g := range b.groups {
		before := g.ahead.bytes
		g.ahead.dropBelow(next)
		b.groupBytes += g.ahead.bytes - before
	}
	return nil
}

// nthEntry returns the id of the entry at place n < count, found from the nearer end.
func (s *Shard) nthEntry(o *object, n int64) (id StreamID, err error) {
	b := o.stream
	if n < int64(b.known(o)) {
		return b.frontID(int(n)), nil
	}
	if fromEnd := o.count - n; fromEnd <= int64(b.tail.Len()) {
		return b.tail.At(b.tail.Len() - int(fromEnd)).id, nil
	}
	walk, skip := s.ascendEntries, n
	if fromEnd := o.count - 1 - n; fromEnd < n {
		walk, skip = s.descendEntries, fromEnd
	}
	err = walk(o, b.first, b.last, func(e streamEntry) bool {
		id = e.id
		skip--
		return skip >= 0
	})
	return id, err
}
