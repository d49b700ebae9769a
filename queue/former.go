package queue

import (
	"bytes"
	"strings"

	"codeq/shard"
	"codeq/supplier"
)

// SupplierWord begins the first words of shard.Options.Placement, those that say which supplier decides where queues are.
const SupplierWord = "supplier"

// Abandoned lists those keys of a queue on a shard, in the form that the group names, at which the commands of queues have looked under the
// former placement and would not look any more. A queue on a named shard has the shard's name in its own keys, so these are others when it is
// to be elsewhere, while the old ones stay on the shard that they name; and a pause has a key for each shard only where queues are spread.
// Keys in forms that were not the queue's own are not listed: they are there for whoever names them, as they were before.
func Abandoned(router *supplier.Router, db, ordinal int, group []byte, before shard.Former) (keys [][]byte, err error) {
	k, ok := supplier.ParseKey(group)
	if !ok || !wasOwn(&k, router.Topology(), ordinal, before) {
		return nil, nil
	}
	name := Name{k.Command, k.Tenant}
	own, at, err := ownKey(nil, router, db, name)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(own, group) {
		keys = supplier.TaskKeys(group)
	}
	k.State = supplier.Paused
	paused := k.AppendTo(nil)
	if before.Partitioned {
		paused = appendPausedOn(nil, router, name, ordinal)
	}
	var holds bool
	if router.Spreads(db) {
		holds = before.Partitioned && before.Shards == router.Topology().Count()
	} else {
		holds = !before.Partitioned && bytes.Equal(own, group) && at == ordinal
	}
	if !holds {
		keys = append(keys, paused)
	}
	return keys, nil
}

// wasOwn tells whether a key in the form of k on the shard was one of the queue's own under the former placement. With a shard's name in it, it is
// taken for one unless the supplier had no queues on named shards.
func wasOwn(k *supplier.Key, topology supplier.Topology, ordinal int, before shard.Former) bool {
	onNamed := ordinal >= topology.Default && !before.Pinned && !before.Partitioned
	switch {
	case k.Tagged:
		return false
	case len(k.Shard) == 0:
		return !onNamed // the queue's own keys there had the shard's name
	}
	return onNamed && string(k.Shard) == topology.Name(ordinal) && usesNamed(before.Placement)
}

// usesNamed tells whether a placement may have queues on named shards. Those of a server that did not remember it are left alone.
func usesNamed(placement string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(placement, SupplierWord+" "), ",")
	return name != "" && name != "hash" && name != "task"
}
