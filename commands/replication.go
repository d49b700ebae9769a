package commands

import (
	"codeq/commands/spec"
	"codeq/resp"
)

// replicationCommands are those of Redis on replicas. There are none: the commands that ask say so, and those that
// would make a replica refuse.
func replicationCommands() []Command {
	const (
		admin = spec.Admin | spec.NoScript
		none  = "Refuses: there is no replication."
	)
	return []Command{
		{Command: spec.Command{Name: "failover", Syntax: "FAILOVER [TO <host port [FORCE]>] [ABORT] [TIMEOUT milliseconds]",
			Group: spec.Server, Since: "6.2.0", Complexity: "O(1)",
			Differs: "Always replies that it needs replicas.",
			Summary: none, Flags: admin | spec.Stale},
			Run: refuseCommand(resp.ErrNoReplicas), Scope: scopeSession},
		{Command: spec.Command{Name: "psync", Syntax: "PSYNC replicationid offset", Arity: -3,
			Group: spec.Server, Since: "2.8.0", Complexity: "O(1)",
			Differs: "Refused: there is no replication.",
			Summary: none, Flags: admin | spec.NoAsyncLoading | spec.NoMulti},
			Run: refuseCommand(resp.ErrNoReplication), Scope: scopeSession},
		{Command: spec.Command{Name: "replconf", Syntax: "REPLCONF", Arity: -1,
			Group: spec.Server, Since: "3.0.0", Complexity: "O(1)",
			Differs: "Refused: there is no replication.",
			Summary: none, Flags: admin | spec.Loading | spec.Stale | spec.AllowBusy, DocFlags: spec.SysCmd},
			Run: refuseCommand(resp.ErrNoReplication), Scope: scopeSession},
		{Command: spec.Command{Name: "replicaof", Syntax: "REPLICAOF <host port | NO ONE>",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Differs: "Takes NO ONE only.",
			Summary: "Accepts NO ONE and refuses all else: there is no replication.",
			Flags:   admin | spec.Stale | spec.NoAsyncLoading},
			Run: replicaOfCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "role", Syntax: "ROLE",
			Group: spec.Server, Since: "2.8.12", Complexity: "O(1)",
			Summary: "Returns that the server is a master without replicas.",
			Flags:   spec.NoScript | spec.Loading | spec.Stale | spec.Fast, ACL: spec.CatAdmin | spec.CatDangerous},
			Run: roleCommand},
		{Command: spec.Command{Name: "slaveof", Syntax: "SLAVEOF <host port | NO ONE>",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Differs:  "Takes NO ONE only.",
			Summary:  "Accepts NO ONE and refuses all else: there is no replication.",
			Flags:    admin | spec.Stale | spec.NoAsyncLoading,
			DocFlags: spec.Deprecated, DeprecatedSince: "5.0.0", ReplacedBy: "`REPLICAOF`"},
			Run: replicaOfCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "sync", Syntax: "SYNC",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Differs: "Refused: there is no replication.",
			Summary: none, Flags: admin | spec.NoAsyncLoading | spec.NoMulti},
			Run: refuseCommand(resp.ErrNoReplication), Scope: scopeSession},
		{Command: spec.Command{Name: "wait", Syntax: "WAIT numreplicas timeout:integer",
			Group: spec.Generic, Since: "3.0.0", Complexity: "O(1)",
			Differs: "Replies 0 at once, whatever the timeout: there are no replicas.",
			Summary: "Returns 0 at once: there are no replicas to wait for.",
			Flags:   spec.NoScript, ACL: spec.CatConnection,
			Hints: []string{"request_policy:all_shards", "response_policy:agg_min"}},
			Run: waitCommand},
	}
}

// refuseCommand is the handler of a command that does nothing but to say why it can't be carried out.
func refuseCommand(why resp.Error) Handler { return func(*Call) error { return why } }

// REPLICAOF NO ONE
// SLAVEOF NO ONE
func replicaOfCommand(c *Call) error {
	if isToken(c.Args[1], "NO") && isToken(c.Args[2], "ONE") {
		c.Out.OK()
		return nil
	}
	if port, ok := parseInt(c.Args[2]); !ok || port < 0 || port > 65535 {
		return resp.ErrMasterPort
	}
	return resp.ErrNoReplication
}

// ROLE
func roleCommand(c *Call) error {
	c.Out.Array(3)
	c.Out.BulkString("master")
	c.Out.Int(0)
	c.Out.Array(0)
	return nil
}

// WAIT numreplicas timeout. Redis would wait for the timeout, for replicas that might yet come.
func waitCommand(c *Call) error {
	if _, ok := parseInt(c.Args[1]); !ok {
		return resp.ErrNotInteger
	}
	timeout, ok := parseInt(c.Args[2])
	switch {
	case !ok:
		return resp.ErrTimeoutNotInteger
	case timeout < 0:
		return resp.ErrTimeoutNegative
	}
	c.Out.Int(0)
	return nil
}
