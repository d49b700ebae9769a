package commands

import (
	"errors"

	"codeq/resp"
	"codeq/shard"
)

// The request path. A session's pipeline is cut into runs: consecutive commands that are carried out under one round of
// locks and, where nothing forbids it, in one transaction.
//
//  1. plan admits the commands at the head of the batch and adds up the shards that they need, up to
//     run-max-commands, which bounds how long others wait for the locks.
//  2. carryOut locks these shards, in order, and carries the commands out. What they change is committed at the end of
//     the run, as one record of the log. A script and an EXEC have a transaction of their own: what precedes them is
//     committed first, under the same locks. A command that changes what somebody waits for is committed at once, too,
//     so that the next command finds what they have left. What follows a commit has a time of its own.
//  3. The locks are released. The log position of what was written or read is remembered.
//  4. When the whole batch is done, Acknowledge waits for the greatest of these positions, once. The network calls it for
//     all sessions that have replies at that moment, so that one write of the log serves for them.
//
// A command that reaches a shard which its keys did not tell may fail with shard.ErrConflict. Then everything since the
// last commit is dropped and done again with that shard locked as well; nothing of the first try was seen by anybody.

// maxTries is how often a run is tried with the locks that it is known to need, before it takes all.
const maxTries = 3

// maxKeptSteps bounds the plan that a session keeps between batches.
const maxKeptSteps = 1024

// step is one command of a run.
type step struct {
	cmd     *Command
	args    [][]byte
	refusal error // the reply, when the command is not carried out
}

// refusesExec tells whether the step is an EXEC that is not carried out.
func (st *step) refusesExec() bool {
	return st.refusal != nil && st.cmd != nil && st.cmd.Name == "exec"
}

// progress is how far a run has come.
type progress struct {
	done      int // steps that have a reply
	committed int // steps whose effects are committed
	mark      int // where the replies behind those of the committed steps begin
}

// Serve carries out the commands of a batch, in order, and tells how many it has carried out.
func (s *Server) Serve(conn *resp.Session, batch [][][]byte) int {
	ss := sessionOf(conn)
	ss.start, ss.replies, ss.pos = conn.Out.Len(), 0, 0
	executed := 0
	for executed < len(batch) && !conn.Closing() && !conn.Parked() {
		mark := conn.Out.Len()
		ss.pushed = false
		n := ss.serveSome(batch[executed:])
		executed += n
		if ss.replyMode == replyAll {
			ss.replies += n
		}
		if !conn.Parked() {
			ss.keepBack(mark)
		}
	}
	if ss.parked.Load() != nil {
		ss.replies-- // the command that waits has none yet
	}
	return executed
}

// Acknowledge is the one place where replies are let go. It guarantees that when a client reads a reply, everything that
// its command wrote, and everything of others that it saw or was told of by a message, is as durable as appendfsync promises:
// nothing of Out is sent before Acknowledge returns, and it does not return before the log has said so. When the log can't,
// every reply of the batch becomes an error, for none of them is known to be true, messages are dropped, and the session ends.
func (s *Server) Acknowledge(conn *resp.Session) {
	ss := sessionOf(conn)
	pos, replies := max(ss.pos, ss.heard.Load()), max(0, ss.replies)
	ss.pos, ss.replies = 0, 0 // what is acknowledged next may be messages alone
	if pos == 0 {
		return
	}
	err := s.store.Wait(pos)
	if err == nil {
		return
	}
	s.logger.Error("commands not acknowledged", "client", conn.ID, "err", err)
	ss.replace(0, replies, errNotStored)
	conn.CloseAfterReply()
}

// replace puts n times the error in the place of all replies from start on.
func (ss *session) replace(start, n int, err error) {
	ss.conn.Out.Truncate(start)
	for range n {
		ss.refuse(err)
	}
}

// serveSome carries out one run, or one command that belongs to none, and returns how many commands that were.
func (ss *session) serveSome(batch [][][]byte) int {
	if ss.multi.open {
		return ss.serveInMulti(batch[0])
	}
	mask, apart := ss.plan(batch)
	switch {
	case ss.conn.Parked():
		return 0
	case len(ss.steps) == 0:
		return ss.serveApart(apart, batch[0])
	}
	n := ss.serveRun(mask)
	if n == len(ss.steps) && ss.steps[n-1].refusesExec() {
		ss.unwatch()
	}
	return n
}

// plan fills steps with the commands that make the next run, and adds up their shards. When the first command belongs to
// no run, there are no steps and that command is returned; a pause that holds it parks the session instead. An EXEC that is
// refused ends the run, for with it, as in Redis, the session forgets the keys that it watches.
func (ss *session) plan(batch [][][]byte) (mask shard.Mask, apart *Command) {
	ss.resetSteps()
	limit := min(len(batch), ss.server.config.Current().RunMaxCommands)
	if ss.replyMode != replyAll {
		limit = 1 // its reply is taken back before that of the next one
	}
	for _, args := range batch[:limit] {
		cmd, err := ss.admit(args)
		if err == nil && ss.mayBeHeld(cmd) && (len(ss.steps) > 0 || ss.postpone(cmd)) {
			break
		}
		if err == nil && (cmd.Scope == scopeSession || cmd.Scope == scopeApart || cmd.Turns != nil && cmd.Turns(ss, args)) {
			return mask, cmd
		}
		ss.addStep(&mask, cmd, args, err)
		if ss.steps[len(ss.steps)-1].refusesExec() {
			break
		}
	}
	return mask, nil
}

func (ss *session) addStep(mask *shard.Mask, cmd *Command, args [][]byte, refusal error) {
	if refusal == nil {
		refusal = ss.addShards(mask, cmd, args)
	}
	ss.steps = append(ss.steps, step{cmd: cmd, args: args, refusal: refusal})
}

func (ss *session) resetSteps() {
	if cap(ss.steps) > maxKeptSteps {
		ss.steps = nil
	}
	ss.steps = ss.steps[:0]
	ss.turned = false
}

// serveApart carries out a command of scopeSession or scopeApart.
func (ss *session) serveApart(cmd *Command, args [][]byte) int {
	mark := ss.conn.Out.Len()
	ss.began, ss.elapsed = ss.server.clock.Now(), 0
	ss.conn.SetLastCommand(&cmd.Name)
	ss.prepare(&ss.call, cmd, args, nil)
	if err := ss.perform(&ss.call); err != nil {
		ss.replace(mark, 1, ss.report(err))
	}
	ss.sendShown()
	return 1
}

// serveRun carries out the planned steps and returns how many of them have a reply: all, unless the session is to end or
// one failed for reasons that are not its client's.
func (ss *session) serveRun(mask shard.Mask) int {
	s := ss.server
	p := progress{mark: ss.conn.Out.Len()}
	for try := 1; ; try++ {
		err := ss.carryOut(mask, &p)
		if err == nil {
			return p.done
		}
		if !errors.Is(err, shard.ErrConflict) {
			ss.replace(p.mark, p.done-p.committed, ss.report(err))
			ss.sendShown()
			return p.done
		}
		s.totals.conflicts.Add(1)
		ss.conn.Out.Truncate(p.mark)
		if mask = ss.tx.Wanted(); try >= maxTries {
			mask = s.store.All()
		}
	}
}

// carryOut is one try at the steps that are not committed, under one round of locks.
func (ss *session) carryOut(mask shard.Mask, p *progress) error {
	if err := ss.server.store.Err(); err != nil {
		p.done = len(ss.steps)
		return err
	}
	ss.forgetUnsaved()
	ss.libraries = libraryView{}
	ss.shown = ss.shown[:0]
	ss.tx.Begin(mask)
	ss.began, ss.elapsed = ss.tx.Began(), 0
	err := ss.carryOutSteps(p)
	ss.pos = max(ss.pos, ss.tx.End())
	return err
}

// carryOutSteps carries out and commits the steps that are not committed. When it fails, the steps from p.committed to
// p.done are those that failed.
func (ss *session) carryOutSteps(p *progress) error {
	for p.done = p.committed; p.done < len(ss.steps) && !ss.conn.Closing() && !ss.conn.Parked(); {
		st := &ss.steps[p.done]
		own := st.refusal == nil && st.cmd.Scope == scopeOwn
		if own && p.done > p.committed {
			if err := ss.commit(p); err != nil {
				return err
			}
		}
		if p.done == p.committed { // what was committed before may have taken long
			ss.tx.SetTime(ss.now())
		}
		p.done++
		if err := ss.carryOutStep(st); err != nil {
			return err
		}
		if own || ss.tx.Awaited() || ss.tx.IsLarge() {
			if err := ss.commit(p); err != nil {
				return err
			}
		}
	}
	return ss.commit(p)
}

func (ss *session) carryOutStep(st *step) error {
	if st.refusal != nil {
		ss.refuse(st.refusal)
		return nil
	}
	ss.conn.SetLastCommand(&st.cmd.Name)
	ss.prepare(&ss.call, st.cmd, st.args, ss.tx)
	err := ss.perform(&ss.call)
	if err == errUndo && st.cmd.Scope == scopeOwn {
		ss.tx.Abort()
		return nil
	}
	return err
}

// commit commits what the steps that are done have changed, and with it the scripts and libraries that they made known.
func (ss *session) commit(p *progress) error {
	if err := ss.saveScripts(); err != nil {
		return err
	}
	if err := ss.tx.Commit(); err != nil {
		return err
	}
	ss.scriptsSaved()
	ss.librariesSaved()
	ss.sendShown()
	p.committed, p.mark = p.done, ss.conn.Out.Len()
	return nil
}
