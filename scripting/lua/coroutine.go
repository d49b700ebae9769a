package lua

// NewThread makes a coroutine that runs the function when it is resumed.
func (rt *Runtime) NewThread(fn *Function) *Thread {
	co := newThread(rt, 1, 1) // it gets its room when it begins
	co.Push(fn.Value())
	return co
}

// room is what a coroutine works in.
type room struct {
	stack  []Value
	frames []frame
}

// maxRooms bounds the rooms of coroutines that have ended which are kept for the next ones: scripts that make many mostly have few at a time.
const maxRooms = 16

// takeRoom gives a coroutine that begins its room.
func (co *Thread) takeRoom() {
	rt, fn := co.rt, co.stack[0]
	if n := len(rt.rooms); n > 0 {
		co.stack, co.frames = rt.rooms[n-1].stack, rt.rooms[n-1].frames
		rt.rooms = rt.rooms[:n-1]
	} else {
		co.stack, co.frames = make([]Value, coroutineStack), make([]frame, 1, leastFrames)
	}
	co.stack[0] = fn
}

// giveRoom keeps the room of a coroutine that has ended, unless it has grown or there are enough.
func (co *Thread) giveRoom() {
	rt := co.rt
	if len(co.stack) != coroutineStack || cap(co.frames) != leastFrames || len(rt.rooms) == maxRooms {
		return
	}
	clear(co.stack)
	clear(co.frames)
	rt.rooms = append(rt.rooms, room{co.stack, co.frames[:1]})
}

// unresumable is what Resume answers of a coroutine that cannot be resumed.
func (l *Thread) unresumable(co *Thread) *Error {
	if status := co.Status(l); status != "suspended" {
		return &Error{Value: String("cannot resume " + status + " coroutine")}
	}
	return nil
}

// Status is what the coroutine is to the thread that asks, which runs: "suspended", "running", "normal" or "dead".
func (co *Thread) Status(of *Thread) string {
	switch {
	case co == of:
		return "running"
	case co.state == normal || co.state == running:
		return "normal"
	case co.state == dead:
		return "dead"
	}
	return "suspended"
}

// Resume runs a coroutine until it yields or ends, with nargs arguments from the top of l. What it yields or returns is pushed. An error leaves the
// coroutine dead.
func (l *Thread) Resume(co *Thread, nargs int) (nresults int, err *Error) {
	args := l.stack[l.top-nargs : l.top]
	l.top -= nargs
	if err := l.unresumable(co); err != nil {
		return 0, err
	}
	rt := l.rt
	if rt.nested > maxNested {
		if len(co.frames) == 1 {
			co.end()
		}
		return 0, &Error{Value: String("C stack overflow")}
	}
	rt.nested++
	nested := rt.nested
	l.state, co.state, co.resumer, co.nested, rt.current = normal, running, l, nested, co
	defer func() {
		l.state, co.resumer, rt.current, rt.nested = running, nil, l, nested
		rt.leave()
		if r := recover(); r != nil {
			thrown, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			co.end()
			err = thrown
		}
	}()
	first := co.top
	if len(co.frames) == 1 {
		co.takeRoom()
	}
	for _, arg := range args {
		co.Push(arg)
	}
	if co.resume(first) {
		nresults = l.take(co, 0)
		co.end()
		return nresults, nil
	}
	co.state = suspended
	return l.take(co, co.frame().base), nil
}

// resume goes on, and tells whether the coroutine has ended. Its arguments begin at the slot first.
func (co *Thread) resume(first int) (ended bool) {
	if len(co.frames) == 1 {
		if co.precall(0, multiple, nowhere) == called {
			co.frame().entry = true
			return co.execute()
		}
		return true
	}
	co.finish(first, co.top-first)
	co.settleTop()
	return co.execute()
}

// take moves what lies from the slot on of a coroutine to the top of l.
func (l *Thread) take(co *Thread, from int) (n int) {
	n = co.top - from
	for i := range n {
		l.Push(co.stack[from+i])
	}
	co.note(co.top)
	co.top = from
	return n
}

// end leaves nothing of a coroutine but its state.
func (co *Thread) end() {
	co.closeUpvalues(0)
	co.giveRoom()
	co.state, co.stack, co.frames, co.top, co.high = dead, nil, nil, 0, 0
}

// Yield ends the running function in Go, which is called by one of a script in a coroutine, and suspends that: Resume answers the nresults values
// on top. The function answers what Yield answers.
func (l *Thread) Yield(nresults int) int {
	if l == l.rt.main || l.rt.nested > l.nested {
		l.fault("attempt to yield across metamethod/C-call boundary")
	}
	base := l.frame().base
	copy(l.stack[base:], l.stack[l.top-nresults:l.top])
	l.top = base + nresults
	return yields
}
