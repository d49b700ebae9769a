package shard

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// addEntries adds n entries with the ids 1-0, 2-0, … to the stream.
func addEntries(st Stream, n int) error {
	for range n {
		if err := st.Add(StreamID{Ms: st.Last().Ms + 1}, [][]byte{[]byte("field"), []byte("value")}); err != nil {
			return err
		}
	}
	return nil
}

// onStream runs fn on the stream at the key in a transaction and commits it.
func onStream(t *testing.T, st *Store, key string, fn func(s Stream) error) {
	t.Helper()
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		s, err := d.Stream([]byte(key))
		if err != nil {
			return err
		}
		return fn(s)
	})
}

// useGroup makes a group and hands n entries to a consumer.
func useGroup(s Stream, name string, n int64) error {
	if _, err := s.CreateGroup([]byte(name), StreamID{}, 0); err != nil {
		return err
	}
	g, _, err := s.Group([]byte(name))
	if err != nil {
		return err
	}
	c, _, err := g.See([]byte("consumer"), 1)
	if err != nil {
		return err
	}
	return g.Deliver(c, n, false, 1, func(StreamID, Fields) {})
}

// streamRows counts the rows of collections, by their first byte.
func streamRows(t *testing.T, st *Store) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, s := range st.shards {
		s.mu.Lock()
		err := s.unstage()
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		it, err := s.db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			if row := it.Key()[0]; row != rowIdentity && row != rowState && row != rowRegistry {
				found[string(row)]++
			}
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// cleanAll lets the janitors work until they find nothing, or fails after many rounds.
func cleanAll(t *testing.T, st *Store) {
	t.Helper()
	for _, s := range st.shards {
		tx := st.NewTx()
		for round := 0; ; round++ {
			if _, err := s.clean(tx); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			done := !s.graves
			s.mu.Unlock()
			if done {
				break
			}
			if round == 100 {
				t.Fatal("the janitor does not come to an end")
			}
		}
	}
}

// TestStreamLeavesNothing: however a stream or a group goes, none of its rows stay.
func TestStreamLeavesNothing(t *testing.T) {
	const large = 3 * rangeDeleteAt
	ends := map[string]func(*testing.T, *Store){
		"deleted": func(t *testing.T, st *Store) {
			change(t, st, st.All(), func(_ *Tx, d DB) error { _, err := d.Delete([]byte("s")); return err })
		},
		"overwritten": func(t *testing.T, st *Store) {
			change(t, st, st.All(), func(_ *Tx, d DB) error {
				if err := d.Set([]byte("s"), []byte("v"), 0); err != nil {
					return err
				}
				_, err := d.Delete([]byte("s"))
				return err
			})
		},
		"flushed": func(t *testing.T, st *Store) {
			change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Flush() })
		},
		"moved and deleted": func(t *testing.T, st *Store) {
			for ordinal := range st.shards {
				dst := []byte(keyOn(st, ordinal, "dst"))
				change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Rename([]byte("s"), dst) })
				change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Rename(dst, []byte("s")) })
			}
			change(t, st, st.All(), func(_ *Tx, d DB) error { _, err := d.Delete([]byte("s")); return err })
		},
	}
	for name, end := range ends {
		for _, n := range []int{0, 5, large} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				st := openTest(t, testOptions(vfs.NewMem(), 2, clock.NewManual(testStart)))
				defer closeTest(t, st)
				onStream(t, st, "s", func(s Stream) error {
					if err := s.Create(); err != nil {
						return err
					}
					if err := addEntries(s, n); err != nil {
						return err
					}
					return useGroup(s, "before", 1)
				})
				onStream(t, st, "s", func(s Stream) error { return useGroup(s, "all", 0) })
				end(t, st)
				cleanAll(t, st)
				if rows := streamRows(t, st); len(rows) > 0 {
					t.Errorf("rows are left: %v", rows)
				}
			})
		}
	}
}

// TestStreamDestroyedGroups: the rows of a group go with it, also when it lived for one transaction only.
func TestStreamDestroyedGroups(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 1, clock.NewManual(testStart)))
	defer closeTest(t, st)
	destroy := func(s Stream) error {
		g, ok, err := s.Group([]byte("g"))
		if err == nil && ok {
			g.Destroy()
		}
		return err
	}
	const n = 2 * rangeDeleteAt
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, n) })
	onStream(t, st, "s", func(s Stream) error { return useGroup(s, "g", 0) })
	onStream(t, st, "s", func(s Stream) error { // and comes back empty
		if err := destroy(s); err != nil {
			return err
		}
		return useGroup(s, "g", 3)
	})
	onStream(t, st, "s", destroy)
	onStream(t, st, "s", func(s Stream) error {
		if err := useGroup(s, "g", 3); err != nil {
			return err
		}
		return destroy(s)
	})
	cleanAll(t, st)
	if got, want := fmt.Sprint(streamRows(t, st)), fmt.Sprint(map[string]int{"e": n, "m": 1}); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// TestStreamManyPending: what is cached of a group's pending entries is bounded, and the rest is found in the store.
func TestStreamManyPending(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 64 << 20
	st := openTest(t, opts)
	defer closeTest(t, st)
	const n = 2*maxNacks + 100
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, n) })
	onStream(t, st, "s", func(s Stream) error { return useGroup(s, "g", 0) })
	onStream(t, st, "s", func(s Stream) error {
		g, _, err := s.Group([]byte("g"))
		if err != nil {
			return err
		}
		if cached := g.g.nacks.Len(); cached > maxNacks {
			t.Errorf("%d pending entries are cached, want at most %d", cached, maxNacks)
		}
		for id := uint64(1); id <= n; id += 2 {
			if ok, err := g.Ack(StreamID{Ms: id}); !ok || err != nil {
				t.Fatalf("%d-0: acknowledged %t, err %v", id, ok, err)
			}
			if ok, err := g.Ack(StreamID{Ms: id}); ok || err != nil {
				t.Fatalf("%d-0 again: acknowledged %t, err %v", id, ok, err)
			}
		}
		next := uint64(2)
		err = g.EachPending(nil, StreamID{}, LastStreamID(), func(p Pending) bool {
			if p.ID.Ms != next {
				t.Fatalf("%d-0 is pending, want %d-0", p.ID.Ms, next)
			}
			next += 2
			return true
		})
		if next != n+2 {
			t.Errorf("pending up to %d-0, want %d-0", next-2, n)
		}
		return err
	})
}

// TestStreamPendingAmongAcknowledged: after a start the few entries that are pending are looked for once, among all that were acknowledged.
func TestStreamPendingAmongAcknowledged(t *testing.T) {
	const entries, stuck = 3000, 1000
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	st := openTest(t, opts)
	onStream(t, st, "x", func(s Stream) error {
		if err := addEntries(s, entries); err != nil {
			return err
		}
		return useGroup(s, "g", entries)
	})
	onStream(t, st, "x", func(s Stream) error {
		g, _, err := s.Group([]byte("g"))
		for ms := uint64(1); ms < entries && err == nil; ms++ {
			if ms%stuck != 1 {
				_, err = g.Ack(StreamID{Ms: ms})
			}
		}
		return err
	})
	closeTest(t, st)
	st = openTest(t, opts)
	defer closeTest(t, st)
	for again := range 3 {
		before := rowsRead(st.shards[0])
		onStream(t, st, "x", func(s Stream) error {
			g, _, err := s.Group([]byte("g"))
			if err != nil {
				return err
			}
			first, last, err := g.PendingBounds()
			if err != nil {
				return err
			}
			if want := (StreamID{Ms: 1}); first != want || last != (StreamID{Ms: entries}) {
				t.Errorf("pending are %v … %v", first, last)
			}
			c, _, err := g.Consumer([]byte("consumer"))
			if err != nil {
				return err
			}
			for _, of := range []*Consumer{nil, &c} {
				var ids []uint64
				err = errors.Join(err, g.EachPending(of, StreamID{}, LastStreamID(), func(p Pending) bool {
					ids = append(ids, p.ID.Ms)
					return len(ids) < 2
				}))
				if got := fmt.Sprint(ids); got != fmt.Sprint([]uint64{1, 1 + stuck}) {
					t.Errorf("pending are %s", got)
				}
			}
			return err
		})
		if read := rowsRead(st.shards[0]) - before; again > 0 && read > 0 {
			t.Errorf("%d rows were read again", read)
		}
	}
}

// rowsRead counts the rows that a shard has read, beside the janitor.
func rowsRead(s *Shard) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.RowsRead
}

// TestStreamTrimColdly trims streams of which nothing is cached, by every strategy and from either end.
func TestStreamTrimColdly(t *testing.T) {
	const n = 5000
	for _, test := range []struct {
		trim StreamTrim
		want int64
	}{
		{StreamTrim{MaxLen: n}, 0},
		{StreamTrim{MaxLen: n - 1}, 1},
		{StreamTrim{MaxLen: n - streamHeadItems}, streamHeadItems},
		{StreamTrim{MaxLen: n - 1000}, 1000},
		{StreamTrim{MaxLen: 10}, n - 10},
		{StreamTrim{MaxLen: 0}, n},
		{StreamTrim{MaxLen: 10, Approximate: true}, n - 100},
		{StreamTrim{MaxLen: 10, Approximate: true, Limit: 750}, 700},
		{StreamTrim{MaxLen: n, MinID: StreamID{Ms: 4000, Seq: 1}}, 4000},
		{StreamTrim{MaxLen: n, MinID: StreamID{Ms: 100}}, 99},
		{StreamTrim{MaxLen: n, MinID: StreamID{Ms: 100}, Approximate: true}, 0},
		{StreamTrim{MaxLen: n, MinID: StreamID{Ms: 4050}, Approximate: true}, 4000},
		{StreamTrim{MaxLen: n, MinID: StreamID{Ms: 4050}, Approximate: true, Limit: 1050}, 1000},
		{StreamTrim{MaxLen: n, MinID: LastStreamID()}, n},
	} {
		opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
		st := openTest(t, opts)
		onStream(t, st, "s", func(s Stream) error { return addEntries(s, n) })
		onStream(t, st, "s", func(s Stream) error {
			if s.o.stream.tail.Len() != 0 {
				t.Fatal("the stream is not cold")
			}
			got, err := s.Trim(test.trim)
			if got != test.want {
				t.Errorf("%+v removed %d, want %d", test.trim, got, test.want)
			}
			return err
		})
		onStream(t, st, "s", func(s Stream) error {
			next := uint64(test.want) + 1
			err := s.Range(StreamID{}, LastStreamID(), false, func(id StreamID, _ Fields) bool {
				if id.Ms != next {
					t.Fatalf("%+v: found %d, want %d", test.trim, id.Ms, next)
				}
				next++
				return true
			})
			if next != n+1 {
				t.Errorf("%+v: found up to %d", test.trim, next-1)
			}
			return err
		})
		if rows := streamRows(t, st)["e"]; rows != n-int(test.want) {
			t.Errorf("%+v: %d rows are left", test.trim, rows)
		}
		closeTest(t, st)
	}
}

// TestStreamBounded: a stream of a bounded length is trimmed without a look at the store, though tail does not hold all.
func TestStreamBounded(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 64 << 20
	st := openTest(t, opts)
	defer closeTest(t, st)
	const length = 1000
	for i := range uint64(3 * length) {
		onStream(t, st, "s", func(s Stream) error {
			if err := s.Add(StreamID{Ms: i + 1}, [][]byte{make([]byte, 100)}); err != nil {
				return err
			}
			if b := s.o.stream; int64(b.known(s.o)) != s.o.count || i == length && b.whole() {
				t.Fatalf("%d of %d ids are known", b.known(s.o), s.o.count)
			}
			n, err := s.Trim(StreamTrim{MaxLen: length})
			if first := max(int64(i)+2-length, 1); s.Info().First.Ms != uint64(first) || n > 1 {
				t.Fatalf("the first is %v after %d were trimmed, want %d-0", s.Info().First, n, first)
			}
			return err
		})
	}
}

// TestStreamCutBehindUnknown: what tail drops is not taken for the first entries where older ones were never read.
func TestStreamCutBehindUnknown(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 64 << 20
	st := openTest(t, opts)
	defer func() { closeTest(t, st) }()
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, 5) })
	closeTest(t, st)
	st = openTest(t, opts)
	onStream(t, st, "s", func(s Stream) error {
		for id := range uint64(5) {
			if err := s.Add(StreamID{Ms: 6 + id}, [][]byte{make([]byte, streamWindowBytes)}); err != nil {
				return err
			}
		}
		return nil
	})
	onStream(t, st, "s", func(s Stream) error {
		n, err := s.Trim(StreamTrim{MaxLen: 8})
		if first := s.Info().First.Ms; n != 2 || first != 3 {
			t.Errorf("%d trimmed, the first is %d-0 now; want 2 and 3-0", n, first)
		}
		return err
	})
}

// TestStreamSetBack: ids that are given a second time are found, whatever was known of the entries that had them first.
func TestStreamSetBack(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 64 << 20
	st := openTest(t, opts)
	defer func() { closeTest(t, st) }()
	const again = 5
	group := func(s Stream) Group {
		g, ok, err := s.Group([]byte("g"))
		if err != nil || !ok {
			t.Fatalf("group: %t, %v", ok, err)
		}
		return g
	}
	onStream(t, st, "s", func(s Stream) error {
		if err := addEntries(s, again); err != nil {
			return err
		}
		_, err := s.CreateGroup([]byte("g"), StreamID{}, 0)
		return err
	})
	closeTest(t, st)
	st = openTest(t, opts) // so that the tail is empty
	onStream(t, st, "s", func(s Stream) error { _, err := group(s).HasNew(); return err })
	onStream(t, st, "s", func(s Stream) error { _, err := s.Delete(StreamID{Ms: again}); return err })
	check := func(s Stream) error {
		found := ""
		err := s.Range(StreamID{}, LastStreamID(), false, func(id StreamID, _ Fields) bool {
			found += fmt.Sprint(id.Ms)
			return true
		})
		if found != "12345" {
			t.Errorf("found %s", found)
		}
		return err
	}
	onStream(t, st, "s", func(s Stream) error {
		s.SetLast(StreamID{Ms: again - 1})
		return errors.Join(addEntries(s, 1), check(s))
	})
	onStream(t, st, "s", check)
	onStream(t, st, "s", func(s Stream) error { // push what was added out of the tail
		return s.Add(StreamID{Ms: again + 1}, [][]byte{make([]byte, 2*streamWindowBytes)})
	})
	onStream(t, st, "s", func(s Stream) error {
		g := group(s)
		c, _, err := g.See([]byte("c"), 1)
		if err != nil {
			return err
		}
		found := ""
		err = g.Deliver(c, 0, true, 1, func(id StreamID, _ Fields) { found += fmt.Sprint(id.Ms) })
		if found != "123456" {
			t.Errorf("delivered %s", found)
		}
		return err
	})
}
