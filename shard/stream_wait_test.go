package shard

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

var errGroupGone = errors.New("the group is gone")

// reader is a client that waits for entries of a stream, as XREAD does, or with a group as XREADGROUP does.
type reader struct {
	t     *testing.T
	st    *Store
	w     *Waiter
	group string
	after StreamID
	got   string
	tries int
	woken atomic.Bool
}

// waitFor registers a reader of the keys; the streams of a group's must have it.
func waitFor(t *testing.T, st *Store, group string, after StreamID, keys ...string) *reader {
	t.Helper()
	r := &reader{t: t, st: st, group: group, after: after}
	r.w = NewWaiter(0, KindStream, byteKeys(keys), r.try, func() { r.woken.Store(true) })
	r.w.SetRivals(group)
	tx := st.NewTx()
	tx.Begin(st.All())
	waits, err := block(tx, r.w)
	tx.End()
	if err != nil || !waits {
		t.Fatalf("waits %t, err %v; want it to wait", waits, err)
	}
	r.tries = 0
	return r
}

// try reads what is new; like XREADGROUP it fails when it has a group that isn't there.
func (r *reader) try(tx *Tx, key []byte) (bool, error) {
	r.tries++
	s, err := tx.DB(0).Stream(key)
	if err != nil && err != ErrWrongType {
		return false, err
	}
	if err == ErrWrongType || !s.Exists() {
		if r.group != "" {
			return false, errGroupGone
		}
		return false, nil
	}
	if r.group == "" {
		err = s.Range(r.after, LastStreamID(), false, func(id StreamID, _ Fields) bool {
			r.got += fmt.Sprint(id.Ms, " ")
			return true
		})
		return r.got != "", err
	}
	g, ok, err := s.Group([]byte(r.group))
	if err == nil && !ok {
		err = errGroupGone
	}
	if err != nil {
		return false, err
	}
	if fresh, err := g.HasNew(); !fresh || err != nil {
		return false, err
	}
	c, _, err := g.See([]byte("c"), tx.DB(0).Now())
	if err != nil {
		return false, err
	}
	return true, g.Deliver(c, 1, false, tx.DB(0).Now(), func(id StreamID, _ Fields) { r.got += fmt.Sprint(id.Ms, " ") })
}

// wantOver expects the reader to be over. That is exact: it is served under the locks of the commit that serves it.
func (r *reader) wantOver(got string, err error) {
	r.t.Helper()
	if !r.woken.Load() || !r.w.Resume(r.st.NewTx()) {
		r.t.Fatalf("the reader waits, want it to have %q, err %v", got, err)
	}
	if served, _, failed := r.w.Result(); served != (err == nil) || failed != err || r.got != got {
		r.t.Fatalf("served %t with %q, err %v; want %q, err %v", served, r.got, failed, got, err)
	}
}

func (r *reader) wantWaiting(tries int) {
	r.t.Helper()
	if r.woken.Load() || r.tries != tries {
		r.t.Fatalf("woken %t after %d tries; want it to wait after %d", r.woken.Load(), r.tries, tries)
	}
}

func (r *reader) giveUp() {
	r.t.Helper()
	if !r.w.Withdraw(r.st.NewTx()) {
		r.t.Fatal("the reader is not over")
	}
}

// TestStreamWaiting: one entry serves all readers, but only one consumer of each group.
func TestStreamWaiting(t *testing.T) {
	st := openWaiting(t)
	onStream(t, st, "s", func(s Stream) error {
		if err := addEntries(s, 1); err != nil {
			return err
		}
		return errors.Join(useGroup(s, "g", 0), useGroup(s, "h", 0))
	})
	readers := []*reader{waitFor(t, st, "", StreamID{Ms: 2}, "s"), waitFor(t, st, "", StreamID{Ms: 2}, "s"),
		waitFor(t, st, "", StreamID{Ms: 3}, "other", "s")}
	consumer := func(group string) *reader { return waitFor(t, st, group, StreamID{}, "s") }
	first, second, third := consumer("g"), consumer("g"), consumer("g")
	alone := consumer("h")
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, 1) })
	readers[0].wantOver("2 ", nil)
	readers[1].wantOver("2 ", nil)
	readers[2].wantWaiting(1)
	first.wantOver("2 ", nil)
	second.wantWaiting(1)
	third.wantWaiting(0) // for its rival got nothing
	alone.wantOver("2 ", nil)
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, 2) })
	readers[2].wantOver("3 4 ", nil)
	second.wantOver("3 ", nil)
	third.wantOver("4 ", nil)
}

// TestStreamWaitingForNews: what changes in a stream but brings no entries makes nobody try.
func TestStreamWaitingForNews(t *testing.T) {
	st := openWaiting(t)
	onStream(t, st, "s", func(s Stream) error {
		if err := addEntries(s, 5); err != nil {
			return err
		}
		return useGroup(s, "g", 0)
	})
	r, c := waitFor(t, st, "", StreamID{Ms: 6}, "s"), waitFor(t, st, "g", StreamID{}, "s")
	onStream(t, st, "s", func(s Stream) error {
		g, _, err := s.Group([]byte("g"))
		if err == nil {
			_, err = g.Ack(StreamID{Ms: 1})
		}
		return err
	})
	onStream(t, st, "s", func(s Stream) error { _, err := s.Delete(StreamID{Ms: 5}); return err })
	onStream(t, st, "s", func(s Stream) error { _, err := s.CreateGroup([]byte("other"), StreamID{}, 0); return err })
	r.wantWaiting(0)
	c.wantWaiting(0)
	change(t, st, st.All(), func(_ *Tx, d DB) error { _, err := d.Delete([]byte("unrelated")); return err })
	c.wantWaiting(0)
	c.giveUp()
	r.giveUp()
}

// TestStreamWaitingInVain: consumers learn that their group or their stream is gone; readers wait for the next one.
func TestStreamWaitingInVain(t *testing.T) {
	ends := map[string]func(*Tx, DB) error{
		"deleted":     func(_ *Tx, d DB) error { _, err := d.Delete([]byte("s")); return err },
		"overwritten": func(_ *Tx, d DB) error { return d.Set([]byte("s"), []byte("v"), 0) },
		"renamed":     func(_ *Tx, d DB) error { return d.Rename([]byte("s"), []byte("t")) },
		"flushed":     func(_ *Tx, d DB) error { return d.Flush() },
		"expired":     func(_ *Tx, d DB) error { _, err := d.SetExpireAt([]byte("s"), 1); return err },
		"made anew": func(_ *Tx, d DB) error {
			_, err := d.Delete([]byte("s"))
			if err != nil {
				return err
			}
			s, err := d.Stream([]byte("s"))
			return errors.Join(err, s.Create())
		},
		"destroyed": func(_ *Tx, d DB) error {
			s, err := d.Stream([]byte("s"))
			if err != nil {
				return err
			}
			g, _, err := s.Group([]byte("g"))
			g.Destroy()
			return err
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			st := openWaiting(t)
			onStream(t, st, "s", func(s Stream) error {
				if err := addEntries(s, 1); err != nil {
					return err
				}
				return useGroup(s, "g", 0)
			})
			r, c := waitFor(t, st, "", StreamID{Ms: 2}, "s"), waitFor(t, st, "g", StreamID{}, "s")
			change(t, st, st.All(), end)
			c.wantOver("", errGroupGone)
			if r.woken.Load() {
				t.Error("the reader is over")
			}
			change(t, st, st.All(), func(_ *Tx, d DB) error { _, err := d.Delete([]byte("s")); return err })
			onStream(t, st, "s", func(s Stream) error { return s.Add(StreamID{Ms: 7}, nil) })
			r.wantOver("7 ", nil)
		})
	}
}

// TestStreamWaitingForRename: a stream that comes from elsewhere serves, within a shard and between two.
func TestStreamWaitingForRename(t *testing.T) {
	st := openWaiting(t)
	for ordinal := range st.shards {
		src := keyOn(st, ordinal, "src")
		r := waitFor(t, st, "", StreamID{}, "s")
		onStream(t, st, src, func(s Stream) error { return addEntries(s, 2) })
		r.wantWaiting(0)
		change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Rename([]byte(src), []byte("s")) })
		r.wantOver("1 2 ", nil)
		change(t, st, st.All(), func(_ *Tx, d DB) error { _, err := d.Delete([]byte("s")); return err })
	}
}
