package shard

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk that is full ends the store: the log can't be written, and what the server has in memory may not be what the log says (see fail). So the store tells
// before that when there is little room, for what adds data to be refused while what takes it out goes on; and it makes room meanwhile: it keeps the log short, and
// has what was deleted removed from the tables. RabbitMQ does the same by its disk_free_limit. See ADR 0033.

// diskRoom is what is known of the room on the disk.
type diskRoom struct {
	limit atomic.Int64 // bytes; with fewer, it is low
	free  atomic.Int64 // bytes; negative: nobody knows
	state atomic.Int32 // one of the following
	mu    sync.Mutex   // one looks at a time, lest what an earlier one saw is what stays

	clearing atomic.Bool // tables are compacted; who does that has the following, else who watches
	next     time.Time   // when it may begin the next time
	pause    time.Duration
}

const (
	diskHasRoom = iota
	diskIsLow   // less than the limit is free
	diskIsSpent // less than a quarter of it
)

const (
	diskSpentPart   = 4 // of the limit, below which all that writes is refused but what deletes
	diskCompactPart = 8 // of the limit, below which no table is compacted
	// diskInterval is how often the disk is looked at, and diskLowInterval while it is low. It is looked at whenever a file of the log is full, besides.
	diskInterval    = time.Second
	diskLowInterval = 100 * time.Millisecond
	// firstClearing is how long after one clearing of the tables the next begins, twice as long after each that was of little use, up to lastClearing.
	firstClearing = 30 * time.Second
	lastClearing  = time.Hour
	// largeOnLowDisk is the bytes of a commit that is measured against what is free.
	largeOnLowDisk = 8 << 20
)

// ErrNoRoom is returned by Commit when the disk is low and the transaction would take a good part of what is free.
var ErrNoRoom = errors.New("the disk has too little room for the transaction")

// errDiskSpent ends a compaction.
var errDiskSpent = errors.New("the disk has too little room to compact tables")

// DiskLow tells whether the disk has less room than the limit. False if it does not tell.
func (st *Store) DiskLow() bool { return st.disk.state.Load() >= diskIsLow }

// DiskSpent tells whether it has less than a quarter of the limit.
func (st *Store) DiskSpent() bool { return st.disk.state.Load() >= diskIsSpent }

// DiskFree is how many bytes the disk with the data has left for the server, negative if it does not tell.
func (st *Store) DiskFree() int64 { return st.disk.free.Load() }

// SetDiskLimit changes the limit of DiskLow, in bytes; 0: there is none.
func (st *Store) SetDiskLimit(bytes int64) {
	st.disk.limit.Store(bytes)
	st.lookAtDisk()
}

// watchDisk looks at the disk until the store is closed.
func (st *Store) watchDisk() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := st.clock.NewTimer(diskInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
			interval := diskInterval
			if st.lookAtDisk(); st.DiskLow() {
				st.clearSoon(ctx)
				interval = diskLowInterval
			}
			timer.Reset(interval)
		case <-st.stop:
			return
		}
	}
}

// diskUsage is how many bytes are free; negative, if the file system has no size or does not know it.
func (st *Store) diskUsage() (free int64, err error) {
	usage, err := st.fs.GetDiskUsage(st.opts.Dir)
	if err != nil || usage.TotalBytes == 0 {
		return -1, err
	}
	return int64(min(usage.AvailBytes, 1<<62)), nil
}

// lookAtDisk finds out how much room there is, and tells whether the disk ever tells. One that does not is never low.
func (st *Store) lookAtDisk() (tells bool) {
	st.disk.mu.Lock()
	defer st.disk.mu.Unlock()
	free, err := st.diskUsage()
	st.disk.free.Store(free)
	limit, state := st.disk.limit.Load(), int32(diskHasRoom)
	switch {
	case free < 0:
	case free < limit/diskSpentPart:
		state = diskIsSpent
	case free < limit:
		state = diskIsLow
	}
	if before := st.disk.state.Swap(state); before != state {
		log, text := st.logger.Warn, "the disk is nearly full: commands that add data are refused"
		switch state {
		case diskIsSpent:
			text = "the disk is all but full: commands that write are refused, but for those that delete"
		case diskHasRoom:
			log, text = st.logger.Info, "the disk has room again: no command is refused for it"
		}
		log(text, "dir", st.opts.Dir, "free", free, "limit", limit)
		if before == diskHasRoom {
			st.nudgeTrimmer()
		}
	}
	return !errors.Is(err, vfs.ErrUnsupported)
}

// roomToCompact returns an error when the rest of the room is not for compactions, which take some before they give some back.
func (st *Store) roomToCompact() error {
	free, _ := st.diskUsage()
	if free >= 0 && free < st.disk.limit.Load()/diskCompactPart {
		return errDiskSpent
	}
	return nil
}

// roomToCommit returns ErrNoRoom for a transaction that would take a good part of what a low disk has left: what it writes goes to the log
// and to a table.
func (tx *Tx) roomToCommit() error {
	if !tx.store.DiskLow() {
		return nil
	}
	var size int64
	for i := range tx.parts {
		size += int64(len(tx.parts[i].repr))
	}
	if size >= largeOnLowDisk && 3*size > tx.store.DiskFree() {
		return ErrNoRoom
	}
	return nil
}

// clearSoon begins to clear the tables, unless it was done a short while ago. Only the watcher calls it.
func (st *Store) clearSoon(ctx context.Context) {
	d := &st.disk
	if d.clearing.Load() || st.clock.Now().Before(d.next) {
		return
	}
	d.clearing.Store(true)
	st.goroutines.Go(func() { // ends with ctx, or when it is done
		defer d.clearing.Store(false)
		var size, gained int64
		for _, s := range st.shards {
			before := int64(s.db.Metrics().DiskSpaceUsage())
			if err := s.clearTables(ctx); err != nil && ctx.Err() == nil {
				st.logger.Warn("tables not compacted to make room on the disk", "shard", s.name, "err", err)
			}
			size, gained = size+before, gained+before-int64(s.db.Metrics().DiskSpaceUsage())
		}
		if d.pause = min(max(2*d.pause, firstClearing), lastClearing); gained > size/10 {
			d.pause = firstClearing
		}
		d.next = st.clock.Now().Add(d.pause)
	})
}

// clearTables has the tables of the shard written anew, without what was deleted, if anything was written since that was done. Pebble itself leaves them alone until a
// level has grown, which it may never do again, and what long values take up goes only with their keys. It is done by ranges of keys, each of which takes a quarter of
// what is free, as far as the tables tell.
func (s *Shard) clearTables(ctx context.Context) error {
	s.mu.Lock()
	number := s.state.number
	s.mu.Unlock()
	free := s.store.DiskFree()
	switch m := s.db.Metrics(); {
	case number == s.cleared:
		return nil
	case int64(m.MemTable.Size) > free/2:
		return errDiskSpent // to write them into tables
	}
	flushed, err := s.beginFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	bounds, err := s.rangesOf(free / 4)
	for i := 1; i < len(bounds) && err == nil; i++ {
		if err = s.store.roomToCompact(); err == nil {
			err = s.db.Compact(ctx, bounds[i-1], bounds[i], false)
		}
	}
	if err == nil {
		s.cleared = number
	}
	return err
}

// rangesOf cuts the keys of the shard where the tables between two cuts have so many bytes, and returns the cuts, with both ends.
func (s *Shard) rangesOf(most int64) ([][]byte, error) {
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, err
	}
	tables := slices.Concat(levels...)
	slices.SortFunc(tables, func(a, b pebble.SSTableInfo) int { return bytes.Compare(a.Smallest.UserKey, b.Smallest.UserKey) })
	bounds, size := [][]byte{{0}}, int64(0)
	for _, table := range tables {
		if size > most && bytes.Compare(bounds[len(bounds)-1], table.Smallest.UserKey) < 0 {
			bounds, size = append(bounds, table.Smallest.UserKey), 0
		}
		size += int64(table.Size)
	}
	return append(bounds, []byte{0xff}), nil
}

// logRoom is how many bytes of log may stay before the shards are flushed: few, when the disk is nearly full.
func (st *Store) logRoom() int64 {
	if st.DiskLow() {
		return min(st.opts.LogMax, 2*st.opts.LogSegment)
	}
	return st.opts.LogMax
}
