package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// noDatabase is the number of none: what a Placer says of it holds for all databases that it has no rule of their own for.
const noDatabase = -1

// PinWord begins those of the words of Options.Placement, the last ones, that say which databases are pinned to a shard.
const PinWord = "database-shards"

// pinsOf is what a placement says of databases that are pinned.
func pinsOf(placement string) string {
	_, pins, _ := strings.Cut(placement, PinWord)
	return pins
}

// formerly is how the keys of the database were placed when FORMAT was written.
func (st *Store) formerly(f *format, db int) Former {
	pinned := strings.Contains(f.Placement, fmt.Sprintf("%s %d=", PinWord, db))
	before := Former{Shards: len(f.Names), Pinned: pinned, Partitioned: f.Partitioned && !pinned}
	if f.Placement != st.opts.Placement {
		before.Placement = f.Placement
	}
	return before
}

// added is the names of the shards that the directory does not have yet.
func (st *Store) added(f *format) []string { return st.opts.Names[len(f.Names):] }

// checkPlacement refuses a store whose keys would be looked for where they are not. FORMAT remembers how they were placed, and
// while that and the shards stay as they are there is nothing to check. Otherwise every key of every group has to be where it would be put
// now, and still be of use there; and so, if databases were pinned or set free or there are more shards, has every other key, which takes a
// look at all that is stored. Where groups become partitioned there may be none, since their elements' homes were not asked for before.
//
// Only the shards that the directory had before are open, and nothing but the caller works on them. FORMAT has the new shards from here on.
func (st *Store) checkPlacement(f *format) error {
	now := st.placer.PartitionsGroups(noDatabase)
	if f.Placement == st.opts.Placement && f.Partitioned == now && len(st.added(f)) == 0 {
		return nil
	}
	if err := st.checkAll(f); err != nil {
		return err
	}
	f.Names, f.Placement, f.Partitioned = st.opts.Names, st.opts.Placement, now
	return st.writeFormat(*f)
}

func (st *Store) checkAll(f *format) error {
	tx := st.NewTx()
	tx.Begin(st.All())
	defer tx.End()
	tx.Mute(true)
	for db := range st.opts.Databases {
		for ordinal := range st.shards {
			if err := tx.DB(db).checkPlaced(ordinal, f); err != nil {
				return err
			}
		}
	}
	repinned := f.Placement != "" && pinsOf(f.Placement) != pinsOf(st.opts.Placement) // empty: of a version that did not remember it
	if !repinned && len(st.added(f)) == 0 {
		return nil
	}
	for _, s := range st.shards {
		if err := s.checkKeys(f); err != nil {
			return err
		}
	}
	return nil
}

// checkPlaced looks at the keys of the groups that a shard has.
func (d DB) checkPlaced(ordinal int, f *format) error {
	var groups []string
	if err := d.Groups(ordinal, func(group string) { groups = append(groups, group) }); err != nil {
		return err
	}
	placer, before := d.tx.store.placer, d.tx.store.formerly(f, d.n)
	for _, group := range groups {
		strays, err := placer.Abandoned(d.n, ordinal, []byte(group), before)
		if err != nil {
			return err
		}
		for _, key := range placer.GroupKeys([]byte(group)) {
			p, err := placer.Place(d.n, key)
			if err != nil {
				return err
			}
			if p.Partitioned && !before.Partitioned || !p.Partitioned && p.Shard != ordinal {
				strays = append(strays, key)
			}
		}
		for _, key := range strays {
			if err := d.checkGone(ordinal, key, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGone refuses a key of a group that is on the shard and should not be.
func (d DB) checkGone(ordinal int, key []byte, f *format) error {
	s, o, err := d.at(ordinal, key)
	switch {
	case err != nil || o.kind == KindNone:
		return err
	case o.kind == KindString: // which holds no tasks
		return s.misplaced(fmt.Sprintf("the key %s", key), "resume the queue or remove the key", d.n, f)
	}
	return s.misplaced(fmt.Sprintf("tasks at %s", key), "empty the queue or the database", d.n, f)
}

// misplaced is why a store is not opened: what is on the shard would be looked for elsewhere. remedy is what can be done about it there.
func (s *Shard) misplaced(what, remedy string, db int, f *format) error {
	st := s.store
	now, before := st.opts.Placement, f.Placement
	if before == "" {
		before = "the one that was configured before"
	}
	if added := st.added(f); len(added) > 0 {
		names := strings.Join(added, ", ")
		now += fmt.Sprintf(", with %s added to named-shards", names)
		before += fmt.Sprintf(", without %s in named-shards", names)
	}
	return fmt.Errorf("data directory %s has %s (database %d) on shard %q, where the configured placement, %s, would not find them: "+
		"go back to %s, or start with it once more and %s, or choose another directory with --data",
		st.opts.Dir, what, db, s.name, now, before, remedy)
}

// checkKeys looks at all keys of the shard but those that checkPlaced knows: they are elsewhere when a database was pinned to a shard, or is
// no longer, and where there are more shards that can be the homes of elements.
func (s *Shard) checkKeys(f *format) error {
	dbs := s.databasesOf()
	return s.eachRow([]byte{rowMeta}, []byte{rowMeta + 1}, func(row, val []byte) error {
		db, ok := dbs[binary.BigEndian.Uint32(row[1:])]
		key := row[metaPrefixLen:]
		t := s.store.tracker.Track(key)
		if !ok {
			return nil
		}
		if _, expireAt, err := decodeHead(val); err != nil || expireAt != 0 && expireAt <= s.store.clock.NowMs() && (t == nil || !t.Lease) {
			return err // it is gone, but for a lease: that has to be given back
		}
		p, err := s.store.placer.Place(db, key)
		if err != nil {
			return nil // a key that can't be placed any more is still there
		}
		grouped := t != nil && t.Group != ""
		if !p.Partitioned && !grouped && p.Shard != s.ordinal {
			return s.misplaced(fmt.Sprintf("the key %q", key), "remove it or empty the database", db, f)
		}
		if !p.Partitioned || grouped && len(s.store.added(f)) == 0 { // what there is to say of groups then, checkPlaced has said
			return nil
		}
		stray, strays, err := s.strayOf(val)
		if err == nil && strays {
			err = s.misplaced(fmt.Sprintf("the key %q with the element %q", key, stray), "remove that or empty the database", db, f)
		}
		return err
	})
}

// strayOf finds an element here of the partitioned collection with the metadata row that is at home elsewhere, and tells whether there is one.
func (s *Shard) strayOf(meta []byte) (stray []byte, strays bool, err error) {
	var o object
	if err := o.decode(meta); err != nil {
		return nil, false, s.readError(err)
	}
	look := func(element []byte) bool {
		if strays = s.store.placer.Home(element) != s.ordinal; strays {
			stray = bytes.Clone(element)
		}
		return !strays
	}
	switch o.kind {
	case KindList:
		err = s.eachIndex(&o, o.list.head, o.list.tail, Head, func(it listItem) bool { return look(it.val) })
	case KindHash, KindSet, KindZSet:
		_, err = s.eachElement(&o, 0, func(name, _ []byte) bool { return look(name) })
	case KindNone, KindString, KindStream, kindGroup, kindSlots, KindGroup: // they are never partitioned
		strays = true
	}
	return stray, strays, err
}
