package resp

import (
	"net"
	"slices"
	"sync"
	"time"
)

// A session whose connection is no plain socket (it is secured by TLS, or the system has no epoll) is run by a goroutine of
// its own, and another one that reads for it. While a command has parked it, what arrives is kept aside, up to maxAhead, so that
// it shows when the client hangs up.

const (
	// maxAhead bytes are kept aside. Behind more than that, a parked session does not see its client's hanging up.
	maxAhead = 16 << 10
	// aheadChunk bytes are read at once meanwhile.
	aheadChunk = 512
)

// stream is a connection whose reads wait. They belong to the session's reader.
type stream struct {
	net.Conn
	ahead []byte // kept aside
}

func (c *stream) Read(b []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// lookAhead waits for data and keeps it aside.
func (c *stream) lookAhead() error {
	c.ahead = slices.Grow(c.ahead, aheadChunk)
	n, err := c.Conn.Read(c.ahead[len(c.ahead):cap(c.ahead)])
	c.ahead = c.ahead[:len(c.ahead)+n]
	return err
}

// hangUp gives the connection up; its error would tell nothing that matters. Taking leave by the rules of TLS could block.
func (c *stream) hangUp() { _ = underlying(c.Conn).Close() }

// drain sets a deadline in the past. It fails only on a closed connection.
func (c *stream) drain() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// serveStream runs a session until it ends.
func (s *Server) serveStream(conn net.Conn) {
	own := &stream{Conn: conn}
	session := newSession(s, s.lastID.Add(1), conn.RemoteAddr(), conn.LocalAddr(), own)
	notices := make(chan struct{}, 1)
	session.notify = func(events) {
		select {
		case notices <- struct{}{}:
		default: // there is one already
		}
	}
	s.register(session)
	asked, arrived := make(chan wanted), make(chan error, 1) // which may be the last
	var reader sync.WaitGroup
	reader.Go(func() { session.read(own, asked, arrived) }) // stopped by what follows
	session.run(own, asked, arrived, notices)
	session.end()
	_ = conn.Close() // nothing more is expected of it
	close(asked)
	reader.Wait()
	s.forget(session)
}

// wanted is what the reader is asked for.
type wanted uint8

const (
	readNothing  wanted = iota
	readCommands        // the next batch
	readAhead           // anything, to be kept aside
)

// read reads whenever it is asked to.
func (s *Session) read(conn *stream, asked <-chan wanted, arrived chan<- error) {
	for want := range asked {
		if want == readAhead {
			arrived <- conn.lookAhead()
			continue
		}
		batch, err := s.reader.ReadBatch()
		s.rest = batch
		arrived <- err
	}
}

// run advances the session until it ends. When it returns, all replies are written.
func (s *Session) run(conn *stream, asked chan<- wanted, arrived <-chan error, notices <-chan struct{}) {
	pending, done := readNothing, s.done
	ask := func(want wanted) {
		if pending == readNothing {
			pending = want
			asked <- want
		}
	}
	for !s.closing || s.parked {
		switch {
		case s.parked:
			if s.closing {
				s.end() // the command comes to an end before its session does
			} else if pending == readNothing && len(conn.ahead) < maxAhead {
				ask(readAhead)
			}
			select {
			case <-notices:
			case <-done:
				done = nil // it is enough to be told once
			case err := <-arrived:
				if pending = readNothing; err == nil {
					continue
				}
				s.end() // of which this step tells
				s.closing, done = true, nil
			}
			s.takePost()
			s.advance(s.server.now())
		case pending != readCommands && len(s.rest) > 0:
			s.advance(s.server.now())
		default:
			ask(readCommands)
			select {
			case err := <-arrived:
				looked := pending == readAhead
				if pending = readNothing; err == nil || looked { // an error will come again, behind what was kept aside
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
		s.noteUnwritten(len(replies))
		n, err := conn.Write(replies)
		s.server.traffic.out.Add(int64(n))
		s.writingSince.Store(0)
		s.noteUnwritten(0)
		s.closing = s.closing || err != nil
	}
	s.Out.Reset()
	s.settled(s.server.now())
}
