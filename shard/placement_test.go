package shard

import (
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
