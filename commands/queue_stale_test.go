package commands

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What is left over by somebody who removes, repairs or moves things by hand, or by an old client that is half-way through something, loses no
// task and brings none back that has ended.

// inTime sends the lines, while time goes by, until the reply is as wanted. That takes audits some minutes, and timekeepers may need a while for
// each of these.
func (s *testServer) inTime(c *client, want string, lines ...string) {
	s.t.Helper()
	for step := range 200_000 {
		if c.send(lines...) == want {
			return
		}
		if step%50 == 0 {
			s.clock.Advance(10 * time.Second)
		}
		runtime.Gosched()
	}
	c.want(want, lines...)
}

// TestIDsComeAgain: a task whose ID another one had, whose JSON was removed, has nothing of it.
func TestIDsComeAgain(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for queue, before := range map[string][]string{
		"a": {"q.claim w commands 1 a"},
		"b": {"q.claim w commands 1 b", "q.submit w b result 1"},
		"c": {"q.claim w commands 1 c", "q.nack w c"},
		"d": {"q.claim w commands 1 d", "q.nack w d delay 60000"},
	} {
		attempts := map[bool]string{true: " maxattempts 1", false: ""}[queue == "c"]
		c.send(append(append([]string{"q.enqueue " + queue + " one id " + queue + attempts}, before...), "hdel codeq:tasks "+queue)...)
		c.want("$1 "+queue+" $-1", "q.enqueue "+queue+" two id "+queue, "q.result "+queue)
		c.want(":0 :0 :0 :0", "scard codeq:q:"+queue+":inprog", "scard codeq:q:"+queue+":dlq", "zcard codeq:q:"+queue+":delayed", "exists codeq:lease:"+queue)
		if got := fmt.Sprint(c.claimed("q.claim w count 2 commands 1 " + queue)); got != "["+queue+"]" {
			t.Errorf("claimed %s, want [%s]", got, queue)
		}
		c.want("+OK", "q.submit w "+queue)
	}
}

// TestClaimsWithoutLease: whatever has become of a lease and whatever kept its task from being given back, it is given back once nothing does.
func TestClaimsWithoutLease(t *testing.T) {
	for name, test := range map[string]struct{ before, after string }{
		"the lease is deleted":      {"del codeq:lease:1", "ping"},
		"it expires by a command":   {"pexpire codeq:lease:1 0", "ping"},
		"it gets another name":      {"rename codeq:lease:1 x", "ping"},
		"the JSON is damaged":       {"hset codeq:tasks 1 damaged", `hset codeq:tasks 1 {"id":"1","command":"a","payload":"p","status":"IN_PROGRESS","workerId":"w","maxAttempts":3}`},
		"there is no place for it":  {"set codeq:q:a:delayed x", "del codeq:q:a:delayed"},
		"the JSON does not say so":  {`hset codeq:tasks 1 {"id":"1","command":"a","payload":"p","status":"PENDING","maxAttempts":3}`, "ping"},
		"the client dies half-way":  {`hset codeq:tasks 1 {"id":"1","command":"a","payload":"p","status":"PENDING","maxAttempts":3}`, "lrem codeq:q:a:pending:0 0 1"},
		"another has it by a claim": {"lpush codeq:q:a:pending:0 1", "q.claim w commands 1 a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startQueues(t)
			c := s.client()
			c.send("q.enqueue a p id 1", "q.claim w lease 500 commands 1 a", test.before)
			s.clock.Advance(time.Second)
			c.eventually(":0", "exists codeq:lease:1")
			c.send(test.after)
			s.inTime(c, ":0", "scard codeq:q:a:inprog")
			s.inTime(c, ":1", "llen codeq:q:a:pending:0")
			if got := fmt.Sprint(c.claimed("q.claim w commands 1 a")); got != "[1]" {
				t.Errorf("claimed %s", got)
			}
		})
	}
}

// TestPhantoms: a claimed task whose JSON is gone does not count for good.
func TestPhantoms(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 500 commands 1 a", "hdel codeq:tasks 1")
	s.inTime(c, ":0", "scard codeq:q:a:inprog")
}

// TestRequeueMeetsStaleEntries: only what is dead is revived.
func TestRequeueMeetsStaleEntries(t *testing.T) {
	c := startQueues(t).client()
	c.send("q.enqueue a p id ended", "q.claim w commands 1 a", "q.submit w ended", "q.enqueue a p id held", "q.claim w commands 1 a",
		"q.enqueue a p id late delay 60000", "q.enqueue a p id dead maxattempts 1", "q.claim w commands 1 a", "q.nack w dead")
	c.want(":3 :1", "sadd codeq:q:a:dlq ended held late", "q.requeue a")
	c.want(":0 *1 $4 dead :1", "scard codeq:q:a:dlq", "lrange codeq:q:a:pending:0 0 -1", "zcard codeq:q:a:delayed")
	c.want("+OK", "q.submit w held")
}

// TestLateSubmitMeetsAnOldClaim: an old client has taken the task that a worker had before, and not yet said so in its JSON.
func TestLateSubmitMeetsAnOldClaim(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 30 commands 1 a")
	s.inTime(c, ":1", "llen codeq:q:a:pending:0")
	c.want("$1 1 :1", "rpop codeq:q:a:pending:0", "sadd codeq:q:a:inprog 1")
	c.want("-NOTOWNER the task 1 was claimed by another worker: stop working on it", "q.submit w 1 result 1")
	c.want("$-1 *1 $1 1", "q.result 1", "smembers codeq:q:a:inprog")
}

// TestMovedList: tasks that stand in another queue's list are claimed where their JSON says that they belong.
func TestMovedList(t *testing.T) {
	c := startQueues(t).client()
	move := func() {
		c.want("+OK", "rename codeq:q:a:pending:0 codeq:q:b:pending:0")
		if got := fmt.Sprint(c.claimed("q.claim w count 2 commands 1 b")); got != "[1]" {
			t.Errorf("claimed %s", got)
		}
	}
	c.send("q.enqueue a p id 1")
	move()
	c.want("*1 $1 1 :0", "smembers codeq:q:a:inprog", "scard codeq:q:b:inprog")
	c.want("*2 $7 delayed :0", "q.nack w 1 delay 0")
	move()
	c.want("+OK :0 :0", "q.submit w 1", "scard codeq:q:a:inprog", "scard codeq:q:b:inprog")
}

// TestStaleEntryOfAnotherQueue: an entry that a task has left in the list of another queue makes it neither early nor lost.
func TestStaleEntryOfAnotherQueue(t *testing.T) {
	c := startQueues(t).client()
	c.send("q.enqueue a p id 1", "hdel codeq:tasks 1", "q.enqueue b p id 1 delay 3600000")
	c.want("*-1 :1 :0", "q.claim w commands 1 a", "zcard codeq:q:b:delayed", "llen codeq:q:a:pending:0")
	c.send("q.enqueue c p id 2", "q.enqueue d p id 3", "rename codeq:q:c:pending:0 codeq:q:d:pending:0", "set codeq:q:c:inprog x")
	if got := fmt.Sprint(c.claimed("q.claim w count 5 commands 1 d")); got != "[2]" {
		t.Errorf("claimed %s", got)
	}
	c.want("*1 $1 2", "smembers codeq:q:d:inprog")
}

// TestDamageDelaysNoOthers: audits of a set with a task that nobody repairs become rare, until there is something new.
func TestDamageDelaysNoOthers(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 500 commands 1 a", "hset codeq:tasks 1 damaged", "q.enqueue a p id 2")
	for range 300 {
		s.clock.Advance(10 * time.Second)
		for range 50 {
			c.send("ping")
			runtime.Gosched()
		}
	}
	c.want("$1 2 :1", "rpop codeq:q:a:pending:0", "sadd codeq:q:a:inprog 2")
	began := s.clock.Now()
	s.inTime(c, "*1 $1 1", "smembers codeq:q:a:inprog")
	if took := s.clock.Now().Sub(began); took > 10*time.Minute {
		t.Errorf("it took %v until the task without a lease was found", took)
	}
}

// TestResultOfWhatIsRemoved: who waits for the result of a task hears when there is no such task any more.
func TestResultOfWhatIsRemoved(t *testing.T) {
	s := startQueues(t)
	dial, c := s.listen(), s.client()
	for _, remove := range []string{"q.purge a state pending", "hdel codeq:tasks 1", "del codeq:tasks", "move codeq:tasks 1", "flushall"} {
		c.want("$1 1 $1 2", "q.enqueue a p id 1", "q.enqueue b p id 2")
		w := dial()
		w.send("q.result 1 block 0")
		s.untilBlocked(1)
		c.send("hset codeq:tasks 3 x", "hdel codeq:tasks 3", remove)
		if line, err := w.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-NOTFOUND there is no task 1") {
			t.Errorf("%s: got %q, %v", remove, line, err)
		}
		c.send("flushall")
	}
}

// TestDeadAndDamaged: dead tasks whose JSON can't be used are shown.
func TestDeadAndDamaged(t *testing.T) {
	c := startQueues(t).client()
	c.send("hset codeq:tasks 1 damaged", "rpush codeq:q:a:pending:0 1", "q.claim w commands 1 a")
	if got := c.send("q.peek a state dlq"); !strings.HasPrefix(got, "*1 *4 $2 id $1 1 $5 error $") || !strings.Contains(got, "repair its JSON") {
		t.Error(got)
	}
}
