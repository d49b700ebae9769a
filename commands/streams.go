package commands

import (
	"math"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// The commands on streams. This file has the table, and the commands that know nothing of groups; streams_read.go has XREAD
// and XREADGROUP, streams_groups.go what manages groups and their pending entries, streams_info.go has XINFO, and
// streams_ids.go the ids. A new command needs an entry in the table and a handler in the file that it belongs to.

func streamCommands() []Command {
	return []Command{
		{Command: spec.Command{Name: "xadd", Syntax: "XADD key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1), or O(N) with N the entries that are trimmed",
			Differs: "Trims as XTRIM does.",
			Summary: "Adds an entry to a stream, which is created if it is missing.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Hints:   []string{"nondeterministic_output"}}, Run: xadd},
		{Command: spec.Command{Name: "xlen", Syntax: "XLEN key",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Returns the number of entries in a stream.",
			Flags:   spec.ReadOnly | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RO)}}, Run: xlen},
		{Command: spec.Command{Name: "xrange", Syntax: "XRANGE key start:string end:string [COUNT count]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the entries returned",
			Summary: "Returns the entries whose ids are within a range.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: xrange(false)},
		{Command: spec.Command{Name: "xrevrange", Syntax: "XREVRANGE key end:string start:string [COUNT count]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the entries returned",
			Summary: "Returns the entries whose ids are within a range, the last first.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)}}, Run: xrange(true)},
		{Command: spec.Command{Name: "xdel", Syntax: "XDEL key id [id ...]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1) for each entry",
			Summary: "Removes entries from a stream and returns how many there were.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)}}, Run: xdel},
		{Command: spec.Command{Name: "xtrim", Syntax: "XTRIM key <<MAXLEN | MINID> [= | ~] threshold [LIMIT count]>",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the entries removed",
			Differs: "`~` removes blocks of 100 entries, or all entries where all may go, but not more than LIMIT, which is " +
				"10,000 by default. Redis removes nodes of its tree.",
			Summary: "Removes the oldest entries of a stream, down to a length or an id.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)},
			Hints:   []string{"nondeterministic_output"}}, Run: xtrim},
		{Command: spec.Command{Name: "xsetid", Syntax: "XSETID key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Sets what a stream remembers of its past: the last id, the entries added, the greatest deleted id.",
			Flags:   spec.Write | spec.DenyOOM | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: xsetid},
		{Command: spec.Command{Name: "xread", Syntax: "XREAD [COUNT count] [BLOCK milliseconds] STREAMS <key [key ...] id [id ...]>",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) for each stream, with N the entries returned",
			Differs: "A call that waits is served only if there is an entry for it; Redis serves it without one that was " +
				"deleted at once.",
			Summary: "Returns the entries of streams that come after given ids.",
			Flags:   spec.ReadOnly | spec.Blocking,
			Keys:    spec.Keys{{Flags: spec.RO | spec.Access, Begin: spec.Keyword("STREAMS", 1), Find: spec.Range(-1, 1, 2)}}},
			Run: xread},
		{Command: spec.Command{Name: "xreadgroup", Syntax: "XREADGROUP GROUP <group consumer> [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS <key [key ...] id [id ...]>",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) for each stream, with N the entries returned",
			Differs: "As XREAD.",
			Summary: "Hands new entries of streams to a consumer of a group, or returns those that are pending for it.",
			Flags:   spec.Write | spec.Blocking,
			Keys:    spec.Keys{{Flags: spec.RO | spec.Access, Begin: spec.Keyword("STREAMS", 4), Find: spec.Range(-1, 1, 2)}}},
			Run: xread, Reads: true},
		{Command: spec.Command{Name: "xack", Syntax: "XACK key group id [id ...]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1) for each entry",
			Summary: "Acknowledges entries: they are no longer pending in the group.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)}}, Run: xack, Reads: true},
		{Command: spec.Command{Name: "xpending", Syntax: "XPENDING key group [[IDLE min-idle-time:integer] start:string end:string count [consumer]]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the entries or consumers returned, and the entries that IDLE leaves out",
			Summary: "Tells which entries are pending in a group.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.FirstKey(spec.RO | spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: xpending},
		{Command: spec.Command{Name: "xclaim", Syntax: "XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(log(N)) for each entry, with N the pending entries of the group",
			Summary: "Makes pending entries those of another consumer.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Update)},
			Hints:   []string{"nondeterministic_output"}}, Run: xclaim, Reads: true},
		{Command: spec.Command{Name: "xautoclaim", Syntax: "XAUTOCLAIM key group consumer min-idle-time start:string [COUNT count] [JUSTID]",
			Group: spec.Stream, Since: "6.2.0", Complexity: "O(1) if COUNT is small",
			Summary: "Makes pending entries that were idle for long those of another consumer.",
			Flags:   spec.Write | spec.Fast,
			Keys:    spec.Keys{spec.FirstKey(spec.RW | spec.Delete)},
			Hints:   []string{"nondeterministic_output"}},
			Run: xautoclaim, Reads: true},
		{Command: spec.Command{Name: "xgroup",
			Group: spec.Stream, Since: "5.0.0",
			Summary: "Groups the commands on consumer groups."}},
		{Command: spec.Command{Name: "xgroup|create", Syntax: "XGROUP CREATE key groupname <id | $> [MKSTREAM] [ENTRIESREAD entries_read]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Creates a consumer group.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Insert)}}, Run: xgroupCreate},
		{Command: spec.Command{Name: "xgroup|createconsumer", Syntax: "XGROUP CREATECONSUMER key groupname consumername",
			Group: spec.Stream, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Creates a consumer in a group.",
			Flags:   spec.Write | spec.DenyOOM,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Insert)}}, Run: xgroupCreateConsumer},
		{Command: spec.Command{Name: "xgroup|delconsumer", Syntax: "XGROUP DELCONSUMER key groupname consumername",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the pending entries of the consumer",
			Summary: "Removes a consumer with its pending entries, and returns how many these were.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Delete)}}, Run: xgroupDelConsumer},
		{Command: spec.Command{Name: "xgroup|destroy", Syntax: "XGROUP DESTROY key groupname",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Removes a consumer group with its consumers.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Delete)}}, Run: xgroupDestroy},
		{Command: spec.Command{Name: "xgroup|help", Syntax: "XGROUP HELP",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Lists the subcommands.",
			Flags:   spec.Loading | spec.Stale}, Run: helpCommand},
		{Command: spec.Command{Name: "xgroup|setid", Syntax: "XGROUP SETID key groupname <id | $> [ENTRIESREAD entries_read]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Sets the entry after which a group goes on.",
			Flags:   spec.Write,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RW|spec.Update)}}, Run: xgroupSetID},
		{Command: spec.Command{Name: "xinfo",
			Group: spec.Stream, Since: "5.0.0",
			Summary: "Groups the commands that describe streams."}},
		{Command: spec.Command{Name: "xinfo|consumers", Syntax: "XINFO CONSUMERS key groupname",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the consumers",
			Summary: "Describes the consumers of a group.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RO|spec.Access)},
			Hints:   []string{"nondeterministic_output"}}, Run: xinfoConsumers},
		{Command: spec.Command{Name: "xinfo|groups", Syntax: "XINFO GROUPS key",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(N) with N the groups",
			Summary: "Describes the consumer groups of a stream.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RO|spec.Access)}}, Run: xinfoGroups},
		{Command: spec.Command{Name: "xinfo|help", Syntax: "XINFO HELP",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Lists the subcommands.",
			Flags:   spec.Loading | spec.Stale}, Run: helpCommand},
		{Command: spec.Command{Name: "xinfo|stream", Syntax: "XINFO STREAM key [FULL <[COUNT count]>]",
			Group: spec.Stream, Since: "5.0.0", Complexity: "O(1), with FULL O(N) with N the entries and groups returned",
			Differs: "`radix-tree-keys` is the length divided by 100, rounded up, and `radix-tree-nodes` one more: there is no " +
				"such tree.",
			Summary: "Describes a stream, with FULL also its groups and entries.",
			Flags:   spec.ReadOnly,
			Keys:    spec.Keys{spec.KeyAt(2, spec.RO|spec.Access)}},
			Run: xinfoStream},
	}
}

// trimming are the options of XADD and XTRIM that say what goes.
type trimming struct {
	shard.StreamTrim
	given      bool
	limit      int64
	limitGiven bool
}

// defaultTrimLimit is how many entries an approximate trim removes at most unless LIMIT is given.
const defaultTrimLimit = 100 * shard.StreamTrimBlock

// option takes one option of a trimming if there is one.
func (t *trimming) option(a *arguments) bool {
	if len(a.rest) < 2 {
		return false
	}
	switch {
	case a.token("MAXLEN"):
		t.begin(a)
		if t.MaxLen = a.integer(); t.MaxLen < 0 {
			a.fail(resp.ErrTrimMaxLen)
		}
	case a.token("MINID"):
		t.begin(a)
		t.MaxLen, t.MinID = math.MaxInt64, a.streamID(0)
	case a.token("LIMIT"):
		t.limitGiven = true
		if t.limit = a.integer(); t.limit < 0 {
			a.fail(resp.ErrTrimLimit)
		}
	default:
		return false
	}
	return true
}

// begin takes what stands between the strategy and its threshold.
func (t *trimming) begin(a *arguments) {
	if t.given {
		a.fail(resp.ErrTrimStrategies)
	}
	t.given, t.Approximate = true, false
	if len(a.rest) >= 2 && !a.token("=") {
		t.Approximate = a.token("~")
	}
}

// check holds the options against each other.
func (t *trimming) check(a *arguments, required bool) {
	switch {
	case t.limit != 0 && !t.given:
		a.fail(resp.ErrTrimLimitAlone)
	case required && !t.given:
		a.fail(resp.ErrXtrimStrategy)
	case t.limitGiven && !t.Approximate:
		a.fail(resp.ErrTrimLimitExact)
	}
	t.Limit = t.limit
	if !t.limitGiven {
		t.Limit = defaultTrimLimit
	}
}

// newEntry is what XADD's arguments say of the entry besides its fields.
type newEntry struct {
	trim       trimming
	noMkStream bool
	auto       bool           // the id is for the server to choose
	open       bool           // its sequence number is
	id         shard.StreamID // unless auto
}

// parse takes the arguments up to the id.
func (e *newEntry) parse(a *arguments) {
	for found := false; a.more() && !found; {
		switch {
		case a.token("*"):
			e.auto, found = true, true
		case e.trim.option(a):
		case a.token("NOMKSTREAM"):
			e.noMkStream = true
		default:
			if e.id, e.open, found = parseStreamID(a.bytes(), 0, true); !found {
				a.fail(resp.ErrInvalidStreamID)
			}
		}
	}
	e.trim.check(a, false)
}

// choose returns the id that the entry gets at a stream with the given last one.
func (e *newEntry) choose(last shard.StreamID, nowMs int64) (shard.StreamID, error) {
	id := e.id
	switch {
	case last == shard.LastStreamID():
		return id, resp.ErrXaddExhausted
	case e.auto && uint64(nowMs) > last.Ms:
		return shard.StreamID{Ms: uint64(nowMs)}, nil
	case e.auto:
		id, _ = last.Next()
	case e.open && id.Ms == last.Ms && last.Seq < math.MaxUint64:
		id.Seq = last.Seq + 1
	}
	if !last.Less(id) {
		return id, resp.ErrXaddSmaller
	}
	return id, nil
}

// XADD key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]
func xadd(c *Call) error {
	var e newEntry
	a := arguments{rest: c.Args[2:]}
	e.parse(&a)
	switch {
	case a.err != nil:
		return a.err
	case len(a.rest) < 2 || len(a.rest)%2 == 1:
		return resp.ErrWrongArgs(c.cmd.Name)
	case !e.auto && !e.open && e.id.IsZero():
		return resp.ErrXaddZero
	}
	stream, err := c.DB().Stream(c.key())
	if err != nil {
		return err
	}
	if e.noMkStream && !stream.Exists() {
		c.Out.Null()
		return nil
	}
	id, err := e.choose(stream.Last(), c.DB().Now())
	if err != nil {
		return err
	}
	if err := stream.Add(id, a.rest); err != nil {
		return err
	}
	c.notify(shard.NoteStream, "xadd", c.key())
	if e.trim.given {
		n, err := stream.Trim(e.trim.StreamTrim)
		if err != nil {
			return err
		}
		c.notifyIf(n > 0, shard.NoteStream, "xtrim", c.key())
	}
	replyStreamID(c.Out, id)
	return nil
}

// XLEN key
func xlen(c *Call) error {
	stream, err := c.DB().Stream(c.key())
	if err != nil {
		return err
	}
	n, err := stream.Len()
	if err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

// XRANGE key start end [COUNT count]
// XREVRANGE key end start [COUNT count]
func xrange(rev bool) Handler {
	return func(c *Call) error {
		a := c.args(1)
		var from, to shard.StreamID
		first, second := a.bytes(), a.bytes()
		if rev {
			first, second = second, first
		}
		from, to = parseInterval(a, first, second)
		count := int64(-1)
		for a.more() {
			if len(a.rest) < 2 || !a.token("COUNT") {
				return resp.ErrSyntax
			}
			count = max(a.integer(), 0)
		}
		if a.err != nil {
			return a.err
		}
		stream, err := c.DB().Stream(c.key())
		if err != nil {
			return err
		}
		switch {
		case !stream.Exists():
			c.Out.Array(0)
			return nil
		case count == 0:
			c.Out.NullArray()
			return nil
		}
		var found gathered
		err = stream.Range(from, to, rev, func(id shard.StreamID, fields shard.Fields) bool {
			found.entry(id, fields)
			count--
			return count != 0
		})
		if err != nil {
			return err
		}
		found.reply(c.Out)
		return nil
	}
}

// parseInterval reads the ends of a range; a notes the first error.
func parseInterval(a *arguments, start, stop []byte) (from, to shard.StreamID) {
	ends := &arguments{rest: [][]byte{start, stop}, err: a.err}
	from, to = ends.intervalStart(), ends.intervalStop()
	a.fail(ends.err)
	return from, to
}

// streamIDs takes all arguments that are left, which are ids.
func (a *arguments) streamIDs() []shard.StreamID {
	ids := make([]shard.StreamID, 0, len(a.rest))
	for a.more() {
		ids = append(ids, a.streamID(0))
	}
	return ids
}

// XDEL key id [id ...]
func xdel(c *Call) error {
	stream, err := c.DB().Stream(c.key())
	if err != nil {
		return err
	}
	if !stream.Exists() {
		c.Out.Int(0)
		return nil
	}
	a := c.args(1)
	ids := a.streamIDs()
	if a.err != nil {
		return a.err
	}
	n := int64(0)
	for _, id := range ids {
		ok, err := stream.Delete(id)
		if err != nil {
			return err
		}
		n += oneIf(ok)
	}
	c.notifyIf(n > 0, shard.NoteStream, "xdel", c.key())
	c.Out.Int(n)
	return nil
}

// XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]
func xtrim(c *Call) error {
	a := c.args(1)
	var t trimming
	for a.more() {
		if !t.option(a) {
			a.fail(resp.ErrSyntax)
		}
	}
	t.check(a, true)
	if a.err != nil {
		return a.err
	}
	stream, err := c.DB().Stream(c.key())
	if err != nil {
		return err
	}
	n, err := stream.Trim(t.StreamTrim)
	if err != nil {
		return err
	}
	c.notifyIf(n > 0, shard.NoteStream, "xtrim", c.key())
	c.Out.Int(n)
	return nil
}

// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
func xsetid(c *Call) error {
	a := c.args(1)
	last := a.streamID(0)
	added, maxDeleted := int64(-1), shard.StreamID{}
	for a.more() {
		switch {
		case len(a.rest) < 2:
			return resp.ErrSyntax
		case a.token("ENTRIESADDED"):
			if added = a.integer(); added < 0 {
				a.fail(resp.ErrEntriesAdded)
			}
		case a.token("MAXDELETEDID"):
			if maxDeleted = a.streamID(0); last.Less(maxDeleted) {
				a.fail(resp.ErrXsetidMaxDeleted)
			}
		default:
			return resp.ErrSyntax
		}
	}
	if a.err != nil {
		return a.err
	}
	stream, err := c.DB().Stream(c.key())
	if err != nil {
		return err
	}
	if !stream.Exists() {
		return resp.ErrNoSuchKey
	}
	end, filled, err := stream.LastEntry()
	switch {
	case err != nil:
		return err
	case filled && last.Less(end):
		return resp.ErrXsetidSmaller
	case filled && added >= 0 && added < stream.Info().Length:
		return resp.ErrXsetidEntriesAdded
	}
	stream.SetLast(last)
	if added >= 0 {
		stream.SetEntriesAdded(added)
	}
	if !maxDeleted.IsZero() {
		stream.SetMaxDeleted(maxDeleted)
	}
	c.notify(shard.NoteStream, "xsetid", c.key())
	c.Out.OK()
	return nil
}
