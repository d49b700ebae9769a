package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

func arrivingRow(key, val string, deleted, marked bool) arriving {
	return arriving{[]byte(key), []byte(val), rowHash([]byte(key)), deleted, marked}
}

func putRow(g *stage, key, val string, deleted, marked bool) {
	g.makeRoom(1)
	g.putAll([]arriving{arrivingRow(key, val, deleted, marked)})
}

// TestStageModel compares a stage with a map: rows that are put, put again with shorter and longer values, and deleted.
func TestStageModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := newStage()
	for range 3 { // a stage is used again
		g.reset()
		model := map[string]string{}
		const deleted = "\xff"
		var rows []arriving
		for range 20_000 {
			key := fmt.Sprintf("e%08d%d", rng.IntN(3), rng.IntN(12_000)) // more than the first slots take
			val := string(bytes.Repeat([]byte{'v'}, rng.IntN(40)))
			if rng.IntN(4) == 0 {
				rows = append(rows, arrivingRow(key, "", true, false))
				model[key] = deleted
			} else {
				rows = append(rows, arrivingRow(key, val, false, model[key] == ""))
				model[key] = val
			}
			if rng.IntN(8) == 0 {
				g.makeRoom(len(rows))
				g.putAll(rows)
				rows = rows[:0]
			}
		}
		g.makeRoom(len(rows))
		g.putAll(rows)
		for key, want := range model {
			val, gone, ok := g.get(rowHash([]byte(key)), []byte(key))
			if !ok || gone != (want == deleted) || !gone && string(val) != want {
				t.Fatalf("%s: %q, deleted %t, there %t; want %q", key, val, gone, ok, want)
			}
		}
		if _, _, ok := g.get(rowHash([]byte("e000000039")), []byte("e000000039")); ok || len(g.rows) != len(model) {
			t.Fatalf("%d rows, want %d, and none that was not put", len(g.rows), len(model))
		}
	}
}

// TestStageNewRows checks that a row that comes and goes within a stage leaves no tombstone, and any other that is deleted does.
func TestStageNewRows(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	g := newStage()
	put := func(key string, isNew bool) { putRow(g, key, "v", false, isNew) }
	del := func(key string) { putRow(g, key, "", true, false) }
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
	if got, want := filled(t, st, g), "DEL back;DEL old;SET stays;"; got != want {
		t.Errorf("the batch has %s want %s", got, want)
	}
}

// filled is what the stage puts into a batch.
func filled(t *testing.T, st *Store, g *stage) (rows string) {
	t.Helper()
	b := st.shards[0].db.NewBatch()
	defer b.Close()
	g.fill(b, g.all(), math.MaxInt)
	for r := b.Reader(); ; {
		kind, key, val, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return rows
		}
		rows += fmt.Sprintf("%s %s", kind, key)
		if kind == pebble.InternalKeyKindRangeDelete {
			rows += "-" + string(val)
		}
		rows += ";"
	}
}

// TestStageRanges checks that many deleted elements of a list that stand side by side go as one range, and what is not of them stays out
// of it.
func TestStageRanges(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	row := func(id uint64, index int64) string { return string(appendIndexKey(nil, id, index)) }
	del := func(g *stage, id uint64, from, to int64, marked bool) {
		for index := from; index < to; index++ {
			putRow(g, row(id, index), "", true, marked)
		}
	}
	one := func(n int64) (rows string) {
		for index := range n {
			rows += fmt.Sprintf("DEL %s;", row(7, index))
		}
		return rows
	}
	span := func(id uint64, from, to int64) string {
		return fmt.Sprintf("RANGEDEL %s-%s;", row(id, from), row(id, to))
	}
	for name, c := range map[string]struct {
		stage func(g *stage)
		want  string
	}{
		"enough":         {func(g *stage) { del(g, 7, 0, rangeRows, true) }, span(7, 0, rangeRows)},
		"around zero":    {func(g *stage) { del(g, 7, -rangeRows, 250, true) }, span(7, -rangeRows, 250)},
		"too few":        {func(g *stage) { del(g, 7, 0, rangeRows-1, true) }, one(rangeRows - 1)},
		"not of a list":  {func(g *stage) { del(g, 7, 0, rangeRows, false) }, one(rangeRows)},
		"two lists":      {func(g *stage) { del(g, 7, 0, 100, true); del(g, 8, 100, 200, true) }, span(7, 0, 100) + span(8, 100, 200)},
		"a hole":         {func(g *stage) { del(g, 7, 0, 100, true); del(g, 7, 101, 200, true) }, span(7, 0, 100) + span(7, 101, 200)},
		"one comes back": {func(g *stage) { del(g, 7, 0, 200, true); putRow(g, row(7, 100), "", false, true) }, span(7, 0, 100) + "SET " + row(7, 100) + ";" + span(7, 101, 200)},
	} {
		g := newStage()
		if c.stage(g); filled(t, st, g) != c.want {
			t.Errorf("%s: the batch has not %q", name, c.want)
		}
	}
}

// TestStageSorts checks that rows are in the order of their keys, whichever part of them differs.
func TestStageSorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	ids := []uint64{0, 1, 255, 256, 1 << 24, math.MaxUint32 - 1, math.MaxUint32, 1 << 32, 1<<32 + 1, math.MaxUint64}
	keys := make(map[string]bool)
	for range 5000 {
		key := []byte{"efgklmoqsxy"[rng.IntN(11)]} // but for the state row, which comes last
		if rng.IntN(3) > 0 {
			key = binary.BigEndian.AppendUint64(key, ids[rng.IntN(len(ids))])
		}
		for range rng.IntN(16) {
			key = append(key, "\x00\x01\xff"[rng.IntN(3)])
		}
		keys[string(key)] = true
	}
	g := newStage()
	for key := range keys {
		putRow(g, key, "", false, true)
	}
	var got []string
	for _, r := range g.all() {
		got = append(got, string(g.keyOf(r.row)))
	}
	if want := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
		t.Errorf("the rows are in another order than their keys")
	}
}

// TestStageGroups checks that an iterator has rows of its own collection applied, of a stage that takes rows and of one that is
// being applied, and no others, and that the rest goes where it belongs.
func TestStageGroups(t *testing.T) {
	field := appendFieldKey(nil, 7, elementHash([]byte("f")), []byte("f"))
	key := appendMetaKey(nil, 3, "k")
	of := func(row byte, id uint64) []byte { return appendElementPrefix(nil, row, id) }
	for _, c := range []struct {
		start, end  []byte
		field, meta bool
	}{
		{of(rowElement, 7), of(rowElement, 8), true, false},
		{append(of(rowElement, 7), 'x'), of(rowElement, 8), true, false},
		{of(rowElement, 8), of(rowElement, 9), false, false},
		{of(rowScore, 7), of(rowScore, 8), false, false},
		{of(rowElement, 6), of(rowElement, 8), true, true}, // more than one collection: all are applied
		{[]byte{rowMeta, 0, 0, 0, 3}, []byte{rowMeta, 0, 0, 0, 4}, false, true},
		{[]byte{rowMeta, 0, 0, 0, 4}, []byte{rowMeta, 0, 0, 0, 5}, false, false},
		{[]byte{rowDead}, []byte{rowDead + 1}, false, false},
	} {
		for _, behind := range []bool{false, true} {
			st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
			s := st.shards[0]
			s.mu.Lock()
			if err := s.unstage(); err != nil {
				t.Fatal(err)
			}
			for _, row := range [][]byte{field, key} {
				putRow(s.staged, string(row), "v", false, true)
			}
			release := func() {}
			if behind {
				release = sync.OnceFunc(holdStage(t, s))
			}
			if c.field && c.meta {
				release() // who waits for all waits for the rest of the stage
			}
			if err := s.unstageWithin(c.start, c.end); err != nil {
				t.Fatal(err)
			}
			if a, b := isApplied(t, s, field), isApplied(t, s, key); a != c.field || b != c.meta {
				t.Errorf("%q to %q, behind %t: the field is applied: %t, the key: %t", c.start, c.end, behind, a, b)
			}
			release()
			if err := s.unstage(); err != nil || !isApplied(t, s, field) || !isApplied(t, s, key) {
				t.Errorf("%q to %q, behind %t: not all is applied in the end: %v", c.start, c.end, behind, err)
			}
			s.mu.Unlock()
			closeTest(t, st)
		}
	}
}

func isApplied(t *testing.T, s *Shard, key []byte) bool {
	t.Helper()
	_, closer, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestStageAhead puts and deletes rows of some collections, has now one and now another applied ahead of the others, in stages that take
// rows and in such as are being applied, and compares what iterators see with a model.
func TestStageAhead(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.stageBytes = 8000
	st := openTest(t, opts)
	defer closeTest(t, st)
	s := st.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stagePending()
	rng := rand.New(rand.NewPCG(3, 4))
	model := [3]map[string]string{{}, {}, {}}
	for i := range 30_000 {
		id, index := rng.IntN(len(model)), int64(rng.IntN(300))
		key := string(appendIndexKey(nil, uint64(1000+id), index))
		if rng.IntN(100) == 0 {
			for end := index + 150; index < end; index++ {
				putRow(s.staged, string(appendIndexKey(nil, uint64(1000+id), index)), "", true, true)
				delete(model[id], string(appendIndexKey(nil, uint64(1000+id), index)))
			}
		} else if old, there := model[id][key]; there && rng.IntN(2) == 0 {
			putRow(s.staged, key, "", true, true)
			delete(model[id], key)
		} else {
			val := old + fmt.Sprint(i%7)
			putRow(s.staged, key, val, false, !there)
			model[id][key] = val
		}
		if len(s.staged.data) > opts.stageBytes {
			if err := s.turnStage(); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(50) != 0 {
			continue
		}
		got := map[string]string{}
		err := s.eachRow(appendElementPrefix(nil, rowElement, uint64(1000+id)), appendElementPrefix(nil, rowElement, uint64(1001+id)),
			func(row, val []byte) error {
				got[string(row)] = string(val)
				return nil
			})
		if err != nil || !maps.Equal(got, model[id]) {
			t.Fatalf("step %d: an iterator sees %q, %v; want %q", i, got, err, model[id])
		}
	}
}

// TestStageAheadOfCrash has rows that were applied ahead of the others written to a table, and the process die then: the log brings back
// all that was committed, over rows that are later than the state row.
func TestStageAheadOfCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	s, tx := st.shards[0], st.NewTx()
	add := func(key string, i int) {
		t.Helper()
		tx.Begin(st.All())
		l, err := tx.DB(0).List([]byte(key))
		if err == nil {
			err = l.Push(Tail, fmt.Append(nil, i))
		}
		if err == nil && i >= 5 {
			_, _, err = l.Pop(Head)
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Wait(tx.End()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		add("a", i)
		add("b", i)
		if i == 10 {
			s.mu.Lock()
			id := s.cache.get(0, []byte("a")).id
			err := s.unstageWithin(appendElementPrefix(nil, rowElement, id), appendElementPrefix(nil, rowElement, id+1))
			if err == nil {
				err = s.db.Flush()
			}
			s.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := st.log.sync(); err != nil {
		t.Fatal(err)
	}
	opts.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	crashed := openTest(t, opts)
	defer closeTest(t, crashed)
	closeTest(t, st)
	tx = crashed.NewTx()
	tx.Begin(crashed.All())
	defer tx.End()
	for _, key := range []string{"a", "b"} {
		l, err := tx.DB(0).List([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := l.Range(0, 4, func(val []byte) { got += string(val) + " " }); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Len(); n != 5 || err != nil || got != "15 16 17 18 19 " {
			t.Errorf("%s has %d elements, %s, %v", key, n, got, err)
		}
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
