package commands

import (
	"crypto/sha256"
	"crypto/subtle"

	"codeq/commands/spec"
	"codeq/resp"
)

// connectionCommands are the commands on the connection itself. Those of CLIENT stand in clients.go. A new command gets
// an entry here; one that changes the session has scopeSession.
func connectionCommands() []Command {
	session := spec.NoScript | spec.Loading | spec.Stale | spec.Fast | spec.NoAuth | spec.AllowBusy
	return append([]Command{
		{Command: spec.Command{Name: "ping", Syntax: "PING [message]",
			Group: spec.Connection, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Replies PONG, or the message.",
			Flags:   spec.Fast,
			Hints:   []string{"request_policy:all_shards", "response_policy:all_succeeded"}},
			Run: pingCommand},
		{Command: spec.Command{Name: "echo", Syntax: "ECHO message",
			Group: spec.Connection, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Replies the message.",
			Flags:   spec.Loading | spec.Stale | spec.Fast},
			Run: echoCommand},
		{Command: spec.Command{Name: "hello", Syntax: "HELLO [protover [AUTH username password] [SETNAME clientname]]",
			Group: spec.Connection, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Chooses the protocol version, authenticates and names the connection, and describes the server.",
			Flags:   session},
			Run: helloCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "auth", Syntax: "AUTH [username] password",
			Group: spec.Connection, Since: "1.0.0", Complexity: "O(N), where N is the length of the password",
			Differs: "Knows the user default only.",
			Summary: "Authenticates the connection.",
			Flags:   session},
			Run: authCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "select", Syntax: "SELECT index",
			Group: spec.Connection, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Changes the database of the connection.",
			Flags:   spec.Loading | spec.Stale | spec.Fast},
			Run: selectCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "quit", Syntax: "QUIT", Arity: -1,
			Group: spec.Connection, Since: "1.0.0", Complexity: "O(1)",
			Summary: "Closes the connection after its replies are sent.",
			Flags:   session},
			Run: quitCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "reset", Syntax: "RESET",
			Group: spec.Connection, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Makes the connection like a new one.",
			Flags:   session},
			Run: resetCommand, Scope: scopeSession},
	}, clientCommands()...)
}

// defaultUser is the one user that there is.
const defaultUser = "default"

// PING [message]. To a client of RESP2 that has subscriptions the reply looks like a message.
func pingCommand(c *Call) error {
	if len(c.Args) <= 2 && c.session.restricted() {
		c.Out.Array(2)
		c.Out.BulkString("pong")
		c.Out.Bulk(append(c.Args, nil)[1])
		return nil
	}
	switch len(c.Args) {
	case 1:
		c.Out.Status("PONG")
	case 2:
		c.Out.Bulk(c.Args[1])
	default:
		return resp.ErrWrongArgs(c.cmd.Name)
	}
	return nil
}

// ECHO message
func echoCommand(c *Call) error {
	c.Out.Bulk(c.Args[1])
	return nil
}

// greeting is what HELLO asks for; nil means that it was not given.
type greeting struct {
	proto              int
	username, password []byte
	name               []byte
}

// HELLO [protover [AUTH username password] [SETNAME clientname]]
func helloCommand(c *Call) error {
	g, err := parseHello(c)
	if err != nil {
		return err
	}
	ss := c.session
	switch {
	case g.username != nil && !c.server.passwordFits(g.username, g.password):
		return resp.ErrWrongPass
	case g.username != nil:
		ss.setAuthenticated(true)
	case !ss.authenticated && c.server.config.Current().RequirePass != "":
		return resp.ErrHelloNoAuth
	}
	if g.name != nil {
		ss.change(func(v *view) { v.name = string(g.name) })
	}
	if g.proto != 0 {
		ss.setProto(g.proto)
	}
	out := c.Out
	out.Map(7)
	writeStrings(out, "server", "redis", "version", redisVersion, "proto")
	out.Int(int64(out.Proto()))
	out.BulkString("id")
	out.Int(ss.conn.ID)
	writeStrings(out, "mode", "standalone", "role", "master", "modules")
	out.Array(0)
	return nil
}

func writeStrings(out *resp.Writer, all ...string) {
	for _, s := range all {
		out.BulkString(s)
	}
}

func parseHello(c *Call) (g greeting, err error) {
	a := c.args(0)
	if a.more() {
		version, ok := parseInt(a.bytes())
		switch {
		case !ok:
			return g, resp.ErrProtoVersion
		case version != 2 && version != 3:
			return g, resp.ErrNoProto
		}
		g.proto = int(version)
	}
	for a.more() {
		option := a.bytes()
		switch {
		case isToken(option, "AUTH") && len(a.rest) >= 2:
			g.username, g.password = a.bytes(), a.bytes()
		case isToken(option, "SETNAME") && len(a.rest) >= 1:
			if g.name = a.bytes(); !isClientName(g.name) {
				return g, resp.ErrClientName
			}
		default:
			return g, resp.ErrHelloOption(option)
		}
	}
	return g, nil
}

// AUTH [username] password
func authCommand(c *Call) error {
	user, password := []byte(defaultUser), c.Args[1]
	switch len(c.Args) {
	case 2:
		if c.server.config.Current().RequirePass == "" {
			return resp.ErrAuthNoPassword
		}
	case 3:
		user, password = c.Args[1], c.Args[2]
	default:
		return resp.ErrSyntax
	}
	if !c.server.passwordFits(user, password) {
		return resp.ErrWrongPass
	}
	c.session.setAuthenticated(true)
	c.Out.OK()
	return nil
}

// passwordFits compares in a time that does not depend on where the passwords differ. Without requirepass any password of the
// default user fits, as in Redis.
func (s *Server) passwordFits(user, password []byte) bool {
	if string(user) != defaultUser {
		return false
	}
	want := s.config.Current().RequirePass
	if want == "" {
		return true
	}
	given, required := sha256.Sum256(password), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(given[:], required[:]) == 1
}

// SELECT index
func selectCommand(c *Call) error {
	n, err := c.database(c.Args[1])
	if err != nil {
		return err
	}
	c.selectDB(n)
	c.Out.OK()
	return nil
}

// QUIT
func quitCommand(c *Call) error {
	c.session.conn.CloseAfterReply()
	c.Out.OK()
	return nil
}

// RESET
func resetCommand(c *Call) error {
	c.session.reset()
	c.Out.Status("RESET")
	return nil
}
