package shard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Committed rows are staged before they reach Pebble. A commit puts its rows into a hash table, which costs a tenth of
// inserting them at random places of a memtable, a skiplist. When the table is full, another takes its place, and a
// goroutine sorts the rows of the first and applies them as one batch, while the shard goes on. A row that is written
// again before that (the metadata of a busy list, the state row of every commit), or written and deleted, reaches Pebble
// once. One that is new and deleted before that never does. See ADR 0009 and, for what follows, ADR 0019.
//
// The log has every commit, so what is staged is as safe as what is in a memtable: both are replayed after a crash. The
// state row of a stage is applied with the last of its rows. So a shard's tables have all that belongs to the commit that
// their state row tells, perhaps some rows of later commits besides, and replaying these writes them again.
//
// Reading a row looks into the stages first. Iterating needs order: rows that are staged for what is iterated over are
// applied before, ahead of what else is staged.

const (
	// stageBytes of rows fill a stage, or a stagePart of a memtable if that is less. The larger it is, the more rows come and go
	// in it.
	stageBytes = 4 << 20
	stagePart  = 4
	// stageStep is how many bytes of rows are applied at a time. Whoever needs some before the others waits for a step.
	stageStep = 256 << 10
	// rangeRows is how many deleted rows of a list, side by side, are applied as one range. Readers have to look through the ranges of
	// a memtable, so there should not be many.
	rangeRows = 64
	// stageGroups is how many chains of groups a stage has.
	stageGroups = 4096
	// stageSlots is how many slots a stage begins with.
	stageSlots = 1024
)

// stage is a hash table of rows that are committed and not yet applied. Until it is being applied it belongs to who stages what is pending,
// see pending.staging, and while nothing is pending to who holds the shard. From then on only what the applying goroutine marks in its
// rows changes, and groups, by who holds the shard.
type stage struct {
	rows  []stagedRow
	slots []stageSlot // open addressing by hash
	data  []byte      // keys and values
	// groups chains rows that are to be applied by the hashes of their groups, see groupOf: index of a row + 1, 0 for none.
	groups [stageGroups]uint32
	// urgent takes chains that somebody waits for while the stage is being applied.
	urgent chan urgentGroup
	// done is closed when the rows are in Pebble, or can't get there.
	done chan struct{}

	arrived []arriving // of the rows of a batch those that are put next, togetherRows at most
	looked  uint32     // of no use but that it has to be looked at
}

// urgentGroup is a chain of rows that is to be applied before others. applied is closed then.
type urgentGroup struct {
	group   int
	applied chan struct{}
}

// stageSlot is where a row is found. It has the row's hash, so that the rows of others are passed over without a look at them,
// each of which would be a cache miss.
type stageSlot struct{ hash, row uint32 } // row: index + 1; 0: the slot is free

// stagedRow says where in data the row is.
type stagedRow struct {
	key, keyLen uint32
	val, valLen uint32
	valRoom     uint32 // bytes that a new value may take in place of the old one
	next        uint32 // the next row of the chain of its group: index + 1, 0 for none
	deleted     bool
	indexed     bool // it is deleted, and of a list: the rows of a list have keys of one length, with the index at their end
	isNew       bool // Pebble has none of the key
	applied     bool // it is in Pebble as it is here
	chained     bool // it is in the chain of its group
}

func newStage() *stage { return &stage{slots: make([]stageSlot, stageSlots)} }

// reset empties the stage for its next use.
func (g *stage) reset() {
	clear(g.slots)
	clear(g.groups[:])
	g.rows, g.data = g.rows[:0], g.data[:0]
}

// groupOf is the part of a key that names the collection or the keyspace that the row belongs to, or else the kind of row. It
// is what iterators keep to.
func groupOf(key []byte) []byte { return key[:min(groupLen(key[0]), len(key))] }

// groupLen is the length of a group of a kind of rows.
func groupLen(kind byte) int {
	switch kind {
	case rowElement, rowScore, rowSlot, rowGroup, rowConsumer:
		return elementPrefixLen
	case rowMeta:
		return spacePrefixLen
	}
	return 1
}

// putAll stages rows. Where each of them belongs is hardly ever in a cache of the processor, and to wait for one after the other would take
// most of the time: so all of these places are looked at first, in loops so short that the processor waits for many at once.
func (g *stage) putAll(rows []arriving) {
	mask := uint32(len(g.slots) - 1)
	var looked uint32
	for i := range rows {
		looked += g.slots[rows[i].hash&mask].row
	}
	for i := range rows {
		if slot := g.slots[rows[i].hash&mask]; slot.row != 0 {
			looked += uint32(g.data[g.rows[slot.row-1].key])
		}
	}
	g.looked = looked
	for i := range rows {
		g.put(&rows[i])
	}
}

// put stages a row in the place of an older one of the same key; for marked see Shard.marked.
func (g *stage) put(r *arriving) {
	slot := g.find(r.hash, r.key)
	if slot.row == 0 {
		slot.hash, slot.row = r.hash, g.add(r.key, r.marked && !r.deleted)
	}
	row := &g.rows[slot.row-1]
	if !row.chained { // its chain was applied
		g.chain(slot.row)
	}
	row.deleted, row.indexed, row.applied = r.deleted, r.marked && r.deleted, false
	if uint32(len(r.val)) > row.valRoom {
		row.val, row.valRoom = uint32(len(g.data)), uint32(len(r.val))
		g.data = append(g.data, r.val...)
	}
	row.valLen = uint32(copy(g.data[row.val:], r.val))
}

// add makes a row without a value and returns its index + 1.
func (g *stage) add(key []byte, isNew bool) (n uint32) {
	g.rows = append(g.rows, stagedRow{isNew: isNew, key: uint32(len(g.data)), keyLen: uint32(len(key)), val: uint32(len(g.data) + len(key))})
	g.data = append(g.data, key...)
	n = uint32(len(g.rows))
	g.chain(n)
	return n
}

// chain puts a row, its index + 1, into the chain of its group.
func (g *stage) chain(n uint32) {
	row := &g.rows[n-1]
	first := &g.groups[chainOf(groupOf(g.keyOf(row)))]
	row.next, *first, row.chained = *first, n, true
}

// unchain forgets a chain, which was applied.
func (g *stage) unchain(group int) {
	for n := g.groups[group]; n != 0; n = g.rows[n-1].next {
		g.rows[n-1].chained = false
	}
	g.groups[group] = 0
}

func chainOf(group []byte) int { return int(xxhash.Sum64(group) % stageGroups) }

// find returns the slot of the key, which has the hash, or the free one where it belongs.
func (g *stage) find(hash uint32, key []byte) *stageSlot {
	mask := uint32(len(g.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := &g.slots[at]
		if slot.row == 0 || slot.hash == hash && bytes.Equal(g.keyOf(&g.rows[slot.row-1]), key) {
			return slot
		}
	}
}

func rowHash(key []byte) uint32 { return uint32(xxhash.Sum64(key)) }

// makeRoom sees to it that half of the slots stay free with n rows more.
func (g *stage) makeRoom(n int) {
	if 2*(len(g.rows)+n) <= len(g.slots) {
		return
	}
	size := len(g.slots)
	for 2*(len(g.rows)+n) > size {
		size *= 2
	}
	slots := make([]stageSlot, size)
	for _, slot := range g.slots {
		if slot.row == 0 {
			continue
		}
		at := int(slot.hash) & (size - 1)
		for slots[at].row != 0 {
			at = (at + 1) & (size - 1)
		}
		slots[at] = slot
	}
	g.slots = slots
}

func (g *stage) keyOf(row *stagedRow) []byte { return g.data[row.key : row.key+row.keyLen] }
func (g *stage) valOf(row *stagedRow) []byte { return g.data[row.val : row.val+row.valLen] }

// lookFor looks at the slots where rows with the hashes would be, and returns what is of no use.
func (g *stage) lookFor(hashes []uint32) (looked uint32) {
	if g == nil || len(g.rows) == 0 {
		return 0
	}
	mask := uint32(len(g.slots) - 1)
	for _, hash := range hashes {
		looked += g.slots[hash&mask].row
	}
	return looked
}

// get returns the row of the key, which has the hash. It is valid until the next put.
func (g *stage) get(hash uint32, key []byte) (val []byte, deleted, ok bool) {
	if g == nil || len(g.rows) == 0 {
		return nil, false, false
	}
	slot := g.find(hash, key)
	if slot.row == 0 {
		return nil, false, false
	}
	row := &g.rows[slot.row-1]
	return g.valOf(row), row.deleted, true
}

// isWithin tells whether all keys before end, from the group's on, are the group's. What is too short to name a group has many.
func isWithin(group, end []byte) bool {
	if len(group) < groupLen(group[0]) {
		return false
	}
	next := upperBound(group)
	return next == nil || bytes.Compare(end, next) <= 0
}

// sortedRow is a staged row with what it is sorted by.
type sortedRow struct {
	high, low uint64 // see sortKey
	row       *stagedRow
}

// toSort returns the row as it is sorted, unless it need not be applied.
func (g *stage) toSort(row *stagedRow) (r sortedRow, ok bool) {
	if row.applied || row.isNew && row.deleted { // the latter came and went
		return r, false
	}
	r.high, r.low = sortKey(g.keyOf(row))
	r.row = row
	return r, true
}

// sortKey is a number, in two parts, that orders rows as their keys do, as far as it goes. The rows of a collection differ behind its
// id, which is less than 1<<32 for long: half of it is left out, so that the number reaches to a list's index and behind a score.
func sortKey(key []byte) (high, low uint64) {
	const more = 3 // bytes behind the id in high
	const enough = elementPrefixLen + more + 8
	if len(key) < enough {
		var padded [enough]byte
		copy(padded[:], key)
		key = padded[:]
	}
	switch key[0] {
	case rowElement, rowScore, rowSlot, rowGroup, rowConsumer:
		high = uint64(key[0]) << 56
		id := binary.BigEndian.Uint64(key[1:])
		if id >= math.MaxUint32 { // all of these are equal here
			return high | math.MaxUint32<<(8*more), 0
		}
		rest := binary.BigEndian.Uint32(key[elementPrefixLen:]) >> (32 - 8*more)
		return high | id<<(8*more) | uint64(rest), binary.BigEndian.Uint64(key[elementPrefixLen+more:])
	}
	return binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])
}

// all returns the rows that are to be applied, in order, but for the state row, which comes last.
func (g *stage) all() []sortedRow {
	rows := make([]sortedRow, 0, len(g.rows)+1)
	var state []sortedRow
	for i := range g.rows {
		r, ok := g.toSort(&g.rows[i])
		switch {
		case !ok:
		case g.data[r.row.key] == rowState:
			state = append(state, r)
		default:
			rows = append(rows, r)
		}
	}
	g.sort(rows)
	return append(rows, state...)
}

// chained returns the rows of a chain that are to be applied, in order.
func (g *stage) chained(group int) (rows []sortedRow) {
	for n := g.groups[group]; n != 0; n = g.rows[n-1].next {
		if r, ok := g.toSort(&g.rows[n-1]); ok && g.data[r.row.key] != rowState {
			rows = append(rows, r)
		}
	}
	g.sort(rows)
	return rows
}

func (g *stage) sort(rows []sortedRow) {
	slices.SortFunc(rows, func(a, b sortedRow) int {
		if a.high != b.high {
			return cmp.Compare(a.high, b.high)
		}
		if a.low != b.low {
			return cmp.Compare(a.low, b.low)
		}
		return bytes.Compare(g.keyOf(a.row), g.keyOf(b.row))
	})
}

// fill puts the first rows that are still to be applied into a batch, about so many bytes of them, marks them and returns the rest.
func (g *stage) fill(b *pebble.Batch, rows []sortedRow, limit int) (rest []sortedRow) {
	for seen := 0; b.Len() < limit && len(rows) > 0; {
		if seen <= 0 {
			seen = min(len(rows), togetherRows)
			g.look(rows[:seen])
		}
		n := g.run(rows)
		seen -= n
		if n >= rangeRows {
			must(b.DeleteRange(g.keyOf(rows[0].row), upperBound(g.keyOf(rows[n-1].row)), nil))
		}
		for _, r := range rows[:n] {
			switch {
			case r.row.applied || n >= rangeRows:
			case r.row.deleted:
				must(b.Delete(g.keyOf(r.row), nil))
			default:
				must(b.Set(g.keyOf(r.row), g.valOf(r.row), nil))
			}
			r.row.applied, r.row.isNew = true, false
		}
		rows = rows[n:]
	}
	return rows
}

// look has the processor fetch what rows consist of, as putAll does. In their order they stand all over the stage's memory.
func (g *stage) look(rows []sortedRow) {
	const line = 64 // bytes of memory that are fetched at a time
	var looked uint32
	for i := range rows {
		row := rows[i].row
		looked += uint32(g.data[row.key])
		for at := row.val; at < row.val+row.valLen; at += line {
			looked += uint32(g.data[at])
		}
	}
	g.looked = looked
}

// run is how many of the first rows are deleted elements of a list that stand side by side, at least 1.
func (g *stage) run(rows []sortedRow) int {
	n := 1
	for n < len(rows) && g.isRun(rows[n-1].row) && g.isRun(rows[n].row) && g.areNeighbours(rows[n-1].row, rows[n].row) {
		n++
	}
	return n
}

func (g *stage) isRun(row *stagedRow) bool { return row.indexed && !row.applied }

// areNeighbours tells whether the second element of a list follows the first at once.
func (g *stage) areNeighbours(a, b *stagedRow) bool {
	list, next := g.keyOf(a)[:elementPrefixLen], g.keyOf(b)
	return bytes.HasPrefix(next, list) && indexOf(next) == indexOf(g.keyOf(a))+1
}

// row looks for a row in what is staged. It is valid until the next commit.
func (s *Shard) row(key []byte) (val []byte, deleted, ok bool) {
	s.stagePending()
	hash := rowHash(key)
	if val, deleted, ok = s.staged.get(hash, key); ok {
		return val, deleted, true
	}
	return s.applying.Load().get(hash, key)
}

// lookForRows prepares looking for the rows of many keys, as putAll does.
func (s *Shard) lookForRows(rows []fetched) {
	s.stagePending()
	var hashes [togetherRows]uint32
	for n := 0; len(rows) > 0; rows = rows[n:] {
		for n = 0; n < min(len(rows), togetherRows); n++ {
			hashes[n] = rowHash(rows[n].key)
		}
		s.looked += s.staged.lookFor(hashes[:n]) + s.applying.Load().lookFor(hashes[:n])
	}
}

// stageBatch stages the rows of a committed batch, or applies them at once if they are many, or delete ranges.
func (s *Shard) stageBatch() error {
	switch {
	case s.ranged || s.batch.Len() > s.store.opts.stageBytes:
		return s.passStages(s.batch)
	case s.batch.Len() > pendingMost*s.store.opts.pendingBytes:
		s.stagePending()
		return s.stageRows(s.batch.Reader(), int(s.batch.Count()), s.marked)
	}
	s.handOver()
	return nil
}

// passStages applies a batch behind everything that is staged.
func (s *Shard) passStages(b *pebble.Batch) error {
	if err := s.unstage(); err != nil {
		return err
	}
	return s.applyBatch(b)
}

// arriving is a row that is about to be staged.
type arriving struct {
	key, val        []byte
	hash            uint32
	deleted, marked bool
}

// togetherRows is how many rows the processor is to fetch at a time.
const togetherRows = 64

// stageRows stages the rows of a batch of count rows, those that are marked as Shard.marked says.
func (s *Shard) stageRows(r batchrepr.Reader, count int, marked []uint32) error {
	g := s.staged
	g.makeRoom(count)
	for n, more := uint32(0), true; more; n++ {
		kind, key, val, ok, err := r.Next()
		must(err) // the batch is our own
		if more = ok; ok {
			mark := len(marked) > 0 && marked[0] == n
			if mark {
				marked = marked[1:]
			}
			g.arrived = append(g.arrived, arriving{key, val, rowHash(key), kind == pebble.InternalKeyKindDelete, mark})
		}
		if !more || len(g.arrived) == togetherRows {
			g.putAll(g.arrived)
			clear(g.arrived)
			g.arrived = g.arrived[:0]
		}
	}
	if len(g.data) < s.store.opts.stageBytes {
		return nil
	}
	return s.turnStage()
}

// replay does again what a commit of the log did to the rows, by way of the stages, as most of its rows are written again by others.
func (s *Shard) replay(repr []byte) error {
	atOnce, count := len(repr) > s.store.opts.stageBytes, 0
	for r := batchrepr.Read(repr); ; count++ {
		kind, _, _, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		atOnce = atOnce || kind == pebble.InternalKeyKindRangeDelete
	}
	if !atOnce {
		return s.stageRows(batchrepr.Read(repr), count, nil)
	}
	b := s.db.NewBatch()
	err := b.SetRepr(append([]byte(nil), repr...))
	if err == nil {
		err = s.passStages(b)
	}
	return errors.Join(err, b.Close())
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
	s.staged.reset() // only now: until it is taken, the holder of the shard may be reading what it had
	g.done, g.urgent = make(chan struct{}), make(chan urgentGroup)
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
	s.stagePending()
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

// unstageWithin returns when what is staged of the rows with start <= key < end is applied.
func (s *Shard) unstageWithin(start, end []byte) error {
	s.stagePending()
	group := groupOf(start)
	if !isWithin(group, end) {
		return s.unstage()
	}
	chain := chainOf(group)
	if g := s.applying.Load(); g != nil && g.groups[chain] != 0 {
		if err := s.hasten(g, chain); err != nil {
			return err
		}
	}
	g := s.staged
	if g.groups[chain] == 0 {
		return nil
	}
	if err := s.applyRows(g, g.chained(chain)); err != nil {
		return s.store.fail(err)
	}
	g.unchain(chain)
	return nil
}

// hasten returns when a chain of the stage that is being applied is.
func (s *Shard) hasten(g *stage, chain int) error {
	u := urgentGroup{chain, make(chan struct{})}
	select {
	case g.urgent <- u:
	case <-g.done:
		return s.awaitApplied()
	}
	select {
	case <-u.applied:
	case <-g.done: // both may be
		return s.awaitApplied()
	}
	g.groups[chain] = 0
	return nil
}

// applyStage applies the rows of a stage in steps, and between them what somebody waits for.
func (s *Shard) applyStage(g *stage) error {
	rows := g.all()
	if s.cuts.stale.Load() > 0 {
		s.cuts.reload(s.db)
	}
	s.noteCuts(g, rows, len(g.data))
	s.cuts.publish(2 * s.store.opts.MemtableBytes) // a stage has rows as well that are never applied
	for len(rows) > 0 {
		b := s.db.NewBatchWithSize(stageStep + stageStep/4)
		rows = g.fill(b, rows, stageStep)
		if err := errors.Join(s.applyBatch(b), b.Close()); err != nil {
			return err
		}
		select {
		case u := <-g.urgent:
			if err := s.applyRows(g, g.chained(u.group)); err != nil {
				return err
			}
			close(u.applied)
		default:
		}
	}
	return nil
}

// applyRows applies rows of a stage.
func (s *Shard) applyRows(g *stage, rows []sortedRow) error {
	if len(rows) == 0 {
		return nil
	}
	b := s.db.NewBatch()
	g.fill(b, rows, math.MaxInt)
	s.noteCuts(g, rows, b.Len())
	return errors.Join(s.applyBatch(b), b.Close())
}

func (s *Shard) applyBatch(b *pebble.Batch) error {
	if err := s.db.Apply(b, pebble.NoSync); err != nil {
		return fmt.Errorf("shard %s: apply: %w", s.name, err)
	}
	return nil
}

// noteCuts notes that rows of a stage are applied, size bytes of them. They are in order, but for the state row behind them.
func (s *Shard) noteCuts(g *stage, rows []sortedRow, size int) {
	if n := len(rows); n > 0 && g.data[rows[n-1].row.key] == rowState {
		rows = rows[:n-1]
	}
	s.cuts.note(len(rows), func(i int) []byte { return g.keyOf(rows[i].row) }, size)
}
