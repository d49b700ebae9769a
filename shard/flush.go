package shard

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// flushGuard bounds what a shard does while its flushes fail. Pebble tries a failed flush again at once and for ever:
// with a full disk or a directory that is gone, that is a busy core, a flood of messages and in the end a writer who waits
// for room in memory while it holds its shards. So each try is preceded by a pause twice as long as the last one, and
// when that has not helped the store fails. Nothing is lost: what is acknowledged is in the log.
type flushGuard struct {
	store    *Store
	shard    string
	failures atomic.Int32          // in a row
	ended    atomic.Pointer[error] // how the last flush ended
}

const (
	firstFlushPause  = 10 * time.Millisecond
	maxFlushFailures = 11 // in a row, with some ten seconds of pauses between them, end the store
)

// flushEnded is told how every flush has ended. Its error needn't be a failure: a flush that had nothing to write has
// one, too. Only a failure is reported to backgroundError as well, right after this.
func (g *flushGuard) flushEnded(info pebble.FlushInfo) {
	g.store.nudgeTrimmer()
	g.ended.Store(&info.Err)
	if info.Err == nil {
		g.failures.Store(0)
	}
}

// backgroundError is told of every failure of flushes, compactions and the like.
func (g *flushGuard) backgroundError(err error) {
	g.store.logger.Error("background error", "shard", g.shard, "err", err)
	if ended := g.ended.Load(); ended == nil || *ended == nil || !errors.Is(err, *ended) {
		return
	}
	failures := g.failures.Add(1)
	if log := g.store.opened.Load(); log != nil && log.failed() != nil {
		return // which is why it fails, and final already
	}
	if failures >= maxFlushFailures {
		_ = g.store.fail(fmt.Errorf("shard %s: writing its tables failed %d times in a row, the last time with: %w; "+
			"what is acknowledged is in the log: make room on the disk or repair it, and start again", g.shard, failures, err))
	}
}

// pause precedes every new table, with no lock of Pebble's held. Closing the store ends it.
func (g *flushGuard) pause() {
	failures := g.failures.Load()
	if failures == 0 {
		return
	}
	timer := g.store.clock.NewTimer(firstFlushPause << (min(failures, maxFlushFailures-1) - 1))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-g.store.stop:
	}
}
