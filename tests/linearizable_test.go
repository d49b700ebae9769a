package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codeq/internal/peer"

	"github.com/anishathalye/porcupine"
)

const (
	// linClients is how many clients there are. With more the search takes too long: what enqueueings at the same time were
	// ordered like, and what of that which a crash has cut off had happened, shows only later, and every order has to be tried.
	linClients = 4
	// linOperations is how many operations a client has in a history.
	linOperations = 40
	// linDrain is the worker that claims what is left when the others are done.
	linDrain = linClients
)

// linear is one history in the making: clients that work on one queue.
type linear struct {
	server *peer.Server
	queue  string
	gate   *gate
	clock  atomic.Int64 // of calls and returns: every reading is later than those before
	tasks  atomic.Int64 // made so far

	mu      sync.Mutex // guards history
	history []porcupine.Operation
}

func newLinear(s *peer.Server, queue string) *linear {
	return &linear{server: s, queue: queue, gate: newGate()}
}

// record adds an operation that has just ended. One that was lost has ended when the server is there again: what it had not done by
// the crash it never will.
func (l *linear) record(client int, o queueOp, called int64, a queueAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	returned := l.clock.Add(1)
	l.history = append(l.history, porcupine.Operation{ClientId: client, Input: o, Call: called, Output: a, Return: returned})
}

// id is a task's id: its number, the queue's name, and nothing that is hexadecimal in front.
func (l *linear) id(task byte) string { return "t" + strconv.Itoa(int(task)) + "." + l.queue }

// run plays the clients until each has done its operations.
func (l *linear) run(ctx context.Context, seed uint64) error {
	errs := make(chan error, linClients)
	clients := make([]*peer.Conn, linClients)
	for i := range clients {
		var err error
		if clients[i], err = l.server.Dial(); err != nil {
			return err
		}
	}
	for i, c := range clients {
		go func() { // ends with its operations
			errs <- l.play(ctx, c, i, newRand(seed, uint64(i)))
		}()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-errs)
	}
	return err
}

// drain claims what is left when the clients are done, so that a task that was lost shows.
func (l *linear) drain(ctx context.Context) error {
	c, err := l.server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		a, err := l.do(ctx, c, linDrain, queueOp{verb: "claim", worker: linDrain, count: 2}, 0)
		if err != nil || a.tasks == "" {
			return err
		}
	}
}

// play is one client. When the server is killed it goes on with the next one.
func (l *linear) play(ctx context.Context, c *peer.Conn, index int, rng *rand.Rand) error {
	defer func() { c.Close() }()
	held := "" // what this worker has claimed and knows of
	crashes := 0
	for range linOperations {
		o, blockMs := l.choose(byte(index), held, rng)
		o.crashes = crashes
		a, err := l.do(ctx, c, index, o, blockMs)
		switch {
		case err != nil:
			return err
		case a.lost:
			c.Close()
			crashes++
			next, err := l.server.Dial()
			if err != nil {
				return err
			}
			c = next
		case o.verb == "claim":
			held += a.tasks
		}
		if o.verb != "claim" && o.verb != "enqueue" && len(held) > 0 && o.task == held[0] {
			held = held[1:]
		}
	}
	return nil
}

// choose draws an operation, and for how long a claim waits.
func (l *linear) choose(worker byte, held string, rng *rand.Rand) (o queueOp, blockMs int) {
	o = queueOp{worker: worker}
	draw := rng.IntN(100)
	if draw < 30 {
		o.verb, o.task = "enqueue", byte(l.tasks.Add(1)-1)
		return o, 0
	}
	if draw < 68 {
		o.verb, o.count = "claim", 1+rng.IntN(3)
		return o, rng.IntN(2) * (1 + rng.IntN(10))
	}
	o.verb = [...]string{"submit", "submit", "submit", "nack", "abandon"}[rng.IntN(5)]
	// Mostly a task of its own, sometimes any, another worker's or one that is not there.
	if len(held) > 0 && rng.IntN(4) > 0 {
		o.task = held[0]
	} else {
		o.task = byte(rng.IntN(int(l.tasks.Load()) + 2))
	}
	return o, 0
}

// do sends an operation and records it. When the server is killed it waits until that is there again. The error is of what no server
// should answer.
func (l *linear) do(ctx context.Context, c *peer.Conn, client int, o queueOp, blockMs int) (a queueAnswer, err error) {
	called := l.clock.Add(1)
	raw, err := c.Do(l.command(o, blockMs)...)
	if err != nil {
		if !l.gate.wait(ctx, err) {
			return a, ctx.Err()
		}
		a.lost = true
		l.record(client, o, called, a)
		return a, nil
	}
	reply, err := peer.Parse(raw)
	if err != nil {
		return a, err
	}
	a.code = "OK"
	switch {
	case reply.Kind == '-':
		a.code, _, _ = strings.Cut(reply.Str, " ")
	case o.verb == "claim":
		a.tasks, err = l.claimed(reply)
	case o.verb == "enqueue" && reply.Str != l.id(o.task):
		err = fmt.Errorf("Q.ENQUEUE: %q", raw)
	}
	l.record(client, o, called, a)
	return a, err
}

func (l *linear) command(o queueOp, blockMs int) []string {
	worker := "w" + strconv.Itoa(int(o.worker))
	switch o.verb {
	case "enqueue":
		priority := strconv.Itoa(linPriorities - 1 - priorityOf(o.task))
		return []string{"Q.ENQUEUE", l.queue, "payload", "ID", l.id(o.task), "PRIORITY", priority, "MAXATTEMPTS", "1000"}
	case "claim":
		command := []string{"Q.CLAIM", worker, "COUNT", strconv.Itoa(o.count), "LEASE", "3600000", "COMMANDS", "1", l.queue}
		if blockMs > 0 {
			command = append(command, "BLOCK", strconv.Itoa(blockMs))
		}
		return command
	case "nack":
		return []string{"Q.NACK", worker, l.id(o.task), "DELAY", "0"}
	}
	return []string{"Q." + strings.ToUpper(o.verb), worker, l.id(o.task)}
}

// claimed reads the tasks of a reply to Q.CLAIM.
func (l *linear) claimed(reply peer.Reply) (tasks string, err error) {
	for _, fields := range reply.Elems {
		for i := 0; i+1 < len(fields.Elems); i += 2 {
			if fields.Elems[i].Str != "id" {
				continue
			}
			number, _, _ := strings.Cut(strings.TrimPrefix(fields.Elems[i+1].Str, "t"), ".")
			task, err := strconv.Atoi(number)
			if err != nil || task >= linTasks || fields.Elems[i+1].Str != l.id(byte(task)) {
				return "", fmt.Errorf("Q.CLAIM of %s: %q", l.queue, fields.Elems[i+1].Str)
			}
			tasks += string([]byte{byte(task)})
		}
	}
	if len(tasks) != len(reply.Elems) {
		return "", fmt.Errorf("Q.CLAIM: %d tasks, %d ids", len(reply.Elems), len(tasks))
	}
	return tasks, nil
}

// crash kills the server once so many operations have ended, and starts it again.
func (l *linear) crash(ctx context.Context, after int64) error {
	err := peer.Poll(ctx, pollInterval, func() (bool, error) { return l.clock.Load() >= after, nil })
	if err != nil {
		return err
	}
	l.gate.shut()
	called := l.clock.Add(1)
	l.server.Kill9()
	l.record(linDrain, queueOp{verb: "crash"}, called, queueAnswer{code: "OK"})
	if err := l.server.Restart(ctx); err != nil {
		return err
	}
	l.gate.open()
	return nil
}

// histories are the history, or if the queue is spread over shards one for each of them.
func (l *linear) histories(spread bool) ([][]porcupine.Operation, error) {
	if !spread {
		return [][]porcupine.Operation{l.history}, nil
	}
	c, err := l.server.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	homes := map[byte]string{}
	for _, o := range l.history {
		task := o.Input.(queueOp).task
		if _, known := homes[task]; known {
			continue
		}
		route, err := c.Call("Q.ROUTE", l.queue, "ID", l.id(task))
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(route.Elems); i += 2 {
			if route.Elems[i].Str == "shard" {
				homes[task] = route.Elems[i+1].Str
			}
		}
	}
	return byShard(l.history, homes)
}

// linTargets are codeq alone: the reference has no queues of its own.
func linTargets() []target {
	return []target{codeqTarget(4, "hash", "everysec"), codeqTarget(1, "hash", "always"), codeqTarget(4, "task", "everysec")}
}

// TestLinearizable lets clients enqueue, claim with and without waiting, submit, give back and abandon at the same time, and looks
// for an order of these operations that explains every answer. Of a queue that is spread over shards it looks for one on each shard.
func TestLinearizable(t *testing.T) {
	eachTarget(t, linTargets(), func(t *testing.T, opts peer.Options) {
		ctx, s, from := testContext(t), peer.ForTest(t, opts), seed(t)
		var v verdicts
		for round := range pick(*roundsFlag, 6, 1000) {
			l := newLinear(s, "lin"+strconv.Itoa(round))
			if err := errors.Join(l.run(ctx, from+uint64(round)), l.drain(ctx)); err != nil {
				t.Fatal(err)
			}
			v.checkAll(t, l, opts)
		}
		v.suffice(t)
	})
}

// TestLinearizableKill9 is the same with kill -9 in the middle.
func TestLinearizableKill9(t *testing.T) {
	eachTarget(t, linTargets(), func(t *testing.T, opts peer.Options) {
		ctx, s, from := testContext(t), peer.ForTest(t, opts), seed(t)
		var v verdicts
		for round := range pick(*roundsFlag, 2, 100) {
			l := newLinear(s, "kill"+strconv.Itoa(round))
			crashed := make(chan error, 1)
			rng := newRand(from+uint64(round), linClients)
			after := 1 + rng.Int64N(linClients*linOperations*3/2)
			go func() { crashed <- l.crash(ctx, after) }() // ends with its crash
			err := l.run(ctx, from+uint64(round))
			if err = errors.Join(err, <-crashed, l.drain(ctx)); err != nil {
				t.Fatal(err)
			}
			v.checkAll(t, l, opts)
		}
		v.suffice(t)
	})
}
