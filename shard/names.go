package shard

import (
	"bytes"
	"hash/maphash"
	"math/bits"
)

// nameSet knows the names of all elements of a collection by 32 bits of their hashes, in some seven bytes each. So it tells for sure
// that an element is not there, of a collection too large to be cached: a new element need not be looked for in the store. See ADR 0020.
//
// It is a multiset in an open-addressed table with linear probing: each element is in it once, so one that goes is taken out,
// whichever of those with the same hash it was.
type nameSet struct {
	seed  maphash.Seed
	cells []uint32 // a power of two of them; 0 is free
	n     int
}

const (
	// leastNames is the size of the smallest table.
	leastNames = 1 << 4
	// cellBytes is the size of a cell.
	cellBytes = 4
	// mostNames is the size of the largest one; a collection that needs more goes without.
	mostNames = 1 << 30
)

// newNameSet makes room for n names.
func newNameSet(n int) *nameSet {
	return &nameSet{seed: maphash.MakeSeed(), cells: make([]uint32, tableSize(n))}
}

// tableSize is the number of cells for n names.
func tableSize(n int) int {
	size := leastNames
	for size < mostNames && full(n, size) {
		size *= 2
	}
	return size
}

// tableBytes is what the table for n names takes.
func tableBytes(n int64) int { return cellBytes * tableSize(int(n)) }

// full tells whether n names are too many for a table of the size: more than three quarters.
func full(n, size int) bool { return 4*n > 3*size }

func (s *nameSet) footprint() int {
	if s == nil {
		return 0
	}
	return cellBytes * cap(s.cells)
}

// hash is what stands for the name.
func (s *nameSet) hash(name []byte) uint32 { return max(1, uint32(maphash.Bytes(s.seed, name))) }

// home is the cell at which the search for a hash begins. Its upper bits tell it, so that hashes keep their order when the table grows.
func (s *nameSet) home(hash uint32) int {
	return int(hash >> (32 - bits.TrailingZeros(uint(len(s.cells)))))
}

func (s *nameSet) next(cell int) int { return (cell + 1) & (len(s.cells) - 1) }

// lacks tells whether there is surely no such name. A nil set knows nothing.
func (s *nameSet) lacks(name []byte) bool {
	if s == nil {
		return false
	}
	hash := s.hash(name)
	for cell := s.home(hash); s.cells[cell] != 0; cell = s.next(cell) {
		if s.cells[cell] == hash {
			return false
		}
	}
	return true
}

// add adds a name that is not there, and tells whether there was room for it.
func (s *nameSet) add(name []byte) bool {
	if full(s.n+1, len(s.cells)) && !s.grow() {
		return false
	}
	s.put(s.hash(name))
	return true
}

func (s *nameSet) put(hash uint32) {
	cell := s.home(hash)
	for s.cells[cell] != 0 {
		cell = s.next(cell)
	}
	s.cells[cell] = hash
	s.n++
}

func (s *nameSet) grow() bool {
	if len(s.cells) == mostNames {
		return false
	}
	old := s.cells
	s.cells, s.n = make([]uint32, 2*len(old)), 0
	for _, hash := range old {
		if hash != 0 {
			s.put(hash)
		}
	}
	return true
}

// remove takes out a name, and tells whether it was there.
func (s *nameSet) remove(name []byte) bool {
	hash := s.hash(name)
	cell := s.home(hash)
	for s.cells[cell] != hash {
		if s.cells[cell] == 0 {
			return false
		}
		cell = s.next(cell)
	}
	s.n--
	// Whatever stands behind moves up if it is nearer to its home there (Knuth, The Art of Computer Programming, 6.4, algorithm R).
	free := cell
	for cell = s.next(cell); s.cells[cell] != 0; cell = s.next(cell) {
		mask := len(s.cells) - 1
		if home := s.home(s.cells[cell]); (cell-home)&mask >= (cell-free)&mask {
			s.cells[free] = s.cells[cell]
			free = cell
		}
	}
	s.cells[free] = 0
	return true
}

// names is what is known of the names of all keys of a database, or of all elements of a collection, whether they are cached or not. Where they
// are not known by themselves, the janitor reads them, in the order of their rows, once so many were looked for in vain that this is worth it.
type names struct {
	set    *nameSet // nil: they are not known
	next   []byte   // the row from which on they are not known yet; nil: all are
	missed int64    // those that were looked for in the store in vain, while there is no set
	places uint64   // whose rows are read in a round
}

// begin has the names read, so many as far as is known. prefix begins their rows; what follows it there is their place.
func (n *names) begin(prefix []byte, count int64) {
	*n = names{set: newNameSet(int(count)), next: prefix, places: placeRange / max(uint64(count/namesRound), namesRounds)}
}

// adapt makes a round as long as it should be, given how many rows the last one has stepped over.
func (n *names) adapt(steps int) {
	switch {
	case steps > 2*namesRound:
		n.places = max(n.places/2, 1)
	case steps < namesRound/2:
		n.places = min(2*n.places, placeRange)
	}
}

// covers tells whether the name is known, or known to be none, whose row has the key.
func (n *names) covers(row []byte) bool {
	return n.set != nil && (n.next == nil || bytes.Compare(row, n.next) < 0)
}

// lacks tells whether all names are known and this is none of them.
func (n *names) lacks(name []byte) bool { return n.next == nil && n.set.lacks(name) }

// add adds a name that is not there.
func (n *names) add(name []byte) {
	if !n.set.add(name) {
		*n = names{}
	}
}

// remove takes out a name that is there. If it is not, what is known is wrong, and forgotten.
func (n *names) remove(name []byte) {
	if !n.set.remove(name) {
		*n = names{}
	}
}
