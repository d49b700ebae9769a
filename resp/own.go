package resp

import (
	"net"
	"sync"
	"time"
)

// A session whose connection is no plain socket (it is secured by TLS, or the system has no epoll) is run by a goroutine of
// its own, and another one that reads for it. While a command has parked it nobody reads, so that a client's hanging up shows
// later.

// stream is a connection whose reads wait.
type stream struct{ net.Conn }

// hangUp gives the connection up; its error would tell nothing that matters. Taking leave by the rules of TLS could block.
func (c stream) hangUp() { _ = underlying(c.Conn).Close() }

// drain sets a deadline in the past. It fails only on a closed connection.
func (c stream) drain() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// serveStream runs a session until it ends.
func (s *Server) serveStream(conn net.Conn) {
	session := newSession(s, s.lastID.Add(1), conn.RemoteAddr(), conn.LocalAddr(), stream{conn})
	notices := make(chan struct{}, 1)
	session.notify = func(events) {
		select {
		case notices <- struct{}{}:
		default: // there is one already
		}
	}
	s.register(session)
	asked, arrived := make(chan struct{}), make(chan error, 1) // which may be the last
	var reader sync.WaitGroup
	reader.Go(func() { session.readAhead(asked, arrived) }) // stopped by what follows
	session.run(conn, asked, arrived, notices)
	session.end()
	_ = conn.Close() // nothing more is expected of it
	close(asked)
	reader.Wait()
	s.forget(session)
}

// readAhead reads a batch whenever it is asked to.
func (s *Session) readAhead(asked <-chan struct{}, arrived chan<- error) {
	for range asked {
		commands, err := s.reader.ReadBatch()
		s.rest = commands
		arrived <- err
	}
}

// run advances the session until it ends. When it returns, all replies are written.
func (s *Session) run(conn net.Conn, asked chan<- struct{}, arrived <-chan error, notices <-chan struct{}) {
	for reading := false; !s.closing; {
		switch {
		case s.parked:
			select {
			case <-notices:
			case <-s.done:
			}
			s.takePost()
			s.advance()
		case !reading && len(s.rest) > 0:
			s.advance()
		default:
			if !reading {
				reading = true
				asked <- struct{}{}
			}
			select {
			case err := <-arrived:
				if reading = false; err == nil {
					continue
				}
				s.readFailed(err)
			case <-notices:
				s.takePost()
			}
		}
		s.answer(conn)
	}
}

// answer acknowledges and writes the replies.
func (s *Session) answer(conn net.Conn) {
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
