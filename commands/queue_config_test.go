package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestQueueRules(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	s.set("queues", "mail:vip lease=5s; MAIL lease=10s attempts=2 backoff=linear backoff-base=3s backoff-max=4s retention=1h; * attempts=1")
	c.send("q.enqueue Mail p id 1", "q.enqueue mail p id 2 tenant vip", "q.enqueue sms p id 3")
	c.send("q.claim w commands 1 mail", "q.claim w commands 1 mail tenant vip", "q.claim w commands 1 sms")
	c.want(":10000 :5000 :300000", "pttl codeq:lease:1", "pttl codeq:lease:2", "pttl codeq:lease:3")
	c.want("*2 $7 delayed :3000 *1 $4 dead", "q.nack w 1", "q.nack w 3")
	s.clock.Advance(3 * time.Second)
	c.eventually(":1", "llen codeq:q:mail:pending:0")
	c.send("q.claim w commands 1 mail", "q.submit w 1")
	s.clock.Advance(time.Hour + time.Hour/16)
	c.eventually(":0", "hexists codeq:tasks 1")
	c.want(":1", "hexists codeq:tasks 3")
}

func TestQueuePausedByRule(t *testing.T) {
	s := startQueues(t)
	w := s.listen()()
	c := s.client()
	s.set("queues", "mail paused=yes")
	c.send("q.enqueue mail p id 1")
	w.send("q.claim w block 0 commands 1 mail")
	s.untilBlocked(1)
	s.set("queues", "mail paused=no")
	w.expectTask("1")
}

func TestQuotas(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	s.set("queues", "big max-payload=3; full max-pending=2; fast max-rate=10; slow:t max-rate=1")
	c.want("-QUOTA the payload has 4 bytes, the queue big takes 3: keep it elsewhere and enqueue where it is", "q.enqueue big four")
	c.want("$1 1", "q.enqueue big abc id 1")
	c.want("$1 2 $1 3", "q.enqueue full p id 2", "q.enqueue full p id 3 delay 1000 idempotency k")
	c.want("-QUOTA 2 tasks wait in the queue full, which takes 2: try again when some are done", "q.enqueue full p")
	c.want("$1 3", "q.enqueue full p idempotency k")
	c.send("q.claim w commands 1 full")
	c.want("$1 4", "q.enqueue full p id 4")
	if got := c.send("q.menqueue fast 10 0 1 2 3 4 5 6 7 8 9"); !strings.HasPrefix(got, "*10 ") {
		t.Error(got)
	}
	c.want("-QUOTA the queue fast takes 10 tasks a second: try again in 100 ms, with no more than that at once", "q.enqueue fast p")
	s.clock.Advance(100 * time.Millisecond)
	c.want("$1 5", "q.enqueue fast p id 5")
	c.want("$1 6", "q.enqueue slow p tenant t id 6")
	c.want("-QUOTA the queue slow:t takes 1 tasks a second: try again in 1000 ms, with no more than that at once", "q.enqueue slow p tenant t")
	c.want("$1 7", "q.enqueue slow p id 7")
	// Several at once count as several, what a key stands for counts no more, and a rate that somebody has spoilt begins anew.
	if got := c.send("q.menqueue slow 2 p q tenant t"); !strings.HasPrefix(got, "-QUOTA") {
		t.Error(got)
	}
	c.want("-QUOTA 2 tasks wait in the queue full, which takes 2: try again when some are done", "q.menqueue full 2 p q")
	s.set("queues", "full max-pending=1; fast max-rate=1; pair max-pending=3")
	c.want("$1 3", "q.enqueue full p idempotency k")
	if got := c.send("q.menqueue pair 2 p q"); !strings.HasPrefix(got, "*2") {
		t.Error(got)
	}
	c.want("-QUOTA 2 tasks wait in the queue pair, which takes 3: try again when some are done", "q.menqueue pair 2 p q")
	c.want("$1 8", "q.enqueue pair p id 8")
	for i, spoil := range []string{"set codeq:q:fast:rate nan", "set codeq:q:fast:rate x", "set codeq:q:fast:rate 5", "del codeq:q:fast:rate"} {
		c.send(spoil)
		id := fmt.Sprint("spoilt", i)
		c.want("$7 "+id, "q.enqueue fast p id "+id)
		if got := c.send("q.enqueue fast p"); !strings.HasPrefix(got, "-QUOTA") {
			t.Errorf("after %s: %s", spoil, got)
		}
	}
	s.clock.Advance(-time.Hour)
	c.want("$4 back", "q.enqueue fast p id back")
	c.want("-QUOTA the queue fast takes 1 tasks a second: try again in 1000 ms, with no more than that at once", "q.enqueue fast p")
	c.send("del codeq:q:fast:rate", "rpush codeq:q:fast:rate x")
	c.want("$6 spoilt", "q.enqueue fast p id spoilt")
	s.clock.Advance(time.Minute)
	c.want(":0", "exists codeq:q:fast:rate")
}
