package supplier

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

const (
	// memoCells and maxRemembered bound the memory that a memo takes: about a
	// megabyte.
	memoCells     = 4096
	maxRemembered = 256 // bytes of a name
	// replaced is after how many misses, on average, a cell is given to
	// another name, so that more names than there are cells do not cost an
	// allocation each.
	replaced = 16
)

// memo remembers what was found out about names, each in the one cell that its
// hash tells. So it is bounded, needs no lock, and a read costs one hash and
// one comparison.
type memo[V any] struct {
	cells *[memoCells]atomic.Pointer[remembered[V]]
	seed  maphash.Seed
}

type remembered[V any] struct {
	name  string
	value V
}

func newMemo[V any]() memo[V] {
	return memo[V]{cells: new([memoCells]atomic.Pointer[remembered[V]]), seed: maphash.MakeSeed()}
}

func (m *memo[V]) cell(name []byte) *atomic.Pointer[remembered[V]] {
	return &m.cells[maphash.Bytes(m.seed, name)%memoCells]
}

func (m *memo[V]) get(name []byte) (value V, ok bool) {
	if r := m.cell(name).Load(); r != nil && r.name == string(name) {
		return r.value, true
	}
	return value, false
}

// put may forget another name, or not remember this one.
func (m *memo[V]) put(name []byte, value V) {
	cell := m.cell(name)
	if len(name) > maxRemembered || cell.Load() != nil && rand.IntN(replaced) > 0 {
		return
	}
	cell.Store(&remembered[V]{string(name), value})
}
