package commands

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/commands/spec"
	"codeq/internal/clock"
	"codeq/internal/peer"
	"codeq/resp"
	"codeq/shard"
)

// byHash places every key on one of two shards, none is partitioned.
type byHash struct{}

func (byHash) Place(_ int, key []byte) (shard.Placement, error) {
	return shard.Placement{Shard: byHash{}.Home(key)}, nil
}

func (byHash) Partitioned(int) [][]byte { return nil }

func (byHash) PartitionsGroups(int) bool { return false }

func (byHash) GroupKeys([]byte) [][]byte { return nil }

func (byHash) Abandoned(int, int, []byte, shard.Former) ([][]byte, error) { return nil, nil }

func (byHash) Home(element []byte) int {
	n := 0
	for _, c := range element {
		n += int(c)
	}
	return n % 2
}

// handlers carries out commands of the given families without a server: each in a transaction of its own.
type handlers struct {
	table *spec.Table[Command]
	tx    *shard.Tx
	store *shard.Store
	clock *clock.Manual
}

func newHandlers(t *testing.T, families ...[]Command) *handlers {
	t.Helper()
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	store, err := shard.Open(shard.Options{
		Dir: "data", FS: vfs.NewMem(), Names: []string{"default-0", "default-1"}, DefaultShards: 2, Databases: 1,
		Placer: byHash{}, Clock: now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Fsync: shard.FsyncNo,
		CacheBytes: 1 << 20, BlockCache: 8 << 20, MemtableBytes: 256 << 10, LogSegment: 1 << 20, LogMax: 8 << 20,
		ExpireInterval: 100, Random: rand.NewPCG(1, 2), Fatal: func(err error) { panic(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	table, err := newRegistry(slices.Concat(families...))
	if err != nil {
		t.Fatal(err)
	}
	return &handlers{table, store.NewTx(), store, now}
}

// do returns the reply in RESP's bytes.
func (h *handlers) do(t *testing.T, proto int, args [][]byte) string {
	t.Helper()
	var out resp.Writer
	out.SetProto(proto)
	cmd, _ := h.table.Resolve(args)
	if cmd == nil {
		t.Fatalf("no command %q", args[0])
	}
	if !cmd.AcceptsArgs(len(args)) {
		out.Error(resp.ErrWrongArgs(cmd.Name))
		return string(out.Bytes())
	}
	h.tx.Begin(h.store.All())
	defer h.tx.End()
	if err := cmd.Run(&Call{Args: args, Out: &out, cmd: cmd, tx: h.tx}); err != nil {
		reply, ok := replyTo(err)
		if !ok {
			t.Fatalf("%q: %v", args, err)
		}
		if h.tx.Dirty() {
			t.Errorf("%q changed something and failed with: %v", args, err)
		}
		out.Reset()
		out.Error(reply)
	}
	if err := h.tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return string(out.Bytes())
}

// realRedis is a connection to a redis-server that ends with the test.
type realRedis struct{ conn *peer.Conn }

func startRedis(t *testing.T) *realRedis {
	t.Helper()
	return &realRedis{peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)}
}

func (r *realRedis) do(t *testing.T, args [][]byte) string {
	t.Helper()
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = string(arg)
	}
	reply, err := r.conn.Do(words...)
	if err != nil {
		t.Fatalf("redis-server, %q: %v", args, err)
	}
	return string(reply)
}

// splitLine cuts a line of a script into words; a word in double quotes is a Go string.
func splitLine(t *testing.T, line string) (args [][]byte) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, rest, _ := strings.Cut(line, " ")
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			rest = line[len(quoted):]
			if word, err = strconv.Unquote(quoted); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		args = append(args, []byte(word))
		line = rest
	}
	return args
}

// sameAsRedis runs a script, a command a line, on the handlers and on a redis-server, in RESP2 and RESP3, and compares
// the replies byte for byte.
func sameAsRedis(t *testing.T, script string, families ...[]Command) {
	text, err := os.ReadFile(filepath.Join("testdata", "redis", script))
	if err != nil {
		t.Fatal(err)
	}
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			redis := startRedis(t)
			redis.do(t, [][]byte{[]byte("HELLO"), []byte(strconv.Itoa(proto))})
			h := newHandlers(t, families...)
			for i, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				args := splitLine(t, line)
				if got, want := h.do(t, proto, args), redis.do(t, args); got != want {
					t.Errorf("%s:%d: %s\n got %q\nwant %q", script, i+1, line, got, want)
				}
			}
		})
	}
}

func TestKeysLikeRedis(t *testing.T) {
	sameAsRedis(t, "keys.txt", keyCommands(), stringCommands(), listCommands())
}

// TestDeadlines follows a deadline through what leaves it alone, down to the millisecond.
func TestDeadlines(t *testing.T) {
	h := newHandlers(t, keyCommands(), stringCommands())
	expect := func(line, want string) {
		t.Helper()
		if got := h.do(t, 2, splitLine(t, line)); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	expect("SET k v PX 1600", "+OK\r\n")
	expect("PTTL k", ":1600\r\n")
	expect("TTL k", ":2\r\n")
	h.clock.Advance(101 * time.Millisecond)
	expect("TTL k", ":1\r\n")
	expect("APPEND k w", ":2\r\n")
	expect("SETRANGE k 0 x", ":2\r\n")
	expect("SET k 7 KEEPTTL", "+OK\r\n")
	expect("INCR k", ":8\r\n")
	expect("RENAME k l", "+OK\r\n")
	expect("PTTL l", ":1499\r\n")
	h.clock.Advance(1498 * time.Millisecond)
	expect("GET l", "$1\r\n8\r\n")
	expect("TTL l", ":0\r\n")
	h.clock.Advance(time.Millisecond)
	expect("GET l", "$-1\r\n")
	expect("PTTL l", ":-2\r\n")
	expect("SET l v NX EX 1", "+OK\r\n")
	expect("PEXPIRE l 999 LT", ":1\r\n")
	expect("PTTL l", ":999\r\n")
}
