package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk that is full ends the store: the log can't be written, and a start has no room for what it rewrites. So the store tells before that when there
// is little room, for what adds data to be refused while what takes it out goes on; and it makes room meanwhile: it keeps the log short, and has what was
// deleted removed from the tables. RabbitMQ does the same by its disk_free_limit. See ADR 0033.

// diskRoom is what is known of the room on the disk.
type diskRoom struct {
	limit atomic.Int64 // bytes; with fewer, it is low
	free  atomic.Int64 // bytes; negative: nobody knows
	low   atomic.Bool

	clearing atomic.Bool // tables are compacted
	cleared  time.Time   // when that was begun the last time, and
	upTo     uint64      // where the log ended then; both are known to who watches only
}

const (
	// diskInterval is how often it is looked at. It is looked at whenever a file of the log is full, besides.
	diskInterval = time.Second
	// clearInterval is how often tables are compacted for the sake of room, at most.
	clearInterval = 30 * time.Second
)

// DiskLow tells whether the disk has less room than the limit. False if it does not tell.
func (st *Store) DiskLow() bool { return st.disk.low.Load() }

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
			if st.lookAtDisk(); st.DiskLow() {
				st.clearSoon(ctx)
			}
			timer.Reset(diskInterval)
		case <-st.stop:
			return
		}
	}
}

// lookAtDisk finds out how much room there is, and tells whether the disk ever tells. File systems that have no size, or don't know it, are never
// low.
func (st *Store) lookAtDisk() (tells bool) {
	usage, err := st.fs.GetDiskUsage(st.opts.Dir)
	free := int64(min(usage.AvailBytes, 1<<62))
	if err != nil || usage.TotalBytes == 0 {
		free = -1
	}
	st.disk.free.Store(free)
	limit := st.disk.limit.Load()
	low := free >= 0 && free < limit
	if st.disk.low.Swap(low) != low {
		if low {
			st.logger.Warn("the disk is nearly full: commands that add data are refused", "dir", st.opts.Dir, "free", free, "limit", limit)
			st.nudgeTrimmer()
		} else {
			st.logger.Info("the disk has room again: commands that add data are carried out", "dir", st.opts.Dir, "free", free, "limit", limit)
		}
	}
	return !errors.Is(err, vfs.ErrUnsupported)
}

// clearSoon begins to clear the tables, unless it was done a short while ago or nothing was written since. Only the watcher calls it.
func (st *Store) clearSoon(ctx context.Context) {
	d, now, written := &st.disk, st.clock.Now(), st.log.written.Load()
	if d.clearing.Load() || written == d.upTo || !d.cleared.IsZero() && now.Sub(d.cleared) < clearInterval {
		return
	}
	d.cleared, d.upTo = now, written
	d.clearing.Store(true)
	st.goroutines.Go(func() { // ends with ctx, or when it is done
		defer d.clearing.Store(false)
		for _, s := range st.shards {
			if err := s.clearTables(ctx); err != nil && ctx.Err() == nil {
				st.logger.Warn("tables not compacted to make room on the disk", "shard", s.name, "err", err)
			}
		}
	})
}

// clearTables has all tables of the shard written anew, without what was deleted, if there is ample room to do so: half of what is free. Pebble itself
// leaves them alone until a level has grown, which it may never do again, and what long values take up goes only with their keys.
func (s *Shard) clearTables(ctx context.Context) error {
	var size int64
	for _, level := range s.db.Metrics().Levels {
		size += level.TablesSize
	}
	if size > s.store.DiskFree()/2 {
		return nil
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
	return s.db.Compact(ctx, []byte{0}, []byte{0xff}, false)
}

// logRoom is how many bytes of log may stay before the shards are flushed: few, when the disk is nearly full.
func (st *Store) logRoom() int64 {
	if st.DiskLow() {
		return min(st.opts.LogMax, 2*st.opts.LogSegment)
	}
	return st.opts.LogMax
}
