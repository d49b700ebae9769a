package queue

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"codeq/shard"
	"codeq/supplier"
)

// Forms. Clients may keep a queue under keys of another form than this server's commands use: with a hash tag, or with the name of a shard, which
// need not be one of this server's. Their tasks are the same queue's: they are counted, ended and given back with the others, each under
// the keys where it is.

// forms is which queues are kept under keys of other forms, in any database and on any shard. It is safe for concurrent use.
type forms struct {
	mu sync.RWMutex
	of map[string]map[string]int // by queue, its groups of keys with a hash tag or a shard's name, and in how many keyspaces each is
}

// Listed notes a form of a queue's keys that a shard has, see shard.Tracker.
func (q *Queues) Listed(group string, by int) {
	k, ok := supplier.ParseKey([]byte(group))
	if !ok || !k.Tagged && len(k.Shard) == 0 {
		return
	}
	f, queue := &q.forms, Name{k.Command, k.Tenant}.String()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = make(map[string]map[string]int)
	}
	if f.of[queue] == nil {
		f.of[queue] = make(map[string]int)
	}
	if f.of[queue][group] += by; f.of[queue][group] <= 0 {
		delete(f.of[queue], group)
	}
	if len(f.of[queue]) == 0 {
		delete(f.of, queue)
	}
}

// list is the groups of a queue that were noted, in the order of their names.
func (f *forms) list(name Name) []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if len(f.of) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(f.of[Name{bytes.ToLower(name.Command), name.Tenant}.String()]))
}

// otherForms lists the other forms of the queue's keys that are known of, each up to the colon before the state.
func (t *Tx) otherForms() (bases [][]byte) {
	l := &t.queue
	name := Name{l.command, l.tenant}
	add := func(group []byte) {
		base := group[:len(group)-len(supplier.InProgress.String())]
		if !bytes.Equal(base, l.base) && !slices.ContainsFunc(bases, func(b []byte) bool { return bytes.Equal(b, base) }) {
			bases = append(bases, base)
		}
	}
	add(inProgressKey(nil, name, nil))
	tagged := supplier.Key{Command: name.Command, Tenant: name.Tenant, State: supplier.InProgress, Tagged: true}
	if tagged.Validate() == nil { // it may be of this very transaction, and not listed yet
		add(tagged.AppendTo(nil))
	}
	for _, group := range t.queues.forms.list(name) {
		add([]byte(group))
	}
	return bases
}

// ShardsOfForms is where the queue of the database may have tasks under keys of any form.
func (q *Queues) ShardsOfForms(db int, name Name) (mask shard.Mask, err error) {
	if mask, err = q.Shards(db, name); err != nil {
		return mask, err
	}
	for _, group := range q.forms.list(name) {
		if route := q.router.Route(db, []byte(group)); route.Err == nil && route.Kind == supplier.Single {
			mask.Add(route.Shard)
		}
	}
	return mask, nil
}

// toClaimed makes t work on the form of the queue's keys under which the task that was loaded is claimed, if that is another one than its own,
// so that the task goes back to where its client looks for it. What t works on is not as locate would have it then: the caller puts the base back.
func (t *Tx) toClaimed() error {
	if here, err := t.claimedHere(); here || err != nil {
		return err
	}
	own := t.queue.base
	for _, t.queue.base = range t.otherForms() {
		if here, err := t.claimedHere(); here || err != nil {
			return err
		}
	}
	t.queue.base = own
	return nil
}

// claimedHere tells whether the task that was loaded is claimed under the form of the queue's keys that t works on.
func (t *Tx) claimedHere() (bool, error) {
	claimed, err := t.db.SetOf(t.place(supplier.InProgress))
	if err == shard.ErrWrongType {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return claimed.Has(t.task.id)
}
