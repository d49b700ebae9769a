package tests

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"codeq/internal/peer"
)

// hostile is one thing that no client would send, and Redis' answer.
type hostile struct {
	name, send, want string
	closes           bool
}

func hostileInputs() []hostile {
	const (
		bulk  = "-ERR Protocol error: invalid bulk length\r\n"
		multi = "-ERR Protocol error: invalid multibulk length\r\n"
	)
	return []hostile{
		{"huge bulk", "*1\r\n$9223372036854775807\r\nxx\r\n", bulk, true},
		{"huge array", "*9000000000000000000\r\n", multi, true},
		{"array over the limit", "*2147483648\r\n", multi, true},
		{"negative bulk", "*1\r\n$-1\r\n", bulk, true},
		{"bulk over 512 MB", "*1\r\n$536870913\r\n", bulk, true},
		{"no dollar", "*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\n", true},
		{"length not a number", "*x\r\n", multi, true},
		{"unbalanced quotes", "SET \"k v\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n", true},
		{"endless inline", strings.Repeat("a", 70<<10), "-ERR Protocol error: too big inline request\r\n", true},
		{"endless length", "*1" + strings.Repeat("0", 70<<10), "-ERR Protocol error: too big mbulk count string\r\n", true},
		{"after a command", "*1\r\n$4\r\nPING\r\n*x\r\n", "+PONG\r\n" + multi, true},
		{"empty arrays", "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n", "+PONG\r\n", false},
		{"blank lines", "\r\n\r\nPING\r\n", "+PONG\r\n", false},
		{"inline with quotes", "ECHO \"a\\x41\\n\"\r\n", "$3\r\naA\n\r\n", false},
		{"NUL bytes", "*2\r\n$4\r\nECHO\r\n$1\r\n\x00\r\n", "$1\r\n\x00\r\n", false},
		{"empty command name", "*1\r\n$0\r\n\r\n", "-ERR unknown command '', with args beginning with: \r\n", false},
		{"HTTP", "POST / HTTP/1.1\r\n\r\n", "", true},
	}
}

// TestHostileInput wants Redis' answers, connections closed where Redis closes them, and others served all the while.
func TestHostileInput(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		for _, h := range hostileInputs() {
			conn := s.DialForTest(t)
			if err := conn.Write([]byte(h.send)); err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			if !h.closes {
				if err := conn.Write(peer.AppendCommand(nil, "ECHO", "after")); err != nil {
					t.Fatalf("%s: %v", h.name, err)
				}
			}
			got, closed := readUntil(conn, "after")
			if got != h.want || closed != h.closes {
				t.Errorf("%s: got %q, closed %v; want %q, closed %v", h.name, got, closed, h.want, h.closes)
			}
			if reply, err := s.DialForTest(t).Do("PING"); err != nil || string(reply) != "+PONG\r\n" {
				t.Errorf("%s: another client then got %q, %v", h.name, reply, err)
			}
		}
	})
}

// readUntil reads replies up to the bulk marker or the end of the connection.
func readUntil(c *peer.Conn, marker string) (got string, closed bool) {
	var b strings.Builder
	for {
		raw, err := c.Read()
		if err != nil {
			return b.String(), true
		}
		if string(raw) == fmt.Sprintf("$%d\r\n%s\r\n", len(marker), marker) {
			return b.String(), false
		}
		b.Write(raw)
	}
}

// TestDribble sends a command byte by byte and never ends another one; neither may cost the server more than its
// bytes.
func TestDribble(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		slow := s.DialForTest(t)
		for _, b := range peer.AppendCommand(nil, "ECHO", strings.Repeat("x", 2000)) {
			if err := slow.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if reply, err := slow.Read(); err != nil || len(reply) != 2000+len("$2000\r\n\r\n") {
			t.Errorf("echo of %d bytes, %v", len(reply), err)
		}
		for range 100 { // each promises half a gigabyte
			if err := s.DialForTest(t).Write([]byte("*2\r\n$3\r\nGET\r\n$536870912\r\nx")); err != nil {
				t.Fatal(err)
			}
		}
		if reply, err := slow.Do("PING"); err != nil || string(reply) != "+PONG\r\n" {
			t.Errorf("PING beside unfinished commands: %q, %v", reply, err)
		}
	})
}

// TestTermDrains ends the server with SIGTERM under writers. Whatever was acknowledged before it ended must be there
// afterwards, and it must end by itself with code 0.
func TestTermDrains(t *testing.T) {
	targets := []target{redisTarget("everysec")}
	for _, policy := range policies {
		targets = append(targets, codeqTarget(4, "hash", policy))
	}
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		const writers, before = 8, 500
		ctx := testContext(t)
		s := peer.ForTest(t, opts)
		var acked [writers]int
		var total atomic.Int64
		var wg sync.WaitGroup
		for i := range writers {
			c := s.DialForTest(t)
			wg.Go(func() {
				for {
					reply, err := c.Do("RPUSH", fmt.Sprintf("drain:%d", i), strconv.Itoa(acked[i]))
					if err != nil || string(reply) != fmt.Sprintf(":%d\r\n", acked[i]+1) {
						return
					}
					acked[i]++
					total.Add(1)
				}
			})
		}
		if err := peer.Poll(ctx, pollInterval, func() (bool, error) { return total.Load() >= before, nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.Term(ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		c := s.DialForTest(t)
		for i, n := range acked {
			reply, err := c.Call("LRANGE", fmt.Sprintf("drain:%d", i), "0", "-1")
			if err != nil {
				t.Fatal(err)
			}
			items := reply.Strings()
			// The write whose reply was cut off may be there too.
			if len(items) != n && len(items) != n+1 {
				t.Errorf("writer %d: %d items, %d were acknowledged", i, len(items), n)
			}
			for at, item := range items {
				if item != strconv.Itoa(at) {
					t.Fatalf("writer %d: item %d is %s", i, at, item)
				}
			}
		}
	})
}

// refused starts a server that must end by itself with an error, and returns what it said.
func refused(t *testing.T, opts peer.Options) string {
	t.Helper()
	s, err := peer.Start(testContext(t), opts)
	if err == nil {
		s.Stop()
		t.Fatalf("started with %+v", opts)
	}
	var exit *peer.ExitError
	if !errors.As(err, &exit) || exit.Code == 0 {
		t.Fatalf("start with %+v: %v", opts, err)
	}
	return exit.Log
}

func requireCodeq(t *testing.T) {
	if !targeted(peer.Codeq) {
		t.Skip("skipped: codeq is not among -targets")
	}
}

// TestRefusals starts codeq where it must not run; the message has to name what is wrong.
func TestRefusals(t *testing.T) {
	requireCodeq(t)
	s := peer.ForTest(t, codeqTarget(4, "hash", "everysec").opts)
	if _, err := s.DialForTest(t).Call("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	opts := codeqTarget(4, "hash", "everysec").opts
	opts.Dir = s.Dir()
	if said := refused(t, opts); !strings.Contains(said, "lock") && !strings.Contains(said, "in use") {
		t.Errorf("a second process on the same data said:\n%s", said)
	}
	if reply, err := s.DialForTest(t).Do("GET", "k"); err != nil || string(reply) != "$1\r\nv\r\n" {
		t.Errorf("the first process then answered %q, %v", reply, err)
	}
	if err := s.Term(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts.Shards = 8
	if said := refused(t, opts); !strings.Contains(said, "shards") || !strings.Contains(said, "4") {
		t.Errorf("another number of shards: it said:\n%s", said)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reply, err := s.DialForTest(t).Do("GET", "k"); err != nil || string(reply) != "$1\r\nv\r\n" {
		t.Errorf("after the refusals: %q, %v", reply, err)
	}
	for _, bad := range [][]string{{"--appendfsync", "sometimes"}, {"--no-such-flag"}, {"--shards", "0"}} {
		said := refused(t, peer.Options{Kind: peer.Codeq, Args: bad})
		if !strings.Contains(said, strings.TrimLeft(bad[0], "-")) {
			t.Errorf("%q: it said:\n%s", bad, said)
		}
	}
}

// TestReadyLine lets codeq pick its port. The line that says "ready" names it, or the server would never be found.
func TestReadyLine(t *testing.T) {
	requireCodeq(t)
	opts := codeqTarget(1, "hash", "everysec").opts
	opts.Addr = "127.0.0.1:0"
	s := peer.ForTest(t, opts)
	if strings.HasSuffix(s.Addr(), ":0") {
		t.Errorf("address %s", s.Addr())
	}
}

// TestClientsGone drops connections in the middle of pipelines and transactions; what was not executed as a whole
// must have left nothing.
func TestClientsGone(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		for range 50 {
			c, err := s.Dial()
			if err != nil {
				t.Fatal(err)
			}
			out := peer.AppendCommand(nil, "MULTI")
			out = peer.AppendCommand(out, "SET", "gone", "x")
			if err := c.Write(append(out, "*1\r\n$4\r\nEX"...)); err != nil {
				t.Fatal(err)
			}
			if raw, err := c.Read(); err != nil || string(raw) != "+OK\r\n" {
				t.Fatalf("MULTI: %q, %v", raw, err)
			}
			c.Close()
		}
		if raw, err := s.DialForTest(t).Do("EXISTS", "gone"); err != nil || !bytes.Equal(raw, []byte(":0\r\n")) {
			t.Errorf("EXISTS: %q, %v", raw, err)
		}
		if err := s.Signal(syscall.Signal(0)); err != nil || !s.Running() {
			t.Errorf("the server is gone: %v", err)
		}
	})
}
