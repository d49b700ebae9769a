package shard

// Set is the set at a key. The handle of a missing key is an empty set.
type Set struct{ handle }

// SetOf returns the set at the key, or ErrWrongType.
func (d DB) SetOf(key []byte) (Set, error) {
	h, err := d.collection(key, KindSet)
	return Set{h}, err
}

// setBody caches a set's members: the entries' values are places in order, which lists the living ones so
// that drawing a random member of a cached set is one step.
type setBody struct {
	elements[int]
	order []*element[int]
}

func newSetBody(common *string) *setBody { return &setBody{elements: newElements[int](common)} }

// add adds a member that is not there.
func (b *setBody) add(member []byte) {
	var el *element[int]
	if b.dead == 0 {
		el = b.putNew(b.textOf(member), len(b.order), 0)
	} else { // one of these may be the member's
		el = b.put(member, len(b.order), 0, 0)
	}
	b.order = append(b.order, el)
}

func (b *setBody) remove(s *Shard, o *object, member []byte) {
	if el := b.find(member); el != nil && !el.dead {
		b.unorder(el.val)
	}
	b.kill(s, o, member, 0)
}

// unorder takes the member at the place out of order; the last one moves there.
func (b *setBody) unorder(place int) {
	last := len(b.order) - 1
	if place != last {
		moved := b.order[last]
		b.order[place], moved.val = moved, place
	}
	b.order[last] = nil
	b.order = b.order[:last]
}

func (b *setBody) shrink(o *object) {
	b.thin(o, func(int) int { return 0 })
	b.order = make([]*element[int], 0, len(b.rows))
	for _, el := range b.rows {
		el.val = len(b.order)
		b.order = append(b.order, el)
	}
}

func (s *Shard) isMember(o *object, member []byte) (bool, error) {
	if o.kind == KindNone {
		return false, nil
	}
	if el := o.set.find(member); el != nil {
		return !el.dead, nil
	}
	if o.set.lacks(o, member) {
		return false, nil
	}
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	_, ok, err := s.get(s.keyBuf)
	switch {
	case ok:
		o.set.add(member)
		s.cache.charge(o)
	case err == nil:
		s.missElement(o, &o.set.names)
	}
	return ok, err
}

// Has tells whether the member is in the set.
func (t Set) Has(member []byte) (bool, error) {
	s, o, err := t.home(member)
	if err != nil {
		return false, err
	}
	return s.isMember(o, member)
}

// Add adds the member and tells whether it is new.
func (t Set) Add(member []byte) (bool, error) {
	s, o, err := t.writable(member)
	if err != nil {
		return false, err
	}
	if ok, err := s.isMember(o, member); ok || err != nil {
		return false, err
	}
	s.modify(o)
	o.count++
	o.set.created(s, o, member)
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	s.insert(s.keyBuf, nil)
	o.set.add(member)
	return true, nil
}

// Remove removes the member and tells whether it was there.
func (t Set) Remove(member []byte) (bool, error) {
	s, o, err := t.home(member)
	if err != nil {
		return false, err
	}
	if ok, err := s.isMember(o, member); !ok || err != nil {
		return false, err
	}
	s.removeMember(o, member)
	return true, nil
}

func (s *Shard) removeMember(o *object, member []byte) {
	s.modify(o)
	s.keyBuf = s.appendField(s.keyBuf[:0], o, member)
	s.delete(s.keyBuf)
	o.set.remove(s, o, member)
	s.removed(o)
}

// Each calls fn for every member until it returns false. The set may not change meanwhile.
func (t Set) Each(fn func(member []byte) bool) error {
	return untilStopped(&t.handle, func(s *Shard, o *object) (bool, error) {
		if o.set.complete(o) {
			for _, el := range o.set.order {
				if !fn([]byte(el.name)) {
					return false, nil
				}
			}
			return true, nil
		}
		return s.eachElement(o, 0, func(member, _ []byte) bool {
			if o.count <= cacheWholeLimit {
				if o.set.find(member) == nil {
					o.set.add(member)
				}
			}
			return fn(member)
		})
	})
}

// Scan visits members from the cursor on, see handle.scan.
func (t Set) Scan(cursor uint64, count int, fn func(member []byte)) (next uint64, err error) {
	return t.scan(cursor, count, func(member, _ []byte) { fn(member) }, func(each func(name, val []byte) bool) error {
		return t.Each(func(member []byte) bool { return each(member, nil) })
	})
}

// RandomOne returns a random member.
func (t Set) RandomOne() (member []byte, ok bool, err error) {
	err = t.Random(1, func(m []byte) { member, ok = append([]byte(nil), m...), true })
	return member, ok, err
}

// Random calls fn for n distinct random members, or for all if there are no more, in random order.
func (t Set) Random(n int, fn func(member []byte)) error {
	drawn, err := t.draw(n)
	for _, member := range drawn {
		fn(member)
	}
	return err
}

// Pop removes n random members, or all if there are no more, and calls fn for each.
func (t Set) Pop(n int, fn func(member []byte)) error {
	drawn, err := t.draw(n)
	if err != nil {
		return err
	}
	for _, member := range drawn {
		s, o, err := t.home(member)
		if err != nil {
			return err
		}
		s.removeMember(o, member)
		fn(member)
	}
	return nil
}

// drawAllShare is the part of a set (one in so many) from which on drawing random members one by one costs
// more than reading them all and shuffling.
const drawAllShare = 3

// draw returns n distinct random members in random order.
func (t Set) draw(n int) ([][]byte, error) {
	total, err := t.Len()
	if err != nil || total == 0 || n <= 0 {
		return nil, err
	}
	n = int(min(int64(n), total))
	if int64(n)*drawAllShare >= total && (total <= cacheWholeLimit || n > 1) {
		return t.drawFromAll(int64(n), total)
	}
	drawn := make([][]byte, 0, n)
	seen := make(map[string]struct{}, n)
	for left := maxDraws * n; len(drawn) < n; left-- {
		if left == 0 { // members of one hash, which a client can make, may never come
			return t.drawFromAll(int64(n), total)
		}
		s, o, err := t.randomFragment(total)
		if err != nil {
			return nil, err
		}
		member, err := s.randomMember(o)
		if err != nil {
			return nil, err
		}
		if _, again := seen[string(member)]; !again {
			seen[string(member)] = struct{}{}
			drawn = append(drawn, member)
		}
	}
	return drawn, nil
}

func (t Set) drawFromAll(n, total int64) ([][]byte, error) {
	all := make([][]byte, 0, total)
	err := t.Each(func(member []byte) bool {
		all = append(all, append([]byte(nil), member...))
		return true
	})
	if err != nil {
		return nil, err
	}
	t.db.tx.store.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n], nil
}

// randomMemberWindow is the number of neighbours among which a random member of a set that isn't cached is
// drawn, which evens out the gaps between the hashes.
const randomMemberWindow = 16

// randomMember draws one member: from the cache if it holds the whole set, else near a random hash.
func (s *Shard) randomMember(o *object) ([]byte, error) {
	rnd := s.store.rand
	if o.set.complete(o) {
		return []byte(o.set.order[rnd.IntN(len(o.set.order))].name), nil
	}
	var near [][]byte
	from := rnd.Uint32()
	for _, from := range []uint32{from, 0} { // past the last hash it goes on with the first
		_, err := s.eachElement(o, from, func(member, _ []byte) bool {
			near = append(near, append([]byte(nil), member...))
			return len(near) < randomMemberWindow
		})
		if err != nil {
			return nil, err
		}
		if len(near) >= randomMemberWindow {
			break
		}
	}
	if len(near) == 0 {
		return nil, s.readError(errCorruptRow)
	}
	return near[rnd.IntN(len(near))], nil
}
