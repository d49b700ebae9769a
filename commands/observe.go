package commands

import (
	"errors"
	"strings"
	"time"

	"codeq/shard"
)

// Observing. Commands that tell of the whole server, for people and for monitoring, do not wait for a shard that hangs: that is when they
// are needed. They are of scopeSession, look at the shards through observe, and say which have not answered.

// shardPatience is how long commands that observe wait for the locks of shards, about.
const shardPatience = 100 * time.Millisecond

// observe calls fn on a transaction over the shards, as far as they can be locked in time. Where the call has a transaction, that one
// is used, and they all can. fn may be called twice, so it replies when nothing can fail any more.
func (c *Call) observe(shards shard.Mask, fn func(tx *shard.Tx) error) error {
	if c.tx != nil {
		return c.tx.Hold(shards, func() error { return fn(c.tx) })
	}
	ss := c.session
	ss.tx.BeginWithin(shards, shardPatience)
	defer func() { ss.pos = max(ss.pos, ss.tx.End()) }()
	err := fn(ss.tx)
	if errors.Is(err, shard.ErrBusy) {
		// Something was due that a look has to do, with a shard that is busy. It is left to the timekeeper.
		ss.tx.Abort()
		ss.tx.Mute(true)
		err = fn(ss.tx)
	}
	if err == nil {
		err = ss.tx.Commit() // what expired, or was due
	}
	return err
}

// unanswered names the shards that a transaction of observe has not got.
func (c *Call) unanswered(tx *shard.Tx) string {
	var names []string
	locked := tx.Locked()
	for ordinal := range c.server.store.Shards() {
		if !locked.Has(ordinal) {
			names = append(names, c.server.router.Topology().Name(ordinal))
		}
	}
	return strings.Join(names, ",")
}
