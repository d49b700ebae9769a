package commands

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"codeq/config"
	"codeq/shard"
)

func newMem() vfs.FS { return vfs.NewMem() }

// holdShard takes a shard's lock; End of the result gives it back.
func (s *testServer) holdShard(ordinal int) *shard.Tx {
	tx := s.store.NewTx()
	tx.Begin(shard.MaskOf(ordinal))
	return tx
}

// awaitConflict returns when a run was given up for want of a lock.
func (s *testServer) awaitConflict() {
	for s.totals.conflicts.Load() == 0 {
		runtime.Gosched()
	}
}

func TestPipeline(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.want("+PONG +OK :2 $1 2 -ERR syntax error $-1", "PING", "SET a 1", "INCR a", "GET a", "REFUSE", "GET b")
	c.want("-ERR unknown command 'NOPE', with args beginning with: 'a'  +PONG -ERR wrong number of arguments for 'get' command",
		"NOPE a", "PING", "GET")
	c.want("+OK +OK +OK $1 1 +OK $1 2", "SELECT 1", "SET a 1", "SELECT 1", "GET a", "SELECT 0", "GET a")
	c.want("+OK +OK", "SET a 1", "QUIT", "SET a 2")
	s.client().want("$1 1", "GET a")
}

// TestPlan checks which commands share a round of locks.
func TestPlan(t *testing.T) {
	s := startServer(t)
	ss := s.client().session()
	var sets []string
	for i := range 32 {
		sets = append(sets, "SET key"+strconv.Itoa(i)+" v")
	}
	short := *config.Default()
	short.RunMaxCommands = 16
	s.config = config.NewStore(&short)
	for _, test := range []struct {
		name  string
		lines []string
		steps int
		mask  shard.Mask
	}{
		{"a full run", sets, 16, s.store.All()},
		{"up to a command of the session", []string{"GET " + s.keyOn(1), "PING", "SELECT 1", "GET a"}, 2, shard.MaskOf(1)},
		{"a command of the session", []string{"MULTI", "GET a"}, 0, shard.Mask{}},
		{"refused ones take part", []string{"GET", "NOPE", "GET " + s.keyOn(2)}, 3, shard.MaskOf(2)},
		{"scripts take part", []string{"EVAL x 1 " + s.keyOn(0), "GET " + s.keyOn(1)}, 2, shard.MaskOf(0, 1)},
	} {
		mask, apart := ss.plan(batch(test.lines...))
		if len(ss.steps) != test.steps || mask != test.mask || (apart != nil) != (test.steps < len(test.lines) && test.steps < 16) {
			t.Errorf("%s: %d steps, shards %b, apart %v", test.name, len(ss.steps), mask[0], apart)
		}
	}
}

// TestConflict runs commands behind one that needs a shard which its keys don't tell, and which is taken.
func TestConflict(t *testing.T) {
	s := startServer(t)
	low, high := s.keyOn(0), s.keyOn(3)
	for i, lines := range [][]string{
		{"INCR " + high, "COPYTO " + high + " " + low, "INCR " + high},
		{"MULTI", "INCR " + high, "COPYTO " + high + " " + low, "INCR " + high, "EXEC"},
		{"INCR " + high, "EVAL redis.call('copyto',KEYS[1],'" + low + "') 1 " + high, "INCR " + high},
	} {
		s.totals.conflicts.Store(0)
		c := s.client()
		c.send("DEL "+low, "SET "+high+" 5")
		blocked := s.holdShard(0)
		done := make(chan string)
		go func() { done <- c.send(lines...) }() // ends when the shard is given back
		s.awaitConflict()
		blocked.End()
		want := []string{":6 +OK :7", "+OK +QUEUED +QUEUED +QUEUED *3 :6 +OK :7", ":6 $-1 :7"}[i]
		if got := <-done; got != want {
			t.Errorf("%q: got %s, want %s", lines, got, want)
		}
		c.want("$1 6 $1 7", "GET "+low, "GET "+high)
	}
}

// TestPanic checks that a panic costs its run and its session, and nothing else.
func TestPanic(t *testing.T) {
	for _, lines := range [][]string{
		{"SET a 1", "PANIC b", "SET c 1"},
		{"MULTI", "SET a 1", "PANIC b", "EXEC", "SET c 1"},
		{"EVAL redis.call('set','a','1');redis.pcall('panic','b') 0", "SET c 1"},
	} {
		s := startServer(t)
		c := s.client()
		got := c.send(lines...)
		if !strings.HasSuffix(got, "-ERR "+errInternal.Error()) || !c.conn.Closing() {
			t.Errorf("%q: got %s, closing: %v", lines, got, c.conn.Closing())
		}
		// The locks are free and nothing was changed.
		s.client().want("$-1 $-1 :0", "GET a", "GET c", "HLEN codeq:tasks")
	}
}

// TestBroken checks that an error which is not the client's undoes the run so far, and no more.
func TestBroken(t *testing.T) {
	s := startServer(t)
	c := s.client()
	failed := "-ERR " + errInternal.Error()
	c.want(failed+" "+failed+" +OK $-1", "SET a 1", "BROKEN b", "SET c 1", "GET a")
	// What a script's transaction has committed before stands.
	c.want("+OK :1 "+failed+" "+failed+" $1 1", "SET a 1", "EVAL return%201 0", "SET a 2", "BROKEN b", "GET a")
}

// TestNothingIsAcknowledgedAfterAFailedWrite makes the log fail.
func TestNothingIsAcknowledgedAfterAFailedWrite(t *testing.T) {
	var fail errorfs.Toggle
	fail.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "log") {
			return errors.New("no space left")
		}
		return nil
	})
	mem := vfs.NewMem()
	s := startServerOn(t, errorfs.Wrap(mem, &fail))
	s.client().want("+OK", "SET a 1")
	s.abandoned = true
	fail.On()
	refused := "-ERR " + errNotStored.Error()
	writer := s.client()
	writer.want(refused+" "+refused+" "+refused, "PING", "SET a 2", "GET a")
	if !writer.conn.Closing() {
		t.Error("the session goes on")
	}
	// Nobody may be told what may be gone after a restart.
	failed := "-ERR " + errInternal.Error()
	s.client().want(failed, "GET a")
	s.client().want("+OK "+queued+" "+failed, "MULTI", "SET a 3", "EXEC")
}

// TestPipelinesEqualSingleCommands draws commands and sends them to one server in batches and to another one by one.
func TestPipelinesEqualSingleCommands(t *testing.T) {
	batched, single := startServer(t), startServer(t)
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "{a}x", "codeq:lease:1"})
		command := rapid.Custom(func(t *rapid.T) string {
			k, other := key.Draw(t, "key"), key.Draw(t, "other")
			return rapid.SampledFrom([]string{
				"SET " + k + " 5", "GET " + k, "INCR " + k, "DEL " + k, "COPYTO " + k + " " + other, "HSET " + k + " f v",
				"HSET codeq:tasks " + k + " v", "HLEN codeq:tasks", "MULTI", "EXEC", "EXEC", "DISCARD", "WATCH " + k, "UNWATCH",
				"SELECT 1", "SELECT 0", "FLUSHDB", "GET", "NOPE", "EXEC now", "REFUSE",
				"EVAL return%20redis.call('incr',KEYS[1]) 1 " + k,
				"EVAL redis.call('set',KEYS[1],'script');redis.call('incr','" + other + "');redis.call('hlen',KEYS[1]) 1 " + k,
				"SCRIPT FLUSH", "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "EVAL return%201 0",
				"EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
			}).Draw(t, "command")
		})
		b, o := batched.client(), single.client()
		for _, c := range []*client{b, o} {
			c.send("FLUSHDB", "SELECT 1", "FLUSHDB", "SELECT 0", "SCRIPT FLUSH")
		}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			lines := rapid.SliceOfN(command, 1, 24).Draw(t, "lines")
			got := b.send(lines...)
			var want []string
			for _, line := range lines {
				want = append(want, o.send(line))
			}
			if got != strings.Join(want, " ") {
				t.Fatalf("%q\n got %s\nwant %s", lines, got, strings.Join(want, " "))
			}
		}
		b.session().close()
		o.session().close()
	})
}

// TestNoAllocations holds the request path to what it is for.
func TestNoAllocations(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.send("SET a 1", "SET b 1")
	gets := batch("GET a", "GET b", "PING", "GET missing", "HLEN codeq:tasks")
	measure := func(name string, limit float64, commands [][][]byte) {
		t.Helper()
		run := func() {
			c.conn.Out.Truncate(0)
			c.s.Serve(c.conn, commands)
			c.s.Acknowledge(c.conn)
		}
		run()
		if n := testing.AllocsPerRun(200, run); n > limit {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	measure("reads", 0, gets)
	measure("a transaction", 0, batch("MULTI", "GET a", "GET b", "EXEC"))
	// A string that is stored is copied once.
	measure("writes", 2, batch("SET a 2", "SET b 2"))
}
