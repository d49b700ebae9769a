package resp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Handler executes commands. Its methods are called one at a time for each session, Open, Serve and Closed on the
// session's goroutine, Acknowledge on any.
type Handler interface {
	// Open prepares a new session, before it is found in the registry: it sets Data, and calls SetAuthenticated(true) when
	// no password is needed.
	Open(*Session)
	// Serve executes commands in order and appends their replies to s.Out. It stops at the command that made s.Closing
	// true. The commands are valid until it returns. If it waits, it stops doing so when s.Done is closed.
	Serve(s *Session, commands [][][]byte)
	// Acknowledge follows each Serve and returns when the replies in s.Out may be sent. It may change them.
	Acknowledge(s *Session)
	// Closed forgets a session, after its connection was closed and the registry has dropped it.
	Closed(*Session)
}

// errOutputBufferLimit ends a session whose replies are larger than MaxOutputBuffer.
var errOutputBufferLimit = errors.New("resp: client output buffer limit exceeded")

// The phases of a session, in turn. Only a reading session can be idle.
const (
	reading int32 = iota
	serving
)

// Session is one connection.
//
// While Serve runs, nothing reads the socket. A Serve that waits for long may therefore watch it for the client hanging up
// without taking anything from the reader.
type Session struct {
	ID      int64
	Addr    string // the client's address as CLIENT LIST shows it
	LAddr   string // the server's address of this connection
	Created time.Time
	Out     *Writer // belongs to Serve and Acknowledge, and then to whoever writes it; see out
	Data    any     // the handler's; set by Open and not replaced afterwards

	server *Server
	conn   net.Conn
	raw    syscall.RawConn // of a plain socket, whose replies a round writes; nil for TLS
	reader *Reader

	// out is held from before Serve until its replies are written, by whichever goroutine does that. It guards Out and
	// closing.
	out     sync.Mutex
	closing bool // ends the session after the present batch

	phase           atomic.Int32
	phaseSince      atomic.Int64 // Unix nanoseconds
	writingSince    atomic.Int64 // Unix nanoseconds; 0: nothing is being written
	lastInteraction atomic.Int64 // Unix nanoseconds
	lastCommand     atomic.Pointer[string]
	done            chan struct{}
	doneOnce        sync.Once
}

func newSession(server *Server, id int64, conn net.Conn) *Session {
	s := &Session{
		ID:      id,
		Addr:    addrText(conn.RemoteAddr(), conn.LocalAddr()),
		LAddr:   addrText(conn.LocalAddr(), conn.LocalAddr()),
		Created: server.now(),
		Out:     &Writer{},
		server:  server,
		conn:    conn,
		reader:  NewReader(conn, server.limits),
		done:    make(chan struct{}),
	}
	s.lastInteraction.Store(s.Created.UnixNano())
	if plain, ok := conn.(syscall.Conn); ok {
		s.raw, _ = plain.SyscallConn() // an error leaves raw nil
	}
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

// Closing reports to Serve whether the session ends after the present replies; commands that follow must not be executed.
func (s *Session) Closing() bool { return s.closing }

// Kill closes the connection at once, without what is left of its replies. Any goroutine may call it. The session ends
// when Serve, if it runs, has returned.
func (s *Session) Kill() {
	s.end()
	// Taking leave by the rules of TLS could block. The connection is given up; its error would tell nothing that matters.
	_ = underlying(s.conn).Close()
}

// Done is closed when the session is killed or the server shuts down: a Serve that waits has to come to an end.
func (s *Session) Done() <-chan struct{} { return s.done }

func (s *Session) end() { s.doneOnce.Do(func() { close(s.done) }) }

// drain lets a running Serve finish but no further one begin.
func (s *Session) drain() {
	s.end()
	// A deadline in the past interrupts the read that waits for the next command. It fails only on a closed connection.
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
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

// run serves the connection until it ends, and returns why: nil when that was to be expected. When it returns, all replies
// are written.
func (s *Session) run() error {
	for !s.server.isDraining() {
		s.enter(reading)
		commands, err := s.reader.ReadBatch()
		s.out.Lock()
		if err != nil || s.closing {
			defer s.out.Unlock()
			return s.readFailed(err)
		}
		s.enter(serving)
		s.lastInteraction.Store(s.phaseSince.Load())
		s.Out.SetLimit(int(s.server.limits.MaxOutputBuffer.Load()))
		s.server.handler.Serve(s, commands)
		if s.raw != nil && !s.closing {
			s.server.roundOf(s).join(s)
			continue
		}
		s.server.handler.Acknowledge(s)
		err = s.Flush()
		closing := s.closing
		s.out.Unlock()
		if err != nil || closing {
			return err
		}
	}
	s.out.Lock() // waits until the last replies are written
	defer s.out.Unlock()
	return nil
}

// enter notes the phase for overdue, its time first.
func (s *Session) enter(phase int32) {
	s.phaseSince.Store(s.server.now().UnixNano())
	s.phase.Store(phase)
}

// readFailed tells the client what was wrong with its request. Hanging up, in the middle of a command too, is a client's right.
func (s *Session) readFailed(err error) error {
	if protocol, ok := err.(*ProtocolError); ok {
		s.Out.Error(protocol.Reply)
		return errors.Join(err, s.Flush())
	}
	if errors.Is(err, ErrQueryBufferLimit) {
		return err
	}
	return nil
}

// Flush writes the replies in Out to the client. A Serve whose replies grow large may do so for those that are acknowledged
// and that it would not take back. After an error the session is closing.
func (s *Session) Flush() error {
	if s.Out.Overflowed() {
		s.closing = true
		s.Out.Reset()
		return errOutputBufferLimit
	}
	if s.Out.Len() == 0 {
		return nil
	}
	s.writingSince.Store(s.server.now().UnixNano())
	_, err := s.conn.Write(s.Out.Bytes())
	s.writingSince.Store(0)
	s.Out.Reset()
	if err != nil {
		s.closing = true
	}
	return err
}

// overdue says why the session has to be closed at the given time; empty if it need not be.
func (s *Session) overdue(now time.Time, limits *Limits) string {
	// enter stores them in the other order, so that no phase is taken to have lasted as long as an earlier one.
	phase := s.phase.Load()
	since := s.phaseSince.Load()
	if t := limits.IdleTimeout.Load(); t > 0 && phase == reading && now.UnixNano()-since > t {
		return "idle for too long"
	}
	since = s.writingSince.Load()
	if t := limits.WriteTimeout.Load(); t > 0 && since > 0 && now.UnixNano()-since > t {
		return "does not read its replies"
	}
	return ""
}
