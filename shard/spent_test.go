package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// spenders are changes, each to another key or element.
func spenders() map[string]func(d DB, n int) error {
	key := func(n int) []byte { return fmt.Appendf(nil, "key-%04d", n) }
	text := func(size int) []byte { return []byte(strings.Repeat("x", size)) }
	push := func(list List, err error, val []byte) error {
		if err != nil {
			return err
		}
		return list.Push(Tail, val)
	}
	field := func(hash Hash, err error, field []byte) error {
		if err != nil {
			return err
		}
		_, err = hash.Set(field, []byte("v"))
		return err
	}
	member := func(set Set, err error, member []byte) error {
		if err != nil {
			return err
		}
		_, err = set.Add(member)
		return err
	}
	score := func(zset ZSet, err error, member []byte) error {
		if err != nil {
			return err
		}
		_, err = zset.Set(member, float64(len(member)))
		return err
	}
	whole := []byte("one")
	return map[string]func(d DB, n int) error{
		"small strings":  func(d DB, n int) error { return d.Set(key(n), text(1), 0) },
		"whole strings":  func(d DB, n int) error { return d.Set(key(n), text(10_000), 0) },
		"strings cut":    func(d DB, n int) error { return d.Set(key(n), text(40_000), 0) },
		"small lists":    func(d DB, n int) error { l, err := d.List(key(n)); return push(l, err, text(1)) },
		"large elements": func(d DB, n int) error { l, err := d.List(key(n)); return push(l, err, text(10_000)) },
		"one list":       func(d DB, n int) error { l, err := d.List(whole); return push(l, err, text(1)) },
		"small hashes":   func(d DB, n int) error { h, err := d.Hash(key(n)); return field(h, err, whole) },
		"one hash":       func(d DB, n int) error { h, err := d.Hash(whole); return field(h, err, key(n)) },
		"small sets":     func(d DB, n int) error { s, err := d.SetOf(key(n)); return member(s, err, whole) },
		"one set":        func(d DB, n int) error { s, err := d.SetOf(whole); return member(s, err, key(n)) },
		"small zsets":    func(d DB, n int) error { z, err := d.ZSet(key(n)); return score(z, err, whole) },
		"one zset":       func(d DB, n int) error { z, err := d.ZSet(whole); return score(z, err, key(n)) },
	}
}

// TestSpentIsHeld compares what a transaction counts with what it has in the end: it must not count less, for that has no bound then,
// and not many times as much.
func TestSpentIsHeld(t *testing.T) {
	for name, spend := range spenders() {
		opts := testOptions(vfs.NewMem(), 4, clock.NewManual(testStart))
		opts.stringBytes, opts.chunkBits = stringBytes, chunkBits
		st := openTest(t, opts)
		tx := st.NewTx()
		tx.Begin(st.All())
		for n := range 1000 {
			if err := spend(tx.DB(0), n); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		counted, rows, held := tx.spent, 0, 0
		for _, s := range st.shards {
			for _, o := range s.dirty {
				s.cache.charge(o)
			}
			held += s.cache.bytes
			s.flushMeta()
			rows += s.batch.Len()
		}
		held += rows
		if counted.held < held || counted.held > 2*held {
			t.Errorf("%s: counts %d bytes of memory, and takes %d", name, counted.held, held)
		}
		written := counted.rows + counted.unwritten
		if written < rows*3/4 || written > 4*rows { // without what frames each row, and with what metadata has at most
			t.Errorf("%s: counts %d bytes of rows, and writes %d", name, written, rows)
		}
		tx.End()
		if tx.spent != (spent{}) {
			t.Errorf("%s: afterwards %+v", name, tx.spent)
		}
		closeTest(t, st)
	}
}

// TestSpentIsBounded checks that the bounds hold over all shards together, also for messages, and that a transaction that has passed one leaves
// nothing.
func TestSpentIsBounded(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	tx := st.NewTx()
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}
	nearly := map[string]func(){
		"rows":     func() { tx.write(maxTransaction - 3*dirtyOverhead) },
		"metadata": func() { tx.spend(maxTransaction - 3*dirtyOverhead) },
		"memory":   func() { tx.occupy(maxHeld - 2*objectOverhead) },
		"messages": func() {
			tx.occupy(maxHeld - 1<<20)
			tx.Note(Note{Class: NotePublish, Message: make([]byte, 1<<19-1000)})
		},
	}
	for name, spend := range nearly {
		tx.Begin(st.All())
		spend()
		if err := tx.Check(); err != nil || !tx.IsLarge() {
			t.Fatalf("%s: %v, large %t", name, err, tx.IsLarge())
		}
		var err error
		for n := 0; n < 1000 && err == nil; n++ {
			if err = tx.DB(n%4).Set(fmt.Appendf(nil, "%s%d", keys[n%4], n), []byte("value"), 0); err == nil {
				err = tx.Check()
			}
		}
		if !errors.Is(err, ErrTooBig) {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Commit(); !errors.Is(err, ErrTooBig) {
			t.Errorf("%s: committed: %v", name, err)
		}
		for n := range 4 {
			if size, err := tx.DB(n).Size(); size != 0 || err != nil {
				t.Errorf("%s: %d keys are left, %v", name, size, err)
			}
		}
		if err := tx.Check(); err != nil || tx.IsLarge() {
			t.Errorf("%s: afterwards %v, large %t", name, err, tx.IsLarge())
		}
		tx.End()
	}
}

// TestCheckEvictsWhatWasRead reads more than the cache has room for in one transaction that has also changed something, after one that has
// changed more than that. What it has changed stays.
func TestCheckEvictsWhatWasRead(t *testing.T) {
	const keys, size, budget = 2000, 1000, 100_000
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes, opts.stringBytes = budget, 2*size
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx, cache, value := st.NewTx(), st.shards[0].cache, make([]byte, size)
	name := func(n int) []byte { return fmt.Appendf(nil, "key-%d", n) }
	tx.Begin(st.All())
	for n := range keys {
		if err := tx.DB(0).Set(name(n), value, 0); err != nil {
			t.Fatal(err)
		}
		if err := tx.Check(); err != nil { // it keeps all, which is no matter of the next transaction's
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx.End()
	tx.Begin(st.All())
	defer tx.End()
	changed := 0 // bytes that it has to keep
	for n := range keys {
		if n%50 == 0 {
			if err := tx.DB(0).Set(name(n), []byte("changed"), 0); err != nil {
				t.Fatal(err)
			}
			changed += objectOverhead + size + 16
		} else if got, ok, err := tx.DB(0).Get(name(n)); len(got) != size || !ok || err != nil {
			t.Fatalf("%s: %d bytes, %t, %v", name(n), len(got), ok, err)
		}
		if err := tx.Check(); err != nil {
			t.Fatal(err)
		}
		if most := budget + changed + 2*budget/evictStep; cache.bytes > most {
			t.Fatalf("after %d keys the cache has %d bytes, at most %d were expected", n, cache.bytes, most)
		}
	}
	for n := 0; n < keys; n += 50 {
		if got, _, err := tx.DB(0).Get(name(n)); string(got) != "changed" || err != nil {
			t.Fatalf("%s: %.10q, %v", name(n), got, err)
		}
	}
}
