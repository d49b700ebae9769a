package queue

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"codeq/shard"
	"codeq/supplier"
)

// Claim says which tasks a worker takes.
type Claim struct {
	Worker  []byte
	Queues  []Name // not empty, and each once
	Count   int    // at most so many
	LeaseMs int64  // 0: as the queue has it
	Turn    uint32 // the shard that is tried first, modulo their number, where queues are spread
	First   uint32 // the queue that is tried first, modulo their number, where they are claimed by slot
	Slots   Slots  // of each queue
}

// Validate says what is wrong with the arguments.
func (c *Claim) Validate() error {
	for _, name := range c.Queues {
		if err := name.Validate(); err != nil {
			return err
		}
	}
	return validateWorker(c.Worker)
}

// validateWorker refuses a name that a task's JSON could not hold, or that means nobody.
func validateWorker(worker []byte) error {
	if len(worker) == 0 || !utf8.Valid(worker) {
		return failed(Invalid, "the worker's name is empty or not UTF-8; give each worker one of its own")
	}
	return nil
}

// Claim takes the tasks that are next in the queues, those of the highest priority first and of these the oldest, and calls fn with each,
// which may not keep it. It tells how many they were. Queues that are paused have none.
//
// Spread queues are tried on one shard after the other until one has something, and then no further: priorities, and which task is the
// oldest, count within a shard. A transaction that is narrowed to a shard sees that one only.
//
// What stands in a pending list may be stale, since clients of other kinds write there in steps. So a task is taken if its
// JSON does not say that it has ended and no other place has it; what else is found is taken out of the list, for it is elsewhere.
func (t *Tx) Claim(c *Claim, fn func(*View)) (n int, err error) {
	if _, narrowed := t.db.Narrowed(); narrowed || !t.queues.Spreads(t.db.Number()) {
		return t.claim(c, fn)
	}
	shards := t.queues.router.Topology().Count()
	for i := range shards {
		if n, err = t.claimOn(int((uint64(c.Turn)+uint64(i))%uint64(shards)), c, fn); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// ClaimHeld is Claim of spread queues, on the shards that the transaction holds.
func (t *Tx) ClaimHeld(c *Claim, fn func(*View)) (n int, err error) {
	for ordinal := range t.queues.router.Topology().Count() {
		if !t.db.Holds(ordinal) {
			continue
		}
		if n, err = t.claimOn(ordinal, c, fn); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// claimOn is Claim of spread queues on one shard.
func (t *Tx) claimOn(ordinal int, c *Claim, fn func(*View)) (int, error) {
	defer t.db.NarrowTo(t.db.Narrow(ordinal))
	return t.claim(c, fn)
}

// claim is Claim of what the transaction sees.
func (t *Tx) claim(c *Claim, fn func(*View)) (n int, err error) {
	if !c.Slots.IsAll() {
		if err := t.openSlots(c); err != nil {
			return 0, err
		}
	}
	wrong := false // a list of another type keeps nobody from the others
	for priority := supplier.MaxPriority; priority >= 0 && n < c.Count; priority-- {
		lists, wrongHere, err := t.openAll(c, priority)
		if err == nil {
			var taken int
			taken, err = t.claimOf(c, lists, c.Count-n, fn)
			n += taken
		}
		clear(t.lists)
		if wrong = wrong || wrongHere; err != nil {
			return n, err
		}
	}
	if wrong && n == 0 {
		return 0, shard.ErrWrongType
	}
	return n, nil
}

// openAll opens the lists of a priority that have something which may be claimed. It tells whether there is one of another type.
func (t *Tx) openAll(c *Claim, priority int) (lists []claiming, wrong bool, err error) {
	t.lists = t.lists[:0]
	for i := range c.Queues {
		from, ok, err := t.open(c, i, priority)
		switch {
		case err == shard.ErrWrongType:
			wrong = true
		case err != nil:
			return nil, wrong, err
		case ok:
			t.lists = append(t.lists, from)
		}
	}
	return t.lists, wrong, nil
}

// claimOf takes tasks from the lists of one priority.
func (t *Tx) claimOf(c *Claim, lists []claiming, count int, fn func(*View)) (n int, err error) {
	if len(lists) > 1 && c.Slots.IsAll() {
		return t.claimOldest(c, lists, count, fn)
	}
	for i := range lists {
		taken, err := t.claimFrom(c, &lists[(int(c.First)+i)%len(lists)], count-n, fn)
		if n += taken; n == count || err != nil {
			return n, err
		}
	}
	return n, nil
}

// claiming is a list that tasks are claimed from.
type claiming struct {
	queue      int // of the claim
	policy     *Policy
	pending    shard.List
	inProgress shard.Set
	ahead      *shard.Ahead // nil if nothing is read ahead
	// since is when the task that is next was made, in unix ms, once it was looked at; the least number for one that is no task.
	since  int64
	looked bool
	none   []byte // what was looked at last and is no task
}

// open opens the list of a priority of the i-th queue, if there is something that may be claimed. Then t works on the queue.
func (t *Tx) open(c *Claim, i, priority int) (from claiming, ok bool, err error) {
	if _, err := t.locate(c.Queues[i]); err != nil {
		return from, false, err
	}
	pending, err := t.db.List(t.pending(priority))
	if err != nil {
		return from, false, err
	}
	if waiting, err := pending.Len(); waiting == 0 || err != nil {
		return from, false, err
	}
	from = claiming{queue: i, policy: t.policy(), pending: pending}
	if paused, err := t.paused(from.policy); paused || err != nil {
		return from, false, err
	}
	if from.inProgress, err = t.db.SetOf(t.place(supplier.InProgress)); err != nil {
		return from, false, err
	}
	if c.Slots.IsAll() {
		from.ahead, err = pending.Ahead()
	}
	return from, err == nil, err
}

// claimFrom takes tasks from one list.
func (t *Tx) claimFrom(c *Claim, from *claiming, count int, fn func(*View)) (n int, err error) {
	for n < count {
		took, more, err := t.claimNext(c, from, fn)
		if err != nil || !more {
			return n, err
		}
		if took {
			n++
		}
	}
	return n, nil
}

// claimNext takes what is next in a list, and tells whether there was something, and whether it was a task that could be claimed.
func (t *Tx) claimNext(c *Claim, from *claiming, fn func(*View)) (took, more bool, err error) {
	if len(c.Queues) > 1 {
		if _, err := t.locate(c.Queues[from.queue]); err != nil {
			return false, false, err
		}
	}
	id, more, err := t.take(c, from.queue, from.pending)
	if err == nil && more {
		took, err = t.claimTask(c, from.queue, id, from, fn)
	}
	return took, more, err
}

// claimOldest takes tasks from several lists, of those that are next there always the one that was made first, and of several made in the same
// millisecond that of the queue which is named first.
func (t *Tx) claimOldest(c *Claim, lists []claiming, count int, fn func(*View)) (n int, err error) {
	for n < count && len(lists) > 0 {
		oldest := 0
		for i := range lists {
			if err := t.lookAt(&lists[i]); err != nil {
				return n, err
			}
			if lists[i].since < lists[oldest].since {
				oldest = i
			}
		}
		took, more, err := t.claimNext(c, &lists[oldest], fn)
		if err != nil {
			return n, err
		}
		if lists[oldest].looked = false; !more {
			lists = slices.Delete(lists, oldest, oldest+1)
		}
		if took {
			n++
		}
	}
	return n, nil
}

// lookAt finds out when the task was made that is next in a list.
func (t *Tx) lookAt(from *claiming) error {
	if from.looked {
		return nil
	}
	from.looked, from.since = true, math.MinInt64
	id, ok, err := from.pending.Peek(shard.Tail)
	if !ok || err != nil {
		return err
	}
	if from.ahead != nil {
		_, _, _, known, err := t.tasks.Cached(id)
		if err == nil && !known {
			err = t.readAhead(id, from)
		}
		if err != nil {
			return err
		}
	}
	found, err := t.load(id)
	switch {
	case isUnusable(err):
		return nil
	case err != nil:
		return err
	case !found:
		from.none = append(from.none[:0], id...)
		return nil
	}
	if at, ok := t.task.time(fieldCreatedAt); ok {
		from.since = at
	}
	return nil
}

// loadNext loads a task that was taken from its pending list. If the cache does not have it, it is read together with those that are
// next there.
func (t *Tx) loadNext(id []byte, from *claiming) (found bool, err error) {
	if len(id) > 0 && bytes.Equal(id, from.none) {
		return false, nil
	}
	if from.ahead == nil {
		return t.load(id)
	}
	text, memo, found, known, err := t.tasks.Cached(id)
	switch {
	case err != nil:
		return false, err
	case known:
		from.ahead.Use()
		if err := t.parse(id, text, memo, found); err != nil || !found {
			return found, err
		}
		return true, t.seekResult(id, from)
	}
	if err := t.readAhead(id, from); err != nil {
		return false, err
	}
	return t.load(id)
}

// readAhead has the rows of a task that was taken from its pending list read together with those of the tasks that are next there.
func (t *Tx) readAhead(id []byte, from *claiming) error {
	ids, err := from.nextOf(id, from.ahead.Next())
	if err != nil {
		return err
	}
	from.ahead.Read(len(ids) - 1)
	if err := t.tasks.Fetch(ids); err != nil {
		return err
	}
	if err := t.seekResults(ids); err != nil {
		return err
	}
	return t.ttl.Fetch(ids)
}

// nextOf is a task that was taken from the list, and those that are next there, n of them in all.
func (from *claiming) nextOf(id []byte, n int) ([][]byte, error) {
	next, err := from.pending.Next(shard.Tail, n-1)
	return append(append(make([][]byte, 0, 1+len(next)), id), next...), err
}

// seekResult finds out whether the task that was loaded has a result, if that was not found out since the moment that is now, and with it
// whether those have one that are next in its list.
func (t *Tx) seekResult(id []byte, from *claiming) error {
	if now, err := t.results.Moment(id); now == t.task.unanswered || err != nil {
		return err
	}
	if known, err := t.results.Answers(id); known || err != nil {
		return err
	}
	ids, err := from.nextOf(id, seekResultsOf)
	if err != nil {
		return err
	}
	return t.seekResults(ids)
}

// seekResultsOf is for how many tasks that are cached results are sought together, at most.
const seekResultsOf = 64

// seekResults notes with the tasks, as far as they are cached, which of them have no result.
func (t *Tx) seekResults(ids [][]byte) error {
	var failed error
	err := t.results.Lacking(ids, func(id []byte, now shard.Moment) {
		if string(id) == string(t.task.id) {
			t.task.unanswered = now
		}
		if err := t.tasks.Note(id, now); err != nil {
			failed = err
		}
	})
	return errors.Join(err, failed)
}

// belongs tells where the task that was loaded is when it is claimed, and whether it waits to become pending. Both are said of the queue that
// its JSON names, also when it was taken from the list of another one, as after a RENAME, unless there is something else in that one's place.
// An error of a client must not come from here: the task is out of its list.
func (t *Tx) belongs(name Name, from *claiming) (claimed shard.Set, waits bool, err error) {
	k := &t.task
	claimed = from.inProgress
	moved := !k.name.is(name)
	if moved {
		if _, unplaced := t.locate(k.name); unplaced == nil {
			own, wrong := t.db.SetOf(t.place(supplier.InProgress))
			if wrong == nil {
				claimed = own
			} else {
				err = t.tolerate(wrong)
			}
		} else if _, err = t.locate(name); err != nil {
			return claimed, false, err
		}
	}
	if k.at == atDelayed && err == nil {
		waits, err = t.isDelayed(k.id)
	}
	if moved {
		if _, back := t.locate(name); err == nil {
			err = back
		}
	}
	return claimed, waits, err
}

// claimTask gives the worker the task that was taken from the pending list of the i-th queue, unless the entry there was stale.
func (t *Tx) claimTask(c *Claim, i int, id []byte, from *claiming, fn func(*View)) (took bool, err error) {
	found, err := t.loadNext(id, from)
	if isUnusable(err) {
		return false, t.tolerate(t.bury(id))
	}
	if err != nil || !found {
		return false, err
	}
	k, policy := &t.task, from.policy
	if k.ended() {
		return false, nil
	}
	kept := k.attempts == 0 && t.isRecent(policy)
	inProgress, waits, err := t.belongs(c.Queues[i], from)
	if waits || err != nil {
		return false, err
	}
	if added, err := inProgress.Add(id); !added || err != nil {
		if err == nil && k.status != statusInProgress {
			t.db.AuditAll() // it may be there since long ago
		}
		return false, err
	}
	lease := c.LeaseMs
	if lease == 0 {
		lease = policy.LeaseMs
	}
	until := t.db.Now() + lease
	k.become(statusInProgress, atInProgress)
	k.setString(fieldWorker, c.Worker)
	k.setLease(until)
	k.setInt(fieldAttempts, min(k.attempts, math.MaxInt64-1)+1)
	if err := t.db.Set(t.lease(id), c.Worker, until); err != nil {
		return false, err
	}
	err = t.save()
	if err == nil && !kept {
		err = t.keep(id, policy)
	}
	if err == nil {
		fn(&t.saved)
	}
	return true, err
}

// lastLeaseMs is the end of the year 9999, after which RFC 3339 has no times.
const lastLeaseMs = 253402300799_000

// setLease patches the end of the lease, as codeQ does in whole seconds.
func (k *task) setLease(untilMs int64) {
	k.put(fieldLeaseUntil, k.leaseTo.format(min(untilMs, lastLeaseMs), time.RFC3339))
}

// isDelayed tells whether the task is in the delayed set of the queue that t works on. In a key of a wrong type there is none.
func (t *Tx) isDelayed(id []byte) (bool, error) {
	delayed, err := t.db.ZSet(t.place(supplier.Delayed))
	if err != nil {
		return false, t.tolerate(err)
	}
	_, ok, err := delayed.Score(id)
	return ok, err
}

// bury puts a task whose JSON can't be used where somebody will see it, the dead letter queue of the queue that t works on, and leaves its JSON alone.
func (t *Tx) bury(id []byte) error {
	dlq, err := t.db.SetOf(t.place(supplier.DLQ))
	if err == nil {
		_, err = dlq.Add(id)
	}
	return err
}

// paused tells whether the queue that t works on is paused.
func (t *Tx) paused(policy *Policy) (bool, error) {
	if policy.Paused {
		return true, nil
	}
	key := t.place(supplier.Paused)
	if ordinal, ok := t.db.Narrowed(); ok {
		key = t.pausedOn(ordinal)
	}
	return t.db.Exists(key)
}

// pausedOn is the key that is there while a spread queue is paused on a shard: each has its own, so that a claim needs no other's lock.
func (t *Tx) pausedOn(ordinal int) []byte {
	t.key = appendPausedOn(t.key[:0], t.queues.router, Name{t.queue.command, t.queue.tenant}, ordinal)
	return t.key
}

func appendPausedOn(dst []byte, router *supplier.Router, name Name, ordinal int) []byte {
	key := supplier.Key{Command: name.Command, Tenant: name.Tenant, State: supplier.Paused, Shard: []byte(router.Topology().Name(ordinal))}
	return key.AppendTo(dst)
}
