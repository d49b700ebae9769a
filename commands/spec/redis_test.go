package spec

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests compare with a real redis-server of version 7.0, and are skipped where there is none.

// redisConn speaks to a server of the test's own.
type redisConn struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func startRedis(t *testing.T) *redisConn {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	dir, err := os.MkdirTemp("", "spec")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	log := bufio.NewScanner(stdout)
	for log.Scan() && !strings.Contains(log.Text(), "ready to accept connections") {
		continue
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := &redisConn{t, conn, bufio.NewReader(conn)}
	if info := r.text("INFO", "server"); !strings.Contains(info, "redis_version:7.0.") {
		t.Skip("redis-server is not of version 7.0")
	}
	return r
}

// call returns the reply's bytes.
func (r *redisConn) call(args ...string) []byte {
	r.t.Helper()
	var request bytes.Buffer
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := r.conn.Write(request.Bytes()); err != nil {
		r.t.Fatal(err)
	}
	var reply bytes.Buffer
	if _, err := parseReply(io.TeeReader(byteReader{r.in}, &reply)); err != nil {
		r.t.Fatal(err)
	}
	return reply.Bytes()
}

func (r *redisConn) text(args ...string) string { return string(r.call(args...)) }

// byteReader keeps a reply's reader from reading past the reply.
type byteReader struct{ *bufio.Reader }

// group is an aggregate of a reply: '*', '~' or '%', and its elements in order.
type group struct {
	kind  byte
	items []any
}

// parseReply reads one reply of RESP2 or RESP3: a group, or a leaf's text with its kind in front.
func parseReply(in io.Reader) (any, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(line[1:])
	switch kind := line[0]; kind {
	case '*', '~', '%':
		if kind == '%' {
			n *= 2
		}
		g := group{kind, nil}
		for range max(n, 0) {
			item, err := parseReply(in)
			if err != nil {
				return nil, err
			}
			g.items = append(g.items, item)
		}
		return g, nil
	case '$', '=':
		if n < 0 {
			return nil, nil
		}
		data := make([]byte, n+2)
		_, err := io.ReadFull(in, data)
		return "$" + string(data[:n]), err
	}
	return line, nil
}

func readLine(in io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if _, err := io.ReadFull(in, one); err != nil {
			return "", err
		}
		line = append(line, one[0])
	}
	return string(line[:len(line)-2]), nil
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

func comparable(t *testing.T, reply []byte, c *Command) any {
	t.Helper()
	tree, err := parseReply(bytes.NewReader(reply))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Subcommands()) > 0 && tree.(group).kind == '*' {
		info := tree.(group).items[0].(group)
		tree = group{'*', info.items[:9]}
	}
	return withoutProse(tree)
}

func withoutProse(node any) any {
	g, ok := node.(group)
	if !ok {
		return node
	}
	if g.kind != '%' {
		for i := range g.items {
			g.items[i] = withoutProse(g.items[i])
		}
		return g
	}
	skip := []string{"$summary", "$complexity", "$history", "$notes", "$subcommands"}
	if i := slices.Index(g.items, any("$type")); i >= 0 {
		skip = append(skip, "$since", "$deprecated_since")
		if slices.Contains([]any{"$oneof", "$block", "$pure-token"}, g.items[i+1]) {
			skip = append(skip, "$name")
		}
	}
	var kept []any
	for i := 0; i < len(g.items); i += 2 {
		if key, _ := g.items[i].(string); !slices.Contains(skip, key) {
			kept = append(kept, g.items[i], withoutProse(g.items[i+1]))
		}
	}
	return group{'%', kept}
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
