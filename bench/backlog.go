package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeq/internal/peer"
)

const (
	backlogTasks  = 10_000_000
	backlogQueues = 100       // that tasks wait in, where their number is what changes
	backlogFew    = 1000      // tasks that wait in the first of the measurements that change this
	backlogSome   = 1_000_000 // in the second
	backlogFixed  = 100_000   // where the number of queues is what changes
	backlogCycles = 200_000   // of one run: compactions come once in tens of thousands, and shall weigh what they do for good
	backlogBatch  = 16
	fillBatch     = 500 // tasks per Q.MENQUEUE when a backlog is made

	backlogMemoryMB = 1024
	backlogStart    = 10 * time.Second

	leasedTasks = 1_000_000
	leasedStart = 2 * time.Second

	settledShare = 0.1 // of a core that an idle server may use
	settledEvery = 500 * time.Millisecond
	settledLimit = 30 * time.Second
)

// backlog measures what a task's cycle costs with many tasks waiting and with many queues, which should make no difference, and what
// memory and time to start many waiting tasks take. It is codeq's only: redis would need many times the memory.
func backlog(ctx context.Context, s settings, servers []*peer.Server) error {
	for _, server := range servers {
		if server.Kind() != peer.Codeq {
			continue
		}
		return backlogOf(ctx, server, s.count(backlogTasks), max(1, s.repeat))
	}
	return errors.New("backlog measures codeq")
}

func backlogOf(ctx context.Context, server *peer.Server, most, repeat int) error {
	fmt.Printf("%d runs of %d tasks, which are enqueued, claimed and submitted %d at a time by %d producers and %d workers, with as many waiting, of\n"+
		"%d bytes each, in so many queues; µs is the server's processor time for a task, compaction included: the mean, and the least and most of a run.\n\n"+
		"| waiting | queues | tasks/s | µs | of all runs |\n|---|---|---|---|---|\n",
		repeat, backlogCycles, backlogBatch, queueProducers, queueWorkers, queuePayload)
	for _, queues := range []int{1, 100, 10_000} {
		if err := emptied(server); err != nil {
			return err
		}
		if err := cycleWith(ctx, server, 0, min(backlogFixed, most), queues, repeat); err != nil {
			return err
		}
	}
	if err := emptied(server); err != nil {
		return err
	}
	waiting := 0
	for _, n := range []int{backlogFew, backlogSome, most} {
		if n = min(n, most); n <= waiting {
			break
		}
		if err := cycleWith(ctx, server, waiting, n, backlogQueues, repeat); err != nil {
			return err
		}
		waiting = n
	}
	return restartWith(ctx, server, waiting)
}

func emptied(server *peer.Server) error {
	c, err := loader(server)
	if err == nil {
		c.Close()
	}
	return err
}

// cycleWith makes so many tasks wait and prints what a cycle costs then. A mean over all runs has what compactions take, which come in bursts.
func cycleWith(ctx context.Context, server *peer.Server, from, to, queues, repeat int) error {
	if err := fillQueues(ctx, server, livesOf(server.Kind(), queues), from, to, queues); err != nil {
		return fmt.Errorf("make %d tasks wait: %w", to, err)
	}
	if err := settle(ctx, server); err != nil {
		return err
	}
	var seconds, sum float64
	var micros []float64 // for a task, of each run
	for range repeat {
		before := processorTime(server.PID())
		perSecond, err := cycle(ctx, server, livesOf(server.Kind(), queues)(backlogBatch), queues, backlogBatch, backlogCycles)
		if err != nil {
			return err
		}
		took := float64((processorTime(server.PID()) - before).Microseconds()) / backlogCycles
		seconds, sum, micros = seconds+backlogCycles/perSecond, sum+took, append(micros, took)
	}
	fmt.Printf("| %d | %d | %.0f | %.1f | %.1f to %.1f |\n", to, queues, float64(repeat)*backlogCycles/seconds, sum/float64(repeat),
		slices.Min(micros), slices.Max(micros))
	return nil
}

// fillQueues enqueues until so many tasks wait, spread evenly over the queues.
func fillQueues(ctx context.Context, server *peer.Server, lives func(batch int) lifecycle, from, to, queues int) error {
	batch := max(1, min(fillBatch, (to-from)/queues))
	turns, life := (to-from)/batch, lives(batch)
	parts := make(chan int, queueProducers)
	for part := range queueProducers {
		parts <- part
	}
	_, err := together(server, queueProducers, func(c *peer.Conn) error {
		c.SetTimeout(loadTimeout)
		for turn := <-parts; turn < turns && ctx.Err() == nil; turn += queueProducers {
			if err := life.enqueue(c, turn%queues, batch); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return err
}

// settle waits until the server has done what a load leaves behind, or for a while.
func settle(ctx context.Context, server *peer.Server) error {
	limited, cancel := context.WithTimeout(ctx, settledLimit)
	defer cancel()
	last := time.Duration(-1)
	err := peer.Poll(limited, settledEvery, func() (bool, error) {
		was := last
		last = processorTime(server.PID())
		return was >= 0 && last-was < time.Duration(settledShare*float64(settledEvery)), nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// leases measures how long the server takes to start with many tasks claimed. It is codeq's only.
func leases(ctx context.Context, s settings, servers []*peer.Server) error {
	for _, server := range servers {
		if server.Kind() == peer.Codeq {
			return leasesOf(ctx, server, s.count(leasedTasks))
		}
	}
	return errors.New("leases measures codeq")
}

func leasesOf(ctx context.Context, server *peer.Server, n int) error {
	if err := emptied(server); err != nil {
		return err
	}
	if err := fillQueues(ctx, server, livesOf(server.Kind(), backlogQueues), 0, n, backlogQueues); err != nil {
		return fmt.Errorf("make %d tasks wait: %w", n, err)
	}
	if err := claimAll(server); err != nil {
		return fmt.Errorf("claim %d tasks: %w", n, err)
	}
	clean, crashed, err := startTwice(ctx, server, n, countIn("inProgress"))
	if err != nil {
		return err
	}
	fmt.Printf("With %d tasks claimed in %d queues: start %v after a clean stop, %v after kill -9 (limit %v).\n", n, backlogQueues,
		clean.Round(time.Millisecond), crashed.Round(time.Millisecond), leasedStart)
	return nil
}

// claimAll claims what waits in all queues, for longer than any measurement takes.
func claimAll(server *peer.Server) error {
	queues := make(chan int, backlogQueues)
	for queue := range backlogQueues {
		queues <- queue
	}
	close(queues)
	_, err := together(server, queueWorkers, func(c *peer.Conn) error {
		c.SetTimeout(loadTimeout)
		for queue := range queues {
			for waits := true; waits; {
				reply, err := c.Call("Q.CLAIM", "worker", "COUNT", strconv.Itoa(fillBatch), "LEASE", "86400000", "COMMANDS", "1", queueName(queue))
				if err != nil {
					return err
				}
				waits = len(reply.Elems) > 0
			}
		}
		return nil
	})
	return err
}

// startTwice kills the server, which has a log to replay then, and stops it, and tells how long it takes to start each time.
func startTwice(ctx context.Context, server *peer.Server, n int, count func(c *peer.Conn) (int, error)) (clean, crashed time.Duration, err error) {
	server.Kill9()
	if crashed, err = timeStart(ctx, server, n, count); err != nil {
		return 0, 0, err
	}
	if err := server.Term(ctx); err != nil {
		return 0, 0, err
	}
	clean, err = timeStart(ctx, server, n, count)
	return clean, crashed, err
}

// restartWith prints the memory that the server has with the tasks that wait, and how long it takes to start on them.
func restartWith(ctx context.Context, server *peer.Server, waiting int) error {
	loaded, err := residentMB(server.PID())
	if err != nil {
		return err
	}
	clean, crashed, err := startTwice(ctx, server, waiting, countIn("ready"))
	if err != nil {
		return err
	}
	started, err := residentMB(server.PID())
	if err != nil {
		return err
	}
	fmt.Printf("\nWith %d tasks in %d queues: %d MB resident, %d MB after a start and the counting of all queues (limit %d MB); start %v after\n"+
		"a clean stop, %v after kill -9 (limit %v).\n", waiting, backlogQueues, loaded, started, backlogMemoryMB,
		clean.Round(time.Millisecond), crashed.Round(time.Millisecond), backlogStart)
	return nil
}

// countIn counts the tasks in a place, as Q.STATS names it.
func countIn(place string) func(c *peer.Conn) (int, error) {
	return func(c *peer.Conn) (int, error) { return countTasks(c, place) }
}

func countTasks(c *peer.Conn, place string) (sum int, err error) {
	for queue := range backlogQueues {
		n, err := countQueue(c, queueName(queue), place)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// countQueue counts again where a shard was too busy to answer.
func countQueue(c *peer.Conn, queue, place string) (int, error) {
	for {
		stats, err := c.Call("Q.STATS", queue)
		if err != nil {
			return 0, err
		}
		values := make(map[string]string, len(stats.Elems)/2)
		for i := 0; i+1 < len(stats.Elems); i += 2 {
			values[stats.Elems[i].Str] = stats.Elems[i+1].Str
		}
		if values["complete"] != "1" {
			continue
		}
		n, err := strconv.Atoi(values[place])
		if err != nil {
			return 0, fmt.Errorf("Q.STATS: %w", err)
		}
		return n, nil
	}
}
