package shard

import "fmt"

// noDatabase is the number of none: what a Placer says of it holds for all databases that it has no rule of their own for.
const noDatabase = -1

// checkPlacement refuses a store whose groups of keys would be looked for where they are not. FORMAT remembers how they were placed, and
// while that stays as it is there is nothing to check. Otherwise every key of every group has to be where it would be put now; and
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
				return d.misplaced(ordinal, key, f)
			}
		}
	}
	return nil
}

func (d DB) misplaced(ordinal int, key []byte, f *format) error {
	st := d.tx.store
	before := f.Placement
	if before == "" {
		before = "the one that was configured before"
	}
	return fmt.Errorf("data directory %s has tasks at %s (database %d) on shard %q, where the configured placement, %s, would not find them: "+
		"go back to %s, or start with it once more and empty the queue, or choose another directory with --data",
		st.opts.Dir, key, d.n, st.shards[ordinal].name, st.opts.Placement, before)
}
