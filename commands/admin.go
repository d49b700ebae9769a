package commands

import (
	"strconv"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/resp"
)

// serverCommands are the commands on the server and on whole databases. INFO's sections stand in info.go.
func serverCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.Loading | spec.Stale
	const danger = spec.CatDangerous | spec.CatKeyspace
	return []Command{
		{Command: spec.Command{Name: "info", Syntax: "INFO [section [section ...]]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns information and statistics about the server.",
			Flags:   spec.Loading | spec.Stale, ACL: spec.CatDangerous,
			Hints: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}},
			Run: infoCommand, Scope: scopeAll},
		{Command: spec.Command{Name: "config", Group: spec.Server, Since: "2.0.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on the configuration."}},
		{Command: spec.Command{Name: "config|get", Syntax: "CONFIG GET <parameter> [<parameter> ...]",
			Group: spec.Server, Since: "2.0.0", Complexity: "O(N), where N is the number of parameters asked for",
			Summary: "Returns the settings whose names fit the patterns.", Flags: admin},
			Run: configGetCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "config|help", Syntax: "CONFIG HELP",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "config|resetstat", Syntax: "CONFIG RESETSTAT",
			Group: spec.Server, Since: "2.0.0", Complexity: "O(N), where N is the number of commands",
			Summary: "Resets the statistics that INFO shows.", Flags: admin},
			Run: configResetStatCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "config|rewrite", Syntax: "CONFIG REWRITE",
			Group: spec.Server, Since: "2.8.0", Complexity: "O(1)",
			Summary: "Refuses: the configuration file is not changed by the server.", Flags: admin},
			Run: configRewriteCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "config|set", Syntax: "CONFIG SET parameter value [parameter value ...]",
			Group: spec.Server, Since: "2.0.0", Complexity: "O(N), where N is the number of parameters",
			Summary: "Changes settings until the next start, all or none.", Flags: admin,
			Hints: []string{"request_policy:all_nodes", "response_policy:all_succeeded"}},
			Run: configSetCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "dbsize", Syntax: "DBSIZE",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Counts the keys of the database.",
			Flags:   spec.ReadOnly | spec.Fast, ACL: spec.CatKeyspace,
			Hints: []string{"request_policy:all_shards", "response_policy:agg_sum"}},
			Run: dbSizeCommand, Scope: scopeAll},
		{Command: spec.Command{Name: "flushall", Syntax: "FLUSHALL [ASYNC | SYNC]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(N), where N is the number of databases",
			Summary: "Removes all keys of all databases.",
			Flags:   spec.Write, ACL: danger,
			Hints: []string{"request_policy:all_shards", "response_policy:all_succeeded"}},
			Run: flushAllCommand, Scope: scopeAll},
		{Command: spec.Command{Name: "flushdb", Syntax: "FLUSHDB [ASYNC | SYNC]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Removes all keys of the database.",
			Flags:   spec.Write, ACL: danger,
			Hints: []string{"request_policy:all_shards", "response_policy:all_succeeded"}},
			Run: flushDBCommand, Scope: scopeAll},
		{Command: spec.Command{Name: "time", Syntax: "TIME",
			Group: spec.Server, Since: "2.6.0", Complexity: "O(1)",
			Summary: "Returns the server's time, in seconds and microseconds.",
			Flags:   spec.Loading | spec.Stale | spec.Fast, Hints: []string{"nondeterministic_output"}},
			Run: timeCommand},
		{Command: spec.Command{Name: "lastsave", Syntax: "LASTSAVE",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the time of the server's start, since there are no snapshots.",
			Flags:   spec.Loading | spec.Stale | spec.Fast, ACL: spec.CatAdmin | spec.CatDangerous,
			Hints: []string{"nondeterministic_output"}},
			Run: lastSaveCommand},
		{Command: spec.Command{Name: "shutdown", Syntax: "SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(N), where N is the size of what is in memory only",
			Summary: "Stops the server; what was acknowledged is kept in any case.",
			Flags:   admin | spec.NoMulti | spec.AllowBusy},
			Run: shutdownCommand, Scope: scopeSession},
	}
}

// CONFIG GET parameter [parameter ...]
func configGetCommand(c *Call) error {
	patterns := make([]string, 0, len(c.Args)-2)
	for _, pattern := range c.Args[2:] {
		patterns = append(patterns, string(pattern))
	}
	found := c.server.config.Get(patterns...)
	c.Out.Map(len(found))
	for _, pair := range found {
		writeStrings(c.Out, pair.Name, pair.Value)
	}
	return nil
}

// CONFIG SET parameter value [parameter value ...]
func configSetCommand(c *Call) error {
	var pairs []config.Pair
	for a := c.args(1); a.more(); {
		pair := a.take(2)
		if a.err != nil {
			return a.err
		}
		pairs = append(pairs, config.Pair{Name: string(pair[0]), Value: string(pair[1])})
	}
	if err := c.server.config.Set(pairs...); err != nil {
		c.Out.Error(err)
		return nil
	}
	c.Out.OK()
	return nil
}

// CONFIG RESETSTAT
func configResetStatCommand(c *Call) error {
	c.server.resetStats()
	c.Out.OK()
	return nil
}

// CONFIG REWRITE
func configRewriteCommand(c *Call) error {
	if c.server.config.Current().File() == "" {
		return resp.ErrNoConfigFile
	}
	return resp.ErrConfigRewrite
}

// DBSIZE
func dbSizeCommand(c *Call) error {
	n, err := c.DB().Size()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// FLUSHALL [ASYNC | SYNC]
func flushAllCommand(c *Call) error {
	if err := checkFlush(c); err != nil {
		return err
	}
	for n := range c.server.config.Current().Databases {
		if err := c.DBAt(n).Flush(); err != nil {
			return err
		}
	}
	c.Out.OK()
	return nil
}

// FLUSHDB [ASYNC | SYNC]
func flushDBCommand(c *Call) error {
	if err := checkFlush(c); err != nil {
		return err
	}
	if err := c.DB().Flush(); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// checkFlush reads ASYNC or SYNC. They make no difference: the keys are gone at once, and their space is freed in the
// background.
func checkFlush(c *Call) error {
	a := c.args(0)
	if !a.token("ASYNC") {
		a.token("SYNC")
	}
	return a.done()
}

// TIME. In a script the time stands still.
func timeCommand(c *Call) error {
	now := c.server.clock.Now()
	if c.script {
		now = time.UnixMilli(c.DB().Now())
	}
	c.Out.Array(2)
	c.Out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.Out.BulkString(strconv.Itoa(now.Nanosecond() / int(time.Microsecond)))
	return nil
}

// LASTSAVE
func lastSaveCommand(c *Call) error {
	c.Out.Int(c.server.started.Unix())
	return nil
}

// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. There is nothing that FORCE would have to override, and nobody that NOW would
// not wait for. The connection ends without a reply, as in Redis.
func shutdownCommand(c *Call) error {
	var save, noSave, now, force, abort bool
	for a := c.args(0); a.more(); {
		switch {
		case a.token("SAVE"):
			save = true
		case a.token("NOSAVE"):
			noSave = true
		case a.token("NOW"):
			now = true
		case a.token("FORCE"):
			force = true
		case a.token("ABORT"):
			abort = true
		default:
			return resp.ErrSyntax
		}
	}
	switch {
	case save && noSave, abort && (save || noSave || now || force):
		return resp.ErrSyntax
	case abort:
		return resp.ErrNoShutdown
	}
	c.server.logger.Info("shutdown requested", "client", c.session.conn.ID, "addr", c.session.conn.Addr)
	c.session.conn.CloseAfterReply()
	c.server.stop(!noSave)
	return nil
}
