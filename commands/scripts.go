package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"sync"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/scripting"
)

// scriptCommands run Lua scripts and manage the cache of scripts.
//
// A script of SCRIPT LOAD is kept, on disk too, until SCRIPT FLUSH. One of EVAL is cached in memory only, within a bound: clients
// send EVAL again when an EVALSHA is answered with NOSCRIPT, as they have to after a restart of Redis.
//
// A script is one transaction, with the locks of its declared keys; an undeclared key is locked when the script reaches
// it, and when that is not possible without a deadlock the script is run again with that lock taken first. Nobody sees
// anything of a run that is given up. A script that ends with an error leaves nothing behind; one that returns
// an error reply has ended well, as in Redis.
//
// While a script runs past lua-time-limit, every session that has not begun to wait for a lock is told BUSY, whatever
// shards it asks for, and only what is marked allow_busy gets through: that needs no locks. A session that waits for
// one of the script's locks already goes on waiting until the script has ended or was killed.
func scriptCommands() []Command {
	const running = "Depends on the script that is executed."
	keys := func(flags spec.KeyFlags) spec.Keys { return spec.Keys{spec.CountedKeys(2, flags)} }
	const flags = spec.NoScript | spec.Stale | spec.SkipMonitor | spec.NoMandatoryKeys
	return []Command{
		{Command: spec.Command{Name: "eval", Syntax: "EVAL script numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "2.6.0", Complexity: running,
			Differs: "Each script begins with the same random numbers (Redis: where the last one has stopped), so that nothing leaks from one to the next.",
			Summary: "Runs a Lua script.",
			Flags:   flags, Keys: keys(spec.RW | spec.Access | spec.Update)},
			Run: evalCommand, Scope: scopeOwn, Turns: scriptTakesTurns},
		{Command: spec.Command{Name: "eval_ro", Syntax: "EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: running,
			Differs: "As EVAL.",
			Summary: "Runs a Lua script that may not write.",
			Flags:   flags | spec.ReadOnly, Keys: keys(spec.RO | spec.Access)},
			Run: evalCommand, Scope: scopeOwn},
		{Command: spec.Command{Name: "evalsha", Syntax: "EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "2.6.0", Complexity: running,
			Differs: "As EVAL.", Summary: "Runs a cached Lua script, by the SHA1 of its text.",
			Flags: flags, Keys: keys(spec.RW | spec.Access | spec.Update)},
			Run: evalshaCommand, Scope: scopeOwn, Turns: scriptTakesTurns},
		{Command: spec.Command{Name: "evalsha_ro", Syntax: "EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]",
			Group: spec.Scripting, Since: "7.0.0", Complexity: running,
			Differs: "As EVAL.",
			Summary: "Runs a cached Lua script that may not write.",
			Flags:   flags | spec.ReadOnly, Keys: keys(spec.RO | spec.Access)},
			Run: evalshaCommand, Scope: scopeOwn},
		{Command: spec.Command{Name: "script",
			Group: spec.Scripting, Since: "2.6.0",
			Summary: "Groups the commands on the cache of scripts."}},
		{Command: spec.Command{Name: "script|debug", Syntax: "SCRIPT DEBUG <YES | SYNC | NO>",
			Group: spec.Scripting, Since: "3.2.0", Complexity: "O(1)",
			Differs: "Takes NO only.",
			Summary: "Accepts NO only, for there is no debugger of scripts.",
			Flags:   spec.NoScript},
			Run: scriptDebugCommand},
		{Command: spec.Command{Name: "script|exists", Syntax: "SCRIPT EXISTS sha1 [sha1 ...]",
			Group: spec.Scripting, Since: "2.6.0", Complexity: "O(N) with N being the number of scripts to check.",
			Summary: "Tells which scripts are cached.",
			Flags:   spec.NoScript,
			Hints:   []string{"request_policy:all_shards", "response_policy:agg_logical_and"}},
			Run: scriptExistsCommand},
		{Command: spec.Command{Name: "script|flush", Syntax: "SCRIPT FLUSH [ASYNC | SYNC]",
			Group: spec.Scripting, Since: "2.6.0", Complexity: "O(N) with N being the number of cached scripts.",
			Summary: "Forgets all cached scripts.",
			Flags:   spec.NoScript,
			Hints:   []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
			History: []spec.Change{{Version: "6.2.0", What: "Added the `ASYNC` and `SYNC` flushing mode modifiers."}}},
			Run: scriptFlushCommand},
		{Command: spec.Command{Name: "script|help", Syntax: "SCRIPT HELP",
			Group: spec.Scripting, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.",
			Flags:   spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "script|kill", Syntax: "SCRIPT KILL",
			Group: spec.Scripting, Since: "2.6.0", Complexity: "O(1)",
			Differs: "Several scripts may run past their limit at once: stops all that have written nothing.",
			Summary: "Stops scripts that run past their time limit and have written nothing.",
			Flags:   spec.NoScript | spec.AllowBusy,
			Hints:   []string{"request_policy:all_shards", "response_policy:one_succeeded"}},
			Run: scriptKillCommand, Scope: scopeSession},
		{Command: spec.Command{Name: "script|load", Syntax: "SCRIPT LOAD script",
			Group: spec.Scripting, Since: "2.6.0", Complexity: "O(N) with N being the length in bytes of the script body.",
			Summary: "Caches a script without running it.",
			Flags:   spec.NoScript | spec.Stale,
			Hints:   []string{"request_policy:all_nodes", "response_policy:all_succeeded"}},
			Run: scriptLoadCommand},
	}
}

// scriptRow is the prefix of the system records that hold the texts of loaded scripts, each under its SHA1.
const scriptRow = "script/"

// savedScripts are the scripts whose system records are committed.
type savedScripts struct {
	mu    sync.RWMutex
	bySHA map[string]struct{}
}

func (k *savedScripts) has(sha []byte) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, ok := k.bySHA[string(sha)]
	return ok
}

func (k *savedScripts) add(sha string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bySHA == nil {
		k.bySHA = make(map[string]struct{})
	}
	k.bySHA[sha] = struct{}{}
}

func (k *savedScripts) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.bySHA)
}

// loadScripts fills the cache with the scripts that the store keeps.
func (s *Server) loadScripts() error {
	tx := s.store.NewTx()
	tx.Begin(s.store.All())
	defer tx.End()
	return tx.EachSystem(scriptRow, func(name string, body []byte) error {
		// A script that this version can't compile is left alone: whoever sends it again learns why.
		sha, err := s.scripts.Load(body)
		if err != nil {
			s.logger.Warn("a kept script does not compile", "sha", name[len(scriptRow):], "err", err)
			return nil
		}
		s.saved.add(sha)
		return nil
	})
}

// scriptRun is the run of a script, or of a function, in its session. It implements scripting.Caller and
// scripting.Permitter.
type scriptRun struct {
	session  *session
	call     Call        // of the command that the script issues
	out      resp.Writer // takes that command's reply
	reply    []byte      // the script's own
	readOnly bool
	wrote    bool
	mayAdd   bool // also when the disk is nearly full
	unsaved  []unsavedScript
}

// unsavedScript is a script that SCRIPT LOAD has put into the cache and that is saved with the next commit.
type unsavedScript struct {
	sha  string
	body []byte
}

// maxKeptReply bounds the reply buffer that a session keeps between scripts.
const maxKeptReply = 64 << 10

// errReadOnlyScript is Redis' reply to a script that may not write and tries to.
//
//lint:ignore ST1005 the text is Redis'
var errReadOnlyScript = errors.New("Write commands are not allowed from read-only scripts.")

// Call carries out a command of the script, in the script's transaction.
func (r *scriptRun) Call(dst []byte, proto int, args [][]byte) ([]byte, error) {
	r.out.Reset()
	r.out.SetProto(proto)
	cmd, err := r.admit(args)
	if err != nil {
		r.out.Error(err)
		return append(dst, r.out.Bytes()...), nil
	}
	r.call.cmd, r.call.Args = cmd, args
	if err := r.session.perform(&r.call); err != nil {
		return dst, err
	}
	r.wrote = r.wrote || cmd.Has(spec.Write)
	if err := r.call.tx.Check(); err != nil {
		return dst, err
	}
	return append(dst, r.out.Bytes()...), nil
}

// Begin takes what the script says about itself. One that does not say that it writes nothing can't be run by a command that
// is for reading only, unless it says nothing at all. One that allows OOM may add data when the disk is
// nearly full. The other flags ask for what is the case anyway: there is no stale replica, and keys may lie on any shard.
func (r *scriptRun) Begin(flags scripting.Flags) error {
	r.mayAdd = flags&scripting.AllowOOM != 0
	switch {
	case flags&scripting.NoWrites != 0:
		r.readOnly = true
	case r.readOnly && flags&scripting.Undeclared == 0:
		return resp.ErrScriptMayWrite
	}
	return nil
}

// Wrote tells whether a command of the script may have written.
func (r *scriptRun) Wrote() bool { return r.wrote }

// Permits tells whether there is such a command. There is one user, who may do everything.
func (r *scriptRun) Permits(args [][]byte) (known, permitted bool) {
	cmd, _ := r.session.server.table.Resolve(args)
	return cmd != nil, true
}

// admit finds the command and checks whether a script may issue it. The error is the reply. As in Redis when memory is short, a script that has
// written goes on to its end.
func (r *scriptRun) admit(args [][]byte) (*Command, error) {
	cmd, _ := r.session.server.table.Resolve(args)
	switch {
	case cmd == nil:
		return nil, resp.ErrScriptUnknown
	case !cmd.AcceptsArgs(len(args)):
		return nil, resp.ErrScriptWrongArgs
	case cmd.Has(spec.NoScript):
		return nil, resp.ErrScriptNotAllowed
	case r.readOnly && (cmd.Has(spec.Write) || cmd.Effects):
		return nil, errReadOnlyScript
	}
	// What has written goes on to its end, unless the disk is all but full: then it fails, and all that it did is undone.
	if st := r.session.server.store; !r.wrote && !r.mayAdd || st.DiskSpent() {
		return cmd, cmd.diskBars(st)
	}
	return cmd, nil
}

// beginScript prepares the session's script run for the call.
func (c *Call) beginScript() *scriptRun {
	r := &c.session.script
	r.call = Call{Out: &r.out, session: c.session, server: c.server, tx: c.tx, db: c.db, script: true}
	r.readOnly, r.wrote, r.mayAdd = c.cmd.Has(spec.ReadOnly), false, false
	return r
}

// endScript writes the script's reply; raised says that it is an error that has ended the script. err is what ended it from
// outside.
func (c *Call) endScript(r *scriptRun, raised bool, err error) error {
	r.out.Reset() // for it may be large, too
	reply, kept := r.reply, cap(r.reply) <= maxKeptReply
	if !kept {
		r.reply = nil
	}
	switch {
	case err != nil:
		return err
	case kept:
		c.Out.Raw(reply)
	default:
		c.Out.Take(reply)
	}
	if raised {
		return errUndo
	}
	return nil
}

// scriptArguments parses what EVAL and EVALSHA take: the script or its SHA1, numkeys, the keys and the other arguments.
func scriptArguments(c *Call) (script []byte, keys, args [][]byte, err error) {
	a := c.args(0)
	script = a.bytes()
	keys, args, err = countedArguments(a)
	return script, keys, args, err
}

// countedArguments parses numkeys, the keys and the other arguments.
func countedArguments(a *arguments) (keys, args [][]byte, err error) {
	n := a.integer()
	switch {
	case a.err != nil:
		return nil, nil, a.err
	case n > int64(len(a.rest)):
		return nil, nil, resp.ErrNumKeysTooMany
	case n < 0:
		return nil, nil, resp.ErrNumKeysNegative
	}
	return a.take(int(n)), a.all(), nil
}

// EVAL script numkeys [key [key ...]] [arg [arg ...]]
// EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]
func evalCommand(c *Call) error {
	c.session.noteShown(c)
	body, keys, args, err := scriptArguments(c)
	if err != nil {
		return err
	}
	return c.runScript(keys, func() error {
		r := c.beginScript()
		var raised bool
		r.reply, raised, err = c.server.scripts.Eval(r.reply[:0], body, keys, args, r, c.Out.Proto())
		return c.endScript(r, raised, err)
	})
}

// EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]
// EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]
func evalshaCommand(c *Call) error {
	c.session.noteShown(c)
	if len(c.Args[1]) != hex.EncodedLen(sha1.Size) { // before the other arguments, as in Redis
		return resp.ErrNoScript
	}
	sha, keys, args, err := scriptArguments(c)
	if err != nil {
		return err
	}
	return c.runScript(keys, func() error {
		r := c.beginScript()
		var raised bool
		r.reply, raised, err = c.server.scripts.EvalSHA(r.reply[:0], sha, keys, args, r, c.Out.Proto())
		return c.endScript(r, raised, err)
	})
}

// SCRIPT DEBUG <YES | SYNC | NO>
func scriptDebugCommand(c *Call) error {
	switch a := c.args(1); {
	case a.token("NO"): // which is how it is
		c.Out.OK()
		return nil
	case a.token("YES"), a.token("SYNC"):
		return resp.ErrNoDebugger
	}
	return resp.ErrScriptDebugMode
}

// SCRIPT EXISTS sha1 [sha1 ...]
func scriptExistsCommand(c *Call) error {
	shas := c.Args[2:]
	c.Out.Array(len(shas))
	for _, sha := range shas {
		// An integer in RESP3 too.
		if c.server.scripts.Exists(sha) {
			c.Out.Int(1)
		} else {
			c.Out.Int(0)
		}
	}
	return nil
}

// SCRIPT FLUSH [ASYNC | SYNC]
func scriptFlushCommand(c *Call) error {
	a := c.args(1)
	if a.more() && !a.token("ASYNC") && !a.token("SYNC") || a.more() {
		return resp.ErrScriptFlushOption
	}
	var names []string
	err := c.tx.EachSystem(scriptRow, func(name string, _ []byte) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.tx.SetSystem(name, nil); err != nil {
			return err
		}
	}
	// The lock of shard 0, which EachSystem took, keeps others from saving a script before this is committed.
	c.server.scripts.Flush()
	c.server.saved.clear()
	c.session.forgetUnsaved()
	c.Out.OK()
	return nil
}

// SCRIPT KILL
func scriptKillCommand(c *Call) error {
	if err := c.server.scripts.KillScripts(); err != nil {
		return scriptError(err)
	}
	c.Out.OK()
	return nil
}

// SCRIPT LOAD script
func scriptLoadCommand(c *Call) error {
	body := c.Args[2]
	sha, err := c.server.scripts.Load(body)
	if err != nil {
		return scriptError(err)
	}
	c.session.script.remember(body)
	c.Out.BulkString(sha)
	return nil
}

// scriptError makes an error of the engine that is a reply one.
func scriptError(err error) error {
	var reply scripting.Error
	if errors.As(err, &reply) {
		return resp.Error(reply)
	}
	return err
}

// remember notes a loaded script that is not saved yet, so that it survives a restart.
func (r *scriptRun) remember(body []byte) {
	sum := sha1.Sum(body)
	var sha [2 * sha1.Size]byte
	hex.Encode(sha[:], sum[:])
	s := r.session.server
	if !s.saved.has(sha[:]) && s.scripts.Exists(sha[:]) {
		r.unsaved = append(r.unsaved, unsavedScript{string(sha[:]), body})
	}
}

// relearn caches the script of an EVAL that EXEC passes over, for a SCRIPT FLUSH before it has been repeated.
func (ss *session) relearn(cmd *Command, args [][]byte) {
	if cmd.Name != "eval" && cmd.Name != "eval_ro" {
		return
	}
	_ = ss.server.scripts.Learn(args[1]) // it ran, so it compiles
}

// saveScripts puts the scripts that were loaded since the last commit into the transaction.
func (ss *session) saveScripts() error {
	for _, k := range ss.script.unsaved {
		if err := ss.tx.SetSystem(scriptRow+k.sha, k.body); err != nil {
			return err
		}
	}
	return nil
}

// scriptsSaved notes that the commit has succeeded. The lock of shard 0 is still held, so no SCRIPT FLUSH can come in
// between.
func (ss *session) scriptsSaved() {
	for _, k := range ss.script.unsaved {
		ss.server.saved.add(k.sha)
	}
	ss.forgetUnsaved()
}

func (ss *session) forgetUnsaved() {
	clear(ss.script.unsaved)
	ss.script.unsaved = ss.script.unsaved[:0]
}
