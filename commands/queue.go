package commands

import (
	"log/slog"
	"math"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
	"codeq/supplier"
)

// The commands of queues. They parse, call the life of a task on the transaction, and reply; package queue has the rest. What
// concerns whole queues is in queue_admin.go, claiming in queue_claim.go.
//
// None of them has keys as Redis knows them: the shards follow from the queue's name or the task's id, see Command.Shards.

const queueSince = "1.0.0"

func queueCommands() []Command {
	const one = "O(1) for each task"
	return []Command{
		{Command: spec.Command{Name: "q.enqueue", Syntax: "Q.ENQUEUE command payload [TENANT tenant] [PRIORITY priority] " +
			"[<DELAY ms | AT unix-ms>] [MAXATTEMPTS attempts:integer] [IDEMPOTENCY idempotency-key [WINDOW ms]] [KEY slot-key] [ID id] [WEBHOOK url]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Adds a task to a queue and returns its id, or with an idempotency key that is known that of the first task.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast, Hints: []string{"nondeterministic_output"}},
			Run: enqueueCommand(false), Shards: enqueueShards},
		{Command: spec.Command{Name: "q.menqueue", Syntax: "Q.MENQUEUE command count payload [payload ...] [TENANT tenant] [PRIORITY priority] " +
			"[<DELAY ms | AT unix-ms>] [MAXATTEMPTS attempts:integer] [IDEMPOTENCY idempotency-key [WINDOW ms]] [KEY slot-key] [ID id] [WEBHOOK url]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N) where N is the number of payloads",
			Summary: "Adds many tasks to a queue, all or none, and returns their ids.",
			Flags:   spec.Write | spec.DenyOOM, Hints: []string{"nondeterministic_output"}},
			Run: enqueueCommand(true), Shards: enqueueShards},
		{Command: spec.Command{Name: "q.claim", Syntax: "Q.CLAIM worker [TENANT tenant] [COUNT count] [LEASE ms] [BLOCK ms] " +
			"[<SHARE share:integer OF shares:integer | SLOTS from-to>] COMMANDS n command [command ...]",
			Group: spec.Queue, Since: queueSince, Complexity: one,
			Summary: "Takes the next tasks of one or more queues, or of a share of their slots, for a worker, and with BLOCK waits for one.",
			Flags:   spec.Write | spec.Blocking}, Run: claimCommand, Shards: claimShards, Turns: claimsInTurns, Moves: true},
		{Command: spec.Command{Name: "q.heartbeat", Syntax: "Q.HEARTBEAT worker id [LEASE ms]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Prolongs the lease of a task that the worker has claimed, and returns its end in unix milliseconds.",
			Flags:   spec.Write | spec.Fast}, Run: heartbeatCommand, Shards: secondIDShards},
		{Command: spec.Command{Name: "q.submit", Syntax: "Q.SUBMIT worker id [<RESULT json | ERROR text>]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Ends a task that the worker has claimed: completed, or with an error failed.",
			Flags:   spec.Write | spec.Fast}, Run: submitCommand, Shards: secondIDShards, Moves: true},
		{Command: spec.Command{Name: "q.nack", Syntax: "Q.NACK worker id [DELAY ms] [REASON text]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Gives back a task that could not be done: it is delayed, or dead when its attempts are used up.",
			Flags:   spec.Write | spec.Fast, Hints: []string{"nondeterministic_output"}}, Run: nackCommand, Shards: secondIDShards, Moves: true},
		{Command: spec.Command{Name: "q.abandon", Syntax: "Q.ABANDON worker id",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Gives back a task that was not begun: it is the next to be claimed, and the attempt does not count.",
			Flags:   spec.Write | spec.Fast}, Run: abandonCommand, Shards: secondIDShards, Moves: true},
		{Command: spec.Command{Name: "q.get", Syntax: "Q.GET id",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Returns a task.",
			Flags:   spec.ReadOnly | spec.Fast}, Run: getTaskCommand, Shards: firstIDShards},
		{Command: spec.Command{Name: "q.result", Syntax: "Q.RESULT id [BLOCK ms]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Returns the result of a task, and with BLOCK waits for it.",
			Flags:   spec.ReadOnly | spec.Blocking}, Run: resultCommand, Shards: firstIDShards},
		{Command: spec.Command{Name: "q.cancel", Syntax: "Q.CANCEL id",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1), O(N) for a task that is ready among N others",
			Summary: "Ends a task that waits, ready, delayed or dead, and tells whether it has.",
			Flags:   spec.Write}, Run: cancelCommand, Shards: firstIDShards},
	}
}

// NewQueues makes the queues that a Server and the store it works on share.
func NewQueues(r *supplier.Router, c *config.Store, log *slog.Logger) *queue.Queues {
	return queue.New(queue.Options{Router: r, Logger: log, Policies: queuePolicies(c)})
}

// tasks is the life of tasks on the call's transaction.
func (c *Call) tasks() (*queue.Tx, error) { return c.session.tasksOn(c.DB()) }

// tasksOn is the session's life of tasks, put on a database of a transaction.
func (ss *session) tasksOn(db shard.DB) (*queue.Tx, error) {
	if ss.tasks == nil {
		ss.tasks = ss.server.queues.NewTx()
	}
	return ss.tasks, ss.tasks.On(db)
}

// observedOn is tasksOn for who observes: it is no error if the database is one that is pinned to a shard which does not answer. Nothing of
// it is looked at then.
func (ss *session) observedOn(db shard.DB) (*queue.Tx, error) {
	tasks, err := ss.tasksOn(db)
	if err == shard.ErrBusy {
		err = nil
	}
	return tasks, err
}

// maxQueueMs bounds times and durations: what a score holds to the millisecond.
const maxQueueMs = 1 << 53

// milliseconds takes a duration or a time.
func (a *arguments) milliseconds(least int64) int64 {
	n := a.integer()
	if a.err == nil && (n < least || n > maxQueueMs) {
		a.fail(resp.ErrQueueTime)
	}
	return n
}

// number takes an integer from low to high, which an error calls by the name.
func (a *arguments) number(name string, low, high int64) int64 {
	n := a.integer()
	if a.err == nil && (n < low || n > high) {
		a.fail(resp.ErrQueueNumber(name, low, high))
	}
	return n
}

// tenantOf is the argument behind TENANT among options of one argument each. It is for finding shards: where the arguments are wrong it
// may be, too.
func tenantOf(options [][]byte) []byte {
	for i := 0; i+1 < len(options); i += 2 {
		if isToken(options[i], "TENANT") {
			return options[i+1]
		}
	}
	return nil
}

// addQueue adds the shards of a queue.
func (ss *session) addQueue(mask *shard.Mask, name queue.Name) error {
	shards, err := ss.server.queues.Shards(ss.db(), name)
	if err == nil {
		mask.Union(shards)
	}
	return err
}

// enqueueShards is for Q.ENQUEUE and Q.MENQUEUE.
func enqueueShards(ss *session, args [][]byte) (mask shard.Mask, err error) {
	options, count := args[3:], int64(1)
	if len(args[0]) > len("q.enqueue") {
		count, _ = parseInt(args[2])
		count = min(max(count, 0), int64(len(args)-3))
		options = args[3+count:]
	}
	named := false
	for i := 0; i+1 < len(options); i += 2 {
		switch {
		case isToken(options[i], "ID"):
			named = true
			mask.Add(ss.server.queues.Home(ss.db(), options[i+1]))
		case isToken(options[i], "IDEMPOTENCY"):
			mask.Add(ss.server.queues.IdempotencyShard(ss.db(), options[i+1]))
		}
	}
	name := queue.Name{Command: args[1], Tenant: tenantOf(options)}
	switch {
	case !ss.server.queues.Spreads(ss.db()):
		err = ss.addQueue(&mask, name)
	case !named:
		var homes shard.Mask
		homes, err = ss.server.queues.NewHomes(ss.db(), name, ss.newTurn(), int(count))
		mask.Union(homes)
	}
	return mask, err
}

// newTurn is the turn that decides which shards the new tasks of spread queues are made for. It is the same for all commands of a run, so
// that a pipeline needs few locks, and for a run that is tried again; each run has another one.
func (ss *session) newTurn() uint32 {
	if !ss.turned {
		ss.turn, ss.turned = ss.server.queues.RandomTurn(), true
	}
	return ss.turn
}

// firstIDShards and secondIDShards are for commands with a task's id as their first or second argument.
func firstIDShards(ss *session, args [][]byte) (shard.Mask, error) {
	return shard.MaskOf(ss.server.queues.Home(ss.db(), args[1])), nil
}

func secondIDShards(ss *session, args [][]byte) (shard.Mask, error) {
	return shard.MaskOf(ss.server.queues.Home(ss.db(), args[2])), nil
}

// Q.ENQUEUE command payload [TENANT tenant] [PRIORITY priority] [<DELAY ms | AT unix-ms>] [MAXATTEMPTS attempts]
// [IDEMPOTENCY idempotency-key [WINDOW ms]] [KEY slot-key] [ID id] [WEBHOOK url]
// Q.MENQUEUE command count payload [payload ...] [the same options, for all]
func enqueueCommand(many bool) Handler {
	return func(c *Call) error {
		a := c.args(0)
		e := queue.Enqueue{Queue: queue.Name{Command: a.bytes()}, Several: many}
		n := int64(1)
		if many {
			n = a.number("count", 1, math.MaxInt32)
		}
		payloads := a.take(int(n))
		parseEnqueue(a, &e, c.DB().Now())
		if err := a.done(); err != nil {
			return err
		}
		if e.ID != nil && n > 1 {
			return resp.ErrQueueManyWithID
		}
		if err := e.Validate(); err != nil {
			return err
		}
		if c.server.queues.Spreads(c.db) {
			e.Turn = c.session.newTurn()
		}
		tasks, err := c.tasks()
		if err != nil {
			return err
		}
		if many {
			c.Out.Array(len(payloads))
		}
		return tasks.Enqueue(&e, payloads, c.Out.Bulk)
	}
}

// defaultWindowMs is for how long an idempotency key counts.
const defaultWindowMs = 24 * 3600 * 1000

func parseEnqueue(a *arguments, e *queue.Enqueue, nowMs int64) {
	visible, window := false, false
	for a.more() {
		switch {
		case a.token("TENANT"):
			e.Queue.Tenant = a.bytes()
		case a.token("PRIORITY"):
			e.Priority = int(a.number("PRIORITY", 0, supplier.MaxPriority))
		case !visible && a.token("DELAY"):
			visible, e.VisibleMs = true, nowMs+a.milliseconds(0)
		case !visible && a.token("AT"):
			visible, e.VisibleMs = true, a.milliseconds(0)
		case a.token("MAXATTEMPTS"):
			e.MaxAttempts = a.number("MAXATTEMPTS", 1, math.MaxInt32)
		case a.token("IDEMPOTENCY"):
			e.Idempotency = a.bytes()
		case a.token("WINDOW"):
			window, e.WindowMs = true, a.milliseconds(1)
		case a.token("KEY"):
			e.Key = a.bytes()
		case a.token("ID"):
			e.ID = a.bytes()
		case a.token("WEBHOOK"):
			e.Webhook = a.bytes()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	switch {
	case window && len(e.Idempotency) == 0:
		a.fail(resp.ErrSyntax)
	case !window:
		e.WindowMs = defaultWindowMs
	}
}

// Q.HEARTBEAT worker id [LEASE ms]
func heartbeatCommand(c *Call) error {
	a := c.args(0)
	worker, id, lease := a.bytes(), a.bytes(), int64(0)
	if a.token("LEASE") {
		lease = a.milliseconds(1)
	}
	tasks, err := c.tasks()
	if err = a.or(err); err != nil {
		return err
	}
	until, err := tasks.Heartbeat(worker, id, lease)
	c.Out.Int(until)
	return err
}

// or is done's error, or else the one that is given.
func (a *arguments) or(err error) error {
	if wrong := a.done(); wrong != nil {
		return wrong
	}
	return err
}

// Q.SUBMIT worker id [<RESULT json | ERROR text>]
func submitCommand(c *Call) error {
	a := c.args(0)
	worker, id := a.bytes(), a.bytes()
	var s queue.Submission
	switch {
	case a.token("RESULT"):
		s.Result = a.bytes()
	case a.token("ERROR"):
		if s.Error = a.bytes(); len(s.Error) == 0 {
			a.fail(resp.ErrQueueEmptyError)
		}
	}
	tasks, err := c.tasks()
	if err = a.or(err); err != nil {
		return err
	}
	c.Out.OK()
	return tasks.Submit(worker, id, s)
}

// Q.NACK worker id [DELAY ms] [REASON text]
func nackCommand(c *Call) error {
	a := c.args(0)
	worker, id, delay := a.bytes(), a.bytes(), int64(-1)
	var reason []byte
	for a.more() {
		switch {
		case a.token("DELAY"):
			delay = a.milliseconds(0)
		case a.token("REASON"):
			reason = a.bytes()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	tasks, err := c.tasks()
	if err = a.or(err); err != nil {
		return err
	}
	fate, err := tasks.Nack(worker, id, delay, reason)
	if fate.Dead {
		c.Out.Array(1)
		c.Out.BulkString("dead")
		return err
	}
	c.Out.Array(2)
	c.Out.BulkString("delayed")
	c.Out.Int(fate.DelayMs)
	return err
}

// Q.ABANDON worker id
func abandonCommand(c *Call) error {
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	c.Out.OK()
	return tasks.Abandon(c.Args[1], c.Args[2])
}

// Q.GET id
func getTaskCommand(c *Call) error {
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	view, err := tasks.Get(c.Args[1])
	if err != nil {
		return err
	}
	writeView(c.Out, view)
	return nil
}

// writeView writes a task or a result.
func writeView(out *resp.Writer, view *queue.View) {
	out.Map(view.Len())
	view.Each(func(v queue.Value) {
		out.Bulk(v.Name)
		if v.Kind == queue.Integer {
			out.Int(v.Int)
		} else {
			out.Bulk(v.Text)
		}
	})
}

// Q.RESULT id [BLOCK ms]
func resultCommand(c *Call) error {
	a := c.args(0)
	id, blocks, timeout := a.bytes(), false, time.Duration(0)
	if a.token("BLOCK") {
		blocks, timeout = true, waitFor(a.milliseconds(0))
	}
	if err := a.done(); err != nil {
		return err
	}
	ss := c.session
	try := func(out *resp.Writer, db shard.DB, _ []byte) (served bool, err error) {
		tasks, err := ss.tasksOn(db)
		if err != nil {
			return false, err
		}
		view, err := tasks.Result(id)
		if view == nil || err != nil {
			return false, err
		}
		writeView(out, view)
		return true, nil
	}
	b := blocking{kind: shard.KindHash, keys: queue.ResultKeys(), element: id, timeout: timeout, try: try, nothing: replyNull}
	if blocks {
		return c.block(b)
	}
	if served, err := try(c.Out, c.DB(), nil); served || err != nil {
		return err
	}
	c.Out.Null()
	return nil
}

// Q.CANCEL id
func cancelCommand(c *Call) error {
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	ended, err := tasks.Cancel(c.Args[1])
	c.Out.Int(oneIf(ended))
	return err
}
