package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeq/internal/clock"
)

// TestStalledWorker lets commands take long while others arrive, more of them than there are cores.
func TestStalledWorker(t *testing.T) {
	h := &testHandler{waiting: make(chan struct{}), release: make(chan struct{})}
	address := startTCP(t, newTestServer(t, h))
	stuck := runtime.GOMAXPROCS(0) + 2
	var gates []*client
	for range stuck {
		gate := dial(t, address)
		gate.send("PING before\r\nGATE\r\nPING after\r\n")
		<-h.waiting
		gates = append(gates, gate)
		for range 10 {
			other := dial(t, address)
			other.send("PING\r\n")
			other.expect("+PONG\r\n")
		}
	}
	for range stuck {
		h.release <- struct{}{}
	}
	for _, gate := range gates {
		gate.expect("$6\r\nbefore\r\n+OK\r\n$5\r\nafter\r\n")
	}
}

// TestOrphans has one worker execute commands of several sessions before it stalls: their replies must not wait for it.
func TestOrphans(t *testing.T) {
	h := &testHandler{waiting: make(chan struct{}), release: make(chan struct{})}
	address := startTCP(t, newTestServer(t, h))
	var before []*client
	for range 8 {
		before = append(before, dial(t, address))
	}
	for range 20 {
		gate := dial(t, address)
		for _, c := range before {
			c.send("PING\r\n")
		}
		gate.send("GATE\r\n")
		for _, c := range before {
			c.expect("+PONG\r\n")
		}
		<-h.waiting
		h.release <- struct{}{}
		gate.expect("+OK\r\n")
	}
}

// bothWays runs a test with sessions on the loop and with those that have goroutines of their own.
func bothWays(t *testing.T, run func(t *testing.T, h *testHandler, s *Server)) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own goroutine ", own), func(t *testing.T) {
			h := &testHandler{}
			s := newTestServer(t, h)
			if own {
				s.closeLoop()
				s.loop = nil
			}
			run(t, h, s)
		})
	}
}

// TestNeedsHelp has a worker judge whether what is left in the queue is worth waking another.
func TestNeedsHelp(t *testing.T) {
	for _, c := range []struct {
		served, each, queued int
		want                 bool
	}{
		{63, 1, 1000, false}, // it has not done its part
		{64, 1, 36, false},   // the rest of 100 clients with a command each
		{64, 1, 64, true},
		{4, 16, 3, false},
		{4, 16, 4, true}, // pipelines
		{1, 100, 1, true},
		{1, 100, 0, false},
	} {
		var l loop
		for range c.queued {
			l.queue.PushBack(nil)
		}
		w := &worker{turn: make([]*Session, c.served), executed: c.served * c.each}
		if got := l.needsHelp(w); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestPark counts that each parked command is resumed once, whoever wakes it, and that what follows it waits for it.
func TestPark(t *testing.T) {
	bothWays(t, func(t *testing.T, h *testHandler, s *Server) {
		address := startTCP(t, s)
		const clients, rounds = 40, 50
		var all sync.WaitGroup
		for i := range clients {
			c := dial(t, address)
			all.Go(func() {
				for n := range rounds {
					id := fmt.Sprintf("%d.%d", i, n)
					_, _ = io.WriteString(c, "PARK\r\nPING "+id+"\r\n")
					want := fmt.Sprintf("+UNPARKED\r\n$%d\r\n%s\r\n", len(id), id)
					got := make([]byte, len(want))
					if _, err := io.ReadFull(c.in, got); err != nil || string(got) != want {
						t.Errorf("got %q, %v, want %q", got, err, want)
						return
					}
				}
			})
		}
		waker := dial(t, address)
		for woken := 0; woken < clients*rounds; {
			if woken%2 == 0 {
				woken += h.unpark()
				continue
			}
			waker.send("UNPARK\r\n")
			reply, err := waker.in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if reply == ":1\r\n" {
				woken++
			}
		}
		all.Wait()
	})
}

// untilParked waits until n sessions are parked.
func (h *testHandler) untilParked(n int) {
	for {
		h.mu.Lock()
		parked := len(h.parked)
		h.mu.Unlock()
		if parked == n {
			return
		}
		runtime.Gosched()
	}
}

// TestParkedReadsAhead sends commands, one by one and more than are kept aside, to a parked session.
func TestParkedReadsAhead(t *testing.T) {
	bothWays(t, func(t *testing.T, h *testHandler, s *Server) {
		c := dial(t, startTCP(t, s))
		c.send("PARK\r\nPING a\r\n")
		h.untilParked(1)
		c.send("PING b\r\n")
		c.send("PING ")
		long := strings.Repeat("x", 48<<10)
		c.send(long + "\r\nPARK\r\nPING c\r\n")
		h.unpark()
		c.expect("+UNPARKED\r\n$1\r\na\r\n$1\r\nb\r\n$" + strconv.Itoa(len(long)) + "\r\n" + long + "\r\n")
		h.untilParked(1)
		h.unpark()
		c.expect("+UNPARKED\r\n$1\r\nc\r\n")
	})
}

// TestParkedEnds hangs up on, kills and drains parked sessions.
func TestParkedEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, h *testHandler, s *Server) {
		address := startTCP(t, s)
		for _, unread := range []string{"", "PING\r\n"} {
			c := dial(t, address)
			c.send("PARK\r\n" + unread)
			h.untilParked(1)
			_ = c.Close()
			h.untilParked(0)

			c = dial(t, address)
			c.send("PARK\r\n" + unread)
			_ = c.Conn.(*net.TCPConn).CloseWrite() // maybe before the command is read
			c.expectEnd()
			h.untilParked(0)

			c = dial(t, address)
			c.send("PING\r\nPARK\r\n" + unread)
			c.expect("+PONG\r\n")
			h.untilParked(1)
			s.Each(func(s *Session) bool { s.Kill(); return true })
			c.expectEnd()
			h.untilParked(0)
		}
		var all []*client
		for _, unread := range []string{"", "PING\r\n"} {
			c := dial(t, address)
			c.send("PARK\r\n" + unread)
			all = append(all, c)
		}
		h.untilParked(len(all))
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			c.expectEnd() // without a reply
		}
		h.untilParked(0)
	})
}

// TestParkedCommandComesToItsEnd: a session that can't write its replies, or is hung up on, ends after the command that has
// parked it, though that command takes its time. It is told of the end once.
func TestParkedCommandComesToItsEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, h *testHandler, s *Server) {
		h.lingers = true
		s.limits.MaxOutputBuffer.Store(1 << 20)
		address := startTCP(t, s)
		for i, hangUp := range []bool{true, false} {
			c := dial(t, address)
			if hangUp {
				c.send("PARK\r\n")
				h.untilParked(1)
				_ = c.Close()
			} else {
				c.send("LARGE 2000000\r\nPARK\r\n")
			}
			h.untilLingering()
			if _, closed := h.closed.Load(int64(i + 1)); closed {
				t.Fatal("the session ended before its command")
			}
			h.unpark()
			for closed := false; !closed; runtime.Gosched() {
				_, closed = h.closed.Load(int64(i + 1))
			}
			h.untilParked(0)
			h.mu.Lock()
			if h.told != 0 {
				t.Error("the command was told of the end twice")
			}
			h.mu.Unlock()
		}
	})
}

// TestSlowReader sends more than sockets hold, in both directions.
func TestSlowReader(t *testing.T) {
	address := startTCP(t, newTestServer(t, &testHandler{}))
	slow, other := dial(t, address), dial(t, address)
	const size = 30 << 20
	slow.send("LARGE " + strconv.Itoa(size) + "\r\nPING\r\n")
	for range 10 {
		other.send("PING\r\n")
		other.expect("+PONG\r\n")
	}
	slow.expect("$" + strconv.Itoa(size) + "\r\n")
	if n, err := io.CopyN(io.Discard, slow.in, size); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	slow.expect("\r\n+PONG\r\n")
	value := bytes.Repeat([]byte("x"), size)
	slow.send(fmt.Sprintf("*2\r\n$4\r\nPING\r\n$%d\r\n%s\r\nPING\r\n", size, value))
	slow.expect("$" + strconv.Itoa(size) + "\r\n" + string(value) + "\r\n+PONG\r\n")
}

// TestHalfClosedReader has a client send no more and read nothing yet: the loop has to rest until it does.
func TestHalfClosedReader(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	address := startTCP(t, s)
	c := dial(t, address)
	const size = 30 << 20
	c.send("LARGE " + strconv.Itoa(size) + "\r\n")
	c.expect("$" + strconv.Itoa(size) + "\r\n")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	other := dial(t, address) // so that the loop has polled since
	for range 10 {
		other.send("PING\r\n")
		other.expect("+PONG\r\n")
	}
	rests := func() bool {
		s.loop.mu.Lock()
		defer s.loop.mu.Unlock()
		return s.loop.polling && s.loop.queue.Len() == 0 && s.loop.active == 0
	}
	for deadline := time.Now().Add(time.Minute); !rests(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the loop is busy with a client that does not read")
		}
	}
	if n, err := io.CopyN(io.Discard, c.in, size+2); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	c.expectEnd()
}

// TestPipelines keeps several workers busy and looks at every reply.
func TestPipelines(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	address := startTCP(t, s)
	const clients, commands = 30, 5000
	var all sync.WaitGroup
	for i := range clients {
		c := dial(t, address)
		var in, want strings.Builder
		for n := range commands {
			id := fmt.Sprintf("%d.%d", i, n)
			in.WriteString("PING " + id + "\r\n")
			fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(id), id)
		}
		all.Go(func() { _, _ = io.WriteString(c, in.String()) })
		all.Go(func() {
			got := make([]byte, want.Len())
			if _, err := io.ReadFull(c.in, got); err != nil || string(got) != want.String() {
				t.Errorf("client %d: wrong replies, %v", i, err)
			}
		})
	}
	all.Wait()
}

// TestPost posts from many goroutines to sessions that execute, are parked, or do nothing.
func TestPost(t *testing.T) {
	bothWays(t, func(t *testing.T, h *testHandler, s *Server) {
		address := startTCP(t, s)
		busy, still, parked := dial(t, address), dial(t, address), dial(t, address)
		for _, c := range []*client{busy, still} {
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
		}
		parked.send("PING\r\nPARK\r\n")
		parked.expect("+PONG\r\n")
		const posters, messages = 8, 500
		var all sync.WaitGroup
		for range posters {
			all.Go(func() {
				for range messages {
					s.Each(func(s *Session) bool { s.Post([]byte("+message\r\n")); return true })
				}
			})
		}
		count := func(c *client, replies int) {
			for posted := 0; posted < posters*messages || replies > 0; {
				line, err := c.in.ReadString('\n')
				switch {
				case err != nil:
					t.Error(err)
					return
				case line == "+message\r\n":
					posted++
				case line == "+PONG\r\n" && replies > 0:
					replies--
				default:
					t.Errorf("got %q", line)
					return
				}
			}
		}
		all.Go(func() { _, _ = io.WriteString(busy, strings.Repeat("PING\r\n", 2000)) })
		all.Go(func() { count(busy, 2000) })
		all.Go(func() { count(still, 0) })
		all.Go(func() { count(parked, 0) })
		all.Wait()
		h.unpark()
		parked.expect("+UNPARKED\r\n")
	})
}

// TestPostLimits cuts off a client that doesn't read, at once or after its time.
func TestPostLimits(t *testing.T) {
	clk := clock.NewManual(time.Unix(1000, 0))
	s := NewServer(Options{Handler: &testHandler{}, Limits: NewLimits(), Now: clk.Now, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	s.limits.PostHard.Store(64 << 20)
	s.limits.PostSoft.Store(16 << 20)
	s.limits.PostPatience.Store(int64(time.Minute))
	address := startTCP(t, s)
	post := func(id int64, size int) *Session {
		session := s.Find(id)
		for range size >> 20 {
			session.Post(make([]byte, 1<<20))
		}
		return session
	}
	hard := dial(t, address)
	hard.send("PING\r\n")
	hard.expect("+PONG\r\n")
	<-post(1, 100<<20).Done() // sockets take some of it

	soft := dial(t, address)
	soft.send("PING\r\n")
	soft.expect("+PONG\r\n")
	session := post(2, 32<<20)
	s.sweep()
	select {
	case <-session.Done():
		t.Fatal("cut off before its time")
	default:
	}
	clk.Advance(2 * time.Minute)
	s.limits.WriteTimeout.Store(0)
	s.sweep()
	<-session.Done()
}
