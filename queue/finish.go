package queue

import (
	"unicode/utf8"

	"codeq/shard"
	"codeq/supplier"
)

// reasonLease is why a task was given back whose lease has run out.
const reasonLease = "lease expired"

// held loads a task that the worker has claimed, and locates its queue.
func (t *Tx) held(worker, id []byte) error {
	if err := validateWorker(worker); err != nil {
		return err
	}
	if err := t.mustLoad(id); err != nil {
		return err
	}
	k := &t.task
	switch {
	case k.status != statusInProgress:
		return failed(NotInProgress, "the task %s is %s, so there is no claim to it: claim it first", id, k.status)
	case string(k.worker) != string(worker):
		return failed(NotOwner, "the task %s is in progress with the worker %q: stop working on it", id, k.worker)
	}
	_, err := t.locate(k.name)
	return err
}

// Heartbeat prolongs the worker's lease, by the queue's own lease when leaseMs is 0, and returns its end.
func (t *Tx) Heartbeat(worker, id []byte, leaseMs int64) (untilMs int64, err error) {
	if err := t.held(worker, id); err != nil {
		return 0, err
	}
	policy := t.policy()
	if leaseMs == 0 {
		leaseMs = policy.LeaseMs
	}
	untilMs = t.db.Now() + leaseMs
	if err := t.db.Set(t.lease(id), worker, untilMs); err != nil {
		return 0, err
	}
	t.task.setLease(untilMs)
	return untilMs, t.change(policy, false)
}

// change saves the task as it is patched, and keeps it for the retention of its queue. If it has ended the cache forgets it, since
// nobody is expected to ask for it soon.
func (t *Tx) change(policy *Policy, ended bool) error {
	if !ended {
		if err := t.save(); err != nil {
			return err
		}
		return t.keep(t.task.id, policy)
	}
	if _, err := t.tasks.SetIdle(t.task.id, t.patched()); err != nil {
		return err
	}
	return t.keepEnded(t.task.id, policy)
}

// uncache has the cache forget a task that nobody is expected to ask for soon. Whoever asks for it in a moment all the same finds it
// among the rows that are staged.
func (t *Tx) uncache(id []byte) error {
	if err := t.tasks.Uncache(id); err != nil {
		return err
	}
	return t.ttl.Uncache(id)
}

// Submission is how a worker has ended a task: with a result, which is JSON, or with an error, or with neither.
type Submission struct{ Result, Error []byte }

// Submit ends a task. A worker whose lease has run out may still do so as long as nobody else has claimed the task.
func (t *Tx) Submit(worker, id []byte, s Submission) error {
	switch {
	case s.Result != nil && !isJSON(s.Result):
		return failed(Invalid, "the result of the task %s is not JSON: send JSON, a text in quotes for instance", id)
	case !utf8.Valid(s.Result):
		return failed(Invalid, "the result of the task %s is not UTF-8, and JSON is", id)
	case !utf8.Valid(s.Error):
		return failed(Invalid, "the error of the task %s is not UTF-8", id)
	}
	err := t.held(worker, id)
	late := isNotInProgress(err) && t.wasLate(worker)
	if err != nil && !late {
		return err
	}
	if _, err := t.locate(t.task.name); err != nil {
		return err
	}
	k := &t.task
	found, err := t.takeOut(k.at)
	if err != nil {
		return err
	}
	if late && !found { // an old client may be half-way through a claim: it has taken the task, and not yet said so in its JSON
		claimed, err := t.isClaimed(id)
		if claimed {
			err = failed(NotOwner, "the task %s was claimed by another worker: stop working on it", id)
		}
		if err != nil {
			return err
		}
	}
	status := statusCompleted
	if len(s.Error) > 0 {
		status = statusFailed
	}
	if err := t.putResult(status, s); err != nil {
		return err
	}
	k.become(status, atNowhere)
	k.remove(fieldLeaseUntil)
	k.setString(fieldError, s.Error)
	k.setString(fieldResultKey, id)
	return t.change(t.policy(), true)
}

func isNotInProgress(err error) bool {
	e, ok := err.(*Error)
	return ok && e.Code == NotInProgress
}

// wasLate tells whether the task that was loaded was taken from the worker since its lease had run out, and waits since
// then: only giveBack leaves the worker's name in a task that is not in progress and has no result.
func (t *Tx) wasLate(worker []byte) bool {
	k := &t.task
	waits := k.status == statusPending || k.status == statusFailed && k.at == atDLQ
	return waits && len(worker) > 0 && string(k.worker) == string(worker)
}

// putResult stores the result of the task.
func (t *Tx) putResult(status string, s Submission) error {
	dst := appendString(append(t.json[:0], `{"taskId":`...), t.task.id)
	dst = appendWord(append(dst, `,"status":`...), status)
	if s.Result != nil {
		dst = append(append(dst, `,"result":`...), s.Result...)
	}
	if len(s.Error) > 0 {
		dst = appendString(append(dst, `,"error":`...), s.Error)
	}
	dst = append(append(dst, `,"completedAt":`...), t.now()...)
	t.json = append(dst, '}')
	_, err := t.results.SetIdleSince(t.task.id, t.json, t.task.unanswered)
	t.task.unanswered = 0
	return err
}

// takeOut takes the task out of the place that its JSON names, and tells whether it was there. With a claim it ends the lease.
// A client may have put the task under another form of the queue's keys.
func (t *Tx) takeOut(at string) (found bool, err error) {
	switch at {
	case atPending, atDelayed, atInProgress, atDLQ:
	default:
		return false, nil
	}
	found, err = t.inForms(func() (bool, error) { return t.takeOutOf(at) })
	if err == nil && at == atInProgress {
		_, err = t.db.Delete(t.lease(t.task.id))
	}
	return found, err
}

// takeOutOf is takeOut for one form of the queue's keys.
func (t *Tx) takeOutOf(at string) (found bool, err error) {
	id := t.task.id
	switch at {
	case atInProgress:
		return t.removeEntry(supplier.InProgress, id)
	case atDelayed:
		return t.removeEntry(supplier.Delayed, id)
	case atDLQ:
		return t.removeEntry(supplier.DLQ, id)
	case atPending:
		pending, err := t.db.List(t.pending(t.task.priority))
		if err != nil {
			return false, err
		}
		n, err := pending.Remove(1, id) // what came last stands at the head
		return n > 0, err
	}
	return false, nil
}

// removeEntry removes the entry of a task from a place that is no list.
func (t *Tx) removeEntry(place Place, id []byte) (found bool, err error) {
	if place == supplier.Delayed {
		delayed, err := t.db.ZSet(t.place(place))
		if err != nil {
			return false, err
		}
		return delayed.Remove(id)
	}
	set, err := t.db.SetOf(t.place(place))
	if err != nil {
		return false, err
	}
	return set.Remove(id)
}

// Fate is what has become of a task that was given back.
type Fate struct {
	Dead    bool
	DelayMs int64
}

// Nack gives back a task that could not be done: it is delayed, by the queue's backoff when delayMs is negative, or dead when
// its attempts are used up.
func (t *Tx) Nack(worker, id []byte, delayMs int64, reason []byte) (Fate, error) {
	if !utf8.Valid(reason) {
		return Fate{}, failed(Invalid, "the reason for the task %s is not UTF-8", id)
	}
	if err := t.held(worker, id); err != nil {
		return Fate{}, err
	}
	t.task.release()
	return t.giveBack(delayMs, reason)
}

// giveBack ends the claim of the task that was loaded.
func (t *Tx) giveBack(delayMs int64, reason []byte) (fate Fate, err error) {
	k, policy, own := &t.task, t.policy(), t.queue.base
	defer func() { t.queue.base = own }()
	if err := t.toClaimed(); err != nil {
		return fate, err
	}
	fate.Dead = k.attempts >= k.maxAttempts
	target, err := t.openTarget(fate.Dead, delayMs == 0)
	if err != nil {
		return fate, err
	}
	if _, err := t.takeOut(atInProgress); err != nil {
		return fate, err
	}
	k.remove(fieldLeaseUntil)
	k.setString(fieldError, reason)
	switch {
	case fate.Dead:
		k.become(statusFailed, atDLQ)
		_, err = target.dlq.Add(k.id)
	case delayMs == 0:
		k.become(statusPending, atPending)
		err = target.pending.Push(shard.Head, k.id)
	default:
		if fate.DelayMs = delayMs; delayMs < 0 {
			fate.DelayMs = policy.delayMs(k.attempts, t.queues.random.Uint64)
		}
		k.become(statusPending, atDelayed)
		_, err = target.delayed.Set(k.id, scoreOf(t.db.Now()+fate.DelayMs))
	}
	if err == nil {
		err = t.change(policy, fate.Dead)
	}
	return fate, err
}

// target is where a task is going.
type target struct {
	dlq     shard.Set
	pending shard.List
	delayed shard.ZSet
}

// openTarget opens the place where a task goes that is given back, before anything is written.
func (t *Tx) openTarget(dead, now bool) (to target, err error) {
	switch {
	case dead:
		to.dlq, err = t.db.SetOf(t.place(supplier.DLQ))
	case now:
		to.pending, err = t.db.List(t.pending(t.task.priority))
	default:
		to.delayed, err = t.db.ZSet(t.place(supplier.Delayed))
	}
	if err == nil {
		_, err = t.db.SetOf(t.place(supplier.InProgress))
	}
	return to, err
}

// Abandon gives back a task that was not begun: it is the next of its priority to be claimed, and the attempt does not count.
func (t *Tx) Abandon(worker, id []byte) error {
	if err := t.held(worker, id); err != nil {
		return err
	}
	own := t.queue.base
	defer func() { t.queue.base = own }()
	if err := t.toClaimed(); err != nil {
		return err
	}
	to, err := t.openTarget(false, true)
	if err != nil {
		return err
	}
	k := &t.task
	if _, err := t.takeOut(atInProgress); err != nil {
		return err
	}
	if err := to.pending.Push(shard.Tail, k.id); err != nil {
		return err
	}
	k.become(statusPending, atPending)
	k.release()
	k.setInt(fieldAttempts, max(k.attempts-1, 0))
	return t.change(t.policy(), false)
}

// Get returns the task, which is valid until t is used again.
func (t *Tx) Get(id []byte) (*View, error) {
	if err := t.mustLoad(id); err != nil {
		return nil, err
	}
	return &t.view, t.view.read(t.task.text, true)
}

// Result returns the result of the task, nil when there is none yet. It is valid until t is used again.
func (t *Tx) Result(id []byte) (*View, error) {
	_, memo, _, _, err := t.tasks.Cached(id)
	if err != nil {
		return nil, err
	}
	if none, err := t.results.LacksSince(id, memo.Lacking); none || err != nil {
		return nil, err
	}
	text, found, err := t.results.Get(id)
	if err != nil {
		return nil, err
	}
	if !found {
		if _, exists, err := t.tasks.Get(id); exists || err != nil {
			return nil, err
		}
		return nil, failed(NotFound, "there is no task %s: it was never enqueued, or its retention is over", id)
	}
	if err := t.view.read(text, false); err != nil {
		return nil, failed(Invalid, "the result of the task %s can't be shown, %v: see the hash %s", id, err, resultsKey)
	}
	return &t.view, nil
}

// reasonCancelled is the error of a task that was cancelled.
const reasonCancelled = "cancelled"

// Cancel ends a task that waits, be it ready, delayed or dead, and tells whether it has. One that is in progress is its worker's to end.
// Its result says so, for somebody may wait for it.
func (t *Tx) Cancel(id []byte) (bool, error) {
	if err := t.mustLoad(id); err != nil {
		return false, err
	}
	k := &t.task
	if k.status != statusPending && k.at != atDLQ {
		return false, nil
	}
	if _, err := t.locate(k.name); err != nil {
		return false, err
	}
	if found, err := t.takeOut(k.at); !found || err != nil {
		return false, err
	}
	if err := t.putResult(statusFailed, Submission{Error: []byte(reasonCancelled)}); err != nil {
		return false, err
	}
	k.become(statusFailed, atNowhere)
	k.release()
	k.setString(fieldError, []byte(reasonCancelled))
	k.setString(fieldResultKey, id)
	return true, t.change(t.policy(), true)
}
