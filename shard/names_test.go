package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestNameSet adds and removes names at random: what is there is never lacking, and what is not mostly is.
func TestNameSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := newNameSet(0)
	there := map[string]bool{}
	mistaken := map[string]bool{}
	for range 60_000 {
		name := fmt.Sprint(rnd.IntN(4000))
		if lacks := s.lacks([]byte(name)); lacks && there[name] {
			t.Fatalf("%s is said to be lacking", name)
		} else if !lacks && !there[name] {
			mistaken[name] = true
		}
		switch {
		case !there[name]:
			there[name] = true
			s.add([]byte(name))
		default:
			delete(there, name)
			s.remove([]byte(name))
		}
		if s.n != len(there) {
			t.Fatalf("%d names, want %d", s.n, len(there))
		}
	}
	if len(mistaken) > 4 { // a chance of one in 500 has two of the 4000 names share a hash, and either may be taken for the other
		t.Errorf("%d names that are not there are not said to be lacking", len(mistaken))
	}
	if full(s.n, len(s.cells)) || s.footprint() > 4*16<<10 {
		t.Errorf("%d names in %d cells", s.n, len(s.cells))
	}
	for name := range there {
		s.remove([]byte(name))
	}
	for cell, hash := range s.cells {
		if hash != 0 {
			t.Fatalf("%x was left in cell %d", hash, cell)
		}
	}
}

// namedElements adds and removes elements of a collection at the key k, by their names.
type namedElements struct {
	kind   string
	add    func(db DB, name []byte) (created bool, err error)
	remove func(db DB, name []byte) (there bool, err error)
}

func kindsOfNamedElements(t *testing.T) []namedElements {
	hash := func(db DB) Hash { h, err := db.Hash([]byte("k")); noError(t, err); return h }
	set := func(db DB) Set { s, err := db.SetOf([]byte("k")); noError(t, err); return s }
	zset := func(db DB) ZSet { z, err := db.ZSet([]byte("k")); noError(t, err); return z }
	return []namedElements{
		{"hash",
			func(db DB, name []byte) (bool, error) { return hash(db).Set(name, []byte("v")) },
			func(db DB, name []byte) (bool, error) { return hash(db).Delete(name) }},
		{"set",
			func(db DB, name []byte) (bool, error) { return set(db).Add(name) },
			func(db DB, name []byte) (bool, error) { return set(db).Remove(name) }},
		{"sorted set",
			func(db DB, name []byte) (bool, error) { return zset(db).Set(name, 1) },
			func(db DB, name []byte) (bool, error) { return zset(db).Remove(name) }},
	}
}

// TestNewElementsAreNotLookedFor adds and removes elements of collections that are too large to be cached.
func TestNewElementsAreNotLookedFor(t *testing.T) {
	for _, c := range kindsOfNamedElements(t) {
		t.Run(c.kind, func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
			opts.CacheBytes = 64 << 10
			st := openTest(t, opts)
			defer func() { closeTest(t, st) }()
			do := func(what func(DB, []byte) (bool, error), i int, want bool) (rows int64) {
				t.Helper()
				return doNamed(t, st, what, i, want)
			}
			const n = 2000 // of some 100 bytes
			var rows int64
			for i := range n {
				rows += do(c.add, i, true)
			}
			for i := 0; i < n; i += 2 {
				do(c.remove, i, true)
			}
			for i := 0; i < n; i += 2 {
				rows += do(c.remove, i, false) + do(c.add, i, true)
			}
			if rows != 0 {
				t.Errorf("%d rows were read for elements that are not there", rows)
			}
			for i := range n {
				rows += do(c.add, i, false)
			}
			if rows < n/2 {
				t.Errorf("%d rows were read for elements that are there: the cache is too large for this test", rows)
			}
			closeTest(t, st)
			st = openTest(t, opts)
			for i := range n {
				do(c.remove, i, true)
			}
			do(c.add, 0, true)
		})
	}
}

// doNamed adds or removes the i-th element, whose result is known, and returns how many rows were read.
func doNamed(t *testing.T, st *Store, what func(DB, []byte) (bool, error), i int, want bool) (rows int64) {
	t.Helper()
	tx, s := st.NewTx(), st.shards[0]
	tx.Begin(st.All())
	defer tx.End()
	before := s.stats.RowsRead
	done, err := what(tx.DB(0), fmt.Appendf(nil, "element-%d", i))
	noError(t, err)
	noError(t, tx.Commit())
	if done != want {
		t.Fatalf("element %d: %v, want %v", i, done, want)
	}
	return s.stats.RowsRead - before
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
