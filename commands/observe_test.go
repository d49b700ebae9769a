package commands

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"codeq/shard"
)

// answers sends a line while a shard hangs, and lets its patience run out. Where enough others wait for the shard it does not wait.
func (c *client) answers(line string) string {
	got := make(chan string, 1)
	go func() { got <- c.send(line) }() // ends with the reply
	late := c.s.clock.Now().Add(shardPatience)
	for !c.s.clock.Awaited(late) && len(got) == 0 {
		runtime.Gosched()
	}
	c.s.clock.Advance(shardPatience)
	return <-got
}

// contains checks that a reply has these words in it.
func (c *client) contains(got string, wants ...string) {
	c.s.t.Helper()
	for _, want := range wants {
		if !strings.Contains(" "+got+" ", " "+want+" ") {
			c.s.t.Errorf("%s is not in %s", want, got)
		}
	}
}

// TestInfoWhileAShardHangs: the operator who looks why a shard hangs is told which one does, and what the others have.
func TestInfoWhileAShardHangs(t *testing.T) {
	s := startQueues(t)
	s.attach()
	c := s.client()
	for ordinal := range testShards {
		c.send("set "+s.keyOn(ordinal)+" x", "get "+s.keyOn(ordinal))
	}
	c.send("select 1", "set k x", "pexpireat k 1867409445000", "select 0")
	const hung = 1
	queues := map[bool]int{}
	for i := range 9 {
		name := fmt.Sprint("q", i)
		c.send("q.enqueue "+name+" p", "q.pause "+name)
		queues[s.router.Route(0, []byte("codeq:q:"+name+":inprog")).Shard == hung]++
	}
	before := c.send("info")
	c.contains(before, "db1:keys=1,expires=1,avg_ttl=0", "keyspace_hits:4")
	if strings.Contains(before, "unanswered") {
		t.Error(before)
	}
	all := c.send("info queues")
	c.contains(all, "queues:9", "complete:1")

	tx := s.holdShard(hung)
	after := c.answers("info")
	c.contains(after, "# Server", "# Stats", "# Keyspace", "keyspace_hits:4", "shards_unanswered:default-1")
	if n := strings.Count(after, "shards_unanswered:"); n != 2 {
		t.Errorf("%d sections name the shard", n)
	}
	c.contains(c.answers("info queues"), fmt.Sprint("queues:", queues[false]), fmt.Sprint("queues_paused:", queues[false]),
		fmt.Sprint("tasks_ready:", queues[false]), "complete:0", "shards_unanswered:default-1")
	c.contains(c.answers("memory stats"), "$10 keys.count")
	c.contains(c.send("info server clients commandstats"), "redis_version:7.0.15")
	c.contains(c.answers("config resetstat"), "+OK")
	c.contains(c.answers("info stats"), "keyspace_hits:0")
	tx.End()
	c.contains(c.send("info keyspace stats queues"), "keyspace_hits:0", "queues:9", "complete:1", "db1:keys=1,expires=1,avg_ttl=0")
}

// TestKeyspaceWhileAShardHangs counts what is on the other shards, of keys that are on several as well.
func TestKeyspaceWhileAShardHangs(t *testing.T) {
	const hung = 2
	s := startSpread(t, 4)
	c := s.client()
	for ordinal := range 4 {
		c.send("set "+s.keyOn(ordinal)+" x", "q.enqueue mail p id "+idOn(ordinal, 1))
	}
	c.contains(c.send("info keyspace"), "db0:keys=7,expires=0,avg_ttl=0") // the tasks, their retention, the list
	tx := s.holdShard(hung)
	c.contains(c.answers("info keyspace"), "db0:keys=6,expires=0,avg_ttl=0", "shards_unanswered:default-2")
	tx.End()
	c.want(":7", "dbsize")
}

// TestPinnedDatabaseWhileItsShardHangs: nothing is known of its queues, and nobody waits to learn so.
func TestPinnedDatabaseWhileItsShardHangs(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	c.send(fmt.Sprint("select ", pinnedDatabase), "q.enqueue mail p")
	tx := s.holdShard(3)
	c.contains(c.answers("q.stats mail"), "$5 ready :0", "$8 complete :0")
	c.contains(c.answers("q.queues"), "*2 $1 0 *0")
	c.contains(c.answers("info queues"), "queues:0", "complete:0")
	tx.End()
	c.contains(c.send("q.stats mail"), "$5 ready :1", "$8 complete :1")
}

// TestObserveWhatIsDue: a task whose time has come is not made pending by who looks, if its home hangs.
func TestObserveWhatIsDue(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	id, queue := "", ""
	for i := 0; id == ""; i++ {
		name, odd := fmt.Sprint("q", i), fmt.Sprint("id", i)
		if s.router.Home([]byte(odd)) < s.router.Route(0, []byte("codeq:q:"+name+":inprog")).Shard {
			id, queue = odd, name
		}
	}
	c.send("q.enqueue " + queue + " p delay 1000 id " + id)
	tx := s.holdShard(s.router.Home([]byte(id)))
	s.clock.Advance(time.Second)
	c.contains(c.send("q.stats "+queue), "$5 ready :0", "$7 delayed :1", "$8 complete :1")
	got := c.answers("info keyspace queues")
	for i := 0; i < 100 && !strings.Contains(got, "tasks_delayed:1"); i++ { // the queue's timekeeper may have its shard while it waits for the home
		got = c.answers("info keyspace queues")
	}
	if c.contains(got, "tasks_delayed:1", "complete:0"); strings.Count(got, "db0:") != 1 {
		t.Error(got)
	}
	tx.End()
	c.send("q.get " + id)
	c.contains(c.send("zcard codeq:q:"+queue+":delayed", "q.stats "+queue), "$5 ready :1", "$7 delayed :0")
}

// TestDueWhileAHomeHangs: the tasks of one queue whose time has come are made pending, but for those whose home hangs, and the queue's
// shard is free meanwhile.
func TestDueWhileAHomeHangs(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	const hung = testShards - 1
	queue, stuck, other := "", "", ""
	for i := 0; queue == "" || stuck == "" || other == ""; i++ {
		id := fmt.Sprint("id", i)
		if s.router.Route(0, []byte("codeq:q:q"+fmt.Sprint(i)+":inprog")).Shard == 0 {
			queue = fmt.Sprint("q", i)
		}
		switch s.router.Home([]byte(id)) {
		case hung:
			stuck = id
		case 1:
			other = id
		}
	}
	pending := "lrange codeq:q:" + queue + ":pending:0 0 -1"
	c.send("q.enqueue "+queue+" p delay 1000 id "+stuck, "q.enqueue "+queue+" p delay 1000 id "+other)
	tx := s.holdShard(hung)
	s.clock.Advance(time.Second)
	c.elapse(bulks(other), pending)
	tx.End()
	c.elapse(bulks(stuck, other), pending)
	c.want(":0", "zcard codeq:q:"+queue+":delayed")
}

// elapse sends a line until the reply is as wanted, and lets time pass meanwhile.
func (c *client) elapse(want, line string) {
	for c.send(line) != want {
		c.s.clock.Advance(10 * time.Millisecond)
		runtime.Gosched()
	}
}

// TestObserverPanics: the shards are free again.
func TestObserverPanics(t *testing.T) {
	look := declare("look", "LOOK", 0, nil, func(c *Call) error {
		return c.observe(c.server.store.All(), func(*shard.Tx) error { panic("on purpose") })
	})
	look.Scope = scopeSession
	s := startServer(t, look)
	s.client().want("-ERR internal error, nothing was changed: the server's log has the reason", "look")
	for ordinal := range testShards {
		s.holdShard(ordinal).End()
	}
}
