package commands

import (
	"errors"
	"fmt"
	"runtime/debug"

	"codeq/commands/spec"
	"codeq/queue"
	"codeq/resp"
	"codeq/shard"
)

// Replies to what is not the client's fault. The log has the cause.
var (
	errInternal  = errors.New("internal error, nothing was changed: the server's log has the reason")
	errNotStored = errors.New("not acknowledged, since it could not be stored: the server's log has the reason")
)

// errUndo is returned by a handler of scopeOwn whose reply stands while what it did to the database is to be undone.
var errUndo = errors.New("commands: the call is to be undone")

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// admit finds the command that a call means and checks whether the session may run it. The error is the reply; cmd may be
// known all the same. The checks and their order are Redis'.
func (ss *session) admit(args [][]byte) (cmd *Command, err error) {
	s := ss.server
	cmd, container := s.table.Resolve(args)
	if cmd == nil {
		if container != nil {
			return nil, resp.ErrUnknownSubcommand(args[0], args[1])
		}
		if isHTTP(args[0]) {
			s.logger.Warn("possible cross-protocol attack: a client speaks HTTP", "client", ss.conn.ID, "addr", ss.conn.Addr)
			ss.conn.Kill()
		}
		return nil, resp.ErrUnknownCommand(args)
	}
	if cmd.Bar != nil {
		err = cmd.Bar(ss)
	}
	full := cmd.diskBars(s.store)
	if cmd.Name == "exec" {
		full = ss.multi.queue.diskBars(s.store)
	}
	switch {
	case !cmd.AcceptsArgs(len(args)):
		err = resp.ErrWrongArgs(cmd.Name)
	case err != nil:
	case !ss.authenticated && !cmd.Has(spec.NoAuth) && s.config.Current().RequirePass != "":
		err = resp.ErrNoAuth
	case ss.multi.open && cmd.Has(spec.NoMulti):
		err = resp.ErrNotInMulti
	case ss.restricted() && !allowedSubscribed(cmd.Name):
		err = resp.ErrSubscribed(cmd.Name)
	case ss.monitoring && (cmd.Has(spec.Write) || cmd.Has(spec.ReadOnly)):
		err = resp.ErrReplicaKeyspace
	case full != nil:
		err = full
	case !cmd.Has(spec.AllowBusy) && s.scripts.Busy():
		err = scriptError(s.scripts.BusyError())
	default:
		return cmd, nil
	}
	cmd.stats.rejected.Add(1)
	if cmd.Name == "exec" {
		err = execAbortBecause(err)
	}
	return cmd, err
}

// isHTTP tells whether the line begins as an HTTP request does that a web page can make a browser send. Redis drops
// such connections, lest the request's body be taken for commands.
func isHTTP(name []byte) bool { return isToken(name, "POST") || isToken(name, "HOST:") }

// prepare makes c a call of the command.
func (ss *session) prepare(c *Call, cmd *Command, args [][]byte, tx *shard.Tx) {
	c.Args, c.Out = args, ss.conn.Out
	c.cmd, c.session, c.server = cmd, ss, ss.server
	c.tx, c.db = tx, ss.db()
}

// perform carries out a call. A client's error has become the reply when it returns nil. What it returns besides
// errUndo leaves no reply that counts: shard.ErrConflict, an operational error, or a panic of the handler, which must not
// keep the caller from giving its locks back.
func (ss *session) perform(c *Call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	c.countLookups()
	mark, began := c.Out.Len(), ss.elapsed
	if err = c.run(); err != nil && err != errUndo {
		reply, ok := replyTo(err)
		if !ok {
			return err
		}
		c.Out.Truncate(mark)
		c.Out.Error(reply)
		err = nil
	}
	if isShown(c.cmd) {
		ss.noteShown(c)
	}
	ss.elapsed = ss.server.clock.Since(ss.began)
	took := ss.elapsed - began
	stats := c.cmd.stats
	stats.took.add(took)
	stats.nanos.Add(int64(took))
	if int64(took) >= ss.server.noteworthy.Load() {
		ss.server.noteSlow(c, took)
	}
	if reply := c.Out.Bytes(); len(reply) > mark && reply[mark] == '-' {
		stats.failed.Add(1)
		ss.server.countError(reply[mark:])
	}
	return err
}

// run calls the handler. What a command on queues does to their keys is no news to them.
func (c *Call) run() error {
	if c.tx == nil || c.cmd.Shards == nil {
		return c.cmd.Run(c)
	}
	was := c.tx.Mute(true)
	err := c.cmd.Run(c)
	c.tx.Mute(was)
	return err
}

// countLookups has the store count the keys that the call looks up as hits and misses, if it reads. What it stores to is no
// lookup.
func (c *Call) countLookups() {
	if c.tx == nil {
		return
	}
	c.tx.CountLookups(c.cmd.Reads)
	if !c.cmd.storesUnread {
		return
	}
	keys, err := spec.AppendKeys(c.session.keys[:0], &c.cmd.Command, c.Args)
	if err != nil || len(keys) == 1 {
		return // nothing will be stored elsewhere
	}
	for _, key := range keys {
		if key.Flags&spec.Access == 0 {
			c.tx.IgnoreLookups(c.Args[key.Pos])
		}
	}
}

// replyTo is the reply that a handler's error stands for; not ok if the error is not the client's.
func replyTo(err error) (reply resp.Error, ok bool) {
	if reply, ok := err.(resp.Error); ok {
		return reply, true
	}
	switch {
	case errors.Is(err, shard.ErrWrongType):
		return resp.ErrWrongType, true
	case errors.Is(err, shard.ErrNoDeadline):
		return resp.ErrNoDeadline, true
	case errors.Is(err, shard.ErrOtherHome):
		return resp.ErrOtherHome, true
	}
	var wrong *queue.Error
	if errors.As(err, &wrong) {
		return resp.Cleaned(wrong.Error()), true
	}
	ok = errors.As(err, &reply)
	return reply, ok
}

// refuse replies to a call that is not carried out.
func (ss *session) refuse(err error) {
	mark := ss.conn.Out.Len()
	ss.conn.Out.Error(err)
	ss.server.countError(ss.conn.Out.Bytes()[mark:])
}

// report logs an error that is not the client's, once, and returns what the client is told. A session whose handler
// panicked ends: what it has in memory may be half changed.
func (ss *session) report(err error) error {
	s := ss.server
	var p *panicked
	switch {
	case errors.As(err, &p):
		s.totals.panics.Add(1)
		s.logger.Error("a command panicked", "client", ss.conn.ID, "panic", p.value, "stack", string(p.stack))
		ss.conn.CloseAfterReply()
	case errors.Is(err, shard.ErrTooBig):
		return shard.ErrTooBig
	case errors.Is(err, shard.ErrNoRoom):
		return resp.ErrDiskTransaction
	default:
		s.logger.Error("a command failed", "client", ss.conn.ID, "err", err)
	}
	return errInternal
}
