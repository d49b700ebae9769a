package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codeq/internal/peer"
)

const (
	waitingTasks = 1_000_000 // the most that wait: redis has a kilobyte of memory for each
	waitingAlone = 50_000    // tasks of a run that are brought through their life one by one
)

// waitingServer is a server and what its clients do.
type waitingServer struct {
	*peer.Server
	lives     func(batch int) lifecycle
	took      float64       // seconds of all runs
	processor time.Duration // of the server meanwhile
}

// waiting compares the life of tasks while few and while many others wait: what these cost a server that has all of them in memory, and one
// that has not. Nobody waits for a server to be idle in between, so that what it does in the background later is measured as well.
func waiting(ctx context.Context, s settings, servers []*peer.Server) error {
	most := s.count(waitingTasks)
	fmt.Printf("Tasks as in mode queue, in %d queues, with as many others waiting; means of %d runs in turns, of %d tasks at depth 1 and %d else. µs is\n"+
		"the server's processor time for a task, MB its resident memory then.\n\n| waiting | depth |", backlogQueues, s.repeat, waitingAlone, backlogCycles)
	both := make([]*waitingServer, len(servers))
	for i, server := range servers {
		fmt.Printf(" %[1]s | %[1]s µs | %[1]s MB |", server.Kind())
		both[i] = &waitingServer{Server: server, lives: livesOf(server.Kind(), backlogQueues)}
		if err := prepare(server, benchmark{prepare: loadClaimScript}, 0); err != nil {
			return fmt.Errorf("%s: %w", server.Kind(), err)
		}
	}
	fmt.Print(" ratio | target | |\n|---|---|", strings.Repeat("---|", 3*len(servers)+3), "\n")
	for from, to := 0, min(backlogFew, most); from < most; from, to = to, most {
		for _, server := range both {
			if err := fillQueues(ctx, server.Server, server.lives, from, to, backlogQueues); err != nil {
				return fmt.Errorf("%s: make %d tasks wait: %w", server.Kind(), to, err)
			}
		}
		for _, goal := range queueTargets() {
			if err := compareWaiting(ctx, s.repeat, both, to, goal); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareWaiting prints a row.
func compareWaiting(ctx context.Context, repeat int, servers []*waitingServer, waits int, goal target) error {
	for _, server := range servers {
		server.took, server.processor = 0, 0
		if err := settle(ctx, server.Server); err != nil {
			return err
		}
	}
	tasks := backlogCycles
	if goal.depth == 1 {
		tasks = waitingAlone
	}
	for range repeat {
		for _, server := range servers {
			before := processorTime(server.PID())
			perSecond, err := cycle(ctx, server.Server, server.lives(goal.depth), backlogQueues, goal.depth, tasks)
			if err != nil {
				return fmt.Errorf("%s: %w", server.Kind(), err)
			}
			server.took += float64(tasks) / perSecond
			server.processor += processorTime(server.PID()) - before
		}
	}
	fmt.Printf("| %d | %d |", waits, goal.depth)
	all, rates := float64(repeat*tasks), map[peer.Kind]float64{}
	for _, server := range servers {
		resident, err := residentMB(server.PID())
		if err != nil {
			return err
		}
		rates[server.Kind()] = all / server.took
		fmt.Printf(" %.0f | %.1f | %d |", all/server.took, float64(server.processor.Microseconds())/all, resident)
	}
	fmt.Println(verdict(rates, goal))
	return nil
}
