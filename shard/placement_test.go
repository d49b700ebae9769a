package shard

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// pinnedPlacer puts whole databases on a shard.
type pinnedPlacer struct {
	testPlacer
	pins map[int]int // by database
}

func (p pinnedPlacer) Place(db int, key []byte) (Placement, error) {
	if ordinal, ok := p.pins[db]; ok {
		return Placement{Shard: ordinal}, nil
	}
	return p.testPlacer.Place(db, key)
}

// TestPinsAreRemembered: a store whose keys would be looked for elsewhere is not opened, and is as it was with the former placement.
func TestPinsAreRemembered(t *testing.T) {
	fs, started := vfs.NewMem(), testStart
	open := func(placement string, pins map[int]int) (*Store, error) {
		started = started.Add(time.Hour)
		opts := testOptions(fs, 3, clock.NewManual(started))
		opts.Placer, opts.Placement = pinnedPlacer{testPlacer{3}, pins}, placement
		return Open(opts)
	}
	fill := func(st *Store, db int) {
		tx := st.NewTx()
		tx.Begin(st.All())
		defer tx.End()
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if err := tx.DB(db).Set([]byte(key), []byte(key), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.DB(2).Set([]byte("gone"), nil, tx.DB(2).Now()+1); err != nil {
			t.Fatal(err)
		}
		for i := range faultElements {
			h, err := tx.DB(db).Hash([]byte("part:h"))
			if err == nil {
				_, err = h.Set(faultField(i), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	const three = "x, " + PinWord + " 3=2"
	for _, step := range []struct {
		placement string
		pins      map[int]int
		refused   string
	}{
		{"x", nil, ""},
		{"x, " + PinWord + " 1=2", map[int]int{1: 2}, "on shard"},
		{three, map[int]int{3: 2}, ""}, // there is nothing in it yet
		{"x", nil, "has the key"},
		{"x, " + PinWord + " 2=1, " + PinWord + " 3=2", map[int]int{2: 1, 3: 2}, ""}, // what 2 had has expired
		{three, map[int]int{3: 2}, ""},
		{"x, " + PinWord + " 3=1", map[int]int{3: 1}, `(database 3) on shard "default-2", where the configured placement, x, database-shards 3=1, would not find them: go back to x, database-shards 3=2`},
		{three, map[int]int{3: 2}, ""},
	} {
		st, err := open(step.placement, step.pins)
		switch {
		case step.refused == "" && err != nil, step.refused != "" && (err == nil || !strings.Contains(err.Error(), step.refused)):
			t.Fatalf("%+v: %v", step, err)
		case err == nil:
			fill(st, 1)
			if step.placement == three {
				fill(st, 3)
			}
			closeTest(t, st)
		}
	}
}

// grownPlacer has keys and elements that belong on the third shard as soon as there is one, and on the first until then.
type grownPlacer struct {
	testPlacer
	shards int
}

const grownKey, grownElement = "late", "element of the third"

func (p grownPlacer) Place(db int, key []byte) (Placement, error) {
	if string(key) == grownKey {
		return Placement{Shard: p.late()}, nil
	}
	return p.testPlacer.Place(db, key)
}

func (p grownPlacer) Home(element []byte) int {
	if string(element) == grownElement {
		return p.late()
	}
	return p.testPlacer.Home(element)
}

func (p grownPlacer) late() int {
	if p.shards > 2 {
		return 2
	}
	return 0
}

// grownOptions are those of a store with so many shards, of which two are the default group.
func grownOptions(fs vfs.FS, shards int) Options {
	o := testOptions(fs, shards, clock.NewManual(testStart))
	o.DefaultShards, o.Placer, o.Placement = 2, grownPlacer{testPlacer{2}, shards}, "x"
	return o
}

// refuse wants that the store is not opened, for the reason.
func refuse(t *testing.T, opts Options, reason string) {
	t.Helper()
	st, err := Open(opts)
	if err == nil {
		closeTest(t, st)
		t.Fatal("it is opened")
	}
	if !strings.Contains(err.Error(), reason) {
		t.Fatalf("it is refused with %v, want %s", err, reason)
	}
}

// changeTest opens a store, changes its database 1, if there is a function for that, and closes it.
func changeTest(t *testing.T, opts Options, fn func(db DB) error) {
	t.Helper()
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	if fn == nil {
		return
	}
	if err := errors.Join(fn(tx.DB(1)), tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

// TestMoreShardsAreChecked: a store is not opened with a further shard that would have what is on others, and as long as it has not been, it is
// opened without it, after a crash at any step of the start that failed. Once nothing is in the way it is opened with the further shard.
func TestMoreShardsAreChecked(t *testing.T) {
	hash := func(key string, fields ...string) func(db DB) error {
		return func(db DB) error {
			h, err := db.Hash([]byte(key))
			for _, field := range fields {
				if err == nil {
					_, err = h.Set([]byte(field), nil)
				}
			}
			return err
		}
	}
	for _, test := range []struct {
		name, refused string
		write         func(db DB) error
		key           string
	}{
		{"a key", `has the key "late" (database 1) on shard "default-0", where the configured placement, x, with default-2 added to named-shards, would not find them: go back to x, without default-2 in named-shards`,
			func(db DB) error { return db.Set([]byte(grownKey), nil, 0) }, grownKey},
		{"an element", `has the key "part:h" with the element "element of the third" (database 1) on shard "default-0"`, hash("part:h", "a", grownElement, "b"), "part:h"},
	} {
		t.Run(test.name, func(t *testing.T) {
			remove := func(db DB) error {
				if existed, err := db.Delete([]byte(test.key)); err != nil || !existed {
					return errors.Join(err, errors.New("the key is not there"))
				}
				return nil
			}
			fs := vfs.NewCrashableMem()
			changeTest(t, grownOptions(fs, 2), hash("h", "a", "b"))
			changeTest(t, grownOptions(fs, 2), test.write)
			images := crashImages(fs, func(fs vfs.FS) { refuse(t, grownOptions(fs, 3), test.refused) })
			for _, image := range append(images, fs) {
				changeTest(t, grownOptions(image, 2), nil)
				refuse(t, grownOptions(image, 3), test.refused)
				changeTest(t, grownOptions(image, 2), remove)
				changeTest(t, grownOptions(image, 3), test.write) // now it is where it belongs
				changeTest(t, grownOptions(image, 3), nil)
				refuse(t, grownOptions(image, 2), "which the configuration lacks")
			}
			t.Logf("%d crashes", len(images))
		})
	}
}

// killed returns what a kill leaves of a store whose database 1 fn has changed.
func killed(t *testing.T, opts Options, fs *vfs.MemFS, fn func(db DB) error) *vfs.MemFS {
	t.Helper()
	st := openTest(t, opts)
	defer closeTest(t, st)
	tx := st.NewTx()
	tx.Begin(st.All())
	if err := errors.Join(fn(tx.DB(1)), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if err := st.Wait(tx.End()); err != nil {
		t.Fatal(err)
	}
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
}

// TestWhatIsReplayedIsChecked: keys of which the log alone has been told are looked at like all others.
func TestWhatIsReplayedIsChecked(t *testing.T) {
	fs := vfs.NewCrashableMem()
	image := killed(t, grownOptions(fs, 2), fs, func(db DB) error { return db.Set([]byte(grownKey), nil, 0) })
	refuse(t, grownOptions(image, 3), "has the key")
}

// TestWhatIsReplayedIsRegistered: so they are when a store that has no registry gets one.
func TestWhatIsReplayedIsRegistered(t *testing.T) {
	fs := vfs.NewCrashableMem()
	image := killed(t, grownOptions(fs, 2), fs, func(db DB) error { // nothing is tracked, so nothing is registered
		z, err := db.ZSet([]byte("agenda:1"))
		if err == nil {
			_, err = z.Set([]byte("a"), 1)
		}
		return err
	})
	opts := grownOptions(image, 2)
	opts.Tracker = &diary{told: make(chan struct{}, 1)}
	st := openTest(t, opts)
	defer closeTest(t, st)
	registered := 0
	for _, s := range st.shards {
		s.mu.Lock()
		registered += len(s.times.registry)
		s.mu.Unlock()
	}
	if registered == 0 {
		t.Error("the agenda is not registered")
	}
}
