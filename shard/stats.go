package shard

import (
	"errors"
	"sync"
	"unsafe"
)

// errClosing ends a Save that the store's end has overtaken.
var errClosing = errors.New("shard: not saved: the store is being closed")

// Stats are what a store counts from its start on.
type Stats struct {
	Expired int64 // keys that were removed since their deadline had passed
	Hits    int64 // lookups of keys that were there, as far as Tx.CountLookups has them counted
	Misses  int64 // the same, of keys that were not
	// RowsRead are the rows that were looked for or stepped over, those included that are no longer there: what reading costs
	// beyond the cache. RowsWritten are those of commits; a range of rows that is removed as one counts once. What the janitors
	// do does not count.
	RowsRead, RowsWritten int64
	// Transactions are those that have ended; Spread are those of them that held more than one shard.
	Transactions, Spread int64
}

// told is what the shards had counted when they were last asked.
type told struct {
	mu     sync.Mutex
	shards []Stats // guarded by mu
}

// Stats adds up what the shards have counted. Of one that the transaction does not hold it takes what the shard had counted when
// somebody last asked, so that no sum ever becomes less.
func (tx *Tx) Stats() (sum Stats) {
	told := &tx.store.told
	told.mu.Lock()
	defer told.mu.Unlock()
	for n, s := range tx.store.shards {
		if tx.locked.Has(n) {
			told.shards[n] = s.stats
		}
		last := &told.shards[n]
		sum.Expired += last.Expired
		sum.Hits += last.Hits
		sum.Misses += last.Misses
		sum.RowsRead += last.RowsRead
		sum.RowsWritten += last.RowsWritten
		sum.Transactions += last.Transactions
		sum.Spread += last.Spread
	}
	return sum
}

// CountLookups says whether the keys that are looked up from now on count as hits and misses, which Redis counts for commands
// that read. A key that one argument names counts once, however often it is looked up in a row; a partitioned one by its first
// fragment that is.
func (tx *Tx) CountLookups(on bool) { tx.counting, tx.counted, tx.ignored = on, nil, nil }

// IgnoreLookups leaves one argument out of what CountLookups has counted.
func (tx *Tx) IgnoreLookups(key []byte) { tx.ignored = unsafe.SliceData(key) }

// countLookup counts the lookup of a key, known by its place in memory, which yielded the object.
func (tx *Tx) countLookup(s *Shard, key []byte, o *object) {
	argument := unsafe.SliceData(key)
	if argument == tx.counted || argument == tx.ignored {
		return
	}
	tx.counted = argument
	if o.kind == KindNone {
		s.stats.Misses++
		s.noteOf(NoteKeyMiss, "keymiss", o)
	} else {
		s.stats.Hits++
	}
}

// SetActiveExpiry says whether keys whose deadline has passed are removed in the background. Otherwise they are gone for
// everybody all the same, but take up space, and count in DB.Size, until they are looked up.
func (st *Store) SetActiveExpiry(on bool) {
	st.lazyExpiry.Store(!on)
	if !on {
		return
	}
	for _, s := range st.shards {
		s.wakeJanitor()
	}
}

// Save makes all that is committed durable, without waiting for the next fsync that the policy brings, and writes it into
// tables, so that a start has nothing of it to replay; then it deletes the files of the log that no shard needs any more. The
// caller must hold no locks.
func (st *Store) Save() error {
	if err := st.Err(); err != nil {
		return err
	}
	if err := st.log.sync(); err != nil {
		return err
	}
	if err := st.flushAll(st.stop); err != nil {
		return err
	}
	return st.trim()
}

// SaveSoon has the trimmer call Save, and then done with its error, unless the store is closed before. It is called again only
// when that has happened.
func (st *Store) SaveSoon(done func(error)) { st.saves <- done }

// ShardStats is what is known of one shard.
type ShardStats struct {
	Name string
	// Answered tells whether the transaction holds the shard. Without that nothing else is known but its size.
	Answered  bool
	Keys      int64
	Groups    int64 // that are tracked
	Leases    int64
	DiskBytes int64
}

// ShardStats describes one shard.
func (tx *Tx) ShardStats(ordinal int) ShardStats {
	s := tx.store.shards[ordinal]
	st := ShardStats{Name: s.name, Answered: tx.locked.Has(ordinal), DiskBytes: int64(s.db.Metrics().DiskSpaceUsage())}
	if !st.Answered {
		return st
	}
	for i := range s.state.spaces {
		st.Keys += s.state.spaces[i].keys
	}
	for k := range s.times.registry {
		if k.kind == listedGroup {
			st.Groups++
		}
	}
	for _, n := range s.times.lapses {
		st.Leases += int64(n)
	}
	return st
}
