package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/codeqclient"
	"codeq/resp"
	"codeq/supplier"
)

// startSpread is a server with all commands whose queues are spread over n shards.
func startSpread(t testing.TB, n int) *testServer {
	t.Helper()
	s, err := openRouted(t, vfs.NewMem(), "task", supplier.Options{Topology: supplier.Topology{Default: n}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idOn is an id at home on a shard, of many there are.
func idOn(ordinal, i int) string {
	return string(supplier.AppendID(nil, ordinal, [16]byte{byte(i >> 8), byte(i)}))
}

// TestSpreadClaimsInTurns: claims go round the shards that have something, in the order of age within a shard.
func TestSpreadClaimsInTurns(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	for i := range 3 {
		for _, ordinal := range []int{1, 3} {
			c.send("q.enqueue mail p id " + idOn(ordinal, i))
		}
	}
	c.want(":6", "llen codeq:q:mail:pending:0")
	taken, last := map[int][]string{}, -1
	for range 6 {
		id := claimedID(c)
		home := s.router.Home([]byte(id))
		if home == last {
			t.Errorf("%d had two turns in a row while another shard had tasks", home)
		}
		taken[home], last = append(taken[home], id), home
	}
	for _, ordinal := range []int{1, 3} {
		want := []string{idOn(ordinal, 0), idOn(ordinal, 1), idOn(ordinal, 2)}
		if !slices.Equal(taken[ordinal], want) {
			t.Errorf("taken on %d: %v, want %v", ordinal, taken[ordinal], want)
		}
	}
	c.want("*-1", "q.claim w commands 1 mail")
	c.want(":6", "scard codeq:q:mail:inprog")
}

// TestSharesInTurns: clients that claim one share each, in step, find each share on one shard after the other.
func TestSharesInTurns(t *testing.T) {
	const shards = 4
	s := startSpread(t, shards)
	c := s.client()
	for i := range 200 * shards {
		c.send("q.enqueue mail p id " + idOn(i%shards, i/shards<<8|i/shards)) // in slots of all shares
	}
	homes := make([]map[int]bool, shards)
	for i := range 5 * shards {
		share := i % shards
		if homes[share] == nil {
			homes[share] = map[int]bool{}
		}
		for _, id := range c.claimed(fmt.Sprintf("q.claim w share %d of %d commands 1 mail", share, shards)) {
			homes[share][s.router.Home([]byte(id))] = true
		}
	}
	for share, on := range homes {
		if len(on) != shards {
			t.Errorf("share %d was claimed on the shards %v", share, on)
		}
	}
}

// claimedID claims a task of the queue mail and returns its id.
func claimedID(c *client) string {
	return strings.Fields(c.send("q.claim w commands 1 mail"))[5]
}

// TestSpreadLocks: enqueueing and claiming take one lock, that of the task's home, and so does a claim script.
func TestSpreadLocks(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	script := strings.Join(strings.Fields(codeqclient.OldClaimScript), "%20")
	sum := sha1.Sum([]byte(strings.ReplaceAll(script, "%20", " ")))
	c.want("+OK", "config set per-shard-scripts "+hex.EncodeToString(sum[:]))
	spread := func(line string) (reply string, n int64) {
		before := s.spreadTransactions()
		reply = c.send(line)
		return reply, s.spreadTransactions() - before - 1 // the look itself is one
	}
	for _, line := range []string{"q.enqueue mail p", "q.claim w commands 1 mail", "q.enqueue mail p",
		"eval " + script + " 2 codeq:q:mail:pending:0 codeq:q:mail:inprog 5"} {
		if reply, n := spread(line); n != 0 || strings.HasPrefix(reply, "-") || strings.HasPrefix(reply, "$-1") {
			t.Errorf("%s: %d transactions over shards, reply %s", line, n, reply)
		}
	}
	if reply, n := spread("eval return%20redis.call('rpop',KEYS[1]) 1 codeq:q:mail:pending:0"); n != 1 || reply != "$-1" {
		t.Errorf("a script of no kind: %d transactions over shards, reply %s; want one that sees the whole", n, reply)
	}
	c.want(":2", "scard codeq:q:mail:inprog")
}

// spreadTransactions is how many transactions held more than one shard, the one that looks not yet included.
func (s *testServer) spreadTransactions() int64 {
	tx := s.store.NewTx()
	tx.Begin(s.store.All())
	defer tx.End()
	return tx.Stats().Spread
}

// TestSpreadClaimScript: codeQ's script gets what there is, wherever, and nil only when there is nothing.
func TestSpreadClaimScript(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	sha := strings.TrimPrefix(c.send("script load return%20redis.call('rpop',KEYS[1])"), "$40 ")
	c.want("+OK", "config set per-shard-scripts "+sha)
	var want, got []string
	for i := range 20 {
		want = append(want, idOn(i%3, i))
		c.send("lpush codeq:q:raw:pending:0 " + want[i])
	}
	for range 20 {
		got = append(got, strings.TrimPrefix(c.send("evalsha "+sha+" 1 codeq:q:raw:pending:0"), "$36 "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("taken are %v, want %v", got, want)
	}
	c.want("$-1", "evalsha "+sha+" 1 codeq:q:raw:pending:0")
	c.want(":1", "lpush codeq:q:raw:pending:0 "+idOn(2, 99))
	c.want("$36 "+idOn(2, 99), "evalsha "+strings.ToUpper(sha)+" 1 codeq:q:raw:pending:0")
}

// TestSpreadKeys: a spread key is one key to those who count and list.
func TestSpreadKeys(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	for i := range 8 {
		c.send("q.enqueue mail p id "+idOn(i%4, i), "q.enqueue sms p delay 5000")
	}
	want := []string{"codeq:q:mail:pending:0", "codeq:q:sms:delayed", "codeq:tasks", "codeq:tasks:ttl"}
	for _, line := range []string{"keys *", "scan 0 count 1000"} {
		var got []string
		for _, word := range strings.Fields(c.send(line)) {
			if strings.HasPrefix(word, "codeq:") {
				got = append(got, word)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	c.want(":4 +list :4", "dbsize", "type codeq:q:mail:pending:0", "exists "+strings.Join(want, " "))
	c.want("+OK :8", "rename codeq:q:mail:pending:0 elsewhere", "llen elsewhere")
	c.want("+OK :8 :4", "rename elsewhere codeq:q:mail:pending:9", "llen codeq:q:mail:pending:9", "dbsize")
	c.want("-"+string(resp.ErrWrongType), "rename codeq:q:mail:pending:9 codeq:q:mail:dlq")
	c.want("*0 :0", "sort codeq:q:mail:inprog alpha", "sort codeq:q:mail:inprog alpha store sorted") // a set in which nothing is
	c.want(":1 :3", "del codeq:q:mail:pending:9", "dbsize")
	c.want("+OK :0", "flushdb", "dbsize")
}

// TestSpreadBlockingPops: whoever waits for a spread list is served wherever an element came.
func TestSpreadBlockingPops(t *testing.T) {
	s := startSpread(t, 4)
	c, dial := s.client(), s.listen()
	for line, left := range map[string]string{
		"brpop codeq:q:mail:pending:0 0":                 ":1 $36 " + idOn(1, 2),
		"blmpop 0 1 codeq:q:mail:pending:0 left count 5": ":0 $-1",
	} {
		dial().send(line)
		s.untilBlocked(1)
		c.want(":2", "lpush codeq:q:mail:pending:0 "+idOn(1, 1)+" "+idOn(1, 2))
		s.untilBlocked(0)
		c.want(left, "llen codeq:q:mail:pending:0", "lindex codeq:q:mail:pending:0 0")
		c.send("del codeq:q:mail:pending:0")
	}
	moved := dial()
	moved.send("blmove codeq:q:mail:pending:0 codeq:q:mail:pending:1 right left 0")
	s.untilBlocked(1)
	c.want(":1", "lpush codeq:q:mail:pending:0 "+idOn(3, 7))
	s.untilBlocked(0)
	c.want("*1 $36 "+idOn(3, 7)+" *0", "lrange codeq:q:mail:pending:1 0 -1", "lrange codeq:q:mail:pending:0 0 -1")
}

// TestSpreadPause: a paused queue gives nothing on any shard; whoever waits is served when the last key of the pause goes.
func TestSpreadPause(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	c.want("+OK", "q.pause mail")
	for i := range 4 {
		c.send("q.enqueue mail p id " + idOn(i, 0))
	}
	c.want("*-1", "q.claim w commands 1 mail")
	if stats := c.send("q.stats mail"); !strings.Contains(stats, "$6 paused :1") || !strings.Contains(stats, "$5 ready :4") {
		t.Errorf("the statistics are %s", stats)
	}
	w := s.listen()()
	w.send("q.claim v block 0 commands 1 mail")
	s.untilBlocked(1)
	c.want(":1", "del codeq:q:mail:s:default-2:paused")
	w.expectTask(idOn(2, 0))
	c.want("+OK", "q.resume mail")
	c.want(":0", "exists codeq:q:mail:s:default-0:paused")
}

// TestSpreadWholeQueue: what concerns the whole queue is about all its fragments.
func TestSpreadWholeQueue(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	for i := range 8 {
		c.send("q.enqueue mail p maxattempts 1 id " + idOn(i%4, i))
	}
	for range 4 {
		c.want("*1 $4 dead", "q.nack w "+claimedID(c))
	}
	if stats := c.send("q.stats mail"); !strings.Contains(stats, "$5 ready :4") || !strings.Contains(stats, "$3 dlq :4") ||
		!strings.Contains(stats, "*4 $9 default-0 $9 default-1 $9 default-2 $9 default-3") {
		t.Errorf("the statistics are %s", stats)
	}
	if peeked := c.send("q.peek mail count 3 offset 1"); strings.Count(peeked, "$7 payload") != 3 {
		t.Errorf("peeked are %s", peeked)
	}
	c.want(":3", "q.requeue mail count 3")
	c.want(":7", "q.purge mail state pending")
	c.want(":1", "q.purge mail state dlq")
	c.want(":0", "hlen codeq:tasks")
	if route := c.send("q.route mail id " + idOn(3, 1)); !strings.Contains(route, "$9 default-3") {
		t.Errorf("the route is %s", route)
	}
}

// TestSpreadMany: tasks that are enqueued together are spread over all shards.
func TestSpreadMany(t *testing.T) {
	s := startSpread(t, 4)
	at := map[int]int{}
	for i, word := range strings.Fields(s.client().send("q.menqueue mail 8 1 2 3 4 5 6 7 8")) {
		if i > 0 && i%2 == 0 {
			at[s.router.Home([]byte(word))]++
		}
	}
	for ordinal := range 4 {
		if at[ordinal] != 2 {
			t.Errorf("of 8 tasks %d are on shard %d", at[ordinal], ordinal)
		}
	}
}

// TestSpreadQuota: limits are those of the queue, not of a shard.
func TestSpreadQuota(t *testing.T) {
	s := startSpread(t, 4)
	c := s.client()
	c.want("+OK", "config set queues mail%20max-pending=3;sms%20max-rate=2")
	for _, test := range []struct {
		queue string
		limit int
	}{{"mail", 3}, {"sms", 2}} {
		for i := range test.limit + 1 {
			reply := c.send("q.enqueue " + test.queue + " p")
			if refused := strings.HasPrefix(reply, "-QUOTA"); refused != (i == test.limit) {
				t.Errorf("%s, task %d: %s", test.queue, i, reply)
			}
		}
	}
}

// TestPlacementIsRemembered: a store is not opened with a supplier that would not find its tasks.
func TestPlacementIsRemembered(t *testing.T) {
	topology := supplier.Topology{Default: 2, Named: []string{"premium"}}
	whole := supplier.Options{Topology: topology}
	mapped := supplier.Options{Topology: topology, DefaultShard: "default-1", Commands: map[string]string{"new": "premium"}}
	moved := supplier.Options{Topology: topology, DefaultShard: "default-1", Commands: map[string]string{"mail": "premium"}}
	start := supplier.Options{Topology: topology, DefaultShard: "default-1"}
	tests := []struct {
		name, before, after string
		from, to            supplier.Options
		empty               bool
		reason              string
	}{
		{"the same", "task", "task", whole, whole, false, ""},
		{"to task", "static", "task", start, whole, false, "would not find them: go back to supplier static"},
		{"from task", "task", "static", whole, start, false, "would not find them: go back to supplier task"},
		{"to task without tasks", "hash", "task", whole, whole, true, ""},
		{"from task without tasks", "task", "hash", whole, whole, true, ""},
		{"a mapping for a new queue", "static", "static", start, mapped, false, ""},
		{"a mapping for a queue with tasks", "static", "static", start, moved, false, `tasks at codeq:q:mail:pending:0 (database 0) on shard "default-1"`},
		{"another default shard", "static", "static", start, whole, false, "would not find them"},
		{"another default shard without tasks", "static", "static", start, whole, true, ""},
	}
	const tasks = 40 // so that all of them on one shard, which either supplier would find, is as good as impossible
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s, err := openRouted(t, fs, tt.before, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			c := s.client()
			for range tasks {
				c.send("q.enqueue mail p")
			}
			if tt.empty {
				c.want(fmt.Sprint(":", tasks), "q.purge mail state pending")
			}
			s.stop()
			for range 2 {
				again, err := openRouted(t, fs, tt.after, tt.to)
				if tt.reason == "" {
					if err != nil {
						t.Fatal(err)
					}
					again.stop()
					continue
				}
				if err == nil || !strings.Contains(err.Error(), tt.reason) {
					t.Fatalf("the error is %v, want one with %q", err, tt.reason)
				}
			}
			if tt.reason != "" {
				if _, err := openRouted(t, fs, tt.before, tt.from); err != nil {
					t.Errorf("with the former supplier: %v", err)
				}
			}
		})
	}
}

// TestSpreadEvenly: new tasks are spread over the shards: the sum of squared deviations stays below the 99.9 % quantile.
func TestSpreadEvenly(t *testing.T) {
	const tasks = 10_000
	for n, quantile := range map[int]float64{4: 16.27, 16: 37.70} {
		s := startSpread(t, n)
		c := s.client()
		for range tasks {
			c.send("q.enqueue mail p")
		}
		sum, want := 0.0, float64(tasks)/float64(n)
		tx := s.store.NewTx()
		tx.Begin(s.store.All())
		for ordinal := range n {
			tx.Narrow(ordinal)
			list, err := tx.DB(0).List([]byte("codeq:q:mail:pending:0"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := list.Len()
			if err != nil {
				t.Fatal(err)
			}
			sum += (float64(got) - want) * (float64(got) - want) / want
		}
		tx.End()
		if sum > quantile {
			t.Errorf("%d shards: chi-squared is %.1f, want at most %.2f", n, sum, quantile)
		}
	}
}
