package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestGoRedis plays home-made queues, as they are written with a Redis client and nothing else, in both protocols. Each has a
// task done in one transaction that takes it out of the queue and enters it in a set, so that once is once even across a crash.
func TestGoRedis(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			test(t, client{
				drive: func(ctx context.Context, o order, report func(event)) error {
					return driveGoRedis(ctx, o, report, protocol)
				},
				tasks: 1000, brief: 250, limit: time.Minute,
				left: keysBut(homeDone, homeStream, homeDeadStream),
			})
		})
	}
}

// The keys that the queues have in common or leave: what is done, and the streams, which stay when they are empty.
const (
	homeDone       = "home:done"
	homeStream     = "home:stream"
	homeDeadStream = "home:stream:dead"
	homeGroup      = "workers"
)

// job is a task in a worker's hands; entry is what its queue knows it by.
type job struct {
	id, entry string
}

// homemade is a queue made of Redis commands.
type homemade interface {
	// promise is what is to become of the n-th task.
	promise(n int, id string) event
	enqueue(ctx context.Context, n int, id string) error
	// take waits for a moment at most; without a task it returns an empty id.
	take(ctx context.Context, worker string) (job, error)
	// finish reports whether it was this call that took the task out of the queue.
	finish(ctx context.Context, taken job) (bool, error)
	// recover returns what workers have taken that are gone.
	recover(ctx context.Context) error
}

// workersEach is how many workers a queue has.
const workersEach = 2

// homeRun is a run of the driver.
type homeRun struct {
	*performance
	rdb    *redis.Client
	queues []homemade
	tries  *attempts
}

func driveGoRedis(ctx context.Context, o order, report func(event), protocol int) error {
	r := &homeRun{performance: perform(ctx, o, report), tries: newAttempts()}
	r.rdb = redis.NewClient(&redis.Options{Addr: o.addr, Protocol: protocol, ClientName: "home", MaxRetries: -1})
	defer r.rdb.Close()
	if err := r.rdb.XGroupCreateMkStream(ctx, homeStream, homeGroup, "0").Err(); err != nil {
		return fmt.Errorf("create a consumer group: %w", err)
	}
	announced := newAnnouncedQueue(ctx, r.rdb)
	defer announced.close()
	r.queues = []homemade{
		&streamQueue{rdb: r.rdb}, &listQueue{rdb: r.rdb}, &scriptQueue{rdb: r.rdb}, &watchedQueue{rdb: r.rdb}, announced,
	}
	working, dismiss := context.WithCancel(ctx)
	var staff sync.WaitGroup
	failures := make(chan error, len(r.queues)*workersEach)
	for _, queue := range r.queues {
		for i := range workersEach {
			staff.Go(func() { failures <- r.work(working, queue, fmt.Sprint("worker-", i)) })
		}
	}
	err := r.produce()
	if err == nil {
		err = r.settle()
	}
	dismiss()
	staff.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(failure, err)
	}
	if err == nil && announced.heard.Load() == 0 {
		err = errors.New("not one task was announced")
	}
	if err == nil {
		err = r.features()
	}
	report(event{Event: end})
	return err
}

func (r *homeRun) produce() error {
	for place, n := range r.shuffled() {
		queue, id := r.queues[n%len(r.queues)], fmt.Sprint("task-", n)
		if err := r.enqueue(queue.promise(n, id), func() error { return queue.enqueue(r.ctx, place+1, id) }); err != nil {
			return err
		}
	}
	return nil
}

// work takes tasks until it is dismissed. Only a server that is killed may fail.
func (r *homeRun) work(ctx context.Context, queue homemade, worker string) error {
	for ctx.Err() == nil {
		taken, err := queue.take(ctx, worker)
		if err == nil && taken.id != "" {
			err = r.perform(ctx, queue, taken)
		}
		if err != nil && ctx.Err() == nil && !r.kill {
			return fmt.Errorf("%s of %T with %+v: %w", worker, queue, taken, err)
		}
	}
	return nil
}

// perform lets a task fail as often as its queue has promised, and finishes it then.
func (r *homeRun) perform(ctx context.Context, queue homemade, taken job) error {
	attempt := r.tries.next(taken.id)
	if stream, ok := queue.(*streamQueue); ok {
		switch fate := stream.fate(taken.id); {
		case fate == streamFails && attempt == 1:
			r.failed(taken.id, attempt)
			return nil // it stays pending, and is claimed by another worker later
		case fate == streamDies && attempt < streamAttempts:
			r.failed(taken.id, attempt)
			return nil
		case fate == streamDies:
			buried, err := stream.bury(ctx, taken)
			if buried {
				r.dead(taken.id)
			}
			return err
		}
	}
	mine, err := queue.finish(ctx, taken)
	if err == nil && mine {
		r.done(taken.id)
	}
	return err
}

// settle waits until every task has ended. When nothing goes on after a kill, it looks for tasks that are done though the
// reply that said so was lost, and returns those that no worker knows of.
func (r *homeRun) settle() error {
	moved, before := time.Now(), r.waiting()
	return r.until("all tasks have ended", func() bool {
		if now := r.waiting(); now != before {
			before, moved = now, time.Now()
		}
		if r.kill && time.Since(moved) > time.Second {
			moved = time.Now()
			r.reconcile()
		}
		return r.waiting() == 0
	})
}

func (r *homeRun) reconcile() {
	found := 0
	for _, id := range r.rdb.SMembers(r.ctx, homeDone).Val() {
		if !r.hasEnded(id) {
			found++
			r.done(id)
		}
	}
	for _, message := range r.rdb.XRange(r.ctx, homeDeadStream, "-", "+").Val() {
		if id := fmt.Sprint(message.Values["id"]); !r.hasEnded(id) {
			found++
			r.dead(id)
		}
	}
	r.note("%d tasks ended without a reply; %d wait", found, r.waiting())
	for _, queue := range r.queues {
		if err := queue.recover(r.ctx); err != nil {
			r.note("recover %T: %v", queue, err)
		}
	}
}

// removed runs a transaction that takes a task out of its queue by take, and enters it among those that are done. It reports
// whether the task was there.
func removed(ctx context.Context, rdb redis.Cmdable, id string, take func(redis.Pipeliner) *redis.IntCmd) (bool, error) {
	var taken *redis.IntCmd
	_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		taken = take(tx)
		tx.SAdd(ctx, homeDone, id)
		return nil
	})
	if err != nil {
		return false, err
	}
	return taken.Val() == 1, nil
}

// none turns the client's error for a null reply into no error.
func none(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
