package commands

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// wired is a client of a server behind a socket.
type wired struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// listen puts the server behind a unix socket, so that its sessions run on an event loop, and returns what connects to it.
func (s *testServer) listen() (dial func() *wired) {
	s.t.Helper()
	limits := resp.NewLimits()
	limits.MaxOutputBuffer.Store(1 << 20)
	path := s.serveUnix(limits)
	return func() *wired {
		return dialUnix(s.t, path)
	}
}

func (w *wired) send(lines ...string) {
	w.t.Helper()
	if _, err := fmt.Fprint(w.conn, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		w.t.Fatal(err)
	}
}

// expect reads lines, shown as in client.send.
func (w *wired) expect(want string) {
	w.t.Helper()
	for _, word := range strings.Fields(want) {
		got, err := w.in.ReadString('\n')
		if err != nil || got != strings.ReplaceAll(word, "%20", " ")+"\r\n" {
			w.t.Fatalf("got %q, %v; want %s of %s", got, err, word, want)
		}
	}
}

// untilBlocked waits until so many sessions are parked.
func (s *testServer) untilBlocked(n int64) {
	for s.blocked.Load() != n {
		runtime.Gosched()
	}
}

// blockingTestCommands are those of lists, with a few for tests: FAULTY panics once it finds something.
func blockingTestCommands() []Command {
	faulty := declare("faulty", "FAULTY key", spec.Write|spec.Blocking, spec.Keys{spec.FirstKey(spec.RW)}, func(c *Call) error {
		return c.block(blocking{kind: shard.KindList, keys: c.Args[1:2], nothing: replyNullArray,
			try: func(out *resp.Writer, db shard.DB, key []byte) (bool, error) {
				list, n, err := listOf(db, key)
				if n == 0 || err != nil {
					return false, err
				}
				if _, _, err := list.Pop(shard.Head); err != nil {
					return false, err
				}
				panic("on purpose")
			}})
	})
	return append(append(blockingCommands(), listCommands()...), faulty)
}

// TestBlockedPanics: a blocked command that panics when it is served concerns its own client only, and takes nothing.
func TestBlockedPanics(t *testing.T) {
	s := startServer(t, blockingTestCommands()...)
	dial := s.listen()
	faulty, next, pusher := dial(), dial(), dial()
	faulty.send("FAULTY k")
	s.untilBlocked(1)
	next.send("BLPOP k 0")
	s.untilBlocked(2)
	pusher.send("RPUSH k 1", "LLEN k")
	pusher.expect(":1 :0")
	next.expect("*2 $1 k $1 1")
	faulty.expect("-ERR%20" + strings.ReplaceAll(errInternal.Error(), " ", "%20"))
	if _, err := faulty.in.ReadByte(); err == nil {
		t.Error("the session goes on")
	}
	if n := s.totals.panics.Load(); n != 1 {
		t.Errorf("%d panics were counted", n)
	}
	s.untilBlocked(0)
}

// TestBlockedOverflow: a reply that exceeds the limit ends the connection, as it does when nobody had to wait.
func TestBlockedOverflow(t *testing.T) {
	s := startServer(t, blockingTestCommands()...)
	dial := s.listen()
	blocked, pusher := dial(), dial()
	blocked.send("BLMPOP 0 1 k LEFT COUNT 2")
	s.untilBlocked(1)
	element := strings.Repeat("x", 600_000)
	pusher.send("*4", "$5", "RPUSH", "$1", "k", "$600000", element, "$600000", element)
	pusher.expect(":2")
	if got, err := io.ReadAll(blocked.in); len(got) > 0 {
		t.Errorf("%d bytes of a reply that was cut, %v", len(got), err)
	}
	s.untilBlocked(0)
}

// TestBlockedTimeouts lets the clock decide. A command that was served in time is not told that its time is up.
func TestBlockedTimeouts(t *testing.T) {
	s := startServer(t, blockingTestCommands()...)
	dial := s.listen()
	short, long, pusher := dial(), dial(), dial()
	short.send("BLPOP k 0.5", "PING")
	s.untilBlocked(1)
	long.send("BLMOVE k to LEFT LEFT 1.5", "PING")
	s.untilBlocked(2)
	s.clock.Advance(500 * time.Millisecond)
	short.expect("*-1 +PONG")
	s.clock.Advance(999 * time.Millisecond)
	pusher.send("RPUSH k 1")
	pusher.expect(":1")
	s.clock.Advance(time.Hour)
	long.expect("$1 1 +PONG")
	s.untilBlocked(0)
}

// TestBlockCommitsOnce: what precedes a command that blocks is committed when it blocks, and must not be carried out again when
// the scripts that it made known can't be saved at once.
func TestBlockCommitsOnce(t *testing.T) {
	s := startServer(t, blockingTestCommands()...)
	pushed, waited := s.keyOn(2), s.keyOn(3)
	holder := s.store.NewTx()
	holder.Begin(shard.MaskOf(0))
	c := s.client()
	var sending sync.WaitGroup
	var got string
	sending.Go(func() {
		got = c.send("RPUSH "+pushed+" 1", "SCRIPT LOAD return%201", "BLPOP "+waited+" 0", "RPUSH "+pushed+" 2")
	})
	for s.totals.conflicts.Load() == 0 {
		runtime.Gosched()
	}
	holder.End()
	sending.Wait()
	if want := ":1 $40 e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; got != want || !c.conn.Parked() {
		t.Fatalf("got %s, parked %t; want %s", got, c.conn.Parked(), want)
	}
	other := s.client()
	other.want(":1 :1 $-1", "LLEN "+pushed, "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "LPOP "+waited)
	if p := c.session().parked.Load(); !p.waiter.Withdraw(c.session().tx) {
		t.Error("it waits on")
	}
}

// TestBlockedUnblock asks for the end of a command before and after it was served, and while other databases are selected.
func TestBlockedUnblock(t *testing.T) {
	s := startServer(t, append(blockingTestCommands(), clientCommands()...)...)
	dial := s.listen()
	blocked, other := dial(), dial()
	other.send("SELECT 3")
	other.expect("+OK")
	for _, how := range []struct{ args, want string }{
		{"", "*-1"}, {" TIMEOUT", "*-1"}, {" ERROR", "-" + strings.ReplaceAll(string(resp.ErrUnblocked), " ", "%20")},
	} {
		blocked.send("SELECT 3", "BLPOP k 100", "PING")
		blocked.expect("+OK")
		s.untilBlocked(1)
		other.send("CLIENT UNBLOCK 1"+how.args, "CLIENT UNBLOCK 1"+how.args, "RPUSH k 1", "LPOP k")
		other.expect(":1 :0 :1 $1 1")
		blocked.expect(how.want + " +PONG")
		s.untilBlocked(0)
		blocked.send("BLPOP k 100")
		s.untilBlocked(1)
		other.send("RPUSH k 2", "CLIENT UNBLOCK 1"+how.args)
		other.expect(":1 :0")
		blocked.expect("*2 $1 k $1 2")
		s.untilBlocked(0)
	}
}
