package commands

import (
	"bytes"
	"errors"
	"strings"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// transactionCommands are MULTI and what belongs to it. Commands behind MULTI are queued, as copies, until EXEC carries them out
// in one transaction: under one round of locks, as one commit, at one time. As in Redis a command that fails there does not
// keep the others from taking effect. WATCH makes EXEC do nothing when a key was changed meanwhile; see shard.Watch.
func transactionCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "multi", Syntax: "MULTI",
			Group: spec.Transactions, Since: "1.2.0", Complexity: "O(1)",
			Differs: "The command that does not fit into client-query-buffer-limit with those queued before gets an error, and EXEC " +
				"refuses (Redis: the connection is closed).",
			Summary: "Starts a transaction: the commands that follow are queued.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.Fast | spec.AllowBusy},
			Run: multiCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "exec", Syntax: "EXEC",
			Group: spec.Transactions, Since: "1.2.0", Complexity: "Depends on commands in the transaction",
			Summary: "Executes all commands of the transaction.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.SkipSlowlog},
			Run: execCommand, Scope: scopeOwn},
		{Command: spec.Command{Name: "discard", Syntax: "DISCARD",
			Group: spec.Transactions, Since: "2.0.0", Complexity: "O(N), when N is the number of queued commands",
			Summary: "Forgets the transaction.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.Fast | spec.AllowBusy},
			Run: discardCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "watch", Syntax: "WATCH key [key ...]",
			Group: spec.Transactions, Since: "2.2.0", Complexity: "O(1) for every key",
			Differs: "At most 65,536 keys, whose names have 16 MiB at most.",
			Summary: "Makes the next transaction depend on keys not being modified.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.Fast | spec.AllowBusy,
			Keys:    spec.Keys{spec.KeysFrom(1, spec.RO)}},
			Run: watchCommand, Scope: scopeOwn},
		{Command: spec.Command{Name: "unwatch", Syntax: "UNWATCH",
			Group: spec.Transactions, Since: "2.2.0", Complexity: "O(1)",
			Summary: "Forgets the watched keys of the connection.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.Fast | spec.AllowBusy},
			Run: unwatchCommand, Scope: scopeSession},
	}
}

// errTooManyWatched is the reply to WATCH beyond what a shard.Watch has room for.
var errTooManyWatched = errors.New("too many watched keys: EXEC or UNWATCH before watching others")

// errQueueTooLong is the reply to the command that the queue has no room for.
var errQueueTooLong = errors.New("the transaction exceeds client-query-buffer-limit and is discarded: send less, or raise it")

// multi is a session's transaction in the making.
type multi struct {
	open    bool
	broken  bool // a command could not be queued, so EXEC will refuse
	queue   commandQueue
	call    Call // of the command that EXEC is at
	undone  []undoneScript
	watched shard.Watch
}

// undoneScript is a script that failed within EXEC, or was not known.
type undoneScript struct {
	index int // in the queue
	reply []byte
	shown []byte // what monitors are told of it
}

// serveInMulti queues a command, or carries out one of those that are not queued. It returns 1, or 0 if a pause holds it.
func (ss *session) serveInMulti(args [][]byte) int {
	cmd, err := ss.admit(args)
	switch {
	case err != nil && cmd != nil && cmd.Name == "exec":
		ss.discard()
		ss.refuse(err)
	case err != nil:
		ss.multi.broken = true
		ss.refuse(err)
	case ss.mayBeHeld(cmd) && ss.postpone(cmd):
		return 0
	case cmd.Name == "exec":
		ss.serveExec(cmd, args)
	case cmd.Name == "watch":
		ss.refuse(resp.ErrWatchInMulti)
	case isImmediate(cmd.Name):
		return ss.serveApart(cmd, args)
	default:
		ss.enqueue(cmd, args)
	}
	return 1
}

// isImmediate tells the commands that MULTI does not queue, besides EXEC and WATCH.
func isImmediate(name string) bool {
	switch name {
	case "multi", "discard", "quit", "reset":
		return true
	}
	return false
}

// execAbortBecause is the reply to an EXEC that is refused itself. As in Redis, a code other than ERR is part of the reason.
func execAbortBecause(err error) resp.Error {
	return resp.Error("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(err.Error(), "ERR "))
}

// enqueue copies a command to the queue. A client that queues more than client-query-buffer-limit is told so, and its EXEC refuses.
// Redis closes its connection, and the client may not get to know why. The queue of a transaction that EXEC will refuse grows
// no more.
func (ss *session) enqueue(cmd *Command, args [][]byte) {
	m := &ss.multi
	limit := ss.server.config.Current().ClientQueryBufferLimit
	switch {
	case m.broken:
	case limit > 0 && m.queue.size+footprint(args) > limit:
		m.broken = true
		m.queue.reset()
		ss.refuse(errQueueTooLong)
		ss.showQueue()
		return
	default:
		m.queue.add(cmd, args)
		ss.showQueue()
	}
	ss.conn.Out.Status("QUEUED")
}

// showQueue shows others how much is queued.
func (ss *session) showQueue() {
	q := &ss.multi.queue
	ss.change(func(v *view) { v.queued, v.queueBytes = len(q.steps), q.size })
}

// serveExec carries out EXEC as a run of its own: with the shards of all queued commands and of the watched keys.
func (ss *session) serveExec(cmd *Command, args [][]byte) {
	m := &ss.multi
	ss.resetSteps()
	ss.steps = append(ss.steps, step{cmd: cmd, args: args})
	mask := m.watched.Shards()
	if !m.broken {
		for i := range m.queue.steps {
			// A command that can't be routed fails when it is carried out.
			st := &m.queue.steps[i]
			st.refusal = ss.addShards(&mask, st.cmd, st.args)
		}
	}
	ss.serveRun(mask)
	ss.discard()
}

// discard ends the transaction and forgets the watched keys.
func (ss *session) discard() {
	ss.unwatch()
	m := &ss.multi
	if !m.open {
		return
	}
	m.open, m.broken, m.undone, m.call = false, false, nil, Call{}
	m.queue.reset()
	ss.change(func(v *view) { v.queued, v.queueBytes = -1, 0 })
}

// unwatch forgets the watched keys. The session must hold no locks.
func (ss *session) unwatch() {
	w := &ss.multi.watched
	if w.Len() == 0 {
		return
	}
	ss.tx.Begin(w.Shards())
	defer ss.tx.End()
	ss.tx.Unwatch(w)
	ss.change(func(v *view) { v.watched = 0 })
}

// MULTI
func multiCommand(c *Call) error {
	m := &c.session.multi
	if m.open {
		return resp.ErrMultiNested
	}
	m.open = true
	c.session.change(func(v *view) { v.queued = 0 })
	c.Out.OK()
	return nil
}

// DISCARD
func discardCommand(c *Call) error {
	if !c.session.multi.open {
		return resp.ErrDiscardWithoutMulti
	}
	c.session.discard()
	c.Out.OK()
	return nil
}

// WATCH key [key ...]
func watchCommand(c *Call) error {
	ss := c.session
	w := &ss.multi.watched
	keys := c.Args[1:]
	if !w.HasRoom(keys) {
		c.Out.Error(errTooManyWatched)
		return nil
	}
	for _, key := range keys {
		if err := c.tx.Watch(w, c.db, key); err != nil {
			return err
		}
	}
	ss.change(func(v *view) { v.watched = w.Len() })
	c.Out.OK()
	return nil
}

// UNWATCH. Within EXEC there is nothing to do, since EXEC forgets the watched keys.
func unwatchCommand(c *Call) error {
	if c.tx == nil {
		c.session.unwatch()
	}
	c.Out.OK()
	return nil
}

// isNoScript tells the reply to an EVALSHA of an unknown script. EXEC keeps it like that of a failed script: a later EVAL
// may make the script known before the queue is carried out again.
func isNoScript(reply []byte) bool { return bytes.HasPrefix(reply, []byte("-NOSCRIPT ")) }

// EXEC
func execCommand(c *Call) error {
	ss := c.session
	m := &ss.multi
	m.undone = nil // other locks may show other data
	switch {
	case !m.open:
		return resp.ErrExecWithoutMulti
	case m.broken:
		return resp.ErrExecAbort
	case m.watched.Dirty(c.tx):
		c.Out.NullArray()
		return nil
	}
	mark, before, shown := c.Out.Len(), ss.view, len(ss.shown)
	ss.subs.undo = nil
	for {
		err := ss.execQueue(c.Out)
		if err == nil {
			return nil
		}
		// It has to be done again, now or with more locks, or has failed: the session must not keep a database that the
		// transaction selected.
		c.Out.Truncate(mark)
		ss.shown = ss.shown[:shown]
		ss.undoSubscriptions()
		ss.setProto(before.proto)
		ss.selectDB(before.db)
		if err != errUndo {
			return err
		}
		c.tx.Abort()
		ss.librariesUndone()
	}
}

// execQueue carries out the queue. When a script fails, what it did has to be undone while the commands before it stand.
// A transaction can only be undone as a whole, so the reply is noted and errUndo returned: the next time the
// script is passed over. Nothing else can change what the commands before it see, because the locks are kept and
// the time stands still.
func (ss *session) execQueue(out *resp.Writer) error {
	m := &ss.multi
	out.Array(len(m.queue.steps))
	undone := m.undone
	for i := range m.queue.steps {
		st := &m.queue.steps[i]
		if len(undone) > 0 && undone[0].index == i {
			out.Raw(undone[0].reply)
			ss.shown = append(ss.shown, undone[0].shown...)
			undone = undone[1:]
			ss.relearn(st.cmd, st.args)
			continue
		}
		if st.refusal != nil {
			ss.refuse(st.refusal)
			continue
		}
		mark, shown := out.Len(), len(ss.shown)
		ss.prepare(&m.call, st.cmd, st.args, ss.tx)
		m.call.exec = true
		err := ss.perform(&m.call)
		if err == errUndo || isNoScript(out.Bytes()[mark:]) {
			m.undone = append(m.undone, undoneScript{i, bytes.Clone(out.Bytes()[mark:]), bytes.Clone(ss.shown[shown:])})
		}
		if err == nil {
			err = ss.tx.Check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
