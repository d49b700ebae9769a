package codeqclient

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stats counts the tasks of one queue by where they wait.
type Stats struct {
	Ready                    [MaxPriority + 1]int64 // by priority
	InProgress, Delayed, DLQ int64
}

// Waiting is the number of tasks that have not ended.
func (s Stats) Waiting() int64 {
	n := s.InProgress + s.Delayed
	for _, ready := range s.Ready {
		n += ready
	}
	return n
}

// Stats is P: LLEN pending:9 … 0 · SCARD inprog · ZCARD delayed · SCARD dlq.
func (c *Client) Stats(ctx context.Context, q Queue) (Stats, error) {
	var ready [MaxPriority + 1]*redis.IntCmd
	var inProgress, delayed, dlq *redis.IntCmd
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for priority := MaxPriority; priority >= 0; priority-- {
			ready[priority] = p.LLen(ctx, q.Pending(priority))
		}
		inProgress, delayed, dlq = p.SCard(ctx, q.InProgress()), p.ZCard(ctx, q.Delayed()), p.SCard(ctx, q.DLQ())
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	s := Stats{InProgress: inProgress.Val(), Delayed: delayed.Val(), DLQ: dlq.Val()}
	for priority := range ready {
		s.Ready[priority] = ready[priority].Val()
	}
	return s, nil
}

// Cleanup removes up to limit tasks whose retention ended before the given time and returns how many.
//
// ZRANGEBYSCORE codeq:tasks:ttl -inf before LIMIT 0 n · (HGET, to know the queue) · per task TX: HDEL tasks · ZREM ttl ·
// DEL lease · LREM pending 0 id · SREM inprog · ZREM delayed · SREM dlq.
func (c *Client) Cleanup(ctx context.Context, before time.Time, limit int) (int, error) {
	max := strconv.FormatInt(before.Unix(), 10)
	ids, err := c.rdb.Do(ctx, "ZRANGEBYSCORE", keyTTL, "-inf", max, "LIMIT", 0, limit).StringSlice()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	tasks, err := c.loadAll(ctx, ids)
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		if err := c.remove(ctx, id, tasks[i]); err != nil {
			return i, err
		}
	}
	return len(ids), nil
}

func (c *Client) remove(ctx context.Context, id string, t *Task) error {
	return transact(ctx, c.rdb, func(p redis.Pipeliner) error {
		p.HDel(ctx, keyTasks, id)
		p.ZRem(ctx, keyTTL, id)
		p.Del(ctx, keyLease+id)
		if t == nil {
			return nil
		}
		q := Queue{Command: t.Command, Tenant: t.TenantID}
		p.LRem(ctx, q.Pending(t.Priority), 0, id)
		p.SRem(ctx, q.InProgress(), id)
		p.ZRem(ctx, q.Delayed(), id)
		p.SRem(ctx, q.DLQ(), id)
		return nil
	})
}

// MigratePending moves up to n tasks, the next to be claimed first, from a pending list here to a queue of another
// server or database, and returns how many.
//
// LRANGE src -n -1 · HMGET tasks ids · ZMSCORE ttl · HSET, ZADD, RPUSH dst · RPOP src.
func (c *Client) MigratePending(ctx context.Context, dst *Client, from, to Queue, priority, n int) (int, error) {
	src := from.Pending(priority)
	ids, err := c.rdb.LRange(ctx, src, -int64(n), -1).Result()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := c.copyTasks(ctx, dst, ids, func(p redis.Pipeliner) {
		p.RPush(ctx, to.Pending(priority), anys(ids)...)
	}); err != nil {
		return 0, err
	}
	for i := len(ids) - 1; i >= 0; i-- {
		id, err := c.rdb.RPop(ctx, src).Result()
		if err != nil {
			return 0, err
		}
		if id != ids[i] {
			return 0, fmt.Errorf("migrate %s: popped %s, expected %s: the list is in use", src, id, ids[i])
		}
	}
	return len(ids), nil
}

// MigrateDead moves up to n dead tasks: SPOP n · HMGET · ZMSCORE · HSET, ZADD, SADD dst.
func (c *Client) MigrateDead(ctx context.Context, dst *Client, from, to Queue, n int) (int, error) {
	ids, err := c.rdb.SPopN(ctx, from.DLQ(), int64(n)).Result()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = c.copyTasks(ctx, dst, ids, func(p redis.Pipeliner) { p.SAdd(ctx, to.DLQ(), anys(ids)...) })
	return len(ids), err
}

// MigrateDelayed moves all delayed tasks: ZRANGE 0 -1 WITHSCORES · HMGET · ZMSCORE · HSET, ZADD, ZADD dst · ZREM src.
func (c *Client) MigrateDelayed(ctx context.Context, dst *Client, from, to Queue) (int, error) {
	delayed, err := c.rdb.ZRangeWithScores(ctx, from.Delayed(), 0, -1).Result()
	if err != nil || len(delayed) == 0 {
		return 0, err
	}
	ids := make([]string, len(delayed))
	for i, z := range delayed {
		ids[i] = fmt.Sprint(z.Member)
	}
	err = c.copyTasks(ctx, dst, ids, func(p redis.Pipeliner) { p.ZAdd(ctx, to.Delayed(), delayed...) })
	if err != nil {
		return 0, err
	}
	return len(ids), c.rdb.ZRem(ctx, from.Delayed(), anys(ids)...).Err()
}

// copyTasks copies the JSON and the retention of tasks to dst in one pipeline with what queue adds to it.
func (c *Client) copyTasks(ctx context.Context, dst *Client, ids []string, queue func(redis.Pipeliner)) error {
	texts, err := c.rdb.HMGet(ctx, keyTasks, ids...).Result()
	if err != nil {
		return err
	}
	keep, err := c.rdb.ZMScore(ctx, keyTTL, ids...).Result()
	if err != nil {
		return err
	}
	_, err = dst.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			if texts[i] != nil {
				p.HSet(ctx, keyTasks, id, texts[i])
				p.ZAdd(ctx, keyTTL, redis.Z{Score: keep[i], Member: id})
			}
		}
		queue(p)
		return nil
	})
	return err
}

func anys(ids []string) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}
