package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// sweepInterval is how often the server looks for sessions that are over their time, as Redis does.
	sweepInterval = time.Second
	// acceptRetry is how long accepting pauses when the system is short of something, such as file descriptors.
	acceptRetry = 100 * time.Millisecond
	// refuseTimeout bounds telling a client that there are too many.
	refuseTimeout = time.Second
	// keepAliveProbes unanswered probes, a third of tcp-keepalive apart, end a connection, as in Redis.
	keepAliveProbes = 3
)

// ErrServerClosed is Serve's error when the server has been shut down before.
var ErrServerClosed = errors.New("resp: server closed")

// Options are what a server needs. All are required.
type Options struct {
	Handler Handler
	Limits  *Limits
	Now     func() time.Time
	Log     *slog.Logger
}

// Server accepts connections and runs a session for each.
type Server struct {
	handler Handler
	limits  *Limits
	now     func() time.Time
	log     *slog.Logger

	loop     *loop // nil where the system has no epoll
	lastID   atomic.Int64
	closing  sync.Once
	draining chan struct{} // closed by Shutdown
	traffic  traffic
	running  sync.WaitGroup // all sessions and the sweeper

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	sessions  map[int64]*Session
	clients   int // sessions, and those that are being opened
}

// NewServer returns a running server without listeners. It must be shut down.
func NewServer(o Options) *Server {
	s := &Server{
		handler:   o.Handler,
		limits:    o.Limits,
		now:       o.Now,
		log:       o.Log,
		draining:  make(chan struct{}),
		listeners: map[net.Listener]struct{}{},
		sessions:  map[int64]*Session{},
	}
	s.running.Go(s.sweepUntilDraining) // stopped by Shutdown
	var err error
	if s.loop, err = newLoop(s); err != nil {
		s.log.Debug("every connection gets a goroutine of its own", "reason", err)
		s.loop = nil
	}
	return s
}

// Serve accepts connections from l, TCP, TLS or unix, until Shutdown, and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	// Shutdown may have closed it already.
	defer func() { _ = l.Close() }()
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer s.removeListener(l)
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.admit(conn)
		case s.isDraining():
			return nil
		case !isShortage(err):
			return err
		default:
			s.log.Warn("cannot accept a connection", "address", l.Addr().String(), "error", err)
			select {
			case <-s.draining:
				return nil
			case <-time.After(acceptRetry):
			}
		}
	}
}

// isShortage tells errors of one connection, or of the system for now, from those of the listener.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// admit starts a session, or refuses the client when there are too many.
func (s *Server) admit(conn net.Conn) {
	s.mu.Lock()
	full := s.clients >= s.MaxClients()
	switch {
	case s.isDraining():
		_ = conn.Close()
	case full:
		s.traffic.rejected.Add(1)
		s.running.Go(func() { refuse(conn) }) // stopped by refuseTimeout
	default:
		s.clients++
		s.running.Add(1) // until forget
		defer s.serveConn(conn)
	}
	s.mu.Unlock()
}

func refuse(conn net.Conn) {
	var reply Writer
	reply.Error(ErrMaxClients)
	// Best effort: the client is sent away either way. A deadline is by the system's clock.
	_ = conn.SetDeadline(time.Now().Add(refuseTimeout))
	_, _ = conn.Write(reply.Bytes())
	_ = conn.Close()
}

// serveConn begins a session, on the loop if it can be there.
func (s *Server) serveConn(conn net.Conn) {
	s.setKeepAlive(conn)
	remote, local := conn.RemoteAddr(), conn.LocalAddr()
	var plain *socket
	if s.loop != nil {
		plain, _ = newSocket(conn)
	}
	if plain == nil {
		go s.serveStream(conn) // stopped by the end of the connection, Kill or Shutdown
		return
	}
	session := newSession(s, s.lastID.Add(1), remote, local, plain)
	session.seat = seat{place: working, socket: plain}
	session.notify = func(e events) { s.loop.notify(session, e) }
	s.register(session)
	s.loop.add(session)
}

// register lets the handler prepare a session and enters it.
func (s *Server) register(session *Session) {
	s.handler.Open(session)
	s.mu.Lock()
	s.sessions[session.ID] = session
	draining := s.isDraining()
	s.mu.Unlock()
	if draining { // it came too late to be told with the others
		session.drain()
	}
}

// forget ends what register has begun, after the session's end.
func (s *Server) forget(session *Session) {
	if session.reason != nil {
		// A client's doing, which it could repeat for ever: nothing for an operator's log.
		s.log.Debug("closing a client", "id", session.ID, "addr", session.Addr, "error", session.reason)
	}
	s.mu.Lock()
	delete(s.sessions, session.ID)
	s.clients--
	s.mu.Unlock()
	s.handler.Closed(session)
	s.running.Done()
}

func (s *Server) setKeepAlive(conn net.Conn) {
	tcp, ok := underlying(conn).(*net.TCPConn)
	if !ok {
		return
	}
	idle := time.Duration(s.limits.TCPKeepAlive.Load())
	config := net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: idle / keepAliveProbes, Count: keepAliveProbes}
	if err := tcp.SetKeepAliveConfig(config); err != nil {
		s.log.Debug("cannot set tcp-keepalive", "addr", conn.RemoteAddr().String(), "error", err)
	}
}

// underlying is the connection below TLS.
func underlying(conn net.Conn) net.Conn {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secured.NetConn()
	}
	return conn
}

// Clients is the number of connections.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients
}

// MaxClients is the number of connections that are accepted at one time.
func (s *Server) MaxClients() int { return int(s.limits.MaxClients.Load()) }

// Find returns the session of that id, nil if there is none or it was killed. The session may be ending.
func (s *Server) Find(id int64) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[id]; session != nil && !session.Killed() {
		return session
	}
	return nil
}

// Each calls visit with every session that was not killed, in the order in which they began, until it returns false.
func (s *Server) Each(visit func(*Session) bool) {
	s.mu.Lock()
	all := make([]*Session, 0, len(s.sessions))
	for _, session := range s.sessions {
		if !session.Killed() {
			all = append(all, session)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *Session) int { return int(a.ID - b.ID) })
	for _, session := range all {
		if !visit(session) {
			return
		}
	}
}

func (s *Server) sweepUntilDraining() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.draining:
			return
		case <-ticker.C:
			s.sweep()
		}
	}
}

// sweep closes sessions that are over their time. Looking at all of them once a second is cheaper than setting a deadline
// for each read and write, and a changed limit holds for sessions that wait already.
func (s *Server) sweep() {
	now := s.now()
	s.Each(func(session *Session) bool {
		if reason := session.overdue(now, s.limits); reason != "" {
			s.log.Info("closing a client", "id", session.ID, "addr", session.Addr, "error", reason)
			session.Kill()
		}
		return true
	})
}

// Shutdown stops accepting, lets every running Serve finish and its replies be written, then closes the connections. When
// ctx ends first, it closes the connections at once and returns ctx's error, possibly before the last Serve has returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.isDraining() {
		close(s.draining)
	}
	for l := range s.listeners {
		// The listener is given up; what else it has to say doesn't matter.
		_ = l.Close()
	}
	s.mu.Unlock()
	s.Each(func(session *Session) bool { session.drain(); return true })

	ended := make(chan struct{})
	go func() { // stopped by the end of the last session
		s.running.Wait()
		s.closeLoop()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.Each(func(session *Session) bool { session.Kill(); return true })
		return ctx.Err()
	}
}

// closeLoop ends the loop, once.
func (s *Server) closeLoop() {
	if s.loop != nil {
		s.closing.Do(s.loop.close)
	}
}
