package shard

import (
	"slices"
	"sync/atomic"
)

// watchKey names a key in the tables of those who wait for something to happen to it.
type watchKey struct {
	db  int
	key string
}

// Watch remembers keys, for WATCH, and whether one of them has changed since it was added. Changed means what it
// means in Redis: a committed command wrote to it, though it wrote the same value, or the key's deadline has passed. Deleting a
// missing key changes nothing. It belongs to one session; its zero value watches nothing.
type Watch struct {
	// touched is set by whoever commits a change, under the lock of that shard.
	touched atomic.Bool
	keys    []watchKey
	bytes   int // length of their names
	shards  Mask
	// deadline is the earliest of the keys' deadlines in unix ms, 0 for none. If a deadline is changed later, so is its key.
	deadline int64
}

// Shards is the set of shards that the keys are on.
func (w *Watch) Shards() Mask { return w.shards }

// Len is the number of keys.
func (w *Watch) Len() int { return len(w.keys) }

// Limits of what one Watch makes the server keep.
const (
	maxWatchedKeys  = 1 << 16
	maxWatchedBytes = 16 << 20 // length of their names
)

// HasRoom tells whether the keys can be added. One that is watched already counts again.
func (w *Watch) HasRoom(keys [][]byte) bool {
	bytes := w.bytes
	for _, key := range keys {
		bytes += len(key)
	}
	return len(w.keys)+len(keys) <= maxWatchedKeys && bytes <= maxWatchedBytes
}

// Dirty tells whether one of the keys has changed. The transaction holds the locks of Shards, so that the answer holds
// until it ends.
func (w *Watch) Dirty(tx *Tx) bool {
	return w.touched.Load() || w.deadline != 0 && w.deadline <= tx.nowMs
}

// Watch adds a key to w, which must have room for it. It commits what the transaction has changed so far, so that only later changes count: among
// them the removal of a key whose deadline has passed, which looking at it brings about.
func (tx *Tx) Watch(w *Watch, db int, key []byte) error {
	deadline, _, err := tx.DB(db).ExpireAt(key)
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	p, err := tx.store.placer.Place(db, key)
	if err != nil {
		return err
	}
	shards := MaskOf(p.Shard)
	if p.Partitioned {
		shards = tx.store.All()
	}
	k := watchKey{db, string(key)}
	if first := tx.store.shards[shards.next(0)]; slices.Contains(first.watches[k], w) {
		return nil
	}
	for n := shards.next(0); n >= 0; n = shards.next(n + 1) {
		tx.store.shards[n].addWatch(k, w)
	}
	w.keys = append(w.keys, k)
	w.bytes += len(key)
	w.shards.Union(shards)
	if deadline != 0 && (w.deadline == 0 || deadline < w.deadline) {
		w.deadline = deadline
	}
	return nil
}

// Unwatch makes w watch nothing. The transaction holds the locks of w.Shards().
func (tx *Tx) Unwatch(w *Watch) {
	for n := w.shards.next(0); n >= 0; n = w.shards.next(n + 1) {
		for _, k := range w.keys {
			tx.store.shards[n].removeWatch(k, w)
		}
	}
	clear(w.keys)
	w.keys, w.bytes, w.shards, w.deadline = w.keys[:0], 0, Mask{}, 0
	if cap(w.keys) > maxKeptWatch {
		w.keys = nil
	}
	w.touched.Store(false)
}

// maxKeptWatch bounds the room for keys that a Watch keeps.
const maxKeptWatch = 64

func (s *Shard) addWatch(k watchKey, w *Watch) {
	if s.watches == nil {
		s.watches = make(map[watchKey][]*Watch)
	}
	s.watches[k] = append(s.watches[k], w)
}

// removeWatch searches the watchers of the key, which are few: even thousands of pointers are read in microseconds.
func (s *Shard) removeWatch(k watchKey, w *Watch) {
	all := s.watches[k]
	i := slices.Index(all, w)
	if i < 0 {
		return // another shard's key
	}
	last := len(all) - 1
	all[i], all[last] = all[last], nil
	if last == 0 {
		delete(s.watches, k)
		return
	}
	s.watches[k] = all[:last]
}

// notifyWatches notes that a commit has changed the key.
func (s *Shard) notifyWatches(db int, key string) {
	for _, w := range s.watches[watchKey{db, key}] {
		w.touched.Store(true)
	}
}

// notifyFlush notes that the database is about to be emptied, for those watched keys that exist or that the transaction has
// changed before. If the transaction is aborted after all, or the key can't be read, the watcher has to try again for nothing,
// which it must be ready for anyway.
func (s *Shard) notifyFlush(db int) {
	for k, watchers := range s.watches {
		if k.db != db {
			continue
		}
		o := s.cache.dbs[db].objects[k.key]
		if o == nil {
			o, _ = s.load(db, []byte(k.key))
		}
		if o != nil && o.kind == KindNone && !o.dirty {
			continue
		}
		for _, w := range watchers {
			w.touched.Store(true)
		}
	}
}
