package queue

import (
	"strconv"
	"unicode/utf8"

	"codeq/shard"
	"codeq/supplier"
)

// Enqueue says what tasks are to be made. Zero fields have not been given.
type Enqueue struct {
	Queue       Name
	Priority    int
	VisibleMs   int64 // when the tasks become pending; 0 or what has passed is now
	MaxAttempts int64
	Idempotency []byte
	Several     bool  // each task has an idempotency key of its own, as several that are enqueued together do
	WindowMs    int64 // for which the idempotency key counts
	Key         []byte
	ID          []byte
	Webhook     []byte
	Turn        uint32 // of a queue that is spread: which of its shards the first task is made for; the next are made for the next ones
}

// maxIDLen bounds a task's id.
const maxIDLen = 512

// Validate says what is wrong with the arguments, for any payload.
func (e *Enqueue) Validate() error {
	switch {
	case e.ID != nil && (len(e.ID) == 0 || len(e.ID) > maxIDLen || !utf8.Valid(e.ID)):
		return failed(Invalid, "the id is empty, not UTF-8 or longer than %d bytes; leave ID out for one that the server makes", maxIDLen)
	case !utf8.Valid(e.Webhook):
		return failed(Invalid, "the webhook is not UTF-8")
	}
	return e.Queue.Validate()
}

// enqueuing is a task in the making.
type enqueuing struct {
	*Enqueue
	policy   *Policy
	delayed  bool
	location *location
	pending  shard.List
	delays   shard.ZSet
	claimed  shard.Set // with an ID; so is dead
	dead     shard.Set
	homes    []int    // of a queue that is spread, those of new tasks
	firsts   [][]byte // with an idempotency key: for each payload the id of the task that has it, or nil
}

// Enqueue makes a task of each payload and calls fn with the ids, in order. It is an error, and changes nothing, if one of them can't be enqueued.
func (t *Tx) Enqueue(e *Enqueue, payloads [][]byte, fn func(id []byte)) error {
	p := enqueuing{Enqueue: e}
	if err := t.openForEnqueue(&p, payloads); err != nil {
		return err
	}
	for i, payload := range payloads {
		if len(p.firsts) > 0 && p.firsts[i] != nil {
			fn(p.firsts[i])
			continue
		}
		if err := t.enqueue(&p, payload, i); err != nil {
			return err
		}
		fn(t.id)
	}
	return nil
}

// openForEnqueue checks all that can be wrong.
func (t *Tx) openForEnqueue(p *enqueuing, payloads [][]byte) (err error) {
	if p.location, err = t.locate(p.Queue); err != nil {
		return err
	}
	if t.queues.Spreads(t.db.Number()) {
		if p.homes, err = t.queues.router.TaskHomes(p.Queue.Command, p.Queue.Tenant); err != nil {
			return err
		}
	}
	p.policy = t.policy()
	for _, payload := range payloads {
		if !utf8.Valid(payload) {
			return failed(Invalid, "the payload is not UTF-8, and a task is JSON: encode it, in base64 for instance")
		}
	}
	if len(p.Idempotency) > 0 {
		p.firsts = make([][]byte, len(payloads))
		for i := range payloads {
			if p.firsts[i], err = t.firstOf(p.idempotencyKey(i)); err != nil {
				return err
			}
		}
	}
	if p.ID != nil && (p.firsts == nil || p.firsts[0] == nil) { // or else it is the task's own repetition
		if err := t.mustBeNew(p); err != nil {
			return err
		}
	}
	p.delayed = p.VisibleMs > t.db.Now()
	if p.delays, err = t.db.ZSet(t.place(supplier.Delayed)); err != nil {
		return err
	}
	if p.pending, err = t.db.List(t.pending(p.Priority)); err != nil {
		return err
	}
	return t.checkQuota(p, payloads)
}

// mustBeNew refuses an ID that a task has, and opens the places where one may have been that had it before.
func (t *Tx) mustBeNew(p *enqueuing) error {
	_, found, err := t.tasks.Get(p.ID)
	if err == nil && found {
		err = failed(Invalid, "there is a task %s already: choose another ID, or leave it out", p.ID)
	}
	if err == nil {
		p.claimed, err = t.db.SetOf(t.place(supplier.InProgress))
	}
	if err == nil {
		p.dead, err = t.db.SetOf(t.place(supplier.DLQ))
	}
	return err
}

// sweep removes what is left of a task whose JSON somebody has removed before another with its ID was made: it would be taken for the new one's.
// An entry in a pending list may stay, since the second one that is claimed is stale.
func (t *Tx) sweep(p *enqueuing) error {
	for _, set := range [...]shard.Set{p.claimed, p.dead} {
		if _, err := set.Remove(p.ID); err != nil {
			return err
		}
	}
	if _, err := p.delays.Remove(p.ID); err != nil {
		return err
	}
	if _, err := t.results.Delete(p.ID); err != nil {
		return err
	}
	_, err := t.db.Delete(t.lease(p.ID))
	return err
}

// idempotencyKey is the key of the i-th task: of several that are enqueued together each has one of its own, so that they can be
// enqueued again together, or some of them.
func (e *Enqueue) idempotencyKey(i int) []byte {
	full := append([]byte(idempoKey), e.Idempotency...)
	if !e.Several {
		return full
	}
	return strconv.AppendInt(append(full, ':'), int64(i), 10)
}

// firstOf is the id of the task that has the idempotency key, nil if there is none. A key whose task is gone counts no more.
func (t *Tx) firstOf(key []byte) ([]byte, error) {
	id, ok, err := t.db.Get(key)
	if err != nil || !ok {
		return nil, err
	}
	if _, found, err := t.tasks.Get(id); err != nil || !found {
		return nil, err
	}
	return id, nil
}

// enqueue makes the task of one payload; t.id is its id.
func (t *Tx) enqueue(p *enqueuing, payload []byte, i int) error {
	if err := t.makeID(p, i); err != nil {
		return err
	}
	if err := t.putNew(p, t.write(p, payload)); err != nil {
		return err
	}
	if len(p.Idempotency) > 0 {
		if err := t.db.Set(p.idempotencyKey(i), t.id, t.db.Now()+p.WindowMs); err != nil {
			return err
		}
	}
	if p.delayed {
		if _, err := p.delays.Set(t.id, scoreOf(p.VisibleMs)); err != nil {
			return err
		}
		return t.uncache(t.id)
	}
	if err := p.pending.Push(shard.Head, t.id); err != nil {
		return err
	}
	waiting, err := p.pending.LenAt(t.id)
	if err == nil && waiting > cachedTasks {
		err = t.uncache(t.id)
	}
	return err
}

// cachedTasks is how many of the tasks that wait in a pending list are kept in the cache when they are enqueued. Those behind them
// would only drive others out: by the time they are claimed they are read together, see readAhead.
const cachedTasks = 1024

// scoreOf is a time as a score of a delayed set: in seconds, with the milliseconds as a fraction.
func scoreOf(ms int64) float64 { return float64(ms) / 1000 }

// makesNew tells whether the ids that are made are new for sure.
func (p *enqueuing) makesNew() bool { return p.ID == nil && p.Key == nil }

// putNew writes the rows of the task that was written. A new id is nowhere, so there is nothing to look for.
func (t *Tx) putNew(p *enqueuing, l *layout) error {
	if p.ID != nil {
		if err := t.sweep(p); err != nil {
			return err
		}
	}
	_, until := t.retained(p.policy)
	if !p.makesNew() {
		if _, err := t.tasks.SetMemo(t.id, t.author.text, memoOf(l, 0)); err != nil {
			return err
		}
		_, err := t.ttl.Set(t.id, until)
		return err
	}
	now, err := t.results.Moment(t.id)
	if err != nil {
		return err
	}
	if err := t.tasks.SetNew(t.id, t.author.text, memoOf(l, now)); err != nil {
		return err
	}
	return t.ttl.SetNew(t.id, until)
}

// makeID makes t.id the id of the i-th task. Of an id with a KEY so little is random that it may be taken, so it is looked for.
func (t *Tx) makeID(p *enqueuing, i int) error {
	if p.ID != nil {
		t.id = append(t.id[:0], p.ID...)
		return nil
	}
	for t.id = t.newID(p, i); p.Key != nil; t.id = t.newID(p, i) {
		if _, taken, err := t.tasks.Get(t.id); !taken || err != nil {
			return err
		}
	}
	return nil
}

// newID is an id for the i-th task.
func (t *Tx) newID(p *enqueuing, i int) []byte {
	var rnd [16]byte
	for half := range 2 {
		for j, r := 0, t.queues.random.Uint64(); j < 8; j, r = j+1, r>>8 {
			rnd[8*half+j] = byte(r)
		}
	}
	if p.Key != nil {
		supplier.SetKeyPrefix(&rnd, p.Key)
	}
	supplier.SetTime(&rnd, t.db.Now(), i)
	home := p.location.shard
	if len(p.homes) > 0 {
		home = homeOf(p.homes, p.Turn, i)
	}
	return supplier.AppendID(t.id[:0], home, rnd)
}

// write writes the JSON of a new task and returns its layout.
func (t *Tx) write(p *enqueuing, payload []byte) *layout {
	at := atPending
	if p.delayed {
		at = atDelayed
	}
	attempts := p.MaxAttempts
	if attempts == 0 {
		attempts = p.policy.MaxAttempts
	}
	a, now := &t.author, t.now()
	a.begin()
	a.string(fieldID, t.id)
	a.string(fieldCommand, p.Queue.Command) // in the case that the client writes it
	a.string(fieldPayload, payload)
	if p.Priority != 0 {
		a.number(fieldPriority, int64(p.Priority))
	}
	if len(p.Webhook) > 0 {
		a.string(fieldWebhook, p.Webhook)
	}
	a.word(fieldStatus, statusPending)
	a.word(fieldLocation, at)
	a.number(fieldMaxAttempts, attempts)
	if len(p.Queue.Tenant) > 0 {
		a.string(fieldTenant, p.Queue.Tenant)
	}
	a.json(fieldCreatedAt, now)
	a.json(fieldUpdatedAt, now)
	return a.end()
}
