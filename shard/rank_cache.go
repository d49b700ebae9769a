package shard

import "container/list"

// rankIndexes are the rank indexes of a shard's sorted sets. They are found by collection id, so renaming a key, moving it or
// swapping databases is nothing to them, and they outlive the cached object, which an aborted transaction takes away. They
// are charged to the object cache and have a share of it, of which the least recently used one goes first. One whose
// collection is dead goes when the janitor clears that.
type rankIndexes struct {
	cache   *objectCache
	byID    map[uint64]*list.Element // of *rankIndex
	recent  list.List                // most recently used first
	bytes   int
	changed []*rankIndex // by the transaction in progress
}

// rankShare is the part of the cache that all rank indexes may take, and rankShare/2 the part of that for one.
const rankShare = 4

func (r *rankIndexes) budget() int { return r.cache.budget / rankShare }

// get returns the index of a collection, or nil.
func (r *rankIndexes) get(id uint64) *rankIndex {
	if el := r.byID[id]; el != nil {
		return el.Value.(*rankIndex)
	}
	return nil
}

// use returns the index of a collection, or nil, and keeps it for longer.
func (r *rankIndexes) use(id uint64) *rankIndex {
	el := r.byID[id]
	if el == nil {
		return nil
	}
	r.recent.MoveToFront(el)
	return el.Value.(*rankIndex)
}

// add keeps an index. One that is fresh is known to the transaction in progress alone until the commit.
func (r *rankIndexes) add(ix *rankIndex) {
	r.byID[ix.id] = r.recent.PushFront(ix)
	r.charge(ix)
	if ix.fresh {
		r.changed = append(r.changed, ix)
	}
	// One that the transaction in progress has changed may go as well: if it is made again before the end, it is fresh.
	for r.bytes > r.budget() && r.recent.Len() > 1 {
		r.drop(r.recent.Back().Value.(*rankIndex).id)
	}
}

func (r *rankIndexes) charge(ix *rankIndex) {
	r.bytes += ix.bytes - ix.charged
	r.cache.bytes += ix.bytes - ix.charged
	ix.charged = ix.bytes
}

func (r *rankIndexes) drop(id uint64) {
	el := r.byID[id]
	if el == nil {
		return
	}
	ix := el.Value.(*rankIndex)
	ix.bytes = 0
	r.charge(ix)
	r.recent.Remove(el)
	delete(r.byID, id)
}

// change counts an entry that comes to a collection or leaves it, if that has an index.
func (r *rankIndexes) change(id uint64, e scored, by int64) {
	if len(r.byID) == 0 {
		return
	}
	ix := r.get(id)
	if ix == nil {
		return
	}
	if len(ix.changes) == 0 && !ix.fresh {
		r.changed = append(r.changed, ix)
	}
	ix.change(e, by)
}

// settle makes the transaction's changes final. What has become small is walked over from now on.
func (r *rankIndexes) settle() {
	for _, ix := range r.changed {
		ix.forgetChanges()
		if ix.fresh = false; ix.total < rankAt/2 {
			r.drop(ix.id)
		}
	}
	r.endChanges()
}

// undo takes the transaction's changes back.
func (r *rankIndexes) undo() {
	for _, ix := range r.changed {
		if ix.undo(); ix.fresh {
			r.drop(ix.id)
		}
	}
	r.endChanges()
}

func (r *rankIndexes) endChanges() {
	clear(r.changed)
	r.changed = r.changed[:0]
}
