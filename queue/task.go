package queue

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"codeq/shard"
	"codeq/supplier"
)

// Where a task waits, as its JSON says.
const (
	atPending    = "PENDING_LIST"
	atDelayed    = "DELAYED_ZSET"
	atInProgress = "INPROG_SET"
	atDLQ        = "DLQ_SET"
	atNowhere    = "NONE"
)

// What has become of a task.
const (
	statusPending    = "PENDING"
	statusInProgress = "IN_PROGRESS"
	statusCompleted  = "COMPLETED"
	statusFailed     = "FAILED"
)

// task is a task that was read, and what it is to become.
type task struct {
	id []byte
	document
	patch
	name        Name
	status      string
	at          string
	worker      []byte
	priority    int
	attempts    int64
	maxAttempts int64
	unanswered  shard.Moment // when it had no result; zero if that is not known

	values []byte // memory for those of the patch

	// What the last tasks had, since those of a transaction mostly have the same. Its memory is its own.
	valid   Name  // one that is valid
	parsed  stamp // a time that was read
	leaseTo stamp // the end of a lease that was given
}

// load reads the task. It is an error that its JSON can't be used.
func (t *Tx) load(id []byte) (found bool, err error) {
	text, memo, found, err := t.tasks.GetMemo(id)
	if err != nil {
		return false, err
	}
	return found, t.parse(id, text, memo, found)
}

// parse makes t.task the task with the JSON and its memo, if there is one.
func (t *Tx) parse(id, text []byte, memo shard.Memo, found bool) error {
	if !found {
		return nil
	}
	l, _ := memo.Of.(*layout)
	if err := t.task.read(id, text, l); err != nil {
		return &Error{Code: Invalid, unusable: true, text: fmt.Sprintf(
			"the task %s can't be used, %v: repair its JSON in the hash %s, or remove it with HDEL", id, err, tasksKey)}
	}
	t.task.unanswered = memo.Lacking
	return nil
}

// mustLoad is load for a task that the client names.
func (t *Tx) mustLoad(id []byte) error {
	found, err := t.load(id)
	if err == nil && !found {
		err = failed(NotFound, "there is no task %s: it was never enqueued, or its retention is over", id)
	}
	return err
}

// read makes k the task that the text is, whose layout may be known.
func (k *task) read(id, text []byte, l *layout) (err error) {
	k.id, k.values, k.set, k.drop, k.unanswered = id, k.values[:0], 0, 0, 0
	if l != nil {
		k.layOut(text, l)
	} else if err := k.scan(text); err != nil {
		return err
	}
	var command, tenant, status, at []byte
	for _, s := range [...]struct {
		to *[]byte
		f  field
	}{{&command, fieldCommand}, {&tenant, fieldTenant}, {&status, fieldStatus}, {&at, fieldLocation}, {&k.worker, fieldWorker}} {
		if *s.to, err = k.string(s.f); err != nil {
			return err
		}
	}
	priority, err := k.integer(fieldPriority)
	if err != nil {
		return err
	}
	k.priority = int(min(max(priority, 0), supplier.MaxPriority))
	if k.attempts, err = k.integer(fieldAttempts); err != nil {
		return err
	}
	if k.maxAttempts, err = k.integer(fieldMaxAttempts); err != nil {
		return err
	}
	k.name = Name{command, tenant}
	k.status, k.at = known(status), known(at)
	return k.validate()
}

// validate refuses the task's name as Name.Validate does.
func (k *task) validate() error {
	if len(k.valid.Command) > 0 && bytes.Equal(k.name.Command, k.valid.Command) && bytes.Equal(k.name.Tenant, k.valid.Tenant) {
		return nil
	}
	if err := k.name.Validate(); err != nil {
		return err
	}
	k.valid.Command, k.valid.Tenant = append(k.valid.Command[:0], k.name.Command...), append(k.valid.Tenant[:0], k.name.Tenant...)
	return nil
}

// known is the text as a string, without memory of its own if it is one of ours.
func known(b []byte) string {
	switch string(b) {
	case statusPending:
		return statusPending
	case statusInProgress:
		return statusInProgress
	case statusCompleted:
		return statusCompleted
	case statusFailed:
		return statusFailed
	case atPending:
		return atPending
	case atDelayed:
		return atDelayed
	case atInProgress:
		return atInProgress
	case atDLQ:
		return atDLQ
	case atNowhere:
		return atNowhere
	}
	return string(b)
}

// ended tells whether nothing more will happen to the task by itself.
func (k *task) ended() bool { return k.status == statusCompleted || k.status == statusFailed }

// setString and setInt patch a field; as in codeQ an empty text and a zero are left out.
func (k *task) setString(f field, val []byte) {
	if len(val) == 0 {
		k.remove(f)
		return
	}
	start := len(k.values)
	k.values = appendString(k.values, val)
	k.put(f, k.values[start:])
}

func (k *task) setInt(f field, n int64) {
	if n == 0 {
		k.remove(f)
		return
	}
	start := len(k.values)
	k.values = strconv.AppendInt(k.values, n, 10)
	k.put(f, k.values[start:])
}

// setWord patches a field with one of our words, which have nothing to escape.
func (k *task) setWord(f field, word string) {
	start := len(k.values)
	k.values = appendWord(k.values, word)
	k.put(f, k.values[start:])
}

// become patches what a task's state is made of.
func (k *task) become(status, at string) {
	k.setWord(fieldStatus, status)
	k.setWord(fieldLocation, at)
	k.status, k.at = status, at
}

// release patches away the claim.
func (k *task) release() {
	k.remove(fieldWorker)
	k.remove(fieldLeaseUntil)
}

// stamp is a time and its text.
type stamp struct {
	ms   int64
	text []byte
}

// format makes s the time as a JSON string and returns it. A stamp has one layout always.
func (s *stamp) format(ms int64, layout string) []byte {
	if s.ms != ms || len(s.text) == 0 {
		s.ms = ms
		s.text = append(time.UnixMilli(ms).UTC().AppendFormat(append(s.text[:0], '"'), layout), '"')
	}
	return s.text
}

// now is the transaction's time as a JSON string, as encoding/json writes a time.Time.
func (t *Tx) now() []byte { return t.stamp.format(t.db.Now(), time.RFC3339Nano) }

// save writes the task as it is patched. What it has become is t.saved.
func (t *Tx) save() error {
	text := t.patched()
	_, err := t.tasks.SetMemo(t.task.id, text, memoOf(t.saved.doc.layout(), t.task.unanswered))
	return err
}

// memoOf is what is kept with a task in the cache: its layout, if it has one, and when it had no result.
func memoOf(l *layout, unanswered shard.Moment) shard.Memo {
	if l == nil {
		return shard.Memo{Lacking: unanswered}
	}
	return shard.Memo{Of: l, Lacking: unanswered}
}

// patched is the JSON of the task as it is patched, which t.saved is then.
func (t *Tx) patched() []byte {
	t.task.put(fieldUpdatedAt, t.now())
	t.task.patchInto(&t.saved.doc, &t.task.patch)
	return t.saved.doc.text
}

// retentionSlack is by how many seconds the end of the retention of a task that has not ended may lag behind. Setting it at
// every step of a task's life would cost more than the step.
const retentionSlack = 60

// retentionParts: a task is kept for its retention after its last change, and longer by one of so many parts of it at most. While it has not
// ended it is given that much more, so that what ends within that time needs no other end of its retention: with a backlog that
// takes three rows of ten (ADR 0032).
const retentionParts = 16

// retained tells from when to when the retention of a task that changes now may end, as scores, which are whole seconds.
func (t *Tx) retained(policy *Policy) (first, last float64) {
	ms := t.db.Now() + policy.RetentionMs
	over := (ms + 999) / 1000
	return float64(over), float64(max(over, (ms+policy.RetentionMs/retentionParts)/1000))
}

// keep sets the end of the retention of a task that has changed and not ended.
func (t *Tx) keep(id []byte, policy *Policy) error {
	first, last := t.retained(policy)
	old, ok, err := t.ttl.Score(id)
	if err != nil || ok && old >= first-retentionSlack && old <= last {
		return err
	}
	_, err = t.ttl.Set(id, last)
	return err
}

// keepEnded sets the end of the retention of a task that has ended, and has the cache forget it.
func (t *Tx) keepEnded(id []byte, policy *Policy) error {
	first, last := t.retained(policy)
	old, ok, err := t.ttl.Score(id)
	switch {
	case err != nil:
		return err
	case ok && old >= first && old <= last:
		return t.ttl.Uncache(id)
	}
	return t.ttl.SetIdle(id, first)
}

// isRecent tells whether the task that was loaded was enqueued in the last half of its retention, so that the retention which it
// was given then has still as long to go: its first claim leaves that alone, and need not look at it.
func (t *Tx) isRecent(policy *Policy) bool {
	created, ok := t.task.time(fieldCreatedAt)
	age := t.db.Now() - created
	return ok && age >= 0 && age < policy.RetentionMs/2
}

// policy is what is set for the queue that t works on.
func (t *Tx) policy() *Policy {
	l, policies := &t.queue, t.queues.policies()
	if l.policy == nil || l.policies != policies {
		l.policies, l.policy = policies, policies.of(Name{l.command, l.tenant})
	}
	return l.policy
}

// time is a field that is a time, in unix ms.
func (k *task) time(f field) (ms int64, ok bool) {
	text, err := k.string(f)
	if err != nil {
		return 0, false
	}
	if len(text) > 0 && bytes.Equal(text, k.parsed.text) {
		return k.parsed.ms, true
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, false
	}
	k.parsed.ms, k.parsed.text = at.UnixMilli(), append(k.parsed.text[:0], text...)
	return k.parsed.ms, true
}
