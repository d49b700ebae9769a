package commands

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/resp"
)

// aclCommands are the part of Redis' access control that one user needs who may do everything: default, whose password
// is requirepass.
func aclCommands() []Command {
	const (
		open  = spec.NoScript | spec.Loading | spec.Stale
		admin = spec.Admin | open
	)
	return []Command{
		{Command: spec.Command{Name: "acl", Group: spec.Server, Since: "6.0.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on users."}},
		{Command: spec.Command{Name: "acl|cat", Syntax: "ACL CAT [categoryname]",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(N), where N is the number of categories or commands",
			Differs: "Has the category `queue`, too.",
			Summary: "Lists the categories of commands, or the commands of one.", Flags: open},
			Run: aclCatCommand},
		{Command: spec.Command{Name: "acl|deluser", Syntax: "ACL DELUSER username [username ...]",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(N), where N is the number of names",
			Differs: "There is the user default only, who can't be removed.",
			Summary: "Returns 0: there is no user that could be removed.", Flags: admin},
			Run: aclDelUserCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "acl|dryrun", Syntax: "ACL DRYRUN username command [arg [arg ...]]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(1)",
			Differs: "Knows the user default only.",
			Summary: "Tells whether a user may carry out a command.", Flags: admin},
			Run: aclDryRunCommand},
		{Command: spec.Command{Name: "acl|genpass", Syntax: "ACL GENPASS [bits]",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Returns a random password.", Flags: open},
			Run: aclGenPassCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "acl|getuser", Syntax: "ACL GETUSER username",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Differs: "Knows the user default only.",
			Summary: "Describes a user.", Flags: admin},
			Run: aclGetUserCommand},
		{Command: spec.Command{Name: "acl|help", Syntax: "ACL HELP",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "acl|list", Syntax: "ACL LIST",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Describes all users in the form of rules.", Flags: admin},
			Run: aclListCommand},
		{Command: spec.Command{Name: "acl|load", Syntax: "ACL LOAD",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Refuses: there is no file of users.", Flags: admin},
			Run: refuseCommand(resp.ErrNoACLFile)},
		{Command: spec.Command{Name: "acl|log", Syntax: "ACL LOG [count | RESET]",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Differs: "Always empty.",
			Summary: "Returns nothing: there is no log of what was denied.", Flags: admin},
			Run: aclLogCommand},
		{Command: spec.Command{Name: "acl|save", Syntax: "ACL SAVE",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Refuses: there is no file of users.", Flags: admin},
			Run: refuseCommand(resp.ErrNoACLFile)},
		{Command: spec.Command{Name: "acl|setuser", Syntax: "ACL SETUSER username [rule [rule ...]]",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(N), where N is the number of rules",
			Differs: "Knows the user default only, who may do everything. `>password` and `nopass` set `requirepass`, which " +
				"CONFIG GET shows; other rules that Redis has are refused.",
			Summary: "Sets or removes the password of the user default.", Flags: admin},
			Run: aclSetUserCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "acl|users", Syntax: "ACL USERS",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Lists the users.", Flags: admin},
			Run: aclUsersCommand},
		{Command: spec.Command{Name: "acl|whoami", Syntax: "ACL WHOAMI",
			Group: spec.Server, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Returns the name of the user.", Flags: open},
			Run: aclWhoAmICommand},
	}
}

// ACL CAT [categoryname]
func aclCatCommand(c *Call) error {
	var names []string
	switch len(c.Args) {
	case 2:
		names = spec.CategoryNames()
	case 3:
		category := string(c.Args[2])
		if _, ok := spec.CategoryByName(category); !ok {
			return resp.ErrUnknownCategory(c.Args[2])
		}
		names = c.server.table.Names(spec.InCategory(category))
	default:
		return resp.ErrSubcommandArgs("ACL", c.Args[1])
	}
	c.Out.Array(len(names))
	writeStrings(c.Out, names...)
	return nil
}

// ACL DELUSER username [username ...]
func aclDelUserCommand(c *Call) error {
	for _, name := range c.Args[2:] {
		if string(name) == defaultUser {
			return resp.ErrDefaultUser
		}
	}
	c.Out.Int(0)
	return nil
}

// ACL DRYRUN username command [arg [arg ...]]
func aclDryRunCommand(c *Call) error {
	user, call := c.Args[2], c.Args[3:]
	if string(user) != defaultUser {
		return resp.ErrUserNotFound(user)
	}
	command, _ := c.server.table.Resolve(call)
	switch {
	case command == nil:
		return resp.ErrCommandNotFound(call[0])
	case !command.AcceptsArgs(len(call)):
		return resp.ErrWrongArgs(command.Name)
	}
	c.Out.OK()
	return nil
}

// What ACL GENPASS makes, in bits.
const (
	defaultPassBits = 256
	maxPassBits     = 4096
)

// ACL GENPASS [bits]
func aclGenPassCommand(c *Call) error {
	wanted := int64(defaultPassBits)
	switch len(c.Args) {
	case 2:
	case 3:
		n, ok := parseInt(c.Args[2])
		switch {
		case !ok:
			return resp.ErrNotInteger
		case n < 1 || n > maxPassBits:
			return resp.ErrGenPassBits
		}
		wanted = n
	default:
		return resp.ErrSubcommandArgs("ACL", c.Args[1])
	}
	digits := (wanted + 3) / 4
	random := make([]byte, (digits+1)/2)
	_, _ = rand.Read(random) // it never fails
	c.Out.BulkString(hex.EncodeToString(random)[:digits])
	return nil
}

// passwordHash is the SHA256 of the password, as ACL shows it; empty if there is none.
func (s *Server) passwordHash() string {
	password := s.config.Current().RequirePass
	if password == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// ACL GETUSER username
func aclGetUserCommand(c *Call) error {
	if string(c.Args[2]) != defaultUser {
		c.Out.Null()
		return nil
	}
	flags, passwords := []string{"on"}, []string{}
	if hash := c.server.passwordHash(); hash == "" {
		flags = append(flags, "nopass")
	} else {
		passwords = append(passwords, hash)
	}
	out := c.Out
	out.Map(6)
	out.BulkString("flags")
	out.Set(len(flags))
	writeStrings(out, flags...)
	out.BulkString("passwords")
	out.Array(len(passwords))
	writeStrings(out, passwords...)
	writeStrings(out, "commands", "+@all", "keys", "~*", "channels", "&*", "selectors")
	out.Array(0)
	return nil
}

// ACL LIST
func aclListCommand(c *Call) error {
	password := "nopass"
	if hash := c.server.passwordHash(); hash != "" {
		password = "#" + hash
	}
	c.Out.Array(1)
	c.Out.BulkString("user " + defaultUser + " on " + password + " ~* &* +@all")
	return nil
}

// ACL LOG [count | RESET]
func aclLogCommand(c *Call) error {
	switch {
	case len(c.Args) > 3:
		return resp.ErrSubcommandArgs("ACL", c.Args[1])
	case len(c.Args) == 3 && isToken(c.Args[2], "RESET"):
		c.Out.OK()
		return nil
	case len(c.Args) == 3:
		if _, ok := parseInt(c.Args[2]); !ok {
			return resp.ErrNotInteger
		}
	}
	c.Out.Array(0)
	return nil
}

// ACL SETUSER username [rule [rule ...]]. Of the rules, those that describe the user default as it is are accepted, and
// those that give it a password or none are carried out.
func aclSetUserCommand(c *Call) error {
	if string(c.Args[2]) != defaultUser {
		return resp.ErrOneUser
	}
	password, change := "", false
	for _, rule := range c.Args[3:] {
		switch strings.ToLower(string(rule)) {
		case "on", "~*", "allkeys", "&*", "allchannels", "+@all", "allcommands":
			continue
		case "nopass":
			password, change = "", true
			continue
		}
		if text, ok := bytes.CutPrefix(rule, []byte(">")); ok && len(text) > 0 {
			password, change = string(text), true
			continue
		}
		return aclRuleError(rule)
	}
	if change {
		if err := c.server.config.Set(config.Pair{Name: "requirepass", Value: password}); err != nil {
			return err
		}
	}
	c.Out.OK()
	return nil
}

// aclRuleError tells a rule that Redis has from one that it hasn't.
func aclRuleError(rule []byte) error {
	switch strings.ToLower(string(rule)) {
	case "off", "reset", "resetpass", "resetkeys", "resetchannels", "clearselectors", "nocommands", "sanitize-payload", "skip-sanitize-payload":
		return resp.ErrOneUser
	}
	if len(rule) > 1 && bytes.IndexByte([]byte("><#!~%&+-("), rule[0]) >= 0 {
		return resp.ErrOneUser
	}
	return resp.ErrACLModifier(rule)
}

// ACL USERS
func aclUsersCommand(c *Call) error {
	c.Out.Array(1)
	c.Out.BulkString(defaultUser)
	return nil
}

// ACL WHOAMI
func aclWhoAmICommand(c *Call) error {
	c.Out.BulkString(defaultUser)
	return nil
}
