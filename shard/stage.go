package shard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// Committed rows are staged before they reach Pebble. A commit puts its rows into a hash table, which costs a tenth of
// inserting them at random places of a memtable, a skiplist. When the table is full, another takes its place, and a
// goroutine sorts the rows of the first and applies them as one batch, while the shard goes on. A row that is written
// again before that (the metadata of a busy list, the state row of every commit), or written and deleted, reaches Pebble
// once. One that is new and deleted before that never does. See ADR 0009.
//
// The log has every commit, so what is staged is as safe as what is in a memtable: both are replayed after a crash. A stage
// is applied whole, and commits are staged whole, so a shard's tables always end at a commit.
//
// Reading a row looks into the stages first. Iterating needs order: rows that are staged for what is iterated over are
// applied before.

const (
	// stageBytes of rows fill a stage. Whoever has to wait for one to be applied waits for a millisecond or two.
	stageBytes = 256 << 10
	// stagedOverhead is what a row takes in a batch besides its key and value, at most.
	stagedOverhead = 16
	// stageGroups is the size of a stage's filter of groups, in bits.
	stageGroups = 4096
)

// stage is a hash table of rows that are committed and not yet applied. It is changed under the shard's lock until it is
// being applied, and not at all from then on.
type stage struct {
	rows  []stagedRow
	slots []uint32 // open addressing by hash: index of the row + 1, 0 is free
	data  []byte   // keys and values
	// groups has a bit for each group of rows that the stage may have rows of; see groupOf.
	groups [stageGroups / 64]uint64
	// done is closed when the rows are in Pebble, or can't get there.
	done chan struct{}
}

// stagedRow says where in data the row is.
type stagedRow struct {
	hash        uint64
	key, keyLen uint32
	val, valLen uint32
	valRoom     uint32 // bytes that a new value may take in place of the old one
	deleted     bool
	isNew       bool // there was none of the key when it was put first
}

func newStage() *stage {
	return &stage{slots: make([]uint32, 2*stageBytes/64), data: make([]byte, 0, stageBytes+stageBytes/4)}
}

// reset empties the stage for its next use.
func (g *stage) reset() {
	clear(g.slots)
	g.rows, g.data, g.groups = g.rows[:0], g.data[:0], [len(g.groups)]uint64{}
}

// groupOf is the part of a key that names the collection or the keyspace that the row belongs to, or else the kind of row. It
// is what iterators keep to.
func groupOf(key []byte) []byte {
	n := 1
	switch key[0] {
	case rowElement, rowScore, rowSlot, rowGroup, rowConsumer:
		n = elementPrefixLen
	case rowMeta:
		n = spacePrefixLen
	}
	return key[:min(n, len(key))]
}

// put stages a row in the place of an older one of the same key.
func (g *stage) put(key, val []byte, deleted, isNew bool) {
	hash := xxhash.Sum64(key)
	at := g.find(hash, key)
	if g.slots[at] == 0 {
		g.add(at, hash, key, isNew)
	}
	row := &g.rows[g.slots[at]-1]
	row.deleted = deleted
	if uint32(len(val)) > row.valRoom {
		row.val, row.valRoom = uint32(len(g.data)), uint32(len(val))
		g.data = append(g.data, val...)
	}
	row.valLen = uint32(copy(g.data[row.val:], val))
}

// add makes a row without a value in a free slot.
func (g *stage) add(at int, hash uint64, key []byte, isNew bool) {
	g.rows = append(g.rows, stagedRow{hash: hash, isNew: isNew, key: uint32(len(g.data)), keyLen: uint32(len(key)), val: uint32(len(g.data) + len(key))})
	g.data = append(g.data, key...)
	g.slots[at] = uint32(len(g.rows))
	bit := xxhash.Sum64(groupOf(key)) % stageGroups
	g.groups[bit/64] |= 1 << (bit % 64)
}

// find returns the slot of the key, or the free one where it belongs.
func (g *stage) find(hash uint64, key []byte) int {
	mask := len(g.slots) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		n := g.slots[at]
		if n == 0 {
			return at
		}
		if row := &g.rows[n-1]; row.hash == hash && bytes.Equal(g.keyOf(row), key) {
			return at
		}
	}
}

// makeRoom sees to it that half of the slots stay free with n rows more.
func (g *stage) makeRoom(n int) {
	if 2*(len(g.rows)+n) <= len(g.slots) {
		return
	}
	size := len(g.slots)
	for 2*(len(g.rows)+n) > size {
		size *= 2
	}
	g.slots = make([]uint32, size)
	for i := range g.rows {
		at := int(g.rows[i].hash) & (size - 1)
		for g.slots[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		g.slots[at] = uint32(i + 1)
	}
}

func (g *stage) keyOf(row *stagedRow) []byte { return g.data[row.key : row.key+row.keyLen] }
func (g *stage) valOf(row *stagedRow) []byte { return g.data[row.val : row.val+row.valLen] }

// get returns the row of the key. It is valid until the next put.
func (g *stage) get(key []byte) (val []byte, deleted, ok bool) {
	if g == nil || len(g.rows) == 0 {
		return nil, false, false
	}
	n := g.slots[g.find(xxhash.Sum64(key), key)]
	if n == 0 {
		return nil, false, false
	}
	row := &g.rows[n-1]
	return g.valOf(row), row.deleted, true
}

// mayHave tells whether the stage may have rows with start <= key < end.
func (g *stage) mayHave(start, end []byte) bool {
	if g == nil || len(g.rows) == 0 {
		return false
	}
	group := groupOf(start)
	if !isWithin(group, end) {
		return true
	}
	bit := xxhash.Sum64(group) % stageGroups
	return g.groups[bit/64]&(1<<(bit%64)) != 0
}

// isWithin tells whether all keys before end, from the group's on, are the group's.
func isWithin(group, end []byte) bool {
	next := upperBound(group)
	return next == nil || bytes.Compare(end, next) <= 0
}

// fill puts the rows, in order, into a batch.
func (g *stage) fill(b *pebble.Batch) {
	type place struct {
		high, low uint64 // the first 16 bytes of the key
		row       *stagedRow
	}
	places := make([]place, 0, len(g.rows))
	for i := range g.rows {
		if g.rows[i].isNew && g.rows[i].deleted {
			continue // came and went
		}
		var head [16]byte
		copy(head[:], g.keyOf(&g.rows[i]))
		places = append(places, place{binary.BigEndian.Uint64(head[:8]), binary.BigEndian.Uint64(head[8:]), &g.rows[i]})
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.high != b.high {
			return cmp.Compare(a.high, b.high)
		}
		if a.low != b.low {
			return cmp.Compare(a.low, b.low)
		}
		return bytes.Compare(g.keyOf(a.row), g.keyOf(b.row))
	})
	for _, p := range places {
		if p.row.deleted {
			must(b.Delete(g.keyOf(p.row), nil))
		} else {
			must(b.Set(g.keyOf(p.row), g.valOf(p.row), nil))
		}
	}
}

// row looks for a row in what is staged. It is valid until the next commit.
func (s *Shard) row(key []byte) (val []byte, deleted, ok bool) {
	if val, deleted, ok = s.staged.get(key); ok {
		return val, deleted, true
	}
	return s.applying.Load().get(key)
}

// stageBatch stages the rows of a committed batch, or applies them at once if they are many, or delete ranges.
func (s *Shard) stageBatch() error {
	if s.ranged || s.batch.Len() > s.store.opts.stageBytes {
		if err := s.unstage(); err != nil {
			return err
		}
		return s.applyBatch(s.batch)
	}
	g := s.staged
	g.makeRoom(int(s.batch.Count()))
	inserts := s.inserts
	for r, n := s.batch.Reader(), uint32(0); ; n++ {
		kind, key, val, ok, err := r.Next()
		must(err) // the batch is our own
		if !ok {
			break
		}
		isNew := len(inserts) > 0 && inserts[0] == n
		if isNew {
			inserts = inserts[1:]
		}
		g.put(key, val, kind == pebble.InternalKeyKindDelete, isNew)
	}
	if len(g.data) < s.store.opts.stageBytes {
		return nil
	}
	return s.turnStage()
}

// turnStage begins to apply the stage and goes on with an empty one. When the one before is still being applied, it waits
// only if the stage has grown to twice its size meanwhile.
func (s *Shard) turnStage() error {
	g := s.staged
	if s.applying.Load() != nil {
		if len(g.data) < 2*s.store.opts.stageBytes {
			return nil
		}
		if err := s.awaitApplied(); err != nil {
			return err
		}
	}
	s.staged = s.applied.Swap(nil)
	if s.staged == nil {
		s.staged = newStage()
	}
	s.staged.reset() // only now: nobody but the holder of the shard can still be reading it
	g.done = make(chan struct{})
	s.applying.Store(g)
	s.store.goroutines.Go(func() { s.applyBehind(g) }) // ends when it is applied
	return nil
}

// applyBehind applies a stage while the shard goes on.
func (s *Shard) applyBehind(g *stage) {
	defer close(g.done)
	if err := s.applyStage(g); err != nil {
		_ = s.store.fail(err)
		return // the stage stays where it is found, so that what is read remains true
	}
	s.applying.Store(nil)
	s.applied.Store(g)
}

// awaitApplied returns when no stage is being applied.
func (s *Shard) awaitApplied() error {
	g := s.applying.Load()
	if g == nil {
		return nil
	}
	<-g.done
	if s.applying.Load() != nil {
		return s.store.Err() // which has ended the store
	}
	return nil
}

// unstage returns when everything that is staged is applied.
func (s *Shard) unstage() error {
	if err := s.awaitApplied(); err != nil {
		return err
	}
	if len(s.staged.rows) == 0 {
		return nil
	}
	if err := s.applyStage(s.staged); err != nil {
		return s.store.fail(err)
	}
	s.staged.reset()
	return nil
}

func (s *Shard) applyStage(g *stage) error {
	b := s.db.NewBatchWithSize(len(g.data) + stagedOverhead*len(g.rows))
	g.fill(b)
	err := s.applyBatch(b)
	return errors.Join(err, b.Close())
}

func (s *Shard) applyBatch(b *pebble.Batch) error {
	if err := s.db.Apply(b, pebble.NoSync); err != nil {
		return fmt.Errorf("shard %s: apply: %w", s.name, err)
	}
	return nil
}
