package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/adjust/rmq/v5"
	"github.com/redis/go-redis/v9"
)

func TestRmq(t *testing.T) {
	test(t, client{
		drive: driveRmq, tasks: 1000, brief: 200, limit: 2 * time.Minute,
		repeats: "a publish whose reply is lost is sent again, and what a dead connection had taken is given out again",
		left:    keysBut("rmq::connections", "rmq::connection::cleaner-*::heartbeat"),
	})
}

// The kinds of rmq task. Each has a queue, named by its number.
const (
	rmqPlain    = iota // acknowledged; carries a header
	rmqBatched         // taken in batches
	rmqRejected        // rejected once, and returned to its queue by hand
	rmqPushed          // pushed on to the queue of plain tasks once
	rmqBuried          // rejected for good
	rmqKinds
)

// rmqDatabase is not the first, since clients are used with others, too.
const rmqDatabase = 3

// rmqHeartbeat is how long a connection counts as alive after its last sign of life.
const rmqHeartbeat = "rmq::connection::%s::heartbeat"

// rmqRun is a run of the driver: the connection that enqueues and cleans, and the one that its workers share.
type rmqRun struct {
	*performance
	home    rmq.Connection
	queues  []rmq.Queue // of home, by kind
	workers *rmqWorkers
	tries   *attempts
}

// rmqWorkers is a connection of its own, as a process with workers has.
type rmqWorkers struct {
	name   string
	client *redis.Client
	link   rmq.Connection
}

func driveRmq(ctx context.Context, o order, report func(event)) error {
	r := &rmqRun{performance: perform(ctx, o, report), tries: newAttempts()}
	client := redis.NewClient(&redis.Options{Addr: o.addr, DB: rmqDatabase})
	defer client.Close()
	var err error
	if r.home, err = rmq.OpenConnectionWithRedisClient("cleaner", client, nil); err != nil {
		return fmt.Errorf("open a connection: %w", err)
	}
	for kind := range rmqKinds {
		queue, err := r.home.OpenQueue(fmt.Sprint(kind))
		if err != nil {
			return fmt.Errorf("open a queue: %w", err)
		}
		r.queues = append(r.queues, queue)
	}
	for _, step := range []func() error{r.crash, r.hire, r.publish, r.settle, r.drain, r.close} {
		if err := step(); err != nil {
			return err
		}
	}
	report(event{Event: end})
	return nil
}

// connect opens a connection for workers.
func (r *rmqRun) connect() (*rmqWorkers, error) {
	w := &rmqWorkers{client: redis.NewClient(&redis.Options{Addr: r.addr, DB: rmqDatabase})}
	var err error
	if w.link, err = rmq.OpenConnectionWithRedisClient("workers", w.client, nil); err != nil {
		return nil, fmt.Errorf("open a connection for workers: %w", err)
	}
	w.name = fmt.Sprint(w.link)
	return w, nil
}

// crash lets workers die with tasks in their hands. They are returned to the queue, and done by the workers that follow.
func (r *rmqRun) crash() error {
	w, err := r.connect()
	if err != nil {
		return err
	}
	queue, err := w.link.OpenQueue(fmt.Sprint(rmqPlain))
	if err != nil {
		return fmt.Errorf("open a queue: %w", err)
	}
	const held, prefetch = 20, 10
	for _, id := range ids("held-", held) {
		if err := r.enqueue(event{ID: id}, func() error { return r.queues[rmqPlain].Publish(id) }); err != nil {
			return err
		}
	}
	if err := queue.StartConsuming(prefetch, time.Millisecond); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	names := []string{fmt.Sprint(rmqPlain)}
	if err := r.until("the doomed workers hold their tasks", func() bool {
		stats, err := r.home.CollectStats(names)
		return err == nil && stats.QueueStats[names[0]].UnackedCount() == prefetch
	}); err != nil {
		return err
	}
	r.workers = w
	return r.clean(prefetch)
}

// clean ends the workers' connection as a crash does, without waiting for the minute after which it counts as dead, and lets
// the cleaner return what it held.
func (r *rmqRun) clean(want int64) error {
	if err := r.workers.client.Close(); err != nil {
		return fmt.Errorf("close the workers' connection: %w", err)
	}
	<-r.workers.link.StopAllConsuming()
	admin := redis.NewClient(&redis.Options{Addr: r.addr, DB: rmqDatabase})
	defer admin.Close()
	if err := admin.Del(r.ctx, fmt.Sprintf(rmqHeartbeat, r.workers.name)).Err(); err != nil {
		return fmt.Errorf("end the heartbeat: %w", err)
	}
	returned, err := rmq.NewCleaner(r.home).Clean()
	if err != nil || returned != want && !r.kill {
		return unexpected("tasks returned by the cleaner", returned, err)
	}
	return nil
}

// hire starts workers for every kind of task.
func (r *rmqRun) hire() error {
	w, err := r.connect()
	if err != nil {
		return err
	}
	r.workers = w
	var first rmq.Queue
	for kind := range rmqKinds {
		queue, err := w.link.OpenQueue(fmt.Sprint(kind))
		if err != nil {
			return fmt.Errorf("open a queue: %w", err)
		}
		if kind == rmqPlain {
			first = queue
		}
		queue.SetPushQueue(first)
		if err := queue.StartConsuming(20, time.Millisecond); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		if kind == rmqBatched {
			_, err = queue.AddBatchConsumerFunc("batches", 7, 20*time.Millisecond, r.workBatch)
		} else {
			for range 3 {
				_, err = queue.AddConsumerFunc("worker", func(d rmq.Delivery) { r.work(kind, d) })
			}
		}
		if err != nil {
			return fmt.Errorf("add a consumer: %w", err)
		}
	}
	return nil
}

func (r *rmqRun) publish() error {
	for _, i := range r.shuffled() {
		kind, id := i%rmqKinds, fmt.Sprint("task-", i)
		promise, payload := event{ID: id}, id
		switch kind {
		case rmqPlain:
			payload = rmq.PayloadWithHeader(id, http.Header{"Number": {id}})
		case rmqRejected, rmqPushed:
			promise = failing(id, 1)
		case rmqBuried:
			promise = dying(id, 1)
		}
		if err := r.enqueue(promise, func() error { return r.queues[kind].Publish(payload) }); err != nil {
			return err
		}
	}
	return nil
}

// work is the consumer of every queue but that of batches. A call to the server that fails is repeated by the client.
func (r *rmqRun) work(kind int, d rmq.Delivery) {
	id := d.Payload()
	if headed, ok := d.(rmq.WithHeader); ok && kind == rmqPlain && strings.HasPrefix(id, "task-") {
		if number := headed.Header().Get("Number"); number != "" && number != id {
			r.note("the header of %s names %s", id, number)
			return // it is never done, which the ledger shows
		}
	}
	attempt := r.tries.next(id)
	var err error
	switch {
	case kind == rmqBuried:
		err = d.Reject()
		r.failed(id, attempt)
		if !r.hasEnded(id) {
			r.dead(id)
		}
	case kind == rmqRejected && attempt == 1:
		r.failed(id, attempt)
		err = d.Reject()
	case kind == rmqPushed:
		r.failed(id, attempt)
		err = d.Push()
	default:
		r.done(id)
		err = d.Ack()
	}
	if err != nil && !errors.Is(err, rmq.ErrorConsumingStopped) {
		r.note("%s: %v", id, err)
	}
}

func (r *rmqRun) workBatch(batch rmq.Deliveries) {
	for _, d := range batch {
		r.done(d.Payload())
	}
	for i, err := range batch.Ack() {
		r.note("%s: %v", batch[i].Payload(), err)
	}
}

// settle waits until every task has ended. It returns rejected tasks to their queue as an operator would, and when nothing
// goes on after a kill, workers die and are replaced: a task that was under way to them belongs to nobody else.
func (r *rmqRun) settle() error {
	moved, before := time.Now(), r.waiting()
	var wrong error
	err := r.until("all tasks have ended", func() bool {
		if _, err := r.queues[rmqRejected].ReturnRejected(1000); err != nil && !r.kill {
			wrong = err
		}
		if now := r.waiting(); now != before {
			before, moved = now, time.Now()
		}
		if r.kill && time.Since(moved) > 3*time.Second {
			moved = time.Now()
			r.note("new workers after a standstill with %d tasks", before)
			wrong = errors.Join(r.clean(0), r.hire())
		}
		return wrong != nil || r.waiting() == 0
	})
	return errors.Join(wrong, err)
}

// drain takes tasks off a queue that nobody consumes.
func (r *rmqRun) drain() error {
	queue, err := r.home.OpenQueue("drained")
	if err != nil {
		return fmt.Errorf("open a queue: %w", err)
	}
	batch := ids("drained-", 5)
	if err := queue.Publish(batch...); err != nil {
		return fmt.Errorf("publish a batch: %w", err)
	}
	for _, id := range batch {
		if err := r.enqueue(event{ID: id}, func() error { return nil }); err != nil {
			return err
		}
	}
	got, err := queue.Drain(int64(len(batch)))
	if err != nil || strings.Join(got, " ") != strings.Join(batch, " ") {
		return unexpected("drained", got, err)
	}
	for _, id := range got {
		r.done(id)
	}
	r.queues = append(r.queues, queue)
	return nil
}

// close lets the workers finish, sees that only rejected tasks remain, and removes the queues.
func (r *rmqRun) close() error {
	names, err := r.home.GetOpenQueues()
	if err != nil || len(names) != len(r.queues) {
		return unexpected("open queues", names, err)
	}
	if err := r.until("all is acknowledged", func() bool {
		stats, err := r.home.CollectStats(names)
		unacked := int64(0)
		for _, stat := range stats.QueueStats {
			unacked += stat.UnackedCount() + stat.ReadyCount
		}
		return err == nil && unacked == 0 || r.kill
	}); err != nil {
		return err
	}
	if err := r.clean(0); err != nil {
		return err
	}
	buried := int64(0)
	for kind, queue := range r.queues {
		ready, rejected, err := queue.Destroy()
		if err != nil || ready > 0 && !r.kill || rejected > 0 && kind != rmqBuried {
			return unexpected(fmt.Sprintf("ready and rejected tasks of queue %d", kind), []int64{ready, rejected}, err)
		}
		buried += rejected
	}
	want := int64(r.tasks+rmqKinds-1-rmqBuried) / rmqKinds
	if buried < want || buried > want && !r.kill {
		return unexpected("rejected tasks", buried, nil)
	}
	return nil
}
