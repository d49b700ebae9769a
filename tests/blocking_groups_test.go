package tests

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"codeq/internal/peer"
)

// The arena of consumer groups: consumers wait for the entries of several streams. Every entry must have been delivered to one
// consumer of the group, once, and have arrived there, unless that connection has ended.

func groupStreams() []string { return []string{"s0", "s1", "s2", "s3"} }

// drawRead draws a consumer's next call.
func drawRead(rng *rand.Rand, worker int) wait {
	block := "0"
	if worker >= 16 && rng.IntN(4) == 0 {
		block = strconv.Itoa(1 + rng.IntN(30))
	}
	count := 1 + rng.IntN(3)
	streams, ids := groupStreams(), []string{">", ">", ">", ">"}
	if worker >= 16 {
		rng.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
		streams, ids = streams[:2], ids[:2]
	}
	args := []string{"XREADGROUP", "GROUP", "g", "c" + strconv.Itoa(worker), "BLOCK", block, "COUNT", strconv.Itoa(count), "STREAMS"}
	return wait{slices.Concat(args, streams, ids), count * len(streams), func(reply []string) (elements []string) {
		for i, word := range reply {
			if word == "element" {
				elements = append(elements, reply[i+1])
			}
		}
		return elements
	}}
}

// drawAdd draws commands that add entries.
func drawAdd(rng *rand.Rand, name func(int) string) (commands [][]string, elements []string) {
	streams := groupStreams()
	add := func(element string) []string {
		return []string{"XADD", streams[rng.IntN(len(streams))], "*", "element", element}
	}
	elements = []string{name(0), name(1), name(2)}
	switch rng.IntN(4) {
	case 0:
		return [][]string{{"MULTI"}, add(name(0)), add(name(1)), add(name(2)), {"EXEC"}}, elements
	case 1:
		return [][]string{{"EVAL", "for i, v in ipairs(ARGV) do redis.call('xadd', KEYS[i], '*', 'element', v) end", "3",
			streams[rng.IntN(4)], streams[rng.IntN(4)], streams[rng.IntN(4)], name(0), name(1), name(2)}}, elements
	}
	return [][]string{add(name(0))}, elements[:1]
}

// allDelivered tells whether the group has been given the last entry of the stream.
func allDelivered(c *peer.Conn, key string) (bool, error) {
	reply, err := c.Call("EVAL", "return redis.call('xinfo', 'stream', KEYS[1])[8] == redis.call('xinfo', 'groups', KEYS[1])[1][8]", "1", key)
	return reply.Str == "1", err
}

// TestBlockingGroups plays with consumers of a group.
func TestBlockingGroups(t *testing.T) {
	g := game{draw: drawRead, drawPush: drawAdd, keys: groupStreams(), settled: allDelivered}
	for _, key := range g.keys {
		g.prepare = append(g.prepare, []string{"XGROUP", "CREATE", key, "g", "$", "MKSTREAM"})
	}
	eachArena(t, g, func(t *testing.T, a *arena) {
		c := a.server.DialForTest(t)
		pending := 0
		for _, key := range g.keys {
			reply, err := c.Call("XPENDING", key, "g", "-", "+", "1000000")
			if err != nil {
				t.Fatal(err)
			}
			pending += len(reply.Elems)
			for _, entry := range reply.Elems {
				if deliveries := entry.Elems[3].Str; deliveries != "1" {
					t.Fatalf("%s was delivered %s times", entry.Elems[0].Str, deliveries)
				}
			}
		}
		if pending != len(a.pushed) {
			t.Errorf("%d of %d entries were delivered", pending, len(a.pushed))
		}
	})
}
