package commands

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeq/supplier"
)

// startQueues starts a server with the commands of queues and those that look into their keys.
func startQueues(t testing.TB) *testServer {
	t.Helper()
	return startServer(t, allButCore()...)
}

// allButCore lists the commands of this server that startServer does not have.
func allButCore() []Command {
	has := map[string]bool{}
	for _, c := range append(append(testCommands(), transactionCommands()...), scriptCommands()...) {
		has[c.Name] = true
	}
	var rest []Command
	for _, c := range families() {
		if !has[c.Name] {
			rest = append(rest, c)
		}
	}
	return rest
}

// flat is a task as RESP2 shows it, with blanks between names and values.
func flat(fields string) string {
	words := strings.Fields(fields)
	var b strings.Builder
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, ":"); ok {
			b.WriteString(" :" + n)
			continue
		}
		b.WriteString(" $" + strconv.Itoa(len(strings.ReplaceAll(w, "%20", " "))) + " " + strings.ReplaceAll(w, "%20", " "))
	}
	return "*" + strconv.Itoa(len(words)) + b.String()
}

const testNow = "2026-01-02T03:04:05Z"

func TestLifeOfATask(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want("$1 1", "q.enqueue Mail {\"a\":1} id 1 tenant acme webhook http://x")
	c.want("$1 2", "q.enqueue MAIL two ID 2 PRIORITY 9 TENANT acme MAXATTEMPTS 2")
	c.want("*-1", "q.claim w commands 2 sms mail")
	two := "*1 " + flat("id 2 command MAIL payload two priority :9 status IN_PROGRESS lastKnownLocation INPROG_SET workerId w "+
		"leaseUntil 2026-01-02T03:05:05Z attempts :1 maxAttempts :2 tenantId acme createdAt "+testNow+" updatedAt "+testNow)
	c.want(two, "q.claim w lease 60000 commands 2 sms mail tenant acme")
	c.want("$1 w :60000", "get codeq:lease:2", "pttl codeq:lease:2")
	c.want(":1 :1", "sismember codeq:q:mail:acme:inprog 2", "llen codeq:q:mail:acme:pending:0")
	c.want(":1767323165000", "q.heartbeat w 2 lease 120000")
	c.want(":120000", "pttl codeq:lease:2")
	c.want("*2 $7 delayed :2500", "q.nack w 2 reason no%20luck delay 2500")
	c.want("$12 1767323047.5", "zscore codeq:q:mail:acme:delayed 2")
	c.want(":0 :0 :0", "exists codeq:lease:2", "scard codeq:q:mail:acme:inprog", "llen codeq:q:mail:acme:pending:9")
	s.clock.Advance(time.Second)
	c.want("*1 "+flat("id 1 command Mail payload {\"a\":1} webhook http://x status IN_PROGRESS lastKnownLocation INPROG_SET workerId v "+
		"leaseUntil 2026-01-02T03:09:06Z attempts :1 maxAttempts :5 tenantId acme createdAt "+testNow+
		" updatedAt 2026-01-02T03:04:06Z priority :0"), "q.claim v tenant acme count 5 commands 1 mail")
	c.want("$-1", "q.result 1")
	c.want("+OK", "q.submit v 1 result {\"ok\":true}")
	c.want(flat("taskId 1 status COMPLETED result {\"ok\":true} completedAt 2026-01-02T03:04:06Z"), "q.result 1")
	c.want(":0 :0", "exists codeq:lease:1", "scard codeq:q:mail:acme:inprog")
	c.want(flat("id 1 command Mail payload {\"a\":1} webhook http://x status COMPLETED lastKnownLocation NONE workerId v attempts :1 maxAttempts :5 "+
		"resultKey 1 tenantId acme createdAt "+testNow+" updatedAt 2026-01-02T03:04:06Z priority :0"), "q.get 1")
	c.want(":1", "q.cancel 2")
	c.want(":0 :0", "q.cancel 2", "zcard codeq:q:mail:acme:delayed")
	c.want(flat("id 2 command MAIL payload two priority :9 status FAILED lastKnownLocation NONE attempts :1 maxAttempts :2 error cancelled resultKey 2 "+
		"tenantId acme createdAt "+testNow+" updatedAt 2026-01-02T03:04:06Z"), "q.get 2")
}

// TestTasksAreCodeQs: what is stored is what codeQ would have written, byte for byte, but for a retention that is longer by a sixteenth.
func TestTasksAreCodeQs(t *testing.T) {
	c := startQueues(t).client()
	c.want("$1 1", "q.enqueue Mail <p%20\"q\"> id 1 priority 3")
	c.want(`$212 {"id":"1","command":"Mail","payload":"\u003cp \"q\"\u003e","priority":3,"status":"PENDING","lastKnownLocation":"PENDING_LIST",`+
		`"maxAttempts":5,"createdAt":"`+testNow+`","updatedAt":"`+testNow+`"}`, "hget codeq:tasks 1")
	c.want("$10 1767414845", "zscore codeq:tasks:ttl 1")
	c.want("*1 $1 1", "lrange codeq:q:mail:pending:3 0 -1")
}

func TestUnknownFieldsSurvive(t *testing.T) {
	c := startQueues(t).client()
	c.want(":1 :1", `hset codeq:tasks 1 {"future":{"x":[1,2]},"id":"1","command":"M","payload":"p","status":"PENDING","more":1.50}`,
		"lpush codeq:q:m:pending:0 1")
	c.send("q.claim w commands 1 m")
	c.want(`$226 {"future":{"x":[1,2]},"id":"1","command":"M","payload":"p","status":"IN_PROGRESS","more":1.50,`+
		`"lastKnownLocation":"INPROG_SET","workerId":"w","leaseUntil":"2026-01-02T03:09:05Z","attempts":1,"updatedAt":"`+testNow+`"}`, "hget codeq:tasks 1")
}

func TestPrioritiesAndOrder(t *testing.T) {
	c := startQueues(t).client()
	for _, line := range []string{"a 1 0", "b 2 9", "a 3 9", "b 4 0", "a 5 0", "a 6 9"} {
		w := strings.Fields(line)
		c.want("$1 "+w[1], "q.enqueue "+w[0]+" p id "+w[1]+" priority "+w[2])
	}
	got := c.send("q.claim w count 10 commands 2 a b")
	var order []string
	for _, part := range strings.Split(got, "$2 id $1 ")[1:] {
		order = append(order, part[:1])
	}
	if want := "3 6 2 1 5 4"; strings.Join(order, " ") != want {
		t.Errorf("claimed %v, want %s", order, want)
	}
}

// TestClaimTakesTheOldest: of several queues, the one is claimed from whose next task was made first, an entry that is no task before all.
func TestClaimTakesTheOldest(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for _, line := range []string{"b 1", "a 2", "b 3", "a 4", "a 5", "b 6"} {
		queue, id, _ := strings.Cut(line, " ")
		c.want("$1 "+id, "q.enqueue "+queue+" p id "+id)
		s.clock.Advance(time.Millisecond)
	}
	c.send("lpush codeq:q:c:pending:0 none", "rpush codeq:q:a:pending:0 gone", "set codeq:q:d:pending:0 x")
	for _, test := range [][2]string{
		{"q.claim w commands 4 a d b c", "[1]"},
		{"q.claim w count 3 commands 4 a B b c", "[2 3 4]"}, // a queue that is named twice is in no other turn
		{"q.claim w count 4 commands 2 a b", "[5 6]"},
	} {
		if got := fmt.Sprint(c.claimed(test[0])); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
	c.want("-WRONGTYPE Operation against a key holding the wrong kind of value", "q.claim w commands 2 a d")
	c.want(":0", "exists codeq:q:a:pending:0 codeq:q:b:pending:0 codeq:q:c:pending:0")
}

func TestAttemptsEnd(t *testing.T) {
	c := startQueues(t).client()
	c.want("$1 1", "q.enqueue a p id 1 maxattempts 2")
	c.send("q.claim w commands 1 a")
	c.want("*2 $7 delayed :0", "q.nack w 1 delay 0")
	c.want(":1", "llen codeq:q:a:pending:0")
	c.send("q.claim w commands 1 a")
	c.want("*1 $4 dead", "q.nack w 1 reason over")
	c.want(":1 :0", "sismember codeq:q:a:dlq 1", "zcard codeq:q:a:delayed")
	c.want(flat("id 1 command a payload p status FAILED lastKnownLocation DLQ_SET attempts :2 maxAttempts :2 error over createdAt "+testNow+
		" updatedAt "+testNow+" priority :0"), "q.get 1")
	c.want(":1", "q.cancel 1")
	c.want(":0", "scard codeq:q:a:dlq")
}

func TestIdempotency(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want("$1 1 $1 1", "q.enqueue a p id 1 idempotency k", "q.enqueue b q idempotency k id 2")
	c.want("$1 1 -ERR there is a task 1 already: choose another ID, or leave it out", "q.enqueue a p id 1 idempotency k", "q.enqueue a p id 1 idempotency other")
	c.want(":86400000 :0 :1 :0", "pttl codeq:idempo:k", "exists codeq:q:b:pending:0", "llen codeq:q:a:pending:0", "exists codeq:idempo:other")
	c.want(":1", "hdel codeq:tasks 1")
	c.want("$1 3", "q.enqueue b q idempotency k id 3 window 1000")
	s.clock.Advance(time.Second)
	c.want("$1 4", "q.enqueue b q idempotency k id 4")
	first := c.send("q.menqueue a 3 x y z idempotency m")
	c.want(first, "q.menqueue a 3 x y z idempotency m")
	c.want("$36 "+strings.Fields(first)[4], "get codeq:idempo:m:1")
	c.want("*1 $36 "+strings.Fields(first)[2]+" :0", "q.menqueue a 1 x idempotency m", "exists codeq:idempo:m")
}

// TestMadeIDs: an id that the server makes has its home on the queue's shard, and begins with the digits of its key.
func TestMadeIDs(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for _, queue := range []string{"a", "b", "c", "d", "e", "f"} {
		words := strings.Fields(c.send("q.enqueue "+queue+" p key customer-7", "q.enqueue "+queue+" p key customer-7"))
		home, ok := supplier.ParseID([]byte(words[1]))
		if route := s.router.Route(0, []byte("codeq:q:"+queue+":pending:0")); !ok || home != route.Shard {
			t.Errorf("the home of %s is shard %d, its queue's is %d", words[1], home, route.Shard)
		}
		if at, _ := supplier.TimeOf([]byte(words[1])); at != uint32(4*s.clock.NowMs()) {
			t.Errorf("the time of %s is %x", words[1], at)
		}
		if words[1][:8] != words[3][:8] || words[1] == words[3] {
			t.Errorf("the ids of one key are %s and %s", words[1], words[3])
		}
		together := strings.Fields(c.send("q.menqueue " + queue + " 17" + strings.Repeat(" p", 17)))
		for i := range 17 {
			id := together[2+2*i]
			if at, _ := supplier.TimeOf([]byte(id)); at != uint32(4*s.clock.NowMs()+int64(i/8)) {
				t.Errorf("the time of %s, the id %d of a command, is %x", id, i, at)
			}
		}
	}
}

func TestQueueErrors(t *testing.T) {
	c := startQueues(t).client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.claim w commands 1 a")
	for _, test := range [][2]string{
		{"q.get 9", "-NOTFOUND there is no task 9: it was never enqueued, or its retention is over"},
		{"q.result 9", "-NOTFOUND there is no task 9: it was never enqueued, or its retention is over"},
		{"q.submit w 9", "-NOTFOUND there is no task 9: it was never enqueued, or its retention is over"},
		{"q.submit v 1", "-NOTOWNER the task 1 is in progress with the worker \"w\": stop working on it"},
		{"q.heartbeat w 2", "-NOTINPROGRESS the task 2 is PENDING, so there is no claim to it: claim it first"},
		{"q.abandon w 2", "-NOTINPROGRESS the task 2 is PENDING, so there is no claim to it: claim it first"},
		{"q.nack w 2", "-NOTINPROGRESS the task 2 is PENDING, so there is no claim to it: claim it first"},
		{"q.enqueue a p id 1", "-ERR there is a task 1 already: choose another ID, or leave it out"},
		{"q.enqueue a:b p", "-ERR the command \"a:b\" has a colon or begins with a brace; name it without"},
		{"q.enqueue a p priority 10", "-ERR PRIORITY is out of range: give 0 to 9"},
		{"q.enqueue a p delay -1", "-ERR the time is out of range: give milliseconds, 0 to 9007199254740992, and above zero for a lease or a window"},
		{"q.enqueue a p at 9007199254740993", "-ERR the time is out of range: give milliseconds, 0 to 9007199254740992, and above zero for a lease or a window"},
		{"q.enqueue a p maxattempts 2147483648", "-ERR MAXATTEMPTS is out of range: give 1 to 2147483647"},
		{"q.menqueue a 0 p", "-ERR count is out of range: give 1 to 2147483647"},
		{"q.claim w count 0 commands 1 a", "-ERR COUNT is out of range: give 1 to 2147483647"},
		{"q.claim w commands 0 a", "-ERR n is out of range: give 1 to 2147483647"},
		{"q.peek a offset -1", "-ERR OFFSET is out of range: give 0 to 2147483647"},
		{"q.requeue a count 0", "-ERR COUNT is out of range: give 1 to 9223372036854775807"},
		{"q.enqueue a p delay 1 at 1", "-ERR syntax error"},
		{"q.enqueue a p window 1", "-ERR syntax error"},
		{"q.enqueue a p nonsense 1", "-ERR syntax error"},
		{"q.enqueue a p tenant", "-ERR syntax error"},
		{"q.enqueue a \xff", "-ERR the payload is not UTF-8, and a task is JSON: encode it, in base64 for instance"},
		{"q.enqueue a p webhook \xff", "-ERR the webhook is not UTF-8"},
		{"q.enqueue a p id " + strings.Repeat("x", 513), "-ERR the id is empty, not UTF-8 or longer than 512 bytes; leave ID out for one that the server makes"},
		{"q.submit w 1 error \xff", "-ERR the error of the task 1 is not UTF-8"},
		{"q.nack w 1 reason \xff", "-ERR the reason for the task 1 is not UTF-8"},
		{"q.menqueue a 2 p p id 5", "-ERR ID names one task: enqueue tasks with ids of your own one by one"},
		{"q.menqueue a 3 p p", "-ERR syntax error"},
		{"q.claim w count 1 lease 1", "-ERR syntax error"},
		{"q.claim w commands 2 a", "-ERR syntax error"},
		{"q.claim w lease 0 commands 1 a", "-ERR the time is out of range: give milliseconds, 0 to 9007199254740992, and above zero for a lease or a window"},
		{"q.submit w 1 result {", "-ERR the result of the task 1 is not JSON: send JSON, a text in quotes for instance"},
		{"q.submit w 1 result \"\xff\"", "-ERR the result of the task 1 is not UTF-8, and JSON is"},
		{"q.submit w 1 result 1 error x", "-ERR syntax error"},
	} {
		c.want(test[1], test[0])
	}
	c.want(":1 :1 :2", "llen codeq:q:a:pending:0", "scard codeq:q:a:inprog", "hlen codeq:tasks")
	c.want("$512 "+strings.Repeat("x", 512), "q.enqueue a p id "+strings.Repeat("x", 512))
}

// TestRawBytes: whatever a client has stored in place of a task's JSON harms nothing.
func TestRawBytes(t *testing.T) {
	c := startQueues(t).client()
	for id, json := range []string{"{bad", "[]", `{"id":"3","command":"a","status":7}`, "{}", `{"command":"a","status":"COMPLETED"}`} {
		c.want(":1", "hset codeq:tasks "+strconv.Itoa(id+1)+" "+json)
	}
	c.send("lpush codeq:q:a:pending:0 1 2 3 4 5 6", "q.enqueue a p id 7")
	c.want("-ERR the task 1 can't be used, its JSON is not valid at byte 2: repair its JSON in the hash codeq:tasks, or remove it with HDEL", "q.get 1")
	if got := c.send("q.claim w count 9 commands 1 a"); !strings.HasPrefix(got, "*1 *") || !strings.Contains(got, "$2 id $1 7 ") {
		t.Errorf("claimed %s", got)
	}
	c.want("*4 $1 1 $1 2 $1 3 $1 4", "sort codeq:q:a:dlq")
	c.want("$4 {bad :0", "hget codeq:tasks 1", "llen codeq:q:a:pending:0")
	c.want("+OK", "set codeq:q:b:pending:0 x")
	c.want("-WRONGTYPE Operation against a key holding the wrong kind of value", "q.enqueue b p")
	c.want("-WRONGTYPE Operation against a key holding the wrong kind of value", "q.claim w commands 1 b")
	c.want(":6", "hlen codeq:tasks")
}

// TestClaimMeetsWrongTypes: keys of other types keep nobody from what is in others, and a claim that finds nothing else says so.
func TestClaimMeetsWrongTypes(t *testing.T) {
	c := startQueues(t).client()
	for _, queue := range []string{"a", "b", "c"} {
		c.send("q.enqueue " + queue + " p priority 9 id " + queue)
	}
	c.send("q.enqueue c p id d", "set codeq:q:a:pending:3 x", "set codeq:q:x:inprog x", "rpush codeq:q:x:pending:0 y")
	for _, test := range [][2]string{
		{"q.claim w count 2 commands 1 a", "[a]"},
		{"q.claim w count 3 commands 2 b x", "[b]"},
		{"q.claim w commands 2 c a", "[c]"},
		{"q.claim w count 3 commands 2 a c", "[d]"},
	} {
		if got := fmt.Sprint(c.claimed(test[0])); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
	c.want("-WRONGTYPE Operation against a key holding the wrong kind of value", "q.claim w count 3 commands 2 c a")
	// Where a place is missing that a stale entry would be looked for in, or put into, the entry is dropped.
	delayed := `{"id":"z","command":"e","payload":"p","status":"PENDING","lastKnownLocation":"DELAYED_ZSET"}`
	c.send("set codeq:q:e:delayed x", "set codeq:q:e:dlq x", "hset codeq:tasks bad {", "hset codeq:tasks z "+delayed, "lpush codeq:q:e:pending:0 bad z")
	if got := fmt.Sprint(c.claimed("q.claim w count 3 commands 1 e")); got != "[z]" {
		t.Errorf("claimed %s, want [z]", got)
	}
}

func TestAbandonedTaskIsNext(t *testing.T) {
	c := startQueues(t).client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.claim w commands 1 a")
	c.want("+OK", "q.abandon w 1")
	c.want(flat("id 1 command a payload p status PENDING lastKnownLocation PENDING_LIST maxAttempts :5 createdAt "+testNow+
		" updatedAt "+testNow+" priority :0 attempts :0"), "q.get 1")
	if got := c.send("q.claim w commands 1 a"); !strings.Contains(got, "$2 id $1 1 ") {
		t.Errorf("claimed %s", got)
	}
}

// TestFarthestClaim: a lease beyond the last year that RFC 3339 has, and attempts that can't be counted further.
func TestFarthestClaim(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send(`hset codeq:tasks 1 {"id":"1","command":"a","payload":"p","status":"PENDING","attempts":9223372036854775807,"maxAttempts":3}`, "lpush codeq:q:a:pending:0 1")
	if got := c.send("q.claim w lease 9007199254740992 commands 1 a"); !strings.Contains(got, "leaseUntil $20 9999-12-31T23:59:59Z $8 attempts :9223372036854775807") {
		t.Error(got)
	}
	if got := c.send("pttl codeq:lease:1"); got != ":9007199254740992" {
		t.Error(got)
	}
}

// TestAbandonedBeforeItCounted: a client may have claimed a task without counting the attempt.
func TestAbandonedBeforeItCounted(t *testing.T) {
	c := startQueues(t).client()
	for id, attempts := range map[string]string{"1": "", "2": `,"attempts":0`} {
		c.send(`hset codeq:tasks `+id+` {"id":"`+id+`","command":"a","payload":"p","status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET",`+
			`"workerId":"w"`+attempts+`}`, "sadd codeq:q:a:inprog "+id, "setex codeq:lease:"+id+" 60 w")
		c.want("+OK", "q.abandon w "+id)
		if got := c.send("q.get " + id); !strings.Contains(got+" ", " $8 attempts :0 ") {
			t.Error(got)
		}
	}
}

// TestNackedAtOnceIsLast: a task that is given back without a delay waits behind all others.
func TestNackedAtOnceIsLast(t *testing.T) {
	c := startQueues(t).client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.claim w commands 1 a", "q.nack w 1 delay 0")
	if got := fmt.Sprint(c.claimed("q.claim w count 2 commands 1 a")); got != "[2 1]" {
		t.Errorf("claimed %s", got)
	}
}

func TestQueuesInTransactionsAndScripts(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want("+OK +QUEUED +QUEUED *2 $1 1 *-1", "multi", "q.enqueue a p id 1", "q.claim w commands 1 b", "exec")
	c.want("$1 2", "eval return%20redis.call('q.enqueue','a','p','id','2') 0")
	c.want(":2 $1 2", "eval return%20#redis.call('q.claim','w','count','2','commands','1','a') 0", "eval return%20redis.call('q.get','2')[2] 0")
}
