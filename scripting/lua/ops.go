package lua

import (
	"strings"

	"codeq/scripting/luaparse"
)

// What the loop of execute leaves to functions: instructions that are long, or rare.

// operand is the value of an operand RK.
func operand(r *[spareStack]Value, consts []Value, rk int) Value {
	if rk >= rkConst {
		return consts[rk-rkConst]
	}
	return r[uint8(rk)]
}

// compute is the arithmetic operator of an event.
func compute(ev event, x, y float64) float64 {
	if ev == evUnm {
		return -x
	}
	return luaparse.Compute(luaparse.Add+luaparse.Op(ev-evAdd), x, y)
}

// compare is a comparison of operands that are not both numbers.
func (l *Thread) compare(op opcode, b, c Value) bool {
	switch op {
	case opEq:
		return l.equal(b, c)
	case opLt:
		return l.Less(b, c)
	}
	return l.lessEqual(b, c)
}

// concat joins the values of the registers from first to last, from the right. Strings and numbers that stand side by side are joined at once.
func (l *Thread) concat(base, first, last int) Value {
	right := l.stack[base+last]
	for at := last - 1; at >= first; at-- {
		left := l.stack[base+at]
		if !left.isText() || !right.isText() {
			right = l.concatMeta(left, right, at)
			continue
		}
		from := at
		for from > first && l.stack[base+from-1].isText() {
			from--
		}
		right = l.join(l.stack[base+from:base+at+1], right)
		at = from
	}
	return right
}

// isText tells whether the value is a string or a number.
func (v Value) isText() bool { return v.isNumber() || v.isString() }

// join is the text of the values, and then of the last one.
func (l *Thread) join(values []Value, last Value) Value {
	size := last.mostText()
	for _, v := range values {
		size += v.mostText()
	}
	if size > ReserveFrom {
		l.rt.Reserve(l, size)
	}
	var text strings.Builder
	text.Grow(size)
	for _, v := range values {
		v.writeText(&text)
	}
	last.writeText(&text)
	return String(text.String())
}

// mostNumber is how long the text of a number is at most.
const mostNumber = 24

// mostText is how long the text of a string or number is at most.
func (v Value) mostText() int {
	if v.isNumber() {
		return mostNumber
	}
	return len(v.str())
}

func (v Value) writeText(text *strings.Builder) {
	if v.isNumber() {
		var buf [mostNumber]byte
		text.Write(AppendNumber(buf[:0], v.float(), TextDigits))
		return
	}
	text.WriteString(v.str())
}

// concatMeta joins two values of which one is neither a string nor a number; the left one is in the register.
func (l *Thread) concatMeta(left, right Value, register int) Value {
	method := l.method(left, evConcat)
	if method.IsNil() {
		method = l.method(right, evConcat)
	}
	if method.IsNil() {
		if left.isText() {
			l.typeError("concatenate", right, register+1)
		}
		l.typeError("concatenate", left, register)
	}
	return l.callMeta(method, left, right)
}

// tailCall calls what lies at the slot in place of the running function. One in Go is called as usual: a return follows.
func (l *Thread) tailCall(slot, operand int) outcome {
	fn := l.stack[slot].Function()
	if fn == nil {
		fn = l.callable(slot, operand)
	}
	if fn.proto == nil {
		return l.callGo(fn, slot, multiple)
	}
	f := *l.frame()
	if l.open != nil {
		l.closeUpvalues(f.base)
	}
	n := copy(l.stack[f.slot:], l.stack[slot:l.top])
	l.note(l.top)
	l.top = f.slot + n
	l.frames = l.frames[:len(l.frames)-1]
	l.push(fn, f.slot, f.want)
	now := l.frame()
	now.tails, now.entry = f.tails+1, f.entry
	return called
}

// setList puts n values, or all up to the top if n is 0, into a table, behind the first elements.
func (l *Thread) setList(t *Table, slot, n, first int) {
	if n == 0 {
		n = l.top - slot
		f := l.frame()
		l.note(l.top)
		l.top = f.base + f.fn.proto.registers
	}
	if first+n > len(t.array) {
		t.resize(first+n, len(t.nodes))
	}
	copy(t.array[first:], l.stack[slot:slot+n])
}

// prepareLoop turns what controls a numeric loop, from the slot on, into numbers.
func (l *Thread) prepareLoop(slot int) {
	for n, what := range [...]string{"initial value", "limit", "step"} {
		v, ok := l.stack[slot+n].ToNumber()
		if !ok {
			l.fault("'for' %s must be a number", what)
		}
		l.stack[slot+n] = Number(v)
	}
	l.stack[slot] = Number(l.stack[slot].float() - l.stack[slot+2].float())
}

// nextTurn calls the iterator of a loop, which is at the slot with its state and control behind it, for n values, and tells whether there are any.
func (l *Thread) nextTurn(slot, n int) bool {
	copy(l.stack[slot+3:slot+6], l.stack[slot:slot+3])
	l.top = slot + 6
	l.Call(2, n)
	first := l.stack[slot+3]
	if first.IsNil() {
		return false
	}
	l.stack[slot+2] = first
	return true
}

// closure makes a function of the running one's code; so many instructions as it has upvalues say what these are.
func (l *Thread) closure(outer *Function, p *Proto, base int, captures []instr) *Function {
	fn := &Function{proto: p, globals: outer.globals}
	if len(p.upvalues) > 0 {
		fn.upvalues = make([]*upvalue, len(p.upvalues))
	}
	for n := range fn.upvalues {
		if i := captures[n]; i.op == opGetUpval {
			fn.upvalues[n] = outer.upvalues[i.b]
		} else {
			fn.upvalues[n] = l.capture(base + int(i.b))
		}
	}
	return fn
}

// varargs puts n of the frame's extra arguments into its registers, or all of them, which then set the top, if n is multiple.
func (l *Thread) varargs(f *frame, register, n int) {
	first := f.slot + 1 + f.fn.proto.params
	extra, slot := f.base-first, f.base+register
	if n == multiple {
		n = extra
		l.top = slot
		if need := slot + n + spareStack; need > len(l.stack) {
			l.grow(n + spareStack)
		}
		l.top = slot + n
		l.note(l.top)
	}
	given := min(n, extra)
	copy(l.stack[slot:slot+given], l.stack[first:first+given])
	clear(l.stack[slot+given : slot+n])
}
