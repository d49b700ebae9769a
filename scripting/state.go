package scripting

import (
	"strconv"
	"sync"
	"time"

	"codeq/scripting/lua"
)

const (
	// keepBytes bounds the buffers that an idle state keeps.
	keepBytes = 64 << 10
	// stepsPerPoll says how many steps pass between looks at the memory, the clock and the kill flag.
	stepsPerPoll = 1 << 14
)

// state is one Lua world with its sandbox and the run on it.
type state struct {
	e         *Engine
	rt        *lua.Runtime
	L         *lua.Thread // the main one
	globals   *lua.Table  // of scripts
	json      *jsonLibrary
	functions functionWorld
	spent     bool // the last run held too much, which the variables of a library may still do
	ended     bool // the last run has ended as runs do
	gauge

	// The run.
	caller    Caller     // nil while a library becomes known
	world     *lua.Table // the globals of what runs: globals, or those of functions
	function  *Function  // nil for a script
	words     [][]byte   // of the command that calls the function
	loadLimit time.Duration
	resp      int // the protocol of command replies, set by redis.setresp
	random    uint64
	started   time.Time
	stopped   bool
	stop      error // why, once stopped
	// Buffers of the run, kept between runs.
	reply      []byte
	argBytes   []byte
	argEnds    []int
	callArgs   [][]byte
	scratch    []byte
	replyEnd   int // where the script's own reply has to end
	keys, argv arguments
	chunk      *lua.Function // the last script that was run; a main chunk has no upvalues, so that it can run again
	chunkOf    *lua.Proto    // whose function it is

	killMu      sync.Mutex
	late        bool // past the limit
	wrote       bool
	killed      bool
	lateCommand []string // a copy of words
}

const (
	// errKilled stops a run that SCRIPT KILL has named.
	errKilled Error = "ERR Script killed by user with SCRIPT KILL..."
	// errServerEnds stops a run that is past its limit when the server ends.
	errServerEnds Error = "ERR Script stopped by SHUTDOWN NOSAVE"
)

func newState(e *Engine) *state {
	st := &state{e: e}
	st.rt = lua.NewRuntime(st.poll)
	st.rt.Reserve = st.reserve
	st.L = st.rt.Main()
	st.buildSandbox()
	return st
}

// poll is what the machine calls when its budget of steps is used up. Once a run must stop it throws, and again at each step that follows,
// so that no pcall can hold it.
func (st *state) poll(L *lua.Thread) {
	if st.mustStop() {
		L.Throw(lua.String(""))
	}
}

// mustStop looks at the memory, the clock and the kill flag and grants the next steps. A run that must stop gets none.
func (st *state) mustStop() bool {
	if !st.stopped {
		st.look()
	}
	if st.stopped {
		st.rt.Budget = 0
	} else {
		st.rt.Budget = stepsPerPoll
	}
	return st.stopped
}

// work accounts for n steps inside a library function, and ends the script there if it must stop.
func (st *state) work(L *lua.Thread, n int) { st.rt.Spend(L, n) }

// reserve refuses to build a string beyond the limit and accounts for the work of building it.
func (st *state) reserve(L *lua.Thread, size int) { st.grow(L, size, size) }

// grow is reserve for a string that is built in parts, of which the last one has so many bytes.
func (st *state) grow(L *lua.Thread, size, added int) {
	if size < 0 || size > st.e.opts.MaxStringBytes {
		L.Raise("resulting string too large")
	}
	if added > bytesPerStep {
		st.coming = uint64(size)
		st.work(L, added/bytesPerStep)
		st.coming = 0
	}
}

// look stops the run if it holds too much, is killed, or may not go on for other reasons.
func (st *state) look() {
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
	switch {
	case st.killed:
		st.stopped, st.stop = true, errKilled
	case st.e.stopLate.Load():
		st.stopped, st.stop = true, errServerEnds
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
func (st *state) abort(L *lua.Thread, err error) {
	st.stopped, st.stop = true, err
	st.rt.Budget = 0
	L.Throw(lua.String(err.Error()))
}

// unwind goes on ending a run that must stop, from where an error was caught.
func (st *state) unwind(L *lua.Thread) {
	if st.stopped {
		L.Throw(lua.String(""))
	}
}

func (st *state) begin(caller Caller) {
	st.caller, st.world, st.resp = caller, st.globals, 2
	st.random = randomStart
	st.json.config = defaultJSON()
	st.rt.Budget, st.started = stepsPerPoll, time.Time{}
	st.since, st.coming = 0, 0
	st.stopped, st.stop = false, nil
	st.ended = false
	st.loadLimit = 0
}

func (st *state) end() {
	st.caller = nil
	st.rt.Reset()
	st.release(0)
	if st.keys.trim() {
		st.globals.SetText("KEYS", lua.Nil)
	}
	if st.argv.trim() {
		st.globals.SetText("ARGV", lua.Nil)
	}
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
	if t, again := st.keys.of(keys); !again {
		st.globals.SetText("KEYS", t.Value())
	}
	if t, again := st.argv.of(args); !again {
		st.globals.SetText("ARGV", t.Value())
	}
	if st.chunkOf != s.proto {
		st.chunk, st.chunkOf = lua.NewClosure(s.proto, st.globals), s.proto
	}
	st.L.Push(st.chunk.Value())
	reply, raised, err = st.finish(dst, st.L.PCall(0, 1), s.name, proto)
	st.ended = true
	return reply, raised, err
}

// finish appends the reply of a run that has left its result on the stack, or that something thrown has ended.
func (st *state) finish(dst []byte, thrown *lua.Error, name string, proto int) (reply []byte, raised bool, stop error) {
	if thrown == nil {
		dst, raised = st.appendReply(dst, st.L.Pop(), name, proto)
		return dst, raised, nil
	}
	if _, isReply := st.stop.(Error); st.stop != nil && !isReply {
		return dst, false, st.stop
	}
	st.rt.Reset() // what the stack holds may be as large as the reply
	return st.appendFailure(dst, name, thrown), true, nil
}

// failureText is what a client is told of the value that ended a run, but for where it was thrown; the code apart, if the text has none.
func failureText(v lua.Value) (code, text string) {
	t := v.Table()
	if t == nil {
		return "ERR ", cString(plainText(v))
	}
	if text, ok := t.GetText("err").ToText(); ok {
		return "", cString(text)
	}
	return "ERR ", "unknown error"
}

// appendFailure encodes what ended a script or function of that name.
func (st *state) appendFailure(dst []byte, name string, thrown *lua.Error) []byte {
	code, text := failureText(thrown.Value)
	if reply, ok := st.stop.(Error); ok {
		code, text = "", string(reply)
	}
	if thrown.Source == "" {
		return appendError(dst, code, text)
	}
	return appendError(dst, code, text, " script: ", name, ", on ", thrown.Source, ":", strconv.Itoa(thrown.Line), ".")
}
