package commands

import (
	"math"
	"slices"
	"strconv"

	"codeq/commands/spec"
	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
	"codeq/supplier"
)

// The commands on whole queues. Those that count are carried out outside of transactions, unless MULTI or a script has one, see observe.

func queueAdminCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "q.stats", Syntax: "Q.STATS command [TENANT tenant]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Counts the tasks of a queue by where they wait.",
			Flags:   spec.ReadOnly}, Run: queueStatsCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "q.queues", Syntax: "Q.QUEUES [MATCH pattern] [COUNT count] [CURSOR cursor]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N*log(N)) where N is the number of queues",
			Summary: "Lists the queues that have or had tasks, with their statistics.",
			Flags:   spec.ReadOnly}, Run: queuesCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "q.peek", Syntax: "Q.PEEK command [TENANT tenant] [STATE <PENDING | DELAYED | INPROG | DLQ>] [OFFSET offset] [COUNT count]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(S+N) where S is the offset and N the number of tasks returned",
			Summary: "Returns tasks of a queue without claiming them.",
			Flags:   spec.ReadOnly}, Run: peekCommand, Shards: queueShards},
		{Command: spec.Command{Name: "q.requeue", Syntax: "Q.REQUEUE command [TENANT tenant] [<COUNT count | IDS n id [id ...]>]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N) where N is the number of tasks",
			Summary: "Makes dead tasks pending again, with no attempt counted, and tells how many they were.",
			Flags:   spec.Write | spec.DenyOOM}, Run: requeueCommand, Shards: queueShards, Moves: true},
		{Command: spec.Command{Name: "q.purge", Syntax: "Q.PURGE command [TENANT tenant] STATE <PENDING | DELAYED | INPROG | DLQ> [COUNT count]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N) where N is the number of tasks",
			Summary: "Removes the tasks of a queue that are in one place, all or the first ones, and tells how many they were.",
			Flags:   spec.Write}, Run: purgeCommand, Shards: queueShards},
		{Command: spec.Command{Name: "q.pause", Syntax: "Q.PAUSE command [TENANT tenant]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Pauses a queue: its tasks are not claimed.",
			Flags:   spec.Write}, Run: pauseQueueCommand(true), Shards: queueShards},
		{Command: spec.Command{Name: "q.resume", Syntax: "Q.RESUME command [TENANT tenant]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Ends the pause of a queue.",
			Flags:   spec.Write}, Run: pauseQueueCommand(false), Shards: queueShards},
		{Command: spec.Command{Name: "q.cleanup", Syntax: "Q.CLEANUP [BEFORE unix-ms] [COUNT count]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N*log(M)) where N is the number of tasks removed and M of all tasks",
			Summary: "Removes tasks that have ended and whose retention is over, and tells how many they were.",
			Flags:   spec.Write}, Run: cleanupCommand, Shards: allShards},
		{Command: spec.Command{Name: "q.route", Syntax: "Q.ROUTE command [TENANT tenant] [ID id]",
			Group: spec.Queue, Since: queueSince, Complexity: "O(1)",
			Summary: "Tells on which shard a queue is, or a task of it, and why.",
			Flags:   spec.Fast}, Run: routeCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "q.shards", Syntax: "Q.SHARDS",
			Group: spec.Queue, Since: queueSince, Complexity: "O(N) where N is the number of shards",
			Summary: "Describes every shard: its state, its size and what it holds.",
			Flags:   spec.ReadOnly, Hints: []string{"nondeterministic_output"}}, Run: shardsCommand, Scope: scopeSession},
	}
}

// queueShards is for commands with a queue as their first argument.
func queueShards(ss *session, args [][]byte) (mask shard.Mask, err error) {
	err = ss.addQueue(&mask, queue.Name{Command: args[1], Tenant: tenantOf(args[2:])})
	return mask, err
}

func allShards(ss *session, _ [][]byte) (shard.Mask, error) { return ss.server.store.All(), nil }

// queueName takes a command, and parses the options behind it: option is asked for those that are not TENANT.
func (a *arguments) queueName(option func() bool) (name queue.Name, err error) {
	name.Command = a.bytes()
	for a.more() {
		switch {
		case a.token("TENANT"):
			name.Tenant = a.bytes()
		case option == nil || !option():
			a.fail(resp.ErrSyntax)
		}
	}
	if err := a.done(); err != nil {
		return name, err
	}
	return name, name.Validate()
}

// queuePlace takes the name of a place where tasks wait.
func (a *arguments) queuePlace() queue.Place {
	switch {
	case a.token("PENDING"):
		return supplier.Pending
	case a.token("DELAYED"):
		return supplier.Delayed
	case a.token("INPROG"):
		return supplier.InProgress
	case a.token("DLQ"):
		return supplier.DLQ
	}
	a.fail(resp.ErrQueuePlace)
	return 0
}

// Q.STATS command [TENANT tenant]
func queueStatsCommand(c *Call) error {
	name, err := c.args(0).queueName(nil)
	if err != nil {
		return err
	}
	shards, err := c.server.queues.ShardsOfForms(c.db, name)
	if err != nil {
		return err
	}
	var stats *queue.Stats
	count := func(tx *shard.Tx) error {
		tasks, err := c.session.observedOn(tx.DB(c.db))
		if err == nil {
			stats, err = tasks.Stats(name)
		}
		return err
	}
	err = c.observe(shards, count)
	if err == nil && !stats.Homes.Empty() {
		shards.Union(stats.Homes)
		err = c.observe(shards, count)
	}
	if err == nil {
		writeStats(c.Out, stats)
	}
	return err
}

func writeStats(out *resp.Writer, s *queue.Stats) {
	number := func(name string, n int64) {
		out.BulkString(name)
		out.Int(n)
	}
	out.Map(11)
	out.BulkString("command")
	out.BulkString(s.Command)
	out.BulkString("tenant")
	out.BulkString(s.Tenant)
	number("ready", s.ReadyTotal())
	out.BulkString("readyByPriority")
	out.Array(len(s.Ready))
	for _, n := range s.Ready {
		out.Int(n)
	}
	number("delayed", s.Delayed)
	number("inProgress", s.InProgress)
	number("dlq", s.DLQ)
	number("oldestReadyMs", s.OldestReadyMs)
	out.BulkString("paused")
	out.Bool(s.Paused)
	out.BulkString("complete")
	out.Bool(s.Complete)
	out.BulkString("shards")
	out.Array(len(s.Shards))
	for _, name := range s.Shards {
		out.BulkString(name)
	}
}

// Q.QUEUES [MATCH pattern] [COUNT count] [CURSOR cursor]
func queuesCommand(c *Call) error {
	var pattern []byte
	count, cursor := int64(math.MaxInt64), uint64(0)
	a := c.args(0)
	for a.more() {
		switch {
		case a.token("MATCH"):
			pattern = a.bytes()
		case a.token("COUNT"):
			count = a.number("COUNT", 1, math.MaxInt64)
		case a.token("CURSOR"):
			cursor = a.cursor()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	return c.observe(c.server.store.All(), func(tx *shard.Tx) error {
		tasks, known, err := c.knownQueues(tx)
		if err != nil {
			return err
		}
		from, _ := slices.BinarySearchFunc(known, cursor, func(k queue.Known, cursor uint64) int {
			if k.Hash < cursor {
				return -1
			}
			return 1
		})
		return listQueues(c, tasks, known[from:], count, pattern)
	})
}

// listQueues replies with up to count queues, and as the cursor the hash of the next one. Queues of one hash come together.
func listQueues(c *Call, tasks *queue.Tx, known []queue.Known, count int64, pattern []byte) error {
	var list gathered
	list.elements.SetProto(c.Out.Proto())
	next := uint64(0)
	for i, k := range known {
		if int64(i) >= count && k.Hash != known[i-1].Hash {
			next = k.Hash
			break
		}
		if pattern != nil && !globMatch(pattern, []byte(k.String())) {
			continue
		}
		stats, err := tasks.Stats(k.Name)
		if err != nil {
			return err
		}
		list.n++
		writeStats(&list.elements, stats)
	}
	c.Out.Array(2)
	c.Out.BulkString(strconv.FormatUint(next, 10))
	list.reply(c.Out)
	return nil
}

// defaultPeek is how many tasks Q.PEEK returns.
const defaultPeek = 10

// Q.PEEK command [TENANT tenant] [STATE <PENDING | DELAYED | INPROG | DLQ>] [OFFSET offset] [COUNT count]
func peekCommand(c *Call) error {
	a := c.args(0)
	place, offset, count := supplier.Pending, int64(0), int64(defaultPeek)
	name, err := a.queueName(func() bool {
		switch {
		case a.token("STATE"):
			place = a.queuePlace()
		case a.token("OFFSET"):
			offset = a.number("OFFSET", 0, math.MaxInt32)
		case a.token("COUNT"):
			count = a.number("COUNT", 1, math.MaxInt32)
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	var list gathered
	list.elements.SetProto(c.Out.Proto())
	err = tasks.Peek(name, place, offset, count, func(v *queue.View) {
		list.n++
		writeView(&list.elements, v)
	})
	list.reply(c.Out)
	return err
}

// Q.REQUEUE command [TENANT tenant] [<COUNT count | IDS n id [id ...]>]
func requeueCommand(c *Call) error {
	a := c.args(0)
	var ids [][]byte
	count := int64(0)
	name, err := a.queueName(func() bool {
		switch {
		case ids == nil && count == 0 && a.token("COUNT"):
			count = a.number("COUNT", 1, math.MaxInt64)
		case ids == nil && count == 0 && a.token("IDS"):
			ids = a.take(int(a.number("n", 1, math.MaxInt32)))
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	if count == 0 {
		count = math.MaxInt64
	}
	return replyCount(c, func(tasks *queue.Tx) (int64, error) { return tasks.Requeue(name, ids, count) })
}

// replyCount replies with the number that fn returns.
func replyCount(c *Call, fn func(tasks *queue.Tx) (int64, error)) error {
	tasks, err := c.tasks()
	if err != nil {
		return err
	}
	n, err := fn(tasks)
	c.Out.Int(n)
	return err
}

// Q.PURGE command [TENANT tenant] STATE <PENDING | DELAYED | INPROG | DLQ> [COUNT count]
func purgeCommand(c *Call) error {
	a := c.args(0)
	place, count := supplier.Paused, int64(math.MaxInt64)
	name, err := a.queueName(func() bool {
		switch {
		case a.token("STATE"):
			place = a.queuePlace()
		case a.token("COUNT"):
			count = a.number("COUNT", 1, math.MaxInt32)
		default:
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case place == supplier.Paused:
		return resp.ErrSyntax
	}
	return replyCount(c, func(tasks *queue.Tx) (int64, error) { return tasks.Purge(name, place, count) })
}

// Q.PAUSE command [TENANT tenant]
// Q.RESUME command [TENANT tenant]
func pauseQueueCommand(paused bool) Handler {
	return func(c *Call) error {
		name, err := c.args(0).queueName(nil)
		if err != nil {
			return err
		}
		tasks, err := c.tasks()
		if err != nil {
			return err
		}
		c.Out.OK()
		return tasks.SetPaused(name, paused)
	}
}

// Q.CLEANUP [BEFORE unix-ms] [COUNT count]
func cleanupCommand(c *Call) error {
	a := c.args(0)
	before, count := c.DB().Now(), int64(math.MaxInt32)
	for a.more() {
		switch {
		case a.token("BEFORE"):
			before = a.milliseconds(0)
		case a.token("COUNT"):
			count = a.number("COUNT", 1, math.MaxInt32)
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	return replyCount(c, func(tasks *queue.Tx) (int64, error) { return tasks.Cleanup(before, int(count)) })
}

// Q.ROUTE command [TENANT tenant] [ID id]
func routeCommand(c *Call) error {
	a := c.args(0)
	var id []byte
	name, err := a.queueName(func() bool {
		given := a.token("ID")
		if given {
			id = a.bytes()
		}
		return given
	})
	if err != nil {
		return err
	}
	route, err := c.server.queues.RouteQueue(c.db, name)
	if err != nil {
		return err
	}
	if id != nil {
		route = c.server.queues.RouteTask(c.db, id)
	}
	c.Out.Map(3)
	for _, pair := range [...][2]string{{"shard", route.Shard}, {"key", route.Key}, {"why", route.Why}} {
		c.Out.BulkString(pair[0])
		c.Out.BulkString(pair[1])
	}
	return nil
}

// Q.SHARDS
func shardsCommand(c *Call) error {
	return c.observe(c.server.store.All(), func(tx *shard.Tx) error {
		n := c.server.store.Shards()
		c.Out.Array(n)
		for ordinal := range n {
			writeShard(c.Out, tx.ShardStats(ordinal), c.server.store.Err())
		}
		return nil
	})
}

// writeShard writes what is known of a shard; the store's failure is that of every shard.
func writeShard(out *resp.Writer, s shard.ShardStats, failure error) {
	state := "ok"
	switch {
	case failure != nil:
		state = "failed"
	case !s.Answered:
		state = "busy"
	}
	out.Map(6)
	out.BulkString("name")
	out.BulkString(s.Name)
	out.BulkString("state")
	out.BulkString(state)
	for _, pair := range [...]struct {
		name string
		n    int64
	}{{"sizeBytes", s.DiskBytes}, {"keys", s.Keys}, {"queues", s.Groups}, {"leases", s.Leases}} {
		out.BulkString(pair.name)
		out.Int(pair.n)
	}
}

// knownQueues lists the queues of the selected database on the shards that answer, and returns what tells more of them.
func (c *Call) knownQueues(tx *shard.Tx) (tasks *queue.Tx, known []queue.Known, err error) {
	if tasks, err = c.session.observedOn(tx.DB(c.db)); err == nil {
		known, err = tasks.Known()
	}
	return tasks, known, err
}

// infoQueues is the section Queues of INFO: totals over the selected database.
func infoQueues(c *Call, tx *shard.Tx, r *report) error {
	tasks, known, err := c.knownQueues(tx)
	if err != nil {
		return err
	}
	var sum queue.Stats
	var ready, paused int64
	for _, k := range known {
		s, err := tasks.Stats(k.Name)
		if err != nil {
			return err
		}
		ready += s.ReadyTotal()
		paused += oneIf(s.Paused)
		sum.Delayed += s.Delayed
		sum.InProgress += s.InProgress
		sum.DLQ += s.DLQ
		sum.OldestReadyMs = max(sum.OldestReadyMs, s.OldestReadyMs)
	}
	r.add("queues", len(known))
	r.add("queues_paused", paused)
	r.add("tasks_ready", ready)
	r.add("tasks_delayed", sum.Delayed)
	r.add("tasks_in_progress", sum.InProgress)
	r.add("tasks_dead", sum.DLQ)
	r.add("oldest_ready_ms", sum.OldestReadyMs)
	r.add("complete", oneIf(tx.Locked() == c.server.store.All()))
	return nil
}
