package commands

import (
	"bytes"
	"errors"

	"codeq/commands/spec"
	"codeq/rdb"
	"codeq/resp"
	"codeq/scripting"
)

// functionCommands call functions and manage the libraries that they live in.
//
// A call is one transaction, like a script: see scriptCommands. The libraries are kept in system records, one for each, under its
// name. What changes them holds the lock of shard 0, where these records live, and works on a set of libraries of its own,
// which takes the place of the server's when the change is committed. Until then only the transaction itself sees it; and a
// transaction sees one set from its first look at the libraries to its end.
func functionCommands() []Command {
	const running = "Depends on the function that is executed."
	keys := func(flags spec.KeyFlags) spec.Keys { return spec.Keys{spec.CountedKeys(2, flags)} }
	const flags = spec.NoScript | spec.Stale | spec.SkipMonitor | spec.NoMandatoryKeys
	return append([]Command{
		{Command: spec.Command{Name: "fcall", Syntax: "FCALL function numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: running,
			Differs: "The local variables of a library exist once for each Lua machine in the pool, and are lost when a call " +
				"fails on it: what a function keeps in them is a cache. Each call begins with random numbers of its own " +
				"(Redis: where the last call has stopped).",
			Summary: "Calls a function.",
			Flags:   flags, Keys: keys(spec.RW | spec.Access | spec.Update)},
			Run: fcallCommand, Scope: scopeOwn},
		{Command: spec.Command{Name: "fcall_ro", Syntax: "FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: running,
			Differs: "As FCALL.",
			Summary: "Calls a function that does not write.",
			Flags:   flags | spec.ReadOnly, Keys: keys(spec.RO | spec.Access)},
			Run: fcallCommand, Scope: scopeOwn},
	}, libraryCommands()...)
}

func libraryCommands() []Command {
	allShards := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	return []Command{
		{Command: spec.Command{Name: "function",
			Group: spec.Scripting, Since: "7.0.0",
			Summary: "Groups the commands on functions and their libraries."}},
		{Command: spec.Command{Name: "function|delete", Syntax: "FUNCTION DELETE library-name",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(1)",
			Summary: "Deletes a library and its functions.",
			Flags:   spec.Write | spec.NoScript, Hints: allShards},
			Run: functionDeleteCommand},
		{Command: spec.Command{Name: "function|dump", Syntax: "FUNCTION DUMP",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(N) where N is the number of libraries",
			Summary: "Returns all libraries in a form that FUNCTION RESTORE takes.",
			Flags:   spec.NoScript},
			Run: functionDumpCommand},
		{Command: spec.Command{Name: "function|flush", Syntax: "FUNCTION FLUSH [ASYNC | SYNC]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(N) where N is the number of libraries",
			Summary: "Deletes all libraries.",
			Flags:   spec.Write | spec.NoScript, Hints: allShards},
			Run: functionFlushCommand},
		{Command: spec.Command{Name: "function|help", Syntax: "FUNCTION HELP",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.",
			Flags:   spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "function|kill", Syntax: "FUNCTION KILL",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(1)",
			Differs: "Several functions may run past their limit at once: stops all that have written nothing.",
			Summary: "Stops functions that run past their time limit and have written nothing.",
			Flags:   spec.NoScript | spec.AllowBusy,
			Hints:   []string{"request_policy:all_shards", "response_policy:one_succeeded"}},
			Run: functionKillCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "function|list", Syntax: "FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(N) where N is the number of functions",
			Summary: "Describes the libraries and their functions.",
			Flags:   spec.NoScript, Hints: []string{"nondeterministic_output_order"}},
			Run: functionListCommand},
		{Command: spec.Command{Name: "function|load", Syntax: "FUNCTION LOAD [REPLACE] function-code",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(1), considering the time that it takes to compile the code as a constant",
			Summary: "Makes a library of functions.",
			Flags:   spec.Write | spec.DenyOOM | spec.NoScript, Hints: allShards},
			Run: functionLoadCommand},
		{Command: spec.Command{Name: "function|restore", Syntax: "FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(N) where N is the number of libraries in the payload",
			Differs: "Takes payload versions up to 12 (Redis 7.0: 10). Refuses a text that is cut short, where Redis reads on " +
				"into the checksum.",
			Summary: "Makes the libraries that FUNCTION DUMP has returned.",
			Flags:   spec.Write | spec.DenyOOM | spec.NoScript, Hints: allShards},
			Run: functionRestoreCommand},
		{Command: spec.Command{Name: "function|stats", Syntax: "FUNCTION STATS",
			Group: spec.Scripting, Since: "7.0.0", Complexity: "O(1)",
			Differs: "Several functions may run past their limit at once: tells of the one that has run for longest.",
			Summary: "Tells which function runs past its time limit, and how many functions there are.",
			Flags:   spec.NoScript | spec.AllowBusy,
			Hints:   []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}},
			Run: functionStatsCommand, Scope: scopeSession},
	}
}

// libraryRow is the prefix of the system records that hold the code of libraries, each under its name.
const libraryRow = "function/"

// engineName is the only language of functions, as Redis spells it.
const engineName = "LUA"

// loadLibraries makes the libraries that the store keeps the engine's.
func (s *Server) loadLibraries() error {
	tx := s.store.NewTx()
	tx.Begin(s.store.All())
	defer tx.End()
	set := s.scripts.Libraries()
	err := tx.EachSystem(libraryRow, func(name string, code []byte) error {
		// As with scripts, what this version can't load is left alone. It was loaded within its time limit once.
		with, _, err := s.scripts.AddLibrary(set, code, false, 0)
		if err != nil {
			s.logger.Warn("a kept library of functions does not load", "library", name[len(libraryRow):], "err", err)
			return nil
		}
		set = with
		return nil
	})
	s.scripts.SetLibraries(set)
	return err
}

// libraryView is what a transaction sees of the libraries.
type libraryView struct {
	set     *scripting.Libraries // nil before it has looked
	changed bool                 // the set is the transaction's own
}

// presentLibraries are the server's libraries. Replies wait for the log position of the commit that made them so.
func (ss *session) presentLibraries() *scripting.Libraries {
	set := ss.server.scripts.Libraries()
	ss.pos = max(ss.pos, ss.server.librariesPos.Load())
	return set
}

// seenLibraries are the libraries that the transaction sees.
func (ss *session) seenLibraries() *scripting.Libraries {
	if ss.libraries.set == nil {
		ss.libraries.set = ss.presentLibraries()
	}
	return ss.libraries.set
}

// librariesSaved notes that the commit has succeeded. If it had libraries, the lock of shard 0 is still held, so that nobody
// else's can come in between.
func (ss *session) librariesSaved() {
	if ss.libraries.changed {
		ss.server.librariesPos.Store(ss.tx.Position()) // first: who sees the libraries has to wait for it
		ss.server.scripts.SetLibraries(ss.libraries.set)
	}
	ss.libraries = libraryView{}
}

// librariesUndone notes that what the transaction has changed so far is undone. It goes on with what it saw before, unless it
// has to look again.
func (ss *session) librariesUndone() {
	if ss.libraries.changed {
		ss.libraries = libraryView{}
	}
}

// lockLibraries prepares a change of the libraries: it takes the lock that a change needs and returns the libraries as they are under
// it, and the names of the records that were there when the transaction began.
func (c *Call) lockLibraries() (present *scripting.Libraries, records []string, err error) {
	err = c.tx.EachSystem(libraryRow, func(name string, _ []byte) error {
		records = append(records, name)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	v := &c.session.libraries
	if !v.changed {
		v.set = c.session.presentLibraries()
	}
	return v.set, records, nil
}

// setLibraries changes the libraries, and the records of those that differ.
func (c *Call) setLibraries(from, to *scripting.Libraries) error {
	for _, l := range from.All() {
		if to.Library(l.Name()) != nil {
			continue
		}
		if err := c.tx.SetSystem(libraryRow+l.Name(), nil); err != nil {
			return err
		}
	}
	for _, l := range to.All() {
		if from.Library(l.Name()) == l {
			continue
		}
		if err := c.tx.SetSystem(libraryRow+l.Name(), []byte(l.Code())); err != nil {
			return err
		}
	}
	c.session.libraries = libraryView{set: to, changed: true}
	return nil
}

// FCALL function numkeys [key [key ...]] [arg [arg ...]]
// FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]
func fcallCommand(c *Call) error {
	c.session.noteShown(c)
	a := c.args(0)
	f := c.session.seenLibraries().Function(a.bytes())
	if f == nil {
		return resp.ErrFunctionNotFound
	}
	keys, args, err := countedArguments(a)
	if err == resp.ErrNotInteger {
		return resp.ErrBadNumKeys
	}
	if err != nil {
		return err
	}
	r := c.beginScript()
	var raised bool
	r.reply, raised, err = c.server.scripts.Call(r.reply[:0], scripting.FunctionCall{
		Function: f, Command: c.Args, Keys: keys, Args: args, Caller: r, Proto: c.Out.Proto(),
	})
	return c.endScript(r, raised, err)
}

// FUNCTION DELETE library-name
func functionDeleteCommand(c *Call) error {
	present, _, err := c.lockLibraries()
	if err != nil {
		return err
	}
	name := string(c.Args[2])
	if present.Library(name) == nil {
		return resp.ErrLibraryNotFound
	}
	c.Out.OK()
	return c.setLibraries(present, present.Without(name))
}

// FUNCTION DUMP
func functionDumpCommand(c *Call) error {
	var codes []string
	for _, l := range c.session.seenLibraries().All() {
		codes = append(codes, l.Code())
	}
	c.Out.Bulk(rdb.EncodeFunctions(codes))
	return nil
}

// FUNCTION FLUSH [ASYNC | SYNC]
func functionFlushCommand(c *Call) error {
	a := c.args(1)
	if len(a.rest) > 1 {
		return resp.ErrSubcommandArgs("FUNCTION", c.Args[1])
	}
	if a.more() && !a.token("ASYNC") && !a.token("SYNC") {
		return resp.ErrFunctionFlushOption
	}
	c.Out.OK()
	return c.flushLibraries(new(scripting.Libraries))
}

// flushLibraries replaces all libraries, and with them the records of those that could not be loaded.
func (c *Call) flushLibraries(to *scripting.Libraries) error {
	present, records, err := c.lockLibraries()
	if err != nil {
		return err
	}
	for _, name := range records {
		if err := c.tx.SetSystem(name, nil); err != nil {
			return err
		}
	}
	return c.setLibraries(present, to)
}

// FUNCTION KILL
func functionKillCommand(c *Call) error {
	if err := c.server.scripts.KillFunctions(); err != nil {
		return scriptError(err)
	}
	c.Out.OK()
	return nil
}

// FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]
func functionListCommand(c *Call) error {
	var pattern []byte
	withCode := false
	for a := c.args(1); a.more(); {
		switch {
		case !withCode && a.token("WITHCODE"):
			withCode = true
		case pattern == nil && a.token("LIBRARYNAME"):
			if !a.more() {
				return resp.ErrLibraryNameMissing
			}
			pattern = a.bytes()
		default:
			return resp.ErrUnknownArgument(a.bytes())
		}
	}
	var listed []*scripting.Library
	for _, l := range c.session.seenLibraries().All() {
		if pattern == nil || globMatch(bytes.ToLower(pattern), bytes.ToLower([]byte(l.Name()))) {
			listed = append(listed, l)
		}
	}
	c.Out.Array(len(listed))
	for _, l := range listed {
		writeLibrary(c.Out, l, withCode)
	}
	return nil
}

func writeLibrary(out *resp.Writer, l *scripting.Library, withCode bool) {
	fields := 3
	if withCode {
		fields = 4
	}
	out.Map(fields)
	out.BulkString("library_name")
	out.BulkString(l.Name())
	out.BulkString("engine")
	out.BulkString(engineName)
	out.BulkString("functions")
	out.Array(len(l.Functions()))
	for _, f := range l.Functions() {
		writeFunction(out, f)
	}
	if withCode {
		out.BulkString("library_code")
		out.BulkString(l.Code())
	}
}

func writeFunction(out *resp.Writer, f *scripting.Function) {
	out.Map(3)
	out.BulkString("name")
	out.BulkString(f.Name)
	out.BulkString("description")
	if f.Description == nil {
		out.Null()
	} else {
		out.BulkString(*f.Description)
	}
	out.BulkString("flags")
	flags := f.Flags.Names()
	out.Set(len(flags))
	for _, name := range flags {
		out.Status(name)
	}
}

// FUNCTION LOAD [REPLACE] function-code
func functionLoadCommand(c *Call) error {
	a := c.args(1)
	replace := false
	for len(a.rest) > 1 {
		if !a.token("REPLACE") {
			return resp.ErrUnknownOption(a.bytes())
		}
		replace = true
	}
	code := a.bytes()
	present, _, err := c.lockLibraries()
	if err != nil {
		return err
	}
	with, added, err := c.server.scripts.AddLibrary(present, code, replace, scripting.LoadLimit)
	if err != nil {
		return scriptError(err)
	}
	c.Out.BulkString(added.Name())
	return c.setLibraries(present, with)
}

// FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]
func functionRestoreCommand(c *Call) error {
	a := c.args(1)
	payload := a.bytes()
	if len(a.rest) > 1 {
		return resp.ErrSubcommandArgs("FUNCTION", c.Args[1])
	}
	flush, replace := a.token("FLUSH"), a.token("REPLACE")
	if a.more() && !a.token("APPEND") {
		return resp.ErrRestorePolicy
	}
	restored := new(scripting.Libraries)
	err := rdb.EachFunctions(payload, func(code []byte) (err error) {
		restored, _, err = c.server.scripts.AddLibrary(restored, code, false, scripting.LoadLimit)
		return err
	})
	if err != nil {
		return restoreError(err)
	}
	c.Out.OK()
	if flush {
		return c.flushLibraries(restored)
	}
	present, _, err := c.lockLibraries()
	if err != nil {
		return err
	}
	joined, err := present.Join(restored, replace)
	if err != nil {
		return scriptError(err)
	}
	return c.setLibraries(present, joined)
}

// restoreError is what the client is told when a payload can't be restored.
func restoreError(err error) error {
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return resp.ErrDumpPayload
	case errors.Is(err, rdb.ErrNotFunctions):
		return resp.ErrNotAFunction
	case errors.Is(err, rdb.ErrFormat), errors.Is(err, rdb.ErrTooBig):
		return resp.ErrFunctionPayload
	}
	return scriptError(err)
}

// FUNCTION STATS. Of functions that run at the same time, one that runs past the limit is shown, as one that does not never is
// in Redis either.
func functionStatsCommand(c *Call) error {
	late, isLate := c.server.scripts.LateFunction()
	if !isLate && c.server.scripts.Busy() {
		return scriptError(c.server.scripts.BusyError())
	}
	libraries := c.session.presentLibraries()
	if c.exec {
		libraries = c.session.seenLibraries()
	}
	out := c.Out
	out.Map(2)
	out.BulkString("running_script")
	if isLate {
		writeLate(out, late)
	} else {
		out.Null()
	}
	out.BulkString("engines")
	out.Map(1)
	out.BulkString(engineName)
	out.Map(2)
	out.BulkString("libraries_count")
	out.Int(int64(len(libraries.All())))
	out.BulkString("functions_count")
	out.Int(int64(libraries.CountFunctions()))
	return nil
}

func writeLate(out *resp.Writer, f scripting.LateFunction) {
	out.Map(3)
	out.BulkString("name")
	out.BulkString(f.Name)
	out.BulkString("command")
	out.Array(len(f.Command))
	for _, word := range f.Command {
		out.BulkString(word)
	}
	out.BulkString("duration_ms")
	out.Int(f.Duration.Milliseconds())
}
