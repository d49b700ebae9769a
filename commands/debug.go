package commands

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/resp"
	"codeq/shard"
)

// debugCommands is DEBUG, for the tests of clients. It finds its subcommands itself, as Redis' does.
func debugCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "debug", Syntax: "DEBUG subcommand [arg [arg ...]]",
			Group: spec.Server, Since: "1.0.0", Complexity: "Depends on subcommand",
			Differs: "Has ERROR, HELP, LOADAOF, LOG, OBJECT, PROTOCOL, RELOAD, SET-ACTIVE-EXPIRE and SLEEP only. LOADAOF and " +
				"RELOAD have nothing to do.",
			Summary:  "Holds commands for the tests of clients, as far as enable-debug-command allows them.",
			Flags:    spec.Admin | spec.NoScript | spec.Loading | spec.Stale,
			DocFlags: spec.SysCmd},
			Run: debugCommand, Scope: scopeAll, Bar: barDebug},
	}
}

// debugSubcommand is one of DEBUG's subcommands.
type debugSubcommand struct {
	name      string
	min, max  int // arguments
	usage, is string
	run       func(c *Call, args [][]byte) error
}

func debugSubcommands() []debugSubcommand {
	return []debugSubcommand{
		{"ERROR", 1, 1, "ERROR <string>", "Reply with an error of that text.", debugError},
		{"LOADAOF", 0, 0, "LOADAOF", "Reply OK: what is acknowledged is stored and need not be loaded.", debugReload},
		{"LOG", 1, 1, "LOG <message>", "Write the message to the server's log.", debugLog},
		{"OBJECT", 1, 1, "OBJECT <key>", "Describe the value at the key.", debugObject},
		{"PROTOCOL", 1, 1, "PROTOCOL <type>", "Reply with a value of the type: string, integer, double, bignum, null, array, set, map, " +
			"attrib, push, verbatim, true or false.", debugProtocol},
		{"RELOAD", 0, 3, "RELOAD [option ...]", "Reply OK: what is acknowledged is stored and need not be loaded.", debugReload},
		{"SET-ACTIVE-EXPIRE", 1, 1, "SET-ACTIVE-EXPIRE <0|1>", "Remove expired keys in the background, or only when they are asked for.",
			debugActiveExpire},
		{"SLEEP", 1, 1, "SLEEP <seconds>", "Stop all shards for that long. Decimals are allowed.", debugSleep},
	}
}

// DEBUG subcommand [arg [arg ...]]
func debugCommand(c *Call) error {
	name, args := c.Args[1], c.Args[2:]
	if isToken(name, "HELP") && len(args) == 0 {
		return debugHelp(c)
	}
	for _, sub := range debugSubcommands() {
		if isToken(name, sub.name) && sub.min <= len(args) && len(args) <= sub.max {
			return sub.run(c, args)
		}
	}
	return resp.ErrSubcommandArgs("DEBUG", name)
}

// barDebug is for those whom enable-debug-command does not allow to use DEBUG.
func barDebug(ss *session) error {
	switch ss.server.config.Current().EnableDebugCommand {
	case config.ProtectedYes:
		return nil
	case config.ProtectedLocal:
		if isLocal(ss.conn) {
			return nil
		}
	}
	return resp.ErrDebugNotAllowed
}

// isLocal tells whether the client is on this machine. Only the clients of a unix socket share the server's address.
func isLocal(conn *resp.Session) bool {
	if conn.Addr == conn.LAddr {
		return true
	}
	host, _, err := net.SplitHostPort(conn.Addr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func debugHelp(c *Call) error {
	subcommands := debugSubcommands()
	c.Out.Array(1 + 2*len(subcommands))
	c.Out.Status("DEBUG has these subcommands:")
	for _, sub := range subcommands {
		c.Out.Status(sub.usage)
		c.Out.Status("    " + sub.is)
	}
	return nil
}

func debugError(c *Call, args [][]byte) error {
	// A line end would end the reply.
	c.Out.Error(resp.Error(strings.NewReplacer("\r", " ", "\n", " ").Replace(string(args[0]))))
	return nil
}

func debugReload(c *Call, args [][]byte) error {
	for _, option := range args {
		if !isToken(option, "MERGE") && !isToken(option, "NOFLUSH") && !isToken(option, "NOSAVE") {
			return resp.ErrReloadOption
		}
	}
	c.Out.OK()
	return nil
}

func debugLog(c *Call, args [][]byte) error {
	c.server.logger.Warn("DEBUG LOG", "client", c.session.conn.ID, "message", string(args[0]))
	c.Out.OK()
	return nil
}

func debugObject(c *Call, args [][]byte) error {
	o, err := c.describe(args[0])
	if err != nil {
		return err
	}
	if o.kind == shard.KindNone {
		return resp.ErrNoSuchKey
	}
	size, err := o.usage(c, args[0], usageSamples)
	if err != nil {
		return err
	}
	c.Out.Status(fmt.Sprintf("Value at:0x0 refcount:1 encoding:%s serializedlength:%d lru:0 lru_seconds_idle:0", o.encoding, size))
	return nil
}

func debugActiveExpire(c *Call, args [][]byte) error {
	switch string(args[0]) {
	case "0":
		c.server.store.SetActiveExpiry(false)
	case "1":
		c.server.store.SetActiveExpiry(true)
	default:
		return resp.ErrActiveExpire
	}
	c.Out.OK()
	return nil
}

// maxDebugSleep bounds DEBUG SLEEP.
const maxDebugSleep = 24 * time.Hour

// debugSleep holds the locks of all shards for that long, which stops everybody who needs one, or until the client or the
// server goes.
func debugSleep(c *Call, args [][]byte) error {
	seconds, ok := parseFloat(args[0])
	if !ok || seconds < 0 || seconds > maxDebugSleep.Seconds() {
		return resp.ErrDebugSleep
	}
	timer := c.server.clock.NewTimer(time.Duration(math.Round(seconds * float64(time.Second))))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-c.session.conn.Done():
	}
	c.Out.OK()
	return nil
}

func debugProtocol(c *Call, args [][]byte) error {
	out := c.Out
	switch strings.ToLower(string(args[0])) {
	case "string":
		out.BulkString("Hello World")
	case "integer":
		out.Int(12345)
	case "double":
		out.Double(3.141)
	case "bignum":
		out.BigNumber("1234567999999999999999999999999999999")
	case "null":
		out.Null()
	case "array":
		out.Array(3)
		writeInts(out, 0, 1, 2)
	case "set":
		out.Set(3)
		writeInts(out, 0, 1, 2)
	case "map":
		out.Map(3)
		for i := range int64(3) {
			out.Int(i)
			out.Bool(i == 1)
		}
	case "attrib":
		if out.Proto() == 3 {
			out.Raw([]byte("|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n"))
		}
		out.BulkString("Some real reply following the attribute")
	case "push":
		if out.Proto() != 3 {
			return resp.ErrNeedsRESP3
		}
		out.Push(2)
		out.BulkString("server-cpu-usage")
		out.Int(42)
		out.BulkString("Some real reply following the push reply")
	case "verbatim":
		out.Verbatim("txt", "This is a verbatim\nstring")
	case "true":
		out.Bool(true)
	case "false":
		out.Bool(false)
	default:
		return resp.ErrProtocolType
	}
	return nil
}

func writeInts(out *resp.Writer, all ...int64) {
	for _, n := range all {
		out.Int(n)
	}
}
