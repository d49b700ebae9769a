package shard

import (
	"bytes"
	"encoding/binary"
)

// Random elements of hashes and sorted sets. A set that is cached as a whole keeps its members in an order to draw from
// (setBody); hashes and sorted sets don't, since few are asked for random elements. Small ones are walked to a random
// place, as Redis does with its compact encodings; in large ones a random hash is sought among the rows.

// lottery draws random elements of a collection whose values are of type V.
type lottery[V any] struct {
	*handle
	walk   func(fn func(name []byte, val V) bool) error // visits all elements until fn returns false
	keep   func(val V) V                                // makes a value outlive the walk
	decode func(raw []byte) V                           // reads a row's value, which outlives the row
}

// ticket is an element that was drawn.
type ticket[V any] struct {
	name []byte
	val  V
}

func (h *Hash) lottery() lottery[[]byte] {
	return lottery[[]byte]{handle: &h.handle, walk: h.Each, keep: bytes.Clone, decode: bytes.Clone}
}

func (z *ZSet) lottery() lottery[float64] {
	return lottery[float64]{
		handle: &z.handle,
		walk:   z.Each,
		keep:   func(score float64) float64 { return score },
		decode: func(raw []byte) float64 { return scoreFromSortable(binary.BigEndian.Uint64(raw)) },
	}
}

// Random calls fn for n distinct random fields, or for all if there are no more, in random order.
func (h Hash) Random(n int64, fn func(field, val []byte)) error { return h.lottery().distinct(n, fn) }

// RandomRepeated calls fn for n random fields, each drawn from all, until it returns false. An empty hash has none.
func (h Hash) RandomRepeated(n int64, fn func(field, val []byte) bool) error {
	return h.lottery().repeated(n, fn)
}

// Random calls fn for n distinct random members, or for all if there are no more, in random order.
func (z ZSet) Random(n int64, fn func(member []byte, score float64)) error {
	return z.lottery().distinct(n, fn)
}

// RandomRepeated calls fn for n random members, each drawn from all, until it returns false. An empty sorted set has none.
func (z ZSet) RandomRepeated(n int64, fn func(member []byte, score float64) bool) error {
	return z.lottery().repeated(n, fn)
}

// maxDraws is how often one by one is drawn for each element that is wanted, on average. Where the hashes are spread it
// takes two or three, but a client may have chosen names whose hashes are all the same.
const maxDraws = 16

func (l lottery[V]) distinct(n int64, fn func(name []byte, val V)) error {
	total, err := l.Len()
	if err != nil || total == 0 {
		return err
	}
	if n = min(n, total); l.drawsAll(n, total) {
		return l.shuffled(n, total, fn)
	}
	return l.drawDistinct(n, total, func() (ticket[V], error) { return l.one(total) }, fn)
}

// drawDistinct draws one by one until it has n different elements, or has drawn too often.
func (l lottery[V]) drawDistinct(n, total int64, one func() (ticket[V], error), fn func(name []byte, val V)) error {
	drawn := make([]ticket[V], 0, n)
	seen := make(map[string]struct{}, n)
	for left := maxDraws * n; int64(len(drawn)) < n; left-- {
		if left == 0 {
			return l.shuffled(n, total, fn)
		}
		t, err := one()
		if err != nil {
			return err
		}
		if _, again := seen[string(t.name)]; !again {
			seen[string(t.name)] = struct{}{}
			drawn = append(drawn, t)
		}
	}
	for _, t := range drawn {
		fn(t.name, t.val)
	}
	return nil
}

func (l lottery[V]) repeated(n int64, fn func(name []byte, val V) bool) error {
	total, err := l.Len()
	if err != nil || total == 0 {
		return err
	}
	draw := func() (ticket[V], error) { return l.one(total) }
	if l.drawsAll(n, total) {
		all, err := l.all(total)
		if err != nil {
			return err
		}
		draw = func() (ticket[V], error) { return all[l.db.tx.store.rand.IntN(len(all))], nil }
	}
	for ; n > 0; n-- {
		t, err := draw()
		if err != nil {
			return err
		}
		if !fn(t.name, t.val) {
			return nil
		}
	}
	return nil
}

// drawsAll tells whether n elements are so large a part that reading all of them costs less than drawing one by one.
func (l lottery[V]) drawsAll(n, total int64) bool {
	return n > 1 && (total <= cacheWholeLimit || n >= total/drawAllShare)
}

// all reads the whole collection.
func (l lottery[V]) all(total int64) ([]ticket[V], error) {
	all := make([]ticket[V], 0, total)
	err := l.walk(func(name []byte, val V) bool {
		all = append(all, ticket[V]{bytes.Clone(name), l.keep(val)})
		return true
	})
	return all, err
}

// shuffled calls fn for n of all elements, in random order.
func (l lottery[V]) shuffled(n, total int64, fn func(name []byte, val V)) error {
	all, err := l.all(total)
	if err != nil {
		return err
	}
	rnd := l.db.tx.store.rand
	for i := range all[:n] {
		j := i + rnd.IntN(len(all)-i)
		all[i], all[j] = all[j], all[i]
		fn(all[i].name, all[i].val)
	}
	return nil
}

// one draws one element.
func (l lottery[V]) one(total int64) (t ticket[V], err error) {
	if total > cacheWholeLimit {
		return l.near(total)
	}
	skip := l.db.tx.store.rand.Int64N(total)
	err = l.walk(func(name []byte, val V) bool {
		if skip > 0 {
			skip--
			return true
		}
		t = ticket[V]{bytes.Clone(name), l.keep(val)}
		return false
	})
	return t, err
}

// randomPlace is a place from which to look for a random element. Hashes are spread evenly. Where rows are ordered it is
// one between the first and the last of them.
func (s *Shard) randomPlace(o *object) (uint32, error) {
	rnd := s.store.rand
	if !o.ordered {
		return rnd.Uint32(), nil
	}
	it, err := s.iterate(s.reader(o), appendElementPrefix(nil, rowElement, o.id), appendElementPrefix(nil, rowElement, o.id+1))
	if err != nil {
		return 0, err
	}
	var from, to uint32
	if it.First() {
		from = placeIn(it.Key())
	}
	if it.Last() {
		to = placeIn(it.Key())
	}
	return from + uint32(rnd.Uint64N(uint64(to-from)+1)), s.finish(it)
}

// placeIn is the place in the key of an element's row.
func placeIn(row []byte) uint32 { return binary.BigEndian.Uint32(row[elementPrefixLen:]) }

// near draws one element of a large collection: one of the neighbours behind a random place. Behind the last
// the first one follows.
func (l lottery[V]) near(total int64) (t ticket[V], err error) {
	s, o, err := l.randomFragment(total)
	if err != nil {
		return t, err
	}
	skip, found := s.store.rand.IntN(randomMemberWindow), false
	from, err := s.randomPlace(o)
	if err != nil {
		return t, err
	}
	for ; !found; from = 0 {
		before := skip
		_, err := s.eachElement(o, from, func(name, raw []byte) bool {
			if skip > 0 {
				skip--
				return true
			}
			t, found = ticket[V]{bytes.Clone(name), l.decode(raw)}, true
			return false
		})
		if err != nil {
			return t, err
		}
		if from == 0 && !found && skip == before {
			return t, s.readError(errCorruptRow)
		}
	}
	return t, nil
}

// randomFragment draws a fragment, each with the chance of its share of the elements.
func (h *handle) randomFragment(total int64) (s *Shard, o *object, err error) {
	pick := h.db.tx.store.rand.Int64N(total)
	err = untilStopped(h, func(fs *Shard, fo *object) (bool, error) {
		s, o = fs, fo
		pick -= fo.count
		return pick >= 0, nil
	})
	return s, o, err
}
