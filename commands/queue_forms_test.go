package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/shard"
	"codeq/supplier"
)

// startWithForms is a server with all commands, three shards and the named ones gold and silver, whose delays after a failure are a second.
func startWithForms(t *testing.T, supplierName string) *testServer {
	t.Helper()
	topology := supplier.Topology{Default: 3, Named: []string{"gold", "silver"}}
	s, err := openRouted(t, vfs.NewMem(), supplierName, supplier.Options{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	s.set("queues", "* backoff=fixed backoff-base=1s")
	return s
}

// foreign are forms of the queue a's keys that its own commands don't use, on shards that there are and on none.
func foreign() []string {
	return []string{"{a}", "a:s:silver", "a:s:default-1", "a:s:unknown", "{a}:s:gold"}
}

// claimAs has an old client with the worker w claim the task under a form of the queue's keys.
func (c *client) claimAs(form string, id int, lease string) {
	c.s.t.Helper()
	c.want(":1", fmt.Sprintf(`hset codeq:tasks %d {"id":"%[1]d","command":"A","payload":"p","status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET",`+
		`"workerId":"w","attempts":1,"maxAttempts":5}`, id))
	c.want(":1 +OK", fmt.Sprintf("sadd codeq:q:%s:inprog %d", form, id), fmt.Sprintf("setex codeq:lease:%d %s w", id, lease))
}

// TestOtherForms: a client's task may be in keys of another form than this server's commands use, or in none at all.
func TestOtherForms(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for id, state := range map[string]string{
		"1": `"status":"PENDING","lastKnownLocation":"PENDING_LIST"`, "2": `"status":"PENDING","lastKnownLocation":"DELAYED_ZSET"`,
		"3": `"status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET","workerId":"w","attempts":1`,
		"4": `"status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET","workerId":"w","attempts":1`, "6": `"status":"PENDING"`} {
		c.want(":1", `hset codeq:tasks `+id+` {"id":"`+id+`","command":"a","payload":"p",`+state+`,"maxAttempts":2}`)
	}
	c.want(":1 :1 :1", "lpush codeq:q:{a}:pending:0 1", "zadd codeq:q:{a}:delayed 9e9 2", "sadd codeq:q:{a}:inprog 3")
	c.want("+OK +OK", "setex codeq:lease:3 60 w", "setex codeq:lease:4 60 w")
	c.want(":1 :1 *2 $7 delayed :0 +OK", "q.cancel 1", "q.cancel 2", "q.nack w 3 delay 0", "q.submit w 4")
	c.want(":0", "q.cancel 6") // an old client has it in its hands
	c.want(":0", "exists codeq:q:{a}:delayed codeq:q:{a}:inprog codeq:lease:3 codeq:lease:4")
	c.want("$1 5 *1 $1 5 *1 $1 3", "q.enqueue a p id 5", "lrange codeq:q:a:pending:0 0 -1", "lrange codeq:q:{a}:pending:0 0 -1")
}

// TestLeaseRunsOutUnderOtherForms: a task whose lease has run out goes back to the keys that it was claimed from, and nowhere else. What is there
// is counted, and ended as others are. Keys of wrong types among them are nobody's business.
func TestLeaseRunsOutUnderOtherForms(t *testing.T) {
	for _, name := range []string{"hash", "task"} {
		s := startWithForms(t, name)
		c := s.client()
		c.send("set codeq:q:a:s:broken:inprog x", "set codeq:q:a:s:broken:pending:0 x", "set codeq:q:a:inprog x") // but where queues are spread
		for i, form := range foreign() {
			c.claimAs(form, i, "1")
		}
		all := len(foreign())
		counts := func(ready, delayed, inProgress int) {
			t.Helper()
			want := fmt.Sprintf("$7 delayed :%d $10 inProgress :%d $3 dlq :0 ", delayed, inProgress)
			if got := c.send("q.stats a"); !strings.Contains(got, want) || !strings.Contains(got, fmt.Sprintf(" $5 ready :%d ", ready)) {
				t.Errorf("%s: %s, want %d ready and %s", name, got, ready, want)
			}
		}
		counts(0, 0, all)
		s.clock.Advance(time.Second + 16*time.Millisecond)
		for i, form := range foreign() {
			c.eventually(fmt.Sprintf("*1 $1 %d :0", i), fmt.Sprintf("zrange codeq:q:%s:delayed 0 -1", form), fmt.Sprintf("exists codeq:q:%s:inprog", form))
		}
		counts(0, all, 0)
		s.clock.Advance(time.Second)
		for i, form := range foreign() {
			c.eventually(fmt.Sprintf("*1 $1 %d", i), fmt.Sprintf("lrange codeq:q:%s:pending:0 0 -1", form))
		}
		counts(all, 0, 0)
		c.want(":0", "exists codeq:q:a:pending:0")
		for i, form := range foreign() {
			c.want(":1 :0", fmt.Sprintf("q.cancel %d", i), fmt.Sprintf("exists codeq:q:%s:pending:0", form))
		}
	}
}

// TestHalfClaimsUnderOtherForms: an old client that has taken a task under another form and not yet said so in its JSON has it, so the worker that was
// late is refused; and if nothing more comes of it, the task is given back some time after its lease.
func TestHalfClaimsUnderOtherForms(t *testing.T) {
	for _, form := range foreign() {
		s := startWithForms(t, "hash")
		c := s.client()
		c.claimAs(form, 1, "1")
		s.clock.Advance(time.Second + 16*time.Millisecond)
		c.eventually(":1", "zcard codeq:q:"+form+":delayed")
		s.clock.Advance(time.Second)
		c.eventually(":1", "llen codeq:q:"+form+":pending:0")
		c.want("$1 1 :1 +OK", "rpop codeq:q:"+form+":pending:0", "sadd codeq:q:"+form+":inprog 1", "setex codeq:lease:1 40 v")
		c.want("-NOTOWNER the task 1 was claimed by another worker: stop working on it", "q.submit w 1")
		s.inTime(c, "*1 $1 1 :0", "lrange codeq:q:"+form+":pending:0 0 -1", "exists codeq:q:"+form+":inprog")
	}
}

// TestFormsOfATransaction: a form that the transaction itself has begun is known to it.
func TestFormsOfATransaction(t *testing.T) {
	for _, name := range []string{"hash", "task"} {
		c := startWithForms(t, name).client()
		c.claimAs("a", 1, "60")
		c.send("multi", "smove codeq:q:a:inprog codeq:q:a:s:gold:inprog 1", "q.abandon w 1", "exec")
		c.want(":0 :0 *1 $1 1", "exists codeq:q:a:s:gold:inprog", "exists codeq:q:a:pending:0", "lrange codeq:q:a:s:gold:pending:0 0 -1")
	}
}

// TestFormsWhileAShardHangs: who looks for a task under all forms does not wait for a shard on which it is not.
func TestFormsWhileAShardHangs(t *testing.T) {
	s := startWithForms(t, "hash")
	c := s.client()
	c.claimAs("a:s:gold", 1, "60")
	c.claimAs("a:s:silver", 2, "60")
	tx := s.store.NewTx()
	tx.Begin(shard.MaskOf(s.router.Route(0, []byte("codeq:q:a:s:gold:inprog")).Shard))
	got := make(chan string)
	go func() { got <- c.send("q.nack w 2 delay 0") }() // ends with the reply, at the latest when the shard is free
	select {
	case <-got:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
		go func() { <-got }() // as above
	}
	tx.End()
}

// TestFormOfNoQueue: a queue that can be named with a hash tag only is counted nowhere, least of all as another one.
func TestFormOfNoQueue(t *testing.T) {
	c := startWithForms(t, "hash").client()
	c.want(":1 :1", "sadd codeq:q:{mail:a:s:b}:inprog x", "sadd codeq:q:mail:a:s:b:inprog y")
	if got := c.send("q.queues"); strings.Count(got, "$7 command") != 1 || !strings.Contains(got, "$4 mail $6 tenant $1 a ") || !strings.Contains(got, "$10 inProgress :1 ") {
		t.Error(got)
	}
}
