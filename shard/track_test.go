package shard

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// diary is a tracker that writes down what it is told, and does what is due at an agenda one member at a time, or nothing at one that is stubborn.
type diary struct {
	noTracker
	mu      sync.Mutex
	entries []string
	told    chan struct{} // capacity 1
}

const testAuditMs = 5000

func (d *diary) Track(key []byte) *Tracking {
	kind, _, _ := strings.Cut(string(key), ":")
	switch kind {
	case "agenda":
		return &Tracking{Agenda: true, Group: "group:a"}
	case "prompt":
		return &Tracking{Agenda: true, Prompt: true, Group: "group:p"}
	case "lease":
		return &Tracking{Lease: true}
	case "audit":
		return &Tracking{AuditMs: testAuditMs, Group: "group:a"}
	}
	return nil
}

func (d *diary) note(db DB, what string, key []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if db.n != 0 {
		what = fmt.Sprint(what, " in ", db.n)
	}
	d.entries = append(d.entries, fmt.Sprintf("%s %s %d", what, key, db.Now()-testStart.UnixMilli()))
	select {
	case d.told <- struct{}{}:
	default:
	}
}

func (d *diary) Lapsed(db DB, key []byte) error {
	d.note(db, "lapsed", key)
	return nil
}

func (d *diary) Due(db DB, ordinal int, key []byte, _ int) (againMs int64, err error) {
	d.note(db, "due", key)
	if strings.HasPrefix(string(key), "audit") {
		return 0, nil
	}
	agenda, err := db.Fragment(ordinal, key)
	if err != nil {
		return 0, err
	}
	var due []string
	until := ScoreRange{Min: math.Inf(-1), Max: float64(db.Now()) / 1000}
	err = agenda.RangeByScore(until, false, func(member []byte, _ float64) bool {
		due = append(due, string(member))
		return len(due) < 2
	})
	if err != nil || len(due) == 0 {
		return 0, err
	}
	if _, err := agenda.Remove([]byte(due[0])); err != nil || len(due) < 2 {
		return 0, err
	}
	return db.Now(), nil
}

// trackTest is a store of one shard whose tracker is a diary.
type trackTest struct {
	t    *testing.T
	fs   *vfs.MemFS
	clk  *clock.Manual
	told *diary
	st   *Store
}

func startTracking(t *testing.T) *trackTest {
	tt := &trackTest{t: t, fs: vfs.NewMem(), clk: clock.NewManual(testStart)}
	tt.open()
	t.Cleanup(func() { closeTest(t, tt.st) })
	return tt
}

func (tt *trackTest) open() {
	tt.t.Helper()
	tt.told = &diary{told: make(chan struct{}, 1)}
	opts := testOptions(tt.fs, 1, tt.clk)
	opts.Tracker, opts.CacheBytes = tt.told, 1<<20
	tt.st = openTest(tt.t, opts)
}

func (tt *trackTest) do(fn func(tx *Tx, db DB) error) {
	tt.t.Helper()
	tx := tt.st.NewTx()
	tx.Begin(tt.st.All())
	defer tx.End()
	err := fn(tx, tx.DB(0))
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		tt.t.Fatal(err)
	}
}

// at puts a member on an agenda, by ms after the start.
func (tt *trackTest) at(key, member string, ms int64) {
	tt.t.Helper()
	tt.do(func(_ *Tx, db DB) error {
		z, err := db.ZSet([]byte(key))
		if err == nil {
			_, err = z.Set([]byte(member), float64(testStart.UnixMilli()+ms)/1000)
		}
		return err
	})
}

// set puts a string at the key, which ends ms after the start.
func (tt *trackTest) set(key string, ms int64) {
	tt.t.Helper()
	tt.do(func(_ *Tx, db DB) error { return db.Set([]byte(key), []byte("x"), testStart.UnixMilli()+ms) })
}

// want attends once, as the timekeeper does, who may have been there before, and compares what was told since the last time.
func (tt *trackTest) want(entries ...string) (again time.Time) {
	tt.t.Helper()
	tx := tt.st.NewTx()
	again, err := tt.st.shards[0].attend(tx)
	if err != nil {
		tt.t.Fatal(err)
	}
	tt.told.mu.Lock()
	defer tt.told.mu.Unlock()
	if !slices.Equal(tt.told.entries, entries) {
		tt.t.Errorf("told: %q, want %q", tt.told.entries, entries)
	}
	tt.told.entries = nil
	return again
}

func TestDueMs(t *testing.T) {
	for score, want := range map[float64]int64{
		-1: 0, 0: 0, math.Copysign(0, -1): 0, math.Inf(-1): 0, math.NaN(): 0, 1: 1000, 0.0005: 1, 0.0004: 0, 1767323046.25: 1767323046250,
		math.Inf(1): 1 << 53, 1 << 53: 1 << 53, (1 << 53) / 1000: 1 << 53, (1<<53)/1000 - 1: ((1<<53)/1000 - 1) * 1000,
	} {
		if got := DueMs(score); got != want {
			t.Errorf("DueMs(%v) is %d, want %d", score, got, want)
		}
	}
}

// TestAgendas: each is attended when its first member is due, not before, and no more when it is gone.
func TestAgendas(t *testing.T) {
	tt := startTracking(t)
	tt.at("agenda:1", "a", 3000)
	tt.at("agenda:2", "a", 1000)
	tt.at("agenda:3", "a", 2000)
	tt.at("agenda:1", "b", 1500)
	tt.at("agenda:4", "a", 1000)
	tt.do(func(_ *Tx, db DB) error { _, err := db.Delete([]byte("agenda:4")); return err })
	if again := tt.want(); !again.Equal(testStart.Add(time.Second)) {
		t.Errorf("the next is due at %v", again)
	}
	tt.clk.Advance(999 * time.Millisecond)
	tt.want()
	tt.clk.Advance(time.Millisecond)
	tt.want("due agenda:2 1000")
	tt.clk.Advance(time.Second)
	tt.want("due agenda:1 2000", "due agenda:3 2000")
	tt.clk.Advance(time.Second)
	if again := tt.want("due agenda:1 3000"); !again.Equal(testStart.Add(3*time.Second + time.Hour)) {
		t.Errorf("nothing is due, and the next look is at %v", again)
	}
}

// TestAgendasGoOn: what one call leaves is done by the next, and others get their turn before that.
func TestAgendasGoOn(t *testing.T) {
	tt := startTracking(t)
	for _, member := range []string{"a", "b", "c"} {
		tt.at("agenda:1", member, 1000)
	}
	s := tt.st.shards[0]
	tx := tt.st.NewTx()
	tx.Begin(tt.st.All()) // so that the timekeeper waits
	tt.clk.Advance(time.Second)
	tx.End()
	tx.Begin(tt.st.All())
	calls := func() int { tt.told.mu.Lock(); defer tt.told.mu.Unlock(); return len(tt.told.entries) }
	for before := calls(); before < 3; before = calls() {
		if err := s.attendAgendas(tx); err != nil {
			t.Fatal(err)
		}
		if got := calls() - before; got != 1 {
			t.Errorf("one round made %d calls", got)
		}
	}
	tx.End()
	tt.want("due agenda:1 1000", "due agenda:1 1000", "due agenda:1 1000")
	tt.do(func(_ *Tx, db DB) error {
		if there, err := db.Exists([]byte("agenda:1")); there || err != nil {
			t.Errorf("the agenda is there: %v, %v", there, err)
		}
		return nil
	})
}

// TestPromptAgendas: who looks finds done what is due, unless it is the tracker that looks.
func TestPromptAgendas(t *testing.T) {
	tt := startTracking(t)
	tt.at("prompt:1", "a", 1000)
	look := func(muted bool) (n int64) {
		tx := tt.st.NewTx()
		tx.Begin(tt.st.All())
		defer tx.End() // as if it had not been
		tx.Mute(muted)
		tx.began = testStart.Add(time.Second)
		tx.nowMs = tx.began.UnixMilli()
		z, err := tx.DB(0).ZSet([]byte("prompt:1"))
		if err != nil {
			t.Fatal(err)
		}
		if n, err = z.Len(); err != nil {
			t.Fatal(err)
		}
		if tx.muted != muted {
			t.Errorf("the transaction is muted %t by the look", tx.muted)
		}
		return n
	}
	if n := look(true); n != 1 {
		t.Errorf("the tracker finds %d", n)
	}
	tt.want()
	if n := look(false); n != 0 {
		t.Errorf("%d are found after their time", n)
	}
	tt.do(func(_ *Tx, db DB) error { _, err := db.ZSet([]byte("prompt:1")); return err })
	tt.want("due prompt:1 1000")
}

// TestPromptAgendasCatchUp: when more is due than one look does, who looks has to begin again, and then finds all of it done. Whoever can't begin
// again leaves the rest to the timekeeper.
func TestPromptAgendasCatchUp(t *testing.T) {
	tt := startTracking(t)
	for _, member := range []string{"a", "b", "c", "d", "e"} {
		tt.at("prompt:1", member, 1000)
	}
	tt.at("prompt:1", "later", 1001)
	tx := tt.st.NewTx()
	look := func() (n int64, err error) {
		tx.SetTime(testStart.Add(time.Second))
		z, err := tx.DB(0).ZSet([]byte("prompt:1"))
		if err != nil {
			return 0, err
		}
		return z.Len()
	}
	tx.BeginWithin(tt.st.All(), time.Second)
	if n, err := look(); n != 5 || err != nil {
		t.Errorf("a partial look finds %d, %v", n, err)
	}
	tx.End() // as if it had not been
	tx.Begin(tt.st.All())
	if _, err := look(); !errors.Is(err, ErrConflict) || tx.Wanted() != tt.st.All() {
		t.Errorf("a look ends with %v and wants %v", err, tx.Wanted())
	}
	tx.End()
	tx.Begin(tt.st.All())
	if n, err := look(); n != 1 || err != nil {
		t.Errorf("the second look finds %d, %v", n, err)
	}
	tx.End()
}

// TestLeases: the tracker learns of each that ends, once all of its 16 ms have, and not of one that is deleted, renewed or gone with its database.
func TestLeases(t *testing.T) {
	tt := startTracking(t)
	for i, ms := range []int64{500, 501, 5000, 500, 500} {
		tt.set(fmt.Sprint("lease:", i), ms)
	}
	tt.do(func(_ *Tx, db DB) error { _, err := db.Delete([]byte("lease:3")); return err })
	tt.set("lease:4", 9000)
	end := time.UnixMilli((testStart.UnixMilli()+500)/16*16 + 15)
	if again := tt.want(); !again.Equal(end) {
		t.Errorf("the next is due at %v, want %v", again, end)
	}
	tt.clk.Advance(end.Sub(testStart) - time.Millisecond)
	tt.want()
	tt.clk.Advance(time.Millisecond)
	ms := end.Sub(testStart).Milliseconds()
	tt.want(fmt.Sprint("lapsed lease:0 ", ms), fmt.Sprint("lapsed lease:1 ", ms))
	tt.do(func(_ *Tx, db DB) error { return db.Flush() })
	tt.set("lease:5", 9000)
	tt.clk.Advance(10 * time.Second)
	tt.want(fmt.Sprint("lapsed lease:5 ", ms+10_000))
	if n := len(tt.st.shards[0].times.lapses) + len(tt.st.shards[0].times.buckets); n != 0 {
		t.Errorf("%d buckets are left", n)
	}
}

// TestLeaseLookedAt: the tracker learns of a lease when somebody finds it ended, unless it is the tracker itself.
func TestLeaseLookedAt(t *testing.T) {
	tt := startTracking(t)
	tt.set("lease:1", 1000)
	for _, muted := range []bool{true, false} {
		tx := tt.st.NewTx()
		tx.Begin(tt.st.All())
		tx.Mute(muted)
		tx.nowMs = testStart.UnixMilli() + 1000
		if there, err := tx.DB(0).Exists([]byte("lease:1")); there || err != nil || tx.muted != muted {
			t.Errorf("the lease is there: %v, %v; muted %t", there, err, tx.muted)
		}
		tx.End()
		if muted {
			tt.want()
		} else {
			tt.want("lapsed lease:1 1000")
		}
	}
}

// TestManyLeases: one round ends so many, and the next the others.
func TestManyLeases(t *testing.T) {
	tt := startTracking(t)
	for i := range 2*attendLimit + 1 {
		tt.set(fmt.Sprint("lease:", i), 1000)
	}
	tx := tt.st.NewTx()
	s := tt.st.shards[0]
	tx.Begin(tt.st.All())
	tt.clk.Advance(2 * time.Second) // the timekeeper waits for the lock
	tx.begin()
	for _, want := range []int{attendLimit, attendLimit, 1, 0} {
		before := len(tt.told.entries)
		if err := s.attendLapses(tx); err != nil {
			t.Fatal(err)
		}
		if got := len(tt.told.entries) - before; got != want {
			t.Errorf("%d leases were ended, want %d", got, want)
		}
	}
	tx.End()
}

// TestAudits: a key is audited some time after others than the tracker have changed it, and not again for the tracker's changes.
func TestAudits(t *testing.T) {
	tt := startTracking(t)
	change := func(muted bool) {
		tt.do(func(tx *Tx, db DB) error {
			tx.Mute(muted)
			set, err := db.SetOf([]byte("audit:1"))
			if err == nil {
				_, err = set.Add(fmt.Append(nil, tt.clk.NowMs(), muted))
			}
			return err
		})
	}
	change(true)
	tt.clk.Advance(testAuditMs * time.Millisecond)
	tt.want()
	change(false)
	tt.clk.Advance((testAuditMs - 1) * time.Millisecond)
	change(false) // which does not put it off
	tt.want()
	tt.clk.Advance(time.Millisecond)
	tt.want("due audit:1 10000")
	change(true)
	tt.clk.Advance(testAuditMs * time.Millisecond)
	tt.want()
}

// TestTimesOutliveTheStore: a start finds agendas, audits, leases and groups, also in a store that has no registry yet.
func TestTimesOutliveTheStore(t *testing.T) {
	tt := startTracking(t)
	tt.at("agenda:1", "a", 1000)
	tt.at("agenda:2", "a", 60_000)
	tt.set("lease:1", 1000)
	tt.set("lease:2", 60_000)
	tt.set("audit:1", 1_000_000)
	tt.set("other:1", 1_000_000)
	for _, unregistered := range []bool{false, true} {
		if unregistered {
			s := tt.st.shards[0]
			tt.do(func(*Tx, DB) error {
				s.deleteRange([]byte{rowRegistry}, []byte{rowRegistry + 1})
				s.deleteRange([]byte{rowLapse}, []byte{rowLapse + 1})
				return nil
			})
		}
		closeTest(t, tt.st)
		tt.open()
		tt.do(func(_ *Tx, db DB) error {
			var groups []string
			err := db.Groups(0, func(group string) { groups = append(groups, group) })
			if !slices.Equal(groups, []string{"group:a"}) {
				t.Errorf("groups are %q", groups)
			}
			for other := 1; other < 4; other++ {
				err = db.tx.DB(other).Groups(0, func(group string) { t.Errorf("database %d has %s", other, group) })
			}
			return err
		})
		first := tt.clk.NowMs() - testStart.UnixMilli()
		tt.clk.Advance(0)
		tt.wantSorted(fmt.Sprint("due agenda:1 ", first), fmt.Sprint("due agenda:2 ", first))
		tt.clk.Advance(testAuditMs*time.Millisecond - time.Millisecond)
		if first == 0 {
			tt.wantSorted("due agenda:1 4999", "lapsed lease:1 4999")
			tt.at("agenda:1", "a", 1000)
			tt.want("due agenda:1 4999")
			tt.at("agenda:1", "a", 30_000)
		} else {
			tt.wantSorted()
		}
		tt.clk.Advance(time.Millisecond)
		tt.wantSorted(fmt.Sprint("due audit:1 ", first+testAuditMs))
	}
	tt.clk.Advance(time.Minute)
	now := tt.clk.NowMs() - testStart.UnixMilli()
	tt.wantSorted(fmt.Sprint("due agenda:1 ", now), fmt.Sprint("due agenda:2 ", now), fmt.Sprint("lapsed lease:2 ", now))
}

// wantSorted is want for what is due in any order.
func (tt *trackTest) wantSorted(entries ...string) {
	tt.t.Helper()
	tx := tt.st.NewTx()
	if _, err := tt.st.shards[0].attend(tx); err != nil {
		tt.t.Fatal(err)
	}
	tt.told.mu.Lock()
	slices.Sort(tt.told.entries)
	tt.told.mu.Unlock()
	tt.want(entries...)
}

// TestFlushedAgendas: nothing is due any more in a database that was emptied, nor are there groups.
func TestFlushedAgendas(t *testing.T) {
	tt := startTracking(t)
	tt.at("agenda:1", "a", 1000)
	tt.do(func(_ *Tx, db DB) error { return db.Flush() })
	tt.clk.Advance(time.Second)
	tt.want()
	if left := tt.st.shards[0].times.registry; len(left) != 0 {
		t.Errorf("the registry has %v", left)
	}
	tt.at("agenda:1", "b", 2000)
	tt.clk.Advance(time.Second)
	tt.want("due agenda:1 2000")
}

// wantAgendas counts the keys that something is to be done about.
func (tt *trackTest) wantAgendas(n int) {
	tt.t.Helper()
	tt.do(func(*Tx, DB) error {
		if times := &tt.st.shards[0].times; len(times.agendas) != n || len(times.first) != n {
			tt.t.Errorf("something is to be done about %v, want %d keys", times.agendas, n)
		}
		return nil
	})
}

// TestFlushedElsewhere: however often some other database is emptied, what is due is done at its time, and the timekeeper comes back to what it has
// put off when it meant to.
func TestFlushedElsewhere(t *testing.T) {
	tt := startTracking(t)
	flush := func() {
		t.Helper()
		tt.do(func(tx *Tx, _ DB) error {
			if err := tx.DB(1).Set([]byte("other"), []byte("x"), 0); err != nil {
				return err
			}
			return tx.DB(1).Flush()
		})
	}
	tt.set("audit:1", 1_000_000)
	tt.at("agenda:1", "a", 6000)
	tt.at("agenda:2", "a", 7000)
	s := tt.st.shards[0]
	tx := tt.st.NewTx()
	tx.Begin(tt.st.All())
	for _, a := range s.times.agendas {
		if a.key == "agenda:2" {
			tx.nowMs += 7000
			s.putOff(tx, a)
		}
	}
	tx.End()
	for range 4 {
		tt.clk.Advance(testAuditMs / 4 * time.Millisecond)
		if tt.clk.NowMs() < testStart.UnixMilli()+testAuditMs {
			tt.want()
		}
		flush()
	}
	tt.want("due audit:1 5000")
	tt.clk.Advance(time.Second)
	flush()
	tt.want("due agenda:1 6000")
	tt.clk.Advance(time.Second)
	flush()
	tt.want()
	tt.clk.Advance(time.Second)
	tt.want("due agenda:2 8000")
	tt.wantAgendas(0)
}

// TestSwappedAgendas: what is due in a database that has changed places with another is done in that one, at its time.
func TestSwappedAgendas(t *testing.T) {
	tt := startTracking(t)
	tt.at("agenda:1", "a", 3000)
	tt.set("audit:1", 1_000_000)
	tt.clk.Advance(time.Second)
	tt.do(func(tx *Tx, _ DB) error {
		tx.Mute(true) // an audit has to come by the swap alone
		return tx.DB(1).Set([]byte("audit:1"), []byte("x"), 0)
	})
	tt.do(func(tx *Tx, _ DB) error { return tx.SwapDB(0, 1) })
	tt.at("agenda:1", "b", 4000) // in the other database now
	tt.do(func(tx *Tx, _ DB) error {
		z, err := tx.DB(1).ZSet([]byte("agenda:1"))
		if err != nil {
			return err
		}
		n, err := z.Len()
		if n != 1 {
			t.Errorf("the agenda has %d members", n)
		}
		return err
	})
	tt.clk.Advance(2 * time.Second)
	tt.want("due in 1 agenda:1 3000")
	tt.clk.Advance(time.Second)
	tt.want("due agenda:1 4000")
	tt.clk.Advance(time.Second)
	tt.want("due in 1 audit:1 5000")
	tt.clk.Advance(testAuditMs * time.Millisecond)
	tt.want()
}

// TestSwapUndone: what a transaction has put on the agenda of a database that it would have swapped or emptied does no harm when it is undone.
func TestSwapUndone(t *testing.T) {
	tt := startTracking(t)
	tt.set("audit:1", 1_000_000)
	s := tt.st.shards[0]
	for _, change := range []func(tx *Tx) error{
		func(tx *Tx) error { return tx.SwapDB(0, 1) },
		func(tx *Tx) error { return tx.DB(0).Flush() },
	} {
		tx := tt.st.NewTx()
		tx.Begin(tt.st.All())
		if err := change(tx); err != nil {
			t.Fatal(err)
		}
		for db := range 2 {
			o, err := s.lookup(tx.nowMs, db, []byte("audit:2"))
			if err != nil {
				t.Fatal(err)
			}
			s.schedule(s.agendaKey(o), tx.nowMs+1000) // as PopSlot does
		}
		tx.End()
	}
	tt.clk.Advance(time.Second)
	tt.wantSorted("due audit:2 1000", "due in 1 audit:2 1000")
	tt.wantAgendas(1)
	tt.clk.Advance(4 * time.Second)
	tt.want("due audit:1 5000")
}

// TestRegistryRows: a group is registered once, however many of its keys a transaction begins.
func TestRegistryRows(t *testing.T) {
	tt := startTracking(t)
	begin := func(kind string) int64 {
		before := stats(tt.st).RowsWritten
		tt.do(func(_ *Tx, db DB) error {
			for i := range 3 {
				if err := db.Set(fmt.Append(nil, kind, ":", i), []byte("x"), 0); err != nil {
					return err
				}
			}
			return nil
		})
		return stats(tt.st).RowsWritten - before
	}
	plain := begin("other")
	if got, want := begin("audit"), plain+3+1; got != want {
		t.Errorf("three keys of a group are begun with %d rows, want %d", got, want)
	}
	tt.do(func(_ *Tx, db DB) error {
		s, o, err := db.at(0, []byte("audit:1"))
		if n := testing.AllocsPerRun(10, func() { s.list(o) }); n != 0 {
			t.Errorf("to find that a key is registered takes %v allocations", n)
		}
		return err
	})
}

// TestGroupsWithinATransaction: a transaction finds the groups that it has begun, each once, and what is undone leaves none.
func TestGroupsWithinATransaction(t *testing.T) {
	tt := startTracking(t)
	tx := tt.st.NewTx()
	tx.Begin(tt.st.All())
	defer tx.End()
	want := func(db int, groups ...string) {
		t.Helper()
		var got []string
		if err := tx.DB(db).Groups(0, func(group string) { got = append(got, group) }); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(got); !slices.Equal(got, groups) {
			t.Errorf("database %d has the groups %q, want %q", db, got, groups)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want(0)
	for range 2 {
		do(tx.DB(0).Set([]byte("audit:1"), []byte("x"), 0))
		want(0, "group:a")
		do(tx.DB(0).Set([]byte("audit:2"), []byte("x"), 0))
		do(tx.DB(0).Set([]byte("prompt:1"), []byte("x"), 0))
		want(0, "group:a", "group:p")
		want(1)
		do(tx.SwapDB(0, 1))
		want(0)
		want(1, "group:a", "group:p")
		do(tx.DB(1).Flush())
		want(1)
		do(tx.DB(1).Set([]byte("audit:1"), []byte("x"), 0))
		want(1, "group:a")
		tx.Abort()
		want(0)
		want(1)
	}
	do(tx.DB(0).Set([]byte("audit:1"), []byte("x"), 0))
	want(0, "group:a")
	do(tx.Commit())
	do(tx.DB(0).Set([]byte("audit:2"), []byte("x"), 0))
	want(0, "group:a")
	tx.Abort()
	want(0, "group:a")
	do(tx.DB(0).Flush())
	want(0)
	do(tx.Commit())
	want(0)
}

// TestTimekeeperWakes: what is due before the timekeeper means to wake has it wake earlier. It means to wake every second as long as
// something is to come, lest it sleep on when the clock is set forward.
func TestTimekeeperWakes(t *testing.T) {
	tt := startTracking(t)
	asleep := func(ms int64) { // until the timekeeper means to wake then
		for !tt.clk.Awaited(time.UnixMilli(testStart.UnixMilli() + ms)) {
			runtime.Gosched()
		}
	}
	tt.at("agenda:1", "a", 60_000)
	asleep(1000)
	tt.at("agenda:2", "a", 500)
	asleep(500)
	tt.clk.Advance(500 * time.Millisecond)
	<-tt.told.told
	tt.want("due agenda:2 500")
	asleep(1500)
	tt.clk.Advance(2500 * time.Millisecond)
	asleep(4000)
	tt.set("lease:1", 4000)
	tt.clk.Advance(1015 * time.Millisecond)
	<-tt.told.told
	tt.want("lapsed lease:1 4015")
}
