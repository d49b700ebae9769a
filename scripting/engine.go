// Package scripting runs Lua scripts as Redis 7.0 does.
//
// It owns the script cache, the pool of states, the sandbox with its libraries, the conversion of replies in both directions, the error
// texts of all these, the time limit with BUSY and SCRIPT KILL, and the bound of what a run holds. It must not know commands, keys, shards or
// connections: a script's commands go out through Caller. The language itself is in the packages lua, the machine, and luaparse, the parser.
//
// Layout: engine.go is the API; cache.go keeps compiled scripts; shebang.go reads their first lines; functions.go has libraries of
// functions, functions_state.go runs them; state.go is one pooled state and its run, arguments.go its KEYS and ARGV; sandbox.go builds the
// globals; reply.go converts replies; lib_*.go are the libraries. A further library is one lib_*.go file and one line in sandbox.go.
// raise.go checks their arguments, output.go is the string that a library builds. memory.go bounds what a run holds.
//
// A script finds nothing that it could change for later ones: all tables of the sandbox are read-only, which the machine and the library
// functions that write see to.
//
// A script runs on its caller's goroutine. Several may run at once, each on its own state. While any does, a timer has all of them look whether
// they must stop; it ends with the last. Locks:
// cache.mu guards the cache, Engine.poolMu the pool, the list of states and the change of the libraries, state.killMu one state's kill flag;
// poolMu is taken before killMu, and cache.mu with neither.
package scripting

import (
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"codeq/scripting/lua"
)

// Caller runs the commands that one run of a script issues.
type Caller interface {
	// Call runs a command and appends its reply, encoded in RESP2 or RESP3 as proto says, to dst. A command's own error is a
	// reply. err ends the whole script, which cannot catch it, and is returned by Eval: the transaction must run again, or
	// something broke. args are valid until Call returns.
	Call(dst []byte, proto int, args [][]byte) (reply []byte, err error)
	// Begin comes before the first Call of a run. An error keeps the run from taking place; its text is the reply, with its code.
	Begin(flags Flags) error
	// Wrote says whether a command of this run has written; such a script cannot be killed.
	Wrote() bool
}

// Permitter is implemented by a Caller that can tell what the script's user may do. Without it everything is permitted.
type Permitter interface {
	// Permits says whether a command of that name exists and whether the script's user may carry it out with these
	// arguments, for redis.acl_check_cmd. args are valid until it returns.
	Permits(args [][]byte) (known, permitted bool)
}

// Options configure an Engine. The zero value of a field means its default.
type Options struct {
	// PoolSize bounds the idle states that are kept; the default is 16.
	PoolSize int
	// MaxStringBytes bounds a string that a script builds; the default is 512 MB, Redis' limit of a bulk string.
	MaxStringBytes int
	// MaxMemory bounds, about, what one run holds: its values and the buffers of its commands; the default is 512 MB.
	MaxMemory func() int64
	// TimeLimit is lua-time-limit: how long a script runs before others get BUSY. Zero or less means no limit.
	TimeLimit func() time.Duration
	// EvalCacheBytes bounds the memory of the compiled scripts that only Eval made known; the default is 16 MB.
	EvalCacheBytes func() int64
	// Now is the clock; the default is time.Now.
	Now func() time.Time
	// Logger receives redis.log; the default is slog.Default().
	Logger *slog.Logger
}

const (
	defaultPoolSize       = 16
	defaultMaxStringBytes = 512 << 20
	defaultMaxMemory      = 512 << 20
	defaultEvalCacheBytes = 16 << 20
)

// Error is an error whose text is the reply, with its code.
type Error string

func (e Error) Error() string { return string(e) }

const (
	// ErrNotBusy is the answer of SCRIPT KILL and FUNCTION KILL when nothing runs past its limit.
	ErrNotBusy Error = "NOTBUSY No scripts in execution right now."
	// ErrUnkillable is their answer when the script or function has written.
	ErrUnkillable Error = "UNKILLABLE Sorry the script already executed write commands against the dataset. " +
		"You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
	// ErrBusyScript is what others are told while a script runs past its limit, as is FUNCTION KILL.
	ErrBusyScript Error = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	// ErrBusyFunction is the same while a function does.
	ErrBusyFunction Error = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	// ErrNoScript is EVALSHA's answer for a script that is not cached.
	ErrNoScript Error = "NOSCRIPT No matching script. Please use EVAL."
)

// Engine compiles, caches and runs scripts, and libraries of functions. It is safe for concurrent use.
type Engine struct {
	opts      Options
	cache     cache
	libraries atomic.Pointer[Libraries]
	calls     atomic.Uint64 // of functions

	poolMu sync.Mutex
	idle   []*state
	states map[*state]struct{} // idle and running
	urger  *time.Timer         // calls urge, nil as long as nothing has run
	urging bool                // urger is set

	late        atomic.Int32 // runs past their limit
	lateScripts atomic.Int32 // those that are no functions
	stopLate    atomic.Bool  // see StopLate
}

// New makes an engine.
func New(opts Options) *Engine {
	if opts.PoolSize <= 0 {
		opts.PoolSize = defaultPoolSize
	}
	if opts.MaxStringBytes <= 0 {
		opts.MaxStringBytes = defaultMaxStringBytes
	}
	if opts.MaxMemory == nil {
		opts.MaxMemory = func() int64 { return defaultMaxMemory }
	}
	if opts.TimeLimit == nil {
		opts.TimeLimit = func() time.Duration { return 0 }
	}
	if opts.EvalCacheBytes == nil {
		opts.EvalCacheBytes = func() int64 { return defaultEvalCacheBytes }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	e := &Engine{opts: opts, cache: newCache(opts.EvalCacheBytes), states: map[*state]struct{}{}}
	e.libraries.Store(new(Libraries))
	return e
}

// Load compiles a script and caches it until Flush. The error's text is the reply, with its code.
func (e *Engine) Load(body []byte) (sha string, err error) {
	s, err := e.compiled(body, true)
	if err != nil {
		return "", err
	}
	return s.name, nil
}

// Learn compiles a script and caches it as Eval does, without running it.
func (e *Engine) Learn(body []byte) error {
	_, err := e.compiled(body, false)
	return err
}

// compiled finds the script in the cache or puts it there, to stay if it is loaded.
func (e *Engine) compiled(body []byte, loaded bool) (*script, error) {
	sum := sha1.Sum(body)
	var key shaKey
	hex.Encode(key[:], sum[:])
	if s := e.cache.get(key); s != nil && (s.loaded || !loaded) {
		return s, nil
	}
	if err := e.admitSource(len(body)); err != nil {
		return nil, err
	}
	s, err := compile(key, string(body))
	if err != nil {
		return nil, err
	}
	s.loaded = loaded
	return e.cache.put(s), nil
}

// find looks a script up by its name as clients write it, in either case.
func (e *Engine) find(sha []byte) *script {
	var key shaKey
	if len(sha) != len(key) {
		return nil
	}
	for i, c := range sha {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		key[i] = c
	}
	return e.cache.get(key)
}

// Exists says whether the script is cached.
func (e *Engine) Exists(sha []byte) bool { return e.find(sha) != nil }

// Body answers a cached script's text.
func (e *Engine) Body(sha []byte) ([]byte, bool) {
	s := e.find(sha)
	if s == nil {
		return nil, false
	}
	return []byte(s.body), true
}

// Len answers the number of cached scripts and the bytes of their texts.
func (e *Engine) Len() (scripts, bytes int) { return e.cache.len() }

// Flush forgets all scripts. Running ones end undisturbed.
func (e *Engine) Flush() { e.cache.flush() }

// Eval compiles a script, unless it is cached, and runs it. It appends the reply, encoded for a client of the protocol
// version proto, to dst. A script's error is a reply; raised says that such an error has ended the script, as opposed to
// one that the script returned or that kept it from running. err is what Caller.Call ended the script with.
//
// The script stays in the cache as long as it is not among the least recently used ones that the bound has no room for.
func (e *Engine) Eval(dst []byte, body []byte, keys, args [][]byte, caller Caller, proto int) (reply []byte, raised bool, err error) {
	s, err := e.compiled(body, false)
	if err != nil {
		return appendError(dst, err.Error()), false, nil
	}
	return e.run(dst, s, keys, args, caller, proto)
}

// EvalSHA runs a cached script, as Eval does.
func (e *Engine) EvalSHA(dst []byte, sha []byte, keys, args [][]byte, caller Caller, proto int) (reply []byte, raised bool, err error) {
	s := e.find(sha)
	if s == nil {
		return appendError(dst, ErrNoScript.Error()), false, nil
	}
	return e.run(dst, s, keys, args, caller, proto)
}

func (e *Engine) run(dst []byte, s *script, keys, args [][]byte, caller Caller, proto int) (reply []byte, raised bool, err error) {
	if err := caller.Begin(s.flags); err != nil {
		return appendError(dst, err.Error()), false, nil
	}
	st := e.take()
	defer e.put(st)
	mark := len(dst)
	reply, raised, err = st.eval(dst, s, keys, args, caller, proto)
	if err != nil {
		return reply[:mark], false, err
	}
	return reply, raised, nil
}

// urgeInterval is how often each run looks at the clock, the kill flag and the memory at least, as far as one step does not take longer.
// Steps are counted by what they usually take; one that compares strings of megabytes takes as much as millions of others.
const urgeInterval = 50 * time.Millisecond

// urge has all runs look, and sees to it that it is called again while there are any.
func (e *Engine) urge() {
	e.poolMu.Lock()
	defer e.poolMu.Unlock()
	for st := range e.states {
		st.rt.Urge()
	}
	e.urging = len(e.states) > len(e.idle)
	if e.urging {
		e.urger.Reset(urgeInterval)
	}
}

// beUrged has urge called while something runs. poolMu is held.
func (e *Engine) beUrged() {
	if e.urging {
		return
	}
	e.urging = true
	if e.urger == nil {
		e.urger = time.AfterFunc(urgeInterval, e.urge)
	} else {
		e.urger.Reset(urgeInterval)
	}
}

func (e *Engine) take() *state {
	e.poolMu.Lock()
	e.beUrged()
	if n := len(e.idle); n > 0 {
		st := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.poolMu.Unlock()
		return st
	}
	e.poolMu.Unlock()
	st := newState(e)
	e.poolMu.Lock()
	e.states[st] = struct{}{}
	e.poolMu.Unlock()
	return st
}

// put returns a state to the pool, unless that is full, the state may hold too much, or a fault of ours has ended the run with a panic.
func (e *Engine) put(st *state) {
	e.poolMu.Lock()
	defer e.poolMu.Unlock()
	if st.spent || !st.ended || len(e.idle) >= e.opts.PoolSize {
		delete(e.states, st)
		return
	}
	st.forgetLibraries(e.libraries.Load())
	e.idle = append(e.idle, st)
}

// Busy says whether a script or a function runs past its time limit, so that other clients get BUSY.
func (e *Engine) Busy() bool { return e.late.Load() > 0 }

// BusyError is what they are told: how to kill a script, if there is one, else a function.
func (e *Engine) BusyError() error {
	if e.lateScripts.Load() > 0 {
		return ErrBusyScript
	}
	return ErrBusyFunction
}

// KillScripts stops the scripts that run past their limit and have written nothing. It answers ErrNotBusy when nothing runs
// past its limit, ErrUnkillable when all that does has written, and ErrBusyFunction when only functions could be stopped.
func (e *Engine) KillScripts() error { return e.kill(false) }

// KillFunctions is KillScripts for functions.
func (e *Engine) KillFunctions() error { return e.kill(true) }

// StopLate stops the runs that are past their limit, and from now on each that gets there, whatever they have written: the server ends, and
// waits for what runs.
func (e *Engine) StopLate() { e.stopLate.Store(true) }

func (e *Engine) kill(functions bool) error {
	e.poolMu.Lock()
	defer e.poolMu.Unlock()
	var found [verdicts]bool
	for st := range e.states {
		found[st.kill(functions)] = true
	}
	switch {
	case found[isKilled]:
		return nil
	case found[isUnkillable]:
		return ErrUnkillable
	case found[isOther] && functions:
		return ErrBusyScript
	case found[isOther]:
		return ErrBusyFunction
	}
	return ErrNotBusy
}

// compile parses and compiles a script, or answers the reply.
func compile(key shaKey, body string) (*script, error) {
	flags, source, err := scriptFlags(body)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(source, "@user_script")
	if err != nil {
		return nil, Error("ERR Error compiling script (new function): " + err.Error())
	}
	return &script{sha: key, name: string(key[:]), body: body, flags: flags, proto: proto}, nil
}
