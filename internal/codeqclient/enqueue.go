package codeqclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// idempotencyWindow is how long an idempotency key names its task.
const idempotencyWindow = 24 * time.Hour

// Enqueue describes a new task.
type Enqueue struct {
	Queue          Queue
	Payload        string
	Priority       int
	MaxAttempts    int
	Delay          time.Duration // whole seconds
	IdempotencyKey string
	Webhook        string
}

// Enqueue stores a task and makes it wait. With an idempotency key that is taken it returns the first task instead.
// became reports that the pending list was empty before.
func (c *Client) Enqueue(ctx context.Context, e Enqueue) (t Task, became bool, err error) {
	t = Task{
		ID: c.opts.NewID(), Command: e.Queue.Command, Payload: e.Payload, Priority: e.Priority, Webhook: e.Webhook,
		Status: Pending, MaxAttempts: e.MaxAttempts, TenantID: e.Queue.Tenant, CreatedAt: c.opts.Now().UTC(),
	}
	if e.IdempotencyKey != "" {
		c.reserving.Lock()
		defer c.reserving.Unlock()
		var first *Task
		err := c.again(ctx, func() (err error) {
			first, err = c.reserve(ctx, e.IdempotencyKey, t.ID)
			return err
		})
		if err != nil || first != nil {
			return orEmpty(first), false, err
		}
	}
	lost := false
	err = c.again(ctx, func() (err error) {
		if lost {
			return c.enqueueAfterLoss(ctx, e, &t)
		}
		became, err = c.push(ctx, e, &t)
		lost = err != nil
		return err
	})
	return t, became, err
}

func orEmpty(t *Task) Task {
	if t == nil {
		return Task{}
	}
	return *t
}

// push: P: HSET codeq:tasks id json · ZADD codeq:tasks:ttl T id · LPUSH pending id, or ZADD delayed visibleAt id.
func (c *Client) push(ctx context.Context, e Enqueue, t *Task) (became bool, err error) {
	var pushed *redis.IntCmd
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		t.LastKnownLocation = atPending
		if e.Delay > 0 {
			t.LastKnownLocation = atDelayed
		}
		c.save(ctx, p, t)
		if e.Delay > 0 {
			p.ZAdd(ctx, e.Queue.Delayed(), redis.Z{Score: c.after(e.Delay), Member: t.ID})
		} else {
			pushed = p.LPush(ctx, e.Queue.Pending(e.Priority), t.ID)
		}
		return nil
	})
	return err == nil && pushed != nil && pushed.Val() == 1, err
}

// after is the unix second that lies d after now.
func (c *Client) after(d time.Duration) float64 { return float64(c.opts.Now().Add(d).Unix()) }

// reserve: SET codeq:idempo:key id EX 86400 NX; if taken: GET it, HGET the task; if that is gone: DEL, once more. It
// returns the task that holds the key, nil when id holds it now.
func (c *Client) reserve(ctx context.Context, key, id string) (*Task, error) {
	for range 2 {
		won, err := c.rdb.SetNX(ctx, keyIdempo+key, id, idempotencyWindow).Result()
		if err != nil || won {
			return nil, err
		}
		holder, err := c.rdb.Get(ctx, keyIdempo+key).Result()
		if holder == id {
			return nil, nil // this client's own reservation, whose reply was lost
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		t, err := c.load(ctx, holder)
		if !errors.Is(err, ErrGone) {
			return &t, err
		}
		if err := c.rdb.Del(ctx, keyIdempo+key).Err(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("idempotency key %q: taken twice by tasks that do not exist", key)
}

// enqueueAfterLoss completes a push whose reply was lost: a pipeline is not atomic, so the JSON may be there without
// the id being in any queue. Claims are held off, so a task that was not claimed yet stands still while it is looked
// for.
func (c *Client) enqueueAfterLoss(ctx context.Context, e Enqueue, t *Task) error {
	c.claims.Lock()
	defer c.claims.Unlock()
	found, err := c.load(ctx, t.ID)
	if errors.Is(err, ErrGone) {
		_, err := c.push(ctx, e, t)
		return err
	}
	if err != nil || found.Attempts > 0 || found.Status != Pending {
		return err // it was claimed since, so it had been queued
	}
	queued, err := c.queued(ctx, e, t.ID)
	if err != nil || queued {
		return err
	}
	_, err = c.push(ctx, e, t)
	return err
}

// queued looks for an id in the places of its queue where a task may wait.
func (c *Client) queued(ctx context.Context, e Enqueue, id string) (bool, error) {
	err := c.rdb.LPos(ctx, e.Queue.Pending(e.Priority), id, redis.LPosArgs{}).Err()
	if err == nil || !errors.Is(err, redis.Nil) {
		return err == nil, err
	}
	err = c.rdb.ZScore(ctx, e.Queue.Delayed(), id).Err()
	if err == nil || !errors.Is(err, redis.Nil) {
		return err == nil, err
	}
	return c.rdb.SIsMember(ctx, e.Queue.InProgress(), id).Result()
}

// MoveDue moves up to limit delayed tasks whose time has come to their pending lists and returns how many. While
// another goroutine does so it returns at once.
//
// ZRANGEBYSCORE delayed -inf now LIMIT 0 n · P: HGET codeq:tasks id … · TX: ZREM delayed id · LPUSH pending id … ·
// P: HSET, ZADD ttl.
func (c *Client) MoveDue(ctx context.Context, q Queue, limit int) (moved int, err error) {
	if !c.moving.TryLock() {
		return 0, nil
	}
	defer c.moving.Unlock()
	err = c.again(ctx, func() (err error) {
		moved, err = c.moveDue(ctx, q, limit)
		return err
	})
	return moved, err
}

func (c *Client) moveDue(ctx context.Context, q Queue, limit int) (int, error) {
	now := strconv.FormatInt(c.opts.Now().Unix(), 10)
	ids, err := c.rdb.Do(ctx, "ZRANGEBYSCORE", q.Delayed(), "-inf", now, "LIMIT", 0, limit).StringSlice()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	tasks, err := c.loadAll(ctx, ids)
	if err != nil {
		return 0, err
	}
	c.claims.Lock()
	defer c.claims.Unlock()
	err = transact(ctx, c.rdb, func(p redis.Pipeliner) error {
		for i, id := range ids {
			p.ZRem(ctx, q.Delayed(), id)
			if tasks[i] != nil {
				p.LPush(ctx, q.Pending(tasks[i].Priority), id)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range tasks {
			if t != nil {
				t.Status, t.LastKnownLocation = Pending, atPending
				c.save(ctx, p, t)
			}
		}
		return nil
	})
	return len(ids), err
}

// loadAll is P: HGET codeq:tasks id …; an id without JSON gives nil.
func (c *Client) loadAll(ctx context.Context, ids []string) ([]*Task, error) {
	texts := make([]*redis.StringCmd, len(ids))
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			texts[i] = p.HGet(ctx, keyTasks, id)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	tasks := make([]*Task, len(ids))
	for i, text := range texts {
		if errors.Is(text.Err(), redis.Nil) {
			continue
		}
		if text.Err() != nil {
			return nil, text.Err()
		}
		t, err := decodeTask(text.Val())
		if err != nil {
			return nil, err
		}
		tasks[i] = &t
	}
	return tasks, nil
}
