package shard

import (
	"hash/maphash"
	"sync/atomic"
)

// Narrow makes the transaction see, from now on, only those fragments of partitioned keys that are on one shard: a list is what is on
// the shard, and a set's members are those that are there. Elements that are named are looked up and put at their home all the same.
// So who asks for any task gets one with a single lock, and can do with it what is to be done. It returns what
// NarrowTo takes to undo it.
func (tx *Tx) Narrow(ordinal int) (was int) {
	was, tx.narrow = tx.narrow, ordinal+1
	return was
}

// Widen makes the transaction see all fragments, and returns what NarrowTo takes to undo it.
func (tx *Tx) Widen() (was int) {
	was, tx.narrow = tx.narrow, 0
	return was
}

// NarrowTo brings back what was before Narrow or Widen.
func (tx *Tx) NarrowTo(was int) { tx.narrow = was }

// Narrow is the transaction's, as are Widen and NarrowTo.
func (d DB) Narrow(ordinal int) (was int) { return d.tx.Narrow(ordinal) }

// Narrowed is the shard whose fragments alone are seen.
func (d DB) Narrowed() (ordinal int, ok bool) { return d.tx.narrow - 1, d.tx.narrow > 0 }

// Widen is the transaction's.
func (d DB) Widen() (was int) { return d.tx.Widen() }

// NarrowTo is the transaction's.
func (d DB) NarrowTo(was int) { d.tx.NarrowTo(was) }

// rotorCells bounds the memory of turns.
const rotorCells = 4096

// rotors remember whose turn it is, for each key. Keys that share a cell by their hashes take turns together: then a shard may be
// passed over now and then, but not always, as long as the keys are not used in step. A start begins anew.
type rotors struct {
	cells *[rotorCells]atomic.Uint32
	seed  maphash.Seed
}

func newRotors() rotors {
	return rotors{cells: new([rotorCells]atomic.Uint32), seed: maphash.MakeSeed()}
}

func (r *rotors) cell(db int, key []byte) *atomic.Uint32 {
	return &r.cells[(maphash.Bytes(r.seed, key)+uint64(db))%rotorCells]
}

// at is the ordinal whose turn it is at the key, modulo the number of shards.
func (r *rotors) at(db int, key []byte) int { return int(r.cell(db, key).Load()) }

func (r *rotors) set(db int, key []byte, turn int) { r.cell(db, key).Store(uint32(turn)) }

// Turn is the shard, modulo their number, whose turn it is at a key, for those who go round the shards with no list to do so. The
// next one who asks gets the next shard, so that those who come together do not wait for one lock.
func (st *Store) Turn(db int, key []byte) uint32 { return st.rotors.cell(db, key).Add(1) - 1 }

// TurnTaken says which shard was come to, so that the one behind it is next: otherwise one that stands behind empty ones would have
// their turns besides its own.
func (st *Store) TurnTaken(db int, key []byte, ordinal int) { st.rotors.set(db, key, ordinal+1) }
