package supplier

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// ShardSupplier routes a queue to shards. Implementations are safe for concurrent use and deterministic:
// every server with the same configuration gives the same answer, now and later. The Router
// therefore asks once and remembers. It asks on the request path, so an implementation answers from memory.
//
// The command comes lower-cased, as it stands in keys; the tenant is empty for a queue without one.
type ShardSupplier interface {
	// QueueShards lists the shards on which the queue may have tasks (more than one while it is spread or being moved).
	QueueShards(ctx context.Context, command, tenantID string) ([]string, error)
	// CurrentShard is the shard for new tasks and claims of the queue.
	CurrentShard(ctx context.Context, command, tenantID string) (string, error)
}

// TaskRouter is implemented by suppliers that spread one queue's tasks over several shards. QueueShards are then those that
// new tasks are made for, in turns, and CurrentShard has what a queue consists of besides tasks.
//
// A task waits where its own rows are, since a transition that touches both would need two shards otherwise. So TaskShard has to agree
// with Router.Home, which NewRouter checks with some ids.
type TaskRouter interface {
	TaskShard(ctx context.Context, command, tenantID, taskID string) (string, error)
}

// Options is what a Factory builds a supplier from.
type Options struct {
	Topology Topology
	// DefaultShard, Commands and Tenants are the mappings of the configuration;
	// a factory refuses those that its supplier does not use.
	DefaultShard string
	Commands     map[string]string // command, in any case → shard
	Tenants      map[string]string // tenant → shard
}

// Factory makes a supplier and refuses options that it cannot honour, in
// particular shards that the topology does not have.
type Factory func(Options) (ShardSupplier, error)

// Registry maps the names that the setting `supplier` may have to factories.
type Registry struct {
	factories map[string]Factory
}

// NewRegistry holds the built-in suppliers:
//
//	default  every queue on one shard
//	static   a tenant's shard, else a command's shard, else the default shard
//	hash     Hash64 of command and tenant over the default group
//	task     every queue over the default group, by its tasks' ids
func NewRegistry() *Registry {
	return &Registry{factories: map[string]Factory{
		"default": newDefault,
		"static":  newStatic,
		"hash":    newHash,
		"task":    newTask,
	}}
}

// Register adds a supplier of one's own under a name that is still free.
func (r *Registry) Register(name string, factory Factory) error {
	if name == "" || factory == nil {
		return fmt.Errorf("supplier %q: a supplier needs a name and a factory", name)
	}
	if _, taken := r.factories[name]; taken {
		return fmt.Errorf("supplier %q is registered already; choose another name", name)
	}
	r.factories[name] = factory
	return nil
}

// Names lists the suppliers in alphabetical order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.factories))
	for name := range r.factories {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New makes the supplier with this name.
func (r *Registry) New(name string, o Options) (ShardSupplier, error) {
	factory, ok := r.factories[name]
	if !ok {
		return nil, fmt.Errorf("there is no supplier %q; set supplier to one of %s", name, strings.Join(r.Names(), ", "))
	}
	if err := o.Topology.Validate(); err != nil {
		return nil, err
	}
	s, err := factory(o)
	if err != nil {
		return nil, fmt.Errorf("supplier %s: %w", name, err)
	}
	return s, nil
}
