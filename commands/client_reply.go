package commands

import (
	"codeq/commands/spec"
	"codeq/resp"
)

// CLIENT REPLY, and CLIENT TRACKING with what belongs to it. There is no tracking: what these commands tell is that it is off.

func clientReplyCommands() []Command {
	const own = spec.NoScript | spec.Loading | spec.Stale
	return []Command{
		{Command: spec.Command{Name: "client|reply", Syntax: "CLIENT REPLY <ON | OFF | SKIP>",
			Group: spec.Connection, Since: "3.2.0", Complexity: "O(1)",
			Differs: "OFF and SKIP within a transaction keep back the whole reply to EXEC (Redis: what comes behind OFF, and for SKIP an element of the array).",
			Summary: "Says whether the server replies to the connection's commands, or not to the next one.", Flags: own},
			Run: clientReplyCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|caching", Syntax: "CLIENT CACHING <YES | NO>",
			Group: spec.Connection, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Says whether the next command's keys are tracked, which none ever are.", Flags: own},
			Run: clientCachingCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|getredir", Syntax: "CLIENT GETREDIR",
			Group: spec.Connection, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Returns which client gets the connection's tracking messages.", Flags: own},
			Run: clientGetRedirCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|tracking",
			Syntax: "CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
			Group:  spec.Connection, Since: "6.0.0", Complexity: "O(1)",
			Differs: "ON is refused.",
			Summary: "Turns tracking off; it can't be turned on.", Flags: own},
			Run: clientTrackingCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|trackinginfo", Syntax: "CLIENT TRACKINGINFO",
			Group: spec.Connection, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Describes the connection's tracking.", Flags: own},
			Run: clientTrackingInfoCommand, Scope: scopeSession},
	}
}

// replyMode says what becomes of a session's replies.
type replyMode uint8

const (
	replyAll  replyMode = iota
	replyNone           // none is sent
	skipSoon            // the command at hand has asked to skip the next one's
	skipThis            // that of the command at hand is not sent
)

// keepBack takes back the reply of the command that was served last, if the client does not want it. A session that keeps
// replies back serves its commands one by one.
func (ss *session) keepBack(mark int) {
	if ss.replyMode == replyAll {
		return
	}
	if !ss.pushed {
		ss.conn.Out.Truncate(mark)
	}
	switch ss.replyMode {
	case skipSoon:
		ss.replyMode = skipThis
	case skipThis:
		ss.replyMode = replyAll
	}
}

// CLIENT REPLY ON | OFF | SKIP
func clientReplyCommand(c *Call) error {
	a, ss := c.args(1), c.session
	switch {
	case a.token("ON"):
		ss.replyMode = replyAll
		c.Out.OK()
	case a.token("OFF"):
		ss.replyMode = replyNone
	case a.token("SKIP"):
		if ss.replyMode != replyNone {
			ss.replyMode = skipSoon
		}
	default:
		return resp.ErrSyntax
	}
	return nil
}

// CLIENT CACHING YES | NO
func clientCachingCommand(*Call) error { return resp.ErrCachingNotTracking }

// CLIENT GETREDIR
func clientGetRedirCommand(c *Call) error {
	c.Out.Int(-1)
	return nil
}

// CLIENT TRACKING ON | OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
func clientTrackingCommand(c *Call) error {
	a := c.args(1)
	mode := a.bytes()
	for a.more() {
		switch {
		case a.token("BCAST"), a.token("OPTIN"), a.token("OPTOUT"), a.token("NOLOOP"):
		case len(a.rest) > 1 && a.token("REDIRECT"):
			a.integer()
		case len(a.rest) > 1 && a.token("PREFIX"):
			a.bytes()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	switch {
	case a.err != nil:
		return a.err
	case isToken(mode, "ON"):
		return resp.ErrNoTracking
	case !isToken(mode, "OFF"):
		return resp.ErrSyntax
	}
	c.Out.OK()
	return nil
}

// CLIENT TRACKINGINFO
func clientTrackingInfoCommand(c *Call) error {
	c.Out.Map(3)
	c.Out.BulkString("flags")
	c.Out.Set(1)
	c.Out.BulkString("off")
	c.Out.BulkString("redirect")
	c.Out.Int(-1)
	c.Out.BulkString("prefixes")
	c.Out.Array(0)
	return nil
}
