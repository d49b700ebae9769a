package shard

import (
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestRandomElements draws from hashes and sorted sets, small and large, on one shard and on several, and wants every element
// to come about as often as the others, whether it was just written or has to be read.
func TestRandomElements(t *testing.T) {
	const shards = 3
	st := openTest(t, testOptions(vfs.NewMem(), shards, clock.System()))
	defer closeTest(t, st)
	tx := st.NewTx()
	sizes := []int{1, 40, 3 * cacheWholeLimit}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		for _, hashKey := range []string{"hash", "part:h"} {
			zsetKey := map[string]string{"hash": "zset", "part:h": "part:z"}[hashKey]
			tx.Begin(st.All())
			db := tx.DB(0)
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
			h, errH := db.Hash([]byte(hashKey))
			z, errZ := db.ZSet([]byte(zsetKey))
			if errH != nil || errZ != nil {
				t.Fatal(errH, errZ)
			}
			for i := range size {
				name := fmt.Appendf(nil, "e%d", i)
				if _, err := h.Set(name, name); err != nil {
					t.Fatal(err)
				}
				if _, err := z.Set(name, float64(i)); err != nil {
					t.Fatal(err)
				}
			}
			checkRandom(t, hashKey+", not committed", h, z, size)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx.End()
			tx.Begin(st.All())
			h, errH = tx.DB(0).Hash([]byte(hashKey))
			z, errZ = tx.DB(0).ZSet([]byte(zsetKey))
			if errH != nil || errZ != nil {
				t.Fatal(errH, errZ)
			}
			checkRandom(t, hashKey, h, z, size)
			tx.End()
		}
	}
}

func checkRandom(t *testing.T, what string, h Hash, z ZSet, size int) {
	t.Helper()
	draws := 10 * size
	counts := map[string]int{}
	count := func(name []byte, val string) {
		if string(name) != val {
			t.Fatalf("%s: %s has the value %s", what, name, val)
		}
		counts[val]++
	}
	for n := range int64(draws) { // one by one, and some at once
		n = n%3 + 1
		if err := h.Random(n, func(field, val []byte) { count(field, string(val)) }); err != nil {
			t.Fatal(err)
		}
		if err := z.Random(n, func(member []byte, score float64) { count(member, fmt.Sprint("e", score)) }); err != nil {
			t.Fatal(err)
		}
	}
	wantEven(t, what, counts, size)
	clear(counts)
	left := draws
	err := h.RandomRepeated(math.MaxInt64, func(field, val []byte) bool {
		count(field, string(val))
		left--
		return left > 0
	})
	if err != nil || left != 0 {
		t.Fatal(err, left)
	}
	for n := draws; n > 0; n -= 5 { // too few to read all
		err := z.RandomRepeated(5, func(member []byte, score float64) bool {
			count(member, fmt.Sprint("e", score))
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantEven(t, what+", repeated", counts, size)
}

// wantEven wants every element to have come, and none three times as often as on average.
func wantEven(t *testing.T, what string, counts map[string]int, size int) {
	t.Helper()
	if len(counts) != size {
		t.Errorf("%s: %d of %d elements came", what, len(counts), size)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	for name, n := range counts {
		if n > 3*total/size+10 {
			t.Errorf("%s: %s came %d times, on average %d", what, name, n, total/size)
		}
	}
}

// TestDistinctElementsOfFew asks for more distinct fields than drawing one by one ever gives, as where a client has made all
// hashes the same: that must end all the same.
func TestDistinctElementsOfFew(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.System()))
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, err := tx.DB(0).Hash([]byte("h"))
	if err != nil {
		t.Fatal(err)
	}
	const size, wanted = 2 * cacheWholeLimit, 100
	for i := range size {
		if _, err := h.Set(fmt.Append(nil, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	draws := 0
	one := func() (ticket[[]byte], error) {
		draws++
		return ticket[[]byte]{name: fmt.Append(nil, draws%7)}, nil
	}
	seen := map[string]bool{}
	err = h.lottery().drawDistinct(wanted, size, one, func(name, _ []byte) { seen[string(name)] = true })
	if err != nil || len(seen) != wanted || draws > maxDraws*wanted {
		t.Errorf("%v: %d different fields in %d draws, want %d", err, len(seen), draws, wanted)
	}
}
