package supplier

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
)

// The keys that hold one entry per task, each in fragments.
const (
	tasksKey    = "codeq:tasks"
	resultsKey  = "codeq:results"
	tasksTTLKey = "codeq:tasks:ttl"
	leasePrefix = "codeq:lease:"
	codeqPrefix = "codeq:"
)

// MaxDatabases bounds the numbers of databases that can be pinned.
const MaxDatabases = 1 << 16

// RouteKind says whether a key lives on one shard.
type RouteKind uint8

const (
	// Single means that the key lives on Route.Shard.
	Single RouteKind = iota
	// Partitioned means that the key is one logical collection with a fragment
	// on every shard; an element lives on Router.Home(element).
	Partitioned
)

// PartitionType is the only type that a partitioned key can hold.
type PartitionType uint8

const (
	// NotPartitioned goes with Single: the key holds any type.
	NotPartitioned PartitionType = iota
	// PartitionHash is partitioned by field.
	PartitionHash
	// PartitionZSet is partitioned by member.
	PartitionZSet
	// PartitionList is partitioned by element, PartitionSet by member.
	PartitionList
	PartitionSet
)

// Route is where a key lives.
type Route struct {
	Shard int // the ordinal; 0 when Kind is Partitioned
	Kind  RouteKind
	Type  PartitionType
	// Err says that the supplier could not answer, or named a shard that does
	// not exist. Then the rest is meaningless and the command must fail: putting the key
	// somewhere else would hide tasks. The built-in suppliers never do this, since
	// they check their shards at start. An error is not remembered; the
	// next Route asks again.
	Err error
}

// RouterConfig is what a Router is made from.
type RouterConfig struct {
	Topology Topology
	Supplier ShardSupplier
	// Patterns say which part of a client's keys to hash; see the type pattern.
	// The first that matches counts.
	Patterns []string
	// Databases pins databases to shards, by number and name.
	Databases map[int]string
}

// Router answers where keys live; it is fixed once made, and safe for
// concurrent use. The rules, in this order:
//
//  1. A pinned database has all its keys on its shard, partitioned nowhere.
//  2. codeq:tasks, codeq:results and codeq:tasks:ttl are partitioned by task id.
//  3. codeq:lease:<id> lives at the id's home.
//  4. A queue key that names a shard of the topology lives there; any other
//     queue key lives where the supplier says. Under a supplier that is a
//     TaskRouter those of them that hold tasks are partitioned by task id.
//  5. Any other key is hashed over the default group: by its hash tag as in a
//     Redis cluster (what stands between the first `{` and the first `}` behind it, if
//     that is not empty), else by what a configured pattern captures, else whole.
type Router struct {
	topology Topology
	ordinals map[string]int
	supplier ShardSupplier
	spreads  bool // the supplier is a TaskRouter
	patterns []pattern
	pins     []int16 // by database number; -1 where not pinned

	answers memo[answer] // of the supplier, by queue: command[:tenant]
	routes  memo[Route]  // of queue keys
}

type answer struct {
	shard int
	homes []int // for new tasks, where the supplier spreads queues
}

// NewRouter checks everything that can be checked before the first key comes.
func NewRouter(c RouterConfig) (*Router, error) {
	if err := c.Topology.Validate(); err != nil {
		return nil, err
	}
	if c.Supplier == nil {
		return nil, fmt.Errorf("a router needs a supplier; make one with Registry.New")
	}
	r := &Router{
		topology: Topology{Default: c.Topology.Default, Named: slices.Clone(c.Topology.Named)},
		ordinals: make(map[string]int, c.Topology.Count()),
		supplier: c.Supplier,
		answers:  newMemo[answer](),
		routes:   newMemo[Route](),
	}
	for i, name := range r.topology.Names() {
		r.ordinals[name] = i
	}
	if t, ok := c.Supplier.(TaskRouter); ok {
		r.spreads = true
		if err := r.checkHomes(t); err != nil {
			return nil, err
		}
	}
	if len(c.Patterns) > maxPatterns {
		return nil, fmt.Errorf("key-patterns: %d patterns; at most %d are possible", len(c.Patterns), maxPatterns)
	}
	for _, text := range c.Patterns {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		r.patterns = append(r.patterns, p)
	}
	return r, r.pin(c.Databases)
}

// homeProbes is how many ids of each kind a TaskRouter is asked for at start.
const homeProbes = 256

// checkHomes refuses a supplier that has tasks elsewhere than their own rows are.
func (r *Router) checkHomes(t TaskRouter) error {
	for i := range homeProbes {
		for _, id := range [...]string{string(AppendID(nil, i%r.topology.Count(), [16]byte{15: byte(i)})), fmt.Sprintf("task-%d", i)} {
			name, err := t.TaskShard(context.Background(), "probe", "", id)
			if err != nil {
				return fmt.Errorf("the supplier %T failed for the task %s: %w", t, id, err)
			}
			if home := r.topology.Name(r.Home([]byte(id))); name != home {
				return fmt.Errorf("the supplier %T puts the task %s on %s, while its own rows are on %s; a TaskRouter has to leave tasks at home",
					t, id, name, home)
			}
		}
	}
	return nil
}

func (r *Router) pin(databases map[int]string) error {
	for _, db := range slices.Sorted(maps.Keys(databases)) {
		if db < 0 || db >= MaxDatabases {
			return fmt.Errorf("database-shards: there is no database %d; use 0 to %d", db, MaxDatabases-1)
		}
		ordinal, err := r.topology.require(fmt.Sprintf("database-shards: %d", db), databases[db])
		if err != nil {
			return err
		}
		for len(r.pins) <= db {
			r.pins = append(r.pins, -1)
		}
		r.pins[db] = int16(ordinal)
	}
	return nil
}

// Topology is the topology that the router was made with; not to be changed.
func (r *Router) Topology() Topology { return r.topology }

// Route says where a key of a database lives. It does not allocate, but for
// the first key of a queue.
func (r *Router) Route(db int, key []byte) Route {
	if r.pinned(db) {
		return Route{Shard: int(r.pins[db])}
	}
	if hasPrefix(key, queuePrefix) {
		if route, ok := r.routes.get(key); ok {
			return route
		}
		if parts, ok := splitKey(key); ok {
			route := r.routeQueueKey(parts)
			if route.Err == nil {
				r.routes.put(key, route)
			}
			return route
		}
	} else if hasPrefix(key, codeqPrefix) {
		switch string(key) {
		case tasksKey, resultsKey:
			return Route{Kind: Partitioned, Type: PartitionHash}
		case tasksTTLKey:
			return Route{Kind: Partitioned, Type: PartitionZSet}
		}
		if hasPrefix(key, leasePrefix) {
			return Route{Shard: r.Home(key[len(leasePrefix):])}
		}
	}
	return Route{Shard: r.topology.bucket(r.hashed(key))}
}

func (r *Router) pinned(db int) bool { return uint(db) < uint(len(r.pins)) && r.pins[db] >= 0 }

// PartitionedKeys lists the keys of a database whose Route is Partitioned, without those of queues.
func (r *Router) PartitionedKeys(db int) [][]byte {
	if r.pinned(db) {
		return nil
	}
	return [][]byte{[]byte(tasksKey), []byte(resultsKey), []byte(tasksTTLKey)}
}

// Spreads tells whether the queues of a database are spread over shards by
// their tasks' ids.
func (r *Router) Spreads(db int) bool { return r.spreads && !r.pinned(db) }

// Home is the shard of a task's own rows. An id that carries the ordinal of a
// shard is at home there, also on a named shard, so that the whole life
// of a task stays on its queue's shard; any other id is hashed over the default
// group.
func (r *Router) Home(id []byte) int {
	return r.topology.home(id)
}

// QueueShard is the shard for new tasks and claims of a queue; it is the shard
// of the queue's keys without a shard segment in databases that are not pinned.
// Command and tenant are such as Key.Validate accepts.
func (r *Router) QueueShard(command, tenant []byte) (int, error) {
	var room [maxRemembered]byte
	a, err := r.ask(appendQueue(room[:0], foldCommand(command), tenant))
	return a.shard, err
}

// TaskHomes lists the shards that new tasks of a spread queue are made for, in
// turns. It is not to be changed.
func (r *Router) TaskHomes(command, tenant []byte) ([]int, error) {
	var room [maxRemembered]byte
	a, err := r.ask(appendQueue(room[:0], foldCommand(command), tenant))
	return a.homes, err
}

// QueueShards lists the shards on which a queue may have tasks.
func (r *Router) QueueShards(ctx context.Context, command, tenant []byte) ([]int, error) {
	names, err := r.supplier.QueueShards(ctx, string(foldCommand(command)), string(tenant))
	if err != nil {
		return nil, fmt.Errorf("the supplier failed for command %q, tenant %q: %w", command, tenant, err)
	}
	shards := make([]int, len(names))
	for i, name := range names {
		if shards[i], err = r.topology.require("the supplier's answer", name); err != nil {
			return nil, err
		}
	}
	return shards, nil
}

func (r *Router) routeQueueKey(parts keyParts) Route {
	if len(parts.shard) > 0 {
		if ordinal, ok := r.ordinals[string(parts.shard)]; ok {
			return Route{Shard: ordinal}
		}
	}
	if r.spreads {
		if t := partitionOf(parts.state); t != NotPartitioned {
			return Route{Kind: Partitioned, Type: t}
		}
	}
	a, err := r.ask(parts.queue)
	return Route{Shard: a.shard, Err: err}
}

// partitionOf is what a place where tasks wait is partitioned as.
func partitionOf(state State) PartitionType {
	switch state {
	case Pending:
		return PartitionList
	case InProgress, DLQ:
		return PartitionSet
	case Delayed:
		return PartitionZSet
	case Paused, Rate:
	}
	return NotPartitioned
}

// ask gives the supplier's answer for a queue, from the cache if it is there.
func (r *Router) ask(queue []byte) (answer, error) {
	if a, ok := r.answers.get(queue); ok {
		return a, nil
	}
	text := string(queue)
	command, tenant := text, ""
	if i := bytes.IndexByte(queue, ':'); i >= 0 {
		command, tenant = text[:i], text[i+1:]
	}
	// A supplier answers from memory, so there is nothing to cancel.
	name, err := r.supplier.CurrentShard(context.Background(), command, tenant)
	if err != nil {
		return answer{}, fmt.Errorf("the supplier failed for command %q, tenant %q: %w", command, tenant, err)
	}
	var a answer
	if a.shard, err = r.topology.require("the supplier's answer", name); err != nil {
		return answer{}, err
	}
	if r.spreads {
		a.homes, err = r.QueueShards(context.Background(), []byte(command), []byte(tenant))
		if err == nil && len(a.homes) == 0 {
			err = fmt.Errorf("the supplier named no shard for command %q, tenant %q", command, tenant)
		}
		if err != nil {
			return answer{}, err
		}
	}
	r.answers.put(queue, a)
	return a, nil
}

// hashed is the part of an ordinary key that is hashed.
func (r *Router) hashed(key []byte) []byte {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		tag := key[open+1:]
		if end := bytes.IndexByte(tag, '}'); end > 0 {
			return tag[:end]
		}
	}
	for i := range r.patterns {
		if part, ok := r.patterns[i].capture(key); ok {
			return part
		}
	}
	return key
}
