package queue

import (
	"bytes"
	"maps"
	"slices"
	"strings"
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
		if base := group[:len(group)-len(supplier.InProgress.String())]; !bytes.Equal(base, l.base) {
			bases = append(bases, base)
		}
	}
	for _, tagged := range [...]bool{false, true} { // it may be of this very transaction, and not noted yet
		key := supplier.Key{Command: name.Command, Tenant: name.Tenant, State: supplier.InProgress, Tagged: tagged}
		if key.Validate() == nil {
			add(key.AppendTo(nil))
		}
	}
	common := bases
	for _, group := range t.queues.forms.list(name) {
		if !hasBase(common, group) {
			add([]byte(group))
		}
	}
	t.db.BegunGroups(func(group string) {
		if k, ok := supplier.ParseKey([]byte(group)); ok && name.is(Name{k.Command, k.Tenant}) && !hasBase(bases, group) {
			add([]byte(group))
		}
	})
	return bases
}

// hasBase tells whether one of the bases is that of the group.
func hasBase(bases [][]byte, group string) bool {
	return slices.ContainsFunc(bases, func(base []byte) bool {
		state, ok := strings.CutPrefix(group, string(base))
		return ok && state == supplier.InProgress.String()
	})
}

// inForms calls fn with t working on one form of the queue's keys after the other, its own first, until it returns true. A form of which a key is
// of a wrong type has nothing there. Those on shards that can be had at once come before the others, so that nothing waits for a shard without need.
func (t *Tx) inForms(fn func() (bool, error)) (done bool, err error) {
	if done, err = fn(); done || err != nil && err != shard.ErrWrongType {
		return done, err
	}
	own := t.queue.base
	defer func() { t.queue.base = own }()
	var later [][]byte
	for _, t.queue.base = range t.otherForms() {
		route := t.queues.router.Route(t.db.Number(), t.place(supplier.InProgress))
		if route.Err == nil && route.Kind == supplier.Single && !t.db.TryHold(route.Shard) {
			later = append(later, t.queue.base)
			continue
		}
		if done, err := fn(); done || err != nil && err != shard.ErrWrongType {
			return done, err
		}
	}
	for _, t.queue.base = range later {
		if done, err := fn(); done || err != nil && err != shard.ErrWrongType {
			return done, err
		}
	}
	return false, err // of the own form
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
	form := t.queue.base
	_, err := t.inForms(func() (bool, error) {
		here, err := t.isClaimedHere(t.task.id)
		if here {
			form = t.queue.base
		}
		return here, err
	})
	t.queue.base = form
	return t.unlessWrongType(err)
}

// isClaimed tells whether the task is among the claimed ones of the queue that t works on, in any form of its keys. In a key of a wrong type
// there is none.
func (t *Tx) isClaimed(id []byte) (bool, error) {
	claimed, err := t.inForms(func() (bool, error) { return t.isClaimedHere(id) })
	return claimed, t.unlessWrongType(err)
}

// isClaimedHere is isClaimed for the form that t works on.
func (t *Tx) isClaimedHere(id []byte) (bool, error) {
	claimed, err := t.db.SetOf(t.place(supplier.InProgress))
	if err != nil {
		return false, err
	}
	return claimed.Has(id)
}

func (t *Tx) unlessWrongType(err error) error {
	if err == shard.ErrWrongType {
		return nil
	}
	return err
}
