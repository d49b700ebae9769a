package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestGlobLikeRedis compares patterns with Redis' KEYS, drawn at random from an alphabet in which every byte has a
// meaning to some pattern.
func TestGlobLikeRedis(t *testing.T) {
	redis := startRedis(t)
	const letters = "ab*?[]^-\\\x80\xff"
	seed := rand.Uint64()
	draw := rand.New(rand.NewPCG(seed, 0))
	word := func(longest int) []byte {
		b := make([]byte, draw.IntN(longest+1))
		for i := range b {
			b[i] = letters[draw.IntN(len(letters))]
		}
		return b
	}
	for range 20 {
		key := word(5)
		redis.do(t, [][]byte{[]byte("FLUSHALL")})
		redis.do(t, [][]byte{[]byte("SET"), key, nil})
		for range 300 {
			pattern := word(8)
			if string(pattern) == "*" {
				continue // KEYS has a way of its own for all keys.
			}
			want := redis.do(t, [][]byte{[]byte("KEYS"), pattern}) != "*0\r\n"
			if got := globMatch(pattern, key); got != want {
				t.Errorf("seed %d: pattern %q, key %q: got %v, want %v", seed, pattern, key, got, want)
			}
		}
	}
}

func TestScanCollectionLikeRedis(t *testing.T) {
	sameAsRedis(t, "scan.txt", hashCommands(), stringCommands())
}

func TestScanVisitsEveryKey(t *testing.T) {
	h := newHandlers(t, keyCommands(), stringCommands())
	const n = 1000
	for i := range n {
		h.do(t, 2, splitLine(t, fmt.Sprintf("SET key:%d v", i)))
	}
	seen := map[string]bool{}
	for cursor := "0"; ; {
		reply := h.do(t, 2, splitLine(t, "SCAN "+cursor+" COUNT 37 MATCH key:* TYPE string"))
		// *2, $n, the cursor, *n, then a length and a key by turns.
		lines := strings.Split(strings.TrimSuffix(reply, "\r\n"), "\r\n")
		cursor = lines[2]
		for i := 5; i < len(lines); i += 2 {
			seen[lines[i]] = true
		}
		if cursor == "0" {
			break
		}
	}
	if len(seen) != n {
		t.Errorf("SCAN visited %d of %d keys", len(seen), n)
	}
}
