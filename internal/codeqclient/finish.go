package codeqclient

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"
)

// held runs op on a task that the worker holds, after HGET codeq:tasks id. When a reply to op was lost and the task
// is then found not to be held any more, op had been executed, because only its worker ends a live claim.
func (c *Client) held(ctx context.Context, id, worker string, op func(t *Task) error) error {
	c.claims.RLock()
	defer c.claims.RUnlock()
	sent := false
	return c.again(ctx, func() error {
		t, err := c.load(ctx, id)
		if err != nil {
			return err
		}
		if t.Status != InProgress || t.WorkerID != worker {
			if sent {
				return nil
			}
			return ErrNotOwner
		}
		sent = true
		return op(&t)
	})
}

// Heartbeat extends a lease: HGET · TX: EXPIRE lease n · HSET · ZADD ttl.
func (c *Client) Heartbeat(ctx context.Context, id, worker string, lease time.Duration) error {
	return c.held(ctx, id, worker, func(t *Task) error {
		t.LeaseUntil = c.opts.Now().Add(lease).UTC().Format(leaseStamp)
		return transact(ctx, c.rdb, func(p redis.Pipeliner) error {
			p.Expire(ctx, keyLease+id, lease)
			c.save(ctx, p, t)
			return nil
		})
	})
}

// Abandon gives a task back without a reason: HGET · TX: SREM inprog · LPUSH pending · DEL lease · HSET · ZADD ttl.
func (c *Client) Abandon(ctx context.Context, q Queue, id, worker string) error {
	return c.held(ctx, id, worker, func(t *Task) error {
		t.Status, t.LastKnownLocation, t.WorkerID, t.LeaseUntil = Pending, atPending, "", ""
		return transact(ctx, c.rdb, func(p redis.Pipeliner) error {
			p.SRem(ctx, q.InProgress(), id)
			p.LPush(ctx, q.Pending(t.Priority), id)
			p.Del(ctx, keyLease+id)
			c.save(ctx, p, t)
			return nil
		})
	})
}

// Nack gives a task back after a failure; it comes again after delay, or is dead when its attempts are used up.
//
// HGET · TX: SREM inprog · DEL lease · ZADD delayed at id (or SADD dlq id) · HSET · ZADD ttl.
func (c *Client) Nack(ctx context.Context, q Queue, id, worker string, delay time.Duration, reason string) error {
	return c.held(ctx, id, worker, func(t *Task) error { return c.giveBack(ctx, q, t, delay, reason) })
}

func (c *Client) giveBack(ctx context.Context, q Queue, t *Task, delay time.Duration, reason string) error {
	dead := t.Attempts >= t.MaxAttempts
	t.WorkerID, t.LeaseUntil, t.Error = "", "", reason
	t.Status, t.LastKnownLocation = Pending, atDelayed
	if dead {
		t.Status, t.LastKnownLocation = Failed, atDLQ
	}
	return transact(ctx, c.rdb, func(p redis.Pipeliner) error {
		p.SRem(ctx, q.InProgress(), t.ID)
		p.Del(ctx, keyLease+t.ID)
		if dead {
			p.SAdd(ctx, q.DLQ(), t.ID)
		} else {
			p.ZAdd(ctx, q.Delayed(), redis.Z{Score: c.after(delay), Member: t.ID})
		}
		c.save(ctx, p, t)
		return nil
	})
}

// Submit ends a task: COMPLETED with a result, FAILED when failure is not empty.
//
// HGET · P: HSET codeq:results id json · HSET tasks · ZADD ttl · HGET · TX: HSET tasks · SREM inprog · DEL lease ·
// ZADD ttl.
func (c *Client) Submit(ctx context.Context, q Queue, id, worker string, result json.RawMessage, failure string) error {
	c.claims.RLock()
	defer c.claims.RUnlock()
	sent := false
	return c.again(ctx, func() error {
		t, err := c.load(ctx, id)
		if err != nil {
			return err
		}
		// After a lost reply the first half may stand: the task has ended and is still in the set.
		if t.WorkerID != worker || t.Status != InProgress && !(sent && t.Ended()) {
			return ErrNotOwner
		}
		sent = true
		if err := c.storeResult(ctx, &t, result, failure); err != nil {
			return err
		}
		if t, err = c.load(ctx, id); err != nil {
			return err
		}
		return c.release(ctx, q, &t)
	})
}

func (c *Client) storeResult(ctx context.Context, t *Task, result json.RawMessage, failure string) error {
	r := Result{TaskID: t.ID, Status: Completed, Result: result, CompletedAt: c.opts.Now().UTC()}
	if failure != "" {
		r.Status, r.Error = Failed, failure
	}
	t.Status, t.Error, t.ResultKey, t.LeaseUntil = r.Status, failure, t.ID, ""
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, keyResults, t.ID, mustJSON(r))
		c.save(ctx, p, t)
		return nil
	})
	return err
}

func (c *Client) release(ctx context.Context, q Queue, t *Task) error {
	t.LastKnownLocation, t.UpdatedAt = atNowhere, c.opts.Now().UTC()
	return transact(ctx, c.rdb, func(p redis.Pipeliner) error {
		p.HSet(ctx, keyTasks, t.ID, t.encode())
		p.SRem(ctx, q.InProgress(), t.ID)
		p.Del(ctx, keyLease+t.ID)
		p.ZAdd(ctx, keyTTL, redis.Z{Score: c.keepUntil(), Member: t.ID})
		return nil
	})
}
