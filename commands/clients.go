package commands

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"codeq/commands/spec"
	"codeq/resp"
)

// clientCommands are CLIENT's subcommands: the session's own state, and what can be seen of, and done to, others.
func clientCommands() []Command {
	const (
		own   = spec.NoScript | spec.Loading | spec.Stale
		admin = spec.Admin | own
	)
	return []Command{
		{Command: spec.Command{Name: "client", Group: spec.Connection, Since: "2.4.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on client connections."}},
		{Command: spec.Command{Name: "client|getname", Syntax: "CLIENT GETNAME",
			Group: spec.Connection, Since: "2.6.9", Complexity: "O(1)",
			Summary: "Returns the name of the connection.", Flags: own},
			Run: clientGetNameCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|help", Syntax: "CLIENT HELP",
			Group: spec.Connection, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "client|id", Syntax: "CLIENT ID",
			Group: spec.Connection, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Returns the id of the connection.", Flags: own},
			Run: clientIDCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|info", Syntax: "CLIENT INFO",
			Group: spec.Connection, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Describes the connection.", Flags: own, Hints: []string{"nondeterministic_output"}},
			Run: clientInfoCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|kill", Syntax: "CLIENT KILL <ip:port | <ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username | ADDR ip:port | LADDR ip:port | SKIPME yes/no> [<ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username | ADDR ip:port | LADDR ip:port | SKIPME yes/no> ...]>",
			Group: spec.Connection, Since: "2.4.0", Complexity: "O(N), where N is the number of connections",
			Summary: "Closes the connections that fit all filters.", Flags: admin},
			Run: clientKillCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|list", Syntax: "CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID <client-id [client-id ...]>]",
			Group: spec.Connection, Since: "2.4.0", Complexity: "O(N), where N is the number of connections",
			Summary: "Describes the connections.", Flags: admin, Hints: []string{"nondeterministic_output"}},
			Run: clientListCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|no-evict", Syntax: "CLIENT NO-EVICT <ON | OFF>",
			Group: spec.Connection, Since: "7.0.0", Complexity: "O(1)",
			Summary: "Keeps the connection from being evicted, which no connection ever is.", Flags: admin},
			Run: clientNoEvictCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|no-touch", Syntax: "CLIENT NO-TOUCH <ON | OFF>",
			Group: spec.Connection, Since: "7.2.0", Complexity: "O(1)",
			Differs: "Redis has it since 7.2.",
			Summary: "Keeps the connection's commands from counting as uses of a key, which none ever do.", Flags: own},
			Run: clientNoTouchCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|setinfo", Syntax: "CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>",
			Group: spec.Connection, Since: "7.2.0", Complexity: "O(1)",
			Differs: "Redis has it since 7.2.",
			Summary: "Notes the name or the version of the client's library.", Flags: own},
			Run: clientSetInfoCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|setname", Syntax: "CLIENT SETNAME connection-name",
			Group: spec.Connection, Since: "2.6.9", Complexity: "O(1)",
			Summary: "Names the connection.", Flags: own},
			Run: clientSetNameCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "client|unblock", Syntax: "CLIENT UNBLOCK client-id [TIMEOUT | ERROR]",
			Group: spec.Connection, Since: "5.0.0", Complexity: "O(log N) where N is the number of connections",
			Differs: "Does nothing for a client whose command a pause holds; Redis replies for that command, or crashes.",
			Summary: "Ends the waiting of a blocked client.", Flags: admin},
			Run: clientUnblockCommand, Scope: scopeSession},
	}
}

// CLIENT GETNAME
func clientGetNameCommand(c *Call) error {
	if name := c.session.view.name; name != "" {
		c.Out.BulkString(name)
	} else {
		c.Out.Null()
	}
	return nil
}

// CLIENT ID
func clientIDCommand(c *Call) error {
	c.Out.Int(c.session.conn.ID)
	return nil
}

// CLIENT INFO
func clientInfoCommand(c *Call) error {
	c.Out.Verbatim("txt", string(appendClient(nil, c.session.conn, c.server.clock.Now())))
	return nil
}

// CLIENT LIST [TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id [client-id ...]]. As in Redis it is one or the
// other.
func clientListCommand(c *Call) error {
	a := c.args(1)
	kind := clientKind(0)
	var ids []int64
	switch {
	case a.token("TYPE"):
		kind = a.clientKind()
	case len(a.rest) > 1 && a.token("ID"):
		for a.more() {
			id, ok := parseInt(a.bytes())
			if !ok {
				return resp.ErrInvalidClientID
			}
			ids = append(ids, id)
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	c.Out.Verbatim("txt", string(c.server.listClients(kind, ids)))
	return nil
}

// listClients describes the clients with these ids, in this order, or else those of the kind.
func (s *Server) listClients(kind clientKind, ids []int64) []byte {
	var lines []byte
	now := s.clock.Now()
	for _, id := range ids {
		if conn := s.network.Find(id); conn != nil {
			lines = appendClient(lines, conn, now)
		}
	}
	if ids != nil {
		return lines
	}
	s.network.Each(func(conn *resp.Session) bool {
		if kind == 0 || kind == kindOf(conn) {
			lines = appendClient(lines, conn, now)
		}
		return true
	})
	return lines
}

// appendClient appends a client's line of CLIENT LIST. Of its buffers only what waits to be read by the client is accounted
// for; there are no file descriptors to be seen and no redirections.
func appendClient(dst []byte, conn *resp.Session, now time.Time) []byte {
	v := sessionOf(conn).show()
	seconds := func(since time.Time) int64 { return max(0, int64(now.Sub(since)/time.Second)) }
	unread, events := conn.Unread(), "r"
	if unread > 0 {
		events = "rw"
	}
	return fmt.Appendf(dst, "id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d "+
		"qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=%d rbs=0 rbp=0 obl=0 oll=%d omem=%d tot-mem=%d events=%s cmd=%s user=%s redir=-1 "+
		"resp=%d lib-name=%s lib-ver=%s\n",
		conn.ID, conn.Addr, conn.LAddr, v.name, seconds(conn.Created), seconds(conn.LastInteraction()), clientFlags(conn, v), v.db,
		v.subscribed[channelKind], v.subscribed[patternKind], v.subscribed[shardKind], v.queued, v.queueBytes, min(unread, 1), unread,
		v.queueBytes+unread, events, conn.LastCommand(), defaultUser, v.proto, v.libName, v.libVersion)
}

// clientFlags are the letters of Redis, in its order: O for a monitor, P for a client with subscriptions, x for a transaction,
// b for a blocked client, U for a unix socket, e for one that asked not to be evicted, T for one that asked not to touch keys, N for
// nothing of that.
func clientFlags(conn *resp.Session, v view) string {
	flags := ""
	if v.monitor {
		flags += "O"
	}
	if v.listens() {
		flags += "P"
	}
	if v.queued >= 0 {
		flags += "x"
	}
	if ss := sessionOf(conn); ss.parked.Load() != nil || ss.postponed.Load() {
		flags += "b"
	}
	// Only the clients of a unix socket share the server's address.
	if conn.Addr == conn.LAddr {
		flags += "U"
	}
	if v.noEvict {
		flags += "e"
	}
	if v.noTouch {
		flags += "T"
	}
	if flags == "" {
		return "N"
	}
	return flags
}

// clientKind is a TYPE of CLIENT LIST and CLIENT KILL.
type clientKind uint8

const (
	normalClient clientKind = iota + 1
	masterClient
	replicaClient
	pubsubClient
)

// kindOf is a client's TYPE. There is no replication.
func kindOf(conn *resp.Session) clientKind {
	if v := sessionOf(conn).show(); v.listens() {
		return pubsubClient
	}
	return normalClient
}

// clientKind takes a TYPE.
func (a *arguments) clientKind() clientKind {
	name := a.bytes()
	switch {
	case isToken(name, "NORMAL"):
		return normalClient
	case isToken(name, "MASTER"):
		return masterClient
	case isToken(name, "REPLICA"), isToken(name, "SLAVE"):
		return replicaClient
	case isToken(name, "PUBSUB"):
		return pubsubClient
	}
	a.fail(resp.ErrUnknownClientType(name))
	return 0
}

// killFilter says which clients CLIENT KILL closes; what is zero fits all.
type killFilter struct {
	id          int64
	kind        clientKind
	addr, laddr []byte
	skipMe      bool
}

func (f *killFilter) fits(conn, me *resp.Session) bool {
	return (f.id == 0 || f.id == conn.ID) &&
		(f.kind == 0 || f.kind == kindOf(conn)) &&
		(f.addr == nil || string(f.addr) == conn.Addr) &&
		(f.laddr == nil || string(f.laddr) == conn.LAddr) &&
		(!f.skipMe || conn != me)
}

// CLIENT KILL ip:port, or filters in pairs of name and value.
func clientKillCommand(c *Call) error {
	if len(c.Args) == 3 {
		if c.killClients(&killFilter{addr: c.Args[2]}) == 0 {
			return resp.ErrNoSuchClient
		}
		c.Out.OK()
		return nil
	}
	f, err := parseKillFilter(c.args(1))
	if err != nil {
		return err
	}
	c.Out.Int(c.killClients(&f))
	return nil
}

func parseKillFilter(a *arguments) (killFilter, error) {
	f := killFilter{skipMe: true}
	for a.more() {
		// A name without a value is a syntax error before the value is looked at.
		pair := a.take(2)
		if a.err != nil {
			break
		}
		name, value := pair[0], &arguments{rest: pair[1:]}
		switch {
		case isToken(name, "ID"):
			var ok bool
			if f.id, ok = parseInt(value.bytes()); !ok || f.id < 1 {
				value.fail(resp.ErrClientIDPositive)
			}
		case isToken(name, "TYPE"):
			f.kind = value.clientKind()
		case isToken(name, "ADDR"):
			f.addr = value.bytes()
		case isToken(name, "LADDR"):
			f.laddr = value.bytes()
		case isToken(name, "USER"):
			if user := value.bytes(); string(user) != defaultUser {
				value.fail(resp.ErrNoSuchUser(user))
			}
		case isToken(name, "SKIPME"):
			if f.skipMe = value.token("YES"); !f.skipMe && !value.token("NO") {
				value.fail(resp.ErrSyntax)
			}
		default:
			value.fail(resp.ErrSyntax)
		}
		a.err = value.err
	}
	return f, a.err
}

// killClients closes the clients that fit and counts them. The caller's own connection ends after its reply.
func (c *Call) killClients(f *killFilter) (killed int64) {
	me := c.session.conn
	c.server.network.Each(func(conn *resp.Session) bool {
		if !f.fits(conn, me) {
			return true
		}
		killed++
		if conn == me {
			conn.CloseAfterReply()
		} else {
			conn.Kill()
		}
		return true
	})
	return killed
}

// CLIENT NO-EVICT ON | OFF
func clientNoEvictCommand(c *Call) error {
	return c.switchMode(func(v *view, on bool) { v.noEvict = on })
}

// CLIENT NO-TOUCH ON | OFF
func clientNoTouchCommand(c *Call) error {
	return c.switchMode(func(v *view, on bool) { v.noTouch = on })
}

// switchMode sets what the client asks for with ON or OFF, which nothing but CLIENT LIST shows.
func (c *Call) switchMode(set func(v *view, on bool)) error {
	a := c.args(1)
	on := a.token("ON")
	if !on && !a.token("OFF") {
		return resp.ErrSyntax
	}
	c.session.change(func(v *view) { set(v, on) })
	c.Out.OK()
	return nil
}

// CLIENT SETINFO LIB-NAME libname | LIB-VER libver. Redis has it since 7.2.
func clientSetInfoCommand(c *Call) error {
	option, value := c.Args[2], c.Args[3]
	switch {
	case !isToken(option, "LIB-NAME") && !isToken(option, "LIB-VER"):
		return resp.ErrClientInfoOption(option)
	case !isClientName(value):
		return resp.ErrClientInfo(strings.ToLower(string(option)))
	}
	c.session.change(func(v *view) {
		if isToken(option, "LIB-NAME") {
			v.libName = string(value)
		} else {
			v.libVersion = string(value)
		}
	})
	c.Out.OK()
	return nil
}

// CLIENT SETNAME connection-name; an empty one takes the name away.
func clientSetNameCommand(c *Call) error {
	name := c.Args[2]
	if !isClientName(name) {
		return resp.ErrClientName
	}
	c.session.change(func(v *view) { v.name = string(name) })
	c.Out.OK()
	return nil
}

// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]
func clientUnblockCommand(c *Call) error {
	a, why := c.args(2), unblocked
	switch {
	case len(a.rest) > 1:
		return resp.ErrSubcommandArgs("CLIENT", c.Args[1])
	case a.token("ERROR"):
		why = unblockedHarshly
	case !a.token("TIMEOUT") && a.more():
		return resp.ErrUnblockReason
	}
	id, ok := parseInt(c.Args[2])
	if !ok {
		return resp.ErrNotInteger
	}
	woken := int64(0)
	if conn := c.server.network.Find(id); conn != nil {
		if p := sessionOf(conn).parked.Load(); p != nil && p.giveUp(why) {
			woken = 1
		}
	}
	c.Out.Int(woken)
	return nil
}

// isClientName refuses what would break a line of CLIENT LIST: anything but printable ASCII without the space.
func isClientName(name []byte) bool {
	return bytes.IndexFunc(name, func(r rune) bool { return r < '!' || r > '~' }) < 0
}
