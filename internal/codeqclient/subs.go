package codeqclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	keySubs      = "codeq:subs"
	keySubsLast  = "codeq:subs:last:"
	keySubsNext  = "codeq:subs:rr:"
	keyRate      = "codeq:rl:"
	keyTopic     = "codeq:admin:topic:"
	keyTopics    = "codeq:admin:topics"
	topicRetries = 100
)

// Subscription is a webhook that wants to hear when a queue becomes ready.
type Subscription struct {
	ID          string    `json:"id"`
	Command     string    `json:"command"`
	CallbackURL string    `json:"callbackUrl"`
	Group       string    `json:"group,omitempty"`
	ExpiresAt   time.Time `json:"expiresAt"`
}

// Subscribe is P: HSET codeq:subs id json · ZADD codeq:subs:command expiresAt id.
func (c *Client) Subscribe(ctx context.Context, s Subscription) error {
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, keySubs, s.ID, mustJSON(s))
		p.ZAdd(ctx, subsKey(s.Command), redis.Z{Score: float64(s.ExpiresAt.Unix()), Member: s.ID})
		return nil
	})
	return err
}

func subsKey(command string) string { return keySubs + ":" + strings.ToLower(command) }

// Subscribers drops what has expired and lists the ids of the rest, those that expire first in front:
// ZREMRANGEBYSCORE codeq:subs:command -inf (now · ZRANGEBYSCORE now +inf.
func (c *Client) Subscribers(ctx context.Context, command string) ([]string, error) {
	now := strconv.FormatInt(c.opts.Now().Unix(), 10)
	if err := c.rdb.ZRemRangeByScore(ctx, subsKey(command), "-inf", "("+now).Err(); err != nil {
		return nil, err
	}
	return c.rdb.Do(ctx, "ZRANGEBYSCORE", subsKey(command), now, "+inf").StringSlice()
}

// MayNotify reports whether a subscriber has not been notified for the given time: SET codeq:subs:last:id … EX n NX.
func (c *Client) MayNotify(ctx context.Context, id string, pause time.Duration) (bool, error) {
	return c.rdb.SetNX(ctx, keySubsLast+id, c.opts.Now().Unix(), pause).Result()
}

// NextInGroup numbers the notifications of a group, so that its members take turns: INCR codeq:subs:rr:command:group.
func (c *Client) NextInGroup(ctx context.Context, command, group string) (int64, error) {
	return c.rdb.Incr(ctx, keySubsNext+strings.ToLower(command)+":"+group).Result()
}

// rateScript is a token bucket. The clock is an argument, and the bucket keeps every digit of its numbers, so that a
// run can be repeated exactly. KEYS bucket; ARGV rate per second, size, now in seconds, cost.
func rateScript() *redis.Script {
	return redis.NewScript(`
local rate, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local now, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1] or size)
local at = tonumber(bucket[2] or now)
tokens = math.min(size, tokens + math.max(0, now - at) * rate)
local allowed, wait = 0, 0
if tokens >= cost then
  tokens, allowed = tokens - cost, 1
else
  wait = (cost - tokens) / rate
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('EXPIRE', KEYS[1], math.ceil(size / rate) + 1)
return {allowed, string.format('%.17g', wait), string.format('%.17g', tokens)}
`)
}

// Allow takes cost tokens from the bucket of scope and subject. When there are too few it returns the seconds to
// wait. rate is text so that a test can send an exponent.
func (c *Client) Allow(ctx context.Context, scope, subject, rate string, size, cost float64) (bool, float64, error) {
	sum := sha256.Sum256([]byte(subject))
	key := keyRate + scope + ":" + hex.EncodeToString(sum[:])
	now := strconv.FormatFloat(float64(c.opts.Now().UnixNano())/1e9, 'g', -1, 64)
	reply, err := rateScript().Run(ctx, c.rdb, []string{key}, rate, size, now, cost).Slice()
	if err != nil {
		return false, 0, err
	}
	if len(reply) != 3 {
		return false, 0, fmt.Errorf("rate script returned %d values", len(reply))
	}
	allowed, isNumber := reply[0].(int64)
	text, isText := reply[1].(string)
	if !isNumber || !isText {
		return false, 0, fmt.Errorf("rate script returned %T, %T", reply[0], reply[1])
	}
	wait, err := strconv.ParseFloat(text, 64)
	return allowed == 1, wait, err
}

// UpdateTopic changes a topic's text under WATCH, so that concurrent changes all count: WATCH topic · GET · MULTI:
// SET topic · SADD codeq:admin:topics name · EXEC, again when the key had changed.
func (c *Client) UpdateTopic(ctx context.Context, name string, change func(old string) string) error {
	key := keyTopic + name
	for range topicRetries {
		err := c.rdb.Watch(ctx, func(tx *redis.Tx) error {
			old, err := tx.Get(ctx, key).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			return transact(ctx, tx, func(p redis.Pipeliner) error {
				p.Set(ctx, key, change(old), 0)
				p.SAdd(ctx, keyTopics, name)
				return nil
			})
		}, key)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
	return fmt.Errorf("topic %s: changed by others %d times in a row", name, topicRetries)
}

// DeleteTopic is WATCH topic · EXISTS · MULTI: DEL topic · SREM codeq:admin:topics name · EXEC.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.rdb.Watch(ctx, func(tx *redis.Tx) error {
		if n, err := tx.Exists(ctx, keyTopic+name).Result(); err != nil || n == 0 {
			return err
		}
		return transact(ctx, tx, func(p redis.Pipeliner) error {
			p.Del(ctx, keyTopic+name)
			p.SRem(ctx, keyTopics, name)
			return nil
		})
	}, keyTopic+name)
}

// Topics lists the topics: SMEMBERS codeq:admin:topics.
func (c *Client) Topics(ctx context.Context) ([]string, error) {
	return c.rdb.SMembers(ctx, keyTopics).Result()
}
