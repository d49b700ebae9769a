package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"

	"github.com/redis/go-redis/v9"
)

const (
	producers = 4
	workers   = 8
	// longLease is longer than any test; shortLease is the shortest that codeQ knows, for leases that shall run out.
	longLease  = time.Hour
	shortLease = time.Second
	// maxAttempts is what a task that dies uses up.
	maxAttempts = 3
	// idlePause is how long a worker that found nothing waits for something to happen.
	idlePause = 20 * time.Millisecond
)

// errLedger says that the server lost or invented tasks.
var errLedger = errors.New("ledger")

// cycleQueues are the queues that tasks are spread over.
func cycleQueues() []codeqclient.Queue {
	return []codeqclient.Queue{
		{Command: "GENERATE_MASTER"}, {Command: "RENDER"}, {Command: "EMAIL"}, {Command: "EMAIL", Tenant: "acme"},
	}
}

// cycle plays codeQ and its users on one server: producers enqueue n numbered tasks, workers bring each to the end that
// its number asks for, and a ledger counts. Delays and leases take their time, since codeq looks after both as well: a client
// whose clock is ahead of the server's moves tasks that the server is about to move, and codeQ's sequences don't stand
// two movers. Only retention passes on the test's own clock, in the end.
type cycle struct {
	server *peer.Server
	client *codeqclient.Client
	native *nativeClient // nil unless some of the users are its
	ledger *ledger
	queues []codeqclient.Queue
	n      int
	offset atomic.Int64 // nanoseconds that the test's clock is ahead
	next   atomic.Int64 // the next number to enqueue
	gate   *gate        // nil when the server is never killed
	ids    struct {
		sync.Mutex // guards rng
		rng        *rand.Rand
	}
}

func newCycle(ctx context.Context, t *testing.T, s *peer.Server, n int, oldClaim bool, g *gate) *cycle {
	t.Helper()
	c := &cycle{server: s, ledger: newLedger(), queues: cycleQueues(), n: n, gate: g}
	c.ids.rng = newRand(seed(t), 1)
	rdb := codeqclient.Dial(s.Addr(), 0, producers+workers+4)
	t.Cleanup(func() { _ = rdb.Close() })
	opts := codeqclient.Options{Now: c.now, NewID: c.newID, OldClaim: oldClaim}
	if g != nil {
		opts.Recover = g.wait
	}
	client, err := codeqclient.New(ctx, rdb, opts)
	if err != nil {
		t.Fatalf("codeQ client: %v", err)
	}
	c.client = client
	return c
}

func (c *cycle) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// newID makes a UUID of version 4.
func (c *cycle) newID() string {
	c.ids.Lock()
	defer c.ids.Unlock()
	a, b := c.ids.rng.Uint64(), c.ids.rng.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

// queueOf spreads numbers over queues so that every fate occurs in each.
func (c *cycle) queueOf(number int) codeqclient.Queue {
	return c.queues[number/int(fates)%len(c.queues)]
}

// operations are what producers and workers do, whichever client they use.
type operations interface {
	Enqueue(ctx context.Context, e codeqclient.Enqueue) (t codeqclient.Task, became bool, err error)
	Claim(ctx context.Context, q codeqclient.Queue, worker string, lease time.Duration) (*codeqclient.Task, error)
	Repair(ctx context.Context, q codeqclient.Queue, delay time.Duration) (repaired int, err error)
	Heartbeat(ctx context.Context, id, worker string, lease time.Duration) error
	Abandon(ctx context.Context, q codeqclient.Queue, id, worker string) error
	Nack(ctx context.Context, q codeqclient.Queue, id, worker string, delay time.Duration, reason string) error
	Submit(ctx context.Context, q codeqclient.Queue, id, worker string, result json.RawMessage, failure string) error
}

// clientOf is the client of a user: every other one has the native one, if there is one.
func (c *cycle) clientOf(index int) operations {
	if c.native != nil && index%2 == 1 {
		return c.native
	}
	return c.client
}

// run plays until every task has ended or something is wrong.
func (c *cycle) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	play := func(role func(context.Context) error) {
		wg.Go(func() {
			if err := role(ctx); err != nil {
				cancel(err)
			}
		})
	}
	for i := range producers {
		play(func(ctx context.Context) error { return c.produce(ctx, c.clientOf(i)) })
	}
	for i := range workers {
		play(func(ctx context.Context) error { return c.work(ctx, i) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *cycle) produce(ctx context.Context, client operations) error {
	for {
		number := int(c.next.Add(1)) - 1
		if number >= c.n {
			return nil
		}
		e := codeqclient.Enqueue{
			Queue: c.queueOf(number), Payload: strconv.Itoa(number), Priority: number % 10, MaxAttempts: maxAttempts,
		}
		times := 1
		switch fate(number % int(fates)) {
		case comesLate:
			e.Delay = time.Duration(1+number%5) * time.Second
		case enqueuedTwice:
			e.IdempotencyKey, times = "cycle-"+e.Payload, 2
		}
		if err := c.enqueue(ctx, client, e, number, times); err != nil {
			return fmt.Errorf("enqueue task %d: %w", number, err)
		}
	}
}

// enqueue enqueues a task, twice at the same time where its fate says so.
func (c *cycle) enqueue(ctx context.Context, client operations, e codeqclient.Enqueue, number, times int) error {
	errs := make(chan error, times)
	for range times {
		go func() { // ends with its one operation; enqueue waits for it
			t, _, err := client.Enqueue(ctx, e)
			if err == nil {
				err = c.ledger.enqueued(number, t.ID)
			}
			errs <- err
		}()
	}
	var err error
	for range times {
		err = errors.Join(err, <-errs)
	}
	return err
}

// work claims from the queues in turn until every task has ended.
func (c *cycle) work(ctx context.Context, index int) error {
	name, client := fmt.Sprintf("worker-%d", index), c.clientOf(index)
	idle := 0
	for turn := index; c.ledger.progress() < c.n; turn++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		q := c.queues[turn%len(c.queues)]
		lease := longLease
		t, err := client.Claim(ctx, q, name, lease)
		switch {
		case err != nil && codeqclient.LostReply(err) && c.gate != nil:
			// Nobody knows whether a task was taken; repair will find it.
			if !c.gate.wait(ctx, err) {
				return ctx.Err()
			}
		case err != nil:
			return fmt.Errorf("claim: %w", err)
		case t != nil:
			idle = 0
			if err := c.play(ctx, client, q, t, name); err != nil {
				return fmt.Errorf("task %s (payload %s): %w", t.ID, t.Payload, err)
			}
		default:
			if idle++; idle >= len(c.queues) {
				idle = 0
				if err := c.nothingToDo(ctx, client); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// nothingToDo looks for leases that have run out, and lets some time pass.
func (c *cycle) nothingToDo(ctx context.Context, client operations) error {
	for _, q := range c.queues {
		if _, err := client.Repair(ctx, q, time.Second); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	timer := time.NewTimer(idlePause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// play does with a claimed task what its fate asks for.
func (c *cycle) play(ctx context.Context, client operations, q codeqclient.Queue, t *codeqclient.Task, worker string) error {
	number, err := strconv.Atoi(t.Payload)
	if err != nil || c.queueOf(number) != q {
		return fmt.Errorf("%w: claimed from %v with payload %q", errLedger, q, t.Payload)
	}
	f, claims := c.ledger.claimed(t.ID, number)
	switch {
	case f == nackedOnce && claims == 1:
		return client.Nack(ctx, q, t.ID, worker, time.Second, "try again")
	case f == dies:
		if err := client.Nack(ctx, q, t.ID, worker, time.Second, "no good"); err != nil {
			return err
		}
		if t.Attempts >= maxAttempts {
			c.ledger.end(t.ID, dead)
		}
		return nil
	case f == abandonedOnce && claims == 1:
		return client.Abandon(ctx, q, t.ID, worker)
	case f == losesLease && claims == 1:
		return client.Heartbeat(ctx, t.ID, worker, shortLease) // and never comes back
	case f == beats:
		if err := client.Heartbeat(ctx, t.ID, worker, 2*longLease); err != nil {
			return err
		}
	case f == fails:
		if err := client.Submit(ctx, q, t.ID, worker, nil, "broken input"); err != nil {
			return err
		}
		c.ledger.end(t.ID, failed)
		return nil
	}
	result := json.RawMessage(fmt.Sprintf(`{"number":%d}`, number))
	if err := client.Submit(ctx, q, t.ID, worker, result, ""); err != nil {
		return err
	}
	c.ledger.end(t.ID, completed)
	return nil
}

// audit compares the ledger with what the server holds when all is done, then lets retention pass and looks again.
func (c *cycle) audit(ctx context.Context) error {
	if err := c.ledger.balance(c.n); err != nil {
		return err
	}
	var dlq int64
	for _, q := range c.queues {
		stats, err := c.client.Stats(ctx, q)
		if err != nil {
			return err
		}
		if stats.Waiting() != 0 {
			return fmt.Errorf("%w: queue %v still holds %+v", errLedger, q, stats)
		}
		dlq += stats.DLQ
	}
	if want := int64(c.ledger.count(dead)); dlq != want {
		return fmt.Errorf("%w: %d dead tasks, want %d", errLedger, dlq, want)
	}
	rdb := c.client.Redis()
	if err := c.auditTasks(ctx, rdb); err != nil {
		return err
	}
	return c.auditCleanup(ctx, rdb)
}

// auditTasks checks every task's JSON and result.
func (c *cycle) auditTasks(ctx context.Context, rdb *redis.Client) error {
	tasks, err := rdb.HGetAll(ctx, "codeq:tasks").Result()
	if err != nil {
		return err
	}
	results, err := rdb.HGetAll(ctx, "codeq:results").Result()
	if err != nil {
		return err
	}
	if want := c.n - c.ledger.count(dead); len(tasks) != c.n || len(results) != want {
		return fmt.Errorf("%w: %d tasks and %d results, want %d and %d", errLedger, len(tasks), len(results), c.n, want)
	}
	for id, e := range c.ledger.tasks {
		var t codeqclient.Task
		if err := json.Unmarshal([]byte(tasks[id]), &t); err != nil {
			return fmt.Errorf("%w: task %s holds %q: %w", errLedger, id, tasks[id], err)
		}
		want := codeqclient.Failed
		if e.fate.due() == completed {
			want = codeqclient.Completed
		}
		if t.ID != id || t.Status != want || t.Payload != strconv.Itoa(e.number) {
			return fmt.Errorf("%w: task %s of fate %d holds %s", errLedger, id, e.fate, tasks[id])
		}
	}
	return nil
}

// auditCleanup removes all tasks after their retention and checks that only what has its own life stays.
func (c *cycle) auditCleanup(ctx context.Context, rdb *redis.Client) error {
	if n, err := c.client.Cleanup(ctx, c.now(), 1); err != nil || n != 0 {
		return fmt.Errorf("cleanup before retention ended removed %d: %v", n, err)
	}
	c.offset.Add(int64(26 * time.Hour)) // the server keeps its own tasks for an hour and a half longer than the client does
	for left := c.n; left > 0; {
		n, err := c.client.Cleanup(ctx, c.now(), 500)
		if err != nil || n == 0 {
			return fmt.Errorf("cleanup with %d tasks left removed %d: %v", left, n, err)
		}
		left -= n
	}
	keys, err := rdb.Keys(ctx, "codeq:*").Result()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key != "codeq:results" && !isIdempotency(key) {
			return fmt.Errorf("%w: %s is left after cleanup", errLedger, key)
		}
	}
	return nil
}

func isIdempotency(key string) bool {
	const prefix = "codeq:idempo:cycle-"
	return len(key) > len(prefix) && key[:len(prefix)] == prefix
}

// cycleTargets are the reference and combinations of shards, supplier and policy: in the short form every two of these meet once at
// least, in the long form every three.
func cycleTargets() []target {
	targets := []target{redisTarget("everysec")}
	for i, shards := range []int{1, 4, 16} {
		for j, policy := range policies {
			for k, supplier := range []string{"hash", "static"} {
				if full() || k == (i+j)%2 {
					targets = append(targets, codeqTarget(shards, supplier, policy))
				}
			}
		}
	}
	return append(targets, codeqTarget(4, "task", "everysec"), codeqTarget(16, "task", "everysec"))
}

// cycleTasks is how many tasks a cycle has: the short form runs its full number on the reference and on the default
// configuration, and a fifth of it elsewhere.
func cycleTasks(opts peer.Options) int {
	n := pick(*tasksFlag, 5000, 50000)
	reference := opts.Kind == peer.Redis && opts.AppendFsync == "everysec"
	if !reference && !isDefault(opts) && !full() {
		n /= 5
	}
	return n
}

func TestCodeqCycle(t *testing.T) {
	eachTargetAtOnce(t, cycleTargets(), func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		c := newCycle(ctx, t, peer.ForTest(t, opts), cycleTasks(opts), false, nil)
		if err := c.run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.audit(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCodeqCycleOldScript runs the cycle with the older claim script and without the scripts being cached: codeQ's
// EVALSHA meets NOSCRIPT and goes on with EVAL.
func TestCodeqCycleOldScript(t *testing.T) {
	targets := append(plainTargets(), codeqTarget(4, "task", "everysec"))
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		c := newCycle(ctx, t, peer.ForTest(t, opts), cycleTasks(opts)/5, true, nil)
		if err := c.client.Redis().ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.audit(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
