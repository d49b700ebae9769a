package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// features tries what the client has beside the commands of queues.
func (r *homeRun) features() error {
	for _, feature := range []func() error{r.pipeline, r.conflict, r.patterns, r.iterate, r.function, r.cluster} {
		if err := feature(); err != nil {
			return err
		}
	}
	return nil
}

// pipeline sends many commands at once, of which one fails.
func (r *homeRun) pipeline() error {
	const n = 1000
	replies, err := r.rdb.Pipelined(r.ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Incr(r.ctx, fmt.Sprint("feature:counter:", i%3))
			if i == n/2 {
				p.LPush(r.ctx, "feature:counter:0", "no list")
			}
		}
		p.Del(r.ctx, "feature:counter:0", "feature:counter:1", "feature:counter:2")
		return nil
	})
	if !redis.HasErrorPrefix(err, "WRONGTYPE") || len(replies) != n+2 {
		return unexpected("pipeline", len(replies), err)
	}
	if deleted, err := replies[n+1].(*redis.IntCmd).Result(); err != nil || deleted != 3 {
		return unexpected("end of the pipeline", deleted, err)
	}
	return nil
}

// conflict has a watched key changed by another connection.
func (r *homeRun) conflict() error {
	const key = "feature:watched"
	err := r.rdb.Watch(r.ctx, func(tx *redis.Tx) error {
		if err := r.rdb.Set(r.ctx, key, "theirs", 0).Err(); err != nil {
			return err
		}
		_, err := tx.TxPipelined(r.ctx, func(p redis.Pipeliner) error { return p.Set(r.ctx, key, "mine", 0).Err() })
		return err
	}, key)
	if !errors.Is(err, redis.TxFailedErr) {
		return unexpected("transaction on a changed key", nil, err)
	}
	if got, err := r.rdb.GetDel(r.ctx, key).Result(); err != nil || got != "theirs" {
		return unexpected("the changed key", got, err)
	}
	return nil
}

// patterns hears a channel by its name and by a pattern.
func (r *homeRun) patterns() error {
	topic := r.rdb.Subscribe(r.ctx, "feature:news")
	defer topic.Close()
	if err := topic.PSubscribe(r.ctx, "feature:*"); err != nil {
		return fmt.Errorf("subscribe to a pattern: %w", err)
	}
	for range 2 { // both subscriptions are confirmed
		if _, err := topic.Receive(r.ctx); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	if n, err := r.rdb.Publish(r.ctx, "feature:news", "hello").Result(); err != nil || n != 2 {
		return unexpected("publish", n, err)
	}
	var heard []string
	for range 2 {
		message, err := topic.ReceiveMessage(r.ctx)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		heard = append(heard, message.Pattern+" "+message.Channel+" "+message.Payload)
	}
	slices.Sort(heard)
	if strings.Join(heard, "; ") != " feature:news hello; feature:* feature:news hello" {
		return unexpected("heard", heard, nil)
	}
	return topic.Ping(r.ctx)
}

// iterate walks over the keyspace and over a hash, and sees the client's name.
func (r *homeRun) iterate() error {
	const n = 500
	fields := make([]any, 0, 2*n)
	for i := range n {
		fields = append(fields, fmt.Sprint("field-", i), i)
	}
	if err := r.rdb.HSet(r.ctx, "feature:hash", fields...).Err(); err != nil {
		return fmt.Errorf("fill a hash: %w", err)
	}
	seen := map[string]bool{}
	walk := r.rdb.HScan(r.ctx, "feature:hash", 0, "field-*", 10).Iterator()
	for walk.Next(r.ctx) {
		seen[walk.Val()] = true
	}
	if err := walk.Err(); err != nil || len(seen) < n {
		return unexpected("fields of the hash", len(seen), err)
	}
	keys := r.rdb.Scan(r.ctx, 0, "feature:*", 100).Iterator()
	found := 0
	for keys.Next(r.ctx) {
		found++
	}
	if err := errors.Join(keys.Err(), r.rdb.Unlink(r.ctx, "feature:hash").Err()); err != nil || found != 1 {
		return unexpected("keys", found, err)
	}
	clients, err := r.rdb.ClientList(r.ctx).Result()
	if err != nil || !strings.Contains(clients, " name=home ") {
		return unexpected("clients", clients, err)
	}
	return nil
}

// function loads a library of functions and calls one.
func (r *homeRun) function() error {
	const library = `#!lua name=feature
redis.register_function("feature_add", function(keys, args) return redis.call("INCRBY", keys[1], args[1]) end)`
	if err := r.rdb.FunctionLoadReplace(r.ctx, library).Err(); err != nil {
		return fmt.Errorf("load functions: %w", err)
	}
	sum, err := r.rdb.FCall(r.ctx, "feature_add", []string{"feature:sum"}, 41).Int()
	if err != nil || sum != 41 {
		return unexpected("a function", sum, err)
	}
	return errors.Join(r.rdb.Del(r.ctx, "feature:sum").Err(), r.rdb.FunctionDelete(r.ctx, "feature").Err())
}

// cluster sees that a client that takes the server for a cluster is told that it is none.
func (r *homeRun) cluster() error {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{r.addr}})
	defer cluster.Close()
	err := cluster.Set(r.ctx, "feature:cluster", "1", 0).Err()
	if err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
		return unexpected("a client of a cluster", nil, err)
	}
	return nil
}
