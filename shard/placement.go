package shard

import (
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

// checkPlacement refuses a store whose keys would be looked for where they are not. FORMAT remembers how they were placed, and
// while that stays as it is there is nothing to check. Otherwise every key of every group has to be where it would be put now, and so, if
// databases were pinned or set free, has every other key, which takes a look at all that is stored; and
// where groups become partitioned there may be none, since their elements' homes were not asked for before.
func (st *Store) checkPlacement(f *format) error {
	now := st.placer.PartitionsGroups(noDatabase)
	if f.Placement == st.opts.Placement && f.Partitioned == now {
		return nil
	}
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
	if f.Placement != "" && pinsOf(f.Placement) != pinsOf(st.opts.Placement) { // empty: of a version that did not remember it
		for _, s := range st.shards {
			if err := s.checkKeys(f); err != nil {
				return err
			}
		}
	}
	f.Placement, f.Partitioned = st.opts.Placement, now
	return st.writeFormat(*f)
}

// checkPlaced looks at the keys of the groups that a shard has.
func (d DB) checkPlaced(ordinal int, f *format) error {
	var groups []string
	if err := d.Groups(ordinal, func(group string) { groups = append(groups, group) }); err != nil {
		return err
	}
	st := d.tx.store
	for _, group := range groups {
		for _, key := range st.placer.GroupKeys([]byte(group)) {
			p, err := st.placer.Place(d.n, key)
			if err != nil {
				return err
			}
			if p.Partitioned && f.Partitioned || !p.Partitioned && p.Shard == ordinal {
				continue
			}
			_, o, err := d.at(ordinal, key)
			if err != nil {
				return err
			}
			if o.kind != KindNone {
				return st.misplaced(st.shards[ordinal], fmt.Sprintf("tasks at %s", key), d.n, f)
			}
		}
	}
	return nil
}

// misplaced is why a store is not opened: a key is on the shard and would be looked for elsewhere.
func (st *Store) misplaced(s *Shard, what string, db int, f *format) error {
	before := f.Placement
	if before == "" {
		before = "the one that was configured before"
	}
	return fmt.Errorf("data directory %s has %s (database %d) on shard %q, where the configured placement, %s, would not find them: "+
		"go back to %s, or start with it once more and empty the queue or the database, or choose another directory with --data",
		st.opts.Dir, what, db, s.name, st.opts.Placement, before)
}

// checkKeys looks at all keys of the shard but those of groups: they are elsewhere when a database was pinned to a shard, or is no longer.
func (s *Shard) checkKeys(f *format) error {
	dbs := s.databasesOf()
	return s.eachRow([]byte{rowMeta}, []byte{rowMeta + 1}, func(row, val []byte) error {
		db, ok := dbs[binary.BigEndian.Uint32(row[1:])]
		key := row[metaPrefixLen:]
		t := s.store.tracker.Track(key)
		if !ok || t != nil && t.Group != "" {
			return nil
		}
		if _, expireAt, err := decodeHead(val); err != nil || expireAt != 0 && expireAt <= s.store.clock.NowMs() && (t == nil || !t.Lease) {
			return err // it is gone, but for a lease: that has to be given back
		}
		p, err := s.store.placer.Place(db, key)
		if err != nil {
			return nil // a key that can't be placed any more is still there
		}
		strays := p.Shard != s.ordinal
		if p.Partitioned {
			strays, err = s.hasStrays(val)
		}
		if err == nil && strays {
			err = s.store.misplaced(s, fmt.Sprintf("the key %q", key), db, f)
		}
		return err
	})
}

// hasStrays tells whether the partitioned collection with the metadata row has elements here that are at home elsewhere.
func (s *Shard) hasStrays(meta []byte) (strays bool, err error) {
	var o object
	if err := o.decode(meta); err != nil {
		return false, s.readError(err)
	}
	look := func(element []byte) bool {
		strays = s.store.placer.Home(element) != s.ordinal
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
	return strays, err
}
