package commands

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"codeq/commands/spec"
	"codeq/resp"
)

// latencyCommands show how long commands take: those that took longer than latency-monitor-threshold one by one, and all of them
// as histograms.
func latencyCommands() []Command {
	const flags = spec.Admin | spec.NoScript | spec.Loading | spec.Stale
	hints := []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
	return []Command{
		{Command: spec.Command{Name: "latency", Group: spec.Server, Since: "2.8.13", Complexity: "Depends on subcommand",
			Summary: "Holds the commands on how long commands take."}},
		{Command: spec.Command{Name: "latency|doctor", Syntax: "LATENCY DOCTOR",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Differs: "Has the events `command` and `fast-command` only, and words of our own.",
			Summary: "Sums up in words what took long.", Flags: flags, Hints: hints},
			Run: latencyDoctorCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "latency|graph", Syntax: "LATENCY GRAPH event",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Differs: "Has the events `command` and `fast-command` only, and a form of our own.",
			Summary: "Draws the samples of an event.", Flags: flags, Hints: hints},
			Run: latencyGraphCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "latency|help", Syntax: "LATENCY HELP",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "latency|histogram", Syntax: "LATENCY HISTOGRAM [command [command ...]]",
			Group: spec.Server, Since: "7.0.0", Complexity: "O(N), where N is the number of commands with calls",
			Differs: "A command that is named twice is told once. Durations are told apart by 6 % (Redis: 1 %). " +
				"`latency-tracking no` hides the histograms; they go on counting.",
			Summary: "Returns for all or some commands how many calls took how long.", Flags: flags, Hints: hints},
			Run: latencyHistogramCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "latency|history", Syntax: "LATENCY HISTORY event",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Differs: "Has the events `command` and `fast-command` only.",
			Summary: "Returns the samples of an event.", Flags: flags, Hints: hints},
			Run: latencyHistoryCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "latency|latest", Syntax: "LATENCY LATEST",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Differs: "Has the events `command` and `fast-command` only.",
			Summary: "Returns the last sample of every event.", Flags: flags, Hints: hints},
			Run: latencyLatestCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "latency|reset", Syntax: "LATENCY RESET [event [event ...]]",
			Group: spec.Server, Since: "2.8.13", Complexity: "O(1)",
			Differs: "Has the events `command` and `fast-command` only.",
			Summary: "Forgets the samples of all or some events.", Flags: flags,
			Hints: []string{"request_policy:all_nodes", "response_policy:all_succeeded"}},
			Run: latencyResetCommand, Scope: scopeSession},
	}
}

// The events that there are, with Redis' names.
const (
	commandEvent     = "command"
	fastCommandEvent = "fast-command" // of a command that is declared to be fast
)

// maxLatencySamples is how many samples of an event are kept, as in Redis.
const maxLatencySamples = 160

// latencySample is the longest duration of a second in which something took long.
type latencySample struct {
	second int64 // unix
	ms     int64
}

// latencyEvent is what is known of an event.
type latencyEvent struct {
	samples []latencySample // the oldest first
	max     int64           // ms, since the last reset
}

// last is the latest sample; there is always one.
func (e *latencyEvent) last() latencySample { return e.samples[len(e.samples)-1] }

// latencyMonitor remembers the events that took longer than latency-monitor-threshold.
type latencyMonitor struct {
	mu     sync.Mutex
	events map[string]*latencyEvent
}

func (m *latencyMonitor) add(event string, now time.Time, took time.Duration) {
	sample := latencySample{now.Unix(), took.Milliseconds()}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.events[event]
	if e == nil {
		if m.events == nil {
			m.events = make(map[string]*latencyEvent)
		}
		e = &latencyEvent{}
		m.events[event] = e
	}
	e.max = max(e.max, sample.ms)
	if n := len(e.samples); n > 0 && e.last().second == sample.second {
		e.samples[n-1].ms = max(e.samples[n-1].ms, sample.ms)
		return
	}
	if len(e.samples) == maxLatencySamples {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	e.samples = append(e.samples, sample)
}

// event returns a copy of what is known of an event; without samples if that is nothing.
func (m *latencyMonitor) event(name []byte) latencyEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.events[string(name)]
	if e == nil {
		return latencyEvent{}
	}
	return latencyEvent{slices.Clone(e.samples), e.max}
}

// names lists the events with samples.
func (m *latencyMonitor) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.events))
}

// reset forgets the named events, or all when none is named, and counts them.
func (m *latencyMonitor) reset(names [][]byte) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		n = len(m.events)
		clear(m.events)
		return n
	}
	for _, name := range names {
		if _, known := m.events[string(name)]; known {
			delete(m.events, string(name))
			n++
		}
	}
	return n
}

// LATENCY DOCTOR
func latencyDoctorCommand(c *Call) error {
	threshold := c.server.config.Current().LatencyMonitorThreshold
	names := c.server.latency.names()
	var text strings.Builder
	switch {
	case threshold == 0 && len(names) == 0:
		text.WriteString("Nothing is measured: CONFIG SET latency-monitor-threshold <milliseconds> turns the measuring on.\n")
	case len(names) == 0:
		fmt.Fprintf(&text, "No command took %d ms or longer.\n", threshold.Milliseconds())
	}
	for _, name := range names {
		e := c.server.latency.event([]byte(name))
		var sum int64
		for _, sample := range e.samples {
			sum += sample.ms
		}
		fmt.Fprintf(&text, "%s: slow in %d different seconds, %d ms on average and %d ms at most.\n",
			name, len(e.samples), sum/int64(max(1, len(e.samples))), e.max)
	}
	if len(names) > 0 {
		text.WriteString("SLOWLOG GET shows which commands these were, as far as they exceeded slowlog-log-slower-than. " +
			"Large values, commands on whole collections and long scripts are the usual reasons.\n")
	}
	c.Out.Verbatim("txt", text.String())
	return nil
}

// graphWidth is the length of the longest bar of LATENCY GRAPH.
const graphWidth = 60

// LATENCY GRAPH event: a bar for each sample, the oldest first.
func latencyGraphCommand(c *Call) error {
	e := c.server.latency.event(c.Args[2])
	if len(e.samples) == 0 {
		return resp.ErrNoLatencySamples(c.Args[2])
	}
	low, high := e.samples[0].ms, e.samples[0].ms
	for _, sample := range e.samples {
		low, high = min(low, sample.ms), max(high, sample.ms)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s - high %d ms, low %d ms (all time high %d ms)\n", c.Args[2], high, low, e.max)
	now := c.server.clock.Now().Unix()
	for _, sample := range e.samples {
		bar := strings.Repeat("#", int(sample.ms*graphWidth/max(1, high)))
		fmt.Fprintf(&text, "%8ds ago %8d ms %s\n", now-sample.second, sample.ms, bar)
	}
	c.Out.Verbatim("txt", text.String())
	return nil
}

// LATENCY HISTOGRAM [command [command ...]]. A container stands for its subcommands.
func latencyHistogramCommand(c *Call) error {
	var wanted []*Command
	for command := range c.server.table.All() {
		if len(c.Args) == 2 || slices.ContainsFunc(c.Args[2:], command.isOrIsWithin) {
			wanted = append(wanted, command)
		}
	}
	var found gathered
	found.elements.SetProto(c.Out.Proto())
	for _, command := range wanted {
		steps := command.stats.took.distribution()
		if len(steps) == 0 || !c.server.config.Current().LatencyTracking {
			continue
		}
		out := &found.elements
		found.n++
		out.BulkString(command.Name)
		out.Map(2)
		out.BulkString("calls")
		out.Int(steps[len(steps)-1].count)
		out.BulkString("histogram_usec")
		out.Map(len(steps))
		for _, step := range steps {
			out.Int(step.micros)
			out.Int(step.count)
		}
	}
	c.Out.Map(found.n)
	c.Out.Raw(found.elements.Bytes())
	return nil
}

// isOrIsWithin tells whether the name, in any case, is that of the command or of its container.
func (c *Command) isOrIsWithin(name []byte) bool {
	container, _, _ := strings.Cut(c.Name, "|")
	return strings.EqualFold(c.Name, string(name)) || strings.EqualFold(container, string(name))
}

// LATENCY HISTORY event
func latencyHistoryCommand(c *Call) error {
	e := c.server.latency.event(c.Args[2])
	c.Out.Array(len(e.samples))
	for _, sample := range e.samples {
		c.Out.Array(2)
		c.Out.Int(sample.second)
		c.Out.Int(sample.ms)
	}
	return nil
}

// LATENCY LATEST
func latencyLatestCommand(c *Call) error {
	var found gathered
	for _, name := range c.server.latency.names() {
		e := c.server.latency.event([]byte(name))
		if len(e.samples) == 0 {
			continue // forgotten since
		}
		found.n++
		out := &found.elements
		out.Array(4)
		out.BulkString(name)
		out.Int(e.last().second)
		out.Int(e.last().ms)
		out.Int(e.max)
	}
	found.reply(c.Out)
	return nil
}

// LATENCY RESET [event [event ...]]
func latencyResetCommand(c *Call) error {
	c.Out.Int(int64(c.server.latency.reset(c.Args[2:])))
	return nil
}
