package queue

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"

	"codeq/shard"
	"codeq/supplier"
)

// Place is a place where tasks of a queue wait.
type Place = supplier.State

// ids lists the tasks of a place of the queue that t works on, from an offset on, in the order in which they will be claimed or become
// pending; in a set they have none.
func (t *Tx) ids(place Place, offset, count int64) (ids [][]byte, err error) {
	take := func(id []byte) bool {
		if offset > 0 {
			offset--
			return true
		}
		if count > 0 {
			ids = append(ids, bytes.Clone(id))
		}
		count--
		return count > 0
	}
	switch place {
	case supplier.Delayed:
		delayed, err := t.db.ZSet(t.place(place))
		if err != nil {
			return nil, err
		}
		n, err := delayed.Len()
		if err != nil || offset >= n {
			return nil, err
		}
		err = delayed.RangeByRank(offset, offset+min(count, n-offset)-1, false, func(id []byte, _ float64) bool {
			ids = append(ids, bytes.Clone(id))
			return true
		})
		return ids, err
	case supplier.InProgress, supplier.DLQ:
		set, err := t.db.SetOf(t.place(place))
		if err != nil {
			return nil, err
		}
		return ids, set.Each(take)
	case supplier.Pending, supplier.Paused, supplier.Rate:
	}
	for priority := supplier.MaxPriority; priority >= 0 && count > 0; priority-- {
		list, err := t.db.List(t.pending(priority))
		if err != nil {
			return nil, err
		}
		n, err := list.Len()
		if err != nil {
			return nil, err
		}
		skip := min(offset, n)
		if offset -= skip; skip == n {
			continue
		}
		if ids, err = lastOf(list, n, skip, min(count, n-skip), ids); err != nil {
			return nil, err
		}
		count -= min(count, n-skip)
	}
	return ids, nil
}

// lastOf appends the count elements of a list that stand before the last skip ones of n, the last one first.
func lastOf(list shard.List, n, skip, count int64, ids [][]byte) ([][]byte, error) {
	from := len(ids)
	err := list.Range(n-skip-count, n-skip-1, func(id []byte) { ids = append(ids, bytes.Clone(id)) })
	for i, j := from, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids, err
}

// Peek calls fn with tasks of a place, which it may not keep. Of dead ones whose JSON can't be used it shows the id, and as error why.
func (t *Tx) Peek(name Name, place Place, offset, count int64, fn func(*View)) error {
	if _, err := t.locate(name); err != nil {
		return err
	}
	ids, err := t.ids(place, offset, count)
	if err != nil {
		return err
	}
	for _, id := range ids {
		found, err := t.load(id)
		unusable := isUnusable(err)
		switch {
		case unusable && place == supplier.DLQ:
			t.json = appendDamaged(t.json[:0], id, err)
			err = t.view.read(t.json, false)
		case unusable || err == nil && !found:
			continue
		case err == nil:
			err = t.view.read(t.task.text, true)
		}
		if err != nil {
			return err
		}
		fn(&t.view)
	}
	return nil
}

// appendDamaged appends what is shown of a task whose JSON can't be used.
func appendDamaged(dst, id []byte, err error) []byte {
	dst = appendString(append(dst, `{"id":`...), id)
	dst = appendString(append(dst, `,"error":`...), []byte(err.Error()))
	return append(dst, '}')
}

// Requeue makes dead tasks of the queue pending again, with no attempt counted: those that are named, or up to count.
// It tells how many they were.
func (t *Tx) Requeue(name Name, named [][]byte, count int64) (n int64, err error) {
	if _, err := t.locate(name); err != nil {
		return 0, err
	}
	if named == nil {
		if named, err = t.ids(supplier.DLQ, 0, count); err != nil {
			return 0, err
		}
	}
	dlq, err := t.db.SetOf(t.place(supplier.DLQ))
	if err != nil {
		return 0, err
	}
	if err := t.checkPending(); err != nil {
		return 0, err
	}
	for _, id := range named {
		dead, err := dlq.Has(id)
		if err != nil {
			return n, err
		}
		if !dead {
			continue
		}
		again, err := t.revive(dlq, id)
		if err != nil {
			return n, err
		}
		if again {
			n++
		}
	}
	return n, nil
}

// checkPending finds out whether a pending list is of a wrong type, before anything is taken or written.
func (t *Tx) checkPending() error {
	for priority := range supplier.MaxPriority + 1 {
		if _, err := t.db.List(t.pending(priority)); err != nil {
			return err
		}
	}
	return nil
}

// revive makes one dead task pending. One whose JSON can't be used stays where it is, and the entry of one that is elsewhere goes.
func (t *Tx) revive(dlq shard.Set, id []byte) (bool, error) {
	found, err := t.load(id)
	if isUnusable(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	elsewhere := !found
	if found {
		if elsewhere, err = t.isElsewhere(supplier.DLQ); err != nil {
			return false, err
		}
	}
	if _, err := dlq.Remove(id); err != nil || elsewhere {
		return false, err
	}
	k := &t.task
	pending, err := t.db.List(t.pending(k.priority))
	if err != nil {
		return false, err
	}
	if err := pending.Push(shard.Head, id); err != nil {
		return false, err
	}
	k.become(statusPending, atPending)
	k.release()
	k.remove(fieldError)
	k.setInt(fieldAttempts, 0)
	return true, t.change(t.policy(), false)
}

// purgePart is how many tasks are read together when they are purged.
const purgePart = 256

// Purge removes tasks of a place, up to count, with all that belongs to them, and tells how many they were: those first that would be claimed
// or become pending first. Entries of tasks that are elsewhere go alone, and are not counted.
func (t *Tx) Purge(name Name, place Place, count int64) (n int64, err error) {
	if _, err := t.locate(name); err != nil {
		return 0, err
	}
	for n < count {
		ids, err := t.takeEntries(place, count-n)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		for part := range slices.Chunk(ids, purgePart) {
			if err := errors.Join(t.tasks.Fetch(part), t.results.Fetch(part), t.ttl.Fetch(part)); err != nil {
				return n, err
			}
			for _, id := range part {
				purged, err := t.purgeOne(place, id)
				if err != nil {
					return n, err
				}
				if purged {
					n++
				}
			}
		}
	}
	return n, nil
}

// takeEntries removes up to count entries of a place, and returns them in the order of ids.
func (t *Tx) takeEntries(place Place, count int64) ([][]byte, error) {
	if place == supplier.Pending && count < math.MaxInt64 {
		return t.popPending(count)
	}
	ids, err := t.ids(place, 0, count)
	if err != nil {
		return nil, err
	}
	if count == math.MaxInt64 {
		return ids, t.empty(place)
	}
	for _, id := range ids {
		if _, err := t.removeEntry(place, id); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// popPending takes the entries of up to count tasks that would be claimed next.
func (t *Tx) popPending(count int64) (ids [][]byte, err error) {
	if err := t.checkPending(); err != nil {
		return nil, err
	}
	for priority := supplier.MaxPriority; priority >= 0; priority-- {
		list, err := t.db.List(t.pending(priority))
		if err != nil {
			return nil, err
		}
		for int64(len(ids)) < count {
			id, ok, err := list.Pop(shard.Tail)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			ids = append(ids, bytes.Clone(id))
		}
	}
	return ids, nil
}

// purgeOne removes one task of a place, and tells whether there was one.
func (t *Tx) purgeOne(place Place, id []byte) (purged bool, err error) {
	found, err := t.load(id)
	if isUnusable(err) {
		return true, t.forget(id)
	}
	if err != nil {
		return false, err
	}
	if found {
		if elsewhere, err := t.isElsewhere(place); elsewhere || err != nil {
			return false, err
		}
	}
	return found, t.forget(id)
}

// isElsewhere tells whether the entry in a place of the task that was loaded is stale: the task has ended, or is where its JSON says.
func (t *Tx) isElsewhere(place Place) (bool, error) {
	switch k := &t.task; {
	case k.ended():
		return place != supplier.DLQ || k.at != atDLQ, nil
	case k.at == atDelayed && place != supplier.Delayed:
		return t.isDelayed(k.id)
	case k.at == atInProgress && place != supplier.InProgress:
		return t.isClaimed(k.id)
	}
	return false, nil
}

// empty deletes the keys of a place.
func (t *Tx) empty(place Place) error {
	if place != supplier.Pending {
		_, err := t.db.Delete(t.place(place))
		return err
	}
	for priority := range supplier.MaxPriority + 1 {
		if _, err := t.db.Delete(t.pending(priority)); err != nil {
			return err
		}
	}
	return nil
}

// SetPaused pauses or resumes the queue.
func (t *Tx) SetPaused(name Name, paused bool) error {
	if _, err := t.locate(name); err != nil {
		return err
	}
	if !t.queues.Spreads(t.db.Number()) {
		return t.setPaused(t.place(supplier.Paused), paused)
	}
	for ordinal := range t.queues.router.Topology().Count() {
		if err := t.setPaused(t.pausedOn(ordinal), paused); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) setPaused(key []byte, paused bool) error {
	if !paused {
		_, err := t.db.Delete(key)
		return err
	}
	return t.db.Set(key, []byte("1"), 0)
}

// cleanupKeeps is how many tasks that have not ended one call of Cleanup passes over.
const cleanupKeeps = 100_000

// Cleanup removes up to count tasks that have ended and whose retention is over by untilMs, and tells how many. Those that have not ended
// are kept, beyond untilMs too, so that the next call does not meet them again.
func (t *Tx) Cleanup(untilMs int64, count int) (int64, error) {
	removed, kept := 0, 0
	for ordinal := range t.queues.router.Topology().Count() {
		agenda, err := t.db.Fragment(ordinal, []byte(ttlKey))
		if err != nil {
			return int64(removed), err
		}
		more := true
		for ahead := maxPassedOver; more && removed < count && kept < cleanupKeeps; ahead *= 2 { // as each look steps over what was moved
			var ids [][]byte
			if ids, more, err = t.first(agenda, untilMs, min(count-removed, cleanupKeeps)+ahead); err != nil {
				return int64(removed), err
			}
			for i := 0; i < len(ids) && removed < count && kept < cleanupKeeps; i++ {
				switch gone, err := t.retireOne(ids[i], untilMs); {
				case err != nil:
					return int64(removed), err
				case gone:
					removed++
				default:
					kept++
				}
			}
		}
	}
	return int64(removed), nil
}

// Route says where something lives, and why.
type Route struct {
	Shard string
	Key   string // of the queue's claimed tasks, or of the task's lease
	Why   string
}

// RouteQueue tells where a queue is.
func (q *Queues) RouteQueue(db int, name Name) (Route, error) {
	key, err := q.Group(db, name)
	if err != nil {
		return Route{}, err
	}
	if q.Spreads(db) {
		shards, err := q.spreadOver(name)
		return Route{strings.Join(shards, ","), string(key), "the supplier spreads the queue's tasks over these shards, by their ids"}, err
	}
	n := q.router.Route(db, key).Shard // Group has found no error
	why := "the supplier puts the queue there"
	if q.pinned(db) {
		why = "the database is pinned to the shard"
	}
	return Route{q.router.Topology().Name(n), string(key), why}, nil
}

// spreadOver names the shards that tasks of a spread queue are made for.
func (q *Queues) spreadOver(name Name) (shards []string, err error) {
	homes, err := q.router.TaskHomes(name.Command, name.Tenant)
	for _, home := range homes {
		shards = append(shards, q.router.Topology().Name(home))
	}
	return shards, err
}

// RouteTask tells where a task's own rows are.
func (q *Queues) RouteTask(db int, id []byte) Route {
	why := "the id is hashed over the default group"
	if ordinal, ok := supplier.ParseID(id); ok && ordinal < q.router.Topology().Count() {
		why = "the id was made for the shard"
	}
	if q.pinned(db) {
		why = "the database is pinned to the shard"
	}
	return Route{q.router.Topology().Name(q.Home(db, id)), leasePrefix + string(id), why}
}

// pinned tells whether the database has all its keys on one shard.
func (q *Queues) pinned(db int) bool { return pinned(q.router, db) }

func pinned(router *supplier.Router, db int) bool {
	return router.Route(db, []byte(tasksKey)).Kind != supplier.Partitioned
}
