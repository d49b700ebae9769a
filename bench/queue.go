package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"
)

const (
	queueProducers = 4
	queueWorkers   = 8
	queuePayload   = 200 // bytes of a task's payload
	// enqueuedAhead is how many batches producers may be ahead of workers.
	enqueuedAhead = 64
	leaseSeconds  = 300
	taskResult    = `{"ok":true}`
)

// queueTargets are those of a task's whole cycle.
func queueTargets() []target { return []target{{1, 2}, {16, 3}} }

// queueCycle compares the life of tasks: in codeq by its own commands, in redis by the commands and scripts of codeQ's client.
func queueCycle(ctx context.Context, s settings, servers []*peer.Server) error {
	fmt.Printf("Tasks with a payload of %d bytes are enqueued, claimed and submitted by %d producers and %d workers, median of %d, tasks per\n"+
		"second; depth is how many tasks a client enqueues, claims and submits at a time. codeq: Q.ENQUEUE or Q.MENQUEUE, Q.CLAIM,\n"+
		"Q.SUBMIT. redis: the sequences of codeQ's client over the same connections, each of its steps pipelined for all tasks of a\n"+
		"batch, with JSON that is at hand. A worker claims only where a batch waits, so that nobody polls. Every run begins with FLUSHALL.\n\n",
		queuePayload, queueProducers, queueWorkers, s.repeat)
	var benchmarks []benchmark
	for _, queues := range []int{1, 8} {
		benchmarks = append(benchmarks, benchmark{name: "cycle, queues: " + strconv.Itoa(queues), prepare: loadClaimScript,
			drive: func(ctx context.Context, server *peer.Server, depth, requests int) (float64, error) {
				return cycle(ctx, server, livesOf(server.Kind(), queues)(depth), queues, depth, requests)
			}})
	}
	return compareAll(ctx, s, servers, queueTargets(), benchmarks)
}

func loadClaimScript(c *peer.Conn, _ int) error { return load(c, codeqclient.ClaimScript) }

// lifecycle is how the clients of a server bring tasks from their enqueueing to their end, so many at a time.
type lifecycle interface {
	enqueue(c *peer.Conn, queue, batch int) error
	claimAndSubmit(c *peer.Conn, queue, batch int) error
}

// livesOf returns what makes a lifecycle of so many tasks at a time. The tasks of one differ from those of another.
func livesOf(kind peer.Kind, queues int) func(batch int) lifecycle {
	if kind == peer.Codeq {
		return func(batch int) lifecycle { return newNativeLife(queues, batch) }
	}
	life := &sequenceLife{claim: nameOf(codeqclient.ClaimScript), json: newTaskTexts()}
	return func(int) lifecycle { return life }
}

// cycle brings n tasks through their life, a batch at a time, and returns tasks per second. A producer tells a worker of each
// batch that it has enqueued; which of the tasks that wait in the queue the worker gets is the server's to say.
func cycle(ctx context.Context, server *peer.Server, life lifecycle, queues, batch, n int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	turns := int64(n / batch)
	roles := make(chan func(c *peer.Conn) error, queueProducers+queueWorkers)
	enqueued := make(chan int, enqueuedAhead)
	var produced, taken atomic.Int64
	produce := func(c *peer.Conn) error {
		for turn := produced.Add(1); turn <= turns; turn = produced.Add(1) {
			queue := int(turn) % queues
			if err := life.enqueue(c, queue, batch); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
			select {
			case enqueued <- queue:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	work := func(c *peer.Conn) error {
		for taken.Add(1) <= turns {
			select {
			case queue := <-enqueued:
				if err := life.claimAndSubmit(c, queue, batch); err != nil {
					return fmt.Errorf("claim and submit: %w", err)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for range queueProducers {
		roles <- produce
	}
	for range queueWorkers {
		roles <- work
	}
	took, err := together(server, queueProducers+queueWorkers, func(c *peer.Conn) error {
		err := (<-roles)(c)
		if err != nil {
			cancel() // the others would wait for what does not come
		}
		return err
	})
	return rate(int(turns)*batch, took), err
}

// exchange sends commands and calls fn with each of the replies, which is not an error, and fn's until it returns; fn may be nil.
func exchange(c *peer.Conn, commands []byte, replies int, fn func(raw []byte) error) error {
	if err := c.Write(commands); err != nil {
		return err
	}
	for range replies {
		raw, err := c.Next()
		if err != nil {
			return err
		}
		if raw[0] == '-' {
			return errors.New(strings.TrimSpace(string(raw)))
		}
		if fn == nil {
			continue
		}
		if err := fn(raw); err != nil {
			return err
		}
	}
	return nil
}

// nativeLife is codeq's own commands, by queue those that are always the same.
type nativeLife struct{ enqueues, claims [][]byte }

func newNativeLife(queues, batch int) (l nativeLife) {
	for queue := range queues {
		claim := []string{"Q.CLAIM", "worker", "COMMANDS", "1", queueName(queue)}
		if batch > 1 {
			claim = append(claim, "COUNT", strconv.Itoa(batch))
		}
		l.enqueues = append(l.enqueues, appendEnqueue(nil, queue, batch))
		l.claims = append(l.claims, peer.AppendCommand(nil, claim...))
	}
	return l
}

func queueName(queue int) string { return "render" + strconv.Itoa(queue) }

func (l nativeLife) enqueue(c *peer.Conn, queue, _ int) error {
	return exchange(c, l.enqueues[queue], 1, nil)
}

func appendEnqueue(dst []byte, queue, batch int) []byte {
	text := strings.Repeat("x", queuePayload)
	args := []string{"Q.ENQUEUE", queueName(queue), text}
	if batch > 1 {
		args = []string{"Q.MENQUEUE", queueName(queue), strconv.Itoa(batch)}
		for range batch {
			args = append(args, text)
		}
	}
	return peer.AppendCommand(dst, append(args, "PRIORITY", strconv.Itoa(waitingPriority))...)
}

// submitBytes is about what a Q.SUBMIT takes on the wire.
const submitBytes = 128

func (l nativeLife) claimAndSubmit(c *peer.Conn, queue, batch int) error {
	submits := make([]byte, 0, batch*submitBytes)
	claimed := 0
	err := exchange(c, l.claims[queue], 1, func(raw []byte) error {
		return eachClaimed(raw, func(id string) {
			claimed++
			submits = peer.AppendCommand(submits, "Q.SUBMIT", "worker", id, "RESULT", taskResult)
		})
	})
	if err == nil && claimed != batch {
		err = fmt.Errorf("%d tasks claimed where %d wait", claimed, batch)
	}
	if err != nil {
		return err
	}
	return exchange(c, submits, batch, nil)
}

// eachClaimed calls fn with the id of each task in a reply to Q.CLAIM. It looks for nothing else, so that the client of one server
// has not much more to do than that of the other.
func eachClaimed(raw []byte, fn func(id string)) error {
	name := []byte("\r\n$2\r\nid\r\n$")
	for {
		at := bytes.Index(raw, name)
		if at < 0 {
			return nil
		}
		raw = raw[at+len(name):]
		digits, rest, _ := bytes.Cut(raw, []byte("\r\n"))
		length, err := strconv.Atoi(string(digits))
		if err != nil || length > len(rest) {
			return fmt.Errorf("an id in the reply to Q.CLAIM: %q", raw)
		}
		fn(string(rest[:length]))
		raw = rest[length:]
	}
}

// sequenceLife is what codeQ's client sends, see package codeqclient. It needs no JSON of its own making, which on the wire is as long.
type sequenceLife struct {
	claim string // the script
	json  taskTexts
	made  atomic.Int64 // tasks
}

// taskTexts are a task at each step of its life and its result, each cut where its id stands.
type taskTexts struct{ pending, claimed, completed, released, result []string }

func newTaskTexts() taskTexts {
	const id = "the-id"
	cut := func(v any) []string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("encode %T: %v", v, err)) // its type always can be
		}
		return strings.Split(string(text), id)
	}
	now := time.Now().UTC()
	task := codeqclient.Task{ID: id, Command: "render", Payload: strings.Repeat("x", queuePayload), Priority: waitingPriority,
		Status: codeqclient.Pending, LastKnownLocation: "PENDING_LIST", MaxAttempts: 5, CreatedAt: now, UpdatedAt: now}
	var texts taskTexts
	texts.pending = cut(task)
	task.Status, task.LastKnownLocation, task.WorkerID, task.Attempts = codeqclient.InProgress, "INPROG_SET", "worker", 1
	task.LeaseUntil = now.Format(time.RFC3339)
	texts.claimed = cut(task)
	task.Status, task.LeaseUntil, task.ResultKey = codeqclient.Completed, "", id
	texts.completed = cut(task)
	task.LastKnownLocation = "NONE"
	texts.released = cut(task)
	texts.result = cut(codeqclient.Result{TaskID: id, Status: codeqclient.Completed, Result: json.RawMessage(taskResult), CompletedAt: now})
	return texts
}

const (
	keyTasks   = "codeq:tasks"
	keyTTL     = "codeq:tasks:ttl"
	keyResults = "codeq:results"
	keyLease   = "codeq:lease:"
)

// keepUntil is the score of the end of a task's retention.
func keepUntil() string { return strconv.FormatInt(time.Now().Add(24*time.Hour).Unix(), 10) }

func (l *sequenceLife) enqueue(c *peer.Conn, queue, batch int) error {
	q, until := codeqclient.Queue{Command: queueName(queue)}, keepUntil()
	var out []byte
	for range batch {
		made := l.made.Add(1)
		id := fmt.Sprintf("%08x-0000-4000-8000-%012d", uint32(made)*2654435761, made)
		out = peer.AppendCommand(out, "HSET", keyTasks, id, strings.Join(l.json.pending, id))
		out = peer.AppendCommand(out, "ZADD", keyTTL, until, id)
		out = peer.AppendCommand(out, "LPUSH", q.Pending(waitingPriority), id)
	}
	return exchange(c, out, 3*batch, nil)
}

func (l *sequenceLife) claimAndSubmit(c *peer.Conn, queue, batch int) error {
	q := codeqclient.Queue{Command: queueName(queue)}
	due := peer.AppendCommand(nil, "ZRANGEBYSCORE", q.Delayed(), "-inf", strconv.FormatInt(time.Now().Unix(), 10), "LIMIT", "0", "100")
	if err := exchange(c, due, 1, nil); err != nil {
		return err
	}
	claim := []string{"EVALSHA", l.claim, strconv.Itoa(codeqclient.MaxPriority + 3), q.InProgress(), keyTasks}
	for priority := codeqclient.MaxPriority; priority >= 0; priority-- {
		claim = append(claim, q.Pending(priority))
	}
	claim = append(claim, strconv.Itoa(codeqclient.ClaimTries))
	var out []byte
	for range batch {
		out = peer.AppendCommand(out, claim...)
	}
	var ids []string
	err := exchange(c, out, batch, func(raw []byte) error {
		reply, err := peer.Parse(raw)
		if err != nil || len(reply.Elems) != 2 {
			return errors.Join(err, fmt.Errorf("a task waits, and the claim script returned %q", raw))
		}
		ids = append(ids, reply.Elems[0].Str)
		return nil
	})
	if err != nil {
		return err
	}
	return l.submit(c, q, ids)
}

// submit ends a claim, which is the claim's last step, and the tasks. Each step waits for the one before, as in codeQ's client.
func (l *sequenceLife) submit(c *peer.Conn, q codeqclient.Queue, ids []string) error {
	until := keepUntil()
	load := func(dst []byte, id string) []byte { return peer.AppendCommand(dst, "HGET", keyTasks, id) }
	save := func(dst []byte, id string, text []string) []byte {
		dst = peer.AppendCommand(dst, "HSET", keyTasks, id, strings.Join(text, id))
		return peer.AppendCommand(dst, "ZADD", keyTTL, until, id)
	}
	var out []byte
	for _, step := range []struct {
		replies int
		append  func(dst []byte, id string) []byte
	}{
		{3, func(dst []byte, id string) []byte {
			return save(peer.AppendCommand(dst, "SETEX", keyLease+id, strconv.Itoa(leaseSeconds), "worker"), id, l.json.claimed)
		}},
		{1, load},
		{3, func(dst []byte, id string) []byte {
			return save(peer.AppendCommand(dst, "HSET", keyResults, id, strings.Join(l.json.result, id)), id, l.json.completed)
		}},
		{1, load},
		{6, func(dst []byte, id string) []byte {
			dst = save(peer.AppendCommand(dst, "MULTI"), id, l.json.released)
			dst = peer.AppendCommand(dst, "SREM", q.InProgress(), id)
			return peer.AppendCommand(peer.AppendCommand(dst, "DEL", keyLease+id), "EXEC")
		}},
	} {
		out = out[:0]
		for _, id := range ids {
			out = step.append(out, id)
		}
		if err := exchange(c, out, step.replies*len(ids), nil); err != nil {
			return err
		}
	}
	return nil
}
