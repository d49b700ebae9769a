package commands

import (
	"errors"
	"fmt"
	"slices"

	"codeq/commands/spec"
)

// families lists the commands of this server.
func families() []Command {
	return slices.Concat(
		stringCommands(), keyCommands(), dumpCommands(), copyCommands(), migrateCommands(), listCommands(), blockingCommands(), hashCommands(), setCommands(), zsetCommands(),
		transactionCommands(), scriptCommands(), functionCommands(), sortCommands(), streamCommands(),
		bitmapCommands(), hyperLogLogCommands(), geoCommands(), zsetAlgebraCommands(), hashRandomCommands(), lcsCommands(),
		connectionCommands(), queueCommands(), queueAdminCommands(), serverCommands(), configCommands(), introspectionCommands(),
		objectCommands(), memoryCommands(), debugCommands(), slowLogCommands(), latencyCommands(), aclCommands(),
		pubSubCommands(), monitorCommands(), clientPauseCommands(), clientReplyCommands(),
		replicationCommands(), clusterCommands(), persistenceCommands(), moduleCommands(),
	)
}

// newRegistry indexes the commands. Its error lists every fault of the declarations.
func newRegistry(commands []Command) (*spec.Table[Command], error) {
	var faults []error
	for i := range commands {
		c := &commands[i]
		c.stats = new(commandStats)
		c.Reads = c.Reads || c.Flags&spec.ReadOnly != 0 && c.HasKeys()
		c.storesUnread = c.Reads && c.Flags&spec.ReadOnly == 0 && c.Keys.StoresUnread()
		faults = append(faults, c.faults()...)
	}
	table, err := spec.NewTable(commands, func(c *Command) *spec.Command { return &c.Command })
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	return table, nil
}

// faults holds the parts of the declaration that this package adds against the others; spec checks its own.
func (c *Command) faults() (faults []error) {
	when := func(bad bool, what string) {
		if bad {
			faults = append(faults, fmt.Errorf("command %q: %s", c.Name, what))
		}
	}
	when(c.Run == nil && !c.IsContainer(), "has no handler")
	when(c.Run != nil && c.IsContainer(), "is a container, whose handler would never run")
	when(c.Scope > scopeApart, "has an unknown scope")
	when(c.HasKeys() && c.Scope != scopeKeys && c.Scope != scopeOwn && c.Scope != scopeApart, "has keys, but its scope has no use for them")
	when(c.Shards != nil && (c.HasKeys() || c.Scope != scopeKeys), "finds its shards in two ways")
	// A script runs its commands within its own transaction.
	when(c.Scope == scopeOwn && c.Flags&spec.NoScript == 0, "needs a transaction of its own, so scripts can't run it")
	return faults
}
