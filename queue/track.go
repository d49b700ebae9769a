package queue

import (
	"bytes"
	"math"

	"codeq/shard"
	"codeq/supplier"
)

// noDatabase is the number of none: what holds for it holds for all databases that are not pinned.
const noDatabase = -1

// Track says what the keys of queues and tasks mean, see shard.Tracker. The keys of one queue, under one form, are a group that
// its set of claimed tasks names.
func (q *Queues) Track(key []byte) *shard.Tracking {
	const prefix = "codeq:"
	if len(key) < len(prefix) || string(key[:len(prefix)]) != prefix {
		return nil
	}
	switch {
	case bytes.HasPrefix(key, []byte(leasePrefix)):
		return &q.tracked.lease
	case string(key) == tasksKey:
		return &q.tracked.tasks
	case string(key) == ttlKey:
		return &q.tracked.ttl
	case string(key) == resultsKey:
		return &q.tracked.results
	}
	k, ok := supplier.ParseKey(key)
	if !ok {
		return nil
	}
	t := &shard.Tracking{}
	switch k.State {
	case supplier.Delayed:
		t.Agenda, t.Prompt = true, true
	case supplier.InProgress:
		t.AuditMs = auditMs
	case supplier.Pending:
		t.Feeds = true
	case supplier.Paused:
		if t.Frees = true; q.router.Spreads(noDatabase) {
			k.Shard = nil // the queue that is paused there is the one without, see pausedOn
		}
	case supplier.DLQ, supplier.Rate:
	}
	k.State, k.Priority = supplier.InProgress, 0
	t.Group = string(k.AppendTo(nil))
	return t
}

// Order has the rows of tasks in the order of their making, so that those lie together which are claimed one after the other.
func (q *Queues) Order(id []byte) (place uint32, ok bool) { return supplier.TimeOf(id) }

// trackings are what keys mean that are no queue's.
type trackings struct{ lease, tasks, ttl, results shard.Tracking }

func newTrackings() trackings {
	return trackings{
		lease:   shard.Tracking{Lease: true},
		tasks:   shard.Tracking{Ordered: true, Departures: true},
		ttl:     shard.Tracking{Ordered: true, Agenda: true},
		results: shard.Tracking{Ordered: true, Elements: true},
	}
}

// borrow returns a Tx for the tracker, which runs on many goroutines, and put gives it back.
func (q *Queues) borrow(db shard.DB) (*Tx, error) {
	t, ok := q.idle.Get().(*Tx)
	if !ok {
		t = q.NewTx()
	}
	return t, t.On(db)
}

// lapseDelayMs is for how long a task whose lease has run out waits at least. An old client's repair that saw that as well has then
// come to its end before anybody has the task again.
const lapseDelayMs = 250

// Lapsed gives back the task whose lease has run out. Its JSON keeps the worker's name, so that the worker can still submit.
func (q *Queues) Lapsed(db shard.DB, key []byte) error {
	t, err := q.borrow(db)
	if err != nil {
		return err
	}
	defer q.idle.Put(t)
	return t.lapse(key[len(leasePrefix):])
}

// lapse gives the task back if it is in progress. What can't be given back now is left to audits.
func (t *Tx) lapse(id []byte) error {
	found, err := t.load(id)
	if isUnusable(err) || err == nil && !found {
		t.db.AuditAll() // of whatever queue it is
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := t.locate(t.task.name); err != nil {
		return err
	}
	if t.task.status != statusInProgress {
		held, err := t.isClaimed(id)
		if held {
			t.db.AuditAll()
		}
		return err
	}
	_, err = t.giveBack(max(lapseDelayMs, t.policy().delayMs(t.task.attempts, t.queues.random.Uint64)), []byte(reasonLease))
	if err == nil || t.tolerate(err) != nil {
		return err
	}
	t.db.AuditAll()
	return nil
}

// tolerate drops a client's error: nobody is there to be told, and what is wrong stays as it is, where a command will meet it.
func (t *Tx) tolerate(err error) error {
	switch err.(type) {
	case *Error:
	default:
		if err != shard.ErrWrongType {
			return err
		}
	}
	t.queues.logger.Warn("a task could not be moved", "task", string(t.task.id), "err", err)
	return nil
}

// Due does what is due at a delayed set or at the retention of tasks, or audits a set of claimed tasks.
func (q *Queues) Due(db shard.DB, ordinal int, key []byte, limit int) (againMs int64, err error) {
	t, err := q.borrow(db)
	if err != nil {
		return 0, err
	}
	defer q.idle.Put(t)
	if string(key) == ttlKey {
		more, err := t.retire(ordinal, db.Now(), limit)
		return t.nowIf(more), err
	}
	k, ok := supplier.ParseKey(key)
	if !ok {
		return 0, nil
	}
	switch k.State {
	case supplier.Delayed:
		more, err := t.moveDue(ordinal, key, limit)
		return t.nowIf(more), err
	case supplier.InProgress:
		return t.audit(ordinal, key, limit)
	case supplier.Pending:
		more, err := t.extendSlots(ordinal, key)
		return t.nowIf(more), err
	case supplier.DLQ, supplier.Paused, supplier.Rate:
	}
	return 0, nil
}

// nowIf is the time at which to go on when there is more to do.
func (t *Tx) nowIf(more bool) int64 {
	if more {
		return t.db.Now()
	}
	return 0
}

// maxPassedOver is how many members of an agenda are passed over in the search for others that something can be done about.
const maxPassedOver = 1024

// first lists up to limit members of an agenda that are due, but for those whose home hangs: the timekeeper comes back to them.
func (t *Tx) first(agenda shard.ZSet, nowMs int64, limit int) (ids [][]byte, more bool, err error) {
	until, passed := shard.ScoreRange{Min: math.Inf(-1), Max: scoreOf(nowMs)}, 0
	err = agenda.RangeByScore(until, false, func(member []byte, _ float64) bool {
		if t.db.Hangs(t.queues.Home(t.db.Number(), member)) {
			passed++
			return passed < maxPassedOver
		}
		if more = len(ids) == limit; !more {
			ids = append(ids, bytes.Clone(member))
		}
		return !more
	})
	return ids, more, err
}

// moveDue makes the tasks pending whose time has come, in the queue that the key of the delayed set is of.
func (t *Tx) moveDue(ordinal int, key []byte, limit int) (more bool, err error) {
	delayed, err := t.db.Fragment(ordinal, key)
	if err != nil {
		return false, t.tolerate(err)
	}
	ids, more, err := t.first(delayed, t.db.Now(), limit)
	if err != nil {
		return false, err
	}
	t.workOn(key, supplier.Delayed)
	defer t.workOnNone()
	for _, id := range ids {
		if _, err := delayed.Remove(id); err != nil {
			return false, err
		}
		if err := t.moveOne(id); err != nil {
			return false, err
		}
	}
	return more, nil
}

// moveOne makes one task pending that was in the delayed set, unless it has ended or is claimed.
func (t *Tx) moveOne(id []byte) error {
	found, err := t.load(id)
	if isUnusable(err) {
		return t.tolerate(t.bury(id))
	}
	if err != nil || !found || t.task.ended() {
		return err
	}
	if t.task.status == statusInProgress { // the last word of an old client that was late, unless somebody has the task
		if held, err := t.isClaimed(id); held || err != nil {
			return err
		}
	}
	pending, err := t.db.List(t.pending(t.task.priority))
	if err == nil {
		err = pending.Push(shard.Head, id)
	}
	if err == shard.ErrWrongType {
		return t.tolerate(t.bury(id))
	}
	if err != nil {
		return err
	}
	t.task.become(statusPending, atPending)
	return t.save()
}

// retire removes tasks whose retention is over by untilMs. One that has not ended is kept for another retention, since waiting
// long is no reason to lose it, and for a minute at least, lest short retentions keep the timekeeper busy with all that wait.
func (t *Tx) retire(ordinal int, untilMs int64, limit int) (more bool, err error) {
	agenda, err := t.db.Fragment(ordinal, []byte(ttlKey))
	if err != nil {
		return false, t.tolerate(err)
	}
	ids, more, err := t.first(agenda, untilMs, limit)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if _, err := t.retireOne(id, untilMs); err != nil {
			return false, err
		}
	}
	return more, nil
}

// retireOne removes one task whose retention is over by untilMs, and tells whether it has.
func (t *Tx) retireOne(id []byte, untilMs int64) (removed bool, err error) {
	found, err := t.load(id)
	switch {
	case isUnusable(err):
		return true, t.forget(id)
	case err != nil:
		return false, err
	case !found:
		return false, t.forget(id)
	}
	if _, err := t.locate(t.task.name); err != nil {
		return false, err
	}
	if !t.task.ended() {
		again := max(t.db.Now()+max(t.policy().RetentionMs, retentionSlack*1000), untilMs+1000)
		_, err := t.ttl.Set(id, float64(again/1000))
		return false, err
	}
	if _, err := t.takeOut(t.task.at); t.tolerate(err) != nil {
		return false, err
	}
	return true, t.forget(id)
}

// forget removes a task's own rows.
func (t *Tx) forget(id []byte) error {
	if _, err := t.tasks.Delete(id); err != nil {
		return err
	}
	if _, err := t.results.Delete(id); err != nil {
		return err
	}
	if _, err := t.ttl.Remove(id); err != nil {
		return err
	}
	_, err := t.db.Delete(t.lease(id))
	return err
}
