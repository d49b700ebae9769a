package shard

import (
	"errors"
	"slices"
	"sort"
)

// Partitioned lists. An element is at home on one shard, which keeps a list of those that are, in order; the list as a whole is
// these lists, taken in turns. Its order is defined from the tail, where queues are claimed: the last element of each fragment that
// has one, the fragments in the order of their shards, beginning with the one whose turn it is; then the last but one of each; and so on:
//
//	fragment 0:  a b c        the turn is 1's:  a b e c d
//	fragment 1:      d
//	fragment 2:    e f   ->   taken from the tail: d, f, c, e, b, a
//
// A pop at the tail takes the last element of this order and makes it the next fragment's turn, which leaves the order of the others
// as it is. So LRANGE tells what RPOP will take, and each fragment with elements gets its turn. A push puts the element at the end of
// its fragment, which need not be the end of the whole.

// ErrOtherHome says that a list's element can't take the place of another, since it belongs on another shard.
var ErrOtherHome = errors.New("the element belongs on another shard")

// spreadList is the fragments of a partitioned list that have elements, in the order of their turns.
type spreadList struct {
	parts []List
	sizes []int64
	total int64
}

// spread opens the fragments.
func (l List) spread() (sl spreadList, err error) {
	turn := l.db.tx.store.rotors.at(l.db.n, l.key)
	first, last := l.db.span()
	n := last - first + 1
	for i := range n {
		part, err := l.fragment(first + (turn+i)%n)
		if err != nil {
			return sl, err
		}
		if part.o.kind != KindNone {
			sl.parts = append(sl.parts, part)
			sl.sizes = append(sl.sizes, part.o.count)
			sl.total += part.o.count
		}
	}
	return sl, nil
}

// fragment is what is on one shard.
func (l List) fragment(ordinal int) (List, error) {
	s, o, err := l.db.at(ordinal, l.key)
	return List{handle{db: l.db, key: l.key, kind: l.kind, s: s, o: o}}, err
}

// spot is an element: that of a fragment which has rank others of it behind it. In the order from the tail they stand by rank, and
// those of one rank by part.
type spot struct {
	rank int64
	part int
}

// behind counts the elements of lower ranks.
func (sl *spreadList) behind(rank int64) (n int64) {
	for _, size := range sl.sizes {
		n += min(size, rank)
	}
	return n
}

// spotAt is the element that has so many of the whole behind it, or would have, were there one more.
func (sl *spreadList) spotAt(behind int64) spot {
	rank := int64(sort.Search(int(slices.Max(sl.sizes)), func(r int) bool { return sl.behind(int64(r)+1) > behind }))
	left := behind - sl.behind(rank)
	for part, size := range sl.sizes {
		if size <= rank {
			continue
		}
		if left == 0 {
			return spot{rank, part}
		}
		left--
	}
	return spot{rank, len(sl.sizes)}
}

// ranks are the ranks of a fragment's elements between two spots, the second not among them.
func (sl *spreadList) ranks(part int, from, to spot) (first, last int64) {
	bound := func(at spot) int64 {
		if part < at.part {
			at.rank++
		}
		return min(at.rank, sl.sizes[part])
	}
	return bound(from), bound(to)
}

// find returns the fragment, and the position in it, of the element at a position that exists.
func (sl *spreadList) find(pos int64) (List, int64) {
	at := sl.spotAt(sl.total - 1 - pos)
	return sl.parts[at.part], sl.sizes[at.part] - 1 - at.rank
}

func (l List) popSpread(end End) (val []byte, ok bool, err error) {
	seen, err := l.seen()
	if err != nil {
		return nil, false, err
	}
	if !seen.partitioned {
		return seen.Pop(end)
	}
	sl, err := l.spread()
	if err != nil || sl.total == 0 {
		return nil, false, err
	}
	if end == Tail {
		l.db.tx.store.rotors.set(l.db.n, l.key, sl.parts[0].s.ordinal+1)
		return sl.parts[0].Pop(Tail)
	}
	part, _ := sl.find(0)
	return part.Pop(Head)
}

func (l List) indexSpread(i int64) (val []byte, ok bool, err error) {
	sl, err := l.spread()
	if err != nil {
		return nil, false, err
	}
	pos, ok := position(i, sl.total)
	if !ok {
		return nil, false, nil
	}
	part, at := sl.find(pos)
	return part.Index(at)
}

func (l List) setSpread(i int64, val []byte) (ok bool, err error) {
	sl, err := l.spread()
	if err != nil {
		return false, err
	}
	pos, ok := position(i, sl.total)
	if !ok {
		return false, nil
	}
	part, at := sl.find(pos)
	if l.db.tx.store.placer.Home(val) != part.s.ordinal {
		return false, ErrOtherHome
	}
	return part.Set(at, val)
}

// mustShareHome refuses an element that can't stand next to another.
func (l List) mustShareHome(a, b []byte) error {
	if home := l.db.tx.store.placer.Home; l.partitioned && home(a) != home(b) {
		return ErrOtherHome
	}
	return nil
}

func (l List) rangeSpread(start, stop int64, fn func(val []byte)) error {
	sl, err := l.spread()
	if err != nil || sl.total == 0 {
		return err
	}
	from, to := sl.spotAt(sl.total-1-stop), sl.spotAt(sl.total-start)
	vals := make([][][]byte, len(sl.parts)) // in the order of the fragment
	for part, list := range sl.parts {
		first, last := sl.ranks(part, from, to)
		if first >= last {
			continue
		}
		err := list.Range(sl.sizes[part]-last, sl.sizes[part]-1-first, func(val []byte) { vals[part] = append(vals[part], val) })
		if err != nil {
			return err
		}
	}
	for rank := to.rank; rank >= from.rank; rank-- {
		for part := len(sl.parts) - 1; part >= 0; part-- {
			if first, last := sl.ranks(part, from, to); first <= rank && rank < last {
				fn(vals[part][last-1-rank])
			}
		}
	}
	return nil
}

func (l List) trimSpread(start, stop int64) error {
	sl, err := l.spread()
	if err != nil || sl.total == 0 {
		return err
	}
	from, to := sl.spotAt(max(sl.total-1-stop, 0)), sl.spotAt(max(sl.total-start, 0))
	for part, list := range sl.parts {
		first, last := sl.ranks(part, from, to)
		if err := list.Trim(sl.sizes[part]-last, sl.sizes[part]-1-first); err != nil {
			return err
		}
	}
	return nil
}
