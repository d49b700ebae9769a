package shard

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// momentModel is which of six fields, more than fetchLeast, a hash has: results, and what it may have been renamed to.
type momentModel struct {
	results, aside map[string]bool
}

func (m momentModel) clone() momentModel {
	return momentModel{maps.Clone(m.results), maps.Clone(m.aside)}
}

// TestMomentsModel: whatever is set, deleted, renamed, forgotten, committed and aborted, a field that is set as one which was not there at a
// moment is new if and only if it is not there now, and counted so. Tasks and results stand for the two hashes, as in package queue.
func TestMomentsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
		defer closeTest(t, st)
		m := momentModel{map[string]bool{}, map[string]bool{}}
		tx := st.NewTx()
		defer func() { tx.End() }() // also of a check that fails
		for range rapid.IntRange(1, 10).Draw(rt, "transactions") {
			before := m.clone()
			tx.Begin(st.All())
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				if err := m.step(rt, tx.DB(0)); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.IntRange(0, 3).Draw(rt, "aborts") == 0 {
				tx.Abort()
				m = before
			} else if err := tx.Commit(); err != nil {
				rt.Fatal(err)
			}
			cache := st.shards[0].cache
			if o := cache.dbs[0].objects["results"]; o != nil && rapid.IntRange(0, 5).Draw(rt, "evicted") == 0 {
				cache.drop(o)
			}
			tx.End()
		}
	})
}

// step does something with the hashes.
func (m *momentModel) step(t *rapid.T, db DB) error {
	name := fmt.Sprint("field", rapid.IntRange(0, 5).Draw(t, "field"))
	field, val := []byte(name), []byte("value")
	results, err := db.Hash([]byte("results"))
	if err != nil {
		return err
	}
	tasks, err := db.Hash([]byte("tasks"))
	if err != nil {
		return err
	}
	switch rapid.IntRange(0, 14).Draw(t, "step") {
	case 0, 1: // a task is made, and has no result
		if m.results[name] {
			return nil
		}
		now, err := results.Moment(field)
		_, failed := tasks.SetMemo(field, val, Memo{Of: "memo", Lacking: now})
		return errors.Join(err, failed)
	case 2, 3:
		return m.seek(t, tasks, results)
	case 4, 5, 6:
		return m.answer(t, tasks, results, field)
	case 7:
		_, err = results.Set(field, val)
		m.results[name] = true
	case 8:
		if !m.results[name] {
			err = results.SetNew(field, val, Memo{})
		} else {
			_, err = results.SetIdle(field, val)
		}
		m.results[name] = true
	case 9:
		_, err = results.Delete(field)
		delete(m.results, name)
	case 10:
		err = errors.Join(results.Uncache(field), tasks.Uncache(field))
	case 11:
		_, err = db.Delete([]byte("results"))
		clear(m.results)
	case 12:
		return m.swap(db)
	case 13, 14: // tasks are put aside, or taken back
		from, to := []byte("tasks"), []byte("old tasks")
		if n, failed := tasks.Len(); failed != nil || n == 0 {
			from, to = to, from
		}
		if there, failed := db.Exists(from); failed != nil || !there {
			return failed
		}
		return db.Rename(from, to)
	}
	return err
}

// seek notes which tasks have no result.
func (m *momentModel) seek(t *rapid.T, tasks, results Hash) error {
	fields, told := make([][]byte, 6), map[string]bool{}
	for i := range fields {
		fields[i] = fmt.Append(nil, "field", i)
	}
	var failed error
	err := results.Lacking(fields, func(field []byte, now Moment) {
		if told[string(field)] = true; m.results[string(field)] {
			t.Fatalf("the hash is said to lack %s", field)
		}
		if err := tasks.Note(field, now); err != nil {
			failed = err
		}
	})
	if len(told)+len(m.results) != len(fields) {
		t.Fatalf("the hash has %d of %d fields and is said to lack %d", len(m.results), len(fields), len(told))
	}
	return errors.Join(err, failed)
}

// answer sets the result of a task, of which it may be known that it has none.
func (m *momentModel) answer(t *rapid.T, tasks, results Hash, field []byte) error {
	_, memo, _, err := tasks.GetMemo(field)
	if err != nil {
		return err
	}
	known, err := results.LacksSince(field, memo.Lacking)
	if err != nil {
		return err
	}
	read := results.s.stats.RowsRead
	created, err := results.SetIdleSince(field, []byte("value"), memo.Lacking)
	if created == m.results[string(field)] {
		t.Fatalf("%s is new: %t; the hash has %v", field, created, m.results)
	}
	if known && results.s.stats.RowsRead != read {
		t.Fatalf("%s was read, though it was known", field)
	}
	m.results[string(field)] = true
	if n, failed := results.Len(); failed != nil || int(n) != len(m.results) {
		t.Fatalf("there are %d fields, %v; want %v", n, failed, m.results)
	}
	_, failed := tasks.Set(field, []byte("ended"))
	return errors.Join(err, failed)
}

// swap renames the results, or what they were renamed to.
func (m *momentModel) swap(db DB) error {
	from, to := []byte("results"), []byte("aside")
	if len(m.results) == 0 {
		from, to = to, from
	}
	if len(m.results)+len(m.aside) == 0 {
		return nil
	}
	if len(m.results) > 0 {
		m.results, m.aside = map[string]bool{}, m.results
	} else {
		m.results, m.aside = m.aside, map[string]bool{}
	}
	return db.Rename(from, to)
}

// TestMomentIsForgotten: of a field that has come since, and of all when very many have, nothing is known any more, nor when the hash was read
// again.
func TestMomentIsForgotten(t *testing.T) {
	const n = 4
	st := openFilled(t, n)
	defer closeTest(t, st)
	field := func(i int) []byte { return fmt.Append(nil, "other", i) }
	onHashAndZSet(t, st, func(h Hash, _ ZSet, s *Shard) error {
		for i := range n {
			if err := h.Uncache(numbered(i)); err != nil { // or else the cache has the whole hash
				return err
			}
		}
		at, err := h.Moment(field(0))
		knows := func(i int, want bool) {
			t.Helper()
			if known, err := h.LacksSince(field(i), at); known != want || err != nil {
				t.Errorf("field %d is known: %t, %v; want %t", i, known, err, want)
			}
		}
		knows(0, true)
		for i := 1; i <= maxArrivals && err == nil; i++ {
			err = h.SetNew(field(i), nil, Memo{})
		}
		knows(0, true)
		s.cache.charge(h.o)
		before := s.cache.bytes
		if err == nil {
			err = h.SetNew(field(maxArrivals+1), nil, Memo{})
		}
		s.cache.charge(h.o)
		knows(0, false)
		if freed := before - s.cache.bytes; freed < cellBytes*maxArrivals {
			t.Errorf("%d bytes are free again", freed)
		}
		later, failed := h.Moment(field(0))
		if later == at {
			t.Errorf("the moment is %d still", at)
		}
		s.moments, h.o.arrivals = math.MaxUint32, arrivals{}
		none, alsoFailed := h.Moment(field(0))
		if at = none; none != 0 {
			t.Errorf("behind the last moment comes %d", none)
		}
		knows(0, false)
		return errors.Join(err, failed, alsoFailed)
	})
}

// TestMomentOfRenamed: what a key lacked before another was given its name says nothing of what it has then.
func TestMomentOfRenamed(t *testing.T) {
	st := openFilled(t, 4)
	defer closeTest(t, st)
	onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
		name := []byte("other")
		absent, err := h.db.Hash(name)
		if err != nil {
			return err
		}
		at, err := absent.Moment(numbered(0))
		if err == nil {
			err = h.db.Rename(h.key, name)
		}
		if err != nil {
			return err
		}
		renamed, err := h.db.Hash(name)
		if err != nil {
			return err
		}
		created, err := renamed.SetIdleSince(numbered(0), []byte("value"), at)
		if n, failed := renamed.Len(); created || n != 4 || failed != nil {
			t.Errorf("a field that is there is new: %t, of %d, %v", created, n, failed)
		}
		return err
	})
}

// TestNotesOfRenamed: a hash that was put aside, and is back, knows nothing of what another one has noted in its place meanwhile.
func TestNotesOfRenamed(t *testing.T) {
	st := openFilled(t, 4)
	defer closeTest(t, st)
	onHashAndZSet(t, st, func(results Hash, _ ZSet, _ *Shard) error {
		field, name := []byte("field"), []byte("tasks")
		answer := func(want bool) error {
			tasks, err := results.db.Hash(name)
			if err != nil {
				return err
			}
			_, memo, _, err := tasks.GetMemo(field)
			if err != nil {
				return err
			}
			if created, err := results.SetIdleSince(field, nil, memo.Lacking); created != want || err != nil {
				t.Errorf("the field is new: %t, %v; want %t", created, err, want)
			}
			return nil
		}
		note := func() error {
			tasks, err := results.db.Hash(name)
			if err != nil {
				return err
			}
			now, err := results.Moment(field)
			if err == nil {
				_, err = tasks.SetMemo(field, nil, Memo{Lacking: now})
			}
			return err
		}
		for i, do := range []func() error{
			note,
			func() error { return results.db.Rename(name, []byte("aside")) },
			note,
			func() error { return answer(true) },
			func() error { return results.db.Rename([]byte("aside"), name) },
			func() error { return answer(false) },
		} {
			if err := do(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if n, err := results.Len(); n != 5 || err != nil {
			t.Errorf("there are %d fields, %v; want 5", n, err)
		}
		return nil
	})
}
