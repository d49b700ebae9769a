package supplier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// newRouter makes a router; without a supplier in c, with `hash`.
func newRouter(t testing.TB, c RouterConfig) *Router {
	t.Helper()
	if c.Topology.Default == 0 {
		c.Topology = Topology{Default: 4, Named: []string{"premium", "bulk"}}
	}
	if c.Supplier == nil {
		s, err := NewRegistry().New("hash", Options{Topology: c.Topology})
		if err != nil {
			t.Fatal(err)
		}
		c.Supplier = s
	}
	r, err := NewRouter(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func bucketOf(text string) Route { return Route{Shard: int(Hash64([]byte(text)) % 4)} }

type routeCase struct {
	db   int
	key  string
	want Route
}

func expectRoutes(t *testing.T, r *Router, cases []routeCase) {
	t.Helper()
	for _, c := range cases {
		for range 2 { // the second time from the cache
			if got := r.Route(c.db, []byte(c.key)); got != c.want {
				t.Errorf("database %d, %q: %+v, want %+v", c.db, c.key, got, c.want)
			}
		}
	}
}

func TestRouteOrdinaryKeys(t *testing.T) {
	r := newRouter(t, RouterConfig{
		Patterns: []string{"bull:{queue}:*", "rq:queue:{q}", "bull:{other}:*", "{first}:*:x*y*:end", "exact:{name}:tail"},
	})
	expectRoutes(t, r, []routeCase{
		{0, "plain", bucketOf("plain")},
		{0, "", bucketOf("")},
		{2, "plain", bucketOf("plain")},
		{99, "plain", bucketOf("plain")},
		{-1, "plain", bucketOf("plain")},
		// Redis' rules for hash tags.
		{0, "a{tag}b", bucketOf("tag")},
		{0, "{tag}", bucketOf("tag")},
		{0, "a{tag}b{other}", bucketOf("tag")},
		{0, "a{}b{other}", bucketOf("a{}b{other}")},
		{0, "a{{tag}}b", bucketOf("{tag")},
		{0, "a}b{tag}", bucketOf("tag")},
		{0, "a{tag", bucketOf("a{tag")},
		// Patterns.
		{0, "bull:emails:wait", bucketOf("emails")},
		{0, "bull:emails:", bucketOf("emails")},
		{0, "bull:emails", bucketOf("bull:emails")},
		{0, "bull::wait", bucketOf("bull::wait")},
		{0, "bull:{tag}:wait", bucketOf("tag")},
		{0, "rq:queue:low", bucketOf("low")},
		{0, "rq:queue:low:x", bucketOf("rq:queue:low:x")},
		{0, "f:a:xby:end", bucketOf("f")},
		{0, "f::xy:end", bucketOf("f")},
		{0, "f:a:xby:endx", bucketOf("f:a:xby:endx")},
		{0, "f:a:yx:end", bucketOf("f:a:yx:end")},
		{0, "exact:n:tail", bucketOf("n")},
		{0, "exact:n:tails", bucketOf("exact:n:tails")},
	})
}

func TestRouteCodeqKeys(t *testing.T) {
	r := newRouter(t, RouterConfig{Databases: map[int]string{3: "premium", 1: "default-2"}})
	home := newID(2, [16]byte{1})
	premium := newID(4, [16]byte{2})
	outside := newID(6, [16]byte{3})
	expectRoutes(t, r, []routeCase{
		// Queue keys.
		{0, "codeq:q:c:inprog", bucketOf("c")},
		{0, "codeq:q:c:t:pending:9", bucketOf("c:t")},
		{0, "codeq:q:{c:t}:pending:9", bucketOf("c:t")},
		{0, "other:{c:t}:anything", bucketOf("c:t")},
		{0, "codeq:q:c:t:s:premium:dlq", Route{Shard: 4}},
		{0, "codeq:q:{c:t}:s:bulk:dlq", Route{Shard: 5}},
		{0, "codeq:q:c:s:default-3:dlq", Route{Shard: 3}},
		{0, "codeq:q:c:t:s:gone:dlq", bucketOf("c:t")},
		{0, "codeq:q:C:inprog", bucketOf("codeq:q:C:inprog")},
		// Rows of tasks.
		{0, "codeq:tasks", Route{Kind: Partitioned, Type: PartitionHash}},
		{0, "codeq:results", Route{Kind: Partitioned, Type: PartitionHash}},
		{0, "codeq:tasks:ttl", Route{Kind: Partitioned, Type: PartitionZSet}},
		{0, "codeq:tasks:other", bucketOf("codeq:tasks:other")},
		{0, "codeq:lease:" + home, Route{Shard: 2}},
		{0, "codeq:lease:" + premium, Route{Shard: 4}},
		{0, "codeq:lease:" + outside, bucketOf(outside)},
		{0, "codeq:lease:my-{id}", bucketOf("my-{id}")},
		{0, "codeq:lease:", bucketOf("")},
		{0, "codeq:idempo:k", bucketOf("codeq:idempo:k")},
		// Pinned databases.
		{3, "plain", Route{Shard: 4}},
		{3, "codeq:tasks", Route{Shard: 4}},
		{3, "codeq:q:c:s:bulk:dlq", Route{Shard: 4}},
		{3, "codeq:lease:" + home, Route{Shard: 4}},
		{1, "codeq:tasks:ttl", Route{Shard: 2}},
	})
}

func TestNewRouterRefuses(t *testing.T) {
	top := Topology{Default: 2, Named: []string{"premium"}}
	hash, err := NewRegistry().New("hash", Options{Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		config RouterConfig
		want   string
	}{
		{RouterConfig{Supplier: hash}, "at least 1"},
		{RouterConfig{Topology: top}, "needs a supplier"},
		{RouterConfig{Topology: top, Supplier: spreading{hash}}, "a TaskRouter has to leave tasks at home"},
		{RouterConfig{Topology: top, Supplier: hash, Databases: map[int]string{3: "gold"}}, `database-shards: 3: there is no shard "gold"`},
		{RouterConfig{Topology: top, Supplier: hash, Databases: map[int]string{-1: "premium"}}, "no database -1"},
		{RouterConfig{Topology: top, Supplier: hash, Databases: map[int]string{MaxDatabases: "premium"}}, "no database 65536"},
		{RouterConfig{Topology: top, Supplier: hash, Patterns: make([]string, maxPatterns+1)}, "at most 64"},
		{RouterConfig{Topology: top, Supplier: hash, Patterns: []string{strings.Repeat("x", 257)}}, "257 characters"},
	}
	for pattern, want := range map[string]string{
		"":            "has no {capture}",
		"bull:*":      "has no {capture}",
		"bull:{queue": "has no {capture}",
		"bull:{}:*":   "not a name",
		"bull:{*}":    "not a name",
		"bull:{a:b}":  "not a name",
		"{a}:{b}":     "more than one capture",
		"a}:{b}":      "stray braces",
		"*:{b}":       "star before",
		"bull:{a}x":   "without a colon",
		"bull:{a}*":   "without a colon",
	} {
		tests = append(tests, struct {
			config RouterConfig
			want   string
		}{RouterConfig{Topology: top, Supplier: hash, Patterns: []string{pattern}}, want})
	}
	for _, tt := range tests {
		_, err := NewRouter(tt.config)
		expectError(t, err, tt.want)
	}
}

// TestRouteSpread: under the supplier task the places of tasks are partitioned, what a queue has besides is where hash puts it.
func TestRouteSpread(t *testing.T) {
	top := Topology{Default: 4, Named: []string{"premium", "bulk"}}
	s, err := NewRegistry().New("task", Options{Topology: top})
	if err != nil {
		t.Fatal(err)
	}
	r := newRouter(t, RouterConfig{Topology: top, Supplier: s, Databases: map[int]string{3: "premium"}})
	part := func(of PartitionType) Route { return Route{Kind: Partitioned, Type: of} }
	expectRoutes(t, r, []routeCase{
		{0, "codeq:q:c:pending:0", part(PartitionList)},
		{0, "codeq:q:c:t:pending:9", part(PartitionList)},
		{0, "codeq:q:{c:t}:inprog", part(PartitionSet)},
		{0, "codeq:q:c:dlq", part(PartitionSet)},
		{0, "codeq:q:c:delayed", part(PartitionZSet)},
		{0, "codeq:q:c:s:gone:dlq", part(PartitionSet)},
		{0, "codeq:q:c:t:paused", bucketOf("c:t")},
		{0, "codeq:q:c:t:rate", bucketOf("c:t")},
		{0, "codeq:q:c:s:bulk:pending:9", Route{Shard: 5}},
		{0, "codeq:q:c:s:default-2:delayed", Route{Shard: 2}},
		{0, "codeq:q:C:inprog", bucketOf("codeq:q:C:inprog")},
		{0, "codeq:tasks", part(PartitionHash)},
		{3, "codeq:q:c:pending:0", Route{Shard: 4}},
	})
	if !r.Spreads(0) || r.Spreads(3) {
		t.Errorf("spread are 0: %v, 3: %v; want the first only, since the other is pinned", r.Spreads(0), r.Spreads(3))
	}
	var got []string
	for _, key := range TaskKeys([]byte("codeq:q:c:t:inprog")) {
		got = append(got, string(key))
	}
	if len(got) != 13 || got[9] != "codeq:q:c:t:pending:9" || got[12] != "codeq:q:c:t:dlq" {
		t.Errorf("the keys of a queue are %q", got)
	}
	if got := TaskKeys([]byte("codeq:tasks")); got != nil {
		t.Errorf("codeq:tasks is no queue's, and has %q", got)
	}
	shards, err := r.QueueShards(context.Background(), []byte("c"), nil)
	if err != nil || !slices.Equal(shards, []int{0, 1, 2, 3}) {
		t.Errorf("a queue is on %v, %v; want the default group", shards, err)
	}
}

// TestTaskShardIsHome: every id, of ours or not, is where the supplier says and spread evenly: the sum of squared deviations
// stays below the 99.9 % quantile of its distribution.
func TestTaskShardIsHome(t *testing.T) {
	const ids = 10_000
	for n, quantile := range map[int]float64{4: 16.27, 16: 37.70} {
		top := Topology{Default: n, Named: []string{"premium"}}
		s, err := NewRegistry().New("task", Options{Topology: top})
		if err != nil {
			t.Fatal(err)
		}
		r := newRouter(t, RouterConfig{Topology: top, Supplier: s})
		seen := make([]float64, top.Count())
		for i := range ids {
			id := fmt.Sprintf("task-%d", i)
			name, err := s.(TaskRouter).TaskShard(context.Background(), "c", "t", id)
			home := r.Home([]byte(id))
			if err != nil || name != top.Name(home) {
				t.Fatalf("%s is on %s, %v; its home is %s", id, name, err, top.Name(home))
			}
			seen[home]++
		}
		sum, want := 0.0, float64(ids)/float64(n)
		for _, count := range seen[:n] {
			sum += (count - want) * (count - want) / want
		}
		if sum > quantile || seen[n] != 0 {
			t.Errorf("%d shards have %v tasks, chi-squared is %.1f; want at most %.2f", n, seen, sum, quantile)
		}
		named := newID(n, [16]byte{})
		if name, _ := s.(TaskRouter).TaskShard(context.Background(), "c", "", named); name != "premium" {
			t.Errorf("%s is on %s; it was made for premium", named, name)
		}
	}
}

type spreading struct{ ShardSupplier }

func (spreading) TaskShard(context.Context, string, string, string) (string, error) {
	return "default-0", nil
}

// scripted answers as a test wants and counts how often it was asked.
type scripted struct {
	answer string
	err    error
	asked  int
}

func (s *scripted) CurrentShard(context.Context, string, string) (string, error) {
	s.asked++
	return s.answer, s.err
}

func (s *scripted) QueueShards(context.Context, string, string) ([]string, error) {
	return []string{"default-0", s.answer}, s.err
}

func TestRouteSupplierFails(t *testing.T) {
	s := &scripted{err: errors.New("out of order")}
	r := newRouter(t, RouterConfig{Supplier: s})
	key := []byte("codeq:q:c:t:inprog")
	expectError(t, r.Route(0, key).Err, `command "c", tenant "t": out of order`)
	if _, err := r.QueueShards(t.Context(), []byte("C"), nil); err == nil {
		t.Error("QueueShards hides the supplier's error")
	}

	s.err, s.answer = nil, "gold"
	expectError(t, r.Route(0, key).Err, `there is no shard "gold"`)
	if _, err := r.QueueShards(t.Context(), []byte("C"), nil); err == nil {
		t.Error("QueueShards hides an unknown shard")
	}
	expectError(t, r.Route(0, []byte("codeq:q:c:t:s:bulk:inprog")).Err, "")

	s.answer = "premium"
	if got := r.Route(0, key); got != (Route{Shard: 4}) {
		t.Errorf("after the error: %+v, want shard 4", got)
	}
	asked := s.asked
	r.Route(0, key)
	r.Route(0, []byte("codeq:q:{c:t}:pending:0"))
	if shard, err := r.QueueShard([]byte("C"), []byte("t")); shard != 4 || err != nil {
		t.Errorf("the queue's shard is %d, %v; want 4", shard, err)
	}
	if s.asked != asked {
		t.Error("the supplier's answer was not remembered")
	}
	if got, err := r.QueueShards(t.Context(), []byte("C"), nil); err != nil || fmt.Sprint(got) != "[0 4]" {
		t.Errorf("QueueShards: %v, %v; want [0 4]", got, err)
	}
}

func TestLongQueuesAreNotCached(t *testing.T) {
	s := &scripted{answer: "premium"}
	r := newRouter(t, RouterConfig{Supplier: s})
	key := []byte("codeq:q:c:" + strings.Repeat("t", maxRemembered) + ":inprog")
	for i := range 3 {
		if got := r.Route(0, key); got != (Route{Shard: 4}) || s.asked != i+1 {
			t.Fatalf("%+v after %d questions; want shard 4 after %d", got, s.asked, i+1)
		}
	}
}

// TestRouteAgreesWithQueueShard: raw keys and Q.* commands meet on one shard,
// whatever the cache holds.
func TestRouteAgreesWithQueueShard(t *testing.T) {
	r := newRouter(t, RouterConfig{})
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			Command: []byte(rapid.StringMatching(`[a-zA-ZÜü]{1,3}`).Draw(t, "command")),
			Tenant:  []byte(rapid.StringMatching(`[a-zA-Z:]{0,3}`).Draw(t, "tenant")),
			State:   State(rapid.IntRange(0, 3).Draw(t, "state")),
			Tagged:  rapid.Bool().Draw(t, "tagged"),
		}
		if k.Validate() != nil {
			return
		}
		want, err := r.QueueShard(k.Command, k.Tenant)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Route(0, k.AppendTo(nil)); got != (Route{Shard: want}) {
			t.Fatalf("%q is at %+v, its queue on shard %d", k.AppendTo(nil), got, want)
		}
	})
}

// TestUniform holds the distribution against the chi-squared test, for keys that count, also with the same number twice or
// with letters that share their low bits, and ids that are random; the seed is fixed, so it cannot flake.
func TestUniform(t *testing.T) {
	const perShard = 2000
	for _, shards := range []int{2, 4, 6, 16} {
		r := newRouter(t, RouterConfig{Topology: Topology{Default: shards}})
		rnd := rand.New(rand.NewPCG(3, 4))
		route := func(format string, args ...any) int { return r.Route(0, fmt.Appendf(nil, format, args...)).Shard }
		draws := map[string]func(i int) int{
			"plain keys":   func(i int) int { return route("job:%d", i) },
			"twice":        func(i int) int { return route("job:%d:%d", i, i) },
			"twice in hex": func(i int) int { return route("%x%x", i, i) },
			"padded":       func(i int) int { return route("%08d", i) },
			"last letters": func(i int) int { return route("%d%c", i/4, "aeim"[i%4]) },
			"queues":       func(i int) int { return route("codeq:q:send:tenant-%d:dlq", i) },
			"leases":       func(int) int { return route("codeq:lease:%016x", rnd.Uint64()) },
			"homes": func(int) int {
				return r.Home(fmt.Appendf(nil, "%08x-%04x-4%03x-a%03x-%012x", rnd.Uint32(), rnd.IntN(1<<16),
					rnd.IntN(1<<12), rnd.IntN(1<<12), rnd.Int64N(1<<48)))
			},
			"slots": func(i int) int { // which the digits of an id cut
				var id [16]byte
				SetKeyPrefix(&id, fmt.Appendf(nil, "customer-%d", i))
				return int(binary.BigEndian.Uint32(id[:4])>>16) * shards >> 16
			},
		}
		for name, draw := range draws {
			counts := make([]int, shards)
			for i := range shards * perShard {
				counts[draw(i)]++
			}
			chi := 0.0
			for _, n := range counts {
				d := float64(n - perShard)
				chi += d * d / perShard
			}
			// With 15 degrees of freedom, one of a thousand fair draws exceeds 37.7; with fewer it is rarer.
			if chi > 37.7 {
				t.Errorf("%d shards, %s: chi-squared is %.1f, counts %v", shards, name, chi, counts)
			}
		}
	}
}

var hotKeys = []string{
	"plain:key", "a{tag}b", "bull:emails:wait", "codeq:tasks", "codeq:tasks:ttl",
	"codeq:q:generate_master:acme:pending:9", "codeq:q:{generate_master:acme}:inprog", "codeq:q:größe:s:premium:dlq",
	"codeq:lease:" + newID(1, [16]byte{9}), "codeq:lease:9b2f3c1e-8a4d-4f6b-9c0e-2d1a7b5e6f30",
}

func TestRouteDoesNotAllocate(t *testing.T) {
	r := newRouter(t, RouterConfig{Patterns: []string{"bull:{queue}:*x*", "bull:{queue}:*"}, Databases: map[int]string{3: "premium"}})
	for _, text := range hotKeys {
		key := []byte(text)
		if n := testing.AllocsPerRun(100, func() { r.Route(0, key) }); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
	id := []byte(newID(1, [16]byte{9}))
	command, tenant := []byte("send"), []byte("acme")
	if n := testing.AllocsPerRun(100, func() { r.Home(id) }); n != 0 {
		t.Errorf("Home: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = r.QueueShard(command, tenant) }); n != 0 {
		t.Errorf("QueueShard: %v allocations", n)
	}
}

// TestRouteConcurrently makes goroutines fight for the cells of the cache.
func TestRouteConcurrently(t *testing.T) {
	r := newRouter(t, RouterConfig{})
	var done sync.WaitGroup
	for g := range 4 {
		done.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 20_000 {
				queue := fmt.Sprintf("c:%d", rnd.IntN(3*memoCells))
				if got := r.Route(0, []byte("codeq:q:"+queue+":inprog")); got != bucketOf(queue) {
					t.Errorf("%s is at %+v, want %+v", queue, got, bucketOf(queue))
					return
				}
			}
		})
	}
	done.Wait()
}

func FuzzRoute(f *testing.F) {
	for _, key := range hotKeys {
		f.Add(0, []byte(key))
	}
	f.Add(3, []byte("codeq:q:{c:t}:s:bulk:dlq"))
	r := newRouter(f, RouterConfig{Patterns: []string{"bull:{queue}:*a*b", "{x}"}, Databases: map[int]string{3: "premium"}})
	f.Fuzz(func(t *testing.T, db int, key []byte) {
		route := r.Route(db, key)
		if route.Err != nil || route.Shard < 0 || route.Shard >= r.Topology().Count() {
			t.Errorf("database %d, %q: %+v", db, key, route)
		}
		if k, ok := ParseKey(key); ok && string(k.AppendTo(nil)) != string(key) {
			t.Errorf("%q is written back as %q", key, k.AppendTo(nil))
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	r := newRouter(b, RouterConfig{Patterns: []string{"bull:{queue}:*"}, Databases: map[int]string{3: "premium"}})
	for _, text := range hotKeys {
		key := []byte(text)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Route(0, key)
			}
		})
	}
}
