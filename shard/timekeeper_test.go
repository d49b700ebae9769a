package shard

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// errands is a tracker for which each member of an agenda and each lease is an errand: a list of its name is pushed to, which may be on another
// shard.
type errands struct {
	noTracker
	calls atomic.Int64
}

func (*errands) Track(key []byte) *Tracking {
	switch key[0] {
	case 'a', 'p':
		return &Tracking{Agenda: true, Prompt: key[0] == 'p'}
	case 'L':
		return &Tracking{Lease: true}
	}
	return nil
}

func (e *errands) Lapsed(db DB, key []byte) error {
	e.calls.Add(1)
	return runErrand(db, key[1:])
}

func runErrand(db DB, name []byte) error {
	list, err := db.List(name)
	if err == nil {
		err = list.Push(Tail, []byte("done"))
	}
	return err
}

// Due passes over those whose shard is known to hang, at some agendas.
func (e *errands) Due(db DB, ordinal int, key []byte, _ int) (againMs int64, err error) {
	e.calls.Add(1)
	agenda, err := db.Fragment(ordinal, key)
	if err != nil {
		return 0, err
	}
	var due []string
	until := ScoreRange{Min: math.Inf(-1), Max: float64(db.Now()) / 1000}
	err = agenda.RangeByScore(until, false, func(member []byte, _ float64) bool {
		if key[1] != 'n' || !db.Hangs(db.tx.store.placer.Home(member)) {
			due = append(due, string(member))
		}
		return true
	})
	for _, name := range due {
		if err == nil {
			err = runErrand(db, []byte(name))
		}
		if err == nil {
			_, err = agenda.Remove([]byte(name))
		}
	}
	return 0, err
}

// errandTest is a store of four shards with errands.
type errandTest struct {
	t       *testing.T
	clk     *clock.Manual
	st      *Store
	tracker *errands
}

func startErrands(t *testing.T) *errandTest {
	et := &errandTest{t: t, clk: clock.NewManual(testStart), tracker: &errands{}}
	opts := testOptions(vfs.NewMem(), 4, et.clk)
	opts.Tracker = et.tracker
	et.st = openTest(t, opts)
	t.Cleanup(func() { closeTest(t, et.st) })
	return et
}

// keyOn is a key with the prefix that lives on the shard, the i-th of them.
func (et *errandTest) keyOn(ordinal int, prefix string, i int) string {
	for n := 0; ; n++ {
		key := fmt.Sprint(prefix, n)
		if et.st.placer.Home([]byte(key)) == ordinal {
			if i == 0 {
				return key
			}
			i--
		}
	}
}

// hold takes the lock of a shard.
func (et *errandTest) hold(ordinal int) *Tx {
	tx := et.st.NewTx()
	tx.Begin(MaskOf(ordinal))
	return tx
}

// on runs fn in a transaction on one shard, in which nothing that is due is done.
func (et *errandTest) on(ordinal int, fn func(db DB) error) {
	et.t.Helper()
	tx := et.hold(ordinal)
	defer tx.End()
	tx.Mute(true)
	err := fn(tx.DB(0))
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		et.t.Fatal(err)
	}
}

// due puts errands on an agenda of the shard, for a second after the start.
func (et *errandTest) due(ordinal int, key string, names ...string) {
	et.t.Helper()
	et.on(ordinal, func(db DB) error {
		z, err := db.ZSet([]byte(key))
		for _, name := range names {
			if err == nil {
				_, err = z.Set([]byte(name), float64(testStart.Unix()+1))
			}
		}
		return err
	})
}

// lease begins a lease on the shard that ends a second after the start, and returns the name of its errand, which is on another.
func (et *errandTest) lease(ordinal, other, i int) (name string) {
	et.t.Helper()
	for n := 0; ; n++ {
		name = fmt.Sprint("lease", n)
		if et.st.placer.Home([]byte("L"+name)) == ordinal && et.st.placer.Home([]byte(name)) == other {
			if i--; i < 0 {
				break
			}
		}
	}
	et.on(ordinal, func(db DB) error { return db.Set([]byte("L"+name), []byte("x"), testStart.UnixMilli()+1000) })
	return name
}

// awaited returns when somebody waits for so many ms after the start.
func (et *errandTest) awaited(ms int64) {
	for !et.clk.Awaited(time.UnixMilli(testStart.UnixMilli() + ms)) {
		runtime.Gosched()
	}
}

// done tells how often the errand was run.
func (et *errandTest) done(name string) (n int64) {
	et.t.Helper()
	et.on(et.st.placer.Home([]byte(name)), func(db DB) error {
		list, err := db.List([]byte(name))
		if err == nil {
			n, err = list.Len()
		}
		return err
	})
	return n
}

// expect lets time pass until the errands were run, and checks that none was run twice. A shard that is only busy may seem to hang,
// since the clock does not wait for it.
func (et *errandTest) expect(names ...string) {
	et.t.Helper()
	for _, name := range names {
		for et.done(name) == 0 {
			et.clk.Advance(time.Millisecond)
			runtime.Gosched()
		}
	}
	for _, name := range names {
		if n := et.done(name); n != 1 {
			et.t.Errorf("%s was run %d times", name, n)
		}
	}
}

// TestTimekeeperAtAHungShard: what needs a shard that hangs waits for it, but neither the shard of the timekeeper nor anything else that
// is due there does. All of it is done when the shard answers again, and nothing twice.
func TestTimekeeperAtAHungShard(t *testing.T) {
	const own = 1
	for _, hung := range []int{0, 2} {
		free := 3 - hung/2*3 // on the other side
		t.Run(fmt.Sprint(hung), func(t *testing.T) {
			et := startErrands(t)
			var stuck, others []string
			stuck = append(stuck, et.keyOn(hung, "e", 0), et.keyOn(hung, "e", 1), et.lease(own, hung, 0), et.lease(own, hung, 1))
			others = append(others, et.keyOn(own, "e", 0), et.keyOn(free, "e", 0), et.lease(own, free, 0), et.lease(own, own, 0))
			et.due(own, et.keyOn(own, "a", 0), stuck[0])
			et.due(own, et.keyOn(own, "an", 0), stuck[1], others[0]) // of which those that can be done are
			et.due(own, et.keyOn(own, "a", 1), others[1])

			tx := et.hold(hung)
			et.clk.Advance(1016 * time.Millisecond) // the leases of these 16 ms
			et.expect(others...)
			calls := et.tracker.calls.Load()
			const seconds = 20
			for range seconds * 10 {
				et.hold(own).End() // nobody holds it for long
				et.clk.Advance(100 * time.Millisecond)
				for range 20 {
					runtime.Gosched() // so that it comes to try
				}
			}
			// In each second the two agendas and the leases, together and by themselves, before the shard is known to hang and then.
			if n := et.tracker.calls.Load() - calls; n > (seconds+1)*2*(2+1+2) {
				t.Errorf("in %d s it was tried %d times", seconds, n)
			}
			tx.End()
			for _, name := range stuck {
				if n := et.done(name); n > 1 {
					t.Errorf("%s was run %d times", name, n)
				}
			}
			et.expect(slices.Concat(stuck, others)...)
			et.on(own, func(DB) error {
				if n := len(et.st.shards[own].times.lapses); n != 0 {
					t.Errorf("%d buckets of leases are left", n)
				}
				return nil
			})
		})
	}
}

// TestTimekeeperOfABusyShard: the timekeeper's own shard is taken when it comes back to it.
func TestTimekeeperOfABusyShard(t *testing.T) {
	const own, other = 2, 1
	et := startErrands(t)
	name := et.keyOn(other, "e", 0)
	et.due(own, et.keyOn(own, "a", 0), name)
	hanging := et.hold(other)
	et.clk.Advance(time.Second)
	et.awaited(1050)
	working := et.hold(own)
	et.clk.Advance(keeperPatience)
	et.awaited(1100)
	et.clk.Advance(keeperPatience)
	for range 100 {
		runtime.Gosched() // so that it gives up, which nothing tells
	}
	working.End()
	et.awaited(2100) // the other one is not waited for again
	hanging.End()
	et.clk.Advance(keeperPause)
	et.expect(name)
}

// TestPutOffIsPrompt: what the timekeeper has put off is done when somebody looks who has the shard that was missing.
func TestPutOffIsPrompt(t *testing.T) {
	const own, hung = 1, 2
	et := startErrands(t)
	name, agenda := et.keyOn(hung, "e", 0), et.keyOn(own, "p", 0)
	et.due(own, agenda, name)
	tx := et.hold(hung)
	et.clk.Advance(time.Second)
	et.awaited(1050)
	et.clk.Advance(keeperPatience)
	et.awaited(2050)
	tx.End()
	tx.Begin(MaskOf(own, hung))
	z, err := tx.DB(0).ZSet([]byte(agenda))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := z.Len(); n != 0 || err != nil {
		t.Errorf("%d are due still, %v", n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx.End()
	et.expect(name)
}
