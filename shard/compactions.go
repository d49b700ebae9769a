package shard

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"codeq/internal/clock"
)

// compactions decides when Pebble may compact the tables of one shard: it grants as many compactions at a time as Pebble allows by what
// has piled up. Pebble's own scheduler does the same; but to notice that more are allowed than before, it looks ten times a second on each
// shard for ever, which was nearly all that an idle server did. This one looks only while a compaction waits that was refused.
//
// A shard that is being opened compacts nothing, unless it has a log to replay, but for compactions that only delete tables, for which Pebble
// asks nobody. A server that is stopped under load leaves much to compact,
// and doing it while the other shards are opened and what they track is read takes the processors from that: a start with a million
// leases took 1.2 to 2 s where it takes 0.4.
//
// Pebble's locks come before mu, so nothing of the database is called with mu held but GetAllowedWithoutPermission, which takes none.
type compactions struct {
	clock clock.Clock
	db    pebble.DBForCompaction // from Register on, which comes first

	mu       sync.Mutex
	held     bool // until the shard is open
	running  int
	refused  bool        // one may be waiting; then it is armed, or being granted
	granting bool        // somebody calls the database, and nobody else does meanwhile
	turn     sync.Cond   // signalled when granting ends
	timer    clock.Timer // nil until one was refused
	armed    bool
	closed   bool
	pause    time.Duration // behind a failure, and
	until    time.Time     // its end
}

// compactionInterval is how often a compaction that was refused is looked at.
const compactionInterval = 100 * time.Millisecond

// The pauses behind compactions that have failed.
const (
	firstCompactionPause = time.Second
	lastCompactionPause  = time.Minute
)

var _ pebble.CompactionScheduler = (*compactions)(nil)

func newCompactions(clk clock.Clock) *compactions {
	c := &compactions{clock: clk, held: true}
	c.turn.L = &c.mu
	return c
}

// begin lets compactions begin, once the database is open.
func (c *compactions) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		c.held = false
		c.grant()
	}
}

// Register is called when the database is opened.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister is called when the database is closed. From its return on the database is not called any more.
func (c *compactions) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for c.granting {
		c.turn.Wait()
	}
}

// TrySchedule asks for a compaction. When it is refused, the database remembers that it waits.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return false, nil
	case c.held:
		c.refused = true
		return false, nil
	case !c.pausing() && c.db.GetAllowedWithoutPermission() > c.running:
		c.running++
		return true, c
	}
	c.refused = true
	c.arm()
	return false, nil
}

// UpdateGetAllowedWithoutPermission says that more may be allowed. Those who wait are looked at soon anyway.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Done is called when a compaction has ended, so another one may begin.
func (c *compactions) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.grant()
}

// Started, MeasureCPU and CumulativeStats would be of use to who limits more than the number of compactions.
func (c *compactions) Started() {}

// MeasureCPU does nothing.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats does nothing.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// ended is told how each compaction has ended. One that has failed, as on a full disk, would be tried again at once: there is a pause before that, which
// grows as long as they fail.
func (c *compactions) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.pause = 0
		return
	}
	c.pause = min(max(2*c.pause, firstCompactionPause), lastCompactionPause)
	c.until = c.clock.Now().Add(c.pause)
}

// pausing tells whether nothing may begin, since something has failed. The caller holds mu.
func (c *compactions) pausing() bool { return c.pause > 0 && c.clock.Now().Before(c.until) }

// arm has what was refused looked at after a while. The caller holds mu.
func (c *compactions) arm() {
	switch {
	case c.armed:
		return
	case c.timer == nil:
		c.timer = c.clock.AfterFunc(compactionInterval, func() { go c.look() }) // ends when it has looked
	default:
		c.timer.Reset(compactionInterval)
	}
	c.armed = true
}

func (c *compactions) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	c.grant()
}

// grant lets what waits begin, as far as it is allowed. The caller holds mu, which is released meanwhile.
func (c *compactions) grant() {
	for c.granting && !c.closed {
		c.turn.Wait()
	}
	if c.closed || !c.refused {
		return
	}
	c.granting = true
	for accepted := true; accepted && c.refused && !c.closed && !c.pausing() && c.db.GetAllowedWithoutPermission() > c.running; {
		c.refused = false // before the database is asked, lest it be refused again meanwhile and that be forgotten
		c.mu.Unlock()
		waiting, _ := c.db.GetWaitingCompaction()
		accepted = waiting && c.db.Schedule(c)
		c.mu.Lock()
		c.refused = c.refused || waiting // there may be more
		if accepted {
			c.running++
		}
	}
	c.granting = false
	c.turn.Broadcast()
	if c.refused && !c.closed {
		c.arm()
	}
}
