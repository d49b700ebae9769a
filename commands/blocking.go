package commands

import (
	"errors"
	"math"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"codeq/internal/clock"
	"codeq/resp"
	"codeq/shard"
)

// Blocking. A command that waits for a value tries its keys first. When none of them serves it, it registers a shard.Waiter
// and parks its session, which costs no goroutine. Whoever makes one of the keys ready runs the try, under the locks that
// its own commit holds, and wakes the session, which then replies. So may its timeout, CLIENT UNBLOCK, and its end.

// attempt serves a command from the value at one of its keys, if there is something for it, by writing its whole reply. It
// is the heart of a shard.Try and keeps to its rules.
type attempt func(out *resp.Writer, db shard.DB, key []byte) (served bool, err error)

// blocking is a command that may have to wait.
type blocking struct {
	kind    shard.Kind
	keys    [][]byte
	timeout time.Duration // 0: without end
	try     attempt
	nothing func(out *resp.Writer) // the reply when the time is up
	// rivals is for shard.Waiter.SetRivals, element for SetElement.
	rivals  string
	element []byte
	slots   *shard.SlotRange // for SetSlots
}

// errGone is what a try says when its client is gone. Nobody is told.
var errGone = errors.New("commands: the client that waits is gone")

// cause is why a parked command gives up.
type cause int32

const (
	noCause cause = iota
	timedOut
	unblocked        // CLIENT UNBLOCK
	unblockedHarshly // CLIENT UNBLOCK ERROR
)

// parked is a command that waits.
type parked struct {
	blocking
	cmd     *Command
	session *session
	waiter  *shard.Waiter
	reply   resp.Writer // the waiter's try writes it
	timer   clock.Timer // nil: no timeout
	cause   atomic.Int32
}

// block serves the call from the first of the keys that has something for it. When none has, the session waits, or where it
// may not (in a script or a transaction) the call replies as if its time were up.
func (c *Call) block(b blocking) error {
	for _, key := range b.keys {
		if served, err := b.try(c.Out, c.DB(), key); served || err != nil {
			return err
		}
	}
	if c.script || c.exec {
		b.nothing(c.Out)
		return nil
	}
	return c.park(b)
}

// park registers a waiter, for whose keys nothing was found, and parks the session. The arguments live on: a parked session
// reads nothing. What comes before the command in its run is committed with the registration, the scripts it made known
// included, and is not carried out again.
func (c *Call) park(b blocking) error {
	ss := c.session
	p := &parked{blocking: b, cmd: c.cmd, session: ss}
	p.reply.SetProto(c.Out.Proto())
	p.reply.SetLimit(c.Out.Limit())
	p.waiter = shard.NewWaiter(c.db, b.kind, b.keys, p.attempt, ss.conn.Wake)
	p.waiter.SetRivals(b.rivals)
	p.waiter.SetElement(b.element)
	p.waiter.SetSlots(b.slots)
	if err := ss.saveScripts(); err != nil {
		return err
	}
	if err := c.tx.Block(p.waiter); err != nil {
		return err
	}
	ss.scriptsSaved()
	ss.parked.Store(p)
	ss.conn.Park()
	if b.timeout > 0 {
		p.timer = c.server.clock.AfterFunc(b.timeout, func() { p.giveUp(timedOut) })
	}
	c.server.blocked.Add(1) // only now may one who counts move the clock
	return nil
}

// gone tells whether the session is ending: its client has hung up or was killed, or the server shuts down.
func (p *parked) gone() bool { return p.session.conn.Ended() }

// attempt is the waiter's try. It runs within the commit of somebody else, whom a panic must not concern.
func (p *parked) attempt(tx *shard.Tx, key []byte) (served bool, err error) {
	if p.gone() {
		return false, errGone
	}
	defer func() {
		if v := recover(); v != nil {
			served, err = false, &panicked{value: v, stack: debug.Stack()}
		}
	}()
	p.reply.Reset()
	return p.try(&p.reply, tx.DB(p.session.db()), key)
}

// giveUp makes the command end without being served. It tells whether it has. If not, the command has ended otherwise, or is
// just being served; should that come to nothing, it ends all the same.
func (p *parked) giveUp(why cause) bool {
	return p.cause.CompareAndSwap(int32(noCause), int32(why)) && p.waiter.Cancel()
}

// Resume goes on with a session whose command waits.
func (s *Server) Resume(conn *resp.Session) {
	ss := sessionOf(conn)
	p := ss.parked.Load()
	ss.start, ss.replies, ss.pos = conn.Out.Len(), 0, 0
	if p == nil {
		ss.resumePostponed()
		return
	}
	over := false
	if p.gone() {
		over = p.waiter.Withdraw(ss.tx)
	} else {
		over = p.waiter.Resume(ss.tx)
	}
	if !over {
		conn.Park()
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	ss.parked.Store(nil)
	s.blocked.Add(-1)
	ss.finishParked(p)
	if ss.pushed = false; ss.replyMode != replyAll {
		ss.replies = 0
	}
	ss.keepBack(ss.start)
}

// finishParked replies for a command that waits no more. A client that is gone gets no reply but that of a command which was
// served before: a server that shuts down hangs up on the others, as Redis does.
func (ss *session) finishParked(p *parked) {
	out := ss.conn.Out
	served, pos, err := p.waiter.Result()
	if !served && p.gone() {
		return
	}
	ss.replies, ss.pos = 1, pos
	why := cause(p.cause.Load())
	if !served && (err != nil || why != timedOut) {
		p.cmd.stats.failed.Add(1) // as Redis counts
	}
	switch {
	case served && p.reply.Overflowed(): // nothing can be made of what is there
		ss.conn.Kill()
	case served:
		out.Raw(p.reply.Bytes())
	case err != nil:
		reply, ok := replyTo(err)
		if !ok {
			ss.refuse(ss.report(err))
			return
		}
		ss.refuse(reply)
	case why == unblockedHarshly:
		ss.refuse(resp.ErrUnblocked)
	default:
		p.nothing(out)
	}
}

// timeout takes a number of seconds, with a fraction, as the time to wait; 0 is without end. Redis calls a time negative,
// too, that its clock can't count.
func (a *arguments) timeout() time.Duration {
	text := a.bytes()
	if a.err != nil {
		return 0
	}
	seconds, ok := parseFloat(text)
	if _, err := strconv.ParseFloat(string(text), 64); errors.Is(err, strconv.ErrRange) {
		seconds, ok = math.Inf(1), true
	}
	switch ms := math.Ceil(seconds * 1000); {
	case !ok:
		a.fail(resp.ErrTimeoutNotFloat)
	case ms < 0 || ms >= math.MaxInt64:
		a.fail(resp.ErrTimeoutNegative)
	default:
		return waitFor(int64(ms))
	}
	return 0
}

// waitFor turns milliseconds into a duration, the longest there is if they are too many.
func waitFor(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func replyNull(out *resp.Writer)      { out.Null() }
func replyNullArray(out *resp.Writer) { out.NullArray() }
