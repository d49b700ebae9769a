package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// expectTask reads the reply of a claim and wants the task of this id in it.
func (w *wired) expectTask(id string) {
	w.t.Helper()
	var seen []string
	for range 3 + 2*13 { // a task as flat shows it has 12 to 14 fields
		line, err := w.in.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%v after %q", err, seen)
		}
		if seen = append(seen, strings.TrimSpace(line)); len(seen) == 6 {
			break
		}
	}
	if len(seen) < 6 || seen[0] != "*1" || seen[3] != "id" || seen[5] != id {
		w.t.Fatalf("got %q, want the task %s", seen, id)
	}
}

// TestClaimWaits: whatever makes a task ready serves those who wait, first come first served.
func TestClaimWaits(t *testing.T) {
	t.Run("hash", func(t *testing.T) { testClaimWaits(t, startQueues(t)) })
	t.Run("task", func(t *testing.T) { testClaimWaits(t, startSpread(t, 4)) })
}

func testClaimWaits(t *testing.T, s *testServer) {
	dial := s.listen()
	c := s.client()
	c.send("q.enqueue mail p id dead maxattempts 1", "q.claim w commands 1 mail", "q.nack w dead")
	c.send("q.enqueue mail p id held", "q.enqueue mail p id short", "q.claim w commands 1 mail", "q.claim w lease 100000 commands 1 mail")
	for i, test := range []struct {
		id   string
		make func()
	}{
		{"new", func() { c.send("q.enqueue MAIL p id new") }},
		{"many", func() { c.send("q.menqueue mail 1 p id many") }},
		{"held", func() { c.send("q.abandon w held") }},
		{"back", func() { c.send("q.enqueue mail p id back delay 1000"); s.clock.Advance(time.Second) }},
		{"raw", func() {
			c.send(`hset codeq:tasks raw {"id":"raw","command":"mail","payload":"p","status":"PENDING"}`, "lpush codeq:q:mail:pending:4 raw")
		}},
		{"script", func() {
			c.send(`hset codeq:tasks script {"id":"script","command":"mail","payload":"p","status":"PENDING"}`,
				"eval return%20redis.call('lpush','codeq:q:mail:pending:4','script') 0")
		}},
		{"short", func() {
			s.clock.Advance(120 * time.Second)
			c.eventually(":0", "exists codeq:lease:short")
			s.clock.Advance(time.Hour)
		}},
	} {
		first, second := dial(), dial()
		first.send("q.claim a block 0 commands 2 sms mail")
		s.untilBlocked(1)
		second.send("q.claim b block 0 commands 1 mail")
		s.untilBlocked(2)
		test.make()
		first.expectTask(test.id)
		s.untilBlocked(1)
		c.want("+OK", "q.submit a "+test.id)
		second.conn.Close()
		s.untilBlocked(0)
		_ = i
	}
}

func TestClaimTimesOut(t *testing.T) {
	s := startQueues(t)
	w := s.listen()()
	w.send("q.claim a block 500 commands 1 mail")
	s.untilBlocked(1)
	s.clock.Advance(500 * time.Millisecond)
	w.expect("*-1")
	w.send("multi", "q.claim a block 500 commands 1 mail", "exec")
	w.expect("+OK +QUEUED *1 *-1")
}

// TestClaimWaitsForPriority: of all that one commit brings, the highest priority is taken, from whatever queue.
func TestClaimWaitsForPriority(t *testing.T) {
	s := startQueues(t)
	w := s.listen()()
	c := s.client()
	w.send("q.claim a block 0 commands 3 a b c")
	s.untilBlocked(1)
	c.send("multi", "q.enqueue a p id 1", "q.enqueue b p id 2 priority 3", "q.enqueue c p id 3 priority 2", "exec")
	w.expectTask("2")
}

// TestManyWaiters: each of many workers on many queues gets one task, and none goes to two.
func TestManyWaiters(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	const n = 40
	for i := range n {
		w := dial()
		w.send(fmt.Sprintf("q.claim w%d block 0 commands 2 q%d common", i, i%7))
		s.untilBlocked(int64(i + 1))
	}
	for i := range n {
		c.send(fmt.Sprintf("q.enqueue common p id %d", i))
	}
	s.untilBlocked(0)
	c.want(fmt.Sprintf(":%d :0", n), "scard codeq:q:common:inprog", "llen codeq:q:common:pending:0")
}

func TestResultWaits(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.claim w count 2 commands 1 a")
	one, two, late := dial(), dial(), dial()
	one.send("q.result 1 block 0")
	two.send("q.result 2 block 0")
	late.send("q.result 2 block 100")
	s.untilBlocked(3)
	s.clock.Advance(100 * time.Millisecond)
	late.expect("$-1")
	c.want("+OK", "q.submit w 1 result 7")
	one.expect("*8 $6 taskId $1 1 $6 status $9 COMPLETED $6 result :7")
	s.untilBlocked(1)
	c.want(":1", `hset codeq:results 2 {"taskId":"2"}`)
	two.expect("*2 $6 taskId $1 2")

	c.send("q.enqueue a p id 3")
	three := dial()
	three.send("q.result 3 block 0")
	s.untilBlocked(1)
	c.want(":1", "q.cancel 3")
	three.expect("*8 $6 taskId $1 3 $6 status $6 FAILED $5 error $9 cancelled")
}
