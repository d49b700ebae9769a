package tests

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// dumpSettings make redis-server keep values in one form after the other.
func dumpSettings() [][]string {
	return [][]string{
		{"hash-max-listpack-entries", "512"}, // as it is
		{"hash-max-listpack-entries", "0", "zset-max-listpack-entries", "0", "set-max-intset-entries", "0",
			"list-max-listpack-size", "1", "list-compress-depth", "1", "stream-node-max-entries", "2", "rdbcompression", "no"},
		{"hash-max-listpack-entries", "100000", "hash-max-listpack-value", "100000", "zset-max-listpack-entries", "100000",
			"zset-max-listpack-value", "100000", "set-max-intset-entries", "100000", "list-max-listpack-size", "-5",
			"stream-node-max-bytes", "0", "stream-node-max-entries", "0", "rdbcompression", "yes"},
	}
}

// dumpItem draws an element: an integer, short or long text, or bytes.
func dumpItem(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10)
	case 1:
		return strings.Repeat("abc", rng.IntN(60))
	case 2:
		b := make([]byte, 1+rng.IntN(100))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	return fmt.Sprint("item", rng.IntN(1000))
}

// dumpValues are commands that make a value of each type at the key.
func dumpValues(rng *rand.Rand, key string) map[string][][]string {
	n := 1 + rng.IntN(200)
	list, ints, set, hash := []string{"RPUSH", key}, []string{"SADD", key}, []string{"SADD", key}, []string{"HSET", key}
	zset := []string{"ZADD", key}
	for i := range n {
		list = append(list, dumpItem(rng))
		ints = append(ints, strconv.FormatInt(int64(rng.Uint64())>>(n%64), 10))
		set = append(set, dumpItem(rng))
		hash = append(hash, dumpItem(rng), dumpItem(rng))
		fraction := strconv.FormatFloat(rng.NormFloat64(), 'g', 17, 64)
		zset = append(zset, []string{strconv.Itoa(i), fraction, "inf", "-inf"}[rng.IntN(4)], dumpItem(rng))
	}
	stream := [][]string{}
	for i := range n {
		id := fmt.Sprint(i/3+1, "-", i+1)
		stream = append(stream, []string{"XADD", key, id, "field", dumpItem(rng), fmt.Sprint("f", i%2), "x"})
	}
	stream = append(stream, []string{"XDEL", key, "1-1"}, []string{"XGROUP", "CREATE", key, "g", "0"},
		[]string{"XREADGROUP", "GROUP", "g", "c", "COUNT", "5", "STREAMS", key, ">"}, []string{"XGROUP", "CREATE", key, "h", "$"})
	return map[string][][]string{
		"string": {{"SET", key, dumpItem(rng)}}, "list": {list}, "intset": {ints}, "set": {set}, "hash": {hash}, "zset": {zset},
		"stream": stream,
	}
}

// content describes the value at the key, its type included.
func content(t *testing.T, c *peer.Conn, key string) string {
	t.Helper()
	kind, err := c.Call("TYPE", key)
	if err != nil {
		t.Fatal(err)
	}
	if kind.Str != "stream" {
		items, err := contentOf(c, kind.Str, key)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %q", kind.Str, items)
	}
	info, err := c.Call("XINFO", "STREAM", key, "FULL", "COUNT", "0")
	if err != nil {
		t.Fatal(err)
	}
	described := "stream"
	for i := 0; i < len(info.Elems); i += 2 {
		if name := info.Elems[i].Str; !strings.HasPrefix(name, "radix-tree") {
			described += " " + name + text(info.Elems[i+1:i+2])
		}
	}
	return described
}

// carry dumps a key on one server, with its time to live, and restores it on the other.
func carry(t *testing.T, from, to *peer.Conn, key string) {
	t.Helper()
	dump, err := from.Call("DUMP", key)
	if err != nil {
		t.Fatal(err)
	}
	at, err := from.Call("PEXPIRETIME", key)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := to.Call("RESTORE", key, max(at.Str, "0"), dump.Str, "REPLACE", "ABSTTL"); err != nil {
		t.Fatalf("restore %q: %v, %v", dump.Str, reply, err)
	}
}

// TestDumpExchange carries values of all types and forms from redis-server to the server under test and back.
func TestDumpExchange(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		rng := newRand(seed(t), 7)
		redis := peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)
		server := peer.ForTest(t, opts).DialForTest(t)
		for _, settings := range dumpSettings() {
			if _, err := redis.Call(append([]string{"CONFIG", "SET"}, settings...)...); err != nil {
				t.Fatal(err)
			}
			for i := range 6 {
				key := fmt.Sprint("key", i)
				for name, make := range dumpValues(rng, key) {
					exchange(t, redis, server, name, key, make)
				}
			}
		}
	})
}

func exchange(t *testing.T, redis, server *peer.Conn, name, key string, make [][]string) {
	t.Helper()
	for _, command := range append([][]string{{"DEL", key}}, make...) {
		if reply, err := redis.Call(command...); err != nil {
			t.Fatalf("%q: %v, %v", command, reply, err)
		}
	}
	if _, err := redis.Call("PEXPIREAT", key, "4102444800123", []string{"XX", "NX"}[len(make)%2]); err != nil {
		t.Fatal(err)
	}
	want := content(t, redis, key)
	carry(t, redis, server, key)
	if got := content(t, server, key); got != want {
		t.Fatalf("%s restored from redis-server:\n%s, want\n%s", name, got, want)
	}
	carry(t, server, redis, key)
	if got := content(t, redis, key); got != want {
		t.Fatalf("%s restored by redis-server:\n%s, want\n%s", name, got, want)
	}
	var times [2]string
	for i, c := range []*peer.Conn{redis, server} {
		at, err := c.Call("PEXPIRETIME", key)
		if err != nil {
			t.Fatal(err)
		}
		times[i] = at.Str
	}
	if times[0] != times[1] {
		t.Fatalf("%s: expires at %q", name, times)
	}
}
