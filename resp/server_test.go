package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testHandler knows a few commands. WAIT blocks until the session has to end, GATE until the test lets it go on, PARK parks
// its session until somebody says UNPARK, LARGE n replies n bytes.
type testHandler struct {
	password string
	waiting  chan struct{} // WAIT sends
	release  chan struct{} // GATE receives
	closed   sync.Map

	mu      sync.Mutex
	parked  []*Session
	lingers bool // a parked command goes on after its session's end until somebody says UNPARK
	told    int  // how often such a command was told of the end
}

type testState struct{ auth bool }

func (h *testHandler) Open(s *Session) {
	s.Data = &testState{auth: h.password == ""}
	s.SetAuthenticated(h.password == "")
}

func (h *testHandler) Closed(s *Session) { h.closed.Store(s.ID, true) }

func (h *testHandler) Acknowledge(*Session) {}

// Resume replies to PARK when the session was unparked, or is ending.
func (h *testHandler) Resume(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(h.parked, s)
	switch {
	case s.Ended() && at >= 0 && h.lingers:
		h.told++
		s.Park()
	case s.Ended() && at >= 0:
		h.parked = slices.Delete(h.parked, at, at+1)
	case s.Ended():
	case at >= 0:
		s.Park()
	default:
		s.Out.Status("UNPARKED")
	}
}

// untilLingering waits until the next lingering command has been told of the end.
func (h *testHandler) untilLingering() {
	for told := 0; told == 0; runtime.Gosched() {
		h.mu.Lock()
		told, h.told = h.told, 0
		h.mu.Unlock()
	}
}

func (h *testHandler) park(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parked = append(h.parked, s)
	s.Park()
}

// unpark unparks one session, if there is any.
func (h *testHandler) unpark() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.parked) > 0 {
		n = 1
		h.parked[0].Wake()
		h.parked = slices.Delete(h.parked, 0, 1)
	}
	return n
}

func (h *testHandler) Serve(s *Session, commands [][][]byte) int {
	for i, args := range commands {
		if s.Closing() || s.Parked() {
			return i
		}
		h.execute(s, args)
	}
	return len(commands)
}

func (h *testHandler) execute(s *Session, args [][]byte) {
	state := s.Data.(*testState)
	name := args[0]
	is := func(want string) bool { return bytes.EqualFold(name, []byte(want)) }
	switch {
	case is("AUTH") && len(args) == 2:
		if string(args[1]) != h.password {
			s.Out.Error(ErrWrongPass)
			return
		}
		state.auth = true
		s.SetAuthenticated(true)
		s.Out.OK()
	case is("PING") || is("ECHO") || is("CLIENT") || is("CONFIG"):
		h.executeKnown(s, is, state, args)
	case is("QUIT"):
		s.CloseAfterReply()
		s.Out.OK()
	case is("WAIT"):
		h.waiting <- struct{}{}
		<-s.Done()
		s.Out.OK()
	case is("GATE"):
		h.waiting <- struct{}{}
		<-h.release
		s.Out.OK()
	case is("PARK"):
		h.park(s)
	case is("UNPARK"):
		s.Out.Int(int64(h.unpark()))
	case is("LARGE"):
		n, _ := strconv.Atoi(string(args[1]))
		s.Out.Bulk(make([]byte, n))
	default:
		s.Out.Error(ErrUnknownCommand(args))
	}
}

func (h *testHandler) executeKnown(s *Session, is func(string) bool, state *testState, args [][]byte) {
	switch {
	case is("PING") && !state.auth:
		s.Out.Error(ErrNoAuth)
	case is("PING") && len(args) == 1:
		name := "ping"
		s.SetLastCommand(&name)
		s.Out.Status("PONG")
	case is("PING") && len(args) == 2:
		s.Out.Bulk(args[1])
	case is("ECHO") && len(args) == 2 && state.auth:
		s.Out.Bulk(args[1])
	case (is("CLIENT") || is("CONFIG")) && len(args) > 1:
		s.Out.Error(ErrUnknownSubcommand(args[0], args[1]))
	default:
		s.Out.Error(ErrWrongArgs(strings.ToLower(string(args[0]))))
	}
}

// newTestServer returns a server that is shut down at the end of the test, whatever is running.
func newTestServer(t *testing.T, h Handler) *Server {
	t.Helper()
	s := NewServer(Options{Handler: h, Limits: NewLimits(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startUnix(t *testing.T, s *Server) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s.sock")
	start(t, s, "unix", socket)
	return socket
}

func start(t *testing.T, s *Server, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	serveListener(t, s, l)
	return l.Addr()
}

func serveListener(t *testing.T, s *Server, l net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // stopped by Shutdown
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func startTCP(t *testing.T, s *Server) string {
	t.Helper()
	return start(t, s, "tcp", "127.0.0.1:0").String()
}

// client is a connection that fails the test instead of returning errors.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.in, got); err != nil || string(got) != want {
		c.t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// expectEnd waits for the server to close the connection.
func (c *client) expectEnd() {
	c.t.Helper()
	if b, err := c.in.ReadByte(); err == nil {
		c.t.Fatalf("got %q, want the end", b)
	}
}

func TestSession(t *testing.T) {
	h := &testHandler{}
	s := newTestServer(t, h)
	address := startTCP(t, s)
	c := dial(t, address)
	c.send("PING\r\nPING a\r\n")
	c.expect("+PONG\r\n$1\r\na\r\n")

	session := s.Find(1)
	if session == nil || session.Addr != c.LocalAddr().String() || session.LAddr != address || session.LastCommand() != "ping" {
		t.Fatalf("session %+v", session)
	}
	if session.LastInteraction().Before(session.Created) {
		t.Error("the last interaction precedes the session")
	}
	second := dial(t, address)
	second.send("ECHO b\r\n")
	second.expect("$1\r\nb\r\n")
	var ids []int64
	s.Each(func(s *Session) bool { ids = append(ids, s.ID); return true })
	if len(ids) != 2 || ids[0] != 1 || ids[1] != 2 || s.Clients() != 2 || s.Find(2).LastCommand() != "NULL" {
		t.Errorf("sessions %v, %d clients", ids, s.Clients())
	}
	// What follows a QUIT is not executed.
	c.send("QUIT\r\nPING\r\n")
	c.expect("+OK\r\n")
	c.expectEnd()
	s.Find(2).Kill()
	second.expectEnd()
}

func TestUnixAddress(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	socket := startUnix(t, s)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	if got := s.Find(1); got.Addr != socket+":0" || got.LAddr != socket+":0" {
		t.Errorf("addresses %q, %q", got.Addr, got.LAddr)
	}
}

func TestMaxClients(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	s.limits.MaxClients.Store(1)
	address := startTCP(t, s)
	first := dial(t, address)
	first.send("PING\r\n")
	first.expect("+PONG\r\n")
	refused := dial(t, address)
	refused.expect("-ERR max number of clients reached\r\n")
	refused.expectEnd()
	first.send("QUIT\r\n")
	first.expect("+OK\r\n")
	first.expectEnd()
	s.limits.MaxClients.Store(2)
	third := dial(t, address)
	third.send("PING\r\n")
	third.expect("+PONG\r\n")
}

func TestOutputBufferLimit(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	s.limits.MaxOutputBuffer.Store(1000)
	c := dial(t, startTCP(t, s))
	c.send("LARGE 900\r\n")
	c.expect("$900\r\n" + strings.Repeat("\x00", 900) + "\r\n")
	c.send("LARGE 1100\r\n")
	c.expectEnd()
	s.limits.MaxOutputBuffer.Store(0)
	c = dial(t, c.RemoteAddr().String())
	c.send("LARGE 1100\r\n")
	c.expect("$1100\r\n")
}

// TestOverdue drives the sweep with a clock of its own.
func TestOverdue(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1000, 0)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	h := &testHandler{waiting: make(chan struct{})}
	s := NewServer(Options{Handler: h, Limits: NewLimits(), Now: clock, Log: slog.New(slog.DiscardHandler)})
	address := startTCP(t, s)

	waiting := dial(t, address)
	waiting.send("WAIT\r\n")
	<-h.waiting
	idle := dial(t, address)
	idle.send("PING\r\n")
	idle.expect("+PONG\r\n")
	s.sweep()
	untilReading(s.Find(2))
	advance(time.Hour)
	s.sweep() // no timeout is set
	idle.send("PING\r\n")
	idle.expect("+PONG\r\n")
	untilReading(s.Find(2))
	s.limits.IdleTimeout.Store(int64(time.Minute))
	advance(time.Hour)
	s.sweep()
	idle.expectEnd()
	if s.Find(1) == nil {
		t.Error("a waiting client was taken for idle")
	}
	silent := dial(t, address)
	for s.Find(3) == nil {
		runtime.Gosched()
	}
	s.sweep()
	silent.send("PING\r\n") // it has just come
	silent.expect("+PONG\r\n")

	// A client that doesn't read gets no further than its socket's buffers; others are served.
	stuck := dial(t, address)
	stuck.send("LARGE 100000000\r\n")
	stuck.expect("$100000000\r\n")
	other := dial(t, address)
	other.send("PING\r\n")
	other.expect("+PONG\r\n")
	for session := s.Find(4); session.writingSince.Load() == 0; { // another worker may have served the others
		runtime.Gosched()
	}
	advance(2 * time.Hour)
	s.sweep()
	if n, _ := io.Copy(io.Discard, stuck.in); n >= 100000000 {
		t.Error("a stuck client got all")
	}
}

func TestShutdown(t *testing.T) {
	h := &testHandler{waiting: make(chan struct{}), release: make(chan struct{})}
	s := newTestServer(t, h)
	address := startTCP(t, s)
	idle, busy, waiting := dial(t, address), dial(t, address), dial(t, address)
	idle.send("PING\r\n")
	idle.expect("+PONG\r\n")
	busy.send("GATE\r\n")
	<-h.waiting
	waiting.send("WAIT\r\n")
	<-h.waiting

	expired, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }() // stopped by the end of the sessions
	idle.expectEnd()
	waiting.expect("+OK\r\n")
	waiting.expectEnd()
	select {
	case err := <-ended:
		t.Fatalf("shut down while a command runs: %v", err)
	default:
	}
	h.release <- struct{}{}
	busy.expect("+OK\r\n")
	busy.expectEnd()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for id := range int64(3) {
		if _, ok := h.closed.Load(id + 1); !ok {
			t.Errorf("session %d was not closed", id+1)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != ErrServerClosed {
		t.Errorf("Serve after Shutdown: %v", err)
	}

	// When the time is up, connections are closed though commands run.
	s = newTestServer(t, h)
	busy = dial(t, startTCP(t, s))
	busy.send("GATE\r\n")
	<-h.waiting
	if err := s.Shutdown(expired); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	busy.expectEnd()
	h.release <- struct{}{}
}

// untilReading waits for a session, whose client has its reply, to wait for the next command. It is about to.
func untilReading(s *Session) {
	for s.phase.Load() != reading {
		runtime.Gosched()
	}
}

// scripted is a connection that delivers the same pipeline for ever and takes all replies.
type scripted struct {
	net.Conn
	endless
}

func (c scripted) Read(b []byte) (int, error)      { return c.endless.Read(b) }
func (c scripted) Write(b []byte) (int, error)     { return len(b), nil }
func (c scripted) Close() error                    { return nil }
func (c scripted) LocalAddr() net.Addr             { return &net.TCPAddr{} }
func (c scripted) RemoteAddr() net.Addr            { return &net.TCPAddr{} }
func (c scripted) SetReadDeadline(time.Time) error { return nil }

// TestSessionDoesNotAllocate counts what batches of 16 commands cost from reading to the write of their replies.
func TestSessionDoesNotAllocate(t *testing.T) {
	h := &measuring{rounds: 200}
	s := newTestServer(t, h)
	var conn net.Conn = scripted{endless: endless{pipeline(16)}}
	session := newSession(s, 1, conn.RemoteAddr(), conn.LocalAddr(), &stream{Conn: conn})
	h.Open(session)
	asked, arrived := make(chan wanted), make(chan error, 1)
	defer close(asked)
	own := &stream{Conn: conn}
	go session.read(own, asked, arrived) // stopped by closing asked
	allocs := testing.AllocsPerRun(50, func() {
		h.batches = 0
		session.closing = false
		session.run(own, asked, arrived, nil)
	})
	if allocs != 0 {
		t.Errorf("%v allocations in %d batches", allocs, h.rounds)
	}
}

// measuring answers OK and ends the session after some batches.
type measuring struct {
	rounds, batches int
}

func (h *measuring) Open(s *Session)      { s.SetAuthenticated(true) }
func (h *measuring) Closed(*Session)      {}
func (h *measuring) Acknowledge(*Session) {}
func (h *measuring) Resume(*Session)      {}
func (h *measuring) Serve(s *Session, commands [][][]byte) int {
	for range commands {
		s.Out.OK()
	}
	if h.batches++; h.batches == h.rounds {
		s.CloseAfterReply()
	}
	return len(commands)
}

// failing is a listener that runs out of file descriptors once and then breaks.
type failing struct {
	net.Listener
	errors []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.errors[0]
	l.errors = l.errors[1:]
	return nil, err
}
func (l *failing) Close() error   { return nil }
func (l *failing) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptErrors(t *testing.T) {
	s := newTestServer(t, &testHandler{})
	l := &failing{errors: []error{&net.OpError{Op: "accept", Err: syscall.EMFILE}, io.ErrClosedPipe}}
	if err := s.Serve(l); err != io.ErrClosedPipe || len(l.errors) != 0 {
		t.Errorf("got %v, %d errors left", err, len(l.errors))
	}
}

func TestTLS(t *testing.T) {
	source := httptest.NewTLSServer(nil) // for its certificate
	certificates := source.TLS.Certificates
	source.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, &testHandler{})
	serveListener(t, s, tls.NewListener(l, &tls.Config{Certificates: certificates}))
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{t, conn, bufio.NewReader(conn)}
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	s.Find(1).Kill()
	c.expectEnd()
}
