package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"codeq/internal/codeqclient"

	"github.com/redis/go-redis/v9"
)

// claimLease is how long a task is claimed for until its worker knows of it. A claim whose reply was lost runs out then.
const claimLease = 5 * time.Second

// nativeClient does with Q commands what codeqclient does with raw ones. When a reply is lost it waits until the server is back and sends the
// command once more, which is safe: an operation on a task that is no longer the worker's changes nothing.
type nativeClient struct {
	rdb      *redis.Client
	gate     *gate
	claiming sync.Locker // see codeqclient.Client.Claiming
}

// do sends a command until there is a reply. again tells that it was sent before.
func (n *nativeClient) do(ctx context.Context, args ...any) (reply any, again bool, err error) {
	for {
		reply, err = n.rdb.Do(ctx, args...).Result()
		if err == nil || !codeqclient.LostReply(err) || !n.gate.wait(ctx, err) {
			return reply, again, err
		}
		again = true
	}
}

// owned sends a worker's command on a task. If that was sent before and the task is not the worker's any more, it has been done.
func (n *nativeClient) owned(ctx context.Context, args ...any) error {
	n.claiming.Lock()
	defer n.claiming.Unlock()
	_, again, err := n.do(ctx, args...)
	if again && isNotOurs(err) {
		return nil
	}
	return err
}

// isNotOurs tells the errors that a worker gets for a task that it does not hold.
func isNotOurs(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOTINPROGRESS ") || strings.HasPrefix(err.Error(), "NOTOWNER "))
}

// Enqueue has a key for each payload, so that a task is enqueued once, however often that is asked for.
func (n *nativeClient) Enqueue(ctx context.Context, e codeqclient.Enqueue) (t codeqclient.Task, became bool, err error) {
	key := e.IdempotencyKey
	if key == "" {
		key = "cycle-" + e.Payload
	}
	reply, _, err := n.do(ctx, "Q.ENQUEUE", e.Queue.Command, e.Payload, "TENANT", e.Queue.Tenant, "PRIORITY", e.Priority,
		"MAXATTEMPTS", e.MaxAttempts, "DELAY", e.Delay.Milliseconds(), "IDEMPOTENCY", key)
	if err != nil {
		return t, false, err
	}
	t.ID = fmt.Sprint(reply)
	return t, false, nil
}

// Claim waits a little. A lost reply is returned, since nobody knows whether a task was taken.
func (n *nativeClient) Claim(ctx context.Context, q codeqclient.Queue, worker string, lease time.Duration) (*codeqclient.Task, error) {
	n.claiming.Lock()
	defer n.claiming.Unlock()
	reply, err := n.rdb.Do(ctx, "Q.CLAIM", worker, "TENANT", q.Tenant, "LEASE", claimLease.Milliseconds(), "BLOCK", idlePause.Milliseconds(),
		"COMMANDS", 1, q.Command).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fields, ok := reply[0].(map[any]any)
	if !ok || len(reply) != 1 {
		return nil, fmt.Errorf("Q.CLAIM: %v", reply)
	}
	attempts, _ := fields["attempts"].(int64)
	t := &codeqclient.Task{ID: fmt.Sprint(fields["id"]), Payload: fmt.Sprint(fields["payload"]), Attempts: int(attempts)}
	_, _, err = n.do(ctx, "Q.HEARTBEAT", worker, t.ID, "LEASE", lease.Milliseconds())
	if isNotOurs(err) {
		return nil, nil // it has run out before the worker came to it
	}
	return t, err
}

// Repair revives tasks whose attempts were used up by claims that nobody knows of.
func (n *nativeClient) Repair(ctx context.Context, q codeqclient.Queue, _ time.Duration) (repaired int, err error) {
	reply, _, err := n.do(ctx, "Q.PEEK", q.Command, "TENANT", q.Tenant, "STATE", "DLQ", "COUNT", 1<<20)
	tasks, ok := reply.([]any)
	if err != nil || !ok {
		return 0, err
	}
	for _, task := range tasks {
		fields, ok := task.(map[any]any)
		if !ok || fields["error"] != "lease expired" {
			continue
		}
		if _, _, err := n.do(ctx, "Q.REQUEUE", q.Command, "TENANT", q.Tenant, "IDS", 1, fields["id"]); err != nil {
			return repaired, err
		}
		repaired++
	}
	return repaired, nil
}

func (n *nativeClient) Heartbeat(ctx context.Context, id, worker string, lease time.Duration) error {
	return n.owned(ctx, "Q.HEARTBEAT", worker, id, "LEASE", lease.Milliseconds())
}

func (n *nativeClient) Abandon(ctx context.Context, _ codeqclient.Queue, id, worker string) error {
	return n.owned(ctx, "Q.ABANDON", worker, id)
}

func (n *nativeClient) Nack(ctx context.Context, _ codeqclient.Queue, id, worker string, delay time.Duration, reason string) error {
	return n.owned(ctx, "Q.NACK", worker, id, "DELAY", delay.Milliseconds(), "REASON", reason)
}

func (n *nativeClient) Submit(ctx context.Context, _ codeqclient.Queue, id, worker string, result json.RawMessage, failure string) error {
	if failure != "" {
		return n.owned(ctx, "Q.SUBMIT", worker, id, "ERROR", failure)
	}
	return n.owned(ctx, "Q.SUBMIT", worker, id, "RESULT", string(result))
}
