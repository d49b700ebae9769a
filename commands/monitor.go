package commands

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"codeq/commands/spec"
	"codeq/resp"
)

// MONITOR shows a client the commands of all. A session collects the lines for what it carries out, and posts them to the
// monitors when a run is committed, so that what is done again with other locks is shown once. While nobody monitors, a
// command costs one load more.

func monitorCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "monitor", Syntax: "MONITOR",
			Group: spec.Server, Since: "1.0.0", Complexity: "O(1), and for every command of anybody O(N) where N is its length",
			Differs: "A monitor falls under the limits of the class pubsub in `client-output-buffer-limit` (Redis: normal).",
			Summary: "Shows all commands that the server carries out.",
			Flags:   spec.Admin | spec.NoScript | spec.Loading | spec.Stale},
			Run: monitorCommand, Scope: scopeSession},
	}
}

// monitors are the sessions that are shown all commands.
type monitors struct {
	count atomic.Int32 // of them

	mu  sync.RWMutex
	all []*session
}

func (m *monitors) join(ss *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, ss)
	m.count.Store(int32(len(m.all)))
}

func (m *monitors) leave(ss *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = without(m.all, ss)
	m.count.Store(int32(len(m.all)))
}

func (m *monitors) show(lines []byte) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, ss := range m.all {
		ss.conn.Post(lines)
	}
}

// MONITOR. As in Redis, a second one is ignored, without a reply.
func monitorCommand(c *Call) error {
	ss := c.session
	switch {
	case c.exec:
		return resp.ErrMonitorNotBlocking
	case ss.monitoring:
		return nil
	}
	ss.monitoring = true
	ss.change(func(v *view) { v.monitor = true })
	ss.conn.SetListening(true)
	c.server.monitors.join(ss)
	c.Out.OK()
	return nil
}

// stopMonitoring ends what MONITOR began.
func (ss *session) stopMonitoring() {
	if !ss.monitoring {
		return
	}
	ss.monitoring = false
	ss.change(func(v *view) { v.monitor = false })
	ss.conn.SetListening(ss.subs.total > 0)
	ss.server.monitors.leave(ss)
}

// isShown tells whether monitors see the command. Scripts are shown before they run, so that their commands follow.
func isShown(cmd *Command) bool { return !cmd.Has(spec.Admin) && !cmd.Has(spec.SkipMonitor) }

// noteShown adds the call to the lines for the monitors, if there are any.
func (ss *session) noteShown(c *Call) {
	if ss.server.monitors.count.Load() > 0 {
		ss.shown = appendShown(ss.shown, c)
	}
}

// maxKeptShown bounds the memory for lines that a session keeps.
const maxKeptShown = 64 << 10

// sendShown posts the lines to the monitors.
func (ss *session) sendShown() {
	if len(ss.shown) == 0 {
		return
	}
	ss.server.monitors.show(ss.shown)
	if ss.shown = ss.shown[:0]; cap(ss.shown) > maxKeptShown {
		ss.shown = nil
	}
}

// appendShown appends the line for a call: the time, the database, the client, and the quoted words.
func appendShown(dst []byte, c *Call) []byte {
	conn, us := c.session.conn, c.session.now().UnixMicro()
	dst = append(dst, '+')
	dst = strconv.AppendInt(dst, us/1e6, 10)
	micros := strconv.AppendInt(nil, 1e6+us%1e6, 10) // with its zeros, behind a 1
	dst = append(append(dst, '.'), micros[1:]...)
	db := c.session.db() // SELECT and RESET are shown with the new one, as in Redis
	if c.script {
		db = c.db
	}
	dst = strconv.AppendInt(append(dst, " ["...), int64(db), 10)
	switch {
	case c.script:
		dst = append(dst, " lua]"...)
	case conn.Addr == conn.LAddr: // of a unix socket
		dst = append(append(dst, " unix:"...), strings.TrimSuffix(conn.Addr, ":0")...)
		dst = append(dst, ']')
	default:
		dst = append(append(append(dst, ' '), conn.Addr...), ']')
	}
	for i, arg := range c.Args {
		if isSecret(c.cmd, c.Args, i) {
			arg = []byte("(redacted)")
		}
		dst = appendQuoted(append(dst, ' '), arg)
	}
	return append(dst, "\r\n"...)
}

// appendQuoted quotes a word as Redis does: what is not printable ASCII is escaped.
func appendQuoted(dst, word []byte) []byte {
	const hex = "0123456789abcdef"
	dst = slices.Grow(dst, len(word)+2)
	dst = append(dst, '"')
	for _, b := range word {
		switch {
		case b == '\\' || b == '"':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b == '\a':
			dst = append(dst, `\a`...)
		case b == '\b':
			dst = append(dst, `\b`...)
		case b >= ' ' && b <= '~':
			dst = append(dst, b)
		default:
			dst = append(dst, '\\', 'x', hex[b>>4], hex[b&15])
		}
	}
	return append(dst, '"')
}
