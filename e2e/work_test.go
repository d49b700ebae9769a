package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"

	"codeq/internal/peer"
)

func TestWork(t *testing.T) {
	test(t, client{
		drive: driveWork, tasks: 500, brief: 150, limit: 2 * time.Minute,
		slowRecovery: "what a dead pool of workers held is returned ten seconds after another one has started",
		repeats:      "a job that could not be taken off the jobs in progress is run again",
		left:         workLeft,
	})
}

// The kinds of job; a job's name is its kind.
const (
	workPlain     = iota
	workScheduled // due in a second
	workFlaky     // fails once
	workDoomed    // fails twice and is dead
	workUnique    // enqueued twice, is there once
	workSolo      // never two at a time
	workDropped   // fails once and is dropped
	workKinds
)

// workNamespace goes before every key, workDatabase holds them.
const (
	workNamespace = "work"
	workDatabase  = "5"
)

// workRun is a run of the driver.
type workRun struct {
	*performance
	admin    *redis.Pool
	enqueuer *work.Enqueuer
	client   *work.Client // what the web interface stands on
	tries    *attempts
	links    *redis.Pool // of the workers
	workers  *work.WorkerPool
	solo     atomic.Int32 // jobs of kind workSolo at work
	crowded  atomic.Bool  // there were two
}

func driveWork(ctx context.Context, o order, report func(event)) error {
	r := &workRun{performance: perform(ctx, o, report), tries: newAttempts()}
	r.admin = r.dial()
	defer r.admin.Close()
	r.enqueuer, r.client = work.NewEnqueuer(workNamespace, r.admin), work.NewClient(workNamespace, r.admin)
	r.start()
	for _, i := range r.shuffled() {
		if err := r.send(i%workKinds, fmt.Sprint("task-", i)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.settle, r.pause, r.inspect, r.bury, r.stop, r.periodic} {
		if err := step(); err != nil {
			return err
		}
	}
	report(event{Event: end})
	return nil
}

// dial makes a pool of connections.
func (r *workRun) dial() *redis.Pool {
	return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		c, err := redis.Dial("tcp", r.addr)
		if err != nil {
			return nil, err
		}
		if _, err := c.Do("SELECT", workDatabase); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}}
}

// start starts workers with connections of their own.
func (r *workRun) start() {
	r.links = r.dial()
	r.workers = work.NewWorkerPool(struct{}{}, 8, workNamespace, r.links)
	at := func(*work.Job) int64 { return 0 }
	for kind, options := range map[int]work.JobOptions{
		workPlain:     {Priority: 10},
		workScheduled: {},
		workFlaky:     {MaxFails: 9, Backoff: at},
		workDoomed:    {MaxFails: 2, Backoff: at},
		workUnique:    {},
		workSolo:      {MaxConcurrency: 1},
		workDropped:   {MaxFails: 1, SkipDead: true},
	} {
		r.workers.JobWithOptions(fmt.Sprint(kind), options, r.work)
	}
	r.workers.JobWithOptions("revived", work.JobOptions{MaxFails: 1}, r.work)
	r.workers.Start()
}

// send enqueues one job of a kind.
func (r *workRun) send(kind int, id string) error {
	promise, name, args := event{ID: id}, fmt.Sprint(kind), work.Q{"id": id}
	enqueue := func() error { return second(r.enqueuer.Enqueue(name, args)) }
	switch kind {
	case workScheduled:
		enqueue = func() error { return second(r.enqueuer.EnqueueIn(name, 1, args)) }
	case workFlaky:
		promise = failing(id, 1)
	case workDoomed:
		promise = dying(id, 2)
	case workDropped:
		promise = dying(id, 1)
	case workUnique:
		enqueue = func() error { return second(r.enqueuer.EnqueueUniqueIn(name, 1, args)) }
	}
	if err := r.enqueue(promise, enqueue); err != nil {
		return err
	}
	if kind != workUnique || r.kill {
		return nil
	}
	if job, err := r.enqueuer.EnqueueUniqueIn(name, 1, args); err != nil || job != nil {
		return unexpected("a second unique job", job, err)
	}
	return nil
}

func second[T any](_ T, err error) error { return err }

// work is the handler of every job.
func (r *workRun) work(job *work.Job) error {
	id := job.ArgString("id")
	attempt := r.tries.next(id)
	fail := func() error {
		r.failed(id, attempt)
		return errors.New("meant to fail")
	}
	switch job.Name {
	case fmt.Sprint(workFlaky), "revived":
		if attempt == 1 {
			return fail()
		}
	case fmt.Sprint(workDoomed):
		return fail()
	case fmt.Sprint(workDropped):
		if !r.hasEnded(id) {
			r.dead(id)
		}
		return fail()
	case fmt.Sprint(workSolo):
		if r.solo.Add(1) > 1 {
			r.crowded.Store(true)
		}
		defer r.solo.Add(-1)
	}
	r.done(id)
	return nil
}

// settle waits until every job has ended, the doomed ones among the dead. When nothing goes on after a kill, the workers die
// and are replaced: jobs whose way to them or from them was cut stay in progress as long as their pool lives.
func (r *workRun) settle() error {
	moved, before := time.Now(), r.waiting()
	limit := 3 * time.Second
	err := r.until("all jobs have ended", func() bool {
		if now := r.waiting(); now != before {
			before, moved = now, time.Now()
		}
		if r.kill && time.Since(moved) > limit {
			// The new workers look for dead pools after ten seconds.
			moved, limit = time.Now(), 20*time.Second
			r.note("new workers after a standstill with %d jobs", before)
			r.crash()
			r.start()
		}
		return r.buryDoomed() == nil && r.waiting() == 0 && r.inProgress() == 0
	})
	if err == nil && r.crowded.Load() && !r.kill {
		return errors.New("two jobs ran at once where one is the limit")
	}
	return err
}

// inProgress is the number of lists with jobs that a worker has taken.
func (r *workRun) inProgress() int {
	c := r.admin.Get()
	defer c.Close()
	lists, err := redis.Strings(c.Do("KEYS", workNamespace+":jobs:*:inprogress"))
	if err != nil {
		return -1
	}
	return len(lists)
}

// crash ends the workers as a crash does: they cannot say goodbye.
func (r *workRun) crash() {
	_ = r.links.Close() // the workers see that the connections are gone, which is the point
	r.workers.Stop()
}

// buryDoomed reports the jobs that are dead.
func (r *workRun) buryDoomed() error {
	return r.eachDead(func(job *work.DeadJob) error {
		if id := job.ArgString("id"); job.Name == fmt.Sprint(workDoomed) && !r.hasEnded(id) {
			r.dead(id)
		}
		return nil
	})
}

// eachDead calls do with each dead job, page by page.
func (r *workRun) eachDead(do func(*work.DeadJob) error) error {
	for page := uint(1); ; page++ {
		jobs, _, err := r.client.DeadJobs(page)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for _, job := range jobs {
			if err := do(job); err != nil {
				return err
			}
		}
	}
}

// workLeft finds keys that should not be there, and locks that are still held.
func workLeft(c *peer.Conn) ([]string, error) {
	left, err := keysBut("work:known_jobs", "work:last_periodic_enqueue", "work:jobs:*:lock", "work:jobs:*:lock_info",
		"work:jobs:*:max_concurrency", "work:worker:*")(c)
	if err != nil {
		return nil, err
	}
	if _, err := c.Call("SELECT", workDatabase); err != nil {
		return nil, err
	}
	locks, err := c.Call("KEYS", "work:jobs:*:lock")
	if err != nil {
		return nil, err
	}
	for _, key := range locks.Strings() {
		held, err := c.Call("GET", key)
		if err != nil {
			return nil, err
		}
		if held.Str != "0" {
			left = append(left, key+" holds "+held.Str)
		}
	}
	return left, nil
}
