package commands

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/scripting"
	"codeq/shard"
)

// What a command costs is the rows that it reads and writes. These tests run commands on collections of two sizes, and fail
// where the larger one costs more; where Redis' own cost grows with the size, a command is in linear, with the reason.

const (
	costSmall = 1_500
	costLarge = 6_000
	// costSlack is what the larger size may cost more: the walk within a run of a rank index, a window that is filled.
	costSlack = 1_200
)

// costCases are commands on collections of n elements, made by fillForCosts. {low}, {mid} and {high} are 5, n/2 and n-5,
// {next} is n/2+9, {n} is n. What stands before "|" is run first and does not count. Behind a case that begins with "!" the
// collections that it names are made anew.
func costCases() []string {
	return slices.Concat(listCosts(), hashAndSetCosts(), zsetCosts(), rankCosts(), streamCosts(), keyCosts())
}

func listCosts() []string {
	return []string{
		"LINDEX l {mid}", "LINDEX l -{mid}", "LSET l {mid} x", "LRANGE l {mid} {next}", "LRANGE l -9 -1", "LRANGE holes -9 -1",
		"LRANGE holes -400 -391", "LINSERT l BEFORE e{low} x", "LINSERT l AFTER e{low} x", "LPUSH l y y|LREM l 1 y", "RPUSH l y y|LREM l -1 y",
		"RPUSH holes y y|LREM holes -1 y", "LPOS l e{low}", "LPOS l e{high} RANK -1", "LPOS holes e{high} RANK -1", "LPOS l none MAXLEN 10",
		"LTRIM l 5 -5", "!LTRIM l 5 -5|LTRIM l 1 -1", "!LTRIM l {mid} -1|LPOP l", "!LTRIM holes 0 {mid}|RPOP holes", "LLEN l",
		"LPUSH l x", "RPUSH l x", "LPUSHX l x", "RPUSHX l x", "LPOP l", "LPOP l 5", "RPOP l", "RPOPLPUSH l l2", "LMOVE l l2 LEFT RIGHT",
		"LMPOP 1 l LEFT COUNT 5", "BLPOP l 0", "BRPOP l 0", "BLMOVE l l2 LEFT RIGHT 0", "BRPOPLPUSH l l2 0", "BLMPOP 0 1 l RIGHT",
	}
}

func hashAndSetCosts() []string {
	return []string{
		"HGET h e{mid}", "HMGET h e{mid} e{low} none", "HSET h e{mid} x", "HSET h new x", "HMSET h new x", "HSETNX h e{low} x", "HDEL h e{mid}",
		"HEXISTS h none", "HLEN h", "HSTRLEN h e{mid}", "HINCRBY h count 1", "HINCRBYFLOAT h count 1", "HRANDFIELD h", "HRANDFIELD h 5",
		"HRANDFIELD h -5 WITHVALUES", "HSCAN h 0", "HSCAN h 0 COUNT 100",
		"SADD s new", "SREM s e{mid}", "SISMEMBER s e{mid}", "SMISMEMBER s e{mid} none", "SCARD s", "SPOP s", "SPOP s 5", "SRANDMEMBER s",
		"SRANDMEMBER s 5", "SRANDMEMBER s -5", "SSCAN s 0", "SMOVE s s2 e{mid}", "SINTER s few", "SINTERCARD 2 s few", "SINTERSTORE d s few",
		"SDIFF few s", "SDIFFSTORE d few s",
	}
}

func zsetCosts() []string {
	return []string{
		"ZADD z {mid} new", "ZADD z 5 e{mid}", "ZADD z GT CH {n} e{low}", "ZINCRBY z 1 e{mid}", "ZREM z e{mid}", "ZSCORE z e{mid}",
		"ZMSCORE z e{mid} none", "ZCARD z", "ZPOPMIN z", "ZPOPMAX z 5", "ZMPOP 1 z MAX", "BZPOPMIN z 0", "BZPOPMAX z 0", "BZMPOP 0 1 z MIN COUNT 5",
		"ZRANDMEMBER z", "ZRANDMEMBER z 5", "ZRANDMEMBER z -5 WITHSCORES", "ZSCAN z 0", "ZRANGEBYSCORE z {mid} +inf LIMIT 5 9",
		"ZREVRANGEBYSCORE z {mid} -inf LIMIT 5 9", "ZRANGEBYLEX zl [e{mid} + LIMIT 5 9", "ZREVRANGEBYLEX zl [e{mid} - LIMIT 5 9",
		"ZRANGE z 0 9", "ZRANGE z -9 -1", "ZREVRANGE z 0 9", "ZREVRANGE z -9 -1", "ZREMRANGEBYSCORE z {mid} {next}", "ZREMRANGEBYLEX zl [e{mid} [e{mid}9",
		"ZINTER 2 z few", "ZINTERCARD 2 z few", "ZINTERSTORE d 2 z few", "ZDIFF 2 few z", "ZDIFFSTORE d 2 few z", "ZCOUNT z {mid} {next}",
		"ZCOUNT z -inf 9", "GEOADD geo 1 1 new", "GEOPOS geo e{mid}", "GEODIST geo e{mid} e{low}", "GEOHASH geo e{mid}",
		"GEOSEARCH geo FROMMEMBER e{mid} BYRADIUS 1 m", "GEOSEARCHSTORE d geo FROMMEMBER e{mid} BYRADIUS 1 m", "GEORADIUS geo 1 1 1 m",
		"GEORADIUS_RO geo 1 1 1 m", "GEORADIUSBYMEMBER geo e{mid} 1 m", "GEORADIUSBYMEMBER_RO geo e{mid} 1 m",
	}
}

// rankCosts are asked of sorted sets that have been asked for a rank before, with or without changes since.
func rankCosts() []string {
	var cases []string
	for _, before := range []string{"ZRANK z e{low}", "ZPOPMIN z 900", "ZREMRANGEBYSCORE z {mid} {next}", "ZADD z {mid}.5 new1 {mid}.6 new2", "RENAME z {z}|RENAME {z} z"} {
		for _, ask := range []string{
			"ZRANK z e{next}", "ZREVRANK z e{next}", "ZCOUNT z 1000 {mid}", "ZCOUNT z {mid} +inf", "ZRANGE z {mid} {next}", "ZREVRANGE z {mid} {next}",
			"ZREMRANGEBYRANK z {mid} {next}", "ZRANGESTORE d z {mid} {next}",
		} {
			cases = append(cases, "!ZRANK z e{next}|"+before+"|"+ask)
		}
	}
	return append(cases, "ZLEXCOUNT zl - [e{mid}|ZLEXCOUNT zl [e{low} +", "ZLEXCOUNT zl - [e{mid}|ZADD zl 0 e{mid}x|ZLEXCOUNT zl - [e{mid}")
}

func streamCosts() []string {
	return []string{
		"XADD x * f v", "XADD x MAXLEN ~ {n} * f v", "!XADD x MAXLEN {n} * f v", "XLEN x", "XRANGE x {mid} + COUNT 5", "XREVRANGE x {mid} - COUNT 5",
		"XREVRANGE x + - COUNT 5", "XREAD COUNT 5 STREAMS x {mid}", "XDEL x {mid}", "XTRIM x MINID 20", "XTRIM x MINID ~ 300", "XTRIM x MAXLEN {n}",
		"!XTRIM x MINID {mid}|XRANGE x - + COUNT 5", "!XSETID x 99999999-1", "XINFO STREAM x", "XINFO GROUPS x", "XINFO CONSUMERS x g",
		"XGROUP CREATE x new $", "XGROUP SETID x g {mid}", "XGROUP CREATECONSUMER x g new", "!XGROUP DESTROY x g", "XGROUP DELCONSUMER x g new",
		"XREADGROUP GROUP g c1 COUNT 5 STREAMS x 0", "XREADGROUP GROUP g c2 COUNT 5 STREAMS x >", "XACK x g {mid}", "XCLAIM x g c2 0 {mid}",
		"XAUTOCLAIM x g c2 0 {mid} COUNT 5", "XPENDING x g", "XPENDING x g {mid} + 5", "XPENDING x g - + 5 c2",
	}
}

// keyCosts are of keys and databases. Database 1 has n keys, the others the collections.
func keyCosts() []string {
	cases := []string{
		"DBSIZE", "RANDOMKEY", "SCAN 0", "SCAN 0 COUNT 50", "SELECT 1|DBSIZE", "SELECT 1|RANDOMKEY", "SELECT 1|SCAN 0", "SELECT 1|SCAN 0 COUNT 50",
		"SWAPDB 0 1|SWAPDB 0 1", "SWAPDB 0 1|SWAPDB 0 1|DBSIZE", "!SELECT 1|FLUSHDB", "!SELECT 1|FLUSHDB ASYNC",
		"PFADD hll x", "PFCOUNT hll", "PFMERGE hll2 hll",
	}
	for _, command := range []string{
		"EXISTS", "TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST", "TOUCH", "OBJECT ENCODING", "OBJECT FREQ", "OBJECT IDLETIME",
		"OBJECT REFCOUNT",
	} {
		cases = append(cases, command+" z")
	}
	for _, command := range []string{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"} {
		cases = append(cases, command+" z 9999999999")
	}
	for _, key := range []string{"l", "h", "s", "z", "x"} {
		cases = append(cases, "MEMORY USAGE "+key)
		for _, command := range []string{"DEL " + key, "UNLINK " + key, "EXPIREAT " + key + " 1", "MOVE " + key + " 2", "RENAME " + key + " {" + key + "}",
			"RENAMENX " + key + " {" + key + "}", "SET " + key + " x"} {
			cases = append(cases, "!"+command)
		}
	}
	return cases
}

// linear lists the commands on keys that are in no case, each with what its cost grows with in Redis, too.
func linear() map[string]string {
	const whole, value, result = "all elements", "the value's bytes", "what it combines"
	reasons := map[string][]string{
		whole: {"hgetall", "hkeys", "hvals", "smembers", "sort", "sort_ro", "copy", "dump", "restore", "restore-asking", "keys", "debug",
			"xinfo|stream", "migrate"},
		result: {"sunion", "sunionstore", "zunion", "zunionstore"},
		value: {"append", "bitcount", "bitfield", "bitfield_ro", "bitop", "bitpos", "decr", "decrby", "get", "getbit", "getdel", "getex", "getrange", "getset",
			"incr", "incrby", "incrbyfloat", "lcs", "mget", "mset", "msetnx", "psetex", "set", "setbit", "setex", "setnx", "setrange", "strlen", "substr"},
		"12 KiB at most":         {"pfdebug"},
		"what the script does":   {"eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"},
		"the number of the keys": {"watch"},
		"nothing":                {"object|help"},
	}
	names := map[string]string{}
	for reason, commands := range reasons {
		for _, name := range commands {
			names[name] = reason
		}
	}
	return names
}

// costFills makes the collections, each by its name. keys are those of database 1.
func costFills() map[string]func(c *client, n int) {
	many := func(command string, element func(i int) string) func(*client, int) {
		return func(c *client, n int) {
			const batch = 1000
			for from := 0; from < n; from += batch {
				var line strings.Builder
				line.WriteString(command)
				for i := from; i < min(n, from+batch); i++ {
					line.WriteString(" " + element(i))
				}
				c.send(line.String())
			}
		}
	}
	name := func(i int) string { return fmt.Sprint("e", i) }
	holes := many("RPUSH holes", name)
	return map[string]func(c *client, n int){
		"l": many("RPUSH l", name),
		"holes": func(c *client, n int) {
			holes(c, n)
			c.want(":1", fmt.Sprint("LREM holes 1 e", n/2))
			c.want(":1", fmt.Sprint("LREM holes 1 e", n-200))
		},
		"h":   many("HSET h", func(i int) string { return fmt.Sprint("e", i, " v") }),
		"s":   many("SADD s", name),
		"z":   many("ZADD z", func(i int) string { return fmt.Sprint(i, " e", i) }),
		"zl":  many("ZADD zl", func(i int) string { return fmt.Sprint("0 e", i) }),
		"geo": many("GEOADD geo", func(i int) string { return fmt.Sprint(i%180, " ", i/180%80, " e", i) }),
		"few": func(c *client, _ int) { c.send("SADD few e1 e2 e3") },
		"hll": func(c *client, _ int) { c.send("PFADD hll a b c") },
		"keys": func(c *client, n int) {
			c.send("SELECT 1")
			many("MSET", func(i int) string { return fmt.Sprint("key", i, " v") })(c, n)
			c.send("SELECT 0")
		},
		"x": fillStream,
	}
}

// fillStream makes a stream whose group has entries pending, most for c1.
func fillStream(c *client, n int) {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprint("XADD x ", i+1, "-1 f v")
	}
	c.send(lines...)
	c.want("+OK", "XGROUP CREATE x g 0")
	c.send(fmt.Sprint("XREADGROUP GROUP g c1 COUNT ", n-100, " STREAMS x >"), "XREADGROUP GROUP g c2 COUNT 50 STREAMS x >")
}

// evict makes the cache forget everything but the rank indexes: for each shard there is a string whose size pushes all else
// out.
func (s *testServer) evict() {
	c := s.client()
	c.send("SELECT 15")
	for ordinal := range testShards {
		if key := s.keyOn(ordinal); c.send("STRLEN "+key) == ":0" {
			c.send("SET " + key + " " + strings.Repeat("x", testCache/testShards))
		}
	}
}

// costs runs the cases on collections of n elements and returns what they cost, twice for each case: with an empty cache, and
// when the same was asked just before.
func costs(t *testing.T, n int) map[string][2]int64 {
	s := startServerOf(t, vfs.NewMem(), testStart(), scripting.Options{}, families())
	filler, fills := s.client(), costFills()
	for _, fill := range fills {
		fill(filler, n)
	}
	mid := n / 2
	replace := strings.NewReplacer("{low}", "5", "{mid}", strconv.Itoa(mid), "{next}", strconv.Itoa(mid+9), "{high}", strconv.Itoa(n-5), "{n}", strconv.Itoa(n))
	cost := map[string][2]int64{}
	for _, line := range costCases() {
		var found [2]int64
		for i := range found {
			steps := strings.Split(replace.Replace(strings.TrimPrefix(line, "!")), "|")
			found[i] = s.costOf(steps, i == 1)
			if !strings.HasPrefix(line, "!") {
				continue
			}
			filler.send("SELECT 2", "FLUSHDB", "SELECT 0")
			for key, fill := range fills {
				if slices.Contains(strings.Fields(steps[0]+" "+steps[len(steps)-1]), key) {
					filler.send("DEL "+key, "DEL {"+key+"}")
					fill(filler, n)
				}
			}
		}
		cost[line] = found
	}
	return cost
}

// costOf runs the steps and returns what the last one cost.
func (s *testServer) costOf(steps []string, cached bool) int64 {
	s.t.Helper()
	c := s.client()
	s.evict()
	last := len(steps) - 1
	for _, step := range steps[:last] {
		c.send(step)
	}
	if cached {
		c.send(steps[last])
	} else {
		s.evict()
	}
	before := s.rows()
	if reply := c.send(steps[last]); !cached && strings.HasPrefix(reply, "-") {
		s.t.Errorf("%q: %s", steps, reply)
	}
	return s.rows() - before
}

// rows is how many rows the store has read and written.
func (s *testServer) rows() int64 {
	stats := s.storeStats()
	return stats.RowsRead + stats.RowsWritten
}

func (s *testServer) storeStats() shard.Stats {
	tx := s.store.NewTx()
	tx.Begin(s.store.All())
	defer tx.End()
	return tx.Stats()
}

func TestCostsDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts rows, one command after the other, which the race detector would take minutes for")
	}
	small, large := costs(t, costSmall), costs(t, costLarge)
	for _, line := range slices.Sorted(maps.Keys(small)) {
		for i, state := range []string{"not cached", "cached"} {
			if a, b := small[line][i], large[line][i]; b > a+costSlack {
				t.Errorf("%s, %s: %d rows of %d elements, %d of %d", line, state, a, costSmall, b, costLarge)
			}
		}
	}
}

// TestCostsAreKnown wants each command on keys or databases to have a case, or a reason for having none.
func TestCostsAreKnown(t *testing.T) {
	tried := map[string]bool{}
	for _, line := range costCases() {
		words := strings.Fields(strings.ToLower(strings.TrimPrefix(line[strings.LastIndexByte(line, '|')+1:], "!")))
		tried[words[0]], tried[words[0]+"|"+words[min(1, len(words)-1)]] = true, true
	}
	exempt := linear()
	for _, c := range families() {
		if c.HasKeys() && !c.IsContainer() && !tried[c.Name] && exempt[c.Name] == "" {
			t.Errorf("%s is in no case and has no reason for that", c.Name)
		}
	}
}

// TestClaimCostsDoNotGrow: what a claim reads and writes grows neither with the backlog nor, where it is for a share, with the number of
// slots that other tasks are in, whether these were indexed from the first one on or there before.
func TestClaimCostsDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts rows, which the race detector would take long for")
	}
	const own, share = 12, "share 0 of 128" // slots 00 and 01
	claims := []string{"q.claim w commands 1 mail", "q.claim w " + share + " commands 1 mail", "q.claim w slots 00-00 commands 1 mail"}
	cost := func(tasks, slots int, before bool) (costs [][2]int64) {
		s := startQueues(t)
		c := s.client()
		if !before {
			c.want("*-1", claims[1]) // from here on the queue is indexed
		}
		for i := range own {
			c.send("q.enqueue mail p id " + slotID(0, i))
		}
		for i := range tasks {
			c.send("q.enqueue mail p id " + slotID(2+i%slots, i))
		}
		c.send("q.enqueue mail p id " + slotID(0xff, 0))
		for len(c.claimed("q.claim w slots ff-ff commands 1 mail")) == 0 { // until all are indexed
			runtime.Gosched()
		}
		for _, claim := range claims { // the first of each builds what later ones use
			if ids := c.claimed(claim); len(ids) != 1 {
				t.Fatalf("%s yields %v", claim, ids)
			}
		}
		for _, claim := range claims {
			var found [2]int64
			for i := range found {
				if i == 0 {
					s.evict()
				}
				rows := s.rows()
				if ids := c.claimed(claim); len(ids) != 1 {
					t.Fatalf("%s yields %v", claim, ids)
				}
				found[i] = s.rows() - rows
			}
			costs = append(costs, found)
		}
		return costs
	}
	for _, before := range []bool{false, true} {
		small, deep, wide := cost(500, 1, before), cost(4000, 1, before), cost(4000, 253, before)
		t.Logf("there before is %v: rows read and written, of 500 tasks in one slot %v, of 4000 %v, in 253 slots %v", before, small, deep, wide)
		for i, claim := range claims {
			for j, state := range []string{"not cached", "cached"} {
				if a, b := small[i][j], max(deep[i][j], wide[i][j]); b > a+200 {
					t.Errorf("%s, %s: %d rows with 500 other tasks, %d with more in more slots", claim, state, a, b)
				}
			}
		}
	}
}

// rowsOfTask claims a task of the queue mail and ends it, and returns how many rows that has read.
func rowsOfTask(s *testServer, c *client) int64 {
	before := s.storeStats().RowsRead
	ids := c.claimed("q.claim w commands 1 mail")
	if len(ids) != 1 {
		c.s.t.Fatalf("a claim yields %v", ids)
	}
	c.want("+OK", "q.submit w "+ids[0])
	return s.storeStats().RowsRead - before
}

// TestClaimsReadTogether: the first claim of tasks that are not cached reads those of the next claims as well, so the others read
// nothing, nor do the ends of the tasks. When these are used up, twice as many are read.
func TestClaimsReadTogether(t *testing.T) {
	const tasks = 200
	s := startQueues(t)
	c := s.client()
	c.send("q.enqueue mail payload")
	c.want("+OK", "q.submit w "+c.claimed("q.claim w commands 1 mail")[0]) // so that there are results
	c.send(fmt.Sprintf("q.menqueue mail %d%s", tasks, strings.Repeat(" payload", tasks)))
	s.evict()
	for i, together := 0, 16; i < tasks; i, together = i+together, 2*together {
		together = min(together, tasks-i)
		// The list's window, the tasks with the ends of their retention, and some rows that stand between them.
		if n := int(rowsOfTask(s, c)); n < 2*together || n > 6*together {
			t.Errorf("claim %d, which reads %d tasks, reads %d rows", i, together, n)
		}
		for j := 1; j < together; j++ {
			if n := rowsOfTask(s, c); n > 0 {
				t.Errorf("claim %d reads %d rows", i+j, n)
			}
		}
	}
}

// TestClaimsOfNewTasks: tasks that the cache still has are claimed and end without reading anything, also those that were there before the first
// result was, and those of another client as soon as one of them was claimed; and whatever results come from elsewhere, all are counted once.
func TestClaimsOfNewTasks(t *testing.T) {
	const tasks = 100
	s := startQueues(t)
	c := s.client()
	endAll := func(which string, readers int) {
		t.Helper()
		n := 0
		for range tasks {
			if rowsOfTask(s, c) > 0 {
				n++
			}
		}
		if n > readers {
			t.Errorf("of the claims of %s %d read something, %d at most should", which, n, readers)
		}
	}
	many := fmt.Sprintf("q.menqueue mail %d%s", tasks, strings.Repeat(" payload", tasks))
	c.send(many)
	endAll("tasks from before the first result", 0)
	c.send(many)
	endAll("tasks from after it", 0)
	c.send(many)
	c.want(":1", "hset codeq:results another {}")
	endAll("tasks from before a result of another client", 0)
	for i := range tasks {
		id := fmt.Sprint("raw", i)
		c.send(fmt.Sprintf(`hset codeq:tasks %s {"id":"%s","command":"mail","payload":"p","status":"PENDING","createdAt":"2026-01-02T03:04:05Z"}`, id, id),
			"zadd codeq:tasks:ttl 4e9 "+id, "lpush codeq:q:mail:pending:0 "+id)
	}
	endAll("another client's tasks", 3*s.router.Topology().Count()) // their ids are at home on all shards, and 64 are looked for together
	c.send(many)
	id := c.claimed("q.claim w commands 1 mail")[0]
	before := s.storeStats().RowsRead
	c.want("$-1", "q.result "+id)
	if n := s.storeStats().RowsRead - before; n > 0 {
		t.Errorf("to tell that a task in progress has no result, %d rows are read", n)
	}
	c.want(":1", "hset codeq:results "+id+" {}")
	c.want("+OK", "q.submit w "+id)
	c.want(fmt.Sprint(":", 4*tasks+2), "hlen codeq:results")
}
