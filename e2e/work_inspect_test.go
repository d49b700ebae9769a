package e2e

import (
	"fmt"
	"time"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"
)

// pause stops one queue, sees that its job stays, and starts it again.
func (r *workRun) pause() error {
	c := r.admin.Get()
	defer c.Close()
	key := fmt.Sprintf("%s:jobs:%d:paused", workNamespace, workPlain)
	if _, err := c.Do("SET", key, "1"); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	if err := r.send(workPlain, "paused"); err != nil {
		return err
	}
	if err := r.send(workSolo, "meanwhile"); err != nil {
		return err
	}
	if err := r.until("another queue has gone on", func() bool { return r.hasEnded("meanwhile") }); err != nil {
		return err
	}
	queues, err := r.client.Queues()
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	for _, queue := range queues {
		waits := queue.JobName == fmt.Sprint(workPlain)
		if waits != (queue.Count == 1) || !waits && queue.Count > 0 {
			return unexpected("jobs that wait", *queue, nil)
		}
	}
	if _, err := c.Do("DEL", key); err != nil {
		return fmt.Errorf("go on: %w", err)
	}
	return r.settle()
}

// inspect looks at the workers, and moves scheduled jobs by hand.
func (r *workRun) inspect() error {
	pools, err := r.client.WorkerPoolHeartbeats()
	if err != nil || len(pools) != 1 || pools[0].Concurrency != 8 || len(pools[0].JobNames) != workKinds+1 {
		return unexpected("pools of workers", pools, err)
	}
	observed, err := r.client.WorkerObservations()
	if err != nil || len(observed) != 8 {
		return unexpected("workers", observed, err)
	}
	retries, n, err := r.client.RetryJobs(1)
	if err != nil || n != 0 || len(retries) != 0 {
		return unexpected("jobs to be tried again", retries, err)
	}
	far, err := r.enqueuer.EnqueueIn(fmt.Sprint(workPlain), 3600, work.Q{"id": "never"})
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	scheduled, n, err := r.client.ScheduledJobs(1)
	if err != nil || n != 1 || scheduled[0].ID != far.ID || scheduled[0].RunAt != far.RunAt {
		return unexpected("scheduled jobs", scheduled, err)
	}
	if err := r.client.DeleteScheduledJob(far.RunAt, far.ID); err != nil {
		return fmt.Errorf("delete a scheduled job: %w", err)
	}
	if err := r.client.DeleteScheduledJob(far.RunAt, far.ID); err != work.ErrNotDeleted {
		return unexpected("delete it again", nil, err)
	}
	return nil
}

// bury tries a dead job again by hand, and removes the other dead ones.
func (r *workRun) bury() error {
	const id = "revived"
	if err := r.enqueue(failing(id, 1), func() error {
		return second(r.enqueuer.Enqueue("revived", work.Q{"id": id}))
	}); err != nil {
		return err
	}
	if err := r.until("the dead job was tried again", func() bool {
		err := r.eachDead(func(job *work.DeadJob) error {
			if job.Name != "revived" {
				return nil
			}
			return r.client.RetryDeadJob(job.DiedAt, job.ID)
		})
		return err == nil && r.hasEnded(id)
	}); err != nil {
		return err
	}
	dead := 0
	var last *work.DeadJob
	if err := r.eachDead(func(job *work.DeadJob) error { dead, last = dead+1, job; return nil }); err != nil {
		return fmt.Errorf("dead jobs: %w", err)
	}
	want := (r.tasks + workKinds - 1 - workDoomed) / workKinds
	if dead < want || dead > want && !r.kill {
		return fmt.Errorf("%d dead jobs, want %d", dead, want)
	}
	if err := r.client.DeleteDeadJob(last.DiedAt, last.ID); err != nil {
		return fmt.Errorf("delete a dead job: %w", err)
	}
	if err := r.client.DeleteAllDeadJobs(); err != nil {
		return fmt.Errorf("delete all dead jobs: %w", err)
	}
	return nil
}

// stop lets the workers finish and say goodbye.
func (r *workRun) stop() error {
	r.workers.Drain()
	r.workers.Stop()
	pools, err := r.client.WorkerPoolHeartbeats()
	if err != nil || len(pools) != 0 {
		return unexpected("pools of workers in the end", pools, err)
	}
	return nil
}

// periodic has a job enqueued every second for some minutes to come, sees it run twice, and removes what is still to come.
func (r *workRun) periodic() error {
	c := r.admin.Get()
	defer c.Close()
	// The workers before have left the time at which they looked for periodic jobs, of which they had none.
	if _, err := c.Do("DEL", workNamespace+":last_periodic_enqueue"); err != nil {
		return fmt.Errorf("forget the last periodic jobs: %w", err)
	}
	ticks := make(chan string, 1000)
	tick := func(job *work.Job) error { ticks <- job.ID; return nil }
	clock := work.NewWorkerPool(struct{}{}, 1, workNamespace, r.admin)
	clock.PeriodicallyEnqueue("* * * * * *", "tick").Job("tick", tick)
	clock.Start()
	err := r.until("two periodic jobs have run", func() bool { return len(ticks) >= 2 })
	clock.Stop()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		jobs, n, err := r.client.ScheduledJobs(1)
		if err != nil || time.Now().After(deadline) {
			return unexpected("scheduled jobs", n, err)
		}
		if n == 0 {
			break
		}
		for _, job := range jobs {
			if err := r.client.DeleteScheduledJob(job.RunAt, job.ID); err != nil {
				return fmt.Errorf("delete %s: %w", job.ID, err)
			}
		}
	}
	clock = work.NewWorkerPool(struct{}{}, 1, workNamespace, r.admin).Job("tick", tick)
	clock.Start()
	clock.Drain()
	clock.Stop()
	seen := map[string]bool{}
	for range len(ticks) {
		id := <-ticks
		if seen[id] {
			return fmt.Errorf("the periodic job %s ran twice", id)
		}
		seen[id] = true
	}
	if left, err := redis.Int(c.Do("LLEN", workNamespace+":jobs:tick")); err != nil || left != 0 {
		return unexpected("periodic jobs left", left, err)
	}
	return nil
}
