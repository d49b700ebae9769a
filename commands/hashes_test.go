package commands

import (
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/commands/spec"
	"codeq/internal/clock"
	"codeq/internal/peer"
	"codeq/resp"
	"codeq/shard"
)

// The tests of hashes, sets and sorted sets give the same calls to the handlers and to a redis-server and compare the
// replies, byte for byte where order is defined. Keys "part:h…", "part:s…" and "part:z…" are partitioned here.

// twin is a redis-server, and a store with the handlers of the collections on it.
type twin struct {
	t     *testing.T
	table *spec.Table[Command]
	store *shard.Store
	all   shard.Mask
	out   resp.Writer
	redis *peer.Conn
}

// twinPlacer spreads keys, and the elements of partitioned keys, over two shards.
type twinPlacer struct{}

func (p twinPlacer) Place(_ int, key []byte) (shard.Placement, error) {
	kinds := map[string]shard.Kind{"part:h": shard.KindHash, "part:s": shard.KindSet, "part:z": shard.KindZSet}
	if kind, ok := kinds[string(key[:min(len(key), 6)])]; ok {
		return shard.Placement{Partitioned: true, Kind: kind}, nil
	}
	return shard.Placement{Shard: p.Home(key)}, nil
}

func (p twinPlacer) Partitioned(int) [][]byte {
	return [][]byte{[]byte("part:h"), []byte("part:s"), []byte("part:s2"), []byte("part:z")}
}

func (p twinPlacer) PartitionsGroups(int) bool { return false }

func (p twinPlacer) GroupKeys([]byte) [][]byte { return nil }

func (p twinPlacer) Abandoned(int, int, []byte, shard.Former) ([][]byte, error) { return nil, nil }

func (p twinPlacer) Home(element []byte) int {
	h := fnv.New32a()
	h.Write(element)
	return int(h.Sum32()>>3) % 2
}

func newTwin(t *testing.T, proto int) *twin {
	t.Helper()
	var commands []Command
	for _, family := range [][]Command{hashCommands(), setCommands(), zsetCommands(), keyCommands(), stringCommands()} {
		commands = append(commands, family...)
	}
	table, err := spec.NewTable(commands, func(c *Command) *spec.Command { return &c.Command })
	if err != nil {
		t.Fatal(err)
	}
	store, err := shard.Open(shard.Options{
		Dir: "data", FS: vfs.NewMem(), Names: []string{"default-0", "default-1"}, DefaultShards: 2, Databases: 1,
		Placer: twinPlacer{}, Clock: clock.System(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fsync: shard.FsyncNo, CacheBytes: 64 << 10, BlockCache: 8 << 20, MemtableBytes: 1 << 20, LogSegment: 1 << 20,
		LogMax: 4 << 20, ExpireInterval: 100, Random: rand.NewPCG(1, 2), Fatal: func(err error) { panic(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &twin{t: t, table: table, store: store}
	w.all.Add(0)
	w.all.Add(1)
	w.out.SetProto(proto)
	w.redis = peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)
	if err := w.redis.Hello(proto); err != nil {
		t.Fatal(err)
	}
	return w
}

// codeq carries out a call in a transaction of its own.
func (w *twin) codeq(args ...string) string {
	w.t.Helper()
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	w.out.Reset()
	cmd, ok := w.table.Lookup(words[0])
	if !ok {
		w.t.Fatalf("no command %q", args[0])
	}
	if !cmd.AcceptsArgs(len(words)) {
		w.out.Error(resp.ErrWrongArgs(cmd.Name))
		return string(w.out.Bytes())
	}
	tx := w.store.NewTx()
	tx.Begin(w.all)
	defer tx.End()
	err := cmd.Run(&Call{Args: words, Out: &w.out, cmd: cmd, tx: tx})
	if err != nil {
		if tx.Dirty() {
			w.t.Errorf("%q failed with %v after it had written", args, err)
		}
		w.out.Truncate(0)
		if errors.Is(err, shard.ErrWrongType) {
			err = resp.ErrWrongType
		}
		w.out.Error(err)
	} else if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
	return string(w.out.Bytes())
}

// same gives a call to both and compares the replies.
func (w *twin) same(args ...string) {
	w.t.Helper()
	raw, err := w.redis.Do(args...)
	if err != nil {
		w.t.Fatal(err)
	}
	want, got := string(raw), w.codeq(args...)
	if unordered(args[0]) {
		want, got = w.sorted(args[0], want), w.sorted(args[0], got)
	}
	if got != want {
		w.t.Errorf("%q\n codeq %q\n redis %q", args, got, want)
	}
}

// unordered tells of a command that replies in no defined order.
func unordered(name string) bool {
	return slices.Contains([]string{"HGETALL", "HKEYS", "HVALS", "HSCAN", "SMEMBERS", "SSCAN", "SINTER", "SUNION", "SDIFF",
		"ZSCAN"}, name)
}

// sorted brings a reply into an order: a shape, then its elements or pairs.
func (w *twin) sorted(name, raw string) string {
	w.t.Helper()
	reply, err := peer.Parse([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	shape, size := string(reply.Kind), 1
	if strings.HasSuffix(name, "SCAN") && len(reply.Elems) == 2 {
		shape += reply.Elems[0].Str + string(reply.Elems[1].Kind)
		reply = reply.Elems[1]
	}
	if name == "HGETALL" || name == "HSCAN" || name == "ZSCAN" {
		size = 2
	}
	var elements []string
	for group := range slices.Chunk(reply.Strings(), size) {
		elements = append(elements, strings.Join(group, "="))
	}
	slices.Sort(elements)
	return shape + reply.Str + strings.Join(elements, " ")
}

// script gives every line to both as a call; "" is the empty word and _ a blank.
func (w *twin) script(lines string) {
	w.t.Helper()
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.ReplaceAll(strings.ReplaceAll(words[i], `""`, ""), "_", " ")
		}
		if len(words) > 0 {
			w.same(words...)
		}
	}
}

// bothProtocols runs a script in RESP2 and RESP3.
func bothProtocols(t *testing.T, lines string) {
	for _, proto := range []int{2, 3} {
		newTwin(t, proto).script(lines)
	}
}

func TestHashesLikeRedis(t *testing.T) { bothProtocols(t, hashesScript) }

const hashesScript = `
	SET str x
	HSET h a
	HSET str a
	HSET str a 1
	HSET h a 1 b
	HSET h a 1 b x a 2
	HSET h a 3 c ""
	HMSET h a
	HMSET h a 1 d
	HMSET h d 4 e 5
	HMSET str d 4
	HSETNX h a 9
	HSETNX h z 9
	HSETNX str z 9
	HGET h a
	HGET h none
	HGET none a
	HGET str a
	HMGET h a none c
	HMGET none a b
	HMGET str a
	HEXISTS h a
	HEXISTS h none
	HLEN h
	HLEN none
	HLEN str
	HSTRLEN h a
	HSTRLEN h none
	HSTRLEN str a
	HGETALL h
	HGETALL none
	HGETALL str
	HKEYS h
	HVALS h
	HKEYS none
	HVALS str
	HINCRBY h a 5
	HINCRBY h b 5
	HINCRBY h new -5
	HINCRBY h a x
	HINCRBY str a x
	HINCRBY str a 1
	HSET h max 9223372036854775807 min -9223372036854775808
	HINCRBY h max 1
	HINCRBY h min -1
	HINCRBY h max -9223372036854775808
	HINCRBYFLOAT h f 0.1
	HINCRBYFLOAT h f 0.2
	HINCRBYFLOAT h f -0.3
	HINCRBYFLOAT h f 1e300
	HINCRBYFLOAT h g 3.0e3
	HINCRBYFLOAT h g 1e-30
	HINCRBYFLOAT h g -1e-30
	HINCRBYFLOAT h g 0x10
	HINCRBYFLOAT h g 5p2
	HINCRBYFLOAT h g 0b1
	HINCRBYFLOAT h g 1_000
	HINCRBYFLOAT h g _1
	HINCRBYFLOAT h g ""
	HINCRBYFLOAT h g inf
	HINCRBYFLOAT h g -INFINITY
	HINCRBYFLOAT h g nan
	HINCRBYFLOAT h g 1e5000
	HINCRBYFLOAT h g 1e-5000
	HINCRBYFLOAT h g 1e-4940
	HINCRBYFLOAT h b 1
	HINCRBYFLOAT str a inf
	HINCRBYFLOAT str a x
	HINCRBYFLOAT str a 1
	HSET h inf inf big 1e4932
	HINCRBYFLOAT h inf 1
	HINCRBYFLOAT h big 1e4932
	HINCRBYFLOAT h pi 3.14159265358979323846
	HINCRBYFLOAT h pi 2.71828182845904523536
	HSET few a 1 b 2 c 3
	HSCAN few 0
	HSCAN few 0 MATCH [ab]
	HSCAN few 0 MATCH * COUNT 1
	HSCAN h 0 COUNT 0
	HSCAN h 0 COUNT x
	HSCAN h 0 MATCH
	HSCAN h 0 TYPE hash
	HSCAN h x
	HSCAN none 0 nonsense
	HSCAN none x
	HSCAN str x
	HSCAN str 0 nonsense
	HSCAN str 0
	HDEL h a none a
	HDEL none a
	HDEL str a
	HSET one f v
	HDEL one f
	EXISTS one
	HSET part:h a 1 b 2 c 3 d 4
	HGETALL part:h
	HLEN part:h
	HDEL part:h a c
	HSCAN part:h 0
	HINCRBY part:h b 3`
