package queue

import (
	"bytes"
	"cmp"
	"slices"

	"codeq/shard"
	"codeq/supplier"
)

// Stats is how many tasks wait in a queue, and where.
type Stats struct {
	Command, Tenant          string
	Ready                    [supplier.MaxPriority + 1]int64 // by priority
	Delayed, InProgress, DLQ int64
	OldestReadyMs            int64 // for how long the oldest ready task has waited since it was enqueued
	Paused                   bool
	Complete                 bool // every shard of the queue has answered
	Shards                   []string
	Homes                    shard.Mask // busy ones, of the oldest tasks, which could not be looked at therefore
}

// ReadyTotal is the tasks that are ready, of all priorities.
func (s *Stats) ReadyTotal() (n int64) {
	for _, ready := range s.Ready {
		n += ready
	}
	return n
}

// Stats counts the tasks of a queue, as far as the transaction holds the shards that it takes.
func (t *Tx) Stats(name Name) (*Stats, error) {
	l, err := t.locate(name)
	if err != nil {
		return nil, err
	}
	s := &Stats{Command: string(bytes.ToLower(name.Command)), Tenant: string(name.Tenant), Complete: true}
	if !t.queues.Spreads(t.db.Number()) {
		s.Shards = []string{t.queues.router.Topology().Name(l.shard)}
		return s, t.statsOf(s, l.shard)
	}
	if s.Shards, err = t.queues.spreadOver(name); err != nil {
		return nil, err
	}
	defer t.db.NarrowTo(t.db.Widen())
	for ordinal := range t.queues.router.Topology().Count() {
		t.db.Narrow(ordinal)
		if err := t.statsOf(s, ordinal); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// statsOf adds what there is on a shard of the queue that t works on.
func (t *Tx) statsOf(s *Stats, ordinal int) error {
	if !t.db.Holds(ordinal) {
		s.Complete = false
		return nil
	}
	paused, err := t.paused(t.policy())
	if err != nil {
		return err
	}
	s.Paused = s.Paused || paused
	l := &t.queue
	own := l.base
	defer func() { l.base = own }()
	for _, form := range append([][]byte{own}, t.otherForms()...) {
		l.base = form
		route := t.queues.router.Route(t.db.Number(), t.place(supplier.InProgress))
		switch whole := route.Kind == supplier.Single; {
		case whole && route.Shard != ordinal && t.queues.Spreads(t.db.Number()):
			continue // that shard's turn is another one
		case whole && !t.db.Holds(route.Shard):
			s.Complete = false
			continue
		}
		if err := t.count(s); err != nil {
			return err
		}
	}
	return nil
}

// count adds what is under one form of the queue's keys. Keys of a wrong type count as empty.
func (t *Tx) count(s *Stats) error {
	for priority := range s.Ready {
		list, err := t.db.List(t.pending(priority))
		if err == shard.ErrWrongType {
			continue
		}
		if err != nil {
			return err
		}
		n, err := list.Len()
		if err != nil {
			return err
		}
		if s.Ready[priority] += n; n > 0 {
			if err := t.age(s, list); err != nil {
				return err
			}
		}
	}
	delayed, err := t.db.ZSet(t.place(supplier.Delayed))
	if err := addLen(&s.Delayed, delayed.Len, err); err != nil {
		return err
	}
	inProgress, err := t.db.SetOf(t.place(supplier.InProgress))
	if err := addLen(&s.InProgress, inProgress.Len, err); err != nil {
		return err
	}
	dlq, err := t.db.SetOf(t.place(supplier.DLQ))
	return addLen(&s.DLQ, dlq.Len, err)
}

// addLen adds a collection's length, unless opening it has failed.
func addLen(to *int64, length func() (int64, error), opened error) error {
	switch {
	case opened == shard.ErrWrongType:
		return nil
	case opened != nil:
		return opened
	}
	n, err := length()
	*to += n
	return err
}

// age takes the oldest task of a pending list into account, if its home is at hand.
func (t *Tx) age(s *Stats, list shard.List) error {
	id, ok, err := list.Index(-1)
	if !ok || err != nil {
		return err
	}
	if home := t.queues.Home(t.db.Number(), id); !t.db.TryHold(home) {
		s.Homes.Add(home)
		return nil
	}
	found, err := t.load(id)
	if isUnusable(err) || err == nil && !found {
		return nil
	}
	if err != nil {
		return err
	}
	if at, ok := t.task.time(fieldCreatedAt); ok {
		s.OldestReadyMs = max(s.OldestReadyMs, t.db.Now()-at)
	}
	return nil
}

// Known is a queue that has or had tasks.
type Known struct {
	Name
	Hash uint64 // queues are listed in its order
}

// Known lists the queues of the database that have or had tasks on the shards that the transaction holds, in the order of their hashes.
func (t *Tx) Known() ([]Known, error) {
	var all []Known
	for ordinal := range t.queues.router.Topology().Count() {
		if !t.db.Holds(ordinal) {
			continue
		}
		err := t.db.Groups(ordinal, func(group string) {
			k, ok := supplier.ParseKey([]byte(group))
			if name := (Name{k.Command, k.Tenant}); ok && name.Validate() == nil { // some can be named with a hash tag only, by no command of queues
				all = append(all, Known{name, supplier.Hash64([]byte(name.String()))})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Known) int {
		return cmp.Or(cmp.Compare(a.Hash, b.Hash), bytes.Compare(a.Command, b.Command), bytes.Compare(a.Tenant, b.Tenant))
	})
	return slices.CompactFunc(all, func(a, b Known) bool {
		return bytes.Equal(a.Command, b.Command) && bytes.Equal(a.Tenant, b.Tenant)
	}), nil
}
