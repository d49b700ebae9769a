package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Shard is one Pebble store with its lock and its cache: the unit of parallelism.
type Shard struct {
	store       *Store
	ordinal     int
	name        string
	db          *pebble.DB
	compactions *compactions // of db
	cuts        cuts

	wake chan struct{} // tells the janitor that there may be work earlier than it thinks; capacity 1

	probes atomic.Int32 // goroutines of probe and lockBefore
	kicked atomic.Bool  // see ServeGroups
	amiss  atomic.Bool  // see DB.AuditAll

	mu sync.Mutex
	// All that follows is guarded by mu, which a transaction holds from its first use of the shard to its end.

	state shardState
	cache *objectCache
	// cleared is the commit number as of which clearTables was done the last time; only that uses it.
	cleared uint64
	// lastPos is the log position behind the last commit on this shard: what a reader has to wait for before
	// it may tell anybody what it saw.
	lastPos uint64
	// nextDeadlineMs is a lower bound of the earliest deadline row, expiredToMs a time before which there are
	// only tombstones of such rows. graves tells that dead collections or keyspaces wait to be cleared.
	nextDeadlineMs int64
	expiredToMs    int64
	graves         bool
	walked         []byte    // the metadata row where the janitor's walk over a dead keyspace goes on
	unnamed        []*object // collections the names of whose elements the janitor reads
	stats          Stats
	watches        map[watchKey][]*Watch
	queues         map[waitKey]*waitQueue

	times timetable

	// What is committed and not yet in db; see stage, which tells whose it is. staged takes what is committed next, applying is on its way,
	// applied has arrived and is used again.
	staged            *stage
	applying, applied atomic.Pointer[stage]
	pending           pending // has a lock of its own

	// The transaction in progress.

	tx      *Tx // that holds mu
	batch   *pebble.Batch
	dirty   []*object
	marked  []uint32   // rows of the batch: if set, those that are new, see insert; if deleted, those of lists, see deleteIndexed
	before  shardState // the state to return to on abort; valid while touched
	touched bool
	expired int64         // keys that it has removed since their deadline had passed
	ranged  bool          // the batch deletes ranges
	signals []waitKey     // queues to be served with the commit
	ready   []*waitQueue  // made ready by the commit that is being applied
	awaited bool          // somebody waits for a key that was changed
	wiped   bool          // a database was emptied: aborting has to forget the whole cache
	overlay *pebble.Batch // an indexed copy of batch, for iterators; see reader

	keyBuf, valBuf []byte // scratch for rows
	fetchBuf       []byte // keys of rows
	looked         uint32 // see lookForRows
	moments        Moment // the last one, see Hash.Moment
	texts          texts
}

// shardState is the shard's state row. It is written with every commit, so it costs one small row a commit
// and nothing has to be counted at start.
type shardState struct {
	number    uint64 // of the last commit; contiguous, see commitLog
	nextID    uint64 // the next collection id
	nextSpace uint32 // the next keyspace id
	spaces    []keyspace
}

// keyspace is what a database of the shard consists of.
type keyspace struct {
	id      uint32 // the id in its rows; emptying the database gives it a new one
	keys    int64
	expires int64 // keys that have a deadline
}

const stateVersion = 1

// firstSpace is the first keyspace id that is given to a database which was emptied. Those below are the databases' first
// ones, so that raising their number can't give a new database an id that is in use.
const firstSpace = 1 << 16

func newShardState(databases int) shardState {
	st := shardState{nextID: 1, nextSpace: firstSpace, spaces: make([]keyspace, databases)}
	for i := range st.spaces {
		st.spaces[i].id = uint32(i)
	}
	return st
}

// encode appends the row: version u8 · number, nextID, nextSpace, number of databases as uvarints · for each
// its keyspace id, keys, expires. Trailing databases that were never used are left out.
func (st *shardState) encode(dst []byte) []byte {
	n := len(st.spaces)
	for n > 0 && st.spaces[n-1] == (keyspace{id: uint32(n - 1)}) {
		n--
	}
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, st.number)
	dst = binary.AppendUvarint(dst, st.nextID)
	dst = binary.AppendUvarint(dst, uint64(st.nextSpace))
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, ks := range st.spaces[:n] {
		dst = binary.AppendUvarint(dst, uint64(ks.id))
		dst = binary.AppendUvarint(dst, uint64(ks.keys))
		dst = binary.AppendUvarint(dst, uint64(ks.expires))
	}
	return dst
}

func decodeState(val []byte, databases int) (shardState, error) {
	st := newShardState(databases)
	if len(val) == 0 || val[0] != stateVersion {
		return st, errCorruptRow
	}
	r := varintReader{rest: val[1:]}
	st.number = r.uvarint()
	st.nextID = r.uvarint()
	st.nextSpace = uint32(r.uvarint())
	n := int(r.uvarint())
	if n > databases {
		return st, fmt.Errorf("the shard has %d databases in use, the configuration allows %d: raise databases", n, databases)
	}
	for i := range st.spaces[:n] {
		st.spaces[i] = keyspace{id: uint32(r.uvarint()), keys: int64(r.uvarint()), expires: int64(r.uvarint())}
	}
	if r.bad {
		return st, errCorruptRow
	}
	return st, nil
}

// touch notes that the transaction changes the shard, and keeps what an abort needs.
func (s *Shard) touch() {
	if s.touched {
		return
	}
	s.touched = true
	spaces := append(s.before.spaces[:0], s.state.spaces...)
	s.before = s.state
	s.before.spaces = spaces
}

// modify marks the object as changed by the transaction.
func (s *Shard) modify(o *object) {
	o.quiet = false
	if o.track != nil && !s.tx.muted {
		o.foreign = true
	}
	if !o.dirty {
		s.touch()
		o.dirty = true
		s.dirty = append(s.dirty, o)
		s.tx.spend(len(o.key) + len(o.str) + dirtyOverhead)
		s.tx.occupy(objectOverhead)
		if len(s.queues) > 0 {
			o.turn = s.store.turns.Add(1)
		}
	}
	if len(s.queues) > 0 && !s.awaited {
		s.awaited = s.isAwaited(o)
	}
}

// lookup returns the object of the key, decoded from its row unless it is cached. A key whose deadline has
// passed is removed here, as Redis does on access, and then absent.
func (s *Shard) lookup(nowMs int64, db int, key []byte) (*object, error) {
	o := s.cache.get(db, key)
	if o == nil {
		var err error
		if o, err = s.load(db, key); err != nil {
			return nil, err
		}
	}
	if o.expireAt != 0 && o.expireAt <= nowMs {
		if err := s.remove(o); err != nil {
			return nil, err
		}
		s.expired++
		o.foreign = false // it has gone by itself
		s.noteOf(NoteExpired, "expired", o)
		if o.track != nil && o.track.Lease {
			return o, s.lapsed(o)
		}
	}
	if o.track != nil && o.track.Prompt {
		return o, s.prompt(o, nowMs)
	}
	return o, nil
}

// load makes the object of a key that isn't cached. When as many keys are cached as the database has, a key that is not
// among them is absent, and there is no row to look for; nor is there when the names of all keys are known and this is none of them.
func (s *Shard) load(db int, key []byte) (*object, error) {
	o := s.cache.newObject()
	o.key, o.db, o.track = string(key), s.cache.dbs[db], s.store.tracker.Track(key)
	if s.cache.dbs[db].live == s.state.spaces[db].keys {
		s.cache.add(o)
		return o, nil
	}
	s.keyBuf = appendMetaKey(s.keyBuf[:0], s.state.spaces[db].id, o.key)
	if o.db.names.lacksKey(s.keyBuf) {
		s.cache.add(o)
		return o, nil
	}
	switch err := s.view(s.keyBuf, o.decode); {
	case errors.Is(err, pebble.ErrNotFound):
		s.missKey(o.db)
	case err != nil:
		return nil, s.readError(fmt.Errorf("metadata of key %q: %w", key, err))
	}
	o.named = o.stored
	s.cache.add(o)
	return o, nil
}

// create makes the absent object an empty collection of the kind.
func (s *Shard) create(o *object, kind Kind) {
	s.modify(o)
	s.tx.occupy(bodyOverhead)
	o.become(kind, s.state.nextID)
	if kind == KindList && s.times.slotted > 0 {
		s.indexNew(o)
	}
	s.state.nextID++
	s.count(o.db.n, 1)
}

// count counts a key that the database gains or loses; its object is in the cache.
func (s *Shard) count(db int, by int64) {
	s.state.spaces[db].keys += by
	s.cache.dbs[db].live += by
}

// remove deletes the key with all that belongs to it.
func (s *Shard) remove(o *object) error {
	if o.kind == KindNone {
		return nil
	}
	s.modify(o)
	if len(s.queues) > 0 && o.track != nil && o.track.Departures {
		s.signalAll(o)
	}
	if o.hasRows() {
		if err := s.bury(o); err != nil {
			return err
		}
	}
	s.forget(o)
	return nil
}

// forget makes the object absent once its elements are gone.
func (s *Shard) forget(o *object) {
	s.setDeadline(o, 0)
	s.count(o.db.n, -1)
	s.tx.spend(-o.unwritten())
	o.clear()
}

// setDeadline changes when the key expires, and the deadline row with it. 0: never.
func (s *Shard) setDeadline(o *object, atMs int64) {
	if o.expireAt == atMs {
		return
	}
	s.modify(o)
	ks := &s.state.spaces[o.db.n]
	switch {
	case o.expireAt != 0 && atMs == 0:
		ks.expires--
	case o.expireAt == 0:
		ks.expires++
	}
	if o.track != nil && o.track.Lease {
		s.setLapse(o, ks.id, atMs)
	} else {
		s.setExpiry(o, ks.id, atMs)
	}
	o.expireAt = atMs
}

// setExpiry changes the deadline row of a key that the janitor removes.
func (s *Shard) setExpiry(o *object, space uint32, atMs int64) {
	if o.expireAt != 0 {
		s.keyBuf = appendDeadlineKey(s.keyBuf[:0], o.expireAt, space, o.key)
		s.delete(s.keyBuf)
	}
	if atMs == 0 {
		return
	}
	s.keyBuf = appendDeadlineKey(s.keyBuf[:0], atMs, space, o.key)
	s.insert(s.keyBuf, nil)
	if atMs < s.nextDeadlineMs {
		s.nextDeadlineMs = atMs
		s.wakeJanitor()
	}
	s.expiredToMs = min(s.expiredToMs, atMs)
}

// setLapse is setExpiry for a lease.
func (s *Shard) setLapse(o *object, space uint32, atMs int64) {
	if o.expireAt != 0 {
		s.keyBuf = appendLapseKey(s.keyBuf[:0], o.expireAt, space, o.key)
		s.delete(s.keyBuf)
		s.times.lapsing = append(s.times.lapsing, lapseChange{o.expireAt >> lapseBucketBits, -1})
	}
	if atMs != 0 {
		s.keyBuf = appendLapseKey(s.keyBuf[:0], atMs, space, o.key)
		s.insert(s.keyBuf, nil)
		s.times.lapsing = append(s.times.lapsing, lapseChange{atMs >> lapseBucketBits, 1})
	}
}

func (s *Shard) wakeJanitor() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// set and delete put a row into the transaction's batch, unless it cannot be committed any more: a batch of 4 GiB would be a panic.
func (s *Shard) set(key, val []byte) {
	s.touch()
	if s.tx.write(len(key) + len(val)) {
		must(s.batch.Set(key, val, nil))
	}
}

// insert is set for a row that is not there, which the caller knows for sure. If it is deleted soon, nothing of it reaches Pebble.
func (s *Shard) insert(key, val []byte) { s.put(key, val, true) }

// put is insert for a new row and else set.
func (s *Shard) put(key, val []byte, isNew bool) {
	if isNew {
		s.marked = append(s.marked, s.batch.Count())
	}
	s.set(key, val)
}

func (s *Shard) delete(key []byte) {
	s.touch()
	if s.tx.write(len(key)) {
		must(s.batch.Delete(key, nil))
	}
}

func (s *Shard) deleteRange(start, end []byte) {
	s.touch()
	if s.tx.write(len(start) + len(end)) {
		s.ranged = true
		must(s.batch.DeleteRange(start, end, nil))
	}
}

// deleteIndexed is delete for a row of a list. When many that stand side by side are applied together, they go as one range.
func (s *Shard) deleteIndexed(key []byte) {
	s.marked = append(s.marked, s.batch.Count())
	s.delete(key)
}

// must is for errors that only a broken invariant can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// flushMeta encodes the metadata rows of the transaction's dirty objects into the batch.
func (s *Shard) flushMeta() {
	for _, o := range s.dirty {
		switch {
		case o.stream != nil:
			s.flushGroups(o)
		case o.chunked != nil:
			s.flushChunks(o)
		}
		if o.track != nil {
			s.list(o)
		}
		s.keyBuf = appendMetaKey(s.keyBuf[:0], s.state.spaces[o.db.n].id, o.key)
		switch {
		case o.kind != KindNone:
			s.flushRow(o)
		case o.stored:
			s.delete(s.keyBuf)
			o.stored = false
		}
	}
}

// flushRow encodes the metadata row of an object under the key in keyBuf, unless it has that value already.
func (s *Shard) flushRow(o *object) {
	s.valBuf = o.encode(s.valBuf[:0])
	if b := o.stream; b != nil {
		if bytes.Equal(b.row, s.valBuf) {
			return
		}
		b.row = append(b.row[:0], s.valBuf...)
	}
	s.put(s.keyBuf, s.valBuf, !o.stored)
	o.stored = true
}

// reader is what iterators over the object's rows have to read from: the store, with the transaction's own
// rows over it where it has any. The copy with an index costs something, but only a transaction that changes
// a collection and then walks it pays.
func (s *Shard) reader(o *object) pebble.Reader {
	if !o.dirty || s.batch.Empty() {
		return s.db
	}
	return s.indexed()
}

// indexed returns the copy, after it has got what the batch has more, so that a transaction which changes and walks in turns pays for each
// row once. Nothing may be written to the shard while an iterator over a dirty collection is open.
func (s *Shard) indexed() pebble.Reader {
	if s.overlay == nil {
		s.overlay = s.db.NewIndexedBatch()
	}
	if has := s.overlay.Len(); has < s.batch.Len() {
		rows := s.batch.Repr()[has:]
		repr := append(make([]byte, batchrepr.HeaderLen, batchrepr.HeaderLen+len(rows)), rows...)
		batchrepr.SetCount(repr, s.batch.Count()-s.overlay.Count())
		var more pebble.Batch
		must(more.SetRepr(repr))
		must(s.overlay.Apply(&more, nil))
	}
	return s.overlay
}

func (s *Shard) closeOverlay() {
	if s.overlay != nil {
		must(s.overlay.Close())
		s.overlay = nil
	}
}

// iterate opens an iterator over the rows with start <= key < end.
func (s *Shard) iterate(r pebble.Reader, start, end []byte) (*pebble.Iterator, error) {
	if err := s.unstageWithin(start, end); err != nil {
		return nil, err
	}
	return s.iterateApplied(r, start, end)
}

// iterateApplied is iterate without the rows that are staged.
func (s *Shard) iterateApplied(r pebble.Reader, start, end []byte) (*pebble.Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, s.readError(err)
	}
	return it, nil
}

// finish closes an iterator and returns what went wrong while it ran. An iterator that could not read what is next is at its end, so nothing
// follows from an end before that; and since a value may be read apart from its key, values are asked for by ValueAndErr.
func (s *Shard) finish(it *pebble.Iterator) error {
	s.stats.RowsRead += int64(stepsOf(it))
	if err := it.Close(); err != nil {
		return s.readError(err)
	}
	return nil
}

// stepsOf is how many rows, those included that are no longer there, the iterator has stepped over.
func stepsOf(it *pebble.Iterator) int {
	stats := it.Stats()
	const rows = pebble.InternalIterCall
	return stats.ForwardSeekCount[rows] + stats.ReverseSeekCount[rows] + stats.ForwardStepCount[rows] + stats.ReverseStepCount[rows]
}

// view passes a row's value to fn, which may not keep it. Without a row it returns pebble.ErrNotFound. What fn makes of the value
// counts only if there is no error.
func (s *Shard) view(key []byte, fn func(val []byte) error) error {
	s.stats.RowsRead++
	val, deleted, staged := s.row(key)
	switch {
	case deleted:
		return pebble.ErrNotFound
	case staged:
		return fn(val)
	}
	val, closer, err := s.db.Get(key)
	if err != nil {
		return err
	}
	err = fn(val)
	if failed := closer.Close(); failed != nil { // the value is in a file of values that could not be read, and fn has seen none
		return failed
	}
	return err
}

// get reads one row of a collection.
func (s *Shard) get(key []byte) (val []byte, ok bool, err error) {
	err = s.view(key, func(v []byte) error {
		val = append(make([]byte, 0, len(v)), v...)
		return nil
	})
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, s.readError(err)
	}
	return val, true, nil
}

func (s *Shard) readError(err error) error {
	return fmt.Errorf("shard %s: read: %w", s.name, err)
}

// prepare completes the batch for a commit.
func (s *Shard) prepare() logPart {
	s.flushMeta()
	s.state.number++
	s.valBuf = s.state.encode(s.valBuf[:0])
	s.set(append(s.keyBuf[:0], rowState), s.valBuf)
	s.stats.RowsWritten += int64(s.batch.Count())
	return logPart{shard: uint16(s.ordinal), number: s.state.number, repr: s.batch.Repr()}
}

// apply makes the prepared batch visible and settles the cache. The log has the commit already.
func (s *Shard) apply(pos uint64) error {
	if err := s.stageBatch(); err != nil {
		return err
	}
	s.lastPos = pos
	s.stats.Expired += s.expired
	for _, o := range s.dirty {
		o.dirty = false
		o.settle()
		s.settleName(o)
		if o.zset != nil {
			s.tidyRanks(o)
		}
		if len(s.watches) > 0 && !o.quiet {
			s.notifyWatches(o.db.n, o.key)
		}
		if len(s.queues) > 0 {
			s.noteReady(o)
			if o.track != nil {
				s.noteTracked(o)
			}
		}
		if o.track != nil {
			s.settleAgenda(o)
		}
		if o.kind == KindNone && o.track != nil && o.track.Lease {
			s.cache.drop(o) // its task is done with
			s.cache.spare(o)
			continue
		}
		s.cache.charge(o)
	}
	s.texts.settle()
	s.settleTimes()
	s.noteSignals()
	if s.wiped && len(s.queues) > 0 {
		s.noteWiped()
	}
	s.cache.ranks.settle()
	s.endBatch()
	s.cache.evict()
	return nil
}

// abort leaves nothing of the transaction's changes.
func (s *Shard) abort() {
	if !s.touched {
		return
	}
	for _, o := range s.dirty {
		s.cache.drop(o)
	}
	s.texts.abort()
	if s.wiped {
		s.cache.dropAll()
	}
	s.cache.ranks.undo()
	s.state, s.before = s.before, shardState{spaces: s.state.spaces}
	s.endBatch()
}

// maxKeptBatch is the batch memory that a shard keeps between transactions.
const maxKeptBatch = 1 << 20

func (s *Shard) endBatch() {
	s.closeOverlay()
	s.batch.Reset()
	clear(s.dirty)
	s.dirty, s.marked = s.dirty[:0], s.marked[:0]
	clear(s.times.listed)
	s.signals = s.signals[:0]
	s.times.listed, s.times.lapsing = s.times.listed[:0], s.times.lapsing[:0]
	s.touched, s.awaited, s.wiped, s.ranged, s.expired = false, false, false, false, 0
}
