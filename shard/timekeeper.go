package shard

import (
	"container/heap"
	"errors"
	"math"
	"time"
)

// The timekeeper of a shard has the tracker do what is due: one goroutine a shard, which sleeps until the earliest time in the
// timetable. What is due here may need other shards: a lease is where the task is at home, and the task goes back to its queue.
//
// The timekeeper never waits for another shard while it holds its own, or else a shard that hangs would make others hang. What comes
// to a shard that is busy is dropped, and begun again when both can be had. What needs a shard that does not answer in time is put
// off, and the rest is done without it: other agendas, other leases of the same moment, other members of an agenda if the
// tracker asks DB.Hangs.

const (
	// keeperPatience is how long the timekeeper waits for other shards, about.
	keeperPatience = 50 * time.Millisecond
	// keeperLongest is how long it sleeps while something is to come: timers do not notice when the clock is set forward, or a machine was suspended.
	keeperLongest = time.Second
	// keeperPause is after what time it tries again what could not be done.
	keeperPause = time.Second
)

// keepTime runs until the store closes.
func (s *Shard) keepTime() {
	s.repeat(s.times.wake, "what is due was not done, and is tried again", s.attend)
}

// attend does one round of what is due and tells when the next is.
func (s *Shard) attend(tx *Tx) (again time.Time, err error) {
	shards, hung := MaskOf(s.ordinal), Mask{}
	for try := 1; ; try++ {
		hung = s.beginRound(tx, shards, hung)
		again, err = s.attendOnce(tx)
		tx.End()
		if !errors.Is(err, ErrConflict) {
			break
		}
		if shards = tx.Wanted(); try >= maxHandovers {
			shards = s.store.All().without(hung)
		}
	}
	if err != nil {
		again = s.store.clock.Now().Add(keeperPause)
	}
	return again, err
}

// beginRound begins a transaction that holds this shard, and those of the others that can be had in time. It returns the shards
// that are known to hang, by now.
func (s *Shard) beginRound(tx *Tx, shards, hung Mask) Mask {
	own := MaskOf(s.ordinal)
	if shards != own {
		if tx.lockWithin(shards, keeperPatience); tx.locked.Has(s.ordinal) {
			hung.Union(shards.without(tx.locked))
			tx.begin()
			tx.yield(hung)
			return hung
		}
		tx.End()
		hung.Union(shards.without(own)) // as good as: they are not waited for any more
	}
	tx.Begin(own)
	tx.yield(hung)
	return hung
}

// attendOnce is attend with the shards that the transaction holds.
func (s *Shard) attendOnce(tx *Tx) (again time.Time, err error) {
	s.serveGroups(tx)
	s.scheduleAudits()
	if err := s.attendLapses(tx); err != nil {
		return again, err
	}
	if err := s.attendAgendas(tx); err != nil {
		return again, err
	}
	longest := keeperLongest
	if s.times.wakeAtMs = s.times.next(); s.times.wakeAtMs == math.MaxInt64 {
		longest = time.Hour
	}
	return time.UnixMilli(min(s.times.wakeAtMs, tx.nowMs+longest.Milliseconds())), nil
}

// next is the earliest time at which something may be due.
func (t *timetable) next() int64 {
	next := int64(math.MaxInt64)
	if len(t.first) > 0 {
		next = t.first[0].atMs()
	}
	t.skipEmpty()
	if len(t.buckets) > 0 {
		next = min(next, t.buckets[0].atMs)
	}
	return next
}

// skipEmpty drops the earliest buckets as long as they have no leases.
func (t *timetable) skipEmpty() {
	for len(t.buckets) > 0 && t.lapses[t.buckets[0].bucket] <= 0 {
		delete(t.lapses, heap.Pop(&t.buckets).(lapseBucket).bucket)
	}
}

// attendLapses removes leases whose deadline has passed, which has the tracker act on them.
func (s *Shard) attendLapses(tx *Tx) error {
	left := attendLimit
	for s.times.skipEmpty(); len(s.times.buckets) > 0 && left > 0; s.times.skipEmpty() {
		first := s.times.buckets[0]
		if first.atMs > tx.nowMs {
			return nil
		}
		due, err := s.dueLeases(first.bucket, left)
		if err != nil {
			return err
		}
		all, err := s.lapseAll(tx, due)
		if err != nil {
			return err
		}
		if !all {
			s.times.buckets[0].atMs = tx.nowMs + keeperPause.Milliseconds()
			heap.Fix(&s.times.buckets, 0)
		}
		if len(due) == 0 {
			s.times.lapses[first.bucket] = 0 // the others were leases of databases that were emptied
		}
		left -= len(due)
	}
	return nil
}

// dueLeases lists the rows of up to limit leases of one bucket.
func (s *Shard) dueLeases(bucket int64, limit int) (due [][]byte, err error) {
	start, end := appendLapseKey(nil, bucket<<lapseBucketBits, 0, ""), appendLapseKey(nil, (bucket+1)<<lapseBucketBits, 0, "")
	it, err := s.iterate(s.db, start, end)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(due) < limit; ok = it.Next() {
		due = append(due, append([]byte(nil), it.Key()...))
	}
	return due, s.finish(it)
}

// lapseAll removes the leases that the rows name: in one commit, or one by one when one of them needs a shard that hangs. It tells whether
// they are all removed.
func (s *Shard) lapseAll(tx *Tx, due [][]byte) (all bool, err error) {
	if err = s.lapse(tx, due); !tx.needsHung(err) {
		return err == nil, err
	}
	all = true
	for _, row := range due {
		switch err := s.lapse(tx, [][]byte{row}); {
		case tx.needsHung(err):
			all = false
		case err != nil:
			return false, err
		}
	}
	return all, nil
}

// lapse removes leases, and commits that.
func (s *Shard) lapse(tx *Tx, due [][]byte) error {
	for _, row := range due {
		_, space, key := splitDeadlineKey(row)
		o, err := s.lookupIn(tx.nowMs, space, key)
		if err != nil {
			return err
		}
		if o == nil { // the row of a database that was emptied
			s.delete(row)
		}
	}
	return tx.Commit()
}

// lookupIn is lookup in a keyspace, nil if no database has it.
func (s *Shard) lookupIn(nowMs int64, space uint32, key []byte) (*object, error) {
	db, ok := s.databaseOf(space)
	if !ok {
		return nil, nil
	}
	return s.lookup(nowMs, db, key)
}

// databaseOf is the database that has the keyspace; not ok: none has it any more.
func (s *Shard) databaseOf(space uint32) (db int, ok bool) {
	for db := range s.state.spaces {
		if s.state.spaces[db].id == space {
			return db, true
		}
	}
	return 0, false
}

// attendAgendas has the tracker do what is due at the agendas, one after the other.
func (s *Shard) attendAgendas(tx *Tx) error {
	for range attendLimit {
		if len(s.times.first) == 0 || s.times.first[0].atMs() > tx.nowMs {
			return nil
		}
		a := s.times.first[0]
		db, ok := s.databaseOf(a.space)
		if !ok { // of a transaction that was undone
			s.unschedule(a.agendaKey)
			continue
		}
		again, err := s.attendAgenda(tx, db, a)
		switch {
		case tx.needsHung(err):
			s.putOff(tx, a)
			continue
		case err != nil:
			return err
		case again != 0:
			if s.schedule(a.agendaKey, again); again <= tx.nowMs {
				return nil // others get their turn
			}
			continue
		}
		if err := s.resettle(tx, db, a); err != nil {
			return err
		}
		if !tx.hung.Empty() && a == s.times.agendas[a.agendaKey] && a.dueMs <= tx.nowMs {
			s.putOff(tx, a) // it has left what needs a shard that hangs
		}
	}
	return nil
}

// attendAgenda has the tracker do what is due at one agenda, and commits that. It returns what Tracker.Due does.
func (s *Shard) attendAgenda(tx *Tx, db int, a *agenda) (again int64, err error) {
	was := tx.Mute(true)
	again, err = s.store.tracker.Due(tx.DB(db), s.ordinal, []byte(a.key), attendLimit)
	tx.Mute(was)
	if err == nil {
		err = tx.Commit()
	}
	return again, err
}

// putOff leaves an agenda alone for a while. Who looks at it before does what is due.
func (s *Shard) putOff(tx *Tx, a *agenda) {
	a.putOffMs = tx.nowMs + keeperPause.Milliseconds()
	heap.Fix(&s.times.first, a.index)
}

// resettle looks when the key is due next.
func (s *Shard) resettle(tx *Tx, db int, a *agenda) error {
	was := tx.Mute(true)
	defer tx.Mute(was)
	o, err := s.lookup(tx.nowMs, db, []byte(a.key))
	if err != nil {
		return err
	}
	if o.track == nil || !o.track.Agenda {
		s.unschedule(a.agendaKey)
		return nil
	}
	s.settleAgenda(o)
	return nil
}
