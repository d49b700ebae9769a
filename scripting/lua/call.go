package lua

// outcome is what came of beginning a call.
type outcome uint8

const (
	called   outcome = iota // there is a frame to execute
	returned                // it was a function in Go; its results are where they belong
	yielded                 // it was coroutine.yield
)

// yields is what Yield answers.
const yields = -1

// nowhere is the operand of what is in no register.
const nowhere = rkConst

// precall begins the call of what lies at the slot, with the arguments above it up to the top. The operand is the register that the running
// instruction has it in.
func (l *Thread) precall(slot, want, operand int) outcome {
	fn := l.stack[slot].Function()
	if fn == nil {
		fn = l.callable(slot, operand)
	}
	if fn.proto == nil {
		return l.callGo(fn, slot, want)
	}
	l.push(fn, slot, want)
	return called
}

// callable puts the function that is called in place of a value which is none, below it.
func (l *Thread) callable(slot, operand int) *Function {
	method := l.method(l.stack[slot], evCall)
	fn := method.Function()
	if fn == nil {
		l.typeError("call", l.stack[slot], operand)
	}
	l.Push(Nil)
	copy(l.stack[slot+1:l.top], l.stack[slot:l.top-1])
	l.stack[slot] = method
	return fn
}

// push makes the frame of a function of a script.
func (l *Thread) push(fn *Function, slot, want int) {
	p := fn.proto
	if len(l.frames) >= maxFrames {
		l.fault("stack overflow")
	}
	base := slot + 1
	if size := max(l.top, base) + p.params + 1 + p.registers + spareStack; size > len(l.stack) {
		l.grow(size - l.top)
	}
	if given := l.top - base; given < p.params {
		clear(l.stack[l.top : base+p.params])
		l.top = base + p.params
	}
	if p.vararg {
		base = l.shiftParams(p, base)
	}
	first := base + p.params
	if p.needsArg {
		first++
	}
	l.top = base + p.registers
	l.rt.Budget -= len(p.code) / codeShare
	clear(l.stack[first:l.top])
	l.note(l.top)
	l.frames = append(l.frames, frame{fn: fn, base: base, slot: slot, want: want})
}

// shiftParams moves the parameters above all arguments, so that the extra ones lie below the registers, and answers the new base.
func (l *Thread) shiftParams(p *Proto, first int) (base int) {
	base = l.top
	for i := range p.params {
		l.stack[base+i] = l.stack[first+i]
		l.stack[first+i] = Nil
	}
	if p.needsArg {
		extra := l.stack[first+p.params : base]
		t := NewTable(len(extra), 1)
		copy(t.array, extra)
		t.SetText("n", Number(float64(len(extra))))
		l.stack[base+p.params] = t.Value()
	}
	return base
}

// callGo calls a function in Go.
func (l *Thread) callGo(fn *Function, slot, want int) outcome {
	if len(l.frames) >= maxFrames {
		l.fault("stack overflow")
	}
	l.frames = append(l.frames, frame{fn: fn, base: slot + 1, slot: slot, want: want})
	n := fn.fn(l)
	if n == yields {
		return yielded
	}
	l.note(l.top)
	l.finish(l.top-n, n)
	return returned
}

// finish ends the running function: n results, from the slot first on, take its place.
func (l *Thread) finish(first, n int) {
	last := len(l.frames) - 1
	slot, want := l.frames[last].slot, l.frames[last].want
	l.frames[last].fn = nil
	l.frames = l.frames[:last]
	if want == multiple {
		want = n
	}
	if n >= want {
		copy(l.stack[slot:slot+want], l.stack[first:first+want])
	} else {
		copy(l.stack[slot:slot+n], l.stack[first:first+n])
		clear(l.stack[slot+n : slot+want])
	}
	l.top = slot + want
}

// capture is the upvalue of a variable in the stack.
func (l *Thread) capture(slot int) *upvalue {
	at := &l.open
	for *at != nil && (*at).slot > slot {
		at = &(*at).next
	}
	if *at != nil && (*at).slot == slot {
		return *at
	}
	u := &upvalue{v: &l.stack[slot], slot: slot, next: *at}
	*at = u
	return u
}

// closeUpvalues takes the variables from the slot on out of the stack.
func (l *Thread) closeUpvalues(slot int) {
	for l.open != nil && l.open.slot >= slot {
		u := l.open
		l.open = u.next
		u.closed = *u.v
		u.v, u.next = &u.closed, nil
	}
}
