package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func TestAsynq(t *testing.T) {
	test(t, client{
		drive: driveAsynq, tasks: 400, brief: 100, limit: 3 * time.Minute,
		repeats: "a worker that could not tell the server that a task is done loses its lease, and another one is given the task",
		left:    keysBut("asynq:queues", "asynq:{*}:processed*", "asynq:{*}:failed*", "asynq:scheduler_history:*"),
	})
}

// The kinds of asynq task; a task's type is its kind.
const (
	asynqPlain = iota
	asynqCritical
	asynqLow
	asynqDelayed
	asynqRetried
	asynqArchived
	asynqUnique
	asynqTimedOut
	asynqKinds
)

// asynqUniqueDelay keeps a unique task waiting while its duplicate is tried.
const asynqUniqueDelay = 2 * time.Second

// asynqRun is a run of the driver: its workers, and the client's two interfaces.
type asynqRun struct {
	*performance
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	server    *asynq.Server
	tries     *attempts
	busy      atomic.Int32 // handlers that are at work
	cancelled chan string  // ids of tasks that wait to be cancelled
}

func driveAsynq(ctx context.Context, o order, report func(event)) error {
	r := &asynqRun{
		performance: perform(ctx, o, report), redis: asynq.RedisClientOpt{Addr: o.addr, DB: 14},
		tries: newAttempts(), cancelled: make(chan string, 1),
	}
	r.client, r.inspector = asynq.NewClient(r.redis), asynq.NewInspector(r.redis)
	defer r.client.Close()
	defer r.inspector.Close()
	if err := r.start(); err != nil {
		return err
	}
	defer func() { r.server.Shutdown() }()
	for _, i := range r.shuffled() {
		if err := r.send(i%asynqKinds, fmt.Sprint("task-", i)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.settle, r.group, r.pause, r.cancel, r.schedule, r.inspect} {
		if err := step(); err != nil {
			return err
		}
	}
	report(event{Event: end})
	return nil
}

// start starts workers. They look for work more often than they would by themselves, to keep the test short.
func (r *asynqRun) start() error {
	r.server = asynq.NewServer(r.redis, asynq.Config{
		Concurrency:              8,
		Queues:                   map[string]int{"critical": 6, "default": 3, "low": 1},
		TaskCheckInterval:        20 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
		GroupGracePeriod:         time.Second,
		GroupMaxSize:             7,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			var members []string
			for _, task := range tasks {
				members = append(members, string(task.Payload()))
			}
			return asynq.NewTask("group", []byte(strings.Join(members, " ")))
		}),
		LogLevel: asynq.FatalLevel,
	})
	if err := r.server.Start(asynq.HandlerFunc(r.work)); err != nil {
		return fmt.Errorf("start the workers: %w", err)
	}
	return nil
}

// send enqueues one task of a kind.
func (r *asynqRun) send(kind int, id string) error {
	promise := event{ID: id}
	// Retention keeps a finished task, so that an enqueue that is tried again finds its id taken.
	options := []asynq.Option{asynq.TaskID(id), asynq.Retention(time.Hour)}
	switch kind {
	case asynqCritical:
		options = append(options, asynq.Queue("critical"))
	case asynqLow:
		options = append(options, asynq.Queue("low"))
	case asynqDelayed:
		options = append(options, asynq.ProcessIn(time.Second))
	case asynqRetried:
		promise = failing(id, 2)
	case asynqArchived:
		options = append(options, asynq.MaxRetry(1))
		promise = dying(id, 2)
	case asynqUnique:
		options = append(options, asynq.Unique(time.Hour), asynq.ProcessIn(asynqUniqueDelay))
	case asynqTimedOut:
		options = append(options, asynq.Timeout(time.Second))
		promise = failing(id, 1)
	}
	task := asynq.NewTask(fmt.Sprint(kind), []byte(id))
	if err := r.enqueue(promise, func() error { return r.put(task, options...) }); err != nil {
		return err
	}
	if kind != asynqUnique || r.kill {
		return nil
	}
	_, err := r.client.EnqueueContext(r.ctx, task, asynq.Unique(time.Hour))
	if !errors.Is(err, asynq.ErrDuplicateTask) {
		return unexpected("a second unique task", nil, err)
	}
	return nil
}

// put enqueues a task; one that is there already was acknowledged by a reply that got lost.
func (r *asynqRun) put(task *asynq.Task, options ...asynq.Option) error {
	_, err := r.client.EnqueueContext(r.ctx, task, options...)
	if r.kill && (errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)) {
		return nil
	}
	return err
}

// work is the handler of every task.
func (r *asynqRun) work(ctx context.Context, task *asynq.Task) error {
	r.busy.Add(1)
	defer r.busy.Add(-1)
	id := string(task.Payload())
	attempt := r.tries.next(id)
	fail := func(err error) error {
		r.failed(id, attempt)
		return err
	}
	switch task.Type() {
	case fmt.Sprint(asynqArchived):
		return fail(errors.New("meant to fail"))
	case fmt.Sprint(asynqRetried):
		if attempt <= 2 {
			return fail(errors.New("not yet"))
		}
	case fmt.Sprint(asynqTimedOut):
		if attempt == 1 {
			<-ctx.Done()
			return fail(ctx.Err())
		}
	case "cancelled":
		if attempt == 1 {
			r.cancelled <- id
			<-ctx.Done()
			return fail(ctx.Err())
		}
	case "periodic":
		id, _ = asynq.GetTaskID(ctx)
	case "group":
		for _, member := range strings.Fields(id) {
			r.done(member)
		}
		return nil
	}
	r.done(id)
	return nil
}

// settle waits until every task has ended: the dying ones in the archive. A task whose delivery was under way when the
// server was killed belongs to no worker, and is given out again when its lease has run out, a minute later; its lease is
// shortened instead, and new workers look for such tasks at their start.
func (r *asynqRun) settle() error {
	idle := time.Now()
	before := r.waiting()
	return r.until("all tasks have ended", func() bool {
		for _, task := range r.archived() {
			if !r.hasEnded(task.ID) {
				r.dead(task.ID)
			}
		}
		if now := r.waiting(); now != before || r.busy.Load() > 0 {
			before, idle = now, time.Now()
		}
		if r.kill && time.Since(idle) > 2*asynqUniqueDelay {
			idle = time.Now()
			r.note("leases of %d tasks shortened", r.shortenLeases())
		}
		return r.waiting() == 0
	})
}

// archived are the tasks in the archive. Without a server there are none to be seen.
func (r *asynqRun) archived() []*asynq.TaskInfo {
	tasks, err := r.inspector.ListArchivedTasks("default", asynq.PageSize(10_000))
	if err != nil {
		return nil
	}
	return tasks
}

func (r *asynqRun) shortenLeases() int {
	rdb := redis.NewClient(&redis.Options{Addr: r.addr, DB: r.redis.DB})
	defer rdb.Close()
	past := float64(time.Now().Add(-time.Hour).Unix())
	n := 0
	for _, queue := range []string{"critical", "default", "low"} {
		key := "asynq:{" + queue + "}:lease"
		for _, id := range rdb.ZRange(r.ctx, key, 0, -1).Val() {
			n++
			rdb.ZAddXX(r.ctx, key, redis.Z{Score: past, Member: id})
		}
	}
	r.server.Shutdown()
	if err := r.start(); err != nil {
		r.note("%v", err)
	}
	return n
}
