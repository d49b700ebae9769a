package commands

import (
	"strconv"
	"sync/atomic"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/internal/version"
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
		{Command: spec.Command{Name: "lolwut", Syntax: "LOLWUT [VERSION version]",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Draws a queue, and tells the version.",
			Flags:   spec.ReadOnly | spec.Fast},
			Run: lolwutCommand},
		{Command: spec.Command{Name: "shutdown", Syntax: "SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(N), where N is the size of what is in memory only",
			Summary: "Stops the server; what was acknowledged is kept in any case.",
			Flags:   admin | spec.NoMulti | spec.AllowBusy},
			Run: shutdownCommand, Scope: scopeSession},
	}
}

// persistenceCommands are those on Redis' snapshots and on its log. Here everything is stored all the time, so there is little
// for them to do.
func persistenceCommands() []Command {
	const admin = spec.Admin | spec.NoScript | spec.NoAsyncLoading
	return []Command{
		{Command: spec.Command{Name: "bgrewriteaof", Syntax: "BGREWRITEAOF",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Confirms: the commit log is kept short all the time.",
			Flags:   admin},
			Run: bgRewriteAOFCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "bgsave", Syntax: "BGSAVE [SCHEDULE]",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Does what SAVE does: nothing has to be done in the background.",
			Flags:   admin},
			Run: bgSaveCommand, Scope: scopeAll},
		{Command: spec.Command{Name: "lastsave", Syntax: "LASTSAVE",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the time of the last SAVE, or else of the server's start.",
			Flags:   spec.Loading | spec.Stale | spec.Fast, ACL: spec.CatAdmin | spec.CatDangerous,
			Hints: []string{"nondeterministic_output"}},
			Run: lastSaveCommand},
		{Command: spec.Command{Name: "save", Syntax: "SAVE",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Waits until everything that anybody has written is as durable as appendfsync promises.",
			Flags:   admin | spec.NoMulti},
			Run: saveCommand, Scope: scopeAll},
	}
}

// moduleCommands are those on modules, which can't be loaded.
func moduleCommands() []Command {
	const (
		admin = spec.Admin | spec.NoScript
		none  = "Refuses: there are no modules."
	)
	refuse := refuseCommand(resp.ErrModuleNotAllowed)
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
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)", Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse},
		{Command: spec.Command{Name: "module|loadex", Syntax: "MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS <arg> [<arg> ...]]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(1)", Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse},
		{Command: spec.Command{Name: "module|unload", Syntax: "MODULE UNLOAD name",
			Group: spec.Server, Since: "4.0.0", Complexity: "O(1)", Summary: none, Flags: admin | spec.NoAsyncLoading},
			Run: refuse},
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

// saves is what is known of SAVE and BGSAVE.
type saves struct {
	last atomic.Int64 // unix seconds; 0: none since the start
}

// SAVE. Since it holds all shards, its reply waits for the log like one that has read everything: see Acknowledge.
func saveCommand(c *Call) error {
	c.server.saves.last.Store(c.DB().Now() / unitSeconds)
	c.Out.OK()
	return nil
}

// BGSAVE [SCHEDULE]
func bgSaveCommand(c *Call) error {
	a := c.args(0)
	a.token("SCHEDULE")
	if err := a.done(); err != nil {
		return err
	}
	c.server.saves.last.Store(c.DB().Now() / unitSeconds)
	c.Out.Status("Background saving started")
	return nil
}

// BGREWRITEAOF
func bgRewriteAOFCommand(c *Call) error {
	c.Out.Status("Background append only file rewriting started")
	return nil
}

// LASTSAVE
func lastSaveCommand(c *Call) error {
	c.Out.Int(c.server.lastSave())
	return nil
}

// lastSave is the time of the last SAVE, or else that of the start, in unix seconds.
func (s *Server) lastSave() int64 {
	if last := s.saves.last.Load(); last != 0 {
		return last
	}
	return s.started.Unix()
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
