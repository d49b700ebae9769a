package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// group enqueues tasks that are handed to the handler some at a time.
func (r *asynqRun) group() error {
	for _, id := range ids("grouped-", r.tasks/asynqKinds) {
		task := asynq.NewTask("member", []byte(id))
		if err := r.enqueue(event{ID: id}, func() error {
			return r.put(task, asynq.TaskID(id), asynq.Group("letters"))
		}); err != nil {
			return err
		}
	}
	groups, err := r.inspector.Groups("default")
	if err != nil || len(groups) > 1 {
		return unexpected("groups", groups, err)
	}
	return r.settle()
}

// pause stops a queue, sees that its task stays, and starts it again.
func (r *asynqRun) pause() error {
	if err := r.inspector.PauseQueue("low"); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	if err := r.send(asynqLow, "paused"); err != nil {
		return err
	}
	if err := r.send(asynqPlain, "meanwhile"); err != nil {
		return err
	}
	if err := r.until("another queue has gone on", func() bool { return r.hasEnded("meanwhile") }); err != nil {
		return err
	}
	info, err := r.inspector.GetQueueInfo("low")
	if err != nil || !info.Paused || info.Pending != 1 || info.MemoryUsage <= 0 {
		return unexpected("paused queue", info, err)
	}
	if err := r.inspector.UnpauseQueue("low"); err != nil {
		return fmt.Errorf("unpause: %w", err)
	}
	return r.settle()
}

// cancel ends a task that is being worked on; it is tried again.
func (r *asynqRun) cancel() error {
	const id = "cancelled"
	task := asynq.NewTask("cancelled", []byte(id))
	if err := r.enqueue(failing(id, 1), func() error { return r.put(task, asynq.TaskID(id)) }); err != nil {
		return err
	}
	select {
	case <-r.cancelled:
	case <-r.ctx.Done():
		return fmt.Errorf("wait for a task to cancel: %w", r.ctx.Err())
	}
	// The workers listen on a channel, which has no memory: a cancellation may come before they have connected again.
	return r.until("the cancelled task was tried again", func() bool {
		return r.hasEnded(id) || r.inspector.CancelProcessing(id) != nil
	})
}

// schedule lets a scheduler enqueue a periodic task.
func (r *asynqRun) schedule() error {
	sent := make(chan string, 100)
	scheduler := asynq.NewScheduler(r.redis, &asynq.SchedulerOpts{
		HeartbeatInterval: time.Second, // of a fraction of a second the client would make a deadline that no server takes
		LogLevel:          asynq.FatalLevel,
		PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
			if err == nil {
				sent <- info.ID
			}
		},
	})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("periodic", nil)); err != nil {
		return fmt.Errorf("register a periodic task: %w", err)
	}
	if err := scheduler.Start(); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	// It writes down that it has sent a task when it has said so, and not at all if the server is killed in between.
	if err := r.until("the scheduler has sent two tasks, and is seen with its history", func() bool {
		entries, _ := r.inspector.SchedulerEntries()
		if len(entries) != 1 {
			return false
		}
		history, _ := r.inspector.ListSchedulerEnqueueEvents(entries[0].ID)
		return len(history) >= 2
	}); err != nil {
		return err
	}
	scheduler.Shutdown()
	close(sent)
	for id := range sent {
		if err := r.enqueue(event{ID: id}, func() error { return nil }); err != nil {
			return err
		}
	}
	return r.settle()
}

// inspect looks at everything that the inspector shows, moves tasks by hand, and clears what is kept.
func (r *asynqRun) inspect() error {
	if err := r.move(); err != nil {
		return err
	}
	queues, err := r.inspector.Queues()
	slices.Sort(queues)
	if err != nil || strings.Join(queues, " ") != "critical default low" {
		return unexpected("queues", queues, err)
	}
	servers, err := r.inspector.Servers()
	if err != nil || len(servers) != 1 || servers[0].Concurrency != 8 {
		return unexpected("servers", servers, err)
	}
	dead := len(r.archived())
	if want := (r.tasks + asynqKinds - 1 - asynqArchived) / asynqKinds; dead != want {
		return fmt.Errorf("%d tasks in the archive, want %d", dead, want)
	}
	for _, queue := range queues {
		// A worker reports a task before the client takes it off the active ones.
		if err := r.until("nobody is at work", func() bool {
			info, err := r.inspector.GetQueueInfo(queue)
			return err == nil && info.Size == info.Archived+info.Completed
		}); err != nil {
			return err
		}
		days, err := r.inspector.History(queue, 2)
		if err != nil || len(days) != 2 || days[0].Processed+days[1].Processed == 0 {
			return unexpected("history of "+queue, days, err)
		}
		completed, err := r.inspector.DeleteAllCompletedTasks(queue)
		if err != nil || completed == 0 {
			return unexpected("delete the completed tasks of "+queue, completed, err)
		}
	}
	deleted, err := r.inspector.DeleteAllArchivedTasks("default")
	if err != nil || deleted != dead {
		return unexpected("delete the archived tasks", deleted, err)
	}
	return nil
}

// move takes one task through the places that the inspector can bring it to.
func (r *asynqRun) move() error {
	const id = "moved"
	task := asynq.NewTask("moved", []byte(id))
	if err := r.enqueue(event{ID: id}, func() error {
		return r.put(task, asynq.TaskID(id), asynq.ProcessIn(time.Hour))
	}); err != nil {
		return err
	}
	scheduled, err := r.inspector.ListScheduledTasks("default")
	if err != nil || len(scheduled) != 1 || scheduled[0].ID != id {
		return unexpected("scheduled tasks", scheduled, err)
	}
	if err := r.inspector.ArchiveTask("default", id); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	info, err := r.inspector.GetTaskInfo("default", id)
	if err != nil || info.State != asynq.TaskStateArchived {
		return unexpected("archived by hand", info, err)
	}
	if err := r.inspector.RunTask("default", id); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := r.inspector.RunTask("default", "nobody"); err == nil || !strings.Contains(err.Error(), "not found") {
		return unexpected("run a task that is not there", nil, err)
	}
	return r.settle()
}
