package shard

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Tracking: some keys mean more to those above the store than their values. A Tracker says which, and the shard does for them
// what only the shard can do, whoever changes them, by whatever command:
//
//   - It keeps a row for each, the registry, so that they are found at the next start without looking at all keys.
//   - It knows when the first member of an agenda is due, a sorted set by time, and when a lease ends, a string with a deadline,
//     and has the tracker do what is to be done then: at the moment, by a goroutine that sleeps until the earliest time, or when
//     somebody looks at the key before that.
//   - It serves those who wait for a group of keys when one of them changes.
//   - It keeps an index by slot of lists that are popped so, see slots.go.
//
// Both kinds of times come from rows that exist anyway and are in order, so nothing is loaded at a start but one number for
// each agenda and one for each 16 ms in which a lease ends.

// Tracker says what keys mean. It must be deterministic and safe for concurrent use.
type Tracker interface {
	// Track says what the key means, nil if nothing.
	Track(key []byte) *Tracking
	// Order is where the row of an element of an ordered collection stands among the others, see Tracking.Ordered; not ok: by its hash.
	// It is on disk, so it never changes.
	Order(element []byte) (place uint32, ok bool)
	// Lapsed is called when the deadline of a lease has passed, in the transaction that has removed it.
	Lapsed(db DB, key []byte) error
	// Due does what is due at an agenda, or audits the key, on one shard. limit is how much to do before others get their turn. It
	// returns the time in unix ms at which to go on, or 0: then it is due when the agenda's first member is, or when the key changes.
	Due(db DB, shard int, key []byte, limit int) (againMs int64, err error)
	// Listed is told that a group is listed on one more shard or in one more database of it, when by is 1, or -1 for one less. It holds the
	// shard's lock.
	Listed(group string, by int)
	// Slot is the slot of an element of a list, by so many hexadecimal digits. Its answer is on disk, see slots.go.
	Slot(element []byte, digits int) uint16
	// SlotDigits is by how many digits the list at the key is cut into slots when it is new.
	SlotDigits(key []byte) int
}

// Tracking is what a key means. It does not change.
type Tracking struct {
	// Group is a key of the same shard that names the group the key belongs to, or empty. Waiters for KindGroup at that key are
	// served when the key changes, if it Feeds or Frees.
	Group string
	// Feeds says that the key is a list from which the group's waiters take elements, Frees that whatever happens to the key may let them do so.
	Feeds, Frees bool
	// Lease says that the key is a string whose deadline somebody has to act on at once.
	Lease bool
	// Agenda says that the key is a sorted set of what is to be done, by unix seconds.
	Agenda bool
	// Prompt says of an agenda that whoever looks at it finds done what is due.
	Prompt bool
	// AuditMs is after what time the key is to be looked at when others than the tracker have changed it, or removed a lease; 0: never.
	AuditMs int64
	// Ordered says of a hash or sorted set that the rows of its elements stand in the order that Tracker.Order gives, from its beginning
	// on. What is read and changed together then lies together.
	Ordered bool
	// Elements says that waiters wait for single elements of the key to be set, see Waiter.SetElement, Departures that they wait for them to
	// leave it.
	Elements, Departures bool
}

// listed tells whether the key itself is in the registry.
func (t *Tracking) listed() bool { return t.Agenda || t.AuditMs > 0 }

// noTracker is the tracker of a store that has none.
type noTracker struct{}

func (noTracker) Track([]byte) *Tracking                  { return nil }
func (noTracker) Order([]byte) (uint32, bool)             { return 0, false }
func (noTracker) Lapsed(DB, []byte) error                 { return nil }
func (noTracker) Due(DB, int, []byte, int) (int64, error) { return 0, nil }
func (noTracker) Listed(string, int)                      {}
func (noTracker) Slot([]byte, int) uint16                 { return 0 }
func (noTracker) SlotDigits([]byte) int                   { return MaxSlotDigits }

// DueMs is the time of a score of an agenda, in unix ms.
func DueMs(score float64) int64 {
	const farthest = 1 << 53
	switch {
	case !(score > 0):
		return 0
	case score >= farthest/1000:
		return farthest
	}
	return int64(math.Round(score * 1000))
}

const (
	lapseBucketBits = 4    // leases are counted by 16 ms of their deadlines, so one is at most so late
	attendLimit     = 64   // things that one round of the timekeeper does
	promptLimit     = 1024 // things that looking at an agenda does in one commit

	maxCatchUps       = 8       // times that a transaction begins again since so much was due
	maxCatchUpCommits = 1 << 12 // before each of them
)

// The kinds of rows in the registry.
const (
	listedKey   = 'a'
	listedGroup = 'g'
	// slottedGroup is of a group whose lists are popped by slot.
	slottedGroup = 's'
)

// registryKey is a row of the registry, in memory.
type registryKey struct {
	space uint32
	kind  byte
	name  string
}

func (k registryKey) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, rowRegistry), k.space)
	return append(append(dst, k.kind), k.name...)
}

// agenda is a key that something is to be done about.
type agenda struct {
	agendaKey
	dueMs    int64
	putOffMs int64 // until then the timekeeper leaves it alone
	index    int   // in the heap
}

// atMs is when the timekeeper attends to it.
func (a *agenda) atMs() int64 { return max(a.dueMs, a.putOffMs) }

// agendaKey names a key by its keyspace: the time that is set for it goes along when its database changes places with another.
type agendaKey struct {
	space uint32
	key   string
}

func (s *Shard) agendaKey(o *object) agendaKey { return agendaKey{s.state.spaces[o.db.n].id, o.key} }

// agendaHeap has the one in front that is attended to first.
type agendaHeap []*agenda

func (h agendaHeap) Len() int           { return len(h) }
func (h agendaHeap) Less(i, j int) bool { return h[i].atMs() < h[j].atMs() }
func (h agendaHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *agendaHeap) Push(x any) {
	a := x.(*agenda)
	a.index = len(*h)
	*h = append(*h, a)
}

func (h *agendaHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return a
}

// lapseBucket is the leases that end within the same 16 ms, and when the timekeeper attends to them: then, or later when that was
// put off.
type lapseBucket struct{ bucket, atMs int64 }

// bucketHeap has the bucket in front that is attended to first.
type bucketHeap []lapseBucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].atMs < h[j].atMs }
func (h bucketHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bucketHeap) Push(x any)        { *h = append(*h, x.(lapseBucket)) }
func (h *bucketHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	*h = old[:len(old)-1]
	return b
}

// timetable is what a shard knows of times to come. It is guarded by the shard's lock.
type timetable struct {
	wake     chan struct{} // tells the timekeeper that there is something before it means to wake; capacity 1
	wakeAtMs int64         // when it means to wake

	registry map[registryKey]struct{}
	tell     func(group string, by int) // of groups in it, see Tracker.Listed
	slotted  int                        // of them, groups whose lists are popped by slot
	agendas  map[agendaKey]*agenda
	first    agendaHeap

	// Leases by the bucket of their deadlines. A bucket is in the heap as long as it is in the map.
	lapses  map[int64]int
	buckets bucketHeap

	// Of the transaction in progress.
	listed  []registryKey
	lapsing []lapseChange
}

type lapseChange struct {
	bucket int64
	by     int
}

func newTimetable(listed func(group string, by int)) timetable {
	return timetable{
		tell: listed, wake: make(chan struct{}, 1), registry: make(map[registryKey]struct{}), agendas: make(map[agendaKey]*agenda),
		lapses: make(map[int64]int),
	}
}

// loadTimetable fills the timetable from the rows of the store. A store of a version without a registry gets one.
func (s *Shard) loadTimetable() error {
	s.times.wakeAtMs = math.MaxInt64
	_, ok, err := s.get([]byte{rowRegistry})
	if err != nil {
		return err
	}
	if !ok {
		s.compactions.begin() // what is written may have to wait for them
		if err := s.beginRegistry(); err != nil {
			return err
		}
	}
	err = s.eachRow([]byte{rowRegistry, 0, 0, 0, 0, 0}, []byte{rowRegistry + 1}, func(row, _ []byte) error {
		s.times.add(registryKey{binary.BigEndian.Uint32(row[1:]), row[5], string(row[6:])})
		return nil
	})
	if err != nil {
		return err
	}
	s.beginAgendas()
	return s.eachRow([]byte{rowLapse}, []byte{rowLapse + 1}, func(row, _ []byte) error {
		at, _, _ := splitDeadlineKey(row)
		s.times.lapse(lapseChange{at >> lapseBucketBits, 1})
		return nil
	})
}

// beginRegistry makes the registry from all keys. Its rows are not in the log: if they are lost, so is the row that says that
// they are there, and the next start makes them again.
func (s *Shard) beginRegistry() error {
	b := s.db.NewBatch()
	err := s.eachRow([]byte{rowMeta}, []byte{rowMeta + 1}, func(row, val []byte) error {
		space, key := binary.BigEndian.Uint32(row[1:]), row[metaPrefixLen:]
		t := s.store.tracker.Track(key)
		if t == nil {
			return nil
		}
		_, expireAt, err := decodeHead(val)
		if err == nil && t.Lease && expireAt != 0 {
			err = b.Set(appendLapseKey(nil, expireAt, space, string(key)), nil, nil)
		}
		if err != nil {
			return err
		}
		for _, k := range t.rows(space, string(key)) {
			if err := b.Set(k.append(nil), nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = b.Set([]byte{rowRegistry}, nil, nil)
	}
	if err == nil {
		err = s.db.Apply(b, pebble.NoSync)
	}
	if closing := b.Close(); err == nil {
		err = closing
	}
	return err
}

// rows lists the rows of the registry that a key gives rise to.
func (t *Tracking) rows(space uint32, key string) (rows []registryKey) {
	if t.listed() {
		rows = append(rows, registryKey{space, listedKey, key})
	}
	if t.Group != "" {
		rows = append(rows, registryKey{space, listedGroup, t.Group})
	}
	return rows
}

// eachRow visits rows of the store, for a start.
func (s *Shard) eachRow(start, end []byte, fn func(row, val []byte) error) error {
	it, err := s.iterate(s.db, start, end)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var val []byte
		if val, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key(), val)
		}
	}
	if closing := s.finish(it); err == nil {
		err = closing
	}
	return err
}

// beginAgendas puts every listed key of a database on the agenda, to be looked at as soon as may be, or to be audited after the
// time that audits wait for anyway: a start has better things to do.
func (s *Shard) beginAgendas() {
	dbs := s.databasesOf()
	for k := range s.times.registry {
		_, ok := dbs[k.space]
		switch {
		case !ok:
			s.times.remove(k)
		case k.kind == listedKey:
			var dueMs int64
			if t := s.store.tracker.Track([]byte(k.name)); t != nil && t.AuditMs > 0 {
				dueMs = s.store.clock.NowMs() + t.AuditMs
			}
			s.schedule(agendaKey{k.space, k.name}, dueMs)
		}
	}
}

// settleSpaces forgets what belongs to databases that were emptied. For all else the times that were set stay: otherwise audits would never
// come where some other database is emptied again and again.
func (s *Shard) settleSpaces() {
	dbs := s.databasesOf()
	for k := range s.times.registry {
		if _, ok := dbs[k.space]; !ok {
			s.times.remove(k)
		}
	}
	for k := range s.times.agendas {
		if _, ok := dbs[k.space]; !ok {
			s.unschedule(k)
		}
	}
}

// databasesOf are the databases by their keyspaces.
func (s *Shard) databasesOf() map[uint32]int {
	dbs := make(map[uint32]int, len(s.state.spaces))
	for db := range s.state.spaces {
		dbs[s.state.spaces[db].id] = db
	}
	return dbs
}

// schedule sets when something is to be done about the key.
func (s *Shard) schedule(k agendaKey, dueMs int64) {
	a := s.times.agendas[k]
	switch {
	case a == nil:
		a = &agenda{agendaKey: k, dueMs: dueMs}
		s.times.agendas[k] = a
		heap.Push(&s.times.first, a)
	case a.dueMs != dueMs:
		a.dueMs = dueMs
		heap.Fix(&s.times.first, a.index)
	default:
		return
	}
	s.times.rouse(a.atMs())
}

func (s *Shard) unschedule(k agendaKey) {
	if a := s.times.agendas[k]; a != nil {
		heap.Remove(&s.times.first, a.index)
		delete(s.times.agendas, k)
	}
}

// rouse wakes the timekeeper if it would sleep past the time.
func (t *timetable) rouse(ms int64) {
	if ms >= t.wakeAtMs {
		return
	}
	t.wakeAtMs = ms
	t.nudge()
}

// nudge wakes the timekeeper. It needs no lock.
func (t *timetable) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// lapse counts leases.
func (t *timetable) lapse(c lapseChange) {
	n, ok := t.lapses[c.bucket]
	if !ok {
		heap.Push(&t.buckets, lapseBucket{c.bucket, bucketEnd(c.bucket)})
		t.rouse(bucketEnd(c.bucket))
	}
	t.lapses[c.bucket] = n + c.by
}

// bucketEnd is the time, in ms, at which all leases of the bucket have ended.
func bucketEnd(bucket int64) int64 { return (bucket+1)<<lapseBucketBits - 1 }

// list adds the rows of the registry that a changed object gives rise to, unless they are there. It may have come and gone
// within the transaction.
func (s *Shard) list(o *object) {
	if o.listed {
		return
	}
	o.listed = true
	for _, k := range o.track.rows(s.state.spaces[o.db.n].id, o.key) {
		s.enlist(k)
	}
}

// enlist adds a row to the registry, unless it is there.
func (s *Shard) enlist(k registryKey) {
	if _, ok := s.times.registry[k]; ok || slices.Contains(s.times.listed, k) {
		return
	}
	s.times.listed = append(s.times.listed, k)
	s.keyBuf = k.append(s.keyBuf[:0])
	s.set(s.keyBuf, nil)
}

// add and remove keep the registry in memory.
func (t *timetable) add(k registryKey) {
	if _, ok := t.registry[k]; !ok {
		t.registry[k] = struct{}{}
		t.count(k, 1)
	}
}

func (t *timetable) remove(k registryKey) {
	if _, ok := t.registry[k]; ok {
		delete(t.registry, k)
		t.count(k, -1)
	}
}

// count counts what was added to the registry, or removed.
func (t *timetable) count(k registryKey, by int) {
	switch k.kind {
	case slottedGroup:
		t.slotted += by
	case listedGroup:
		t.tell(k.name, by)
	}
}

// indexNew gives a new list an index by slot, if the lists of its group are popped so.
func (s *Shard) indexNew(o *object) {
	if o.track == nil || o.track.Group == "" {
		return
	}
	if _, ok := s.times.registry[registryKey{s.state.spaces[o.db.n].id, slottedGroup, o.track.Group}]; ok {
		o.list.slots = newSlotIndex(s.store.tracker.SlotDigits([]byte(o.key)), allIndexed)
	}
}

// settleTimes makes the timetable that of what is committed.
func (s *Shard) settleTimes() {
	for _, k := range s.times.listed {
		s.times.add(k)
	}
	for _, c := range s.times.lapsing {
		s.times.lapse(c)
	}
	if s.wiped {
		s.settleSpaces()
	}
}

// settleAgenda notes when something is to be done about an object that a commit has changed.
func (s *Shard) settleAgenda(o *object) {
	switch {
	case o.track.Agenda && o.kind == KindZSet:
		if o.zset.low.tree != nil && o.zset.low.tree.Len() > agendaSize {
			o.zset.cutLow()
		}
		first, err := s.endOf(o, false)
		if err != nil {
			s.schedule(s.agendaKey(o), 0) // whoever does it meets the error
			return
		}
		s.schedule(s.agendaKey(o), DueMs(first.score))
	case o.track.Agenda:
		s.unschedule(s.agendaKey(o))
	case o.track.AuditMs > 0 && o.foreign:
		s.tx.audited = true
		s.audit(s.agendaKey(o), o.track)
	case o.track.Lease && o.foreign && o.kind == KindNone:
		s.tx.released = true
	}
	o.foreign = false
}

// audit has the key looked at after the time for that, unless it is going to be.
func (s *Shard) audit(k agendaKey, t *Tracking) {
	dueMs := s.store.clock.NowMs() + t.AuditMs
	if a := s.times.agendas[k]; a == nil || a.dueMs > dueMs {
		s.schedule(k, dueMs)
	}
}

// settleAudits has everything audited when others than the tracker have removed a lease, of which nothing tells what it was for. A client
// that ends what it holds changes the key that is audited in the same transaction, and then that is taken to be it: or else all keys would be
// audited all the time where such clients work.
func (tx *Tx) settleAudits() {
	if tx.released && !tx.audited {
		tx.store.auditAll()
	}
	tx.audited, tx.released = false, false
}

// AuditAll has all keys audited that can be, each after the time for that: something is amiss, and it is not known where.
func (d DB) AuditAll() { d.tx.store.auditAll() }

func (st *Store) auditAll() {
	for _, s := range st.shards {
		s.amiss.Store(true)
		s.times.nudge()
	}
}

// scheduleAudits is the timekeeper's part of AuditAll.
func (s *Shard) scheduleAudits() {
	if !s.amiss.Swap(false) {
		return
	}
	dbs := s.databasesOf()
	for k := range s.times.registry {
		if _, ok := dbs[k.space]; !ok || k.kind != listedKey {
			continue
		}
		if t := s.store.tracker.Track([]byte(k.name)); t != nil && t.AuditMs > 0 {
			s.audit(agendaKey{k.space, k.name}, t)
		}
	}
}

// lapsed has the tracker act on a lease that was removed since its deadline has passed.
func (s *Shard) lapsed(o *object) error {
	tx := s.tx
	if tx.muted {
		return nil
	}
	tx.muted = true
	defer func() { tx.muted = false }()
	return s.store.tracker.Lapsed(DB{tx: tx, n: o.db.n}, []byte(o.key))
}

// overdue is an agenda at which more is due than a look can do at once.
type overdue struct {
	agendaKey
	ordinal int
	at      time.Time // by then
}

// prompt has the tracker do what is due at an agenda that somebody looks at. If that is too much for one commit, it fails with ErrConflict, and
// the next Begin of the transaction does it, in commits of its own: who looks must not find what the timekeeper is about to do.
func (s *Shard) prompt(o *object, nowMs int64) error {
	a := s.times.agendas[s.agendaKey(o)]
	if a == nil || a.dueMs > nowMs || s.tx.muted {
		return nil
	}
	tx := s.tx
	tx.muted = true
	defer func() { tx.muted = false }()
	again, err := s.store.tracker.Due(DB{tx: tx, n: o.db.n}, s.ordinal, []byte(o.key), promptLimit)
	if err != nil || again == 0 || again > nowMs || tx.yielding || tx.partial || tx.catchUps == maxCatchUps {
		return err
	}
	tx.catchUps++
	tx.overdue, tx.wanted = overdue{a.agendaKey, s.ordinal, tx.began}, tx.locked
	return ErrConflict
}

// catchUp has the tracker do what is due at an agenda, in as many commits as it takes. What it fails at is left to the timekeeper.
func (st *Store) catchUp(late overdue) {
	tx, shards := st.NewTx(), MaskOf(late.ordinal)
	for range maxCatchUpCommits {
		tx.Begin(shards)
		db, ok := st.shards[late.ordinal].databaseOf(late.space)
		if !ok {
			tx.End()
			return
		}
		if now := tx.Began(); now.Before(late.at) {
			tx.SetTime(late.at)
		}
		tx.Mute(true)
		again, err := st.tracker.Due(DB{tx: tx, n: db}, late.ordinal, []byte(late.key), promptLimit)
		more := again != 0 && again <= tx.nowMs
		if err == nil {
			err = tx.Commit()
		}
		tx.End()
		switch {
		case errors.Is(err, ErrConflict):
			shards = tx.Wanted()
		case err != nil || !more:
			return
		}
	}
}

// Hangs tells of a shard that the transaction does not hold that it was asked for and did not answer. What needs it will fail.
func (d DB) Hangs(ordinal int) bool { return d.tx.hung.Has(ordinal) && !d.tx.locked.Has(ordinal) }

// Mute says whether what the transaction does from now on is the tracker's own doing, of which it is not told, and returns what was said before.
func (tx *Tx) Mute(on bool) (was bool) {
	was, tx.muted = tx.muted, on
	return was
}

// Mute is the transaction's.
func (d DB) Mute(on bool) (was bool) { return d.tx.Mute(on) }

// Holds tells whether the transaction holds the shard's lock.
func (d DB) Holds(ordinal int) bool { return d.tx.locked.Has(ordinal) }

// HoldsAll tells whether the transaction holds the locks of the shards.
func (d DB) HoldsAll(shards Mask) bool { return d.tx.locked.Contains(shards) }

// TryHold tells whether the transaction holds the shard's lock, after taking it if nobody has it.
func (d DB) TryHold(ordinal int) bool {
	tx := d.tx
	s := tx.store.shards[ordinal]
	if tx.locked.Has(ordinal) {
		return true
	}
	if !s.mu.TryLock() {
		return false
	}
	tx.hold(s)
	return true
}

// Groups visits the groups of the database whose keys are on the shard, in no order: those, too, of which the transaction itself has made the
// first key.
func (d DB) Groups(ordinal int, fn func(group string)) error {
	s, err := d.tx.shard(ordinal)
	if err != nil {
		return err
	}
	space := s.state.spaces[d.n].id
	for k := range s.times.registry {
		if k.space == space && k.kind == listedGroup {
			fn(k.name)
		}
	}
	s.begunGroups(space, fn)
	return nil
}

// BegunGroups visits the groups of the database of which the transaction itself has made the first key, on the shards that it holds.
func (d DB) BegunGroups(fn func(group string)) {
	for ordinal, s := range d.tx.store.shards {
		if d.tx.locked.Has(ordinal) {
			s.begunGroups(s.state.spaces[d.n].id, fn)
		}
	}
}

func (s *Shard) begunGroups(space uint32, fn func(group string)) {
	for _, o := range s.dirty {
		if o.track != nil {
			s.list(o)
		}
	}
	for _, k := range s.times.listed {
		if k.space == space && k.kind == listedGroup {
			fn(k.name)
		}
	}
}

// Keyspace is a number for what the database has on the shard, another one once it was emptied or has changed places with another database.
func (d DB) Keyspace(ordinal int) (uint32, error) {
	s, err := d.tx.shard(ordinal)
	if err != nil {
		return 0, err
	}
	return s.state.spaces[d.n].id, nil
}

// Fragment is the part of a sorted set that is on the shard.
func (d DB) Fragment(ordinal int, key []byte) (ZSet, error) {
	s, o, err := d.at(ordinal, key)
	if err == nil && o.kind != KindZSet && o.kind != KindNone {
		err = ErrWrongType
	}
	return ZSet{handle{db: d, key: key, kind: KindZSet, s: s, o: o}}, err
}
