package shard

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Staging the rows of a commit takes as long as half of what the commit has to do besides, and nobody waits for it: what a shard has
// just written is in its cache as a rule. So a commit only hands its rows over, and a goroutine, the stager, stages them, on another
// core if there is one to be had. It is woken when there are enough of them to be worth it.
//
// Whoever looks into the stages has everything staged before (stagePending), and so has a commit when the stager falls behind. Both hold
// the shard, so until they let go of it nothing more is handed over, and the stages are theirs. See ADR 0025.

const (
	// pendingPart of a stage's bytes of pending rows wake the stager.
	pendingPart = 32
	// pendingMost times as many have the commit stage them itself.
	pendingMost = 4
)

// pending is what is committed and not yet staged.
type pending struct {
	wake    chan struct{} // capacity 1
	bytes   atomic.Int64  // handed over and not yet staged
	staging sync.Mutex    // held while rows are staged
	spare   handover      // guarded by staging

	mu      sync.Mutex
	filling handover // guarded by mu
}

// handover is the rows of commits, one behind the other.
type handover struct {
	commits []committed
	rows    []byte   // as in a batch
	marked  []uint32 // see Shard.marked
}

// committed says how much of a handover is a commit's.
type committed struct{ rows, count, marked int }

func (h *handover) reset() {
	h.commits, h.rows, h.marked = h.commits[:0], h.rows[:0], h.marked[:0]
}

// handOver adds the committed batch to what is to be staged.
func (s *Shard) handOver() {
	p := &s.pending
	rows, count := s.batch.Repr()[batchrepr.HeaderLen:], int(s.batch.Count())
	p.mu.Lock()
	h := &p.filling
	h.commits = append(h.commits, committed{len(rows), count, len(s.marked)})
	h.rows, h.marked = append(h.rows, rows...), append(h.marked, s.marked...)
	p.mu.Unlock()
	switch n := int(p.bytes.Add(int64(len(rows)))); {
	case n >= pendingMost*s.store.opts.pendingBytes:
		s.stagePending()
	case n >= s.store.opts.pendingBytes:
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// stagePending returns when everything that is committed is staged. Its caller holds the shard, unless it is the stager.
func (s *Shard) stagePending() {
	if s.pending.bytes.Load() > 0 {
		s.stageHandedOver()
	}
}

func (s *Shard) stageHandedOver() {
	p := &s.pending
	p.staging.Lock()
	defer p.staging.Unlock()
	p.mu.Lock()
	h := p.filling
	p.filling = p.spare
	p.mu.Unlock()
	rows, marked := h.rows, h.marked
	for _, c := range h.commits {
		if err := s.stageRows(batchrepr.Reader(rows[:c.rows]), c.count, marked[:c.marked]); err != nil {
			_ = s.store.fail(err) // the rows are staged
		}
		rows, marked = rows[c.rows:], marked[c.marked:]
	}
	p.bytes.Add(-int64(len(h.rows)))
	h.reset()
	p.spare = h
}

// runStager stages what is handed over until the store is closed.
func (s *Shard) runStager() {
	for {
		select {
		case <-s.store.stop:
			return
		case <-s.pending.wake:
			s.stagePending()
		}
	}
}
