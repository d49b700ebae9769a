package shard

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrConflict is returned by any operation of a transaction that reaches a shard which it does not hold and
// cannot lock without the risk of a deadlock. The caller aborts, takes the locks that Wanted names and runs
// the whole again; effects leave a transaction only at commit, so nothing is seen of the first try.
var ErrConflict = errors.New("shard: transaction needs another shard's lock: run it again")

// ErrBusy is returned by an operation of a transaction that was begun by BeginWithin, on a shard that it does not hold and whose lock
// is taken.
var ErrBusy = errors.New("shard: the shard's lock was not to be had in time")

// ErrWrongType says that the key holds a value of another kind.
var ErrWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")

// Tx is a transaction over one or many shards. It holds their locks from Begin to End, so it is isolated;
// what it changes is committed as one record of the log, so it is atomic; Commit may be called more than
// once, each time for what has changed since. A Tx is used by one goroutine at a time and can be used again
// after End.
type Tx struct {
	store  *Store
	began  time.Time // see SetTime
	nowMs  int64     // began, as deadlines are
	locked Mask
	top    int // the greatest ordinal that is locked, -1 when none
	wanted Mask
	parts  []logPart
	frame  logFrame
	ready  []*waitQueue // what the Commit in progress has to serve

	homed []byte // the element that homeOf was asked for last
	home  int    // and its answer

	notes   []Note // of what is not committed yet
	noteBuf []byte // their bytes

	spent spent // of what is not committed yet

	audited, released bool // of the commit in progress, see settleAudits

	overdue  overdue // what has to be done before it begins again
	catchUps int     // how often that was so in a row

	muted    bool  // see Mute
	partial  bool  // see BeginWithin
	yielding bool  // see yield
	hung     Mask  // of a yielding transaction, the shards that have not answered
	narrow   int   // one more than the ordinal of the shard whose fragments alone are seen, see Narrow; 0: all are
	counting bool  // see CountLookups
	counted  *byte // the argument that was counted last
	ignored  *byte // the argument that is not counted
}

// NewTx returns a transaction that holds nothing yet.
func (st *Store) NewTx() *Tx { return &Tx{store: st, top: -1} }

// Begin locks the shards, in the order of their ordinals, and fixes the transaction's time. If the transaction failed because more was due
// than a look could do, that is done first.
func (tx *Tx) Begin(shards Mask) {
	if tx.overdue.key != "" {
		tx.store.catchUp(tx.overdue)
		tx.overdue = overdue{}
	} else {
		tx.catchUps = 0
	}
	for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
		s := tx.store.shards[n]
		s.mu.Lock()
		s.tx, tx.top = tx, n
	}
	tx.locked = shards
	tx.begin()
}

// begin fixes the time of a transaction that has its locks.
func (tx *Tx) begin() {
	tx.muted, tx.partial, tx.yielding, tx.hung, tx.narrow = false, false, false, Mask{}, 0
	tx.SetTime(tx.store.clock.Now())
}

// SetTime fixes the time anew, for what follows a Commit.
func (tx *Tx) SetTime(now time.Time) { tx.began, tx.nowMs = now, now.UnixMilli() }

// yield makes the transaction, which has just begun, one that gives up its locks before it waits for another: what reaches a shard that is
// not held and whose lock is taken fails with ErrConflict, whatever its ordinal. Of those in hung it is known that waiting would be in vain.
func (tx *Tx) yield(hung Mask) { tx.yielding, tx.hung = true, hung }

// needsHung tells whether the error of what a yielding transaction did is that it needs a shard that hangs, and drops that then.
func (tx *Tx) needsHung(err error) bool {
	if !errors.Is(err, ErrConflict) || !tx.hung.Contains(tx.wanted.without(tx.locked)) {
		return false
	}
	tx.Abort()
	return true
}

// Began is the transaction's time.
func (tx *Tx) Began() time.Time { return tx.began }

// BeginWithin is Begin for those who would rather know little than wait: it locks what it can within about the time, which Locked
// tells then. Nothing waits for other shards until End: what adds up over shards leaves them out, what needs one fails with ErrBusy.
//
// Which shards answer is found out before any is locked, so a shard that hangs keeps nobody from the others, and takes no time from
// those that are only busy.
func (tx *Tx) BeginWithin(shards Mask, patience time.Duration) {
	tx.lockWithin(shards, patience)
	tx.begin()
	tx.partial = true
}

// lockWithin locks those of the shards that it can within about the time.
func (tx *Tx) lockWithin(shards Mask, patience time.Duration) {
	shards = tx.store.answering(shards, patience)
	timer := tx.store.clock.NewTimer(patience)
	defer timer.Stop()
	late := false
	for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
		s := tx.store.shards[n]
		if !s.mu.TryLock() && (late || !s.lockBefore(timer.C(), &late)) {
			continue
		}
		tx.hold(s)
	}
}

// answering tells which of the shards can be locked within the time, all of them being asked at once. None is held meanwhile.
func (st *Store) answering(shards Mask, patience time.Duration) (free Mask) {
	came, asked := make(chan int, len(st.shards)), 0
	for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
		if s := st.shards[n]; s.mu.TryLock() {
			s.mu.Unlock()
			free.Add(n)
		} else if s.probe(came) {
			asked++
		}
	}
	if asked == 0 {
		return free
	}
	timer := st.clock.NewTimer(patience)
	defer timer.Stop()
	for ; asked > 0; asked-- {
		select {
		case n := <-came:
			free.Add(n)
		case <-timer.C():
			for range len(came) {
				free.Add(<-came)
			}
			return free
		}
	}
	return free
}

// maxProbes bounds the goroutines that wait for a shard that hangs.
const maxProbes = 16

// probe has the shard's ordinal sent, for which there must be room, as soon as the shard is not locked. It does not if too many wait.
func (s *Shard) probe(came chan<- int) bool {
	if s.probes.Add(1) > maxProbes {
		s.probes.Add(-1)
		return false
	}
	go func() { // ends when it gets the lock
		s.mu.Lock()
		came <- s.ordinal
		s.probes.Add(-1)
		s.mu.Unlock()
	}()
	return true
}

// lockBefore locks the shard unless the time comes first, and then sets late.
func (s *Shard) lockBefore(time <-chan time.Time, late *bool) bool {
	if s.probes.Add(1) > maxProbes {
		s.probes.Add(-1)
		return false
	}
	const waiting, locked, gone = 0, 1, 2
	var state atomic.Int32
	done := make(chan struct{})
	go func() { // ends when it gets the lock
		s.mu.Lock()
		s.probes.Add(-1)
		if !state.CompareAndSwap(waiting, locked) {
			s.mu.Unlock()
			return
		}
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time:
		*late = true
		if state.CompareAndSwap(waiting, gone) {
			return false
		}
		<-done
		return true
	}
}

// Hold calls fn when the transaction holds the shards besides those that it held before. It can fail with ErrConflict.
func (tx *Tx) Hold(shards Mask, fn func() error) error {
	for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
		if _, err := tx.shard(n); err != nil {
			return err
		}
	}
	return fn()
}

// Locked is the set of shards that the transaction holds.
func (tx *Tx) Locked() Mask { return tx.locked }

// Wanted is, after ErrConflict, the set of shards to begin with next time: those held and the one missed.
func (tx *Tx) Wanted() Mask { return tx.wanted }

// shard returns the shard, locking it if that can be done without waiting for a lock of lower order.
func (tx *Tx) shard(ordinal int) (*Shard, error) {
	s := tx.store.shards[ordinal]
	if tx.locked.Has(ordinal) {
		return s, nil
	}
	if ordinal > tx.top && !tx.partial && !tx.yielding {
		s.mu.Lock()
	} else if !s.mu.TryLock() {
		if tx.partial {
			return nil, ErrBusy
		}
		tx.wanted = tx.locked
		tx.wanted.Add(ordinal)
		return nil, ErrConflict
	}
	tx.hold(s)
	return s, nil
}

// hold notes that the shard's lock was taken.
func (tx *Tx) hold(s *Shard) {
	s.tx, tx.top = tx, max(tx.top, s.ordinal)
	tx.locked.Add(s.ordinal)
}

// Commit makes everything that the transaction changed since Begin or the last Commit visible and hands it to
// the log, as one record. The locks stay. What it did is acknowledged only when Store.Wait returns for the
// position that End yields. When Commit fails, nothing of the transaction is left. Those who wait for what has
// been committed are served before Commit returns, each by a record of its own.
func (tx *Tx) Commit() error {
	err := tx.commit()
	if err == nil && len(tx.ready) > 0 {
		tx.serveReady()
	}
	return err
}

// commit is Commit without the service.
func (tx *Tx) commit() error {
	tx.parts = tx.parts[:0]
	tx.beginWriting()
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		s := tx.store.shards[n]
		if !s.touched {
			continue
		}
		tx.parts = append(tx.parts, s.prepare())
	}
	if tx.spent.tooMuch { // by now at the latest, with the metadata and with it the strings
		tx.Abort()
		return ErrTooBig
	}
	if len(tx.parts) == 0 {
		tx.spent = spent{}
		tx.tellNotes()
		return nil
	}
	if err := tx.roomToCommit(); err != nil {
		tx.Abort()
		return err
	}
	pos, err := tx.store.log.append(tx.parts, &tx.frame)
	if err != nil {
		tx.Abort()
		return err
	}
	for _, p := range tx.parts {
		if err := tx.store.shards[p.shard].apply(pos); err != nil {
			return tx.store.fail(err)
		}
	}
	tx.spent = spent{}
	tx.settleAudits()
	tx.gatherReady()
	tx.tellNotes()
	return nil
}

// Dirty tells whether there is something to commit.
func (tx *Tx) Dirty() bool {
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		if tx.store.shards[n].touched {
			return true
		}
	}
	return false
}

// Abort drops everything that the transaction changed since Begin or the last Commit. The locks stay.
func (tx *Tx) Abort() {
	tx.spent = spent{}
	tx.dropNotes()
	for n := tx.locked.next(0); n >= 0; n = tx.locked.next(n + 1) {
		tx.store.shards[n].abort()
	}
}

// End drops what was not committed and unlocks. It returns the log position behind everything that the
// transaction wrote or could have read: no reply may leave before Store.Wait has returned for it.
func (tx *Tx) End() (pos uint64) {
	tx.spent = spent{}
	tx.dropNotes()
	first := tx.locked.next(0)
	if first >= 0 { // counted where it is locked anyway
		stats := &tx.store.shards[first].stats
		stats.Transactions++
		if tx.top > first {
			stats.Spread++
		}
	}
	for n := first; n >= 0; n = tx.locked.next(n + 1) {
		s := tx.store.shards[n]
		s.abort()
		s.cache.evict()
		pos = max(pos, s.lastPos)
		s.mu.Unlock()
	}
	tx.locked, tx.top = Mask{}, -1
	return pos
}

// DB returns database n within the transaction.
func (tx *Tx) DB(n int) DB { return DB{tx: tx, n: n} }

// SetSystem writes a record that belongs to the server rather than to a database, such as a script that has
// to outlive a restart. A nil value deletes it. System records live on shard 0.
func (tx *Tx) SetSystem(name string, val []byte) error {
	s, err := tx.shard(0)
	if err != nil {
		return err
	}
	s.keyBuf = append(append(s.keyBuf[:0], rowSystem), name...)
	if val == nil {
		s.delete(s.keyBuf)
	} else {
		s.set(s.keyBuf, val)
	}
	return nil
}

// EachSystem visits the system records whose name begins with prefix, as they were when the transaction began.
func (tx *Tx) EachSystem(prefix string, fn func(name string, val []byte) error) error {
	s, err := tx.shard(0)
	if err != nil {
		return err
	}
	start := append([]byte{rowSystem}, prefix...)
	it, err := s.iterate(s.db, start, upperBound(start))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var val []byte
		if val, err = it.ValueAndErr(); err == nil {
			err = fn(string(it.Key()[1:]), val)
		}
	}
	return errors.Join(err, s.finish(it))
}
