package commands

import (
	"strings"

	"codeq/commands/spec"
	"codeq/resp"
)

// clusterCommands are those of Redis Cluster. One process serves all shards on one address, so they answer what a Redis
// answers that is not part of a cluster.
func clusterCommands() []Command {
	const (
		read   = spec.Stale
		admin  = spec.Admin | spec.Stale
		change = admin | spec.NoAsyncLoading
		own    = spec.Loading | spec.Stale | spec.Fast
	)
	nondeterministic := []string{"nondeterministic_output"}
	all := []Command{{Command: spec.Command{Name: "cluster", Group: spec.Cluster, Since: "3.0.0", Complexity: "Depends on subcommand",
		Summary: "Holds the commands on the cluster."}}}
	for _, c := range []struct {
		syntax, since string
		flags         spec.Flags
		hints         []string
	}{
		{"ASKING", "3.0.0", spec.Fast, nil},
		{"CLUSTER ADDSLOTS slot [slot ...]", "3.0.0", change, nil},
		{"CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]", "7.0.0", change, nil},
		{"CLUSTER BUMPEPOCH", "3.0.0", change, nondeterministic},
		{"CLUSTER COUNT-FAILURE-REPORTS node-id", "3.0.0", admin, nondeterministic},
		{"CLUSTER COUNTKEYSINSLOT slot", "3.0.0", read, nil},
		{"CLUSTER DELSLOTS slot [slot ...]", "3.0.0", change, nil},
		{"CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]", "7.0.0", change, nil},
		{"CLUSTER FAILOVER [FORCE | TAKEOVER]", "3.0.0", change, nil},
		{"CLUSTER FLUSHSLOTS", "3.0.0", change, nil},
		{"CLUSTER FORGET node-id", "3.0.0", change, nil},
		{"CLUSTER GETKEYSINSLOT slot count", "3.0.0", read, nondeterministic},
		{"CLUSTER HELP", "5.0.0", spec.Loading | spec.Stale, nil},
		{"CLUSTER INFO", "3.0.0", read, nondeterministic},
		{"CLUSTER KEYSLOT key:string", "3.0.0", read, nil},
		{"CLUSTER LINKS", "7.0.0", read, nondeterministic},
		{"CLUSTER MEET ip port [cluster_bus_port]", "3.0.0", change, nil},
		{"CLUSTER MYID", "3.0.0", read, nil},
		{"CLUSTER NODES", "3.0.0", read, nondeterministic},
		{"CLUSTER REPLICAS node-id", "5.0.0", admin, nondeterministic},
		{"CLUSTER REPLICATE node-id", "3.0.0", change, nil},
		{"CLUSTER RESET [HARD | SOFT]", "3.0.0", admin | spec.NoScript, nil},
		{"CLUSTER SAVECONFIG", "3.0.0", change, nil},
		{"CLUSTER SET-CONFIG-EPOCH config-epoch", "3.0.0", change, nil},
		{"CLUSTER SETSLOT slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>", "3.0.0", change, nil},
		{"CLUSTER SHARDS", "7.0.0", read, nondeterministic},
		{"CLUSTER SLAVES node-id", "3.0.0", admin, nondeterministic},
		{"CLUSTER SLOTS", "3.0.0", read, nondeterministic},
		{"READONLY", "3.0.0", own, nil},
		{"READWRITE", "3.0.0", own, nil},
	} {
		all = append(all, clusterCommand(c.syntax, c.since, c.flags, c.hints))
	}
	return all
}

// clusterCommand makes a command that refuses, since the server is no cluster.
func clusterCommand(syntax, since string, flags spec.Flags, hints []string) Command {
	words := strings.Fields(strings.ToLower(syntax))
	c := spec.Command{Name: words[0], Syntax: syntax, Group: spec.Cluster, Since: since, Complexity: "O(1)",
		Summary: "Refuses: the server is not part of a cluster.", Flags: flags, Hints: hints}
	if words[0] == "cluster" {
		c.Name += "|" + words[1]
	} else {
		c.ACL = spec.CatConnection
	}
	switch c.Name {
	case "cluster|slaves":
		c.DocFlags, c.DeprecatedSince, c.ReplacedBy = spec.Deprecated, "5.0.0", "`CLUSTER REPLICAS`"
	case "cluster|slots":
		c.DocFlags, c.DeprecatedSince, c.ReplacedBy = spec.Deprecated, "7.0.0", "`CLUSTER SHARDS`"
	}
	return Command{Command: c, Run: refuseCommand(resp.ErrClusterDisabled)}
}
