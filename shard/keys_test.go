package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/internal/clock"
)

// keysModel is the keys that each database of a store has.
type keysModel []map[string]bool

func (m keysModel) clone() keysModel {
	all := make(keysModel, len(m))
	for db, keys := range m {
		all[db] = make(map[string]bool, len(keys))
		for key := range keys {
			all[db][key] = true
		}
	}
	return all
}

// TestKeyNames makes and removes keys at random, in transactions that are committed or not, while the names of all are read, and looks for
// keys that are there and that are not. What is known of them by name must be true.
func TestKeyNames(t *testing.T) {
	for seed := range seeds(4) {
		fs, rnd := vfs.NewMem(), rand.New(rand.NewPCG(seed, 20))
		st := openKeyNames(t, fs)
		model, known := make(keysModel, 3), 0
		for db := range model {
			model[db] = make(map[string]bool)
		}
		for range rounds(300) {
			if rnd.IntN(100) == 0 {
				closeTest(t, st)
				st = openKeyNames(t, fs)
			}
			tx := st.NewTx()
			tx.Begin(st.All())
			before := model.clone()
			for range 1 + rnd.IntN(20) {
				if err := changeKeys(tx, model, rnd); err != nil {
					t.Fatal(err)
				}
			}
			if rnd.IntN(4) == 0 {
				tx.Abort()
				model = before
			} else if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx.End()
			known += checkKeyNames(t, st, model, rnd)
		}
		closeTest(t, st)
		if known < rounds(300) {
			t.Errorf("seed %d: %d keys only were known to be absent by name", seed, known)
		}
	}
}

func openKeyNames(t *testing.T, fs vfs.FS) *Store {
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	opts.CacheBytes = 64 << 10
	return openTest(t, opts)
}

// changeKeys does one thing to the keys of a database, and to the model.
func changeKeys(tx *Tx, model keysModel, rnd *rand.Rand) error {
	draw := func() string { return fmt.Sprint("key", rnd.IntN(800)) }
	n, key, other := rnd.IntN(len(model)), draw(), draw()
	d, keys := tx.DB(n), model[n]
	switch chance := rnd.IntN(1000); {
	case chance < 2:
		clear(keys)
		return d.Flush()
	case chance < 6:
		m := rnd.IntN(len(model))
		model[n], model[m] = model[m], model[n]
		return tx.SwapDB(n, m)
	case chance < 60:
		ok := keys[key]
		if ok && key != other {
			delete(keys, key)
			keys[other] = true
		}
		if !ok || key == other {
			return nil
		}
		return d.Rename([]byte(key), []byte(other))
	case chance < 350:
		delete(keys, key)
		_, err := d.Delete([]byte(key))
		return err
	case chance < 500:
		h, err := d.Hash([]byte("hash " + key))
		if err == nil {
			keys["hash "+key] = true
			_, err = h.Set([]byte("f"), []byte("v"))
		}
		return err
	}
	keys[key] = true
	return d.Set([]byte(key), []byte("v"), 0)
}

// checkKeyNames reads some more names, and looks for some keys. It tells how many were known to be absent by their names.
func checkKeyNames(t *testing.T, st *Store, model keysModel, rnd *rand.Rand) (known int) {
	t.Helper()
	tx, s := st.NewTx(), st.shards[0]
	tx.Begin(st.All())
	defer tx.End()
	readSomeNames(t, s, rnd)
	held, names := 0, 0
	for n, d := range s.cache.dbs {
		held += d.bytes
		names += d.names.bytes
		if d.names.set.footprint() != d.names.bytes {
			t.Fatalf("the names of database %d take %d bytes and are charged for with %d", n, d.names.set.footprint(), d.names.bytes)
		}
		if k := &d.names; k.set != nil && k.next == nil && k.set.n != len(model[n]) {
			t.Fatalf("there are %d names of %d keys", k.set.n, len(model[n]))
		}
	}
	if held != s.cache.bytes || names != s.cache.nameBytes {
		t.Fatalf("databases have %d bytes, %d of them names, and the cache %d, %d", held, names, s.cache.bytes, s.cache.nameBytes)
	}
	for range 20 {
		n, key := rnd.IntN(len(model)), fmt.Sprint("key", rnd.IntN(1000))
		cached, names, read := s.cache.get(n, []byte(key)) != nil, s.cache.dbs[n].names, s.stats.RowsRead
		exists, err := tx.DB(n).Exists([]byte(key))
		if err != nil || exists != model[n][key] {
			t.Fatalf("database %d: %q exists: %t, %v; want %t", n, key, exists, err, model[n][key])
		}
		if !cached && names.set != nil && names.next == nil && s.stats.RowsRead == read {
			known++
		}
	}
	return known
}

// readSomeNames reads the names of one round, or all.
func readSomeNames(t *testing.T, s *Shard, rnd *rand.Rand) {
	t.Helper()
	more, all := true, rnd.IntN(3) == 0
	for first := true; more && (first || all); first = false {
		var err error
		if more, err = s.readNames(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeyNamesAreRead: the names of the keys that a store was opened with are read once some were looked for in vain, a part at a
// time, and what is made and removed meanwhile is known as well.
func TestKeyNamesAreRead(t *testing.T) {
	const n = 5000
	fs := vfs.NewMem()
	opts := testOptions(fs, 1, clock.NewManual(testStart))
	opts.CacheBytes = 1 << 20
	key := func(i int) []byte { return fmt.Append(nil, "key", i) }
	st := openTest(t, opts)
	change(t, st, st.All(), func(_ *Tx, d DB) (err error) {
		for i := range n {
			err = errors.Join(err, d.Set(key(i), nil, 0))
		}
		return err
	})
	closeTest(t, st)
	opts.namesLeast = 10
	opts.Clock = clock.NewManual(testStart)
	st = openTest(t, opts)
	defer closeTest(t, st)
	s := st.shards[0]
	names, removed := &s.cache.dbs[0].names, 0
	change(t, st, st.All(), func(tx *Tx, d DB) error { // one transaction, so the janitor keeps away
		for i := range n / namesPart {
			if names.set != nil {
				t.Fatalf("after %d keys that are not there, names are read", i)
			}
			if _, err := d.Exists(key(n + i)); err != nil {
				return err
			}
		}
		for names.next != nil {
			removed++ // the key that is to be read next
			_, err := d.Delete(firstKey(s, names.next))
			if err = errors.Join(err, tx.Commit()); err != nil {
				return err
			}
			if _, err := s.readNames(); err != nil {
				return err
			}
		}
		if removed < 3 || names.set.n != n-removed {
			t.Errorf("%d keys were removed, and %d names of %d are left", removed, names.set.n, n)
		}
		read := s.stats.RowsRead
		for i := range n {
			if exists, err := d.Exists(key(2*n + i)); exists || err != nil {
				t.Fatalf("%s exists: %t, %v", key(2*n+i), exists, err)
			}
		}
		if read = s.stats.RowsRead - read; read > 1 { // two may have one hash
			t.Errorf("%d rows were read for keys that are not there", read)
		}
		return nil
	})
}

// firstKey is the first key, in the order of rows, that is not before a row.
func firstKey(s *Shard, row []byte) (first []byte) {
	it, err := s.iterate(s.db, row, upperBound(row[:spacePrefixLen]))
	must(err)
	if it.First() {
		first = bytes.Clone(it.Key()[metaPrefixLen:])
	}
	must(s.finish(it))
	return first
}

// TestKeyNamesAreBounded: when the names of all keys take too much of the cache, they are forgotten, and not read before there are fewer.
func TestKeyNamesAreBounded(t *testing.T) {
	const n = 4000
	opts := testOptions(vfs.NewMem(), 1, clock.NewManual(testStart))
	opts.CacheBytes = 16 << 10
	st := openTest(t, opts)
	defer closeTest(t, st)
	s, most, key := st.shards[0], 0, func(i int) []byte { return fmt.Append(nil, "key", i) }
	for i := range n {
		change(t, st, st.All(), func(_ *Tx, d DB) error {
			if _, err := s.readNames(); err != nil {
				return err
			}
			most = max(most, s.cache.nameBytes)
			return d.Set(key(i), nil, 0)
		})
	}
	change(t, st, st.All(), func(tx *Tx, d DB) error { // one transaction, so the janitor keeps away
		if k := &s.cache.dbs[0].names; most != opts.CacheBytes/namesShare || k.set != nil || s.cache.nameBytes != 0 {
			t.Errorf("names took %d bytes, and take %d", most, s.cache.nameBytes)
		}
		look := func() (err error) {
			for i := range n {
				_, e := d.Exists(key(n + i))
				err = errors.Join(err, e)
			}
			return err
		}
		err := look()
		if s.cache.nameBytes != 0 {
			t.Error("names are read that are too many")
		}
		for i := range n - n/8 {
			_, e := d.Delete(key(i))
			err = errors.Join(err, e)
		}
		if err = errors.Join(err, tx.Commit(), look()); s.cache.nameBytes == 0 {
			t.Error("names are not read though most keys have gone")
		}
		return err
	})
}

// TestElementNames adds and removes elements of a hash, a set and a sorted set that are not wholly cached, in transactions that are committed
// or not, while the names of all are read, and looks for some that are there and some that are not. What is known by name must be true.
func TestElementNames(t *testing.T) {
	for seed := range seeds(4) {
		fs, rnd := vfs.NewMem(), rand.New(rand.NewPCG(seed, 21))
		open := func() *Store {
			opts := testOptions(fs, 1, clock.NewManual(testStart))
			opts.CacheBytes = 48 << 10
			return openTest(t, opts)
		}
		st, known := open(), 0
		model := [3]map[string]bool{{}, {}, {}}
		names := [3]string{"a", "b", "c"} // the keys
		for range rounds(300) {
			if rnd.IntN(60) == 0 {
				closeTest(t, st)
				st = open()
			}
			tx, kept, keptNames := st.NewTx(), keysModel(model[:]).clone(), names
			tx.Begin(st.All())
			for range 1 + rnd.IntN(30) {
				if err := changeElements(tx.DB(0), model, &names, rnd); err != nil {
					t.Fatal(err)
				}
			}
			if rnd.IntN(4) == 0 {
				tx.Abort()
				model, names = [3]map[string]bool(kept), keptNames
			} else if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			known += checkElementNames(t, tx, model, names, rnd)
			tx.End()
		}
		closeTest(t, st)
		if known < rounds(300) {
			t.Errorf("seed %d: %d elements only were known to be absent by name", seed, known)
		}
	}
}

// changeElements adds an element to one of the three collections or removes one, or renames the collection.
func changeElements(d DB, model [3]map[string]bool, names *[3]string, rnd *rand.Rand) error {
	i, element := rnd.IntN(3), fmt.Sprint("e", rnd.IntN(900))
	key, add := []byte(names[i]), rnd.IntN(5) > 1
	if rnd.IntN(300) == 0 && len(model[i]) > 0 {
		names[i] += "+"
		return d.Rename(key, []byte(names[i]))
	}
	delete(model[i], element)
	if add {
		model[i][element] = true
	}
	h, err := d.Hash(key)
	switch {
	case err == nil && i == 0 && add:
		_, err = h.Set([]byte(element), []byte("v"))
	case err == nil && i == 0:
		_, err = h.Delete([]byte(element))
	case i == 1:
		var set Set
		if set, err = d.SetOf(key); err == nil && add {
			_, err = set.Add([]byte(element))
		} else if err == nil {
			_, err = set.Remove([]byte(element))
		}
	case i == 2:
		var z ZSet
		if z, err = d.ZSet(key); err == nil && add {
			_, err = z.Set([]byte(element), float64(rnd.IntN(100)))
		} else if err == nil {
			_, err = z.Remove([]byte(element))
		}
	}
	return err
}

// checkElementNames reads some more names, and looks for some elements. It tells how many were known to be absent by their names.
func checkElementNames(t *testing.T, tx *Tx, model [3]map[string]bool, keys [3]string, rnd *rand.Rand) (known int) {
	t.Helper()
	s := tx.store.shards[0]
	readSomeNames(t, s, rnd)
	for i, key := range keys {
		o, err := s.lookup(tx.nowMs, 0, []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		n := o.names()
		if n != nil && n.set != nil && n.next == nil && n.set.n != len(model[i]) {
			t.Fatalf("there are %d names of %d elements", n.set.n, len(model[i]))
		}
		for range 10 {
			element := fmt.Sprint("e", rnd.IntN(1000))
			byName := n != nil && n.lacks([]byte(element))
			var found bool
			switch i {
			case 0:
				_, found, err = s.field(o, []byte(element))
			case 1:
				found, err = s.isMember(o, []byte(element))
			case 2:
				_, found, err = s.score(o, []byte(element))
			}
			if err != nil || found != model[i][element] {
				t.Fatalf("%q has %q: %t, %v; want %t", key, element, found, err, model[i][element])
			}
			if byName {
				known++
			}
		}
	}
	return known
}

// TestElementNamesAreRead: the names of the elements of a collection that a store was opened with are read once some were looked for in
// vain, also when it is renamed meanwhile, but not when it is evicted, and not when they would take too much of the cache.
func TestElementNamesAreRead(t *testing.T) {
	const n = 3000
	fs := vfs.NewMem()
	run := func(cacheBytes int, fn func(tx *Tx, d DB, s *Shard) error) {
		t.Helper()
		opts := testOptions(fs, 1, clock.NewManual(testStart))
		opts.CacheBytes, opts.namesLeast = cacheBytes, 10
		st := openTest(t, opts)
		defer closeTest(t, st)
		change(t, st, st.All(), func(tx *Tx, d DB) error { return fn(tx, d, st.shards[0]) }) // one transaction, so the janitor keeps away
	}
	look := func(d DB, key string, from, to int) *object { return lookForMembers(t, d, key, from, to) }
	run(1<<20, func(_ *Tx, d DB, _ *Shard) error {
		z, err := d.ZSet([]byte("z"))
		for i := 0; err == nil && i < n; i++ {
			err = z.SetNew(numbered(i), float64(i))
		}
		return err
	})
	run(1<<20, func(tx *Tx, d DB, s *Shard) error {
		if o := look(d, "z", n, n+n/namesPart-1); o.names().set != nil {
			t.Error("names are read too early")
		}
		o := look(d, "z", n, n+1)
		if more, err := s.readNames(); !more || err != nil || o.names().set.n == 0 {
			t.Fatalf("there is more: %t, %v; %d names were read", more, err, o.names().set.n)
		}
		if err := errors.Join(d.Rename([]byte("z"), []byte("y")), tx.Commit()); err != nil {
			return err
		}
		for more := true; more; {
			var err error
			if more, err = s.readNames(); err != nil {
				return err
			}
		}
		o = look(d, "y", 0, 0)
		if o.names().set.n != n || o.names().next != nil || o.bytes != o.footprint() || len(s.unnamed) > 0 {
			t.Errorf("%d names were read of %d, and %d bytes are charged for %d", o.names().set.n, n, o.bytes, o.footprint())
		}
		read := s.stats.RowsRead
		look(d, "y", n, 2*n)
		if read = s.stats.RowsRead - read; read > 1 { // two may have one hash
			t.Errorf("%d rows were read for elements that are not there", read)
		}
		return nil
	})
	run(1<<20, func(_ *Tx, d DB, s *Shard) error {
		o := look(d, "y", 0, 0)
		mayNotBeRead(t, s, o, func() { look(d, "y", n, 2*n) })
		look(d, "y", n, 2*n)
		if len(s.unnamed) != 1 {
			t.Error("no names are to be read")
		}
		s.cache.drop(o)
		if more, err := s.readNames(); more || err != nil || len(s.unnamed) > 0 {
			t.Errorf("of a collection that was evicted, there is more to read: %t, %v", more, err)
		}
		return nil
	})
	run(16<<10, func(_ *Tx, d DB, s *Shard) error {
		if look(d, "y", n, 2*n); len(s.unnamed) > 0 {
			t.Error("more names are read than the cache has room for")
		}
		return nil
	})
}

// mayNotBeRead looks for elements of a collection that are not there, when their names may not be read.
func mayNotBeRead(t *testing.T, s *Shard, o *object, look func()) {
	t.Helper()
	o.ordered = true
	if look(); len(s.unnamed) > 0 {
		t.Error("names are read of a collection whose rows are ordered")
	}
	o.ordered, s.cache.nameBytes = false, s.cache.budget/namesShare
	if look(); len(s.unnamed) > 0 {
		t.Error("names are read of a collection that the names of keys leave no room for")
	}
	s.cache.nameBytes = 0
}

// lookForMembers asks a sorted set for its members from one number to before another, and returns its object.
func lookForMembers(t *testing.T, d DB, key string, from, to int) *object {
	t.Helper()
	z, err := d.ZSet([]byte(key))
	for i := from; err == nil && i < to; i++ {
		_, _, err = z.Score(numbered(i))
	}
	if err != nil {
		t.Fatal(err)
	}
	return z.o
}

// TestNamesAdapt: a round becomes shorter when it had to step over many rows, and longer after few, within bounds.
func TestNamesAdapt(t *testing.T) {
	var n names
	n.begin([]byte("p"), 1000*namesRound)
	if n.places != placeRange/1000 {
		t.Errorf("1000 rounds begin with %d places", n.places)
	}
	n.begin([]byte("p"), 1)
	places := []uint64{n.places}
	for _, steps := range []int{2*namesRound + 1, 2 * namesRound, namesRound / 2, namesRound/2 - 1, 0} {
		n.adapt(steps)
		places = append(places, n.places)
	}
	const first = placeRange / namesRounds
	if want := []uint64{first, first / 2, first / 2, first / 2, first, 2 * first}; !slices.Equal(places, want) {
		t.Errorf("places are %v, want %v", places, want)
	}
	for range 40 {
		n.adapt(0)
	}
	most := n.places
	for range 40 {
		n.adapt(3 * namesRound)
	}
	if most != placeRange || n.places != 1 {
		t.Errorf("places go from %d to %d", n.places, most)
	}
}

// TestNamesForget: a name that is to be taken out and is not there says that what is known is wrong.
func TestNamesForget(t *testing.T) {
	n := names{set: newNameSet(0)}
	n.add([]byte("a"))
	n.remove([]byte("b"))
	if n.set != nil || n.lacks([]byte("c")) {
		t.Error("names are known after one was missing")
	}
}
