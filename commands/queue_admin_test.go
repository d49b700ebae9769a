package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeq/resp"
	"codeq/shard"
	"codeq/supplier"
)

// stats is the reply of Q.STATS in RESP2.
func stats(command, tenant, byPriority, ready, rest, shardName string) string {
	w := strings.Fields(rest)
	return "*22 " + strings.TrimPrefix(flat("command "+command+" tenant"), "*3 ") + bulkOf(tenant) + " $5 ready :" + ready +
		" $15 readyByPriority *10 " + byPriority + " $7 delayed :" + w[0] + " $10 inProgress :" + w[1] + " $3 dlq :" + w[2] +
		" $13 oldestReadyMs :" + w[3] + " $6 paused :" + w[4] + " $8 complete :" + w[5] + " $6 shards *1" + bulkOf(shardName)
}

func bulkOf(s string) string {
	if s == "" {
		return " $0 "
	}
	return strings.TrimPrefix(flat(s), "*1")
}

// shardOf names the shard of a queue.
func (s *testServer) shardOf(base string) string {
	return s.router.Topology().Name(s.router.Route(0, []byte(base+":inprog")).Shard)
}

func TestStats(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want(stats("none", "", ":0 :0 :0 :0 :0 :0 :0 :0 :0 :0", "0", "0 0 0 0 0 1", s.shardOf("codeq:q:none")), "q.stats NONE")
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2 priority 9", "q.enqueue a p id 3 priority 9 delay 9999", "q.enqueue a p id 4 maxattempts 1 priority 5",
		"q.enqueue a p id 5 priority 5", "q.claim w count 2 commands 1 a", "q.nack w 4", "q.pause a")
	s.clock.Advance(1500 * time.Millisecond)
	c.want(stats("a", "", ":1 :0 :0 :0 :0 :1 :0 :0 :0 :0", "2", "1 1 1 1500 1 1", s.shardOf("codeq:q:a")), "q.stats A")
	if got := c.send("info queues"); !strings.Contains(got, "# Queues queues:1 queues_paused:1 tasks_ready:2 tasks_delayed:1 tasks_in_progress:1 tasks_dead:1 oldest_ready_ms:1500") {
		t.Error(got)
	}
}

// TestQueuesWithinATransaction: Q.QUEUES lists a queue that the same transaction has made, and DBSIZE and KEYS count the keys of a queue that is spread
// once.
func TestQueuesWithinATransaction(t *testing.T) {
	for _, s := range []*testServer{startQueues(t), startSpread(t, testShards)} {
		c := s.client()
		one := "*2 $1 0 *1 *22 $7 command $1 a "
		got := c.send("multi", "q.menqueue a 3 p p p", "q.queues match a", "dbsize", "keys *pending*", "exec")
		keys := ":3 *1 $19 codeq:q:a:pending:0" // besides the tasks and their retention
		if i := strings.Index(got, one); i < 0 || !strings.Contains(got[i:], "$5 ready :3") || !strings.HasSuffix(got, keys) {
			t.Error(got)
		}
		if got = c.send("eval redis.call('q.enqueue','b','p')return%20redis.call('q.queues','match','b')[2] 0"); !strings.Contains(got, "$7 command $1 b") {
			t.Error(got)
		}
		fails := "eval redis.call('q.enqueue','d','p')redis.call('q.queues')error('x') 0" // so it is undone
		got = c.send("multi", "q.enqueue e p", fails, "q.queues match d", "q.queues match e", "exec", "q.queues")
		if !strings.Contains(got, "@user_script:1. *2 $1 0 *0 *2 $1 0 *1 *22 $7 command $1 e ") || strings.Contains(got, "command $1 d") {
			t.Error(got)
		}
		got = c.send("multi", "q.enqueue c p", "flushdb", "q.queues", "exec")
		if !strings.HasSuffix(got, "*2 $1 0 *0") {
			t.Error(got)
		}
		c.want("*2 $1 0 *0", "q.queues")
	}
}

// TestStatsWhileAShardHangs: what can't be learnt in time is left out, and said to be.
func TestStatsWhileAShardHangs(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p", "q.enqueue b p", "q.enqueue c p", "q.enqueue d p", "q.enqueue e p")
	hung := s.router.Route(0, []byte("codeq:q:a:inprog")).Shard
	tx := s.store.NewTx()
	tx.Begin(shard.MaskOf(hung))
	c.want("*-1", "q.claim w commands 1 none") // a shard that answers
	if got := c.answers("q.stats a"); !strings.Contains(got, "$8 complete :0") {
		t.Error(got)
	}
	if got := c.answers("q.shards"); !strings.Contains(got, fmt.Sprintf("$9 default-%d $5 state $4 busy", hung)) ||
		strings.Count(got, "$5 state $2 ok") != testShards-1 {
		t.Error(got)
	}
	others := 0
	for _, queue := range []string{"b", "c", "d", "e"} {
		if s.router.Route(0, []byte("codeq:q:"+queue+":inprog")).Shard == hung {
			continue
		}
		others++
		if got := c.send("q.stats " + queue); !strings.Contains(got, "$5 ready :1") || !strings.Contains(got, "$8 complete :1") {
			t.Error(got)
		}
	}
	if got := c.answers("q.queues"); strings.Count(got, "$5 ready :1") != others {
		t.Errorf("of %d queues on other shards: %s", others, got)
	}
	tx.End()
	if got := c.send("q.queues"); strings.Count(got, "$8 complete :1") != 5 {
		t.Error(got)
	}
}

// TestSpreadStatsWhileAShardHangs: of a queue over all shards is told what those have that answer, in time.
func TestSpreadStatsWhileAShardHangs(t *testing.T) {
	const shards, hung = 4, 1
	s := startSpread(t, shards)
	c := s.client()
	for _, queue := range []string{"mail", "sms"} {
		for i := range shards {
			id := func(n int) string { return idOn(i, 10*len(queue)+n) }
			c.send("q.enqueue "+queue+" p maxattempts 1 id "+id(0), "q.claim w commands 1 "+queue, "q.nack w "+id(0),
				"q.enqueue "+queue+" p delay 99999 id "+id(1))
		}
		for i := range shards {
			c.send("q.enqueue " + queue + " p priority 3 id " + idOn(i, 10*len(queue)+2))
		}
	}
	tx := s.store.NewTx()
	tx.Begin(shard.MaskOf(hung))
	got := c.answers("q.stats mail")
	for _, want := range []string{"$5 ready :3 ", "$7 delayed :3 ", "$3 dlq :3 ", "$8 complete :0",
		"*4 $9 default-0 $9 default-1 $9 default-2 $9 default-3"} {
		if !strings.Contains(got, want) {
			t.Errorf("the statistics lack %q: %s", want, got)
		}
	}
	if got := c.answers("q.queues"); strings.Count(got, "$5 ready :3 ") != 2 || strings.Count(got, "$8 complete :0") != 2 {
		t.Error(got)
	}
	tx.End()
	if got := c.send("q.queues"); strings.Count(got, "$5 ready :4 ") != 2 || strings.Count(got, "$8 complete :1") != 2 {
		t.Error(got)
	}
}

func TestQueuesAreListed(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue B p tenant t:u id 2", "lpush codeq:q:raw:pending:3 x", "sadd codeq:q:{tag:t}:dlq x",
		"q.claim w commands 1 a", "q.submit w 1", "set codeq:q:odd x", "lpush codeq:q:gone:pending:0 x", "lpop codeq:q:gone:pending:0")
	all := c.send("q.queues")
	for _, name := range []string{"a $6 tenant $0", "b $6 tenant $3 t:u", "raw $6 tenant $0", "tag $6 tenant $1 t", "gone $6 tenant $0"} {
		if !strings.Contains(all, name) {
			t.Errorf("%s is not in %s", name, all)
		}
	}
	if n := strings.Count(all, "$7 command"); n != 5 {
		t.Errorf("%d queues in %s", n, all)
	}
	if got := c.send("q.queues match b:*"); strings.Count(got, "$7 command") != 1 {
		t.Error(got)
	}
	seen, cursor := 0, "0"
	for range 10 {
		got := c.send("q.queues count 2 cursor " + cursor)
		seen += strings.Count(got, "$7 command")
		if cursor = strings.Fields(got)[2]; cursor == "0" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("%d queues by cursor", seen)
	}
	c.want("+OK", "flushall")
	c.want("*2 $1 0 *0", "q.queues")
}

func TestPeek(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.enqueue a p id 3", "q.enqueue a p id 4 priority 5", "q.enqueue a p id 5 delay 2000",
		"q.enqueue a p id 6 delay 1000", "q.enqueue b p id 7 maxattempts 1", "q.claim w commands 1 b", "lpush codeq:q:a:pending:0 none")
	for line, want := range map[string]string{
		"q.peek a": "4 1 2 3", "q.peek a offset 1 count 2": "1 2", "q.peek a offset 3 count 9": "3", "q.peek a offset 9": "",
		"q.peek a state delayed": "6 5", "q.peek a state DELAYED offset 1": "5", "q.peek b state inprog": "7", "q.peek b state dlq": "",
	} {
		var ids []string
		for _, part := range strings.Split(c.send(line), "$2 id $1 ")[1:] {
			ids = append(ids, part[:1])
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s shows %q, want %q", line, got, want)
		}
	}
	c.want(":4 :2 :1", "llen codeq:q:a:pending:0", "zcard codeq:q:a:delayed", "scard codeq:q:b:inprog")
	c.want("-ERR there is no such state: use PENDING, DELAYED, INPROG or DLQ", "q.peek a state done")
}

// TestPeekDeeply asks for places behind many others in a delayed set, most of which is not in memory.
func TestPeekDeeply(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	const tasks = 1500
	for i := range tasks {
		c.send(fmt.Sprint("q.enqueue a p id ", i, " delay ", 1000+i))
	}
	for _, offset := range []int{300, 700, tasks - 3, tasks, tasks + 1} {
		s.evict()
		got := strings.Count(c.send(fmt.Sprint("q.peek a state delayed count 1000 offset ", offset)), "$2 id $")
		if want := max(min(tasks-offset, 1000), 0); got != want {
			t.Errorf("%d tasks are shown from %d on, want %d", got, offset, want)
		}
	}
}

func TestRequeue(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	for _, id := range []string{"1", "2", "3", "4"} {
		c.send("q.enqueue a p id "+id+" maxattempts 1 priority 2", "q.claim w commands 1 a", "q.nack w "+id+" reason x")
	}
	c.want(":2", "q.requeue a ids 3 2 9 3")
	c.want("*2 $1 3 $1 2", "lrange codeq:q:a:pending:2 0 -1")
	c.want(flat("id 2 command a payload p priority :2 status PENDING lastKnownLocation PENDING_LIST maxAttempts :1 createdAt "+testNow+
		" updatedAt "+testNow+" attempts :0"), "q.get 2")
	c.want(":1 :1 :0", "q.requeue a count 1", "q.requeue a", "q.requeue a")
	c.want(":4 :0", "llen codeq:q:a:pending:2", "scard codeq:q:a:dlq")
	c.want("-ERR syntax error", "q.requeue a count 1 ids 1 1")
}

func TestPurge(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2 priority 7", "q.enqueue a p id 3 delay 1000", "q.enqueue a p id 4 priority 9", "q.claim w commands 1 a")
	c.want(":2 :1 :1 :0", "q.purge a state pending", "q.purge a state delayed", "q.purge a state inprog", "q.purge a state dlq")
	c.want(":0 *0", "dbsize", "keys *")
	c.want("-ERR syntax error", "q.purge a tenant t")
}

// TestPurgeCount: a part of a place goes, what would be claimed first before the rest.
func TestPurgeCount(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1 priority 1", "q.enqueue a p id 2 priority 7", "q.enqueue a p id 3 priority 7", "q.enqueue a p id 4 priority 1",
		"q.enqueue a p id 5 delay 2000", "q.enqueue a p id 6 delay 1000", "lpush codeq:q:a:pending:9 gone")
	c.want(":2", "q.purge a count 2 state pending") // 2 and 3; what stands for no task goes with them
	c.want(":0 :0 *2 $1 4 $1 1", "llen codeq:q:a:pending:9", "llen codeq:q:a:pending:7", "lrange codeq:q:a:pending:1 0 -1")
	c.want(":1 :1 *1 $1 5", "q.purge a state pending count 1", "q.purge a state delayed count 1", "zrange codeq:q:a:delayed 0 -1")
	c.want(":1 :0 :1 :0", "q.purge a state pending count 5", "q.purge a state pending count 5", "q.purge a state delayed count 5", "dbsize")
	c.want("-ERR COUNT is out of range: give 1 to 2147483647", "q.purge a state pending count 0")
	c.send("q.enqueue a p id 7 priority 9", "set codeq:q:a:pending:3 x")
	c.want("-"+string(resp.ErrWrongType)+" :1", "q.purge a state pending count 1", "llen codeq:q:a:pending:9") // nothing is taken then
}

// TestPurgeLeavesWhatIsElsewhere: clients that work in steps leave entries behind in pending lists, of tasks that are claimed, delayed or have ended.
func TestPurgeLeavesWhatIsElsewhere(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.enqueue a p id 3", "q.enqueue a p id 4 maxattempts 1", "q.claim w count 4 commands 1 a",
		"q.submit w 2 result 1", "q.nack w 3 delay 5000", "q.nack w 4", "q.enqueue a p id 5", "lpush codeq:q:a:pending:0 1 2 3 4 5 6", "hset codeq:tasks 7 {",
		"lpush codeq:q:a:pending:0 7")
	c.want(":2", "q.purge a state pending") // 5, which was there twice, and 7
	c.want(":4 :1 :1 :1 :0", "hlen codeq:tasks", "sismember codeq:q:a:inprog 1", "zcard codeq:q:a:delayed", "scard codeq:q:a:dlq", "llen codeq:q:a:pending:0")
	c.want("+OK :1", "q.submit w 1", "q.purge a state dlq")
	c.want(flat("taskId 2 status COMPLETED result :1 completedAt "+testNow), "q.result 2")
	c.want("$-1", "q.result 3")
}

func TestPausedQueue(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	c.want("+OK +OK", "q.pause a", "q.pause a tenant t")
	c.send("q.enqueue a p id 1")
	c.want("*-1", "q.claim w commands 1 a")
	w := dial()
	w.send("q.claim w block 0 commands 1 a")
	s.untilBlocked(1)
	c.send("q.enqueue a p id 2")
	c.want(":2", "llen codeq:q:a:pending:0")
	c.want("+OK", "q.resume a")
	w.expectTask("1")
	c.want(":1", "exists codeq:q:a:t:paused")
}

func TestCleanup(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue a p id 1", "q.enqueue a p id 2", "q.enqueue a p id 3", "q.claim w count 2 commands 1 a", "q.submit w 1", "q.submit w 2")
	c.want(":0 :1 :1 :0", "q.cleanup", "q.cleanup before 1767414845000 count 1", "q.cleanup before 1867409445000", "q.cleanup before 1867409445000")
	c.want(":1 :1", "hlen codeq:tasks", "zcard codeq:tasks:ttl")
}

// TestCleanupPassesOverWhatWaits: tasks that wait, however many, don't hide those that have ended, also when another retention ends for them
// before the time that is given.
func TestCleanupPassesOverWhatWaits(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	const waiting, ended = 5000, 30
	c.send(fmt.Sprintf("q.menqueue a %d%s", waiting, strings.Repeat(" p", waiting)))
	s.clock.Advance(time.Second)
	c.send(fmt.Sprintf("q.menqueue a %d%s priority 9", ended, strings.Repeat(" p", ended)))
	for _, id := range c.claimed(fmt.Sprintf("q.claim w count %d commands 1 a", ended)) {
		c.send("q.submit w " + id)
	}
	later := s.clock.NowMs() + 30*24*3600*1000
	for range ended / 10 {
		c.want(":10", fmt.Sprintf("q.cleanup before %d count 10", later))
	}
	c.want(fmt.Sprintf(":0 :%d :%[1]d", waiting), fmt.Sprintf("q.cleanup before %d count 10", later), "hlen codeq:tasks", "zcard codeq:tasks:ttl")
	c.want(":0", fmt.Sprintf("zcount codeq:tasks:ttl -inf %d", later/1000)) // none of those that wait is met again
}

func TestRouteAndShards(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.want(flat("shard "+s.shardOf("codeq:q:a:t")+" key codeq:q:a:t:inprog why the%20supplier%20puts%20the%20queue%20there"), "q.route A tenant t")
	id := string(supplier.AppendID(nil, 2, [16]byte{}))
	c.want(flat("shard default-2 key codeq:lease:"+id+" why the%20id%20was%20made%20for%20the%20shard"), "q.route a id "+id)
	c.send("q.enqueue a p", "q.claim w commands 1 a")
	if got := c.send("q.shards"); !strings.HasPrefix(got, "*4 *12 $4 name $9 default-0 $5 state $2 ok $9 sizeBytes :") ||
		strings.Count(got, "$6 queues :1 $6 leases :1") != 1 {
		t.Error(got)
	}
}
