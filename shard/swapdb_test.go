package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// swapModel is what the databases of a store should hold: for each key a description of its value and its deadline.
type swapModel []map[string]swapValue

type swapValue struct {
	items []string // of a list; a string has one
	at    int64
}

func (m swapModel) clone() swapModel {
	out := make(swapModel, len(m))
	for n := range m {
		out[n] = maps.Clone(m[n])
	}
	return out
}

// TestSwapDBModel draws operations on databases and holds the store against a model, over aborts, restarts and crashes.
func TestSwapDBModel(t *testing.T) {
	for seed := range seeds(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		clk := clock.NewManual(testStart)
		fs := vfs.NewCrashableMem()
		st := openTest(t, testOptions(fs, 3, clk))
		model := make(swapModel, 4)
		for n := range model {
			model[n] = make(map[string]swapValue)
		}
		tx := st.NewTx()
		for range 150 {
			next := model.clone()
			tx.Begin(st.All())
			for range 1 + rng.IntN(6) {
				if err := stepSwap(rng, tx, next); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(4) == 0 {
				tx.Abort()
			} else {
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				model = next
			}
			checkSwap(t, seed, tx, model)
			if err := st.Wait(tx.End()); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(15) == 0 {
				if rng.IntN(2) == 0 {
					fs = fs.CrashClone(vfs.CrashCloneCfg{})
				}
				closeTest(t, st)
				st = openTest(t, testOptions(fs, 3, clk))
				tx = st.NewTx()
			}
			clk.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
			model.expire(clk.NowMs())
		}
		closeTest(t, st)
	}
}

func (m swapModel) expire(nowMs int64) {
	for _, keys := range m {
		maps.DeleteFunc(keys, func(_ string, v swapValue) bool { return v.at != 0 && v.at <= nowMs })
	}
}

// stepSwap carries out one operation on the store and on the model.
func stepSwap(rng *rand.Rand, tx *Tx, m swapModel) error {
	a, b := rng.IntN(len(m)), rng.IntN(len(m))
	d, key := tx.DB(a), fmt.Sprint([]string{"s", "l"}[rng.IntN(2)], rng.IntN(6))
	switch rng.IntN(7) {
	case 0:
		m[a], m[b] = m[b], m[a]
		return tx.SwapDB(a, b)
	case 1:
		if _, taken := m[b][key]; taken || len(m[a][key].items) == 0 {
			return nil
		}
		m[b][key] = m[a][key]
		delete(m[a], key)
		ok, err := d.MoveKey([]byte(key), tx.DB(b))
		if err == nil && !ok {
			err = fmt.Errorf("key %s was not moved", key)
		}
		return err
	case 2:
		if rng.IntN(5) > 0 {
			return nil
		}
		clear(m[a])
		return d.Flush()
	case 3:
		delete(m[a], key)
		_, err := d.Delete([]byte(key))
		return err
	case 4:
		v, ok := m[a][key]
		if v.at = tx.nowMs + int64(rng.IntN(100)) + 1; ok {
			m[a][key] = v
		}
		_, err := d.SetExpireAt([]byte(key), v.at)
		return err
	default:
		v := m[a][key]
		item := fmt.Sprint(rng.IntN(1000))
		if key[0] == 's' {
			m[a][key] = swapValue{items: []string{item}}
			return d.Set([]byte(key), []byte(item), 0)
		}
		v.items = append(slices.Clone(v.items), item)
		m[a][key] = v
		return pushTo(d, key, item)
	}
}

// checkSwap compares all databases with the model.
func checkSwap(t *testing.T, seed uint64, tx *Tx, m swapModel) {
	t.Helper()
	for n, want := range m {
		d := tx.DB(n)
		have := make(map[string]swapValue)
		var names []string
		for i := range 12 { // what has expired counts until it is looked at
			if _, err := d.Exists(fmt.Appendf(nil, "%c%d", "sl"[i%2], i/2)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Keys(func(key []byte, _ Kind) { names = append(names, string(key)) }); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			v, err := readSwap(d, name)
			if err != nil {
				t.Fatal(err)
			}
			have[name] = v
		}
		if got, text := fmt.Sprint(have), fmt.Sprint(want); got != text {
			t.Fatalf("seed %d, database %d: %s, want %s", seed, n, got, text)
		}
		if size, err := d.Size(); err != nil || size != int64(len(want)) {
			t.Fatalf("seed %d, database %d: size %d, want %d, %v", seed, n, size, len(want), err)
		}
	}
}

func readSwap(d DB, name string) (v swapValue, err error) {
	if v.at, _, err = d.ExpireAt([]byte(name)); err != nil {
		return v, err
	}
	if name[0] == 's' {
		val, _, err := d.Get([]byte(name))
		v.items = []string{string(val)}
		return v, err
	}
	l, err := d.List([]byte(name))
	if err != nil {
		return v, err
	}
	n, err := l.Len()
	if err != nil {
		return v, err
	}
	return v, l.Range(0, n-1, func(val []byte) { v.items = append(v.items, string(val)) })
}

// TestSwapDBWatch tells those who watch a key that exists in either database, and nobody else.
func TestSwapDBWatch(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 2, clock.NewManual(testStart)))
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	for db, key := range []string{"here", "there", "elsewhere"} {
		if err := tx.DB(db).Set([]byte(key), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	watches := map[string]*Watch{}
	for _, key := range []string{"here", "there", "elsewhere", "nowhere"} {
		watches[key] = new(Watch)
		if err := tx.Watch(watches[key], 0, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.SwapDB(0, 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for key, w := range watches {
		if want := key == "here" || key == "there"; w.Dirty(tx) != want {
			t.Errorf("%s: dirty %v, want %v", key, !want, want)
		}
		tx.Unwatch(w)
	}
}

// TestSwapDBServes serves those who wait for a list that the swap brings, on each shard.
func TestSwapDBServes(t *testing.T) {
	st := openWaiting(t)
	var waiting []*popper
	for n := range st.shards {
		key := keyOn(st, n, "k")
		waiting = append(waiting, newPopper(t, st, "", key).block())
		change(t, st, st.All(), func(tx *Tx, _ DB) error { return pushTo(tx.DB(1), key, "x") })
		waiting[n].wantWaiting()
	}
	other := newPopper(t, st, "", "missing").block()
	change(t, st, st.All(), func(tx *Tx, _ DB) error { return tx.SwapDB(0, 1) })
	for n, p := range waiting {
		p.wantServed(keyOn(st, n, "k") + "=x")
	}
	other.wantWaiting()
	other.giveUp()
	change(t, st, st.All(), func(tx *Tx, _ DB) error {
		if n, err := tx.DB(0).Size(); n != 0 || err != nil {
			t.Errorf("%d keys are left, %v", n, err)
		}
		return nil
	})
}

// TestMoveKeyPartitioned moves all fragments of a partitioned key.
func TestMoveKeyPartitioned(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 3, clock.NewManual(testStart)))
	defer closeTest(t, st)
	key := []byte("part:h")
	change(t, st, st.All(), func(tx *Tx, d DB) error {
		h, err := d.Hash(key)
		for i := range 20 {
			if err == nil {
				_, err = h.Set(fmt.Append(nil, i), []byte("v"))
			}
		}
		return err
	})
	change(t, st, st.All(), func(tx *Tx, d DB) error {
		if ok, err := d.MoveKey(key, tx.DB(2)); !ok || err != nil {
			t.Errorf("moved %v, %v", ok, err)
		}
		return nil
	})
	change(t, st, st.All(), func(tx *Tx, d DB) error {
		for db, want := range map[int]int64{0: 0, 2: 20} {
			h, err := tx.DB(db).Hash(key)
			if err != nil {
				return err
			}
			if n, err := h.Len(); n != want || err != nil {
				t.Errorf("database %d has %d fields, want %d, %v", db, n, want, err)
			}
		}
		return nil
	})
}
