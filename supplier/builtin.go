package supplier

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// static sends a queue to its tenant's shard, else to its command's shard,
// else to the default shard. The supplier `default` is one without mappings.
type static struct {
	fallback string
	commands map[string]string // lower-cased command → shard
	tenants  map[string]string
}

func newDefault(o Options) (ShardSupplier, error) {
	if len(o.Commands) > 0 || len(o.Tenants) > 0 {
		return nil, fmt.Errorf("it puts every queue on one shard and takes no mappings; " +
			"set supplier to static, or remove static-commands and static-tenants")
	}
	return newStatic(o)
}

func newStatic(o Options) (ShardSupplier, error) {
	s := &static{
		fallback: o.DefaultShard,
		commands: make(map[string]string, len(o.Commands)),
		tenants:  maps.Clone(o.Tenants),
	}
	if s.fallback == "" {
		s.fallback = o.Topology.Name(0)
	}
	if _, err := o.Topology.require("static-default-shard", s.fallback); err != nil {
		return nil, err
	}
	for _, tenant := range slices.Sorted(maps.Keys(o.Tenants)) {
		if _, err := o.Topology.require("static-tenants: "+tenant, o.Tenants[tenant]); err != nil {
			return nil, err
		}
	}
	for _, command := range slices.Sorted(maps.Keys(o.Commands)) {
		if _, err := o.Topology.require("static-commands: "+command, o.Commands[command]); err != nil {
			return nil, err
		}
		folded := strings.ToLower(command)
		if err := (Key{Command: []byte(folded), State: InProgress}).Validate(); err != nil {
			return nil, fmt.Errorf("static-commands: %w", err)
		}
		if _, twice := s.commands[folded]; twice {
			return nil, fmt.Errorf("static-commands: %s is mapped twice, in different case; commands are lower-cased, so remove one",
				command)
		}
		s.commands[folded] = o.Commands[command]
	}
	return s, nil
}

func (s *static) CurrentShard(_ context.Context, command, tenantID string) (string, error) {
	if shard, ok := s.tenants[tenantID]; ok {
		return shard, nil
	}
	if shard, ok := s.commands[command]; ok {
		return shard, nil
	}
	return s.fallback, nil
}

func (s *static) QueueShards(ctx context.Context, command, tenantID string) ([]string, error) {
	shard, err := s.CurrentShard(ctx, command, tenantID)
	return []string{shard}, err
}

// hash spreads queues over the default group. It hashes the text that stands
// for the queue in keys, `command` or `command:tenant`, so a queue shares its
// shard with every key that carries the same text as its hash tag.
type hash struct {
	topology Topology
}

func newHash(o Options) (ShardSupplier, error) {
	if o.DefaultShard != "" || len(o.Commands) > 0 || len(o.Tenants) > 0 {
		return nil, fmt.Errorf("it spreads all queues over the default group and takes no mappings; " +
			"set supplier to static, or remove static-default-shard, static-commands and static-tenants")
	}
	return &hash{topology: o.Topology}, nil
}

func (h *hash) CurrentShard(_ context.Context, command, tenantID string) (string, error) {
	queue := appendQueue(make([]byte, 0, 64), command, tenantID)
	return h.topology.Name(int(Hash64(queue) % uint64(h.topology.Default))), nil
}

func (h *hash) QueueShards(ctx context.Context, command, tenantID string) ([]string, error) {
	shard, err := h.CurrentShard(ctx, command, tenantID)
	return []string{shard}, err
}

// task spreads the tasks of every queue over the default group, each where its
// own rows are. What a queue has besides tasks is where hash puts it.
type task struct {
	hash
	all []string
}

func newTask(o Options) (ShardSupplier, error) {
	if o.DefaultShard != "" || len(o.Commands) > 0 || len(o.Tenants) > 0 {
		return nil, fmt.Errorf("it spreads the tasks of every queue over the default group and takes no mappings; " +
			"set supplier to static, or remove static-default-shard, static-commands and static-tenants")
	}
	return &task{hash: hash{topology: o.Topology}, all: o.Topology.Names()[:o.Topology.Default]}, nil
}

func (t *task) QueueShards(context.Context, string, string) ([]string, error) {
	return slices.Clone(t.all), nil
}

func (t *task) TaskShard(_ context.Context, _, _, taskID string) (string, error) {
	return t.topology.Name(t.topology.home([]byte(taskID))), nil
}
