// Package peer runs the servers that black-box tests and benchmarks talk to: a real redis-server as the reference,
// and codeq-server built from this checkout. It owns the processes, their data directories, and a raw RESP connection
// that shows every byte of a reply.
//
// It must not know any command's meaning beyond PING and HELLO, and it imports no other package of this module, so a
// test sees nothing of a server that a client could not see.
//
// Goroutines: one for each running process; it starts the process, waits for its exit, and ends with it. Locks: a
// log buffer has one mutex around its bytes; a Server itself is for one goroutine at a time.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Kind names the program that a Server runs.
type Kind string

// The two kinds of server.
const (
	Redis Kind = "redis"
	Codeq Kind = "codeq"
)

const (
	// startTimeout bounds the wait for a server's first PONG, loading of its data included.
	startTimeout = 60 * time.Second
	// exitTimeout bounds the wait for a killed process; only a stuck kernel exceeds it.
	exitTimeout = time.Minute
	// pollInterval is how often readiness is asked for.
	pollInterval = 5 * time.Millisecond
)

// Options says what to start. The zero value of a field leaves the choice to the server, except where noted.
type Options struct {
	Kind Kind
	// Dir is the data directory. Empty: a temporary one, which Stop removes.
	Dir string
	// Addr is host:port or, for Redis, the absolute path of a unix socket. Empty: 127.0.0.1 and a free port. For codeq
	// the port may be 0: then the server picks one and says so in its ready line.
	Addr string
	// AppendFsync is always, everysec or no. Empty: for Redis no persistence at all, for codeq its default.
	AppendFsync string
	// Shards, Supplier, Static and PerShardScripts, by their SHA1s, are codeq's; Redis ignores them.
	Shards          int
	Supplier        string
	Static          *Static
	PerShardScripts []string
	// Args are appended to the command line as they are.
	Args []string
}

// Static is the mapping of codeq's static supplier: queue commands and tenants to shard names.
type Static struct {
	DefaultShard string
	Commands     map[string]string
	Tenants      map[string]string
}

// Server is one server over its whole life, restarts included: the same address and data directory throughout.
type Server struct {
	opts    Options
	bin     string
	args    []string
	tempDir string
	port    io.Closer // keeps the port from the other servers of this package; nil: the address was given
	cmd     *exec.Cmd
	log     *logBuffer
	exited  chan struct{} // closed when the present process has exited
	waitErr error         // readable once exited is closed
}

// ExitError reports a server that ended before it was ready, with what it said.
type ExitError struct {
	Code int
	Log  string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("server exited with code %d before it was ready; it said:\n%s", e.Code, e.Log)
}

// Start starts a server and waits until it answers PING. An error that wraps ErrMissing means that this machine lacks
// the program; an *ExitError that the server refused to start.
func Start(ctx context.Context, opts Options) (*Server, error) {
	bin, err := binary(opts.Kind)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, bin: bin, log: &logBuffer{}}
	if s.opts.Dir == "" {
		if s.tempDir, err = os.MkdirTemp("", "codeq-peer-"); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
		s.opts.Dir = s.tempDir
	}
	if s.opts.Addr == "" {
		if s.opts.Addr, s.port, err = freeAddr(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	if s.args, err = arguments(s.opts); err != nil {
		s.Stop()
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Restart starts the server again on the same data and address. The process must have been ended before.
func (s *Server) Restart(ctx context.Context) error {
	if s.Running() {
		return errors.New("restart: the server is still running")
	}
	return s.launch(ctx)
}

func (s *Server) launch(ctx context.Context) error {
	if err := s.spawn(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := Poll(ctx, pollInterval, func() (bool, error) {
		select {
		case <-s.exited:
			return false, &ExitError{Code: s.ExitCode(), Log: s.Log()}
		default:
			return s.resolve() && ping(s.opts.Addr), nil
		}
	})
	if err != nil {
		s.Kill9()
		var refused *ExitError
		if errors.As(err, &refused) {
			return refused
		}
		return fmt.Errorf("wait for %s at %s: %w; it said:\n%s", s.opts.Kind, s.opts.Addr, err, s.Log())
	}
	return nil
}

// resolve reports whether the address is known. A port that the server picks is read from its ready line; it is the
// server's for good, restarts included.
func (s *Server) resolve() bool {
	if !strings.HasSuffix(s.opts.Addr, ":0") {
		return true
	}
	match := regexp.MustCompile(`ready.*\baddr"?[=:] *"?([^\s",]+:\d+)`).FindStringSubmatch(s.Log())
	if match == nil {
		return false
	}
	for i, arg := range s.args {
		if arg == s.opts.Addr {
			s.args[i] = match[1]
		}
	}
	s.opts.Addr = match[1]
	return true
}

// spawn starts the process from a goroutine that keeps its thread: the kernel sends the parent-death signal when the
// thread that forked ends, so that thread must live as long as the server does.
func (s *Server) spawn() error {
	cmd := exec.Command(s.bin, s.args...)
	cmd.Dir = s.opts.Dir
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = DieWithParent()
	exited := make(chan struct{})
	started := make(chan error, 1)
	go func() { // ends when the process does
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.waitErr = cmd.Wait()
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.bin, err)
	}
	s.cmd, s.exited = cmd, exited
	return nil
}

// ping reports whether the server at addr answers PING with PONG. A server that is still loading its data answers
// with an error and counts as not ready.
func ping(addr string) bool {
	c, err := Dial(addr)
	if err != nil {
		return false
	}
	defer c.Close()
	reply, err := c.Do("PING")
	return err == nil && string(reply) == "+PONG\r\n"
}

// Addr is where the server listens: host:port, or the path of a unix socket.
func (s *Server) Addr() string { return s.opts.Addr }

// Dir is the data directory.
func (s *Server) Dir() string { return s.opts.Dir }

// Kind is the program that runs.
func (s *Server) Kind() Kind { return s.opts.Kind }

// PID is the process id of the present process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is the end of what the server wrote to its standard output and error, over all its restarts.
func (s *Server) Log() string { return s.log.String() }

// Dial opens a raw connection to the server.
func (s *Server) Dial() (*Conn, error) { return Dial(s.opts.Addr) }

// Running reports whether the process has been started and has not ended.
func (s *Server) Running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// ExitCode is the code of the last process that ended; -1 when a signal ended it.
func (s *Server) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// Signal sends sig to the process without waiting.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Kill9 ends the process as a crash would and waits until it is gone. It does nothing when the process has ended.
func (s *Server) Kill9() {
	if !s.Running() {
		return
	}
	// The only possible error is that the process has just ended by itself, which is what was asked for.
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// Term asks the process to end and waits for it. The error is not nil unless it ended by itself with code 0.
func (s *Server) Term(ctx context.Context) error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate %s: %w", s.opts.Kind, err)
	}
	return s.Wait(ctx)
}

// Wait waits for the process to end. The error is not nil unless it ended by itself with code 0.
func (s *Server) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	select {
	case <-s.exited:
		if s.waitErr != nil {
			return fmt.Errorf("%s ended: %w; it said:\n%s", s.opts.Kind, s.waitErr, s.Log())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not end: %w", s.opts.Kind, ctx.Err())
	}
}

// Stop kills the process, and removes the data directory and gives back the port that Start chose.
func (s *Server) Stop() {
	s.Kill9()
	if s.port != nil {
		_ = s.port.Close() // a port that is not given back is one of thousands
	}
	if s.tempDir != "" {
		// What cannot be removed stays in the temporary directory, where the system clears it.
		_ = os.RemoveAll(s.tempDir)
	}
}

// Port range for servers: below the ephemeral range of Linux (32768 and up). A client that reconnects to a dead
// server's ephemeral port may be given that very port as its own source port, connects to itself, and keeps the
// restarted server from binding.
const (
	portLow  = 12000
	portHigh = 32000
)

// freeAddr finds a free port and reserves it until taken is closed, so that of the tests that start servers at the same moment, or again
// after a crash, in one process or in several, each has its own: whoever holds the UDP port of the same number, which no server uses,
// has the TCP port. It begins anywhere, so that it need not try many.
func freeAddr() (addr string, taken io.Closer, err error) {
	span := portHigh - portLow
	first := rand.IntN(span)
	for i := range span {
		addr = fmt.Sprintf("127.0.0.1:%d", portLow+(first+i)%span)
		reserved, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		if err == nil {
			return addr, reserved, nil
		}
		_ = reserved.Close() // the next one will do
	}
	return "", nil, fmt.Errorf("no free port between %d and %d", portLow, portHigh)
}
