package commands

import (
	"errors"

	"codeq/shard"
)

// Turns. Where queues are spread over the shards, who asks for any task, by Q.CLAIM or a claim script of his own, is served from one
// shard, with its lock alone, and from the next one if that has nothing. Every try is a transaction, which sees the fragments of
// its shard only; each call begins with another shard than the one before, so that all get their turn.

// inTurns runs fn on one shard after the other, beginning with the one whose turn it is at the key, until it has found something.
func (c *Call) inTurns(key []byte, fn func() (found bool, err error)) (found bool, err error) {
	store := c.server.store
	mark, shards, turn := c.Out.Len(), store.Shards(), store.Turn(c.db, key)
	for i := range shards {
		ordinal := int((uint64(turn) + uint64(i)) % uint64(shards))
		c.Out.Truncate(mark)
		found, err = c.apart(shard.MaskOf(ordinal), func() (bool, error) {
			c.tx.Narrow(ordinal)
			return fn()
		})
		switch {
		case err != nil:
			return false, err
		case found:
			if i > 0 {
				store.TurnTaken(c.db, key, ordinal)
			}
			return true, nil
		}
	}
	return false, nil
}

// apart runs fn in a transaction of its own, and again with the locks that it turns out to need.
func (c *Call) apart(shards shard.Mask, fn func() (found bool, err error)) (found bool, err error) {
	mark := c.Out.Len()
	for try := 1; ; try++ {
		found, err = c.tryApart(shards, fn)
		if !errors.Is(err, shard.ErrConflict) {
			return found, err
		}
		c.server.totals.conflicts.Add(1)
		c.Out.Truncate(mark)
		if shards = c.session.tx.Wanted(); try >= maxTries {
			shards = c.server.store.All()
		}
	}
}

// tryApart is one try of apart. What fn undoes it is said to have found.
func (c *Call) tryApart(shards shard.Mask, fn func() (found bool, err error)) (found bool, err error) {
	ss := c.session
	if err := c.server.store.Err(); err != nil {
		return false, err
	}
	ss.tx.Begin(shards)
	c.tx = ss.tx
	defer func() {
		c.tx = nil
		ss.pos = max(ss.pos, ss.tx.End())
	}()
	ss.tx.Mute(c.cmd.Shards != nil)
	found, err = fn()
	if err == errUndo {
		ss.tx.Abort()
		return true, nil
	}
	if err == nil {
		err = ss.tx.Commit()
	}
	return found, err
}
