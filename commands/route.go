package commands

import (
	"codeq/commands/spec"
	"codeq/queue"
	"codeq/shard"
	"codeq/supplier"
)

// maxKeptPositions bounds the scratch for key and element positions that a session keeps between calls.
const maxKeptPositions = 1024

// addShards adds the shards that a call needs to the mask. What a call touches besides, such as the keys that a script
// builds, is locked when it is touched. It fails where the supplier does.
func (ss *session) addShards(mask *shard.Mask, cmd *Command, args [][]byte) (err error) {
	s := ss.server
	if cmd.Scope == scopeAll {
		mask.Union(s.store.All())
		return nil
	}
	if cmd.Shards != nil {
		needed, err := cmd.Shards(ss, args)
		mask.Union(needed)
		return err
	}
	// Where the positions can't be told, the handler will say what is wrong with the arguments.
	if ss.keys, err = spec.AppendKeys(ss.keys[:0], &cmd.Command, args); err != nil {
		return nil
	}
	db := ss.db()
	for _, key := range ss.keys {
		if key.Flags&spec.NotKey != 0 {
			continue
		}
		route := s.router.Route(db, args[key.Pos])
		switch {
		case route.Err != nil:
			return route.Err
		case route.Kind == supplier.Single:
			mask.Add(route.Shard)
		default:
			ss.addHomes(mask, cmd, args)
		}
	}
	if cap(ss.keys) > maxKeptPositions {
		ss.keys = nil
	}
	return nil
}

// addHomes adds the shards that a call on a partitioned key needs: the homes of the elements that it names, or else every
// shard that has a fragment. What a script will do to the key is not known yet: mostly it wants one element, so that
// all shards' locks would be for nothing, and scripts of different queues would wait for each other.
func (ss *session) addHomes(mask *shard.Mask, cmd *Command, args [][]byte) {
	if cmd.Scope == scopeOwn {
		return
	}
	s := ss.server
	ss.elements = spec.AppendElements(ss.elements[:0], &cmd.Command, args)
	for _, pos := range ss.elements {
		mask.Add(s.router.Home(args[pos]))
	}
	if len(ss.elements) == 0 {
		mask.Union(s.store.All())
	}
	if cap(ss.elements) > maxKeptPositions {
		ss.elements = nil
	}
}

// Placer makes the store ask the router where keys live, so that routing and storage can't disagree.
func Placer(r *supplier.Router) shard.Placer { return placer{r} }

type placer struct{ router *supplier.Router }

// Place is where the key lives.
func (p placer) Place(db int, key []byte) (shard.Placement, error) {
	route := p.router.Route(db, key)
	if route.Kind == supplier.Single {
		return shard.Placement{Shard: route.Shard}, route.Err
	}
	return shard.Placement{Partitioned: true, Kind: partitionKind(route.Type)}, route.Err
}

func partitionKind(t supplier.PartitionType) shard.Kind {
	switch t {
	case supplier.PartitionHash:
		return shard.KindHash
	case supplier.PartitionZSet:
		return shard.KindZSet
	case supplier.PartitionList:
		return shard.KindList
	case supplier.PartitionSet:
		return shard.KindSet
	case supplier.NotPartitioned:
	}
	return shard.KindNone
}

// Partitioned lists the keys that are spread over the shards.
func (p placer) Partitioned(db int) [][]byte { return p.router.PartitionedKeys(db) }

// PartitionsGroups tells whether queues, which are the groups, are spread over the shards.
func (p placer) PartitionsGroups(db int) bool { return p.router.Spreads(db) }

// GroupKeys lists the keys of a queue that hold its tasks.
func (p placer) GroupKeys(group []byte) [][]byte { return supplier.TaskKeys(group) }

// Abandoned lists the keys of a queue on a shard that the commands of queues would no longer look at.
func (p placer) Abandoned(db, ordinal int, group []byte, before shard.Former) ([][]byte, error) {
	return queue.Abandoned(p.router, db, ordinal, group, before)
}

// Home is the shard of an element of a partitioned key.
func (p placer) Home(element []byte) int { return p.router.Home(element) }
