package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// takeWait is how long a worker waits for a task before it looks whether it is dismissed.
const takeWait = time.Second

// streamQueue is a stream with a consumer group. Some of its tasks fail once, some for good.
type streamQueue struct{ rdb *redis.Client }

// The fates of a stream's tasks, by their number among all tasks.
const (
	streamSucceeds = iota
	streamFails
	streamDies
	streamFates
)

// streamAttempts is how often a task that dies is tried; streamIdle after how long a worker is taken to have failed.
const (
	streamAttempts = 3
	streamIdle     = 100 * time.Millisecond
)

func (q *streamQueue) fate(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "task-"))
	if err != nil {
		return streamSucceeds
	}
	return n / 5 % streamFates
}

func (q *streamQueue) promise(_ int, id string) event {
	switch q.fate(id) {
	case streamFails:
		return failing(id, 1)
	case streamDies:
		return event{ID: id, Dies: true}
	}
	return event{ID: id}
}

// enqueue names the entry, so that one that is sent again is refused. HasErrorPrefix cuts ERR off.
func (q *streamQueue) enqueue(ctx context.Context, n int, id string) error {
	err := q.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: homeStream, ID: fmt.Sprintf("%d-1", n), Values: []string{"id", id},
	}).Err()
	if redis.HasErrorPrefix(err, "The ID specified in XADD is equal or smaller") {
		return nil
	}
	return err
}

// take prefers what others have failed at.
func (q *streamQueue) take(ctx context.Context, worker string) (job, error) {
	claimed, _, err := q.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: homeStream, Group: homeGroup, Consumer: worker, MinIdle: streamIdle, Start: "0", Count: 1,
	}).Result()
	if err != nil || len(claimed) > 0 {
		return firstJob(claimed), err
	}
	streams, err := q.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: homeGroup, Consumer: worker, Streams: []string{homeStream, ">"}, Count: 1, Block: streamIdle,
	}).Result()
	if err != nil || len(streams) == 0 {
		return job{}, none(err)
	}
	return firstJob(streams[0].Messages), nil
}

func firstJob(messages []redis.XMessage) job {
	if len(messages) == 0 {
		return job{}
	}
	return job{id: fmt.Sprint(messages[0].Values["id"]), entry: messages[0].ID}
}

func (q *streamQueue) finish(ctx context.Context, taken job) (bool, error) {
	return removed(ctx, q.rdb, taken.id, func(tx redis.Pipeliner) *redis.IntCmd {
		tx.XAck(ctx, homeStream, homeGroup, taken.entry)
		return tx.XDel(ctx, homeStream, taken.entry)
	})
}

// bury moves a task to the stream of the dead ones. A watch keeps two workers from doing so at once.
func (q *streamQueue) bury(ctx context.Context, taken job) (bool, error) {
	buried := false
	err := q.rdb.Watch(ctx, func(tx *redis.Tx) error {
		entries, err := tx.XRange(ctx, homeStream, taken.entry, taken.entry).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.XAck(ctx, homeStream, homeGroup, taken.entry)
			p.XDel(ctx, homeStream, taken.entry)
			p.XAdd(ctx, &redis.XAddArgs{Stream: homeDeadStream, Values: []string{"id", taken.id}})
			return nil
		})
		buried = err == nil
		return err
	}, homeStream)
	if err == redis.TxFailedErr {
		return false, nil // another command touched the stream; the task stays pending and comes again
	}
	return buried, err
}

// recover has nothing to do: what nobody acknowledges is claimed.
func (q *streamQueue) recover(context.Context) error { return nil }

// listQueue is a list from which workers move tasks to another list, waiting where there is none.
type listQueue struct{ rdb *redis.Client }

const (
	listWaiting = "home:list"
	listTaken   = "home:list:taken"
)

func (q *listQueue) promise(_ int, id string) event { return event{ID: id} }

// enqueue looks for the task first, since one that is sent again must not be there twice.
func (q *listQueue) enqueue(ctx context.Context, _ int, id string) error {
	return pushOnce(ctx, q.rdb, listWaiting, listTaken, id, "")
}

func (q *listQueue) take(ctx context.Context, _ string) (job, error) {
	id, err := q.rdb.BLMove(ctx, listWaiting, listTaken, "RIGHT", "LEFT", takeWait).Result()
	return job{id: id}, none(err)
}

func (q *listQueue) finish(ctx context.Context, taken job) (bool, error) {
	return removed(ctx, q.rdb, taken.id, func(tx redis.Pipeliner) *redis.IntCmd { return tx.LRem(ctx, listTaken, 1, taken.id) })
}

func (q *listQueue) recover(ctx context.Context) error {
	return putBack(ctx, q.rdb, listTaken, listWaiting)
}

// putBack returns what is in one list to another.
func putBack(ctx context.Context, rdb *redis.Client, from, to string) error {
	for {
		if err := rdb.LMove(ctx, from, to, "LEFT", "RIGHT").Err(); err != nil {
			return none(err)
		}
	}
}

// pushOnceScript pushes a task that is neither waiting, taken nor done, and tells a channel of it.
var pushOnceScript = redis.NewScript(`
if redis.call("LPOS", KEYS[1], ARGV[1]) or redis.call("LPOS", KEYS[2], ARGV[1])
	or redis.call("SISMEMBER", KEYS[3], ARGV[1]) == 1 then
	return 0
end
if ARGV[2] ~= "" then redis.call("PUBLISH", ARGV[2], ARGV[1]) end
return redis.call("LPUSH", KEYS[1], ARGV[1])`)

func pushOnce(ctx context.Context, rdb *redis.Client, waiting, taken, id, channel string) error {
	return pushOnceScript.Run(ctx, rdb, []string{waiting, taken, homeDone}, id, channel).Err()
}

// scriptQueue is a queue with priorities and delays whose scripts make up the names of their keys.
type scriptQueue struct{ rdb *redis.Client }

const scriptPrefix = "home:scripted"

// scriptDelay is how long each second task waits.
const scriptDelay = 300 * time.Millisecond

var (
	scriptPut = redis.NewScript(`
local prefix, id, delay = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call("SISMEMBER", "home:done", id) == 1 then return redis.status_reply("DONE") end
if redis.call("HSETNX", prefix .. ":tasks", id, cjson.encode({id = id, priority = tonumber(ARGV[4])})) == 0 then
	return redis.error_reply("TAKEN already there")
end
if delay > 0 then
	local now = redis.call("TIME")
	return redis.call("ZADD", prefix .. ":delayed", now[1] * 1000 + math.floor(now[2] / 1000) + delay, id)
end
return redis.call("LPUSH", prefix .. ":pending:" .. ARGV[4], id)`)

	scriptClaim = redis.NewScript(`
local prefix, now = ARGV[1], redis.call("TIME")
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, id in ipairs(redis.call("ZRANGEBYSCORE", prefix .. ":delayed", "-inf", now, "LIMIT", 0, 10)) do
	local task = cjson.decode(redis.call("HGET", prefix .. ":tasks", id))
	redis.call("ZREM", prefix .. ":delayed", id)
	redis.call("LPUSH", prefix .. ":pending:" .. task.priority, id)
end
for priority = 9, 0, -1 do
	local id = redis.call("RPOP", prefix .. ":pending:" .. priority)
	if id then
		redis.call("HSET", prefix .. ":taken", id, ARGV[2])
		return {id, redis.call("HGET", prefix .. ":tasks", id), priority}
	end
end
return false`)

	scriptFinish = redis.NewScript(`
if redis.call("HDEL", ARGV[1] .. ":taken", ARGV[2]) == 0 then return 0 end
redis.call("HDEL", ARGV[1] .. ":tasks", ARGV[2])
return redis.call("SADD", "home:done", ARGV[2])`)

	scriptRecover = redis.NewScript(`
local ids = redis.call("HKEYS", ARGV[1] .. ":taken")
for _, id in ipairs(ids) do redis.call("RPUSH", ARGV[1] .. ":pending:9", id) end
redis.call("DEL", ARGV[1] .. ":taken")
return #ids`)
)

func (q *scriptQueue) promise(_ int, id string) event { return event{ID: id} }

func (q *scriptQueue) enqueue(ctx context.Context, n int, id string) error {
	delay := int64(0)
	if n%2 == 0 {
		delay = scriptDelay.Milliseconds()
	}
	err := scriptPut.Run(ctx, q.rdb, nil, scriptPrefix, id, delay, n%10).Err()
	if redis.HasErrorPrefix(err, "TAKEN") {
		return nil // it has been sent before
	}
	return err
}

// take has nothing to wait on, as a script cannot block; so a worker without work rests for a moment.
func (q *scriptQueue) take(ctx context.Context, worker string) (job, error) {
	got, err := scriptClaim.Run(ctx, q.rdb, nil, scriptPrefix, worker).Slice()
	if err != nil {
		rest(ctx)
		return job{}, none(err)
	}
	id, priority := fmt.Sprint(got[0]), fmt.Sprint(got[2])
	if want := fmt.Sprintf(`"id":%q`, id); !strings.Contains(fmt.Sprint(got[1]), want) {
		return job{}, fmt.Errorf("task %s of priority %s is %v", id, priority, got[1])
	}
	return job{id: id}, nil
}

func (q *scriptQueue) finish(ctx context.Context, taken job) (bool, error) {
	return scriptFinish.Run(ctx, q.rdb, nil, scriptPrefix, taken.id).Bool()
}

func (q *scriptQueue) recover(ctx context.Context) error {
	return scriptRecover.Run(ctx, q.rdb, nil, scriptPrefix).Err()
}

// watchedQueue is a sorted set; a worker watches it, looks at the first tasks and takes one in a transaction, which fails when
// another worker was faster.
type watchedQueue struct{ rdb *redis.Client }

const watchedWaiting = "home:watched"

func (q *watchedQueue) promise(_ int, id string) event { return event{ID: id} }

// enqueue refuses a task that is done: it has been sent before.
func (q *watchedQueue) enqueue(ctx context.Context, n int, id string) error {
	return q.rdb.Watch(ctx, func(tx *redis.Tx) error {
		isDone, err := tx.SIsMember(ctx, homeDone, id).Result()
		if err != nil || isDone {
			return err
		}
		return tx.ZAdd(ctx, watchedWaiting, redis.Z{Score: float64(n), Member: id}).Err()
	})
}

func (q *watchedQueue) take(ctx context.Context, _ string) (job, error) {
	got, err := q.rdb.ZRange(ctx, watchedWaiting, 0, 0).Result()
	if err != nil || len(got) == 0 {
		rest(ctx)
		return job{}, err
	}
	return job{id: got[0]}, nil
}

func (q *watchedQueue) finish(ctx context.Context, taken job) (bool, error) {
	mine := false
	err := q.rdb.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.ZScore(ctx, watchedWaiting, taken.id).Err(); err != nil {
			return none(err)
		}
		var err error
		mine, err = removed(ctx, tx, taken.id, func(p redis.Pipeliner) *redis.IntCmd {
			return p.ZRem(ctx, watchedWaiting, taken.id)
		})
		return err
	}, watchedWaiting)
	if err == redis.TxFailedErr {
		return false, nil // somebody changed the set; the task is still there and is taken again
	}
	return mine, err
}

func (q *watchedQueue) recover(context.Context) error { return nil }

// announcedQueue is a list whose workers wait for news of it on a channel.
type announcedQueue struct {
	rdb   *redis.Client
	topic *redis.PubSub
	news  <-chan any
	heard atomic.Int64 // tasks that were announced
}

const (
	announcedWaiting = "home:announced"
	announcedTaken   = "home:announced:taken"
	announcedTopic   = "home:announced:news"
)

func newAnnouncedQueue(ctx context.Context, rdb *redis.Client) *announcedQueue {
	topic := rdb.Subscribe(ctx, announcedTopic)
	return &announcedQueue{rdb: rdb, topic: topic, news: topic.ChannelWithSubscriptions(redis.WithChannelSize(10_000))}
}

// close ends the subscription. What could go wrong with that concerns nobody any more.
func (q *announcedQueue) close() { _ = q.topic.Close() }

func (q *announcedQueue) promise(_ int, id string) event { return event{ID: id} }

func (q *announcedQueue) enqueue(ctx context.Context, _ int, id string) error {
	return pushOnce(ctx, q.rdb, announcedWaiting, announcedTaken, id, announcedTopic)
}

// take waits for news when the list is empty. What is announced while the worker has no connection is lost, so that it looks
// again after a while.
func (q *announcedQueue) take(ctx context.Context, _ string) (job, error) {
	id, err := q.rdb.LMove(ctx, announcedWaiting, announcedTaken, "RIGHT", "LEFT").Result()
	if err == nil {
		return job{id: id}, nil
	}
	select {
	case news := <-q.news:
		if _, ok := news.(*redis.Message); ok {
			q.heard.Add(1)
		}
	case <-time.After(takeWait):
	case <-ctx.Done():
	}
	return job{}, none(err)
}

func (q *announcedQueue) finish(ctx context.Context, taken job) (bool, error) {
	return removed(ctx, q.rdb, taken.id, func(tx redis.Pipeliner) *redis.IntCmd {
		return tx.LRem(ctx, announcedTaken, 1, taken.id)
	})
}

func (q *announcedQueue) recover(ctx context.Context) error {
	return putBack(ctx, q.rdb, announcedTaken, announcedWaiting)
}

// rest lets a moment pass.
func rest(ctx context.Context) {
	select {
	case <-time.After(pollInterval):
	case <-ctx.Done():
	}
}
