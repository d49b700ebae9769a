package commands

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gammazero/deque"

	"codeq/commands/spec"
	"codeq/config"
	"codeq/resp"
)

// slowLogCommands show what took long.
func slowLogCommands() []Command {
	const flags = spec.Admin | spec.Loading | spec.Stale
	return []Command{
		{Command: spec.Command{Name: "slowlog", Group: spec.Server, Since: "2.2.12", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on the log of slow commands."}},
		{Command: spec.Command{Name: "slowlog|get", Syntax: "SLOWLOG GET [count]",
			Group: spec.Server, Since: "2.2.12", Complexity: "O(N), where N is the number of entries returned",
			Differs: "`slowlog-max-len` is at most 1,048,576.",
			Summary: "Returns the latest entries, ten or as many as asked for.", Flags: flags,
			Hints: []string{"request_policy:all_nodes", "nondeterministic_output"}},
			Run: slowLogGetCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "slowlog|help", Syntax: "SLOWLOG HELP",
			Group: spec.Server, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "slowlog|len", Syntax: "SLOWLOG LEN",
			Group: spec.Server, Since: "2.2.12", Complexity: "O(1)",
			Summary: "Counts the entries.", Flags: flags,
			Hints: []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"}},
			Run: slowLogLenCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "slowlog|reset", Syntax: "SLOWLOG RESET",
			Group: spec.Server, Since: "2.2.12", Complexity: "O(N), where N is the number of entries",
			Summary: "Forgets all entries.", Flags: flags,
			Hints: []string{"request_policy:all_nodes", "response_policy:all_succeeded"}},
			Run: slowLogResetCommand, Scope: scopeSession},
	}
}

// What an entry keeps of a command, as in Redis.
const (
	maxSlowLogArgs     = 32
	maxSlowLogArgBytes = 128
)

// slowLogDefaultCount is how many entries SLOWLOG GET returns when it is not told.
const slowLogDefaultCount = 10

// slowEntry is a command that took long.
type slowEntry struct {
	id         int64
	at         time.Time
	took       time.Duration
	args       [][]byte
	addr, name string
}

// slowLog remembers the last slow commands, the oldest first.
type slowLog struct {
	mu      sync.Mutex
	nextID  int64
	entries deque.Deque[slowEntry]
}

func (l *slowLog) add(e slowEntry, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries.PushBack(e)
	for l.entries.Len() > limit {
		l.entries.PopFront()
	}
}

// latest returns up to n entries, the latest first.
func (l *slowLog) latest(n int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := l.entries.Len()
	found := make([]slowEntry, min(n, int64(size)))
	for i := range found {
		found[i] = l.entries.At(size - 1 - i)
	}
	return found
}

func (l *slowLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries.Len()
}

// reset forgets the entries. Ids go on, as in Redis.
func (l *slowLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries.Clear()
}

// setNoteworthy works out from which duration on the slow log or LATENCY want to know of a command.
func (s *Server) setNoteworthy(c *config.Config) {
	from := int64(math.MaxInt64)
	if c.SlowlogLogSlowerThan >= 0 && c.SlowlogMaxLen > 0 {
		from = int64(c.SlowlogLogSlowerThan)
	}
	if c.LatencyMonitorThreshold > 0 {
		from = min(from, int64(c.LatencyMonitorThreshold))
	}
	s.noteworthy.Store(from)
}

// noteSlow tells the slow log and LATENCY of a command that took long enough for one of them.
func (s *Server) noteSlow(c *Call, took time.Duration) {
	settings := s.config.Current()
	now := c.session.now()
	if from := settings.SlowlogLogSlowerThan; from >= 0 && took >= from && !c.cmd.Has(spec.SkipSlowlog) {
		s.slowLog.add(slowEntry{at: now, took: took, args: slowLogArgs(c.cmd, c.Args),
			addr: c.session.conn.Addr, name: c.session.view.name}, settings.SlowlogMaxLen)
	}
	if from := settings.LatencyMonitorThreshold; from > 0 && took >= from {
		event := commandEvent
		if c.cmd.Has(spec.Fast) {
			event = fastCommandEvent
		}
		s.latency.add(event, now, took)
	}
}

// slowLogArgs copies what an entry keeps of a command's words.
func slowLogArgs(cmd *Command, args [][]byte) [][]byte {
	kept := min(len(args), maxSlowLogArgs)
	if len(args) > maxSlowLogArgs {
		kept-- // the last one tells how many are left out
	}
	copied := make([][]byte, 0, maxSlowLogArgs)
	for i, arg := range args[:kept] {
		switch {
		case isSecret(cmd, args, i):
			copied = append(copied, []byte("(redacted)"))
		case len(arg) > maxSlowLogArgBytes:
			copied = append(copied, fmt.Appendf(bytes.Clone(arg[:maxSlowLogArgBytes]), "... (%d more bytes)", len(arg)-maxSlowLogArgBytes))
		default:
			copied = append(copied, bytes.Clone(arg))
		}
	}
	if left := len(args) - kept; left > 0 {
		copied = append(copied, fmt.Appendf(nil, "... (%d more arguments)", left))
	}
	return copied
}

// isSecret tells whether word i of a command is a password, or may be, which is shown to nobody.
func isSecret(cmd *Command, args [][]byte, i int) bool {
	switch cmd.Name {
	case "auth":
		return i >= 1
	case "acl|setuser":
		return i >= 2
	case "config|set":
		return i >= 3 && isToken(args[i-1], "REQUIREPASS")
	case "migrate":
		return i >= 7 && (isToken(args[i-1], "AUTH") || isToken(args[i-1], "AUTH2") || isToken(args[i-2], "AUTH2"))
	case "hello":
		return i >= 3 && isToken(args[i-1], "AUTH") || i >= 4 && isToken(args[i-2], "AUTH")
	}
	return false
}

// SLOWLOG GET [count]; -1 is all.
func slowLogGetCommand(c *Call) error {
	count := int64(slowLogDefaultCount)
	switch {
	case len(c.Args) > 3:
		return resp.ErrSubcommandArgs("SLOWLOG", c.Args[1])
	case len(c.Args) == 3:
		n, ok := parseInt(c.Args[2])
		if !ok || n < -1 {
			return resp.ErrSlowlogCount
		}
		if count = n; n == -1 {
			count = math.MaxInt64
		}
	}
	entries := c.server.slowLog.latest(count)
	c.Out.Array(len(entries))
	for _, e := range entries {
		c.Out.Array(6)
		c.Out.Int(e.id)
		c.Out.Int(e.at.Unix())
		c.Out.Int(e.took.Microseconds())
		c.Out.Array(len(e.args))
		for _, arg := range e.args {
			c.Out.Bulk(arg)
		}
		writeStrings(c.Out, e.addr, e.name)
	}
	return nil
}

// SLOWLOG LEN
func slowLogLenCommand(c *Call) error {
	c.Out.Int(int64(c.server.slowLog.len()))
	return nil
}

// SLOWLOG RESET
func slowLogResetCommand(c *Call) error {
	c.server.slowLog.reset()
	c.Out.OK()
	return nil
}
