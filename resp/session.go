package resp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handler executes commands. Its methods are called one at a time for each session. Open and Closed may wait; what Serve,
// Resume and Acknowledge wait for holds up the other sessions of the same worker for some milliseconds, until the loop
// notices it and lets another worker go on with them.
type Handler interface {
	// Open prepares a new session, before it is found in the registry: it sets Data, and calls SetAuthenticated(true) when
	// no password is needed.
	Open(*Session)
	// Serve executes commands in order, appends their replies to s.Out and returns how many it has executed: all, unless one
	// of them made the session closing, or parked it. The others are passed to the next Serve. The commands are valid until
	// Serve has returned with the last of them.
	Serve(s *Session, commands [][][]byte) (executed int)
	// Resume goes on with the command that parked the session, after Wake or when Done is closed. It appends the command's
	// reply, or parks the session again. When Done is closed it has to see to the command's end: the session ends then, too,
	// with or without a reply, but not before.
	Resume(*Session)
	// Acknowledge follows each Serve and Resume and returns when the replies in s.Out may be sent. It may change them.
	Acknowledge(*Session)
	// Closed forgets a session, after its connection was closed and the registry has dropped it.
	Closed(*Session)
}

// errOutputBufferLimit ends a session whose replies are larger than MaxOutputBuffer.
var errOutputBufferLimit = errors.New("resp: client output buffer limit exceeded")

// errWouldBlock says that nothing has arrived on a socket that does not wait.
var errWouldBlock = errors.New("resp: nothing to read")

// The phases of a session, in turn. Only a reading session can be idle.
const (
	reading int32 = iota
	serving
)

// transport is a session's connection. Reading waits, but on a loop, where it fails with errWouldBlock.
type transport interface {
	Read([]byte) (int, error)
	// hangUp ends the connection at once. Any goroutine may call it, also after the connection's end.
	hangUp()
	// drain interrupts a read that waits for the next command.
	drain()
}

// Session is one connection.
type Session struct {
	ID      int64
	Addr    string // the client's address as CLIENT LIST shows it
	LAddr   string // the server's address of this connection
	Created time.Time
	Out     *Writer // belongs to Serve, Resume and Acknowledge
	Data    any     // the handler's; set by Open and not replaced afterwards

	server *Server
	conn   transport
	reader *Reader
	seat   seat // its place in the server's loop, unless a goroutine of its own runs it

	// What follows belongs to whoever runs the session at the time.
	rest    [][][]byte // commands that were read and not executed
	parked  bool       // a command waits for Wake
	closing bool       // the session ends when Out is written
	reason  error      // why it ends; nil when that was to be expected

	notify          func(events) // brings the session back to whoever runs it
	post            post
	phase           atomic.Int32
	phaseSince      atomic.Int64 // Unix nanoseconds
	writingSince    atomic.Int64 // Unix nanoseconds; 0: nothing is being written
	listening       atomic.Bool  // see SetListening
	unwritten       atomic.Int64 // bytes that the socket does not take
	overSince       atomic.Int64 // since when they exceed the soft limit, Unix nanoseconds; 0: they don't
	lastInteraction atomic.Int64 // Unix nanoseconds
	lastCommand     atomic.Pointer[string]
	killed          atomic.Bool
	done            chan struct{}
	doneOnce        sync.Once
}

func newSession(server *Server, id int64, remote, local net.Addr, conn transport) *Session {
	s := &Session{
		ID:      id,
		Addr:    addrText(remote, local),
		LAddr:   addrText(local, local),
		Created: server.now(),
		Out:     &Writer{},
		server:  server,
		conn:    conn,
		reader:  NewReader(countedReader{conn, &server.traffic.in}, server.limits),
		done:    make(chan struct{}),
	}
	s.lastInteraction.Store(s.Created.UnixNano())
	s.enter(reading, s.Created) // so that it is not idle before it has sent anything
	return s
}

// addrText spells an address as Redis does. The clients of a unix socket have no address of their own and show the socket's.
func addrText(addr, local net.Addr) string {
	if local.Network() == "unix" {
		return local.String() + ":0"
	}
	return addr.String()
}

// SetAuthenticated lifts the tight limits on requests that hold before authentication, or sets them again.
func (s *Session) SetAuthenticated(ok bool) { s.reader.SetAuthenticated(ok) }

// CloseAfterReply ends the session when the present Serve has returned and its replies are written.
func (s *Session) CloseAfterReply() { s.closing = true }

// SetListening says whether the client waits for what is posted to it, so that it may be silent for as long as it likes.
func (s *Session) SetListening(on bool) { s.listening.Store(on) }

// Closing reports to Serve whether the session ends after the present replies; commands that follow must not be executed.
func (s *Session) Closing() bool { return s.closing }

// Park tells from within Serve or Resume that the command at hand has no reply yet. The session executes and reads nothing
// more until Wake is called, or Done is closed: then comes Resume.
func (s *Session) Park() { s.parked = true }

// Parked reports to Serve whether the command at hand has parked the session.
func (s *Session) Parked() bool { return s.parked }

// Wake makes a parked session resume, soon. Any goroutine may call it, at any time and holding any lock; a wake that finds
// the session not parked, or meets another one, may still lead to a Resume of the next command that parks.
func (s *Session) Wake() { s.notify(woken) }

// Kill closes the connection at once, without what is left of its replies. Any goroutine may call it. The session ends
// when Serve, if it runs, has returned; until then Killed tells others that the client is gone.
func (s *Session) Kill() {
	s.killed.Store(true)
	s.end()
	s.conn.hangUp()
	s.notify(woken)
}

// Killed tells whether Kill was called. Any goroutine may call it.
func (s *Session) Killed() bool { return s.killed.Load() }

// Done is closed when the session is killed, the client has hung up on a parked command, or the server shuts down: whoever
// waits for the session's sake has to come to an end.
func (s *Session) Done() <-chan struct{} { return s.done }

// drain lets what runs finish, and then ends the session.
func (s *Session) drain() {
	s.end()
	s.conn.drain()
	s.notify(woken)
}

// end closes Done, and tells whether it is the first to do so.
func (s *Session) end() (first bool) {
	s.doneOnce.Do(func() {
		close(s.done)
		first = true
	})
	return first
}

// Ended tells whether Done is closed. Any goroutine may call it.
func (s *Session) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// LastInteraction is when the last commands arrived. Any goroutine may call it.
func (s *Session) LastInteraction() time.Time { return time.Unix(0, s.lastInteraction.Load()) }

// SetLastCommand notes the full name of the last command. The pointer leads to the handler's table of commands, so that
// nothing is allocated.
func (s *Session) SetLastCommand(name *string) { s.lastCommand.Store(name) }

// LastCommand is the name that SetLastCommand noted last, NULL (as in Redis) if none was. Any goroutine may call it.
func (s *Session) LastCommand() string {
	if name := s.lastCommand.Load(); name != nil {
		return *name
	}
	return "NULL"
}

// advance takes the session one step further: it resumes the parked command, or executes what was read before, or else
// reads and executes. It tells how many commands it has executed, and whether there is something to acknowledge and write,
// or the session is closing. There is neither when nothing has arrived. now may be some milliseconds old.
func (s *Session) advance(now time.Time) (executed int, progress bool) {
	switch {
	case s.parked:
		s.enter(serving, now)
		s.parked = false
		s.server.handler.Resume(s)
		s.closing = s.closing || s.Ended()
		return 1, true
	case s.server.isDraining():
		s.closing = true
		return 0, true
	case len(s.rest) == 0:
		commands, err := s.reader.ReadBatch()
		if err == errWouldBlock {
			return 0, false
		}
		if err != nil {
			s.readFailed(err)
			return 0, true
		}
		s.rest = commands
	}
	s.enter(serving, now)
	s.lastInteraction.Store(now.UnixNano())
	s.Out.SetLimit(int(s.server.limits.MaxOutputBuffer.Load()))
	executed = s.server.handler.Serve(s, s.rest)
	s.rest = s.rest[executed:]
	return executed, true
}

// settled ends a step, whose replies are written as far as the client takes them.
func (s *Session) settled(now time.Time) {
	if s.Out.Len() == 0 {
		s.postRead()
	}
	if !s.parked {
		s.enter(reading, now)
	}
}

// enter notes the phase for overdue, its time first.
func (s *Session) enter(phase int32, now time.Time) {
	s.phaseSince.Store(now.UnixNano())
	s.phase.Store(phase)
}

// readFailed ends the session, and tells the client what was wrong with its request. Hanging up, in the middle of a command
// too, is a client's right.
func (s *Session) readFailed(err error) {
	s.closing = true
	if protocol, ok := err.(*ProtocolError); ok {
		s.Out.Error(protocol.Reply)
		s.reason = err
	}
	if errors.Is(err, ErrQueryBufferLimit) {
		s.reason = err
	}
}

// outgoing is what there is to write, nothing if it has grown too large, which ends the session.
func (s *Session) outgoing() []byte {
	if s.Out.Overflowed() {
		s.closing, s.reason = true, errOutputBufferLimit
		return nil
	}
	return s.Out.Bytes()
}

// overdue says why the session has to be closed at the given time; empty if it need not be.
func (s *Session) overdue(now time.Time, limits *Limits) string {
	// enter stores them in the other order, so that no phase is taken to have lasted as long as an earlier one.
	phase := s.phase.Load()
	since := s.phaseSince.Load()
	if t := limits.IdleTimeout.Load(); t > 0 && phase == reading && !s.listening.Load() && now.UnixNano()-since > t {
		return "idle for too long"
	}
	since = s.writingSince.Load()
	if t := limits.WriteTimeout.Load(); t > 0 && since > 0 && now.UnixNano()-since > t {
		return "does not read its replies"
	}
	since = s.overSince.Load()
	if soft := limits.OutputSoft.Load(); soft > 0 && since > 0 && now.UnixNano()-since > limits.OutputPatience.Load() {
		return "is over the soft limit of client-output-buffer-limit"
	}
	if s.postOverdue(limits) {
		return errPostLimit.Error()
	}
	return ""
}
