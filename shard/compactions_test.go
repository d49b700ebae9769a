package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// backlog is a database with compactions to do. As Pebble does, it asks for permission until it is refused, and then waits to be asked.
type backlog struct {
	t *testing.T
	c *compactions

	mu      sync.Mutex // stands for Pebble's
	allowed int
	todo    int
	waiting bool
	begun   []pebble.CompactionGrantHandle // and not done
	closed  bool
	asked   func() // what happens when it was asked what waits, unless nil
}

func (b *backlog) GetAllowedWithoutPermission() int { return b.allowed } // like Pebble's, it takes no lock

func (b *backlog) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	if b.asked != nil {
		defer b.asked()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.t.Error("a closed database is asked")
	}
	b.waiting = b.waiting && b.todo > 0
	return b.waiting, pebble.WaitingCompaction{}
}

func (b *backlog) Schedule(h pebble.CompactionGrantHandle) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting = b.waiting && b.todo > 0; b.waiting {
		b.begin(h)
	}
	return b.waiting
}

func (b *backlog) begin(h pebble.CompactionGrantHandle) {
	b.todo--
	b.begun = append(b.begun, h)
	if len(b.begun) > 2 {
		b.t.Errorf("%d compactions at a time", len(b.begun))
	}
}

// add gives the database something to do.
func (b *backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.todo += n
	for b.todo > 0 && !b.waiting {
		ok, h := b.c.TrySchedule()
		if !ok {
			b.waiting = true
			return
		}
		b.begin(h)
	}
}

// finish ends one compaction, if one has begun.
func (b *backlog) finish() {
	b.mu.Lock()
	if len(b.begun) == 0 {
		b.mu.Unlock()
		return
	}
	h := b.begun[0]
	b.begun = b.begun[1:]
	b.mu.Unlock()
	h.Done()
}

// state is how many compactions there are.
func (b *backlog) state() (todo, begun int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.todo, len(b.begun)
}

func (b *backlog) want(todo, begun int) {
	b.t.Helper()
	if gotTodo, gotBegun := b.state(); gotTodo != todo || gotBegun != begun {
		b.t.Errorf("%d are to be done and %d have begun, want %d and %d", gotTodo, gotBegun, todo, begun)
	}
}

func startBacklog(t *testing.T, clk clock.Clock, allowed int) *backlog {
	b := openBacklog(t, clk, allowed)
	b.c.begin()
	return b
}

// openBacklog is a database that is still being opened.
func openBacklog(t *testing.T, clk clock.Clock, allowed int) *backlog {
	b := &backlog{t: t, c: newCompactions(clk), allowed: allowed}
	b.c.Register(2, b)
	return b
}

// TestCompactionsHeld: none begins while the database is being opened, and what was asked for meanwhile begins then.
func TestCompactionsHeld(t *testing.T) {
	clk := clock.NewManual(testStart)
	b := openBacklog(t, clk, 2)
	b.add(3)
	if b.want(3, 0); clk.Awaited(testStart.Add(compactionInterval)) {
		t.Error("somebody looks after what is held")
	}
	b.c.begin()
	b.want(1, 2)
	b.c.begin() // once more
	b.want(1, 2)
	b.finish()
	b.want(0, 2)
	b.c.Unregister()
}

// TestOpenLetsCompactionsBegin: they are held until the shards are open, or have something to replay, which many flushes follow, or a
// registry to make.
func TestOpenLetsCompactionsBegin(t *testing.T) {
	opts := testOptions(vfs.NewMem(), 2, clock.NewManual(testStart))
	closeTest(t, openTest(t, opts)) // so that there is a registry
	st := openTest(t, opts)
	defer closeTest(t, st)
	want := func(want ...bool) {
		t.Helper()
		var held []bool
		for _, s := range st.shards {
			s.compactions.mu.Lock()
			held = append(held, s.compactions.held)
			s.compactions.mu.Unlock()
		}
		if !slices.Equal(held, want) {
			t.Errorf("shards hold compactions: %v, want %v", held, want)
		}
	}
	want(false, false)
	for _, s := range st.shards {
		s.compactions.held = true // nobody asks for one here
	}
	r := replay{store: st, last: make([]uint64, 2)}
	empty := st.shards[1].db.NewBatch()
	defer func() {
		if err := empty.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n, held := range []bool{true, false} {
		part := logPart{shard: 1, number: st.shards[1].state.number + uint64(n), repr: empty.Repr()}
		if err := r.apply([]logPart{part}); err != nil {
			t.Fatal(err)
		}
		want(true, held)
	}
	s := st.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range []bool{true, false} {
		if err := s.loadTimetable(); err != nil {
			t.Fatal(err)
		}
		want(held, false)
		if err := errors.Join(s.unstage(), s.db.Delete([]byte{rowRegistry}, pebble.NoSync)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEachShard calls a function for all shards at a time, each of which waits for the others, and has two of them fail.
func TestEachShard(t *testing.T) {
	st := openTest(t, testOptions(vfs.NewMem(), 3, clock.NewManual(testStart)))
	defer closeTest(t, st)
	var called sync.WaitGroup
	called.Add(len(st.shards))
	err := eachShard(st.shards, func(s *Shard) error {
		called.Done()
		called.Wait()
		if s.ordinal == 0 {
			return nil
		}
		return fmt.Errorf("reason %d", s.ordinal)
	})
	if want := "shard default-1: reason 1"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// TestCompactionsInTurn: one begins when one is done, nobody looks when none waits, and none begins when the database is closed.
func TestCompactionsInTurn(t *testing.T) {
	clk := clock.NewManual(testStart)
	b := startBacklog(t, clk, 1)
	look := testStart.Add(compactionInterval)
	b.add(1)
	b.want(0, 1)
	b.finish()
	if b.want(0, 0); clk.Awaited(look) {
		t.Error("there is a timer, and nothing waits")
	}
	b.add(3)
	if b.want(2, 1); !clk.Awaited(look) {
		t.Error("nobody looks after the one that waits")
	}
	b.finish()
	b.want(1, 1)
	b.finish()
	b.want(0, 1)
	b.finish()
	clk.Advance(compactionInterval)
	for b.c.mu.Lock(); b.c.armed; b.c.mu.Lock() {
		b.c.mu.Unlock()
		runtime.Gosched()
	}
	b.c.mu.Unlock()
	if clk.Awaited(look.Add(compactionInterval)) {
		t.Error("the timer goes on, and nothing waits")
	}
	b.add(2)
	b.want(1, 1)
	b.c.Unregister()
	b.closed = true
	clk.Advance(compactionInterval)
	b.finish()
	b.want(1, 0)
	if ok, _ := b.c.TrySchedule(); ok {
		t.Error("a closed database may begin one")
	}
}

// TestCompactionRefusedMeanwhile: the database has said that nothing waits, and before that is taken in, it is refused one.
func TestCompactionRefusedMeanwhile(t *testing.T) {
	b := startBacklog(t, clock.NewManual(testStart), 1)
	b.add(2)
	b.todo = 0 // what waited is not needed any more
	b.asked = func() {
		b.asked = nil
		b.add(2)
	}
	b.finish()
	b.want(1, 1)
	b.finish()
	b.want(0, 1)
}

// TestMoreCompactionsAllowed: that more are allowed than before is noticed while one runs.
func TestMoreCompactionsAllowed(t *testing.T) {
	clk := clock.NewManual(testStart)
	b := startBacklog(t, clk, 1)
	b.add(3)
	b.want(2, 1)
	clk.Advance(compactionInterval)
	for !clk.Awaited(testStart.Add(2 * compactionInterval)) {
		runtime.Gosched()
	}
	b.want(2, 1)
	b.c.mu.Lock() // who asks holds it
	b.allowed = 2
	b.c.mu.Unlock()
	clk.Advance(compactionInterval)
	for _, begun := b.state(); begun < 2; _, begun = b.state() {
		runtime.Gosched()
	}
	b.want(1, 2)
}

// TestCompactionsAllRun has many ask and end at once, in random order: none is forgotten.
func TestCompactionsAllRun(t *testing.T) {
	clk := clock.NewManual(testStart)
	b := startBacklog(t, clk, 2)
	const askers, each = 4, 200
	var all sync.WaitGroup
	for n := range uint64(askers) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(5, n))
			for range each {
				b.add(1 + random.IntN(2))
				for range random.IntN(4) {
					b.finish()
				}
			}
		})
	}
	all.Wait()
	for todo, begun := b.state(); todo+begun > 0; todo, begun = b.state() {
		if begun == 0 { // but for who is refused just when the last one ends
			clk.Advance(time.Millisecond)
			runtime.Gosched()
		}
		b.finish()
	}
	b.c.Unregister()
}
