package commands

import (
	"sync"
	"time"

	"codeq/shard"
)

// counts is what the server, its network and its store have counted.
type counts struct {
	calls    int64 // commands that were carried out, those of scripts included
	in, out  int64 // bytes
	rejected int64 // connections
	keys     shard.Stats
}

// counts is what has been counted until now. The network and the store count from their start on.
func (s *Server) counts(tx *shard.Tx) counts {
	n := counts{rejected: s.network.Rejected(), keys: tx.Stats()}
	n.in, n.out = s.network.Traffic()
	for command := range s.table.All() {
		n.calls += command.stats.took.count()
	}
	return n
}

// rateInterval is the least time over which a rate is taken.
const rateInterval = time.Second

// counters tells what has been counted since the last CONFIG RESETSTAT, and at which rate. A rate is that between two INFOs
// which are at least rateInterval apart, the first being the server's start, so that nothing has to be measured while nobody asks.
type counters struct {
	mu    sync.Mutex
	base  counts    // at the last CONFIG RESETSTAT; its calls are 0, since they are counted anew
	at    time.Time // when last was taken
	last  counts
	rates rates // until then
}

// rates are amounts per second.
type rates struct{ calls, in, out float64 }

// sinceReset is what has been counted since the last CONFIG RESETSTAT, given the counts now.
func (c *counters) sinceReset(now counts) counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	now.in -= c.base.in
	now.out -= c.base.out
	now.rejected -= c.base.rejected
	now.keys.Expired -= c.base.keys.Expired
	now.keys.Hits -= c.base.keys.Hits
	now.keys.Misses -= c.base.keys.Misses
	now.keys.RowsRead -= c.base.keys.RowsRead
	now.keys.RowsWritten -= c.base.keys.RowsWritten
	now.keys.Transactions -= c.base.keys.Transactions
	now.keys.Spread -= c.base.keys.Spread
	return now
}

// perSecond is the latest rate, given the counts now.
func (c *counters) perSecond(at time.Time, now counts) rates {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := at.Sub(c.at)
	if passed >= rateInterval {
		per := func(before, after int64) float64 { return float64(after-before) / passed.Seconds() }
		c.rates = rates{per(c.last.calls, now.calls), per(c.last.in, now.in), per(c.last.out, now.out)}
		c.at, c.last = at, now
	}
	return c.rates
}

// reset counts from now on.
func (c *counters) reset(at time.Time, now counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now.calls = 0
	c.base, c.at, c.last, c.rates = now, at, now, rates{}
}

// resetStats sets what INFO counts back to zero.
func (s *Server) resetStats(tx *shard.Tx) {
	s.totals.connections.Store(0)
	s.totals.conflicts.Store(0)
	s.totals.panics.Store(0)
	s.saves.reset()
	s.resetCommandStats()
	s.counters.reset(s.clock.Now(), s.counts(tx))
}

// resetCommandStats sets what is counted of commands and their errors back to zero.
func (s *Server) resetCommandStats() {
	s.errors.reset()
	for command := range s.table.All() {
		command.stats.reset()
	}
}
