package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// orderTracker has the rows of some keys in the order of half of the numbers that they are, or else of hashes.
type orderTracker struct{ noTracker }

func (orderTracker) Track(key []byte) *Tracking {
	switch string(key) {
	case "c", "d", "part:h", "part:z":
		return &Tracking{Ordered: true}
	}
	return nil
}

func (orderTracker) Order(element []byte) (place uint32, ok bool) {
	n, err := strconv.ParseUint(string(element), 10, 32)
	return uint32(n / 2), err == nil
}

func place(element string) uint32 {
	place, _ := orderTracker{}.Order([]byte(element))
	return place
}

// fillOrdered writes a hash and a sorted set, in no order.
func fillOrdered(t *testing.T, st *Store, hash, zset string) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, errH := tx.DB(0).Hash([]byte(hash))
	z, errZ := tx.DB(0).ZSet([]byte(zset))
	if errH != nil || errZ != nil {
		t.Fatal(errH, errZ)
	}
	for i := range 3 * cacheWholeLimit {
		name := fmt.Appendf(nil, "%d", i*7919%(3*cacheWholeLimit))
		if _, err := h.Set(name, name); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Set(name, float64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// scanned lists the elements as HSCAN and ZSCAN return them, which is in the order of their rows, and looks each of them up.
func scanned(t *testing.T, st *Store, hash, zset string) (fields, members []string) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, errH := tx.DB(0).Hash([]byte(hash))
	z, errZ := tx.DB(0).ZSet([]byte(zset))
	if errH != nil || errZ != nil {
		t.Fatal(errH, errZ)
	}
	var err error
	for cursor := uint64(0); cursor > 0 || len(fields) == 0; {
		if cursor, err = h.Scan(cursor, 10, func(field, _ []byte) { fields = append(fields, string(field)) }); err != nil {
			t.Fatal(err)
		}
	}
	for cursor := uint64(0); cursor > 0 || len(members) == 0; {
		if cursor, err = z.Scan(cursor, 10, func(member []byte, _ float64) { members = append(members, string(member)) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range fields {
		_, inHash, errH := h.Get([]byte(name))
		_, inZSet, errZ := z.Score([]byte(name))
		if !inHash || !inZSet || errH != nil || errZ != nil {
			t.Fatalf("%s of %s and %s: %v, %v, %v, %v", name, hash, zset, inHash, inZSet, errH, errZ)
		}
	}
	return fields, members
}

// TestOrderedRows: the rows of a collection that begins while its key is tracked as ordered stand in the tracker's order, also under
// another name and after a restart. One that is there already keeps its own.
func TestOrderedRows(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.System())
	st := openTest(t, opts)
	fillOrdered(t, st, "part:h", "part:z")
	closeTest(t, st)
	opts.Tracker = orderTracker{}
	st = openTest(t, opts)
	fillOrdered(t, st, "c", "d")
	tx := st.NewTx()
	tx.Begin(st.All())
	if err := tx.DB(0).Rename([]byte("c"), []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx.End()
	closeTest(t, st)
	st = openTest(t, opts)
	defer closeTest(t, st)

	want := make([]string, 3*cacheWholeLimit)
	for i := range want {
		want[i] = strconv.Itoa(i)
	}
	inOrder := func(a, b string) int {
		if c := cmp.Compare(place(a), place(b)); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	}
	slices.SortFunc(want, inOrder)
	if fields, members := scanned(t, st, "a", "d"); !slices.Equal(fields, want) || !slices.Equal(members, want) {
		t.Errorf("scanned %v and %v", fields, members)
	}
	slices.SortFunc(want, func(a, b string) int { return int(int64(elementHash([]byte(a))) - int64(elementHash([]byte(b)))) })
	if fields, members := scanned(t, st, "part:h", "part:z"); !slices.Equal(fields, want) || !slices.Equal(members, want) {
		t.Errorf("from before: scanned %v and %v", fields, members)
	}
	tx = st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, err := tx.DB(0).Hash([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	drawn := make(map[string]bool)
	err = h.RandomRepeated(200, func(field, _ []byte) bool { drawn[string(field)] = true; return true })
	if err != nil || len(drawn) < 100 {
		t.Errorf("of 200 random fields %d are different, %v", len(drawn), err)
	}
}
