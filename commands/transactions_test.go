package commands

import (
	"slices"
	"strings"
	"testing"
	"time"

	"codeq/config"
	"codeq/internal/clock"
)

const queued = "+QUEUED"

func TestMulti(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.want("+OK "+queued+" "+queued+" *2 +OK $1 1", "MULTI", "SET a 1", "GET a", "EXEC")
	c.want("+OK "+queued+" +OK $1 1", "MULTI", "SET a 2", "DISCARD", "GET a")
	c.want("+OK -ERR MULTI calls can not be nested "+queued+" *1 $1 1", "MULTI", "MULTI", "GET a", "EXEC")
	c.want("+OK *0", "MULTI", "EXEC")
	c.want("-ERR EXEC without MULTI -ERR DISCARD without MULTI", "EXEC", "DISCARD")
	// The same across batches: the queue is a copy.
	c.want("+OK", "MULTI")
	c.want(queued, "SET a x")
	c.want(queued, "GET a")
	c.want("*2 +OK $1 x", "EXEC")
}

func TestMultiErrors(t *testing.T) {
	s := startServer(t)
	c := s.client()
	const aborted = " -EXECABORT Transaction discarded because of previous errors."
	c.want("+OK "+queued+" -ERR wrong number of arguments for 'get' command"+aborted+" $-1", "MULTI", "SET a 1", "GET", "EXEC", "GET a")
	c.want("+OK -ERR unknown command 'NOPE', with args beginning with: "+aborted, "MULTI", "NOPE", "EXEC")
	c.want("+OK -ERR Command not allowed inside a transaction"+aborted, "MULTI", "SHUTDOWN", "EXEC")
	c.want("+OK "+queued+" -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command -ERR EXEC without MULTI",
		"MULTI", "SET a 1", "EXEC now", "EXEC")
	c.want("+OK -ERR WATCH inside MULTI is not allowed "+queued+" *1 +OK", "MULTI", "WATCH a", "SET a 1", "EXEC")
	// Commands that fail while they run don't keep the others from taking effect.
	c.want("+OK "+queued+" "+queued+" "+queued+" *3 +OK -WRONGTYPE Operation against a key holding the wrong kind of value $1 2",
		"MULTI", "SET a 2", "HLEN a", "GET a", "EXEC")
	// What is not the client's fault undoes all of it.
	c.want("+OK "+queued+" "+queued+" -ERR "+errInternal.Error()+" $1 2", "MULTI", "SET a 3", "BROKEN a", "EXEC", "GET a")
}

func TestMultiSelect(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.want("+OK "+queued+" "+queued+" *2 +OK +OK $1 1", "MULTI", "SELECT 3", "SET a 1", "EXEC", "GET a")
	c.want("+OK $-1", "SELECT 0", "GET a")
	// Given up, EXEC leaves the database as it was.
	c.want("+OK "+queued+" "+queued+" -ERR "+errInternal.Error()+" $-1", "MULTI", "SELECT 3", "BROKEN a", "EXEC", "GET a")
}

// TestMultiQueueLimit has a client queue more than it may: it is told so, nothing is executed, and it can go on.
func TestMultiQueueLimit(t *testing.T) {
	s := startServer(t)
	if err := s.config.Set(config.Pair{Name: "client-query-buffer-limit", Value: "1mb"}); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	ss := sessionOf(c.conn)
	c.want("+OK "+queued+" -ERR "+errQueueTooLong.Error(), "MULTI", "SET a 1", "SET a "+strings.Repeat("x", 1<<20))
	if v := ss.show(); v.queued != 0 || v.queueBytes != 0 || ss.multi.queue.size != 0 {
		t.Errorf("%d commands of %d bytes are shown and %d bytes kept of what can't be executed", v.queued, v.queueBytes, ss.multi.queue.size)
	}
	c.want(queued+" -EXECABORT Transaction discarded because of previous errors. $-1 $-1", "SET b 1", "EXEC", "GET a", "GET b")
	c.want("+OK "+queued+" *1 +OK $1 1", "MULTI", "SET a 1", "EXEC", "GET a")
	many := append([]string{"MULTI"}, slices.Repeat([]string{"SET a 2"}, 1<<20/int(footprint([][]byte{{1, 2, 3}, {1}, {1}})))...)
	c.send(append(many, "EXEC")...)
	c.want("$1 2 +OK", "GET a", "MULTI")
	c.send(many[1:]...)
	c.want("-ERR "+errQueueTooLong.Error()+" +OK $1 2", "SET a 3", "DISCARD", "GET a")
}

// TestBrokenMultiDoesNotGrow queues on behind an error, after which EXEC will refuse.
func TestBrokenMultiDoesNotGrow(t *testing.T) {
	s := startServer(t)
	c := s.client()
	ss := sessionOf(c.conn)
	c.want("+OK "+queued+" -ERR wrong number of arguments for 'get' command "+queued+" "+queued, "MULTI", "SET a 1", "GET", "SET b 1", "SET c 1")
	if v := ss.show(); v.queued != 1 || len(ss.multi.queue.steps) != 1 {
		t.Errorf("%d commands are queued, %d are shown; Redis has 1", len(ss.multi.queue.steps), v.queued)
	}
	c.want("-EXECABORT Transaction discarded because of previous errors.", "EXEC")
}

// TestWatch plays, for each case, steps of another client between WATCH and EXEC.
func TestWatch(t *testing.T) {
	const gone, done = "*-1", "*1 +OK"
	for _, test := range []struct {
		name   string
		before []string // by the other client
		watch  string
		other  []string
		wait   time.Duration
		want   string
	}{
		{"nothing happens", []string{"SET a 1"}, "a", nil, 0, done},
		{"changed", []string{"SET a 1"}, "a", []string{"SET a 2"}, 0, gone},
		{"the same value", []string{"SET a 1"}, "a", []string{"SET a 1"}, 0, gone},
		{"created", nil, "a", []string{"SET a 1"}, 0, gone},
		{"created and deleted", nil, "a", []string{"SET a 1", "DEL a"}, 0, gone},
		{"deleted", []string{"SET a 1"}, "a", []string{"DEL a"}, 0, gone},
		{"missing deleted", nil, "a", []string{"DEL a"}, 0, done},
		{"another key", []string{"SET a 1"}, "a", []string{"SET b 1"}, 0, done},
		{"another database", []string{"SET a 1"}, "a", []string{"SELECT 1", "SET a 1"}, 0, done},
		{"one of several", []string{"SET a 1"}, "a b c d e", []string{"SET d 1"}, 0, gone},
		{"twice", []string{"SET a 1"}, "a a", []string{"SET b 1"}, 0, done},
		{"read", []string{"SET a 1"}, "a", []string{"GET a"}, 0, done},
		{"failed command", []string{"SET a x"}, "a", []string{"INCR a"}, 0, done},
		{"flushed", []string{"SET a 1"}, "a", []string{"FLUSHDB"}, 0, gone},
		{"missing flushed", []string{"SET b 1"}, "a", []string{"FLUSHDB"}, 0, done},
		{"deleted and flushed", []string{"SET a 1", "SET b 1"}, "a", []string{"DEL a", "FLUSHDB"}, 0, gone},
		{"another database flushed", []string{"SET a 1"}, "a", []string{"SELECT 1", "SET b 1", "FLUSHDB"}, 0, done},
		{"by a script", []string{"SET a 1"}, "a", []string{"EVAL redis.call('incr',KEYS[1]) 1 a"}, 0, gone},
		{"by a script that fails", []string{"SET a 1"}, "a", []string{"EVAL redis.call('incr',KEYS[1]);error('no') 1 a"}, 0, done},
		{"by another transaction", []string{"SET a 1"}, "a", []string{"MULTI", "INCR a", "EXEC"}, 0, gone},
		{"expires", []string{"SET a 1", "PEXPIREAT a 1767323046000"}, "a", nil, time.Second, gone},
		{"does not expire yet", []string{"SET a 1", "PEXPIREAT a 1767323046000"}, "a", nil, time.Second - 1, done},
		{"expired and was removed", []string{"SET a 1", "PEXPIREAT a 1767323046000"}, "a", []string{"GET a"}, time.Second, gone},
		{"a field elsewhere", []string{"HSET codeq:tasks one v"}, "codeq:tasks", []string{"HSET codeq:tasks seven v"}, 0, gone},
		{"a fragment is flushed", []string{"HSET codeq:tasks one v"}, "codeq:tasks", []string{"FLUSHDB"}, 0, gone},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServer(t)
			c, other := s.client(), s.client()
			other.send(test.before...)
			c.want("+OK +OK "+queued, "WATCH "+test.watch, "MULTI", "SET mine 1")
			s.clock.Advance(test.wait)
			other.send(test.other...)
			c.want(test.want, "EXEC")
			// Nothing is watched any more.
			other.send("SET a 9", "SET b 9")
			c.want("+OK "+queued+" "+done, "MULTI", "SET mine 2", "EXEC")
		})
	}
}

// TestWatchExpired watches a key that had expired before, which is a missing key.
func TestWatchExpired(t *testing.T) {
	s := startServer(t)
	c := s.client()
	c.send("SET a 1", "PEXPIREAT a 1767323046000")
	s.clock.Advance(time.Minute)
	c.want("+OK +OK "+queued+" *1 $-1", "WATCH a", "MULTI", "GET a", "EXEC")
}

func TestUnwatch(t *testing.T) {
	s := startServer(t)
	other := s.client()
	for _, forget := range []string{"UNWATCH", "EXEC", "DISCARD"} {
		c := s.client()
		c.want("+OK +OK", "WATCH a", "WATCH b")
		other.send("INCR a")
		switch forget {
		case "UNWATCH":
			c.want("+OK", "UNWATCH")
		case "DISCARD":
			c.want("+OK +OK", "MULTI", "DISCARD")
		case "EXEC":
			c.want("+OK *-1", "MULTI", "EXEC")
		}
		c.want("+OK "+queued+" *1 +PONG", "MULTI", "PING", "EXEC")
	}
	// An EXEC that is refused forgets them too.
	c := s.client()
	c.want("+OK +OK -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command +OK "+queued+" *1 +PONG",
		"WATCH a", "SET a 1", "EXEC now", "MULTI", "PING", "EXEC")
	// UNWATCH within MULTI is queued and comes too late.
	c.want("+OK +OK "+queued, "WATCH a", "MULTI", "UNWATCH")
	other.send("INCR a")
	c.want("*-1", "EXEC")
	// A session that ends watches nothing any more.
	c.want("+OK", "WATCH a codeq:tasks")
	c.session().close()
	if n := c.session().multi.watched.Len(); n != 0 {
		t.Errorf("%d keys are watched by a closed session", n)
	}
}

func TestWatchLimit(t *testing.T) {
	s := startServer(t)
	c := s.client()
	tooMany := " -ERR " + errTooManyWatched.Error()
	many := "WATCH" + strings.Repeat(" k", 1<<16)
	c.want("+OK"+tooMany, "WATCH a", many)
	c.want("+OK +OK", "UNWATCH", many)
	long := func(last string) string { return "WATCH " + strings.Repeat("k", 10<<20) + last }
	c.want("+OK"+tooMany, long("a"), long("b"))
	c.want("+OK +OK +OK", "UNWATCH", long("b"), "UNWATCH")
	// A client that is refused still watches what it watched before.
	c.want("+OK"+tooMany, "WATCH a", many)
	s.client().want("+OK", "SET a 1")
	c.want("+OK "+queued+" *-1", "MULTI", "GET a", "EXEC")
}

// TestTimeStandsStill looks at the time twice within EXEC and within a script.
func TestTimeStandsStill(t *testing.T) {
	var now *clock.Manual
	s := startServer(t, declare("tick", "TICK", 0, nil, func(c *Call) error {
		now.Advance(time.Second)
		c.Out.Int(c.DB().Now())
		return nil
	}))
	now = s.clock
	c := s.client()
	c.want("+OK "+queued+" "+queued+" *2 :1767323045000 :1767323045000", "MULTI", "TICK", "NOW", "EXEC")
	c.want("*2 :1767323046000 :1767323046000", "EVAL return{redis.call('tick'),redis.call('now')} 0")
}
