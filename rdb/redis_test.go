package rdb

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// reference is a redis-server under test commands.
type reference struct {
	t *testing.T
	c *peer.Conn
}

func newReference(t *testing.T) reference {
	t.Helper()
	server := peer.ForTest(t, peer.Options{Kind: peer.Redis, Args: []string{"--enable-debug-command", "yes"}})
	return reference{t, server.DialForTest(t)}
}

func (r reference) do(args ...string) peer.Reply {
	r.t.Helper()
	reply, err := r.c.Call(args...)
	if err != nil {
		r.t.Fatalf("%q: %v", args, err)
	}
	return reply
}

// thresholds are settings of Redis that choose forms; Encode writes those of the first.
func thresholds() [][]string {
	return [][]string{
		nil,
		{"hash-max-listpack-entries", "0", "zset-max-listpack-entries", "0", "set-max-intset-entries", "0",
			"list-max-listpack-size", "1", "list-compress-depth", "1", "stream-node-max-entries", "1",
			"rdbcompression", "no"},
		{"hash-max-listpack-entries", "100000", "hash-max-listpack-value", "100000", "zset-max-listpack-entries", "100000",
			"zset-max-listpack-value", "100000", "set-max-intset-entries", "100000", "list-max-listpack-size", "-5",
			"stream-node-max-bytes", "0", "stream-node-max-entries", "0", "rdbcompression", "yes"},
	}
}

// item draws an element, of every size class and of integers of every width.
func item(rng *rand.Rand) string {
	switch rng.IntN(10) {
	case 0, 1, 2:
		return strconv.FormatInt(int64(rng.Uint64())>>rng.IntN(64), 10)
	case 3:
		return []string{"", "-", "-0", "00", "1 ", "+1", "9223372036854775808", "-9223372036854775808", "1.5", "inf"}[rng.IntN(10)]
	case 4:
		return strings.Repeat("abc", rng.IntN(200))
	case 5:
		return random(rng, 60+rng.IntN(10))
	case 6:
		return random(rng, 1<<rng.IntN(14)+rng.IntN(5)-1)
	}
	return random(rng, 1+rng.IntN(12))
}

func random(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func scoreText(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return strconv.Itoa(rng.IntN(1000) - 500)
	case 1:
		return []string{"inf", "-inf", "1e17", "4611686018427387904", "-4611686018427387904", "9223372036854775807", "1e300",
			"0.1", "-1e-5", "1e-4"}[rng.IntN(10)]
	}
	return strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(40)-20)), 'g', 17, 64)
}

// fill puts a random value at the key and returns what Decode has to make of its dump.
func (r reference) fill(rng *rand.Rand, key string) {
	n := []int{1, 3, 20, 128, 129, 512, 513, 2000}[rng.IntN(8)]
	r.do("DEL", key)
	var args []string
	switch rng.IntN(5) {
	case 0:
		r.do("SET", key, item(rng))
		return
	case 1:
		args = []string{"RPUSH", key}
		for range n {
			args = append(args, item(rng))
		}
	case 2:
		args = []string{"SADD", key}
		integers := rng.IntN(2) == 0
		for range n {
			if integers {
				args = append(args, strconv.FormatInt(int64(rng.Uint64())>>(n%64), 10))
			} else {
				args = append(args, item(rng))
			}
		}
	case 3:
		args = []string{"ZADD", key}
		short := rng.IntN(2) == 0
		for range n {
			if member := item(rng); short {
				args = append(args, scoreText(rng), member[:min(len(member), 64)])
			} else {
				args = append(args, scoreText(rng), member)
			}
		}
	case 4:
		args = []string{"HSET", key}
		short := rng.IntN(2) == 0
		for range n {
			field, val := item(rng), item(rng)
			if short {
				field, val = field[:min(len(field), 64)], val[:min(len(val), 64)]
			}
			args = append(args, field, val)
		}
	}
	r.do(args...)
}

// value reads the value at the key by the commands of its type.
func (r reference) value(key string) *Value {
	r.t.Helper()
	items := func(args ...string) (out [][]byte) {
		for _, s := range r.do(args...).Strings() {
			out = append(out, []byte(s))
		}
		return out
	}
	switch kind := r.do("TYPE", key).Str; kind {
	case "string":
		return &Value{Kind: String, Str: []byte(r.do("GET", key).Str)}
	case "list":
		return &Value{Kind: List, Items: items("LRANGE", key, "0", "-1")}
	case "set":
		return &Value{Kind: Set, Items: items("SMEMBERS", key)}
	case "hash":
		return &Value{Kind: Hash, Items: items("HGETALL", key)}
	case "zset":
		v := &Value{Kind: ZSet}
		for i, s := range items("ZRANGE", key, "0", "-1", "WITHSCORES") {
			if i%2 == 0 {
				v.Items = append(v.Items, s)
				continue
			}
			score, err := strconv.ParseFloat(string(s), 64)
			if err != nil {
				r.t.Fatal(err)
			}
			v.Scores = append(v.Scores, score)
		}
		return v
	default:
		r.t.Fatalf("key %q is a %s", key, kind)
		return nil
	}
}

// same tells whether two values are equal, whatever the order that their elements happen to have.
func same(a, b *Value) bool { return describe(a) == describe(b) }

func describe(v *Value) string {
	step := map[Kind]int{Hash: 2}[v.Kind]
	var parts []string
	for i := 0; i < len(v.Items); i += max(step, 1) {
		part := fmt.Sprintf("%q", v.Items[i:i+max(step, 1)])
		if v.Kind == ZSet {
			part += fmt.Sprint(v.Scores[i])
		}
		parts = append(parts, part)
	}
	if v.Kind != List {
		slices.Sort(parts)
	}
	return fmt.Sprintf("%d %q %v %v", v.Kind, v.Str, parts, v.Stream)
}

// TestRedisValues reads what redis-server dumps, in all the forms that it has for each type, and lets it restore what
// Encode writes. Under the default settings both dumps are the same bytes.
func TestRedisValues(t *testing.T) {
	r := newReference(t)
	rng := rand.New(rand.NewPCG(1, 1))
	forms := map[byte]int{}
	for _, settings := range thresholds() {
		if settings != nil {
			r.do(append([]string{"CONFIG", "SET"}, settings...)...)
		}
		for range 100 {
			r.fill(rng, "k")
			dump := []byte(r.do("DUMP", "k").Str)
			forms[dump[0]]++
			got, err := Decode(dump)
			if err != nil {
				t.Fatalf("dump %q: %v", dump, err)
			}
			want := r.value("k")
			if !same(&got, want) {
				t.Fatalf("dump %q:\n%s, want\n%s", dump, describe(&got), describe(want))
			}
			if encoded := Encode(want); settings == nil && !bytes.Equal(encoded, dump) {
				t.Fatalf("%s is encoded\n%q, want\n%q", describe(want), encoded, dump)
			}
			r.do("RESTORE", "copy", "0", string(Encode(want)), "REPLACE")
			if copied := r.value("copy"); !same(copied, want) {
				t.Fatalf("restored %s, want %s", describe(copied), describe(want))
			}
		}
	}
	for _, form := range []byte{typeString, typeSet, typeZSet, typeHash, typeSetIntset, typeHashListpack, typeZSetListpack,
		typeListQuicklist2} {
		if forms[form] == 0 {
			t.Errorf("type %d was never seen", form)
		}
	}
}

// TestLongestCopies compresses what repeats at the greatest distance that a copy can span, and around it.
func TestLongestCopies(t *testing.T) {
	r := newReference(t)
	rng := rand.New(rand.NewPCG(5, 5))
	for distance := lzfMaxOffset - 2; distance <= lzfMaxOffset+2; distance++ {
		for _, length := range []int{8, 263, 264, 265, 300} {
			repeated := strings.Repeat("0123456789", 40)[:length]
			text := "x" + repeated + random(rng, distance-length) + repeated + "the end"
			r.do("SET", "k", text)
			dump := r.do("DUMP", "k").Str
			if encoded := Encode(&Value{Kind: String, Str: []byte(text)}); string(encoded) != dump {
				t.Errorf("%d bytes at distance %d: %d bytes, want %d", length, distance, len(encoded), len(dump))
			}
		}
	}
}
