package codeqclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// moveLimit is how many due tasks a claim moves first.
	moveLimit = 100
	// ClaimTries is how many ids a script takes from one list before it goes on to the next.
	ClaimTries = 10
	// repairLimit is how many claimed tasks one repair looks at.
	repairLimit = 200
)

// ClaimScript takes KEYS inprog, codeq:tasks, pending:9 … pending:0 and returns the id and the task.
const ClaimScript = `
local tries = tonumber(ARGV[1])
for list = 3, #KEYS do
  for try = 1, tries do
    local id = redis.call('RPOP', KEYS[list])
    if not id then
      break
    end
    if redis.call('SADD', KEYS[1], id) == 1 then
      return {id, redis.call('HGET', KEYS[2], id)}
    end
  end
end
return false
`

// OldClaimScript takes KEYS pending, inprog and returns the id alone.
const OldClaimScript = `
for try = 1, tonumber(ARGV[1]) do
  local id = redis.call('RPOP', KEYS[1])
  if not id then
    return false
  end
  if redis.call('SADD', KEYS[2], id) == 1 then
    return id
  end
end
return false
`

// Claim takes the next task of the queue for a worker, nil when there is none. The lease is in whole seconds.
//
// Move due first · EVALSHA (EVAL on NOSCRIPT) · P: SETEX codeq:lease:id lease worker · HSET json · ZADD ttl.
//
// A lost reply to the script is returned, since nobody knows which task it took: repair finds that one without a
// lease. A lost reply to the pipeline is recovered from, since the task is known and held.
func (c *Client) Claim(ctx context.Context, q Queue, worker string, lease time.Duration) (*Task, error) {
	if _, err := c.MoveDue(ctx, q, moveLimit); err != nil {
		return nil, err
	}
	c.claims.RLock()
	defer c.claims.RUnlock()
	take := c.take
	if c.opts.OldClaim {
		take = c.takeOld
	}
	t, err := take(ctx, q)
	if err != nil || t == nil {
		return nil, err
	}
	t.Status, t.LastKnownLocation, t.WorkerID = InProgress, atInProg, worker
	t.LeaseUntil = c.opts.Now().Add(lease).UTC().Format(leaseStamp)
	t.Attempts++
	err = c.again(ctx, func() error {
		_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "SETEX", keyLease+t.ID, int64(lease/time.Second), worker)
			c.save(ctx, p, t)
			return nil
		})
		return err
	})
	return t, err
}

func (c *Client) take(ctx context.Context, q Queue) (*Task, error) {
	keys := []string{q.InProgress(), keyTasks}
	for priority := MaxPriority; priority >= 0; priority-- {
		keys = append(keys, q.Pending(priority))
	}
	reply, err := redis.NewScript(ClaimScript).Run(ctx, c.rdb, keys, ClaimTries).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(reply) != 2 {
		return nil, fmt.Errorf("claim script returned %d values", len(reply))
	}
	text, ok := reply[1].(string)
	if !ok {
		return nil, fmt.Errorf("claim %v: %w", reply[0], ErrGone)
	}
	t, err := decodeTask(text)
	return &t, err
}

func (c *Client) takeOld(ctx context.Context, q Queue) (*Task, error) {
	for priority := MaxPriority; priority >= 0; priority-- {
		keys := []string{q.Pending(priority), q.InProgress()}
		id, err := redis.NewScript(OldClaimScript).Run(ctx, c.rdb, keys, ClaimTries).Text()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var t Task
		err = c.again(ctx, func() (err error) {
			t, err = c.load(ctx, id)
			return err
		})
		return &t, err
	}
	return nil, nil
}

// Repair puts back tasks whose lease has run out, or never came to be, and returns how many.
//
// SRANDMEMBER inprog 200 · P: TTL codeq:lease:id … · P: HGET … · nack each whose TTL ≤ 0.
func (c *Client) Repair(ctx context.Context, q Queue, delay time.Duration) (repaired int, err error) {
	c.claims.Lock()
	defer c.claims.Unlock()
	err = c.again(ctx, func() error {
		expired, err := c.expired(ctx, q)
		if err != nil || len(expired) == 0 {
			return err
		}
		tasks, err := c.loadAll(ctx, expired)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			// A task that ended is between the two halves of its submit, which takes it out of the set.
			if t == nil || t.Ended() {
				continue
			}
			if err := c.giveBack(ctx, q, t, delay, "lease expired"); err != nil {
				return err
			}
			repaired++
		}
		return nil
	})
	return repaired, err
}

func (c *Client) expired(ctx context.Context, q Queue) ([]string, error) {
	ids, err := c.rdb.SRandMemberN(ctx, q.InProgress(), repairLimit).Result()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	left := make([]*redis.DurationCmd, len(ids))
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			left[i] = p.TTL(ctx, keyLease+id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var expired []string
	for i, id := range ids {
		if left[i].Val() <= 0 {
			expired = append(expired, id)
		}
	}
	return expired, nil
}
