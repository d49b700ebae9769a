package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
	"codeq/resp"
)

func TestSortedSetAlgebraLikeRedis(t *testing.T) {
	sameAsRedis(t, "zset_algebra.txt", zsetAlgebraCommands(), hashRandomCommands(), zsetCommands(), setCommands(), hashCommands(),
		stringCommands(), keyCommands())
}

// TestLargeOperandsLikeRedis combines sorted sets and sets that are cached in part only, with scores that a sum rounds.
func TestLargeOperandsLikeRedis(t *testing.T) {
	redis := startRedis(t)
	h := newHandlers(t, zsetAlgebraCommands(), zsetCommands(), setCommands())
	same := func(line string) {
		t.Helper()
		args := splitLine(t, line)
		if got, want := h.do(t, 2, args), redis.do(t, args); got != want {
			t.Errorf("%.100s\n got %.300q\nwant %.300q", line, got, want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i, size := range []int{700, 900, 5000} {
		add := fmt.Sprint("ZADD z", i)
		for range size {
			add += fmt.Sprintf(" %v member:%d", rng.NormFloat64(), rng.IntN(size*2))
		}
		same(add)
	}
	set := "SADD s"
	for range 800 {
		set += fmt.Sprintf(" member:%d", rng.IntN(1000))
	}
	same(set)
	for _, operands := range []string{"2 z0 z1", "2 z2 z0", "3 z0 z1 z2", "3 z2 s z1", "2 s z2", "4 z2 z1 z0 s"} {
		for _, option := range []string{"", " AGGREGATE MIN", " AGGREGATE MAX"} {
			same("ZUNION " + operands + option + " WITHSCORES")
			same("ZINTER " + operands + option + " WITHSCORES")
			same("ZUNIONSTORE d " + operands + option)
			same("ZRANGE d 0 -1 WITHSCORES")
		}
		same("ZDIFF " + operands + " WITHSCORES")
		same("ZINTERCARD " + operands)
		same("ZINTERCARD " + operands + " LIMIT 7")
	}
}

// TestRandomElements checks of random fields and members what SRANDMEMBER's test checks of a set's, and their values.
func TestRandomElements(t *testing.T) {
	h := newHandlers(t, zsetAlgebraCommands(), hashRandomCommands(), zsetCommands(), hashCommands())
	do := func(proto int, line string) []string {
		reply, err := peer.Parse([]byte(h.do(t, proto, splitLine(t, line))))
		if err != nil {
			t.Fatal(err)
		}
		var flat []string
		for _, e := range reply.Elems {
			flat = append(flat, append(e.Strings(), e.Str)[0])
			if len(e.Elems) == 2 {
				flat = append(flat, e.Elems[1].Str)
			}
		}
		return flat
	}
	for _, size := range []int{10, 2000} {
		hset, zadd := "HSET h", "ZADD z"
		for i := range size {
			hset += fmt.Sprintf(" e%d %d", i, i)
			zadd += fmt.Sprintf(" %d e%d", i, i)
		}
		do(2, hset)
		do(2, zadd)
		for _, count := range []int{1, 5, 9, 100, 1900, 5000, -1, -7, -3000} {
			for _, c := range []struct{ command, with string }{{"HRANDFIELD h", "WITHVALUES"}, {"ZRANDMEMBER z", "WITHSCORES"}} {
				for proto := 2; proto <= 3; proto++ {
					line := fmt.Sprint(c.command, " ", count)
					wantElements(t, line, do(proto, line), size, count)
					pairs := do(proto, line+" "+c.with)
					var names []string
					for pair := range slices.Chunk(pairs, 2) {
						if pair[0] != "e"+pair[1] {
							t.Fatalf("%s: %s has the value %s", line, pair[0], pair[1])
						}
						names = append(names, pair[0])
					}
					wantElements(t, line+" with values", names, size, count)
				}
			}
		}
	}
}

// wantElements wants as many elements as the count asks for, distinct ones unless it is negative.
func wantElements(t *testing.T, what string, drawn []string, size, count int) {
	t.Helper()
	want := min(size, count)
	if count < 0 {
		want = -count
	}
	if len(drawn) != want {
		t.Errorf("%s of %d: %d elements, want %d", what, size, len(drawn), want)
	}
	for _, name := range drawn {
		if !strings.HasPrefix(name, "e") {
			t.Errorf("%s: %q is no element", what, name)
		}
	}
	if unique := len(slices.Compact(slices.Sorted(slices.Values(drawn)))); count > 0 && unique != want {
		t.Errorf("%s of %d: only %d are distinct", what, size, unique)
	}
}

// TestRandomElementsEndAtTheLimit asks for more elements than any reply can hold.
func TestRandomElementsEndAtTheLimit(t *testing.T) {
	h := newHandlers(t, hashRandomCommands(), hashCommands())
	h.do(t, 2, splitLine(t, "HSET h f v"))
	cmd, _ := h.table.Lookup([]byte("hrandfield"))
	var out resp.Writer
	out.SetLimit(64 << 10)
	h.tx.Begin(h.store.All())
	defer h.tx.End()
	args := splitLine(t, "HRANDFIELD h -9223372036854775807")
	if err := cmd.Run(&Call{Args: args, Out: &out, cmd: cmd, tx: h.tx}); err != nil || !out.Overflowed() {
		t.Errorf("%v, and the reply fitted", err)
	}
}
