package queue

import (
	"bytes"
	"maps"
	"sync"

	"codeq/supplier"
)

// Audits. A client that claims in steps, as codeQ's does, and dies between them leaves a task among the claimed ones that has
// no lease which could run out, and no timer will ever find it. So when such a client has changed a queue's set of claimed
// tasks, the set is looked through some time later, once: a task that is there without a lease becomes a suspect, and if nothing
// about it has changed by another such time, it is given back. So are all sets when somebody has removed a lease, or when one has run
// out and its task could not be given back. Queues that only this server's commands work on are never audited but after a start.

// auditMs is how long after a change a set of claimed tasks is audited, and how long a suspect has to come by its lease.
const auditMs = 30_000

// auditMostMs is how long audits wait at most that find the same again and again.
const auditMostMs = 64 * auditMs

// audits is how far the audits in progress are.
type audits struct {
	mu    sync.Mutex
	going map[auditKey]*auditState
}

type auditKey struct {
	db    int
	shard int
	key   string
}

// auditState is one audit. Only the timekeeper of the shard works on it.
type auditState struct {
	keyspace uint32 // of the key, on its shard
	cursor   uint64
	suspects map[string]uint64 // by id, what the task's JSON was in the last pass; 0: it can't be used
	found    map[string]uint64 // in this one
	waitMs   int64             // until the next one
}

// of is how far the audit of the key is. One that was of another keyspace in the same place counts no more: its cursor and its suspects
// are of another set.
func (a *audits) of(k auditKey, keyspace uint32) *auditState {
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.going[k]
	if state == nil || state.keyspace != keyspace {
		state = &auditState{keyspace: keyspace, found: make(map[string]uint64)}
		if a.going == nil {
			a.going = make(map[auditKey]*auditState)
		}
		a.going[k] = state
	}
	return state
}

func (a *audits) over(k auditKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.going, k)
}

// audit looks through a part of what is on a shard of the set of claimed tasks at the key, and tells when to go on, 0 for never.
func (t *Tx) audit(ordinal int, key []byte, limit int) (againMs int64, err error) {
	defer t.db.NarrowTo(t.db.Narrow(ordinal))
	audited := auditKey{t.db.Number(), ordinal, string(key)}
	keyspace, err := t.db.Keyspace(ordinal)
	if err != nil {
		return 0, err
	}
	state := t.queues.audits.of(audited, keyspace)
	set, err := t.db.SetOf(key)
	if err != nil {
		return 0, t.tolerate(err)
	}
	var ids [][]byte
	next, err := set.Scan(state.cursor, limit, func(id []byte) { ids = append(ids, bytes.Clone(id)) })
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := t.auditOne(key, id, state); err != nil {
			return 0, err
		}
	}
	if state.cursor = next; next != 0 {
		return t.db.Now(), nil
	}
	if len(state.found) == 0 {
		t.queues.audits.over(audited)
		return 0, nil
	}
	if state.waitMs = min(2*state.waitMs, auditMostMs); !maps.Equal(state.found, state.suspects) {
		state.waitMs = auditMs
	}
	state.suspects, state.found = state.found, make(map[string]uint64)
	return t.db.Now() + state.waitMs, nil
}

// auditOne looks at one claimed task. That its lease has run out is dealt with by looking at it.
func (t *Tx) auditOne(key, id []byte, state *auditState) error {
	was := t.db.Mute(false)
	held, err := t.db.Exists(t.lease(id))
	t.db.Mute(was)
	if held || err != nil {
		return err
	}
	set, err := t.db.SetOf(key)
	if err != nil {
		return err
	}
	if still, err := set.Has(id); !still || err != nil {
		return err
	}
	found, err := t.load(id)
	switch {
	case isUnusable(err):
		state.found[string(id)] = 0 // until somebody has repaired it, or removed it
		return nil
	case err != nil:
		return err
	case !found:
		_, err := set.Remove(id)
		return err
	}
	json := supplier.Hash64(t.task.text)
	if was, suspect := state.suspects[string(id)]; !suspect || was != json {
		state.found[string(id)] = json
		return nil
	}
	t.workOn(key, supplier.InProgress)
	defer t.workOnNone()
	if t.task.ended() {
		if _, err := set.Remove(id); err != nil {
			return err
		}
		t.task.become(t.task.status, atNowhere)
		return t.save()
	}
	if _, err = t.giveBack(-1, []byte(reasonLease)); err == nil || t.tolerate(err) != nil {
		return err
	}
	state.found[string(id)] = json // where it has to go there is something else
	return nil
}

// workOn makes the queue that t works on the one that the key of a place is of, in its form.
func (t *Tx) workOn(key []byte, place supplier.State) {
	t.queue.base = append(t.queue.base[:0], key[:len(key)-len(place.String())]...)
	k, _ := supplier.ParseKey(key)
	t.queue.policy = nil
	t.queue.command, t.queue.tenant = append(t.queue.command[:0], k.Command...), append(t.queue.tenant[:0], k.Tenant...)
}

// workOnNone undoes workOn: what t works on is not as locate would have it.
func (t *Tx) workOnNone() { t.queue.base = t.queue.base[:0] }
