package commands

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/config"
	"codeq/internal/clock"
	"codeq/queue"
	"codeq/resp"
	"codeq/scripting"
	"codeq/shard"
	"codeq/supplier"
)

// namedTopology has two shards for all keys and two that the static supplier gives to queues.
func namedTopology() supplier.Topology {
	return supplier.Topology{Default: 2, Named: []string{"premium", "bulk"}}
}

// startNamed is a server with all commands and the static supplier: GENERATE_MASTER is on premium, the tenant acme on bulk.
func startNamed(t *testing.T, fs vfs.FS) *testServer {
	t.Helper()
	s, err := openRouted(t, fs, "static", supplier.Options{Topology: namedTopology(), DefaultShard: "default-1",
		Commands: map[string]string{"GENERATE_MASTER": "premium"}, Tenants: map[string]string{"acme": "bulk"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pinnedDatabase is the database that openRouted pins to the last shard.
const pinnedDatabase = 9

// openRouted is a server with all commands and a supplier; the error is that of opening the store.
func openRouted(t testing.TB, fs vfs.FS, name string, options supplier.Options) (*testServer, error) {
	t.Helper()
	topology := options.Topology
	return openPinned(t, fs, name, options, map[int]string{pinnedDatabase: topology.Name(topology.Count() - 1)})
}

// openPinned is openRouted with the databases pinned that the caller says.
func openPinned(t testing.TB, fs vfs.FS, name string, options supplier.Options, pins map[int]string) (*testServer, error) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	topology := options.Topology
	chosen, err := supplier.NewRegistry().New(name, options)
	if err != nil {
		t.Fatal(err)
	}
	router, err := supplier.NewRouter(supplier.RouterConfig{Topology: topology, Supplier: chosen, Databases: pins})
	if err != nil {
		t.Fatal(err)
	}
	placement := queue.SupplierWord + " " + name
	if options.DefaultShard != "" || options.Commands != nil || options.Tenants != nil {
		placement += fmt.Sprintf(", %s %v %v", options.DefaultShard, options.Commands, options.Tenants)
	}
	for _, db := range slices.Sorted(maps.Keys(pins)) {
		placement += fmt.Sprintf(", %s %d=%s", shard.PinWord, db, pins[db])
	}
	settings := config.NewStore(config.Default())
	queues := NewQueues(router, settings, quiet)
	store, err := shard.Open(shard.Options{
		Dir: "data", FS: fs, Names: topology.Names(), DefaultShards: topology.Default, Databases: 16, Placer: Placer(router), Tracker: queues,
		Placement: placement, Clock: now, Logger: quiet, Fsync: shard.FsyncNo, CacheBytes: 1 << 20, BlockCache: 8 << 20,
		MemtableBytes: 256 << 10, LogSegment: 1 << 20, LogMax: 8 << 20, ExpireInterval: 100,
		Random: rand.NewPCG(1, 2), Fatal: func(error) {}, // whoever closes a store that has failed is told
	})
	if err != nil {
		return nil, err
	}
	s, err := New(Options{
		Store: store, Router: router, Queues: queues, Config: settings,
		Scripts: scripting.New(scripting.Options{Logger: quiet, Now: time.Now}),
		Clock:   now, Logger: quiet, Stop: func(bool) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ts := &testServer{Server: s, t: t, fs: fs, clock: now}
	ts.stop = sync.OnceFunc(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(ts.stop)
	return ts, nil
}

// namedIDs are ids at home on each of the shards, two for every one: made by the server, and hashed ones for the default group.
func namedIDs(t *testing.T, r *supplier.Router) []string {
	t.Helper()
	var ids []string
	homes := map[int]int{}
	for ordinal := range namedTopology().Count() {
		for i := range 2 {
			ids = append(ids, string(supplier.AppendID(nil, ordinal, [16]byte{byte(i), byte(ordinal)})))
		}
	}
	ids = append(ids, "task-a", "task-b", "task-c", "task-d")
	for _, id := range ids {
		homes[r.Home([]byte(id))]++
	}
	if len(homes) != namedTopology().Count() {
		t.Fatalf("the ids are at home on %v; every shard is to have some", homes)
	}
	return ids
}

func bulks(words ...string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "*%d", len(words))
	for _, w := range words {
		fmt.Fprintf(&s, " $%d %s", len(w), w)
	}
	return s.String()
}

// sortedBulks turns an array reply into one whose elements are in order, n at a time.
func sortedBulks(reply string, n int) string {
	fields := strings.Fields(reply)
	var groups []string
	for group := range slices.Chunk(fields[1:], 2*n) {
		groups = append(groups, strings.Join(group, " "))
	}
	slices.Sort(groups)
	return fields[0] + " " + strings.Join(groups, " ")
}

// TestNamedShardsHash holds a partitioned hash with elements on named shards against what it is to look like as one.
func TestNamedShardsHash(t *testing.T) {
	fs := vfs.NewMem()
	s := startNamed(t, fs)
	c := s.client()
	ids := namedIDs(t, s.router)
	var pairs []string
	for i, id := range ids {
		c.want(":1", fmt.Sprintf("HSET codeq:tasks %s v%d", id, i))
		pairs = append(pairs, id, fmt.Sprint("v", i))
	}
	whole := func(c *client, key string) {
		t.Helper()
		c.want(fmt.Sprint(":", len(ids)), "HLEN "+key)
		for _, all := range []string{"HGETALL " + key, "EVAL return%20redis.call('hgetall',KEYS[1]) 1 " + key} {
			if got, want := sortedBulks(c.send(all), 2), sortedBulks(bulks(pairs...), 2); got != want {
				t.Errorf("%s\n got %s\nwant %s", all, got, want)
			}
		}
		c.want(bulks("v0", "v5", "v9"), "HMGET "+key+" "+ids[0]+" "+ids[5]+" "+ids[9])
	}
	whole(c, "codeq:tasks")
	var scanned []string
	for cursor := "0"; ; {
		fields := strings.Fields(c.send("HSCAN codeq:tasks " + cursor + " COUNT 1"))
		for i := 5; i < len(fields); i += 4 {
			scanned = append(scanned, fields[i])
		}
		if cursor = fields[2]; cursor == "0" {
			break
		}
	}
	slices.Sort(scanned)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(scanned, want) {
		t.Errorf("HSCAN found %q, want %q", scanned, want)
	}
	c.want(":1 +hash", "DBSIZE", "TYPE codeq:tasks")

	// To a plain key and back, and over a restart.
	c.want("+OK :0", "RENAME codeq:tasks plain", "EXISTS codeq:tasks")
	whole(c, "plain")
	c.want("+OK", "RENAME plain codeq:tasks")
	s.stop()
	s = startNamed(t, fs)
	c = s.client()
	whole(c, "codeq:tasks")
	c.want(":1 :2 :0", "EXISTS codeq:tasks", "HDEL codeq:tasks "+ids[4]+" "+ids[7]+" none", "HEXISTS codeq:tasks "+ids[4])
	c.want(":1 :0 :0 *0", "DEL codeq:tasks", "EXISTS codeq:tasks", "DBSIZE", "HGETALL codeq:tasks")
	for _, id := range ids {
		c.want("$-1", "HGET codeq:tasks "+id)
	}
	c.want(":1 +OK :0 :0", "HSET codeq:tasks "+ids[4]+" v", "FLUSHDB", "HLEN codeq:tasks", "DBSIZE")
}

// TestNamedShardsSortedSet merges fragments on default and named shards in the order of their scores.
func TestNamedShardsSortedSet(t *testing.T) {
	s := startNamed(t, vfs.NewMem())
	c := s.client()
	ids := namedIDs(t, s.router)
	const later = 4_000_000_000 // seconds; what is past retention would be removed
	for i := range ids {
		at := i * 5 % len(ids) // so that neighbours are on different shards
		c.want(":1", fmt.Sprintf("ZADD codeq:tasks:ttl %d %s", later+at, ids[at]))
	}
	n := len(ids)
	backwards := slices.Clone(ids)
	slices.Reverse(backwards)
	c.want(bulks(ids...), "ZRANGE codeq:tasks:ttl 0 -1")
	c.want(bulks(backwards...), "ZREVRANGE codeq:tasks:ttl 0 -1")
	c.want(bulks(ids[3:8]...), fmt.Sprintf("ZRANGEBYSCORE codeq:tasks:ttl %d (%d", later+3, later+8))
	c.want(bulks(ids[3:6]...), "ZRANGEBYSCORE codeq:tasks:ttl -inf +inf LIMIT 3 3")
	for i, id := range ids {
		c.want(fmt.Sprintf(":%d :%d", i, n-1-i), "ZRANK codeq:tasks:ttl "+id, "ZREVRANK codeq:tasks:ttl "+id)
	}
	c.want(":5", fmt.Sprintf("ZCOUNT codeq:tasks:ttl %d %d", later+3, later+7))
	c.want(bulks(ids[0], fmt.Sprint(later))+" "+bulks(ids[n-1], fmt.Sprint(later+n-1)), "ZPOPMIN codeq:tasks:ttl", "ZPOPMAX codeq:tasks:ttl")
	c.want(fmt.Sprintf(":%d :1 :%d", n-2, n-3), "ZCARD codeq:tasks:ttl", "ZREM codeq:tasks:ttl "+ids[5], "ZCARD codeq:tasks:ttl")
	c.want(fmt.Sprintf(":%d :0", n-3), "ZREMRANGEBYSCORE codeq:tasks:ttl -inf +inf", "EXISTS codeq:tasks:ttl")
}

// TestNamedShardsLifecycle has a task's rows and its queue on named shards, in transactions and scripts with the default group.
func TestNamedShardsLifecycle(t *testing.T) {
	s := startNamed(t, vfs.NewMem())
	c := s.client()
	premium, bulk := string(supplier.AppendID(nil, 2, [16]byte{1})), string(supplier.AppendID(nil, 3, [16]byte{2}))
	for key, want := range map[string]int{
		"codeq:q:generate_master:pending:9": 2, "codeq:q:other:acme:inprog": 3, "codeq:q:other:dlq": 1,
		"codeq:q:other:s:premium:delayed": 2, "codeq:lease:" + premium: 2, "codeq:lease:" + bulk: 3,
	} {
		if got := s.router.Route(0, []byte(key)); got.Shard != want || got.Err != nil {
			t.Errorf("%s lives at %+v, want shard %d", key, got, want)
		}
	}
	for _, id := range []string{premium, bulk, "task-a"} {
		c.want("+OK "+queued+" "+queued+" "+queued+" *3 :1 :1 :1", "MULTI", "HSET codeq:tasks "+id+" json",
			"ZADD codeq:tasks:ttl 4000000000 "+id, "LPUSH codeq:q:generate_master:pending:9 "+id, "EXEC")
		claim := "EVAL local%20id=redis.call('rpop',KEYS[3]);redis.call('sadd',KEYS[1],id);return{id,redis.call('hget',KEYS[2],id)} 3 " +
			"codeq:q:other:acme:inprog codeq:tasks codeq:q:generate_master:pending:9"
		c.want(bulks(id, "json"), claim)
		c.want("+OK +OK "+queued+" "+queued+" "+queued+" *3 :1 :1 :1", "SET codeq:lease:"+id+" worker EX 10", "MULTI",
			"SREM codeq:q:other:acme:inprog "+id, "DEL codeq:lease:"+id, "HDEL codeq:tasks "+id, "EXEC")
		c.want(":1 :0", "ZREM codeq:tasks:ttl "+id, "DBSIZE")
	}

	// WATCH of a whole partitioned key sees a write on a named shard.
	c.want("+OK", "WATCH codeq:tasks")
	s.client().want(":1", "HSET codeq:tasks "+premium+" json")
	c.want("+OK "+queued+" *-1", "MULTI", "HLEN codeq:tasks", "EXEC")
}

// TestPartitionedKeysDoNotExpire: a deadline could not hold for the whole key, so it is refused before anything is changed.
func TestPartitionedKeysDoNotExpire(t *testing.T) {
	s := startNamed(t, vfs.NewMem())
	c := s.client()
	refused := "-" + string(resp.ErrNoDeadline)
	ids := namedIDs(t, s.router)
	for _, id := range ids {
		c.want(":1", "HSET codeq:tasks "+id+" v")
	}
	c.want(strings.TrimSpace(strings.Repeat(refused+" ", 5)), "EXPIRE codeq:tasks 10", "PEXPIRE codeq:tasks 10", "EXPIREAT codeq:tasks 4102444800",
		"PEXPIREAT codeq:tasks 4102444800000", "EXPIRE codeq:tasks 10 NX")
	c.want(":0 :-1 :0", "EXPIRE codeq:tasks 10 XX", "TTL codeq:tasks", "PERSIST codeq:tasks")
	c.want(":0 :0", "EXPIRE codeq:results 10", "EXISTS codeq:results")
	// What has a deadline can't take the place of such a key.
	c.want(":1 :1 "+refused+" :1", "HSET h f v", "EXPIRE h 10", "RENAME h codeq:tasks", "HLEN h")
	c.want(fmt.Sprint(":", len(ids)), "HLEN codeq:tasks")
	c.want(":1 +OK :1", "PERSIST h", "RENAME h codeq:tasks", "HLEN codeq:tasks")
	// A time that has passed removes the key on all shards.
	for _, id := range ids {
		c.want(":1", "HSET codeq:tasks "+id+" v")
	}
	c.want(":1 :0 :0", "EXPIRE codeq:tasks -1", "HLEN codeq:tasks", "DBSIZE")
}
