package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// TestStageModel compares a stage with a map: rows that are put, put again with shorter and longer values, and deleted.
func TestStageModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := newStage()
	for range 3 { // a stage is used again
		g.reset()
		model := map[string]string{}
		const deleted = "\xff"
		for range 20_000 {
			key := fmt.Sprintf("e%08d%d", rng.IntN(3), rng.IntN(12_000)) // more than the first slots take
			val := string(bytes.Repeat([]byte{'v'}, rng.IntN(40)))
			g.makeRoom(1)
			if rng.IntN(4) == 0 {
				g.put([]byte(key), nil, true, false)
				model[key] = deleted
			} else {
				g.put([]byte(key), []byte(val), false, model[key] == "")
				model[key] = val
			}
		}
		for key, want := range model {
			val, gone, ok := g.get([]byte(key))
			if !ok || gone != (want == deleted) || !gone && string(val) != want {
				t.Fatalf("%s: %q, deleted %t, there %t; want %q", key, val, gone, ok, want)
			}
		}
		if _, _, ok := g.get([]byte("e000000039")); ok || len(g.rows) != len(model) {
			t.Fatalf("%d rows, want %d, and none that was not put", len(g.rows), len(model))
		}
	}
}

// TestStageNewRows checks that a row that comes and goes within a stage leaves no tombstone, and any other that is deleted does.
func TestStageNewRows(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	g := newStage()
	put := func(key string, isNew bool) { g.put([]byte(key), []byte("v"), false, isNew) }
	del := func(key string) { g.put([]byte(key), nil, true, false) }
	put("gone", true)
	del("gone")
	put("old", false)
	del("old")
	del("back")
	put("back", true) // there was one when it was deleted
	del("back")
	put("stays", true)
	del("stays")
	put("stays", true)
	b := st.shards[0].db.NewBatch()
	defer b.Close()
	g.fill(b)
	got := ""
	for r := b.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got += fmt.Sprintf("%s %s;", kind, key)
	}
	if want := "DEL back;DEL old;SET stays;"; got != want {
		t.Errorf("the batch has %s want %s", got, want)
	}
}

// TestStageGroups checks that an iterator waits for rows of its own collection, and for no others.
func TestStageGroups(t *testing.T) {
	g := newStage()
	g.put(appendFieldKey(nil, 7, elementHash([]byte("f")), []byte("f")), nil, false, false)
	g.put(appendMetaKey(nil, 3, "k"), nil, false, false)
	of := func(row byte, id uint64) []byte { return appendElementPrefix(nil, row, id) }
	for _, c := range []struct {
		start, end []byte
		want       bool
	}{
		{of(rowElement, 7), of(rowElement, 8), true},
		{append(of(rowElement, 7), 'x'), of(rowElement, 8), true},
		{of(rowElement, 8), of(rowElement, 9), false},
		{of(rowScore, 7), of(rowScore, 8), false},
		{of(rowElement, 6), of(rowElement, 8), true}, // more than one collection
		{[]byte{rowMeta, 0, 0, 0, 3}, []byte{rowMeta, 0, 0, 0, 4}, true},
		{[]byte{rowMeta, 0, 0, 0, 4}, []byte{rowMeta, 0, 0, 0, 5}, false},
		{[]byte{rowDead}, []byte{rowDead + 1}, false},
	} {
		if got := g.mayHave(c.start, c.end); got != c.want {
			t.Errorf("%q to %q: %t", c.start, c.end, got)
		}
	}
	g.reset()
	if g.put([]byte{rowState}, nil, false, false); g.mayHave(of(rowElement, 7), of(rowElement, 8)) {
		t.Error("a stage remembers the groups of its last use")
	}
}

// TestStageOrder checks that a later stage wins over one that is being applied, that reads see both, and that all is in Pebble
// once they are applied.
func TestStageOrder(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	s := st.shards[0]
	tx := st.NewTx()
	key := func(i int) []byte { // many enough for a stage to fill
		return fmt.Appendf(nil, "k%d", i%100)
	}
	tx.Begin(st.All())
	defer tx.End()
	for i := range 500 {
		if err := tx.DB(0).Set(key(i), fmt.Append(nil, i), 0); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		s.cache.dropAll() // so that the row is read
		val, ok, err := tx.DB(0).Get(key(i))
		if err != nil || !ok || string(val) != fmt.Sprint(i) {
			t.Fatalf("%s is %q, %t, %v behind the commit of %d", key(i), val, ok, err, i)
		}
	}
	if err := s.unstage(); err != nil {
		t.Fatal(err)
	}
	for i := 400; i < 500; i++ {
		row := appendMetaKey(nil, s.state.spaces[0].id, string(key(i)))
		val, closer, err := s.db.Get(row)
		if err != nil {
			t.Fatal(err)
		}
		o := object{}
		if err := o.decode(val); err != nil || string(o.str) != fmt.Sprint(i) {
			t.Errorf("%s is %q in Pebble, %v; want %d", key(i), o.str, err, i)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.db.Get([]byte("nosuch")); err != pebble.ErrNotFound {
		t.Error(err)
	}
}
