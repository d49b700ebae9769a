package scripting

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

// Sizes of a state. A call frame takes some 90 bytes and a register 16.
const (
	callDepth          = 4096
	registers          = 1024
	registersMax       = 1 << 20
	registersStep      = 4096
	coroutineCallDepth = 1024
	coroutineRegisters = 256
	// keepBytes bounds the buffers that an idle state keeps.
	keepBytes = 64 << 10
)

// pollMask says how many steps pass between looks at the clock and the kill flag: a power of two less one.
const pollMask = 1<<12 - 1

// state is one Lua state with its sandbox and the run on it. It implements context.Context because the virtual machine
// asks its context before each instruction whether it is done: that is where steps are counted.
type state struct {
	e       *Engine
	L       *lua.LState
	globals *lua.LTable // the real table behind the facade
	strings *lua.LTable // likewise, of the string library

	// realTables maps facades to the tables behind them, facades is the inverse.
	realTables map[*lua.LTable]*lua.LTable
	facades    map[*lua.LTable]*lua.LTable
	helpers    map[luaparse.Helper]lua.LValue
	textMeta   *lua.LTable    // what getmetatable("") answers
	null       *lua.LUserData // cjson.null
	json       *jsonLibrary
	sources    map[string]string // the names of loaded chunks by how messages shorten them
	functions  functionWorld
	tainted    bool
	protection
	gauge
	collected atomic.Bool // the garbage collector has been through since the last poll

	// The run.
	caller     Caller    // nil while a library becomes known
	function   *Function // nil for a script
	words      [][]byte  // of the command that calls the function
	loadLimit  time.Duration
	resp       int // the protocol of command replies, set by redis.setresp
	random     uint64
	steps      uint64
	started    time.Time
	coroutines int
	stopped    bool
	stop       error // why, once stopped
	// Buffers of the run, kept between runs.
	reply      []byte
	argBytes   []byte
	argEnds    []int
	callArgs   [][]byte
	scratch    []byte
	replyEnd   int // where the script\'s own reply has to end
	keys, argv arguments
	chunk      *lua.LFunction // the last text that was run; it has no upvalues, so that it can run again
	// chunkHelpers are what chunk is given.
	chunkHelpers []lua.LValue

	killMu      sync.Mutex
	late        bool // past the limit
	wrote       bool
	killed      bool
	lateCommand []string // a copy of words
}

// errKilled stops a run that SCRIPT KILL has named.
const errKilled Error = "ERR Script killed by user with SCRIPT KILL..."

// closed is what Done answers once a run must stop.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func newState(e *Engine) *state {
	L := lua.NewState(lua.Options{
		CallStackSize: callDepth, RegistrySize: registers, RegistryMaxSize: registersMax, RegistryGrowStep: registersStep,
		SkipOpenLibs: true,
	})
	// What follows is for the coroutines, which take their sizes from the state.
	L.Options.CallStackSize = coroutineCallDepth
	L.Options.RegistrySize = coroutineRegisters
	st := &state{e: e, L: L, realTables: map[*lua.LTable]*lua.LTable{}, facades: map[*lua.LTable]*lua.LTable{},
		sources: map[string]string{}}
	st.hosts = map[*lua.LState]*lua.LState{}
	st.buildSandbox()
	L.SetContext(st)
	return st
}

// Deadline, Err and Value are context.Context's; the machine uses Done and Err only.
func (st *state) Deadline() (time.Time, bool) { return time.Time{}, false }

// Err says why the run stopped.
func (st *state) Err() error {
	if st.stopped {
		return context.Canceled
	}
	return nil
}

// Value answers nothing.
func (st *state) Value(any) any { return nil }

// Done counts a step. It answers a closed channel once the run must stop, so that no pcall can hold it.
func (st *state) Done() <-chan struct{} {
	st.steps++
	if st.steps&pollMask == 0 || st.collected.Load() {
		st.poll()
	}
	if st.stopped {
		return closed
	}
	return nil
}

// work accounts for n steps inside a library function, and ends the script there if it must stop.
func (st *state) work(L *lua.LState, n int) {
	before := st.steps
	st.steps += uint64(n)
	if before/(pollMask+1) != st.steps/(pollMask+1) || st.collected.Load() {
		st.poll()
	}
	if st.stopped {
		throw(L, lua.LString(""))
	}
}

// reserve refuses to build a string beyond the limit and accounts for the work of building it.
func (st *state) reserve(L *lua.LState, size int) { st.grow(L, size, size) }

// grow is reserve for a string that is built in parts, of which the last one has so many bytes.
func (st *state) grow(L *lua.LState, size, added int) {
	if size < 0 || size > st.e.opts.MaxStringBytes {
		raise(L, "resulting string too large")
	}
	if added > bytesPerStep {
		st.coming = uint64(size)
		st.work(L, added/bytesPerStep)
		st.coming = 0
	}
}

// poll looks at the memory, the clock and the kill flag.
func (st *state) poll() {
	st.collected.Store(false)
	if st.stopped {
		return
	}
	if st.checkMemory(); st.stopped {
		return
	}
	limit := st.e.opts.TimeLimit()
	if st.caller == nil {
		limit = st.loadLimit
	}
	if limit <= 0 {
		return
	}
	now := st.e.opts.Now()
	if st.started.IsZero() {
		// Short scripts never come here, so they do not pay for the clock.
		st.started = now
		return
	}
	if !st.late && now.Sub(st.started) < limit {
		return
	}
	if st.caller == nil {
		st.stopped, st.stop = true, errLoadTimeout
		return
	}
	st.killMu.Lock()
	defer st.killMu.Unlock()
	if !st.late {
		st.becomeLate()
	}
	if st.killed {
		st.stopped, st.stop = true, errKilled
	}
}

// becomeLate makes the run known as one that is past its limit. killMu is held.
func (st *state) becomeLate() {
	st.late = true
	st.wrote = st.caller.Wrote()
	st.e.late.Add(1)
	if st.function == nil {
		st.e.lateScripts.Add(1)
	}
	for _, word := range st.words {
		st.lateCommand = append(st.lateCommand, string(word))
	}
}

// verdict is what came of asking a run to stop.
type verdict int

const (
	isNotLate verdict = iota
	isKilled
	isUnkillable // it has written
	isOther      // it is a script rather than a function, or the other way round
	verdicts
)

// kill asks the run to stop, if it is late, has not written, and is a function or a script as is said.
func (st *state) kill(function bool) verdict {
	st.killMu.Lock()
	defer st.killMu.Unlock()
	switch {
	case !st.late:
		return isNotLate
	case st.wrote:
		return isUnkillable
	case (st.function != nil) != function:
		return isOther
	}
	st.killed = true
	return isKilled
}

// noteCall tells a late run's killer that the run has written. From the kill flag on it may not write any more.
func (st *state) noteCall() {
	if !st.late {
		return
	}
	st.killMu.Lock()
	defer st.killMu.Unlock()
	st.wrote = st.wrote || st.caller.Wrote()
}

// abort ends the run with an error that the script cannot catch.
func (st *state) abort(L *lua.LState, err error) {
	st.stopped, st.stop = true, err
	throw(L, lua.LString(err.Error()))
}

func (st *state) begin(caller Caller) {
	st.caller, st.resp = caller, 2
	st.random = randomStart
	st.json.config = defaultJSON()
	clear(st.sources)
	st.steps, st.started = 0, time.Time{}
	st.nested, st.coroutines, st.since, st.coming = 0, 0, 0, 0
	st.stopped, st.stop = false, nil
	st.loadLimit = 0
}

func (st *state) end() {
	st.caller = nil
	if st.late {
		st.killMu.Lock()
		st.late, st.wrote, st.killed, st.lateCommand = false, false, false, nil
		st.killMu.Unlock()
		st.e.late.Add(-1)
		if st.function == nil {
			st.e.lateScripts.Add(-1)
		}
	}
	st.function, st.words = nil, nil
	if cap(st.reply) > keepBytes {
		st.reply = nil
	}
	if cap(st.argBytes) > keepBytes {
		st.argBytes = nil
	}
	if cap(st.scratch) > keepBytes {
		st.scratch = nil
	}
}

func (st *state) keepScratch(buf []byte) {
	if cap(buf) <= keepBytes {
		st.scratch = buf
	}
}

// eval runs a script and appends its reply. raised says that the reply is an error that has ended the script.
func (st *state) eval(dst []byte, s *script, keys, args [][]byte, caller Caller, proto int) (reply []byte, raised bool, err error) {
	st.begin(caller)
	defer st.end()
	st.setArguments("KEYS", luaparse.Keys, st.arguments(keys, &st.keys))
	st.setArguments("ARGV", luaparse.Argv, st.arguments(args, &st.argv))
	err = st.runChunk(s.proto, s.helpers, 1)
	return st.finish(dst, err, string(s.sha[:]), proto)
}

// setArguments makes a table KEYS or ARGV, unless it is that already.
func (st *state) setArguments(name string, helper luaparse.Helper, t *lua.LTable) {
	if st.helpers[helper] == t {
		return
	}
	st.globals.RawSetString(name, t)
	st.helpers[helper] = t
	st.chunk = nil // it was given the table before
}

// runChunk runs a compiled text, which leaves so many results on the stack.
func (st *state) runChunk(proto *lua.FunctionProto, helpers []luaparse.Helper, results int) error {
	L := st.L
	if st.chunk == nil || st.chunk.Proto != proto || st.chunk.Env != L.Env {
		st.chunk = L.NewFunctionFromProto(proto)
		st.chunkHelpers = st.chunkHelpers[:0]
		for _, h := range helpers {
			st.chunkHelpers = append(st.chunkHelpers, st.helpers[h])
		}
	}
	L.Push(st.chunk)
	for _, h := range st.chunkHelpers {
		L.Push(h)
	}
	return L.PCall(len(helpers), results, nil)
}

// finish appends the reply of a run that has left its result on the stack, or that err has ended.
func (st *state) finish(dst []byte, err error, name string, proto int) (reply []byte, raised bool, stop error) {
	if err == nil && !st.stopped {
		dst, raised = st.appendReply(dst, st.L.Get(-1), name, proto)
		st.L.SetTop(0)
		st.tainted = raised
		return dst, raised, nil
	}
	// An error leaves frames, upvalues and registers in a shape that nobody vouches for.
	st.tainted = true
	if _, isReply := st.stop.(Error); st.stop != nil && !isReply {
		return dst, false, st.stop
	}
	return st.appendFailure(dst, name, err), true, nil
}

// arguments are the values of KEYS or ARGV, with what is kept of them between runs.
type arguments struct {
	values []lua.LValue
	table  *lua.LTable
	n      int // elements that were put into table
}

// arguments makes the table KEYS or ARGV. Consecutive runs often get the same keys, whose values are then used again, and as many,
// in which case the table is, too, if the script before has added nothing to it.
func (st *state) arguments(words [][]byte, kept *arguments) *lua.LTable {
	size := 0
	for i, word := range words {
		size += len(word)
		if i == len(kept.values) {
			kept.values = append(kept.values, lua.LString(word))
		} else if string(kept.values[i].(lua.LString)) != string(word) {
			kept.values[i] = lua.LString(word)
		}
	}
	t := kept.table
	if t != nil && kept.n == len(words) && t.Metatable == lua.LNil && isArray(t, kept.n) {
		for i := range words {
			t.RawSetInt(i+1, kept.values[i])
		}
	} else {
		t = st.L.CreateTable(len(words), 0)
		for i := range words {
			t.Append(kept.values[i])
		}
		kept.table, kept.n = t, len(words)
	}
	if size > keepBytes {
		*kept = arguments{}
	}
	return t
}

// isArray tells whether the table has the elements 1 to n and nothing else.
func isArray(t *lua.LTable, n int) bool {
	if t.Len() != n {
		return false
	}
	last := lua.LValue(lua.LNil)
	if n > 0 {
		last = lua.LNumber(n)
	}
	next, _ := t.Next(last)
	return next == lua.LNil
}

// failureText is what a client is told of the error that ended a run, but for where it was raised.
func (st *state) failureText(err error) string {
	var api *lua.ApiError
	if !errors.As(err, &api) {
		return "ERR " + err.Error()
	}
	v := st.errorValue(api)
	t, ok := v.(*lua.LTable)
	if !ok {
		return "ERR " + cString(st.text(v))
	}
	if text, ok := toText(t.RawGetString("err")); ok {
		return cString(text)
	}
	return "ERR unknown error"
}

// appendFailure encodes the error that ended a script or function of that name.
func (st *state) appendFailure(dst []byte, name string, err error) []byte {
	message := st.failureText(err)
	var api *lua.ApiError
	if !errors.As(err, &api) {
		return appendError(dst, message)
	}
	source, line := st.raisedAt(api.StackTrace)
	if reply, ok := st.stop.(Error); ok {
		message = string(reply)
	}
	if source != "" {
		message += " script: " + name + ", on " + source + ":" + line + "."
	}
	return appendError(dst, message)
}

// errorValue answers the value that was raised, with the machine's own texts put right.
func (st *state) errorValue(api *lua.ApiError) lua.LValue {
	text, ok := api.Object.(lua.LString)
	if !ok {
		return api.Object
	}
	if api.Type == lua.ApiErrorPanic {
		// The machine itself failed: nothing on this state can be relied upon.
		st.tainted = true
	}
	return lua.LString(vmMessage(string(text)))
}

// raisedAt reads from a stack trace where an error was raised: the innermost Lua function, looking through one library
// function, as Redis' error handler does.
func (st *state) raisedAt(trace string) (source, line string) {
	lines := strings.SplitN(trace, "\n", 4)
	for i := 1; i < len(lines) && i <= 2; i++ {
		at, _, ok := strings.Cut(strings.TrimPrefix(lines[i], "\t"), ": in ")
		if !ok {
			return "", ""
		}
		if at == "[G]" {
			if i == 2 {
				return "=[C]", "-1"
			}
			continue
		}
		colon := strings.LastIndexByte(at, ':')
		if colon < 0 {
			return "", ""
		}
		if name, ok := st.sources[at[:colon]]; ok {
			return name, at[colon+1:]
		}
		return "@" + at[:colon], at[colon+1:]
	}
	return "", ""
}
