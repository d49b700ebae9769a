package lua

import (
	"fmt"
	"strconv"
)

// GoFunc is a function in Go. It finds its arguments with Arg and Top, pushes its results, and answers how many they are.
type GoFunc func(l *Thread) int

// Function is a function of a script, or one in Go.
type Function struct {
	proto    *Proto // nil of a function in Go
	upvalues []*upvalue
	globals  *Table
	fn       GoFunc
	held     []Value
}

// NewFunction is a function in Go. held are the values that it refers to, which count as reached by whoever reaches it.
func NewFunction(fn GoFunc, held ...Value) *Function { return &Function{fn: fn, held: held} }

// NewClosure is a compiled main chunk as a function, with these global variables.
func NewClosure(p *Proto, globals *Table) *Function { return &Function{proto: p, globals: globals} }

// IsGo tells whether the function is one in Go.
func (f *Function) IsGo() bool { return f.proto == nil }

// upvalue is a variable that functions share: in the stack of the thread that declared it as long as that runs the variable's block,
// and then here.
type upvalue struct {
	v      *Value // where it is
	closed Value
	slot   int      // in the stack, while it is open
	next   *upvalue // the open one below it
}

// Thread is a coroutine, or the main thread: a stack of values, and the frames of the functions that run on it.
type Thread struct {
	rt     *Runtime
	stack  []Value
	top    int     // the first free slot; while a function of a script runs, that behind its registers
	high   int     // beyond it nothing was ever stored; see note
	frames []frame // the first one is the host's
	open   *upvalue
	// Of a coroutine:
	state   threadState
	resumer *Thread
	nested  int // Runtime.nested when it was resumed
}

type threadState uint8

const (
	suspended threadState = iota
	running
	normal // it has resumed another one
	dead
)

// frame is a function that runs.
type frame struct {
	fn    *Function // nil in the first frame
	base  int       // its first register, or argument
	pc    int       // the next instruction
	slot  int       // where the function was, and where its results go
	want  int       // how many results the caller wants; -1: all
	tails int       // calls that it took the place of
	entry bool      // it was called from Go, which goes on when it returns
}

const multiple = -1

func newThread(rt *Runtime, slots, frames int) *Thread {
	return &Thread{rt: rt, stack: make([]Value, slots), frames: make([]frame, 1, frames)}
}

// Runtime is the world of the thread.
func (l *Thread) Runtime() *Runtime { return l.rt }

func (l *Thread) frame() *frame { return &l.frames[len(l.frames)-1] }

// Top is how many values the running function has on the stack: at first its arguments.
func (l *Thread) Top() int { return l.top - l.frame().base }

// Arg is the i-th value from the bottom, the first being 1, or from the top, the last being -1. What is not there is nil.
func (l *Thread) Arg(i int) Value {
	slot := l.frame().base + i - 1
	if i < 0 {
		slot = l.top + i
	}
	if slot < l.frame().base || slot >= l.top {
		return Nil
	}
	return l.stack[slot]
}

// Push puts a value on top.
func (l *Thread) Push(v Value) {
	if l.top == len(l.stack) {
		l.grow(1)
	}
	l.stack[l.top] = v
	l.top++
}

// Pop takes the value on top away and answers it.
func (l *Thread) Pop() Value {
	l.top--
	v := l.stack[l.top]
	l.stack[l.top] = Nil
	return v
}

// SetTop takes values away, or adds nils, so that there are n.
func (l *Thread) SetTop(n int) {
	top := l.frame().base + n
	if top > len(l.stack) {
		l.grow(top - l.top)
	}
	for i := min(top, l.top); i < max(top, l.top); i++ {
		l.stack[i] = Nil
	}
	l.top = top
}

// Insert puts a value at place i from the bottom, below what is there.
func (l *Thread) Insert(i int, v Value) {
	l.Push(Nil)
	slot := l.frame().base + i - 1
	copy(l.stack[slot+1:l.top], l.stack[slot:l.top-1])
	l.stack[slot] = v
}

// note notes how far values were stored, so that Reset finds them.
func (l *Thread) note(slot int) { l.high = max(l.high, slot) }

// grow makes room for n values beyond the top.
func (l *Thread) grow(n int) {
	size := max(2*len(l.stack), l.top+n+spareStack)
	stack := make([]Value, size)
	copy(stack, l.stack)
	l.stack = stack
	for u := l.open; u != nil; u = u.next {
		u.v = &l.stack[u.slot]
	}
}

// Error is what was thrown: a value, and where.
type Error struct {
	Value Value
	// Source and Line say where the function was that threw it; one in Go stands for its caller. Source is the chunk's name as it was given
	// to Compile, "=[C]" of a function in Go that another one called, and "" if nothing ran.
	Source string
	Line   int
	nested int  // Runtime.nested where it was thrown
	final  bool // no handler is called with it
}

// Error describes the value.
func (e *Error) Error() string {
	if text, ok := e.Value.ToText(); ok {
		return text
	}
	return "(error object is a " + e.Value.Kind().String() + " value)"
}

// Throw ends what runs, up to the protected call around it, with a value.
func (l *Thread) Throw(v Value) { panic(l.newError(v)) }

// Raise is Throw with a text that begins with the position of the caller of the function in Go that runs (luaL_error).
func (l *Thread) Raise(format string, args ...any) {
	l.Throw(String(l.Where(1) + fmt.Sprintf(format, args...)))
}

// fault is Throw with a text of the machine's own, which begins with a position if a function of a script runs (luaG_runerror).
func (l *Thread) fault(format string, args ...any) {
	l.Throw(String(l.Where(0) + fmt.Sprintf(format, args...)))
}

func (l *Thread) newError(v Value) *Error {
	e := &Error{Value: v, nested: l.rt.nested}
	level := 0
	if f := l.at(0); f != nil && f.fn.IsGo() {
		level = 1
	}
	e.Source, e.Line = l.At(level)
	return e
}

// At is where the function at a level is, 0 being the one that runs: the name of its chunk as it was given to Compile, and its line; "=[C]" and -1 of
// one in Go, "" if there is none.
func (l *Thread) At(level int) (source string, line int) {
	switch f := l.at(level); {
	case f == nil:
		return "", 0
	case f.fn.IsGo():
		return "=[C]", -1
	default:
		return f.fn.proto.source, f.line()
	}
}

// at is the frame at a level: 0 is the function that runs, 1 the one that called it. It is nil where a tail call has left nothing, and
// beyond the first.
func (l *Thread) at(level int) *frame {
	for i := len(l.frames) - 1; i > 0; i-- {
		f := &l.frames[i]
		if level == 0 {
			return f
		}
		level--
		if level < f.tails {
			return nil
		}
		level -= f.tails
	}
	return nil
}

// line is the line of the instruction that the frame is at.
func (f *frame) line() int { return int(f.fn.proto.lines[max(f.pc-1, 0)]) }

// Where is the position "user_script:3: " of the function at a level, 0 being the one that runs; "" if that is none of a script.
func (l *Thread) Where(level int) string {
	f := l.at(level)
	if f == nil || f.fn.IsGo() {
		return ""
	}
	return ChunkID(f.fn.proto.source) + ":" + strconv.Itoa(f.line()) + ": "
}

// Callee tells by which kind of name, "global", "local", "method", "field" or "upvalue", and by which name the function that runs was called;
// nothing if that is not known.
func (l *Thread) Callee() (kind, name string) {
	f, caller := l.at(0), l.at(1)
	if f == nil || f.entry || f.tails > 0 || caller == nil || caller.fn.IsGo() {
		return "", ""
	}
	switch i := caller.fn.proto.code[caller.pc-1]; i.op {
	case opCall, opTailCall, opTForLoop:
		return caller.fn.proto.describe(caller.pc-1, int(i.a))
	}
	return "", ""
}

// Call calls the function that lies below nargs arguments on top. Its results take their place: as many as are wanted, or all if want is -1.
func (l *Thread) Call(nargs, want int) {
	l.rt.enter(l)
	if l.precall(l.top-nargs-1, want, nowhere) == called {
		l.frame().entry = true
		if l.rt.due() { // a function in Go may call one that neither loops nor calls without end
			l.rt.poll(l)
		}
		l.execute()
	}
	l.rt.leave()
}

// PCall is Call that answers what was thrown; nothing is left of the function and its arguments then.
func (l *Thread) PCall(nargs, want int) (err *Error) {
	slot, depth, nested := l.top-nargs-1, len(l.frames), l.rt.nested
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		thrown, ok := r.(*Error)
		if !ok {
			panic(r)
		}
		l.unwind(slot, depth)
		l.rt.nested = nested
		err = thrown
	}()
	l.Call(nargs, want)
	return nil
}

// HandlerFailed is what becomes of an error whose handlers fail until there is no room for another.
const HandlerFailed = "error in error handling"

// Handle calls the handler of an error, for which nothing is on the stack any more, and pushes its result. In the reference implementation it runs
// on top of what has failed, so it has as little room for further calls.
func (l *Thread) Handle(handler *Function, err *Error) *Error {
	if err.final {
		return err
	}
	nested := l.rt.nested
	defer func() { l.rt.nested = nested }()
	l.rt.nested = err.nested
	l.Push(handler.Value())
	l.Push(err.Value)
	return l.PCall(1, 1)
}

// IsFinal tells whether the error is not for a handler.
func (e *Error) IsFinal() bool { return e.final }

// unwind takes the frames beyond depth away, and what lies from the slot on.
func (l *Thread) unwind(slot, depth int) {
	l.closeUpvalues(slot)
	clear(l.frames[depth:])
	l.frames = l.frames[:depth]
	l.top = slot
}

// callMeta calls a function with values and answers its first result.
func (l *Thread) callMeta(fn Value, args ...Value) Value {
	l.Push(fn)
	for _, arg := range args {
		l.Push(arg)
	}
	l.Call(len(args), 1)
	return l.Pop()
}
