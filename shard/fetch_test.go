package shard

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
)

// knows tells whether the cache answers for the field.
func knows(h Hash, field []byte) (known bool, err error) {
	_, _, _, known, err = h.Cached(field)
	return known, err
}

// onHashAndZSet opens a store of one shard, and calls fn with two collections and the shard in a transaction, which it commits.
func onHashAndZSet(t *testing.T, st *Store, fn func(h Hash, z ZSet, s *Shard) error) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, err := tx.DB(0).Hash([]byte("hash"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := tx.DB(0).ZSet([]byte("zset"))
	if err == nil {
		err = fn(h, z, st.shards[0])
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openFilled is a store with a hash and a sorted set of the first n elements.
func openFilled(t *testing.T, n int) *Store {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 8 << 20
	st := openTest(t, opts)
	onHashAndZSet(t, st, func(h Hash, z ZSet, _ *Shard) error {
		for i := range n {
			if err := h.SetNew(numbered(i), numbered(i), Memo{}); err != nil {
				return err
			}
			if err := z.SetNew(numbered(i), float64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return st
}

func numbered(i int) []byte { return fmt.Appendf(nil, "e%04d", i) }

// readElement reads an element from both collections, which have the first n.
func readElement(t *testing.T, h Hash, z ZSet, i, n int) {
	t.Helper()
	val, there, err := h.Get(numbered(i))
	if err != nil || there != (i < n) || there && string(val) != string(numbered(i)) {
		t.Errorf("field %d: %q, %v, %v", i, val, there, err)
	}
	score, there, err := z.Score(numbered(i))
	if err != nil || there != (i < n) || there && score != float64(i) {
		t.Errorf("member %d: %v, %v, %v", i, score, there, err)
	}
}

// TestFetchReadsTogether: fetching passes a row once at most, or seeks where others stand between those that are wanted. Elements that
// are not there cost none, and all are then at hand.
func TestFetchReadsTogether(t *testing.T) {
	const n, from, to = 4000, 3950, 4050
	t.Run("near", func(t *testing.T) { testFetch(t, 400, 300, 500, 2*400) })
	t.Run("far", func(t *testing.T) { testFetch(t, n, from, to, 2*(3*(n-from)+2*fetchStride)) })
}

// testFetch fetches some elements of collections of the first n, for which no more than most rows may be read.
func testFetch(t *testing.T, n, from, to int, most int64) {
	st := openFilled(t, n)
	defer closeTest(t, st)
	var elements [][]byte
	for i := from; i < to; i++ {
		elements = append(elements, numbered(i))
	}
	onHashAndZSet(t, st, func(_ Hash, _ ZSet, s *Shard) error {
		s.cache.dropAll()
		return s.unstage()
	})
	onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
		before := s.stats.RowsRead
		if err := h.Fetch(elements); err != nil {
			return err
		}
		if err := z.Fetch(elements); err != nil {
			return err
		}
		if read := s.stats.RowsRead - before; read < 2*int64(n-from) || read > most {
			t.Errorf("%d rows were read of 2 × %d that are there; want %d at most", read, n-from, most)
		}
		before = s.stats.RowsRead
		for i := from; i < to; i++ {
			readElement(t, h, z, i, n)
		}
		if read := s.stats.RowsRead - before; read > 0 {
			t.Errorf("%d rows are read of what was fetched", read)
		}
		known, err := knows(h, numbered(0))
		if known {
			t.Error("what was not fetched is known")
		}
		return err
	})
}

// TestFetchSeesTransaction: fetching brings back nothing that the transaction has deleted, and nothing older than what it has set,
// whether the rows are staged or not.
func TestFetchSeesTransaction(t *testing.T) {
	for _, staged := range []bool{false, true} {
		const n = 8
		st := openFilled(t, n)
		var elements [][]byte
		for i := range n {
			elements = append(elements, numbered(i))
		}
		onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
			if err := s.unstage(); err != nil || !staged {
				return err
			}
			for i := range n {
				if _, err := h.Set(numbered(i), []byte("staged")); err != nil {
					return err
				}
				if _, err := z.Set(numbered(i), float64(n+i)); err != nil {
					return err
				}
			}
			return nil
		})
		onHashAndZSet(t, st, func(_ Hash, _ ZSet, s *Shard) error {
			s.cache.dropAll()
			return nil
		})
		want := fmt.Sprint("e0002 ", 2)
		if staged {
			want = fmt.Sprint("staged ", n+2)
		}
		onHashAndZSet(t, st, func(h Hash, z ZSet, _ *Shard) error {
			_, err := h.Set(numbered(0), []byte("changed"))
			if err == nil {
				_, err = z.Set(numbered(0), -1)
			}
			if err == nil {
				_, err = h.Delete(numbered(1))
			}
			if err == nil {
				_, err = z.RemoveByRank(0, 1) // with the member 1
			}
			if err == nil {
				err = h.Fetch(elements)
			}
			if err == nil {
				err = z.Fetch(elements)
			}
			if err != nil {
				return err
			}
			got := ""
			for _, i := range []int{0, 1, 2} {
				val, _, err := h.Get(numbered(i))
				if err != nil {
					return err
				}
				score, _, err := z.Score(numbered(i))
				if err != nil {
					return err
				}
				got += fmt.Sprintf("%s %v, ", val, score)
			}
			if full := "changed 0,  0, " + want + ", "; got != full {
				t.Errorf("staged %v: %s, want %s", staged, got, full)
			}
			return nil
		})
		closeTest(t, st)
	}
}

// TestFetchIsBounded: of elements that are too large to be read at once the first are.
func TestFetchIsBounded(t *testing.T) {
	const n = 16
	st := openFilled(t, 0)
	defer closeTest(t, st)
	large := make([]byte, fetchBytes/4)
	var elements [][]byte
	onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
		for i := range n {
			elements = append(elements, numbered(i))
			if err := h.SetNew(numbered(i), large, Memo{}); err != nil {
				return err
			}
		}
		return nil
	})
	onHashAndZSet(t, st, func(_ Hash, _ ZSet, s *Shard) error {
		s.cache.dropAll()
		return s.unstage()
	})
	onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
		if err := h.Fetch(elements); err != nil {
			return err
		}
		known := 0
		for _, element := range elements {
			is, err := knows(h, element)
			if err != nil {
				return err
			}
			if is {
				known++
			}
		}
		if known != 5 {
			t.Errorf("%d of %d are read, want those that take %d bytes and one", known, n, fetchBytes)
		}
		return nil
	})
}

// TestFetchCountsOnce: an element that is asked for twice is counted once, be its row staged or in the store, or be there none.
func TestFetchCountsOnce(t *testing.T) {
	const n = 8
	for _, staged := range []bool{false, true} {
		st := openFilled(t, n)
		onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
			if !staged {
				return s.unstage()
			}
			for i := range n {
				if _, err := h.Set(numbered(i), numbered(i+1)); err != nil {
					return err
				}
			}
			return nil
		})
		onHashAndZSet(t, st, func(_ Hash, _ ZSet, s *Shard) error {
			s.cache.dropAll()
			return nil
		})
		onHashAndZSet(t, st, func(h Hash, _ ZSet, s *Shard) error {
			var twice [][]byte
			for range 2 {
				for i := range 2 * n {
					twice = append(twice, numbered(i))
				}
			}
			if err := h.Fetch(twice); err != nil {
				return err
			}
			want := 0
			for name, el := range h.o.hash.rows {
				want += len(name) + elementOverhead + el.val.size()
			}
			if h.o.hash.bytes != want || len(h.o.hash.rows) != 2*n {
				t.Errorf("staged %t: %d bytes of %d entries are counted, want %d of %d", staged, h.o.hash.bytes, len(h.o.hash.rows), want, 2*n)
			}
			return nil
		})
		closeTest(t, st)
	}
}

// TestUncache: what is uncached is at hand until the commit, and is then read again.
func TestUncache(t *testing.T) {
	const n = 8
	st := openFilled(t, n)
	defer closeTest(t, st)
	rowsRead := func(h Hash, z ZSet, s *Shard) int64 {
		before := s.stats.RowsRead
		readElement(t, h, z, 3, n)
		return s.stats.RowsRead - before
	}
	onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
		_, err := h.Set(numbered(3), numbered(3))
		if err == nil {
			_, err = z.Set(numbered(3), 4)
		}
		if err == nil {
			_, err = z.Set(numbered(3), 3)
		}
		if err == nil {
			err = h.Uncache(numbered(3))
		}
		if err == nil {
			err = z.Uncache(numbered(3))
		}
		if read := rowsRead(h, z, s); read != 0 {
			t.Errorf("%d rows read before the commit", read)
		}
		return err
	})
	onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
		if read := rowsRead(h, z, s); read != 2 {
			t.Errorf("%d rows read after the commit", read)
		}
		if read := rowsRead(h, z, s); read != 0 {
			t.Errorf("%d rows read again", read)
		}
		return nil
	})
}

// TestSetScoreIdle: a score that is set so is at hand until the commit, and then not cached, be it another one than before or the same.
func TestSetScoreIdle(t *testing.T) {
	const n = 8
	st := openFilled(t, n)
	defer closeTest(t, st)
	read := func(z ZSet, s *Shard, want float64, wantRead int64) {
		before := s.stats.RowsRead
		got, ok, err := z.Score(numbered(3))
		if got != want || !ok || err != nil || s.stats.RowsRead-before != wantRead {
			t.Errorf("got %v, %t, %v from %d rows, want %v from %d", got, ok, err, s.stats.RowsRead-before, want, wantRead)
		}
	}
	onHashAndZSet(t, st, func(_ Hash, z ZSet, s *Shard) error {
		err := z.SetIdle(numbered(3), 5)
		read(z, s, 5, 0)
		if err == nil {
			err = z.SetIdle(numbered(3), 7)
		}
		read(z, s, 7, 0)
		return err
	})
	onHashAndZSet(t, st, func(_ Hash, z ZSet, s *Shard) error {
		read(z, s, 7, 1)
		err := z.SetIdle(numbered(3), 7) // nothing to commit
		read(z, s, 7, 1)
		return err
	})
}

// TestSetIdle: what is set so is at hand until the commit, as other fields are set and it is set again, and is then read again. The values
// that were read stay as they are when later transactions use the memory of the batch again.
func TestSetIdle(t *testing.T) {
	const n = 8
	st := openFilled(t, n)
	defer closeTest(t, st)
	type reading struct {
		val  []byte
		want string
	}
	var read []reading
	get := func(h Hash, s *Shard, want string, wantRead int64) {
		before := s.stats.RowsRead
		val, ok, err := h.Get(numbered(3))
		if string(val) != want || !ok || err != nil || s.stats.RowsRead-before != wantRead {
			t.Errorf("got %q, %t, %v from %d rows, want %q from %d", val, ok, err, s.stats.RowsRead-before, want, wantRead)
		}
		read = append(read, reading{val, want})
	}
	for _, val := range []string{"one", "", "three"} {
		onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
			created, err := h.SetIdle(numbered(3), []byte(val+" first"))
			if created {
				t.Error("it was there, and was created")
			}
			get(h, s, val+" first", 0)
			if err == nil {
				_, err = h.SetIdle(numbered(3), []byte(val))
			}
			for i := range 4 * n {
				if i != 3 && err == nil {
					_, err = h.Set(numbered(i), []byte(val+" of another"))
				}
			}
			get(h, s, val, 0)
			get(h, s, val, 0)
			return err
		})
		onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
			if hash := h.o.hash; hash.rows[string(numbered(3))] != nil || len(hash.rows) != 4*n-1 || len(hash.idle) != 0 {
				t.Errorf("%d fields are cached, want all but one", len(hash.rows))
			}
			get(h, s, val, 1)
			_, err := h.Set(numbered(5), bytes.Repeat([]byte("x"), 1<<10))
			return err
		})
	}
	for i, r := range read {
		if string(r.val) != r.want {
			t.Errorf("the value that was read as the %dth has become %q, was %q", i, r.val, r.want)
		}
	}
}

// TestFetchTwice fetches an element that is named several times, as the entries of a pending list may be: it is one all the same.
func TestFetchTwice(t *testing.T) {
	const n = 8
	st := openFilled(t, n)
	defer closeTest(t, st)
	onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
		if err := s.unstage(); err != nil {
			return err
		}
		hash, zset := h.o.hash.bytes, z.o.zset.bytes
		for i := range n {
			if err := errors.Join(h.Uncache(numbered(i)), z.Uncache(numbered(i))); err != nil {
				return err
			}
		}
		var ids [][]byte
		for i := range 2 * n {
			ids = append(ids, numbered(i/2), numbered(i%n))
		}
		err := errors.Join(h.Fetch(ids), z.Fetch(ids))
		if h.o.hash.bytes != hash || z.o.zset.bytes != zset {
			t.Errorf("the hash takes %d bytes, the sorted set %d, want %d and %d", h.o.hash.bytes, z.o.zset.bytes, hash, zset)
		}
		return err
	})
}

// TestMemo: a memo is found with the value that it was set with, in the transaction and behind it, and goes with the value: when that is set
// or deleted, or forgotten and read again. It counts as memory of the cache as long as it is there.
func TestMemo(t *testing.T) {
	const n = 4
	st := openFilled(t, n)
	defer closeTest(t, st)
	field, memo, none := numbered(2), Memo{Of: "memo", Lacking: 7}, Memo{}
	set := func(h Hash) error {
		_, err := h.SetMemo(field, []byte("value"), memo)
		return err
	}
	for _, step := range []struct {
		name string
		do   func(h Hash) error
		want Memo
	}{
		{"at first", func(Hash) error { return nil }, none},
		{"set with one", set, memo},
		{"set again with one", set, memo},
		{"set", func(h Hash) error { _, err := h.Set(field, []byte("value")); return err }, none},
		{"set with one", set, memo},
		{"set idle", func(h Hash) error { _, err := h.SetIdle(field, []byte("value")); return err }, none},
		{"set with one", set, memo},
		{"noted with", func(h Hash) error { return h.Note(field, 8) }, Memo{Of: "memo", Lacking: 8}},
		{"another set", func(h Hash) error { _, err := h.Set(numbered(1), []byte("x")); return err }, Memo{Of: "memo", Lacking: 8}},
		{"deleted and set", func(h Hash) error {
			_, err := h.Delete(field)
			if err == nil {
				_, err = h.Set(field, []byte("value"))
			}
			return err
		}, none},
		{"deleted and set new", func(h Hash) error {
			_, err := h.Delete(field)
			if err == nil {
				err = h.SetNew(field, []byte("value"), memo)
			}
			return err
		}, memo},
	} {
		for _, do := range []func(h Hash) error{step.do, func(Hash) error { return nil }} {
			onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
				if err := do(h); err != nil {
					return err
				}
				_, got, ok, err := h.GetMemo(field)
				if got != step.want || !ok {
					t.Errorf("%s: the memo is %+v, %t; want %+v", step.name, got, ok, step.want)
				}
				want := 0
				for name, el := range h.o.hash.rows {
					want += len(name) + elementOverhead
					if el.val.memo != nil {
						want += memoBytes + cap(el.val.text)
					} else {
						want += len(el.val.text)
					}
				}
				if h.o.hash.bytes != want {
					t.Errorf("%s: the hash takes %d bytes, want %d", step.name, h.o.hash.bytes, want)
				}
				return err
			})
		}
	}
}

// TestMemoIsUncached: a value that is read again has no memo.
func TestMemoIsUncached(t *testing.T) {
	st := openFilled(t, 4)
	defer closeTest(t, st)
	field := numbered(2)
	onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
		_, err := h.SetMemo(field, []byte("value"), Memo{Of: "memo", Lacking: 7})
		return err
	})
	onHashAndZSet(t, st, func(h Hash, _ ZSet, _ *Shard) error {
		if err := h.Uncache(field); err != nil {
			return err
		}
		_, got, ok, err := h.GetMemo(field)
		if got != (Memo{}) || !ok {
			t.Errorf("of what was read again the memo is %+v, %t", got, ok)
		}
		return err
	})
}

// TestUncacheUnchanged: of a collection that the transaction has not changed an element is forgotten at once, whether it is there or
// known not to be. Nothing is kept for a commit, which no such collection comes to.
func TestUncacheUnchanged(t *testing.T) {
	const n = 8
	st := openFilled(t, n)
	defer closeTest(t, st)
	onHashAndZSet(t, st, func(h Hash, z ZSet, s *Shard) error {
		for i := n / 2; i < 2*n; i++ {
			before := s.cache.bytes
			h.o.hash.absent(numbered(i))
			s.cache.charge(h.o)
			if grown := s.cache.bytes - before; (grown > 0) != (i >= n) {
				t.Errorf("the cache was charged %d bytes for field %d", grown, i)
			}
			if err := errors.Join(h.Uncache(numbered(i)), z.Uncache(numbered(i))); err != nil {
				return err
			}
		}
		hash, zset := &h.o.hash.elements, &z.o.zset.elements
		if len(hash.rows) != n/2 || len(zset.rows) != n/2 || hash.dead != 0 || len(hash.idle)+len(zset.idle) != 0 {
			t.Errorf("%d fields and %d members are cached, want %d each; %d are dead; %v and %v are to be forgotten",
				len(hash.rows), len(zset.rows), n/2, hash.dead, hash.idle, zset.idle)
		}
		want := 0
		for i := range n / 2 {
			want += 2*(len(numbered(i))+elementOverhead) + len(numbered(i)) + scoreSize
		}
		if hash.bytes+zset.bytes != want {
			t.Errorf("they are %d bytes, want %d", hash.bytes+zset.bytes, want)
		}
		for i := range 2 * n {
			readElement(t, h, z, i, n)
		}
		return nil
	})
}

// TestAgendaKeepsFirst: of a long agenda the cache keeps the first members in order, and those behind them are found all the same.
func TestAgendaKeepsFirst(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Tracker, opts.CacheBytes = agendaTracker{}, 8<<20
	st := openTest(t, opts)
	defer closeTest(t, st)
	const n = agendaSize + windowSize
	onHashAndZSet(t, st, func(_ Hash, z ZSet, _ *Shard) error {
		for i := range n {
			if err := z.SetNew(numbered(i), 1e12+float64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	onHashAndZSet(t, st, func(_ Hash, z ZSet, s *Shard) error {
		if kept := z.o.zset.low.tree.Len(); kept != windowSize {
			t.Errorf("%d members are kept in order", kept)
		}
		seen := 0
		err := z.RangeByScore(ScoreRange{Min: 0, Max: 2e12}, false, func(member []byte, _ float64) bool {
			if string(member) != string(numbered(seen)) {
				t.Errorf("member %d is %s", seen, member)
			}
			seen++
			return true
		})
		if seen != n {
			t.Errorf("%d members seen", seen)
		}
		return err
	})
}

// drawMembers draws elements of the model that are fetched together.
func drawMembers(t *rapid.T) (members [][]byte) {
	for range rapid.IntRange(1, 12).Draw(t, "members") {
		members = append(members, []byte(drawMember(t)))
	}
	return members
}

// agendaTracker takes every sorted set for an agenda.
type agendaTracker struct{ noTracker }

func (agendaTracker) Track([]byte) *Tracking { return &Tracking{Agenda: true} }

// TestFetchKeepsToShard: of a partitioned collection the elements that are on the shard of the first are fetched, and the fragment there is
// not asked for others.
func TestFetchKeepsToShard(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	h, err := tx.DB(0).Hash([]byte("part:h"))
	if err != nil {
		t.Fatal(err)
	}
	const n = 32
	var elements [][]byte
	for i := range n {
		elements = append(elements, numbered(i))
		if err := h.SetNew(numbered(i), nil, Memo{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, s := range st.shards {
		s.cache.dropAll()
	}
	if err := h.Fetch(elements); err != nil {
		t.Fatal(err)
	}
	for _, element := range elements {
		known, err := knows(h, element)
		if err != nil || known != (tx.homeOf(element) == tx.homeOf(elements[0])) {
			t.Errorf("%s is known: %v, %v", element, known, err)
		}
	}
	if _, o, err := h.home(elements[0]); err != nil || o.hash.dead > 0 {
		t.Errorf("%d elements of other shards were looked for, %v", o.hash.dead, err)
	}
}

// leaseTracker takes every key for a lease.
type leaseTracker struct{ noTracker }

func (leaseTracker) Track([]byte) *Tracking { return &Tracking{Lease: true} }

// TestLeaseLeavesNoObject: of a lease that has ended the cache keeps nothing.
func TestLeaseLeavesNoObject(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.Tracker = leaseTracker{}
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	d := tx.DB(0)
	if err := errors.Join(d.Set([]byte("lease"), []byte("w"), d.Now()+1000), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	cached := st.shards[0].cache.dbs[0]
	if len(cached.objects) != 1 {
		t.Errorf("%d objects while the lease lasts", len(cached.objects))
	}
	_, err := d.Delete([]byte("lease"))
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if len(cached.objects) != 0 || cached.bytes != 0 {
		t.Errorf("%d objects of %d bytes when it has ended", len(cached.objects), cached.bytes)
	}
	if exists, err := d.Exists([]byte("lease")); exists || err != nil {
		t.Errorf("it exists: %v, %v", exists, err)
	}
}
