package commands

import (
	"bytes"
	"strings"

	"codeq/commands/spec"
	"codeq/resp"
)

// introspectionCommands are COMMAND and its subcommands: what the declarations say, for clients. Nothing of it is written by
// hand, so a new command needs no change here.
func introspectionCommands() []Command {
	const flags = spec.Loading | spec.Stale
	hints := []string{"nondeterministic_output_order"}
	return []Command{
		{Command: spec.Command{Name: "command", Syntax: "COMMAND", Arity: -1,
			Group: spec.Server, Since: "2.8.13", Complexity: "O(N), where N is the number of commands",
			Summary: "Describes all commands.", Flags: flags, ACL: spec.CatConnection, Hints: hints},
			Run: commandCommand},
		{Command: spec.Command{Name: "command|count", Syntax: "COMMAND COUNT",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Summary: "Counts the commands.", Flags: flags, ACL: spec.CatConnection},
			Run: commandCountCommand},
		{Command: spec.Command{Name: "command|docs", Syntax: "COMMAND DOCS [command-name [command-name ...]]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(N), where N is the number of commands asked for",
			Summary: "Returns the documentation of all or some commands.", Flags: flags, ACL: spec.CatConnection, Hints: hints},
			Run: commandDocsCommand},
		{Command: spec.Command{Name: "command|getkeys", Syntax: "COMMAND GETKEYS command arg [arg ...]",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(N), where N is the number of arguments",
			Differs: "Tells the key of PFMERGE without a source (Redis: an error). Refuses a number of keys that the command would refuse, such as +2 (Redis: reads as far as it can).",
			Summary: "Returns the keys of a whole call.", Flags: flags, ACL: spec.CatConnection},
			Run: commandGetKeysCommand(spec.WriteKeys)},
		{Command: spec.Command{Name: "command|getkeysandflags", Syntax: "COMMAND GETKEYSANDFLAGS command arg [arg ...]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(N), where N is the number of arguments",
			Differs: "As COMMAND GETKEYS.",
			Summary: "Returns the keys of a whole call, and how it uses each.", Flags: flags, ACL: spec.CatConnection},
			Run: commandGetKeysCommand(spec.WriteKeysAndFlags)},
		{Command: spec.Command{Name: "command|help", Syntax: "COMMAND HELP",
			Group: spec.Server, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: flags, ACL: spec.CatConnection},
			Run: helpCommand},
		{Command: spec.Command{Name: "command|info", Syntax: "COMMAND INFO [command-name [command-name ...]]",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(N), where N is the number of commands asked for",
			Summary: "Describes all or some commands.", Flags: flags, ACL: spec.CatConnection, Hints: hints},
			Run: commandInfoCommand},
		{Command: spec.Command{Name: "command|list", Syntax: "COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(N), where N is the number of commands",
			Summary: "Lists the names of the commands and subcommands.", Flags: flags, ACL: spec.CatConnection, Hints: hints},
			Run: commandListCommand},
	}
}

// COMMAND
func commandCommand(c *Call) error {
	all := c.server.table.Commands()
	c.Out.Array(len(all))
	for _, command := range all {
		spec.WriteInfo(c.Out, command)
	}
	return nil
}

// COMMAND COUNT
func commandCountCommand(c *Call) error {
	c.Out.Int(int64(c.server.table.Len()))
	return nil
}

// COMMAND DOCS [command-name [command-name ...]]. Names that do not exist are left out.
func commandDocsCommand(c *Call) error {
	wanted := c.server.table.Commands()
	if names := c.Args[2:]; len(names) > 0 {
		wanted = wanted[:0]
		for _, name := range names {
			if command, ok := c.server.table.Lookup(name); ok {
				wanted = append(wanted, &command.Command)
			}
		}
	}
	c.Out.Map(len(wanted))
	for _, command := range wanted {
		spec.WriteDocs(c.Out, command)
	}
	return nil
}

// COMMAND GETKEYS command arg [arg ...], and GETKEYSANDFLAGS
func commandGetKeysCommand(write func(spec.Sink, []spec.KeyRef, [][]byte)) Handler {
	return func(c *Call) error {
		call := c.Args[2:]
		keys, err := c.server.table.CallKeys(nil, call)
		if err != nil {
			c.Out.Error(err)
			return nil
		}
		write(c.Out, keys, call)
		return nil
	}
}

// COMMAND INFO [command-name [command-name ...]]
func commandInfoCommand(c *Call) error {
	names := c.Args[2:]
	if len(names) == 0 {
		return commandCommand(c)
	}
	c.Out.Array(len(names))
	for _, name := range names {
		if command, ok := c.server.table.Lookup(name); ok {
			spec.WriteInfo(c.Out, &command.Command)
		} else {
			spec.WriteInfo(c.Out, nil)
		}
	}
	return nil
}

// COMMAND LIST [FILTERBY MODULE module-name | ACLCAT category | PATTERN pattern]
func commandListCommand(c *Call) error {
	a := c.args(1)
	var keep func(*spec.Command) bool
	if a.token("FILTERBY") {
		switch {
		case a.token("MODULE"):
			a.bytes()
			keep = func(*spec.Command) bool { return false } // there are no modules
		case a.token("ACLCAT"):
			keep = spec.InCategory(string(a.bytes()))
		case a.token("PATTERN"):
			pattern := bytes.ToLower(a.bytes())
			keep = func(command *spec.Command) bool { return globMatch(pattern, []byte(command.Name)) }
		default:
			return resp.ErrSyntax
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	names := c.server.table.Names(keep)
	c.Out.Array(len(names))
	writeStrings(c.Out, names...)
	return nil
}

// helpCommand is HELP of every container: how each subcommand is called and what it does, from the declarations.
func helpCommand(c *Call) error {
	name, _, _ := strings.Cut(c.cmd.Name, "|")
	container, _ := c.server.table.Lookup([]byte(name))
	subcommands := container.Subcommands()
	c.Out.Array(1 + 2*len(subcommands))
	c.Out.Status(strings.ToUpper(name) + " has these subcommands:")
	for _, sub := range subcommands {
		c.Out.Status(strings.TrimPrefix(sub.Usage(), strings.ToUpper(name)+" "))
		c.Out.Status("    " + sub.Summary)
	}
	return nil
}

// Declarations lists the declarations of all commands, for docs/commands.md.
func Declarations() []spec.Command {
	var all []spec.Command
	for _, command := range families() {
		all = append(all, command.Command)
	}
	return all
}
