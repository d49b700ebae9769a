package commands

import (
	"strconv"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/internal/version"
	"codeq/resp"
	"codeq/shard"
)

// serverCommands are the commands on the server and on whole databases. INFO's sections stand in info.go.
func serverCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.Loading | spec.Stale
	const danger = spec.CatDangerous | spec.CatKeyspace
	return []Command{
		{Command: spec.Command{Name: "info", Syntax: "INFO [section [section ...]]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Differs: "Fields that have no counterpart are left out. `errorstats` tells 128 codes apart. The error of " +
				"a command in a script that fails by it counts for the script as well. The rates per second are those " +
				"between two INFOs that are at least a second apart. A partitioned key counts as a hit or miss by the " +
				"shard that is looked at first. XREAD and XREADGROUP of one key count one lookup (Redis: two). " +
				"Shards that do not answer within 100 ms are left out and named in `shards_unanswered`; what " +
				"`Stats` counts of them is what they last told.",
			Summary: "Returns information and statistics about the server.",
			Flags:   spec.Loading | spec.Stale, ACL: spec.CatDangerous,
			Hints: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}},
			Run: infoCommand, Scope: scopeSession},
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
		{Command: spec.Command{Name: "lolwut", Syntax: "LOLWUT [VERSION version]",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Differs: "Draws something else, whatever the version.",
			Summary: "Draws a queue, and tells the version.",
			Flags:   spec.ReadOnly | spec.Fast},
			Run: lolwutCommand},
		{Command: spec.Command{Name: "shutdown", Syntax: "SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(N), where N is the size of what is in memory only",
			Differs: "SAVE and NOSAVE both keep everything that was acknowledged. There is nothing that FORCE and NOW would " +
				"change.",
			Summary: "Stops the server; what was acknowledged is kept in any case.",
			Flags:   admin | spec.NoMulti | spec.AllowBusy},
			Run: shutdownCommand, Scope: scopeSession},
	}
}

// configCommands read and change the settings.
func configCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.Loading | spec.Stale
	return []Command{
		{Command: spec.Command{Name: "config", Group: spec.Server, Since: "2.0.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on the configuration."}},
		{Command: spec.Command{Name: "config|get", Syntax: "CONFIG GET <parameter> [<parameter> ...]",
			Group: spec.Server, Since: "2.0.0", Complexity: "O(N), where N is the number of parameters asked for",
			Differs: "Knows the settings in docs/configuration.md.",
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
			Differs: "Always an error: the file is YAML written by people, comments included.",
			Summary: "Refuses: the configuration file is not changed by the server.", Flags: admin},
			Run: configRewriteCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "config|set", Syntax: "CONFIG SET parameter value [parameter value ...]",
			Group: spec.Server, Since: "2.0.0", Complexity: "O(N), where N is the number of parameters",
			Differs: "Knows the settings in docs/configuration.md.",
			Summary: "Changes settings until the next start, all or none.", Flags: admin,
			Hints: []string{"request_policy:all_nodes", "response_policy:all_succeeded"}},
			Run: configSetCommand, Scope: scopeSession},
	}
}

// moduleCommands are those on modules, which can't be loaded.
func moduleCommands() []Command {
	const (
		admin = spec.Admin | spec.NoScript
		none  = "Refuses: there are no modules."
	)
	bar := func(*session) error { return resp.ErrModuleNotAllowed }
	refuse := refuseCommand(resp.ErrModuleNotAllowed) // which nobody gets to
	return []Command{
		{Command: spec.Command{Name: "module", Group: spec.Server, Since: "4.0.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on modules."}},
		{Command: spec.Command{Name: "module|help", Syntax: "MODULE HELP",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "module|list", Syntax: "MODULE LIST",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)",
			Summary: "Returns nothing: there are no modules.", Flags: admin,
			Hints: []string{"nondeterministic_output_order"}},
			Run: moduleListCommand},
		{Command: spec.Command{Name: "module|load", Syntax: "MODULE LOAD path [arg [arg ...]]",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)", Differs: "Always refused, as in Redis unless `enable-module-command` allows it.",
			Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse, Bar: bar},
		{Command: spec.Command{Name: "module|loadex", Syntax: "MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS <arg> [<arg> ...]]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(1)", Differs: "Always refused, as in Redis unless `enable-module-command` allows it.",
			Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse, Bar: bar},
		{Command: spec.Command{Name: "module|unload", Syntax: "MODULE UNLOAD name",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)", Differs: "Always refused, as in Redis unless `enable-module-command` allows it.",
			Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse, Bar: bar},
	}
}

// MODULE LIST
func moduleListCommand(c *Call) error {
	c.Out.Array(0)
	return nil
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
	c.Out.OK()
	return c.observe(c.server.store.All(), func(tx *shard.Tx) error {
		c.server.resetStats(tx)
		return nil
	})
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

// TIME. In a script the time stands still: it is that of its transaction.
func timeCommand(c *Call) error {
	now := c.server.clock.Now()
	if c.script {
		now = c.tx.Began()
	}
	c.Out.Array(2)
	c.Out.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.Out.BulkString(strconv.Itoa(now.Nanosecond() / int(time.Microsecond)))
	return nil
}

// LOLWUT [VERSION version]
func lolwutCommand(c *Call) error {
	a := c.args(0)
	if len(a.rest) > 1 && a.token("VERSION") {
		a.integer()
	}
	if a.err != nil {
		return a.err
	}
	const queue = "  ( o)>  ( o)>  ( o)>  ( o)>  ( o)>   [ worker ]\n"
	c.Out.Verbatim("txt", queue+"codeq "+version.Number+", Redis ver. "+redisVersion+"\n")
	return nil
}

// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. There is nothing that FORCE would have to override, and nobody that NOW would
// not wait for. While a script runs past its limit only NOSAVE is accepted, which ends the script whatever it has written: it leaves
// nothing. The connection ends without a reply, as in Redis.
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
	case !noSave && c.server.scripts.Busy():
		return scriptError(c.server.scripts.BusyError())
	case noSave:
		c.server.scripts.StopLate()
	}
	c.server.logger.Info("shutdown requested", "client", c.session.conn.ID, "addr", c.session.conn.Addr)
	c.session.conn.CloseAfterReply()
	c.server.stop(!noSave)
	return nil
}
