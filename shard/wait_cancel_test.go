package shard

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestWaitCancel: who was cancelled gets nothing, though it still stands in the queue, and stands in nobody's way.
func TestWaitCancel(t *testing.T) {
	st := openWaiting(t)
	p := newPopper(t, st, "", "a")
	p.tx.Begin(st.All())
	if waits, err := block(p.tx, p.w); !waits || err != nil {
		t.Fatal(waits, err)
	}
	p.tx.End()
	behind := newPopper(t, st, "", "a").block()
	if !p.w.Cancel() || p.w.Cancel() {
		t.Fatal("want the first Cancel to end it and the second to find it over")
	}
	push(t, st, "a", "1")
	behind.wantServed("a=1")
	<-p.wake // without it the owner would never learn
	if !p.w.Resume(p.tx) {
		t.Fatal("it waits")
	}
	if served, _, err := p.w.Result(); served || err != nil || p.tries.Load() != 1 {
		t.Fatalf("served %t, err %v after %d tries", served, err, p.tries.Load())
	}
	if behind.w.Cancel() {
		t.Fatal("ended though it was served")
	}
}

// TestWaitCancelHanded: a waiter that is cancelled while its owner is to serve the queue lets those behind it be served.
func TestWaitCancelHanded(t *testing.T) {
	st := openWaiting(t)
	mover, behind, holder := handedMover(t, st)
	src := string(mover.w.keys[0])
	if !mover.w.Cancel() {
		t.Fatal("not ended")
	}
	behind.wantWaiting()
	mover.await()
	behind.wantServed(src + "=1")
	holder.End()
	if <-mover.done; mover.served || mover.err != nil {
		t.Fatalf("served %t, err %v", mover.served, mover.err)
	}
}

// TestWaitCancelClaimed: what is being tried can't be told to have ended, but is over when the try comes to nothing.
func TestWaitCancelClaimed(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprint("refuse ", refuse), func(t *testing.T) {
			st := openWaiting(t)
			p := newPopper(t, st, "", "a")
			entered, goOn := p.heldTry("a", refuse)
			p.block()
			p.tries.Store(1)
			var pushing sync.WaitGroup
			pushing.Go(func() { push(t, st, "a", "1") })
			<-entered
			if p.w.Cancel() {
				t.Fatal("ended in the middle of a try")
			}
			close(goOn)
			pushing.Wait()
			if <-p.done; p.served == refuse || p.err != nil || listLen(t, st, "a") != int64(b2i(refuse)) {
				t.Fatalf("served %t, err %v", p.served, p.err)
			}
		})
	}
}

// TestWaitGoneRival: a consumer that is gone when it is tried must not be taken for one whom the entry did not suffice.
func TestWaitGoneRival(t *testing.T) {
	st := openWaiting(t)
	onStream(t, st, "s", func(s Stream) error {
		if err := addEntries(s, 1); err != nil {
			return err
		}
		return useGroup(s, "g", 0)
	})
	gone, next, last := waitFor(t, st, "g", StreamID{}, "s"), waitFor(t, st, "g", StreamID{}, "s"), waitFor(t, st, "g", StreamID{}, "s")
	errGone := errors.New("gone")
	gone.w.try = func(*Tx, []byte) (bool, error) { return false, errGone }
	onStream(t, st, "s", func(s Stream) error { return addEntries(s, 1) })
	gone.wantOver("", errGone)
	next.wantOver("2 ", nil)
	last.giveUp()
}

// TestWaitCancelRaces cancels waiters on two shards while both are pushed to, many times. Cancel's answer must be true: what it
// has ended was not served, and nothing stays behind at a key that somebody waits for.
func TestWaitCancelRaces(t *testing.T) {
	st := openWaiting(t)
	x, y := keyOn(st, 0, "x"), keyOn(st, 1, "y")
	for round := range 300 {
		p := newPopper(t, st, "", x, y)
		if round%3 == 0 {
			p.dst = y // needs a second shard, so that it may be handed over
		}
		p.block()
		pushed, ended := int64(1), false
		var all sync.WaitGroup
		all.Go(func() { push(t, st, x, "1") })
		all.Go(func() { ended = p.w.Cancel() })
		if round%2 == 0 {
			pushed++
			all.Go(func() { push(t, st, y, "2") })
		}
		all.Wait()
		if <-p.done; p.err != nil || p.served && ended {
			t.Fatalf("round %d: served %t, ended %t, err %v", round, p.served, ended, p.err)
		}
		left := pushed
		if p.served && p.dst == "" {
			left--
		}
		if n := listLen(t, st, x) + listLen(t, st, y); n != left {
			t.Fatalf("round %d: %d are left of %d, served %t", round, n, pushed, p.served)
		}
		change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Flush() })
	}
}
