package shard

import "bytes"

// Insert puts val before or after the first element that equals pivot. It returns false when there is none.
func (l List) Insert(before bool, pivot, val []byte) (ok bool, err error) {
	s, o, err := l.home(pivot)
	if err != nil || o.kind == KindNone {
		return false, err
	}
	p := listPlace{pivot: pivot, before: before, at: -1}
	if err = s.walk(o, Head, p.meet); err != nil || p.at < 0 {
		return false, err
	}
	if err := l.mustShareHome(pivot, val); err != nil {
		return false, err
	}
	s.insertAt(o, &p, append(make([]byte, 0, len(val)), val...))
	return true, nil
}

// listPlace looks for the place of a new element, from the head of the list on. For the element to get an index, those before
// the place move one index down, or those behind it one up, as far as the next hole or the end. Which is less is known when
// as many were met behind the place as there are before it, so that what an insertion costs depends on the place alone.
type listPlace struct {
	pivot  []byte
	before bool

	items []listItem // met so far
	at    int        // how many there are before the place, -1 while the pivot was not met
	down  int        // how many of them would move
	hole  bool       // there is a hole before the last one met
}

// meet takes the next element and tells whether to go on.
func (p *listPlace) meet(it listItem) bool {
	p.items = append(p.items, it)
	n := len(p.items)
	if p.at < 0 {
		if !bytes.Equal(it.val, p.pivot) {
			return true
		}
		if p.at = n; p.before {
			p.at = n - 1
		}
		for p.down < p.at && (p.down == 0 || !isHole(p.items[p.at-p.down-1:])) {
			p.down++
		}
	}
	p.hole = n > max(p.at, 1) && isHole(p.items[n-2:])
	return !p.hole && n-p.at < p.down
}

// isHole tells whether there is an index between the first two elements.
func isHole(items []listItem) bool { return items[1].index-items[0].index > 1 }

// up is how many of the elements behind the place would move, given that all were met that matter.
func (p *listPlace) up() int {
	if p.hole {
		return len(p.items) - 1 - p.at
	}
	return len(p.items) - p.at
}

// insertAt puts the value at the place.
func (s *Shard) insertAt(o *object, p *listPlace, val []byte) {
	s.modify(o)
	o.list.inner = true
	fresh := listItem{val: val}
	if up := p.up(); p.at > 0 && up < p.down {
		fresh.index = p.items[p.at-1].index + 1
		s.shift(o, p, p.at, p.at+up, 1)
	} else {
		fresh.index = p.items[max(p.at, 1)-1].index
		if p.at == 0 {
			fresh.index--
		}
		s.shift(o, p, p.at-p.down, p.at, -1)
	}
	s.putItem(o, fresh, false)
	b, behind := o.list, int(o.count)-p.at
	switch {
	case p.at <= b.front.Len():
		b.front.insert(p.at, fresh)
	case behind <= b.back.Len():
		b.back.insert(b.back.Len()-behind, fresh)
	}
	o.count++
	b.head, b.tail = min(b.head, fresh.index), max(b.tail, fresh.index+1)
}

// shift gives the elements at the positions from … to, which is not among them, the index one up or down. The index that the
// first or the last of them leaves is for the new element.
func (s *Shard) shift(o *object, p *listPlace, from, to int, by int64) {
	b := o.list
	for pos := from; b.slots != nil && pos < to; pos++ { // all of them before any comes back, perhaps where another was
		s.dropSlot(o, p.items[pos])
	}
	for pos := from; pos < to; pos++ {
		it := p.items[pos]
		it.index += by
		s.putItem(o, it, false)
		if fromEnd := int(o.count) - pos; pos < b.front.Len() {
			b.front.Deque.Set(pos, it)
		} else if fromEnd <= b.back.Len() {
			b.back.Deque.Set(b.back.Len()-fromEnd, it)
		}
		b.head, b.tail = min(b.head, it.index), max(b.tail, it.index+1)
	}
}

func (w *listWindow) insert(i int, it listItem) {
	w.bytes += len(it.val) + listItemOverhead
	w.Insert(i, it)
}
