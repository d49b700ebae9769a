package commands

import (
	"sync"
	"sync/atomic"
	"time"

	"codeq/commands/spec"
	"codeq/internal/clock"
	"codeq/resp"
)

// CLIENT PAUSE. A command that is held has not begun: its session is parked before it, costs nothing, and tries it again when
// the pause ends.

func clientPauseCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.Loading | spec.Stale
	return []Command{
		{Command: spec.Command{Name: "client|pause", Syntax: "CLIENT PAUSE timeout:integer [WRITE | ALL]",
			Group: spec.Connection, Since: "2.9.50", Complexity: "O(1)",
			Differs: "A time that ends beyond what a clock can show is a pause (Redis: none). WRITE does not keep expired keys " +
				"from being removed.",
			Summary: "Holds the commands of all clients, or those that write, for some milliseconds.", Flags: admin},
			Run: clientPauseCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|unpause", Syntax: "CLIENT UNPAUSE",
			Group: spec.Connection, Since: "6.2.0", Complexity: "O(N) where N is the number of clients whose commands are held",
			Summary: "Ends a pause.", Flags: admin},
			Run: clientUnpauseCommand, Scope: scopeSession},
	}
}

// pauseMode says which commands a pause holds; the greater, the more.
type pauseMode int32

const (
	noPause pauseMode = iota
	pauseWrites
	pauseAll
)

// pause is the pause of a server, if there is one. Its mutex is a leaf but for the lock of resp.Session.Wake.
type pause struct {
	mode atomic.Int32

	mu    sync.Mutex // guards what follows, and changes of mode
	end   time.Time
	timer clock.Timer
	held  map[*session]struct{}
}

// begin begins a pause, or extends the one there is: of two, the one that holds more and the one that lasts longer count.
func (p *pause) begin(c clock.Clock, mode pauseMode, length time.Duration) {
	now := c.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if pauseMode(p.mode.Load()) == noPause || now.Add(length).After(p.end) {
		p.end = now.Add(length)
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mode.Store(max(p.mode.Load(), int32(mode)))
	p.timer = c.AfterFunc(p.end.Sub(now), p.over)
}

// over ends the pause.
func (p *pause) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode.Store(int32(noPause))
	for ss := range p.held {
		ss.conn.Wake()
	}
	clear(p.held)
}

// hold notes that the session waits for the end of the pause. It does not when the pause has just ended.
func (p *pause) hold(ss *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pauseMode(p.mode.Load()) == noPause {
		return false
	}
	if p.held == nil {
		p.held = make(map[*session]struct{})
	}
	p.held[ss] = struct{}{}
	return true
}

func (p *pause) release(ss *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, ss)
}

// mayBeHeld tells whether the command, which has been admitted, has to wait for the end of a pause. Monitors never wait, as
// in Redis.
func (ss *session) mayBeHeld(cmd *Command) bool {
	mode := pauseMode(ss.server.pause.mode.Load())
	switch {
	case mode == noPause || ss.monitoring:
		return false
	case mode == pauseAll || mayWrite(cmd):
		return true
	case cmd.Name == "exec":
		for i := range ss.multi.queue.steps {
			if mayWrite(ss.multi.queue.steps[i].cmd) {
				return true
			}
		}
	}
	return false
}

// mayWrite tells whether a pause of writes holds the command: if it writes, or is one of those that Redis may replicate.
func mayWrite(cmd *Command) bool {
	switch cmd.Name {
	case "publish", "spublish", "eval", "evalsha", "pfcount":
		return true
	}
	return cmd.Has(spec.Write)
}

// postpone parks the session before the command, and tells whether it has.
func (ss *session) postpone(cmd *Command) bool {
	if !ss.server.pause.hold(ss) {
		return false
	}
	ss.conn.SetLastCommand(&cmd.Name)
	ss.postponed.Store(true)
	ss.server.blocked.Add(1)
	ss.conn.Park()
	return true
}

// resumePostponed ends the wait. The command is served next, and may be held again.
func (ss *session) resumePostponed() {
	ss.server.pause.release(ss)
	ss.postponed.Store(false)
	ss.server.blocked.Add(-1)
	if ss.conn.Ended() {
		ss.conn.CloseAfterReply()
	}
}

// CLIENT PAUSE timeout [WRITE | ALL]
func clientPauseCommand(c *Call) error {
	a := c.args(1)
	word, mode := a.bytes(), pauseAll
	switch {
	case len(a.rest) > 1:
		return resp.ErrSubcommandArgs("CLIENT", c.Args[1])
	case a.token("WRITE"):
		mode = pauseWrites
	case !a.token("ALL") && a.more():
		return resp.ErrPauseMode
	}
	ms, ok := parseInt(word)
	switch {
	case !ok:
		return resp.ErrTimeoutNotInteger
	case ms < 0:
		return resp.ErrTimeoutNegative
	}
	c.server.pause.begin(c.server.clock, mode, waitFor(ms))
	c.Out.OK()
	return nil
}

// CLIENT UNPAUSE
func clientUnpauseCommand(c *Call) error {
	c.server.pause.over()
	c.Out.OK()
	return nil
}
