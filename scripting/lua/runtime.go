package lua

import "sync/atomic"

// Runtime is what the threads of one world share. It is not safe for concurrent use, but for Urge: one of its threads runs at a time.
type Runtime struct {
	// TextMeta is the metatable of strings.
	TextMeta *Table
	// Poll is called when the budget is used up, or Urge was called. It gives a new one, or ends the run by throwing; it is called again after each
	// step until it does the one or the other. See Spend.
	Poll func(l *Thread)
	// Reserve is called before a string of more than ReserveFrom bytes is concatenated. It may throw.
	Reserve func(l *Thread, size int)
	// Budget is how many steps may be made before Poll is called. A step is an instruction, about: what a loop repeats and what a function
	// that is called may carry out is counted ahead.
	Budget  int
	urged   atomic.Bool // see Urge
	main    *Thread
	current *Thread // the one that runs
	nested  int     // Go functions that have called back into Lua and not returned
	rooms   []room  // of coroutines that have ended, for the next ones
}

// ReserveFrom is the size from which on strings are announced to Reserve.
const ReserveFrom = 64

const (
	// maxNested bounds the Go functions that call back into Lua, which nest on the Go stack (LUAI_MAXCCALLS). The handler of an error may go an
	// eighth beyond.
	maxNested = 199
	// maxFrames bounds the calls of a thread: the last power of two below LUAI_MAXCALLS, at which the reference implementation gives up.
	maxFrames = 16384
	// spareStack is how many slots are beyond the base of any frame: as many as an instruction can name, so that none of them needs a check.
	spareStack = 256
	// leastStack is the size of the main thread's first stack, coroutineStack that of a coroutine's, of which there may be many.
	leastStack     = 1024
	coroutineStack = spareStack + 64
	// leastFrames is the number of frames that a thread has room for at first.
	leastFrames = 8
	// keptStack is how large a stack may be to be kept by Reset.
	keptStack = 16 << 10
	// codeShare is the part of a function's instructions that its call counts.
	codeShare = 4
)

// NewRuntime makes a world with one thread. poll is what Poll becomes; without budget it is called with the first step.
func NewRuntime(poll func(l *Thread)) *Runtime {
	rt := &Runtime{Poll: poll}
	rt.main = newThread(rt, leastStack, leastFrames)
	rt.main.state = running
	rt.current = rt.main
	return rt
}

// Main is the thread that is no coroutine.
func (rt *Runtime) Main() *Thread { return rt.main }

// Reset forgets what a run has left on the main thread: nothing, or what an error has interrupted.
func (rt *Runtime) Reset() {
	l := rt.main
	l.closeUpvalues(0)
	rt.nested, rt.current, l.state = 0, l, running
	clear(l.frames[1:])
	l.frames = l.frames[:1]
	if len(l.stack) > keptStack {
		l.stack, l.high = make([]Value, leastStack), 0
	}
	clear(l.stack[:max(l.high, l.top)])
	l.top, l.high = 0, 0
}

// Spend takes n steps from the budget, of a Go function that works long, and polls if it is used up.
func (rt *Runtime) Spend(l *Thread, n int) {
	if rt.Budget -= n; rt.due() {
		rt.poll(l)
	}
}

// Due takes n steps from the budget and tells whether it is time to poll, of a host that goes on when no thread runs any more.
func (rt *Runtime) Due(n int) bool {
	rt.Budget -= n
	return rt.due()
}

// Urge has Poll called with the next step, whatever the budget. Any goroutine may call it.
func (rt *Runtime) Urge() { rt.urged.Store(true) }

// due tells whether it is time to poll.
func (rt *Runtime) due() bool { return rt.Budget < 0 || rt.urged.Load() }

func (rt *Runtime) poll(l *Thread) {
	if rt.urged.Load() {
		rt.urged.Store(false)
	}
	rt.Poll(l)
}

func (rt *Runtime) enter(l *Thread) {
	rt.nested++
	switch {
	case rt.nested <= maxNested:
	case rt.nested == maxNested+1:
		l.fault("C stack overflow")
	case rt.nested > maxNested+maxNested/8+1:
		panic(&Error{Value: String(HandlerFailed), final: true})
	}
}

func (rt *Runtime) leave() { rt.nested-- }
