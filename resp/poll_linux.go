package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollEvents is how many events one poll returns at most.
const pollEvents = 512

// poller knows which sockets are ready, by epoll. Sockets are registered once, for edges: what epoll tells is noted with the
// session, and is told once. Apart from wait and interrupt, the caller holds the loop's lock.
type poller struct {
	epoll    int
	bell     int        // an eventfd, which interrupts wait
	sessions []*Session // by file descriptor
	events   []unix.EpollEvent
	happened []happening
}

// happening is what one poll tells of one socket.
type happening struct {
	fd, id int32 // the id is cut, which suffices to tell a closed socket from the next of the same number
	events events
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), unix.Close(epoll))
	}
	p := &poller{epoll: epoll, bell: bell, events: make([]unix.EpollEvent, pollEvents)}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(bell)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, bell, &event); err != nil {
		return nil, errors.Join(os.NewSyscallError("epoll_ctl", err), p.close())
	}
	return p, nil
}

func (p *poller) close() error { return errors.Join(unix.Close(p.bell), unix.Close(p.epoll)) }

// add registers a session.
func (p *poller) add(s *Session) error {
	fd := s.seat.socket.fd
	if need := fd + 1 - len(p.sessions); need > 0 {
		p.sessions = append(p.sessions, make([]*Session, need)...)
	}
	p.sessions[fd] = s
	const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	event := unix.EpollEvent{Events: edges, Fd: int32(fd), Pad: int32(s.ID)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		p.sessions[fd] = nil
		return os.NewSyscallError("epoll_ctl", err)
	}
	return nil
}

// remove forgets a session whose socket is about to be closed, which takes it from epoll.
func (p *poller) remove(s *Session) { p.sessions[s.seat.socket.fd] = nil }

// session is the session that something has happened to; nil when it is gone.
func (p *poller) session(h happening) *Session {
	if s := p.sessions[h.fd]; s != nil && int32(s.ID) == h.id {
		return s
	}
	return nil
}

// wait returns what has happened, which is nothing if it was interrupted, or does not block. The result is valid until the next call.
func (p *poller) wait(block bool) []happening {
	timeout := 0
	if block {
		timeout = -1
	}
	n, err := unix.EpollWait(p.epoll, p.events, timeout)
	if err != nil {
		n = 0 // a signal; the other errors are faults of the arguments
	}
	p.happened = p.happened[:0]
	for _, e := range p.events[:n] {
		if int(e.Fd) == p.bell {
			var count [8]byte
			_, _ = unix.Read(p.bell, count[:]) // silences it; there is nothing else to learn
			continue
		}
		p.happened = append(p.happened, happening{e.Fd, e.Pad, eventsOf(e.Events)})
	}
	return p.happened
}

func eventsOf(bits uint32) (e events) {
	const failed = unix.EPOLLERR | unix.EPOLLHUP
	if bits&(unix.EPOLLIN|unix.EPOLLRDHUP|failed) != 0 {
		e |= canRead
	}
	if bits&(unix.EPOLLOUT|failed) != 0 {
		e |= canWrite
	}
	if bits&(unix.EPOLLRDHUP|failed) != 0 {
		e |= hungUp
	}
	return e
}

// interrupt ends a wait that blocks, or the next one. Any goroutine may call it.
func (p *poller) interrupt() {
	one := [8]byte{1}
	_, _ = unix.Write(p.bell, one[:]) // fails only when it rings already, very often
}

// socket is a plain socket that never waits.
type socket struct {
	fd      int
	drained bool // nothing is left to read, until the poller says otherwise
	ending  bool // the client has hung up: behind the data comes the end, of which the poller has told

	mu     sync.Mutex // guards against hanging up what has been closed
	closed bool
}

// newSocket takes a connection over, if it is one of a plain socket. The runtime's own poller knows it no more afterwards.
func newSocket(conn net.Conn) (*socket, bool) {
	plain, ok := conn.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return nil, false
	}
	fd := -1
	err = raw.Control(func(own uintptr) { fd, _ = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || fd < 0 {
		return nil, false
	}
	_ = conn.Close() // the socket lives on in its other descriptor
	return &socket{fd: fd, drained: true}, true
}

// Read reads what there is, without waiting.
func (c *socket) Read(b []byte) (int, error) {
	if c.drained {
		return 0, errWouldBlock
	}
	n, err := c.call(unix.SYS_RECVFROM, b, 0)
	switch {
	case err == unix.EINTR:
		return 0, nil
	case err == unix.EAGAIN:
		c.drained = true
		return 0, errWouldBlock
	case err != 0:
		return 0, os.NewSyscallError("recvfrom", err)
	case n == 0:
		return 0, io.EOF
	}
	c.drained = n < len(b) && !c.ending // of a stream that means that no more is there: see epoll(7)
	return n, nil
}

// write writes what the socket takes at once.
func (c *socket) write(b []byte) (int, error) {
	for {
		n, err := c.call(unix.SYS_SENDTO, b, unix.MSG_NOSIGNAL)
		switch err {
		case 0:
			return n, nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, os.NewSyscallError("sendto", err)
		}
	}
}

// call is recvfrom or sendto, which are read and write without what these do for files. Go's scheduler is not told of it: the call never
// waits, so nothing is to be gained from lending the processor to others meanwhile.
func (c *socket) call(number uintptr, b []byte, flags uintptr) (n int, err unix.Errno) {
	moved, _, err := unix.RawSyscall6(number, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	return int(moved), err
}

// drain has nothing to do: no read waits.
func (c *socket) drain() {}

func (c *socket) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // fails when the client has hung up already
	}
}

func (c *socket) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = unix.Close(c.fd) // nothing more is expected of it
}
