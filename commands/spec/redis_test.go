package spec

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// redisConn speaks to a redis-server of the test's own.
type redisConn struct {
	t    *testing.T
	conn *peer.Conn
}

func startRedis(t *testing.T) *redisConn {
	t.Helper()
	r := &redisConn{t, peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)}
	if info := r.call("INFO", "server"); !bytes.Contains(info, []byte("redis_version:7.0.")) {
		t.Skip("redis-server is not of version 7.0")
	}
	return r
}

// call returns the reply's bytes.
func (r *redisConn) call(args ...string) []byte {
	r.t.Helper()
	reply, err := r.conn.Do(args...)
	if err != nil {
		r.t.Fatalf("redis-server, %q: %v", args, err)
	}
	return reply
}

// wire is a Sink that encodes as the protocol version says.
type wire struct {
	bytes.Buffer
	proto int
}

func (w *wire) aggregate(kind byte, n, flat int) {
	if w.proto == 2 {
		kind, n = '*', flat
	}
	fmt.Fprintf(w, "%c%d\r\n", kind, n)
}
func (w *wire) Array(n int)         { w.aggregate('*', n, n) }
func (w *wire) Map(n int)           { w.aggregate('%', n, 2*n) }
func (w *wire) Set(n int)           { w.aggregate('~', n, n) }
func (w *wire) Status(s string)     { fmt.Fprintf(w, "+%s\r\n", s) }
func (w *wire) BulkString(s string) { fmt.Fprintf(w, "$%d\r\n%s\r\n", len(s), s) }
func (w *wire) Bulk(b []byte)       { w.BulkString(string(b)) }
func (w *wire) Int(n int64)         { fmt.Fprintf(w, ":%d\r\n", n) }
func (w *wire) Null() {
	if w.proto == 2 {
		w.WriteString("$-1\r\n")
	} else {
		w.WriteString("_\r\n")
	}
}

func sampleTable(t *testing.T) *Table[Command] {
	t.Helper()
	table, err := NewTable(sample(), func(c *Command) *Command { return c })
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestInfoAsRedis compares the bytes of COMMAND INFO. Containers (whose subcommands Redis lists in no order, and of which
// the sample has only some) and notes (which are Redis' prose) are left to TestDocsAsRedis.
func TestInfoAsRedis(t *testing.T) {
	redis := startRedis(t)
	table := sampleTable(t)
	for _, proto := range []int{2, 3} {
		redis.call("HELLO", strconv.Itoa(proto))
		compared := 0
		for c := range table.All() {
			want := redis.call("COMMAND", "INFO", c.Name)
			if len(c.Subcommands()) > 0 || bytes.Contains(want, []byte("notes")) {
				continue
			}
			got := &wire{proto: proto}
			got.Array(1)
			WriteInfo(got, c)
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("COMMAND INFO %s in RESP%d\n got %q\nwant %q", c.Name, proto, got.Bytes(), want)
			}
			compared++
		}
		if compared < 25 {
			t.Errorf("compared only %d commands", compared)
		}
		got := &wire{proto: proto}
		got.Array(1)
		WriteInfo(got, nil)
		if want := redis.call("COMMAND", "INFO", "nonesuch"); !bytes.Equal(got.Bytes(), want) {
			t.Errorf("COMMAND INFO nonesuch in RESP%d: got %q, want %q", proto, got.Bytes(), want)
		}
	}
}

// TestDocsAsRedis compares COMMAND INFO and COMMAND DOCS without the known differences: prose, the version that an argument
// came with, the names that Redis gives to groups and tokens, and which subcommands there are.
func TestDocsAsRedis(t *testing.T) {
	redis := startRedis(t)
	redis.call("HELLO", "3")
	for c := range sampleTable(t).All() {
		for _, sub := range []string{"DOCS", "INFO"} {
			got := &wire{proto: 3}
			if sub == "DOCS" {
				got.Map(1)
				WriteDocs(got, c)
			} else {
				got.Array(1)
				WriteInfo(got, c)
			}
			want := redis.call("COMMAND", sub, c.Name)
			g, w := comparable(t, got.Bytes(), c), comparable(t, want, c)
			if !reflect.DeepEqual(g, w) {
				t.Errorf("COMMAND %s %s\n got %v\nwant %v", sub, c.Name, g, w)
			}
		}
	}
}

func comparable(t *testing.T, reply []byte, c *Command) peer.Reply {
	t.Helper()
	tree, err := peer.Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Subcommands()) > 0 && tree.Kind == '*' {
		tree.Elems = tree.Elems[0].Elems[:9]
	}
	return withoutProse(tree)
}

func withoutProse(tree peer.Reply) peer.Reply {
	if tree.Kind != '%' {
		for i := range tree.Elems {
			tree.Elems[i] = withoutProse(tree.Elems[i])
		}
		return tree
	}
	skip := []string{"summary", "complexity", "history", "notes", "subcommands"}
	if i := slices.IndexFunc(tree.Elems, func(e peer.Reply) bool { return e.Str == "type" }); i >= 0 {
		skip = append(skip, "since", "deprecated_since")
		if slices.Contains([]string{"oneof", "block", "pure-token"}, tree.Elems[i+1].Str) {
			skip = append(skip, "name")
		}
	}
	var kept []peer.Reply
	for i := 0; i < len(tree.Elems); i += 2 {
		if !slices.Contains(skip, tree.Elems[i].Str) {
			kept = append(kept, tree.Elems[i], withoutProse(tree.Elems[i+1]))
		}
	}
	tree.Elems = kept
	return tree
}

// TestKeysAsRedis compares COMMAND GETKEYSANDFLAGS for calls that are right and calls that are not.
func TestKeysAsRedis(t *testing.T) {
	redis := startRedis(t)
	table := sampleTable(t)
	for _, call := range keyCalls() {
		args := byteArgs(call)
		got := &wire{proto: 2}
		keys, err := table.CallKeys(nil, args)
		if err != nil {
			fmt.Fprintf(got, "-ERR %s\r\n", err)
		} else {
			WriteKeysAndFlags(got, keys, args)
		}
		want := redis.call(append([]string{"COMMAND", "GETKEYSANDFLAGS"}, strings.Split(call, " ")...)...)
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s\n got %q\nwant %q", call, got.Bytes(), want)
		}
	}
}

// keyCalls are calls separated by single spaces; two spaces make an empty argument. COMMAND GETKEYSANDFLAGS itself
// refuses calls of one word. Left out are calls such as "lmpop 01 a LEFT" and "georadius k 1 2 3 m STORE", which the commands
// refuse but in which Redis finds keys all the same.
func keyCalls() []string {
	return []string{
		"get k", "GET k x", "nonesuch k", "config get x", "config nonesuch x", "client|list x",
		"set k v", "set k v GET", "set k v EX 10 get", "set k",
		"mset a 1 b 2", "mset a 1 b", "lpush k a b", "rename a b", "blpop a b c 0", "blpop a 0",
		"lmpop 2 a b LEFT", "lmpop 0 a LEFT", "lmpop 3 a LEFT", "lmpop x a LEFT", "lmpop -1 a LEFT",
		"lmpop 99999999999999999999 a LEFT",
		"eval x 0", "eval x 0 a", "eval x 2 a b c", "eval x 5 a", "eval x nan a",
		"zunionstore d 2 a b", "zunionstore d 2 a b WEIGHTS 1 2", "zunionstore d 0 a", "zunionstore d 9 a", "zinter 1 a",
		"xread STREAMS a b 0 0", "xread COUNT 1 streams a 0", "xread streams a b 0", "xread COUNT 1 a", "xread block 0 STREAMS",
		"xgroup create k g $", "object encoding k", "object nonesuch k",
		"migrate h 1 k 0 10", "migrate h 1  0 10 COPY KEYS a b", "migrate h 1  0 10 AUTH keys KEYS a",
		"migrate h 1  0 10 AUTH2 keys keys KEYS a b c",
		"sort k", "sort k BY store GET store STORE d", "sort k LIMIT 0 store STORE d", "sort k STORE a STORE b", "sort k STORE",
		"georadius k 1 2 3 m", "georadius k 1 2 3 m STORE a STOREDIST b",
		"bitfield k GET u8 0", "bitfield k GET u8 0 SET u8 0 1", "bitfield k OVERFLOW wrap GET u8 0", "bitfield k x", "bitfield k",
		"spublish c m", "pfmerge d a b", "flushall async", "pfcount a b",
	}
}

func byteArgs(call string) [][]byte { return bytes.Split([]byte(call), []byte(" ")) }
