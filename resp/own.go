package resp

import (
	"net"
	"time"
)

// A session whose connection is no plain socket (it is secured by TLS, or the system has no epoll) is run by a goroutine of
// its own. While a command has parked it nobody watches the connection, so that a client's hanging up shows later.

// stream is a connection whose reads wait.
type stream struct{ net.Conn }

// hangUp gives the connection up; its error would tell nothing that matters. Taking leave by the rules of TLS could block.
func (c stream) hangUp() { _ = underlying(c.Conn).Close() }

// drain sets a deadline in the past. It fails only on a closed connection.
func (c stream) drain() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// serveStream runs a session until it ends.
func (s *Server) serveStream(conn net.Conn) {
	session := newSession(s, s.lastID.Add(1), conn.RemoteAddr(), conn.LocalAddr(), stream{conn})
	woken := make(chan struct{}, 1)
	session.wake = func() {
		select {
		case woken <- struct{}{}:
		default: // there is one already
		}
	}
	s.register(session)
	session.run(conn, woken)
	session.end()
	_ = conn.Close() // nothing more is expected of it
	s.forget(session)
}

// run advances the session until it ends. When it returns, all replies are written.
func (s *Session) run(conn net.Conn, woken <-chan struct{}) {
	for !s.closing {
		if s.parked {
			select {
			case <-woken:
			case <-s.done:
			}
		}
		s.advance()
		s.server.handler.Acknowledge(s)
		if replies := s.outgoing(); len(replies) > 0 {
			s.writingSince.Store(s.server.now().UnixNano())
			_, err := conn.Write(replies)
			s.writingSince.Store(0)
			s.closing = s.closing || err != nil
		}
		s.Out.Reset()
		s.settled(s.server.now())
	}
}
