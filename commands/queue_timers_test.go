package commands

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/scripting"
)

// eventually sends the lines until the reply is as wanted: what timers do comes soon after the clock was moved.
func (c *client) eventually(want string, lines ...string) {
	c.s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got := c.send(lines...)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			c.s.t.Fatalf("%q\n at last %s\n want %s", lines, got, want)
		}
		runtime.Gosched()
	}
}

func TestDelayedTaskBecomesPending(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want("$1 1 $1 2", "q.enqueue a p id 1 delay 1500 priority 3", "q.enqueue a p id 2 at 1767323046250")
	c.want("$12 1767323046.5", "zscore codeq:q:a:delayed 1")
	s.clock.Advance(1249 * time.Millisecond)
	c.want("*-1", "q.claim w commands 1 a")
	s.clock.Advance(time.Millisecond)
	c.eventually("*1 $1 2", "lrange codeq:q:a:pending:0 0 -1")
	c.want(":1", "zcard codeq:q:a:delayed")
	s.clock.Advance(250 * time.Millisecond)
	c.eventually("*1 $1 1", "lrange codeq:q:a:pending:3 0 -1")
	if got := c.send("q.get 1"); !strings.Contains(got, "$17 lastKnownLocation $12 PENDING_LIST") {
		t.Error(got)
	}
}

// TestDelayedByARawClient: a delayed set that somebody writes by hand counts like any other, also in a transaction, under another
// name or when it comes by RENAME.
func TestDelayedByARawClient(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	task := `{"id":"%s","command":"a","payload":"p","status":"PENDING","lastKnownLocation":"DELAYED_ZSET"}`
	for _, id := range []string{"1", "2", "3", "4"} {
		c.want(":1", "hset codeq:tasks "+id+" "+fmt.Sprintf(task, id))
	}
	c.want(":1", "zadd codeq:q:a:delayed 1767323046 1")
	c.want("+OK +QUEUED *1 :1", "multi", "zadd codeq:q:a:t:delayed 1767323046 2", "exec")
	c.want(":1", "zadd codeq:q:{a:t}:delayed 1767323047 3")
	c.want(":1 +OK", "zadd x 1767323047 4", "rename x codeq:q:b:delayed")
	s.clock.Advance(time.Second)
	c.eventually("*1 $1 1 *1 $1 2", "lrange codeq:q:a:pending:0 0 -1", "lrange codeq:q:a:t:pending:0 0 -1")
	c.want(":0 :0", "llen codeq:q:{a:t}:pending:0", "llen codeq:q:b:pending:0")
	s.clock.Advance(time.Second)
	c.eventually("*1 $1 3 *1 $1 4", "lrange codeq:q:{a:t}:pending:0 0 -1", "lrange codeq:q:b:pending:0 0 -1")
}

// TestMoverFindsNothing: who looks for due tasks, as an old client does before it claims, finds that they have been moved.
func TestMoverFindsNothing(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1 delay 1000")
	s.clock.Advance(time.Second)
	c.want("*0 *1 $1 1", "zrangebyscore codeq:q:a:delayed -inf 1767323046 limit 0 10", "lrange codeq:q:a:pending:0 0 -1")
}

func TestLeaseRunsOut(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1 maxattempts 2", "q.claim w lease 1000 commands 1 a")
	s.clock.Advance(999 * time.Millisecond)
	c.want(":1", "exists codeq:lease:1")
	s.clock.Advance(20 * time.Millisecond)
	c.eventually(":0 :1", "scard codeq:q:a:inprog", "zcard codeq:q:a:delayed")
	if got := c.send("q.get 1"); !strings.Contains(got, "$6 status $7 PENDING $17 lastKnownLocation $12 DELAYED_ZSET $8 workerId $1 w "+
		"$8 attempts :1 $11 maxAttempts :2 $5 error $13 lease expired") {
		t.Error(got)
	}
	c.want("-NOTINPROGRESS the task 1 is PENDING, so there is no claim to it: claim it first", "q.submit v 1")
	c.want("+OK", "q.submit w 1") // late, and nobody has claimed it since
	c.want(":0", "zcard codeq:q:a:delayed")

	c.send("q.enqueue a p id 2 maxattempts 1", "q.claim w lease 1000 commands 1 a")
	s.clock.Advance(time.Second)
	c.want(":-2", "ttl codeq:lease:2") // looking at it ends it
	c.want(":0 :1", "scard codeq:q:a:inprog", "sismember codeq:q:a:dlq 2")
	c.want("+OK :0", "q.submit w 2", "scard codeq:q:a:dlq")
}

func TestLateWorkers(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 1000 commands 1 a")
	s.clock.Advance(1016 * time.Millisecond)
	c.eventually(":1", "zcard codeq:q:a:delayed")
	s.clock.Advance(5 * time.Second)
	c.eventually(":1", "llen codeq:q:a:pending:0")
	c.send("q.claim v commands 1 a")
	c.want("-NOTOWNER the task 1 is in progress with the worker \"v\": stop working on it", "q.submit w 1")
	c.want("+OK", "q.submit v 1")
	c.want("-NOTINPROGRESS the task 1 is COMPLETED, so there is no claim to it: claim it first", "q.submit v 1")
}

func TestHeartbeatKeepsTheTask(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 1000 commands 1 a")
	for range 5 {
		s.clock.Advance(900 * time.Millisecond)
		c.send("q.heartbeat w 1 lease 1000")
	}
	c.want(":1 :1", "scard codeq:q:a:inprog", "exists codeq:lease:1")
	until := s.clock.NowMs() + 300_000
	c.want(fmt.Sprint(":", until, " :300000"), "q.heartbeat w 1", "pttl codeq:lease:1") // the queue's own lease
}

// TestRawLease: a lease that codeQ's client sets with SETEX runs out like one of ours, and its task goes where its own repair
// would have put it.
func TestRawLease(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want(":1 :1 +OK", `hset codeq:tasks 1 {"id":"1","command":"a","payload":"p","status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET","workerId":"w","attempts":1,"maxAttempts":3}`,
		"sadd codeq:q:a:inprog 1", "setex codeq:lease:1 10 w")
	s.clock.Advance(10016 * time.Millisecond)
	c.eventually(":1 :0", "zcard codeq:q:a:delayed", "scard codeq:q:a:inprog")
}

// TestOrphans: an old client that dies between the steps of its claim leaves a task without a lease, which an audit finds.
func TestOrphans(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for id, state := range map[string]string{
		"1": `"status":"PENDING","lastKnownLocation":"PENDING_LIST"`, "2": `"status":"IN_PROGRESS","workerId":"w","attempts":1`,
		"3": `"status":"COMPLETED"`, "4": `"status":"IN_PROGRESS","workerId":"w","attempts":2`} {
		c.want(":1", `hset codeq:tasks `+id+` {"id":"`+id+`","command":"a","payload":"p",`+state+`,"maxAttempts":2}`)
	}
	c.want(":5 +OK", "sadd codeq:q:a:inprog 1 2 3 4 5", "setex codeq:lease:1 3600 w")
	s.clock.Advance(30 * time.Second)
	c.eventually(":4", "scard codeq:q:a:inprog") // 5 is no task
	c.want("+OK", "setex codeq:lease:2 3600 w")
	s.clock.Advance(30 * time.Second)
	c.eventually("*2 $1 1 $1 2", "sort codeq:q:a:inprog")
	c.want("*1 $1 4", "smembers codeq:q:a:dlq")
}

// TestOrphansWhileOthersFlush: orphans are found though another database is emptied all the time.
func TestOrphansWhileOthersFlush(t *testing.T) {
	s := startQueues(t)
	c, other := s.client(), s.client()
	c.want("$1 1 $1 1 :1", "q.enqueue a p id 1", "rpop codeq:q:a:pending:0", "sadd codeq:q:a:inprog 1")
	keys := "mset"
	for i := range 50 {
		keys += fmt.Sprint(" k", i, " v")
	}
	other.want("+OK", "select 1")
	for step := range 200_000 {
		if c.send("lrange codeq:q:a:pending:0 0 -1", "scard codeq:q:a:inprog") == "*1 $1 1 :0" {
			return
		}
		if step%50 == 0 { // timekeepers may need a while for what is due
			other.want("+OK +OK", keys, "flushdb")
			s.clock.Advance(5 * time.Second)
		}
		runtime.Gosched()
	}
	t.Error("the task is still in progress")
}

// TestManyDueInASwappedDatabase: more is due than one look does, in a database that the same transaction has swapped. Who looks finds it done.
func TestManyDueInASwappedDatabase(t *testing.T) {
	const tasks = 3000
	s := startQueues(t)
	c, other := s.client(), s.client()
	c.send("select 1", fmt.Sprintf("q.menqueue a %d%s delay 1000", tasks, strings.Repeat(" p", tasks)))
	other.send("multi", "swapdb 0 1", "zcard codeq:q:a:delayed", "llen codeq:q:a:pending:0")
	s.clock.Advance(time.Second)
	other.want(fmt.Sprintf("*3 +OK :0 :%d", tasks), "exec")
}

func TestRetention(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.enqueue a p id 3 maxattempts 1", "q.enqueue b p id 4",
		"q.claim w count 3 commands 1 a", "q.submit w 1 result 1", "q.nack w 3")
	s.clock.Advance(25*time.Hour + 30*time.Minute - time.Second) // a sixteenth longer
	c.want(":4", "hlen codeq:tasks")
	s.clock.Advance(time.Second)
	c.eventually(":2 :1 :1 $10 1767501245", "hlen codeq:tasks", "hexists codeq:tasks 2", "hexists codeq:tasks 4", "zscore codeq:tasks:ttl 4")
	c.want(":0 :0 :2", "hlen codeq:results", "scard codeq:q:a:dlq", "zcard codeq:tasks:ttl")
	c.want(":1", "llen codeq:q:b:pending:0")
}

// TestShortRetention: with a retention of less than a second a task that waits is looked at once a minute, not all the time.
func TestShortRetention(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	s.set("queues", "a retention=1ms")
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.claim w commands 1 a")
	s.clock.Advance(time.Second) // for retentions end at whole seconds
	kept := fmt.Sprint("$10 ", s.clock.Now().Unix()+60)
	c.eventually(kept+" "+kept, "zscore codeq:tasks:ttl 1", "zscore codeq:tasks:ttl 2")
	c.send("q.submit w 1 result 1")
	s.clock.Advance(time.Second)
	c.eventually(":0 *1 $1 2", "hexists codeq:tasks 1", "lrange codeq:q:a:pending:0 0 -1")
}

// TestRetentionIsNotCutShort: retentions end at whole seconds, and none before it is over.
func TestRetentionIsNotCutShort(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	s.set("queues", "a retention=2s")
	s.clock.Advance(702 * time.Millisecond)
	c.send("q.enqueue a p id 1", "q.claim w commands 1 a", "q.submit w 1")
	c.want("$10 1767323048", "zscore codeq:tasks:ttl 1")
	s.clock.Advance(2 * time.Second)
	c.want(":1", "hexists codeq:tasks 1")
	s.clock.Advance(time.Second)
	c.eventually(":0", "hexists codeq:tasks 1")
}

// TestRetentionAtAClaim: the first claim of a task leaves its retention alone for as long as half of it is left, a later one sets it.
func TestRetentionAtAClaim(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2")
	s.clock.Advance(12*time.Hour - time.Second)
	c.send("q.claim w lease 1 commands 1 a")
	c.want("$10 1767414845", "zscore codeq:tasks:ttl 1")
	c.send("q.abandon w 1", "q.claim w lease 90000000 commands 1 a")
	c.want("$10 1767458044", "zscore codeq:tasks:ttl 1")
	s.clock.Advance(time.Second)
	c.send("q.claim w lease 90000000 commands 1 a")
	c.want("$10 1767458045", "zscore codeq:tasks:ttl 2")
}

// TestRetentionAtTheEnd: a task that ends within a sixteenth of its retention keeps the end of it that it was given when it was enqueued, whatever has
// happened to it meanwhile. One that ends later, or whose retention is too short or too long then, is kept for as long as it ought to be.
func TestRetentionAtTheEnd(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		c.send("q.enqueue a p id " + id)
	}
	c.send("q.claim w count 5 lease 90000000 commands 1 a", "q.nack w 1 delay 0", "q.claim w lease 90000000 commands 1 a")
	s.clock.Advance(90 * time.Minute)
	c.send("q.submit w 1", "zadd codeq:tasks:ttl 1767414844 3", "zrem codeq:tasks:ttl 4", "q.submit w 3", "q.submit w 4")
	c.want("*3 $10 1767414845 $10 1767414845 $10 1767414845", "zmscore codeq:tasks:ttl 1 3 4")
	s.clock.Advance(time.Second)
	c.send("q.submit w 2")
	c.want("$10 1767414846", "zscore codeq:tasks:ttl 2")
	s.set("queues", "* retention=1h")
	c.send("q.submit w 5")
	c.want("$10 1767332046", "zscore codeq:tasks:ttl 5")
}

// TestEndedStaysEnded: an old client's last word puts a task that has ended among the delayed ones; when it comes due it is dropped.
func TestEndedStaysEnded(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w commands 1 a", "q.submit w 1 result 1")
	c.send(fmt.Sprintf("zadd codeq:q:a:delayed %d 1", s.clock.Now().Unix()+5))
	s.clock.Advance(6 * time.Second)
	c.eventually(":0 :0", "zcard codeq:q:a:delayed", "llen codeq:q:a:pending:0")
	c.want("*-1", "q.claim w commands 1 a")
}

// TestLateDelay: an old client's last word delays a task that it no longer has. It is dropped if somebody has the task, and else the task is
// pending when it is due.
func TestLateDelay(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w commands 1 a",
		`hset codeq:tasks 2 {"id":"2","command":"a","payload":"p","status":"IN_PROGRESS","workerId":"w","attempts":1,"maxAttempts":3}`)
	due := s.clock.Now().Unix() + 5
	c.send(fmt.Sprintf("zadd codeq:q:a:delayed %d 1 %d 2", due, due))
	s.clock.Advance(6 * time.Second)
	c.eventually(":0 *1 $1 2 *1 $1 1", "zcard codeq:q:a:delayed", "lrange codeq:q:a:pending:0 0 -1", "smembers codeq:q:a:inprog")
}

// TestLeaseOfAPendingTask: a lease that an old client leaves behind a task that is pending again runs out without a word.
func TestLeaseOfAPendingTask(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2 priority 1", "q.claim v lease 10000 commands 1 a", "setex codeq:lease:1 10 w")
	s.clock.Advance(10016 * time.Millisecond)
	c.eventually("*1 $1 2", "zrange codeq:q:a:delayed 0 -1") // whose lease was the later one
	c.want("*1 $1 1 :0", "lrange codeq:q:a:pending:0 0 -1", "exists codeq:lease:1")
}

// TestTimersAfterARestart: what was due while the server was down is done at once, and what is not yet keeps its time.
func TestTimersAfterARestart(t *testing.T) {
	fs := vfs.NewMem()
	s := startServerOn(t, fs, allButCore()...)
	c, start := s.client(), s.clock.Now()
	c.send("q.enqueue a p id 1 delay 1000", "q.enqueue a p id 2 delay 20000", "q.enqueue b p id 3", "q.enqueue b p id 4",
		"q.claim w lease 1000 commands 1 b", "q.claim w lease 100000 commands 1 b")
	s.stop()
	s = startServerAt(t, fs, s.clock.Now().Add(10*time.Second), scripting.Options{}, allButCore()...)
	c = s.client()
	c.eventually("*1 $1 1 :1 :1 :1", "lrange codeq:q:a:pending:0 0 -1", "zcard codeq:q:a:delayed", "zcard codeq:q:b:delayed", "scard codeq:q:b:inprog")
	s.clock.Advance(10 * time.Second)
	// A timekeeper that was waiting for another shard as time passed has put off what was due: seconds pass until it has tried again.
	for tries := 1; c.send("lrange codeq:q:a:pending:0 0 -1") != "*2 $1 2 $1 1"; tries++ {
		if runtime.Gosched(); tries%10_000 != 0 {
			continue
		}
		if s.clock.Advance(time.Second); s.clock.Now().Sub(start) > 40*time.Second {
			t.Fatal("what was due after 20 s is not done after 40")
		}
	}
	s.clock.Advance(80016 * time.Millisecond)
	c.eventually(":0", "scard codeq:q:b:inprog")
}

func TestTimersAfterSwapAndFlush(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1 delay 1000", "q.enqueue b p id 2", "q.claim w lease 1000 commands 1 b")
	c.want("+OK +OK", "swapdb 0 1", "select 1")
	s.clock.Advance(1016 * time.Millisecond)
	c.eventually(":1 :1", "llen codeq:q:a:pending:0", "zcard codeq:q:b:delayed")
	c.want("+OK", "flushall")
	s.clock.Advance(time.Hour)
	c.want(":0", "dbsize")
	c.want("$1 1", "q.enqueue a p id 1 delay 1000")
	s.clock.Advance(time.Second)
	c.eventually(":1", "llen codeq:q:a:pending:0")
}

// TestLapsedTaskWaits: whatever the backoff says, a task whose lease has run out waits until an old client's repair is over.
func TestLapsedTaskWaits(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	s.set("queues", "a backoff=fixed backoff-base=1ms; b backoff=fixed backoff-base=3s")
	c.send("q.enqueue a p id 1", "q.enqueue b p id 2", "q.claim w lease 1000 count 2 commands 2 a b")
	s.clock.Advance(time.Second)
	c.want(":0 :0", "exists codeq:lease:1", "exists codeq:lease:2") // looking at it ends it
	c.want("$13 1767323046.25 $10 1767323049", "zscore codeq:q:a:delayed 1", "zscore codeq:q:b:delayed 2")
}

// TestCancelledTaskIsNobodys: a task keeps the name of the worker whose lease ran out only as long as he may still submit.
func TestCancelledTaskIsNobodys(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.claim w lease 1000 commands 1 a")
	s.clock.Advance(time.Second)
	c.want(":0", "exists codeq:lease:1")
	if got := c.send("q.get 1"); !strings.Contains(got, "$8 workerId $1 w ") {
		t.Errorf("the worker's name is not in %s", got)
	}
	c.want(":1", "q.cancel 1")
	c.want(flat("id 1 command a payload p status FAILED lastKnownLocation NONE attempts :1 maxAttempts :5 error cancelled resultKey 1 createdAt "+testNow+
		" updatedAt 2026-01-02T03:04:06Z priority :0"), "q.get 1")
	c.want("-NOTINPROGRESS the task 1 is FAILED, so there is no claim to it: claim it first", "q.submit w 1")
}
