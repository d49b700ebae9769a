package shard

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// popper is a client that blocks in a pop, as BLPOP does, or moves what it pops to dst, as BLMOVE does.
type popper struct {
	t     *testing.T
	st    *Store
	tx    *Tx
	w     *Waiter
	dst   string
	got   string // written by the try
	tries atomic.Int32

	wake    chan struct{}
	timeout chan time.Time
	stop    chan struct{}
	done    chan struct{} // closed when await has what follows
	served  bool
	pos     uint64
	err     error
}

func newPopper(t *testing.T, st *Store, dst string, keys ...string) *popper {
	p := &popper{t: t, st: st, tx: st.NewTx(), dst: dst, wake: make(chan struct{}, 1), timeout: make(chan time.Time),
		stop: make(chan struct{}), done: make(chan struct{})}
	p.w = NewWaiter(0, KindList, byteKeys(keys), p.pop, p.rouse)
	return p
}

func (p *popper) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// untilOver does for the waiter what its owner has to.
func (p *popper) untilOver(timeout <-chan time.Time) {
	for over := false; !over; {
		select {
		case <-p.wake:
			over = p.w.Resume(p.tx)
		case <-timeout:
			over = p.w.Withdraw(p.tx)
			timeout = nil
		case <-p.stop:
			over = p.w.Withdraw(p.tx)
			p.stop = nil
		}
	}
	p.served, p.pos, p.err = p.w.Result()
}

func byteKeys(keys []string) (all [][]byte) {
	for _, k := range keys {
		all = append(all, []byte(k))
	}
	return all
}

func (p *popper) pop(tx *Tx, key []byte) (bool, error) {
	p.tries.Add(1)
	src, err := tx.DB(0).List(key)
	if err != nil {
		return false, err
	}
	if n, err := src.Len(); n == 0 || err != nil {
		return false, err
	}
	val, ok, err := src.Pop(Head)
	if err == nil && ok && p.dst != "" { // written before the conflict, so that the rollback matters
		err = pushTo(tx.DB(0), p.dst, string(val))
	}
	p.got = string(key) + "=" + string(val)
	return ok, err
}

// block registers the popper and leaves it waiting in a goroutine.
func (p *popper) block() *popper {
	p.t.Helper()
	p.tx.Begin(p.st.All())
	waits, err := block(p.tx, p.w)
	p.tx.End()
	if err != nil || !waits {
		p.t.Fatalf("waits %t, err %v; want it to wait", waits, err)
	}
	p.await()
	return p
}

// block is what a command does: it tries each of the keys, and registers the waiter if there is nothing for it.
func block(tx *Tx, w *Waiter) (waits bool, err error) {
	for _, key := range w.keys {
		if served, err := w.try(tx, key); served || err != nil {
			return false, err
		}
	}
	err = tx.Block(w)
	return err == nil, err
}

func (p *popper) await() {
	go func() {
		p.untilOver(p.timeout)
		close(p.done)
	}()
}

func (p *popper) wantServed(got string) {
	p.t.Helper()
	<-p.done
	if p.err != nil || !p.served || p.got != got {
		p.t.Fatalf("served %t with %q, err %v; want %q", p.served, p.got, p.err, got)
	}
}

// wantWaiting is exact, not a matter of time: a popper is served under the locks of the commit that serves it.
func (p *popper) wantWaiting() {
	p.t.Helper()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.w.state != waitWaiting {
		p.t.Fatalf("state %d, got %q; want it to wait", p.w.state, p.got)
	}
}

func (p *popper) giveUp() {
	p.t.Helper()
	p.timeout <- time.Time{}
	<-p.done
	if p.served || p.err != nil {
		p.t.Fatalf("served %t with %q, err %v; want it to have given up", p.served, p.got, p.err)
	}
}

// change runs fn in a transaction over the shards and commits it.
func change(t *testing.T, st *Store, shards Mask, fn func(tx *Tx, d DB) error) {
	t.Helper()
	tx := st.NewTx()
	tx.Begin(shards)
	err := fn(tx, tx.DB(0))
	if err == nil {
		err = tx.Commit()
	}
	if tx.Dirty() {
		t.Error("something is left uncommitted")
	}
	if pos := tx.End(); err == nil {
		err = st.Wait(pos)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func pushTo(d DB, key string, vals ...string) error {
	l, err := d.List([]byte(key))
	for _, v := range vals {
		if err == nil {
			err = l.Push(Tail, []byte(v))
		}
	}
	return err
}

// push pushes while it holds no more than the key's shard.
func push(t *testing.T, st *Store, key string, vals ...string) {
	t.Helper()
	change(t, st, shardOf(st, key), func(_ *Tx, d DB) error { return pushTo(d, key, vals...) })
}

func shardOf(st *Store, key string) Mask {
	p, _ := st.placer.Place(0, []byte(key))
	return MaskOf(p.Shard)
}

// keyOn returns a key that lives on the shard; different prefixes make different keys.
func keyOn(st *Store, ordinal int, prefix string) string {
	for i := 0; ; i++ {
		key := fmt.Sprint(prefix, i)
		if m := shardOf(st, key); m.Has(ordinal) {
			return key
		}
	}
}

func listLen(t *testing.T, st *Store, key string) (n int64) {
	t.Helper()
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		l, err := d.List([]byte(key))
		if err == nil {
			n, err = l.Len()
		}
		return err
	})
	return n
}

// openWaiting opens a store of four shards; when the test ends, no queue may be left.
func openWaiting(t *testing.T) *Store {
	st := openTest(t, testOptions(vfs.NewMem(), 4, clock.NewManual(testStart)))
	t.Cleanup(func() {
		for _, s := range st.shards {
			s.mu.Lock()
			if len(s.queues) > 0 || len(s.ready) > 0 {
				t.Errorf("shard %s is left with %d queues", s.name, len(s.queues))
			}
			s.mu.Unlock()
		}
		closeTest(t, st)
	})
	return st
}

func TestWaitFirstComeFirstServed(t *testing.T) {
	st := openWaiting(t)
	var all []*popper
	for range 4 {
		all = append(all, newPopper(t, st, "", "a", "a").block())
	}
	push(t, st, "a", "1", "2", "3") // one push serves three
	for i, p := range all[:3] {
		p.wantServed(fmt.Sprint("a=", i+1))
	}
	all[3].wantWaiting()
	late := newPopper(t, st, "", "a").block()
	push(t, st, "a", "4")
	all[3].wantServed("a=4")
	late.wantWaiting()
	late.giveUp()
	push(t, st, "a", "5")
	if n := listLen(t, st, "a"); n != 1 {
		t.Fatalf("%d elements are left, want 1: who gave up must take nothing", n)
	}
	p := newPopper(t, st, "", "b", "a")
	change(t, st, st.All(), func(tx *Tx, _ DB) error {
		waits, err := block(tx, p.w)
		if waits || p.got != "a=5" {
			t.Errorf("waits %t, got %q; want what is there", waits, p.got)
		}
		return err
	})
}

// TestWaitSeesTheWholeTransaction: a waiter is served after the transaction and against its outcome.
func TestWaitSeesTheWholeTransaction(t *testing.T) {
	st := openWaiting(t)
	x, y := keyOn(st, 3, "x"), keyOn(st, 0, "y")
	p := newPopper(t, st, "", y, x, "flushed").block()
	change(t, st, st.All(), func(_ *Tx, d DB) error { // pushed and popped: nobody wakes
		if err := pushTo(d, x, "1"); err != nil {
			return err
		}
		l, err := d.List([]byte(x))
		if err == nil {
			_, _, err = l.Pop(Head)
		}
		return err
	})
	change(t, st, st.All(), func(_ *Tx, d DB) error { // pushed and flushed
		return errors.Join(pushTo(d, "flushed", "1"), d.Flush())
	})
	tx := st.NewTx() // pushed and aborted
	tx.Begin(st.All())
	if err := pushTo(tx.DB(0), x, "1"); err != nil {
		t.Fatal(err)
	}
	tx.Abort()
	tx.End()
	change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Set([]byte(x), []byte("a string"), 0) })
	change(t, st, st.All(), func(_ *Tx, d DB) error { // another collection
		z, err := d.ZSet([]byte(y))
		if err == nil {
			_, err = z.Set([]byte("m"), 1)
		}
		return err
	})
	if n := p.tries.Load(); n != 3 {
		t.Fatalf("%d tries, want the 3 of the beginning", n)
	}
	p.wantWaiting()
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		for _, key := range []string{x, y} {
			if _, err := d.Delete([]byte(key)); err != nil {
				return err
			}
		}
		if err := pushTo(d, x, "1"); err != nil { // x is the first to be pushed to, on a shard that comes later
			return err
		}
		if err := pushTo(d, y, "1"); err != nil {
			return err
		}
		l, err := d.List([]byte(x))
		if err == nil {
			_, err = l.Set(0, []byte("2"))
		}
		return err
	})
	p.wantServed(x + "=2")
}

func TestWaitRename(t *testing.T) {
	st := openWaiting(t)
	for _, src := range []string{keyOn(st, 1, "src"), keyOn(st, 2, "src")} {
		dst := keyOn(st, 1, "dst")
		push(t, st, src, "v")
		p := newPopper(t, st, "", dst).block()
		change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Rename([]byte(src), []byte(dst)) })
		p.wantServed(dst + "=v")
	}
}

// TestWaitKindsApart: who waits for another kind is neither served nor in the way.
func TestWaitKindsApart(t *testing.T) {
	st := openWaiting(t)
	z := newPopper(t, st, "", "k")
	z.w = NewWaiter(0, KindZSet, byteKeys([]string{"k"}), func(tx *Tx, key []byte) (bool, error) {
		s, err := tx.DB(0).ZSet(key)
		if err != nil {
			return false, err
		}
		n, err := s.Len()
		return n > 0, err
	}, z.rouse)
	z.block()
	p := newPopper(t, st, "", "k").block()
	push(t, st, "k", "1")
	p.wantServed("k=1")
	z.wantWaiting()
	change(t, st, st.All(), func(_ *Tx, d DB) error {
		s, err := d.ZSet([]byte("k"))
		if err == nil {
			_, err = s.Set([]byte("m"), 1)
		}
		return err
	})
	z.wantServed("")
}

// TestWaitChain: serving one makes another key ready, within one commit; the effects survive a power loss.
func TestWaitChain(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := openTest(t, testOptions(fs, 4, clock.NewManual(testStart)))
	a, b, c := keyOn(st, 0, "a"), keyOn(st, 1, "b"), keyOn(st, 2, "c")
	last := newPopper(t, st, "", c).block()
	second := newPopper(t, st, c, b).block()
	first := newPopper(t, st, b, a).block()
	keep := newPopper(t, st, b, a).block()
	push(t, st, a, "1", "2")
	first.wantServed(a + "=1")
	second.wantServed(b + "=1")
	last.wantServed(c + "=1")
	keep.wantServed(a + "=2")
	for _, p := range []*popper{first, second, last, keep} {
		if p.pos == 0 {
			t.Error("a reply that need not wait for the log")
		}
		if err := st.Wait(p.pos); err != nil {
			t.Fatal(err)
		}
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeTest(t, st)
	st = openTest(t, testOptions(crashed, 4, clock.NewManual(testStart)))
	defer closeTest(t, st)
	for key, want := range map[string]int64{a: 0, b: 1, c: 0} {
		if n := listLen(t, st, key); n != want {
			t.Errorf("%s has %d elements after the power loss, want %d", key, n, want)
		}
	}
}

// handedMover makes a popper that has been handed to its owner, since its try needs the lock of a shard below the pusher's that
// holder has, and one that stands behind it.
func handedMover(t *testing.T, st *Store) (mover, behind *popper, holder *Tx) {
	t.Helper()
	src, dst := keyOn(st, 2, "src"), keyOn(st, 1, "dst")
	mover = newPopper(t, st, dst, src)
	mover.tx.Begin(st.All())
	if waits, err := block(mover.tx, mover.w); !waits || err != nil {
		t.Fatal(waits, err)
	}
	mover.tx.End()
	behind = newPopper(t, st, "", src).block()
	holder = st.NewTx()
	holder.Begin(shardOf(st, dst))
	push(t, st, src, "1")
	behind.wantWaiting()
	return mover, behind, holder
}

// TestWaitConflict: the try of the first in the queue needs the lock of a shard below the pusher's that somebody else
// holds. It is handed to its owner and served before those behind it.
func TestWaitConflict(t *testing.T) {
	for _, timesOut := range []bool{false, true} {
		t.Run(fmt.Sprint("times out ", timesOut), func(t *testing.T) {
			st := openWaiting(t)
			mover, behind, holder := handedMover(t, st)
			src, dst := string(mover.w.keys[0]), mover.dst
			push(t, st, src, "2")
			behind.wantWaiting()
			if timesOut {
				<-mover.wake // so that the timeout comes first
				mover.await()
				mover.giveUp()
				behind.wantServed(src + "=1")
			} else {
				mover.await()
			}
			holder.End()
			if !timesOut {
				mover.wantServed(src + "=1")
				behind.wantServed(src + "=2")
			}
			if n := listLen(t, st, dst); n != int64(1-b2i(timesOut)) {
				t.Fatalf("%d elements at the destination", n)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestWaitFailure: a try that fails tells its owner, and the element goes to the next.
func TestWaitFailure(t *testing.T) {
	st := openWaiting(t)
	change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Set([]byte("dst"), []byte("s"), 0) })
	mover := newPopper(t, st, "dst", "src").block()
	p := newPopper(t, st, "", "src").block()
	push(t, st, "src", "1")
	<-mover.done
	if mover.served || mover.err != ErrWrongType {
		t.Fatalf("served %t, err %v; want %v", mover.served, mover.err, ErrWrongType)
	}
	p.wantServed("src=1")
}

// heldTry makes the popper's tries at the key wait for goOn, and then refuse what is there if refuse is set.
func (p *popper) heldTry(held string, refuse bool) (entered, goOn chan struct{}) {
	entered, goOn = make(chan struct{}), make(chan struct{})
	p.w.try = func(tx *Tx, key []byte) (bool, error) {
		if string(key) != held {
			return p.pop(tx, key)
		}
		if p.tries.Add(1) == 2 { // the first is that of Block; the test sets the count back to it
			close(entered)
			<-goOn
		}
		if refuse {
			return false, nil
		}
		return p.pop(tx, key)
	}
	return entered, goOn
}

// TestWaitMissed: while a waiter is being tried on one shard, which comes to nothing, it becomes ready on another.
func TestWaitMissed(t *testing.T) {
	st := openWaiting(t)
	x, y := keyOn(st, 0, "x"), keyOn(st, 1, "y")
	p := newPopper(t, st, "", x, y)
	entered, goOn := p.heldTry(x, true)
	p.block()
	p.tries.Store(1)
	var pushing sync.WaitGroup
	pushing.Go(func() { push(t, st, x, "1") })
	<-entered
	push(t, st, y, "2")
	close(goOn)
	pushing.Wait()
	p.wantServed(y + "=2")
}

// TestWaitLeavingWhileClaimed: the owner gives up while a server runs the try, whose outcome then counts.
func TestWaitLeavingWhileClaimed(t *testing.T) {
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
			close(p.stop)
			for leaving := false; !leaving; runtime.Gosched() {
				p.w.mu.Lock()
				leaving = p.w.leaving
				p.w.mu.Unlock()
			}
			close(goOn)
			pushing.Wait()
			if !refuse {
				p.wantServed("a=1")
				return
			}
			<-p.done
			if p.served || listLen(t, st, "a") != 1 {
				t.Fatal("served, though it had left")
			}
		})
	}
}

// TestWaitMetAfterItsEnd: a waiter that was served on one shard still stands in a queue of another until its owner comes.
func TestWaitMetAfterItsEnd(t *testing.T) {
	st := openWaiting(t)
	x, y := keyOn(st, 0, "x"), keyOn(st, 1, "y")
	p := newPopper(t, st, "", x, y)
	p.tx.Begin(st.All())
	if waits, err := block(p.tx, p.w); !waits || err != nil {
		t.Fatal(waits, err)
	}
	p.tx.End()
	behind := newPopper(t, st, "", y).block()
	push(t, st, x, "1")
	push(t, st, y, "2")
	behind.wantServed(y + "=2")
	p.await()
	p.wantServed(x + "=1")
}

// TestWaitExpired: a key can expire between the command that made it and the commit.
func TestWaitExpired(t *testing.T) {
	clk := clock.NewManual(testStart)
	st := openTest(t, testOptions(vfs.NewMem(), 4, clk))
	defer closeTest(t, st)
	p := newPopper(t, st, "", "a").block()
	change(t, st, shardOf(st, "a"), func(tx *Tx, d DB) error {
		if err := pushTo(d, "a", "1"); err != nil {
			return err
		}
		_, err := d.SetExpireAt([]byte("a"), tx.nowMs+5)
		clk.Advance(10 * time.Millisecond)
		tx.nowMs = tx.store.clock.NowMs()
		return err
	})
	p.wantWaiting()
	p.giveUp()
}

// TestWaitPartitioned: a key with a fragment on every shard; whoever pops needs them all.
func TestWaitPartitioned(t *testing.T) {
	st := openWaiting(t)
	key := []byte("part:z")
	var got string
	p := newPopper(t, st, "", "part:z")
	p.w = NewWaiter(0, KindZSet, [][]byte{key}, func(tx *Tx, key []byte) (bool, error) {
		z, err := tx.DB(0).ZSet(key)
		if err != nil {
			return false, err
		}
		err = z.Each(func(member []byte, _ float64) bool {
			got = string(member)
			return false
		})
		return got != "", err
	}, p.rouse)
	p.block()
	member := []byte(keyOn(st, 2, "member")) // the test's placer treats keys and members alike
	change(t, st, MaskOf(2), func(_ *Tx, d DB) error {
		z, err := d.ZSet(key)
		if err == nil {
			_, err = z.Set(member, 1)
		}
		return err
	})
	p.wantServed("")
	if got != string(member) {
		t.Fatalf("got %q", got)
	}
}

// TestWaitPushTouchesOne: of 10,000 waiters a push looks at the one that it serves. The others have nothing that could be
// looked at while it runs.
func TestWaitPushTouchesOne(t *testing.T) {
	st := openWaiting(t)
	all := make([]*popper, 10_000)
	for i := range all {
		all[i] = newPopper(t, st, "", "a").block()
	}
	for i, p := range all[:3] {
		mask := shardOf(st, "a")
		s := st.shards[mask.next(0)]
		hidden := hideBehind(s)
		push(t, st, "a", fmt.Sprint(i))
		p.wantServed(fmt.Sprint("a=", i))
		s.mu.Lock()
		for e, w := range hidden {
			e.waiter = w
		}
		s.mu.Unlock()
	}
	tries := 0
	for _, p := range all[3:] {
		close(p.stop)
	}
	for _, p := range all {
		<-p.done
		tries += int(p.tries.Load())
	}
	if tries != len(all)+3 {
		t.Fatalf("%d tries for %d waiters and 3 pushes", tries, len(all))
	}
}

// hideBehind takes the waiters out of all entries but the first and yields them.
func hideBehind(s *Shard) map[*waitEntry]*Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	hidden := make(map[*waitEntry]*Waiter)
	q := s.queues[waitKey{kind: KindList, key: "a"}]
	for e := q.first.next; e != nil; e = e.next {
		hidden[e], e.waiter = e.waiter, nil
	}
	return hidden
}

// TestWaitExactlyOnce lets pushers, movers, poppers and their timeouts loose on keys of four shards. What was pushed is
// popped once or left, and nothing is left at a key that somebody waits for.
func TestWaitExactlyOnce(t *testing.T) {
	st := openWaiting(t)
	const clients, rounds = 8, 60
	keys := []string{keyOn(st, 0, "k"), keyOn(st, 1, "k"), keyOn(st, 2, "k"), keyOn(st, 3, "k")}
	var pushed, popped atomic.Int64
	var seen sync.Map
	var running, pushers sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			for r := range rounds {
				p := newPopper(t, st, "", keys[(c+r)%4], keys[(c+r+1)%4], keys[(c+3*r)%4])
				if c%4 == 3 {
					p.dst = keys[r%4]
				}
				popOnce(p, st, r%3 == 0)
				if !p.served || p.dst != "" {
					continue
				}
				popped.Add(1)
				if _, twice := seen.LoadOrStore(p.got[len(keys[0])+1:], true); twice {
					t.Errorf("%s was popped twice", p.got)
				}
			}
		})
	}
	stop := make(chan struct{})
	for c := range 3 {
		pushers.Go(func() {
			for r := 0; ; r++ {
				select {
				case <-stop:
					return
				default:
				}
				pushed.Add(1)
				push(t, st, keys[(c+r)%4], fmt.Sprint(c, "-", r))
			}
		})
	}
	running.Wait()
	close(stop)
	pushers.Wait()
	var left int64
	for _, key := range keys {
		left += listLen(t, st, key)
	}
	if pushed.Load() != popped.Load()+left {
		t.Fatalf("%d pushed, %d popped, %d left", pushed.Load(), popped.Load(), left)
	}
}

// popOnce carries the popper's command out as a session does, with a timeout at once if it is impatient.
func popOnce(p *popper, st *Store, impatient bool) {
	mask := shardOf(st, string(p.w.keys[0]))
	for {
		p.tx.Begin(mask)
		waits, err := block(p.tx, p.w)
		if err == nil && !waits {
			err = p.tx.Commit()
		}
		p.pos = p.tx.End()
		if errors.Is(err, ErrConflict) {
			mask = p.tx.Wanted()
			continue
		}
		p.served, p.err = !waits, err
		if waits {
			timeout := make(chan time.Time)
			if impatient {
				close(timeout)
			}
			p.untilOver(timeout)
		}
		if p.err != nil {
			p.t.Error(p.err)
		}
		return
	}
}

// TestWaitFlush: who waits in a database that is emptied waits on.
func TestWaitFlush(t *testing.T) {
	st := openWaiting(t)
	push(t, st, "other", "1")
	p := newPopper(t, st, "", "a").block()
	gone := newPopper(t, st, "", "a").block()
	change(t, st, st.All(), func(_ *Tx, d DB) error { return d.Flush() })
	p.wantWaiting()
	push(t, st, "a", "1")
	p.wantServed("a=1")
	gone.giveUp()
}

// TestWaitPipelined: what a transaction has changed before it blocks is committed, and may serve another who in turn leaves
// something for the one that blocks.
func TestWaitPipelined(t *testing.T) {
	st := openWaiting(t)
	mover := newPopper(t, st, "dst", "src").block()
	p := newPopper(t, st, "", "dst")
	change(t, st, st.All(), func(tx *Tx, d DB) error {
		if err := pushTo(d, "src", "1"); err != nil {
			return err
		}
		waits, err := block(tx, p.w)
		if !waits {
			t.Error("does not wait")
		}
		return err
	})
	p.await()
	mover.wantServed("src=1")
	p.wantServed("dst=1")
}
