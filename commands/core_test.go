package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/internal/clock"
	"codeq/resp"
	"codeq/scripting"
	"codeq/shard"
	"codeq/supplier"
)

// testShards is the number of shards of a test's server, testCache what they may cache together.
const (
	testShards = 4
	testCache  = 1 << 20
)

// testServer is a server with the core's own commands and a few on strings and hashes, over a store in memory.
type testServer struct {
	*Server
	t     testing.TB
	fs    vfs.FS
	clock *clock.Manual
	stop  func()
	// abandoned is set by a test that breaks the store, which then can't be closed.
	abandoned bool
}

func startServer(t testing.TB, more ...Command) *testServer {
	return startServerOn(t, vfs.NewMem(), more...)
}

func startServerOn(t testing.TB, fs vfs.FS, more ...Command) *testServer {
	t.Helper()
	return startServerWith(t, fs, scripting.Options{}, more...)
}

func startServerWith(t testing.TB, fs vfs.FS, engine scripting.Options, more ...Command) *testServer {
	t.Helper()
	return startServerAt(t, fs, testStart(), engine, more...)
}

// testStart is when the clock of a test's server starts.
func testStart() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func startServerAt(t testing.TB, fs vfs.FS, at time.Time, engine scripting.Options, more ...Command) *testServer {
	t.Helper()
	return startServerOf(t, fs, at, engine, append(append(append(testCommands(), transactionCommands()...), scriptCommands()...), more...))
}

// startServerOf starts a server that has these commands only.
func startServerOf(t testing.TB, fs vfs.FS, at time.Time, engine scripting.Options, commands []Command) *testServer {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	now := clock.NewManual(at)
	topology := supplier.Topology{Default: testShards}
	hash, err := supplier.NewRegistry().New("hash", supplier.Options{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	router, err := supplier.NewRouter(supplier.RouterConfig{Topology: topology, Supplier: hash})
	if err != nil {
		t.Fatal(err)
	}
	settings := config.NewStore(config.Default())
	queues := NewQueues(router, settings, quiet)
	store, err := shard.Open(shard.Options{
		Dir: "data", FS: fs, Names: topology.Names(), DefaultShards: testShards, Databases: 16, Placer: Placer(router), Tracker: queues,
		Clock: now, Logger: quiet, Fsync: shard.FsyncNo, CacheBytes: testCache, BlockCache: 8 << 20,
		MemtableBytes: 256 << 10, LogSegment: 1 << 20, LogMax: 8 << 20, ExpireInterval: 100,
		Random: rand.NewPCG(1, 2), Fatal: func(error) {}, // whoever closes a store that has failed is told
	})
	if err != nil {
		t.Fatal(err)
	}
	engine.Logger, engine.Now = quiet, orNow(engine.Now)
	s, err := newServer(Options{
		Store: store, Router: router, Queues: queues, Config: settings, Scripts: scripting.New(engine),
		Clock: now, Logger: quiet, Stop: func(bool) {},
	}, commands)
	if err != nil {
		t.Fatal(err)
	}
	ts := &testServer{Server: s, t: t, fs: fs, clock: now}
	ts.stop = sync.OnceFunc(func() {
		if ts.abandoned {
			return
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(ts.stop)
	return ts
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// client is a session without a connection: what it sends is one batch.
type client struct {
	s    *testServer
	conn *resp.Session
}

func (s *testServer) client() *client {
	conn := &resp.Session{Out: &resp.Writer{}}
	ss := newSession(s.Server, conn)
	ss.authenticated = true
	conn.Data = ss
	s.t.Cleanup(func() { ss.close() })
	return &client{s, conn}
}

// send serves the lines as one batch and returns the replies as they are on the wire, with the line ends shown as one
// blank. Words are split at blanks; %20 stands for one.
func (c *client) send(lines ...string) string {
	c.conn.Out.Reset()
	c.s.Serve(c.conn, batch(lines...))
	c.s.Acknowledge(c.conn)
	return strings.TrimSuffix(strings.ReplaceAll(string(c.conn.Out.Bytes()), "\r\n", " "), " ")
}

func (c *client) want(want string, lines ...string) {
	c.s.t.Helper()
	if got := c.send(lines...); got != want {
		c.s.t.Fatalf("%q\n got %s\nwant %s", lines, got, want)
	}
}

func (c *client) session() *session { return sessionOf(c.conn) }

func batch(lines ...string) [][][]byte {
	var out [][][]byte
	for _, line := range lines {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(strings.ReplaceAll(word, "%20", " ")))
		}
		out = append(out, args)
	}
	return out
}

// keyOn finds a key of the given shard.
func (s *testServer) keyOn(ordinal int) string {
	for i := 0; ; i++ {
		key := "key" + strconv.Itoa(i)
		if s.router.Route(0, []byte(key)).Shard == ordinal {
			return key
		}
	}
}

// declare makes a test's command.
func declare(name, syntax string, flags spec.Flags, keys spec.Keys, run Handler) Command {
	return Command{Command: spec.Command{Name: name, Syntax: syntax, Group: spec.Generic, Since: "1.0.0",
		Complexity: "O(1)", Summary: "Is for tests.", Flags: flags, Keys: keys}, Run: run}
}

var errBroken = errors.New("the disk is on fire")

// testCommands are enough to see the request path work.
func testCommands() []Command {
	read, write := spec.Keys{spec.FirstKey(spec.RO)}, spec.Keys{spec.FirstKey(spec.RW)}
	hset := declare("hset", "HSET key field value", spec.Write, write, testHSet)
	hset.Elements = spec.ElementsFrom(2, 2)
	hlen := declare("hlen", "HLEN key", spec.ReadOnly, read, testHLen)
	flushdb := declare("flushdb", "FLUSHDB", spec.Write, nil, func(c *Call) error {
		c.Out.OK()
		return c.DB().Flush()
	})
	flushdb.Scope = scopeAll
	choose := declare("select", "SELECT index", 0, nil, func(c *Call) error {
		n, _ := parseInt(c.Args[1])
		c.selectDB(int(n))
		c.Out.OK()
		return nil
	})
	choose.Scope = scopeSession
	quit := declare("quit", "QUIT", spec.NoAuth|spec.AllowBusy, nil, func(c *Call) error {
		c.session.conn.CloseAfterReply()
		c.Out.OK()
		return nil
	})
	quit.Scope = scopeSession
	return []Command{
		declare("ping", "PING", spec.Fast, nil, func(c *Call) error { c.Out.Status("PONG"); return nil }),
		declare("get", "GET key", spec.ReadOnly, read, testGet),
		declare("set", "SET key value", spec.Write, write, testSet),
		declare("incr", "INCR key", spec.Write, write, testIncr),
		declare("del", "DEL key", spec.Write, write, testDel),
		declare("pexpireat", "PEXPIREAT key unix-time-milliseconds", spec.Write, write, testPExpireAt),
		// COPYTO tells only one of its two keys.
		declare("copyto", "COPYTO key hidden", spec.Write, spec.Keys{spec.FirstKey(spec.RO)}, testCopyTo),
		declare("now", "NOW", spec.Fast, nil, func(c *Call) error { c.Out.Int(c.DB().Now()); return nil }),
		declare("panic", "PANIC key", spec.Write, write, func(*Call) error { panic("on purpose") }),
		declare("broken", "BROKEN key", spec.Write, write, func(*Call) error { return errBroken }),
		declare("refuse", "REFUSE", 0, nil, func(c *Call) error { c.Out.OK(); return resp.ErrSyntax }),
		declare("shutdown", "SHUTDOWN", spec.NoMulti|spec.NoScript, nil, func(c *Call) error { c.Out.OK(); return nil }),
		hset, hlen, flushdb, choose, quit,
	}
}

func testGet(c *Call) error {
	val, ok, err := c.DB().Get(c.key())
	if err != nil {
		return err
	}
	if !ok {
		c.Out.Null()
		return nil
	}
	c.Out.Bulk(val)
	return nil
}

func testSet(c *Call) error {
	c.Out.OK()
	return c.DB().Set(c.key(), c.Args[2], 0)
}

func testIncr(c *Call) error {
	val, _, err := c.DB().Get(c.key())
	if err != nil {
		return err
	}
	n, ok := parseInt(val)
	if !ok && len(val) > 0 {
		return resp.ErrNotInteger
	}
	c.Out.Int(n + 1)
	return c.DB().Set(c.key(), strconv.AppendInt(nil, n+1, 10), 0)
}

func testDel(c *Call) error {
	existed, err := c.DB().Delete(c.key())
	c.Out.Bool(existed)
	return err
}

func testPExpireAt(c *Call) error {
	at, _ := parseInt(c.Args[2])
	ok, err := c.DB().SetExpireAt(c.key(), at)
	c.Out.Bool(ok)
	return err
}

func testCopyTo(c *Call) error {
	val, _, err := c.DB().Get(c.key())
	if err != nil {
		return err
	}
	val = bytes.Clone(val)
	c.Out.OK()
	return c.DB().Set(c.Args[2], val, 0)
}

func testHSet(c *Call) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	created, err := h.Set(c.Args[2], c.Args[3])
	c.Out.Bool(created)
	return err
}

func testHLen(c *Call) error {
	h, err := c.DB().Hash(c.key())
	if err != nil {
		return err
	}
	n, err := h.Len()
	c.Out.Int(n)
	return err
}

// pipeListener accepts the far ends of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

// TestConnection runs the server behind real sessions: a password, and the end of a connection by QUIT.
func TestConnection(t *testing.T) {
	auth := declare("auth", "AUTH password", spec.NoAuth|spec.NoScript, nil, func(c *Call) error {
		c.session.setAuthenticated(true)
		c.Out.OK()
		return nil
	})
	auth.Scope = scopeSession
	s := startServer(t, auth)
	if err := s.config.Set(config.Pair{Name: "requirepass", Value: "secret"}); err != nil {
		t.Fatal(err)
	}
	network := resp.NewServer(resp.Options{Handler: s.Server, Limits: resp.NewLimits(), Now: s.clock.Now, Log: s.logger})
	s.Attach(network)
	l := newPipeListener()
	served := make(chan error)
	go func() { served <- network.Serve(l) }() // stopped by Shutdown
	conn := l.dial()
	say := func(request, want string) {
		t.Helper()
		go func() { fmt.Fprint(conn, request) }() // ends when the request was read
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			t.Fatalf("%q: got %q, %v, want %q", request, got, err, want)
		}
	}
	say("PING\r\n", "-NOAUTH Authentication required.\r\n")
	say("NOTHING\r\n", "-ERR unknown command 'NOTHING', with args beginning with: \r\n")
	say("AUTH secret\r\nSET a 1\r\nGET a\r\n", "+OK\r\n+OK\r\n$1\r\n1\r\n")
	say("QUIT\r\nSET a 2\r\n", "+OK\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after QUIT: %v", err)
	}
	if err := network.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.client().want("$1 1", "GET a")
}
