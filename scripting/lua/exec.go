package lua

import "codeq/scripting/luaparse"

// window is what the instructions of a frame see: its registers, and as many slots beyond as an instruction can name.
func (l *Thread) window(base int) *[spareStack]Value {
	return (*[spareStack]Value)(l.stack[base : base+spareStack])
}

// settleTop puts the top behind the registers of the running function, unless the last call's results are all wanted and end there.
func (l *Thread) settleTop() {
	f := l.frame()
	if i := f.fn.proto.code[f.pc-1]; i.op == opCall && i.c == 0 || i.op == opTailCall {
		return
	}
	l.top = f.base + f.fn.proto.registers
}

// execute runs the function on top, and those that it calls, until it returns; or until a coroutine yields: then it answers false.
//
// What an instruction does without the help of a metamethod or an error is done here; all else is in functions of their own. These may
// move the stack and the frames, so the loop begins anew after them, with what the frame says: pc is written to it before.
func (l *Thread) execute() (ended bool) {
	rt := l.rt
begin:
	for {
		f := &l.frames[len(l.frames)-1]
		fn, base, pc := f.fn, f.base, f.pc
		p := fn.proto
		code, consts := p.code, p.consts
		r := l.window(base)
		for {
			i := code[pc]
			pc++
			switch i.op {
			case opMove:
				r[i.a] = r[uint8(i.b)]
			case opLoadK:
				r[i.a] = consts[i.b]
			case opLoadBool:
				r[i.a] = Bool(i.b != 0)
				if i.c != 0 {
					pc++
				}
			case opLoadNil:
				for a := int(i.a); a <= int(i.b); a++ {
					r[uint8(a)] = Nil
				}
			case opGetUpval:
				r[i.a] = *fn.upvalues[i.b].v
			case opSetUpval:
				*fn.upvalues[i.b].v = r[i.a]

			case opGetGlobal:
				slot := fn.globals.findText(consts[i.b], p.hashes[i.b])
				if slot != nil && !slot.IsNil() {
					r[i.a] = *slot
					continue
				}
				f.pc = pc
				v := l.index(fn.globals.Value(), consts[i.b], nowhere)
				l.stack[base+int(i.a)] = v
				continue begin
			case opGetField:
				if t := r[uint8(i.b)].Table(); t != nil {
					slot := t.findText(consts[i.c], p.hashes[i.c])
					if slot != nil && !slot.IsNil() {
						r[i.a] = *slot
						continue
					}
					if t.meta == nil {
						r[i.a] = Nil
						continue
					}
				}
				f.pc = pc
				v := l.index(r[uint8(i.b)], consts[i.c], int(i.b))
				l.stack[base+int(i.a)] = v
				continue begin
			case opGetTable:
				key := r[uint8(i.c)]
				if i.c >= rkConst {
					key = consts[i.c-rkConst]
				}
				if t := r[uint8(i.b)].Table(); t != nil {
					if v := t.Get(key); !v.IsNil() || t.meta == nil {
						r[i.a] = v
						continue
					}
				}
				f.pc = pc
				v := l.index(r[uint8(i.b)], key, int(i.b))
				l.stack[base+int(i.a)] = v
				continue begin
			case opSelf:
				object := r[uint8(i.b)]
				r[i.a+1] = object
				f.pc = pc
				v := l.index(object, consts[i.c], int(i.b))
				l.stack[base+int(i.a)] = v
				continue begin

			case opSetGlobal:
				f.pc = pc
				l.setIndex(fn.globals.Value(), consts[i.b], r[i.a], nowhere)
				continue begin
			case opSetField:
				v := r[uint8(i.c)]
				if i.c >= rkConst {
					v = consts[i.c-rkConst]
				}
				if t := r[i.a].Table(); t != nil && t.meta == nil && !t.readonly {
					*t.slotText(consts[i.b], p.hashes[i.b]) = v
					continue
				}
				f.pc = pc
				l.setIndex(r[i.a], consts[i.b], v, int(i.a))
				continue begin
			case opSetTable:
				key, v := r[uint8(i.b)], r[uint8(i.c)]
				if i.b >= rkConst {
					key = consts[i.b-rkConst]
				}
				if i.c >= rkConst {
					v = consts[i.c-rkConst]
				}
				if t := r[i.a].Table(); t != nil && t.meta == nil && !t.readonly && key.isNumber() {
					if n := int(key.float()); float64(n) == key.float() && uint(n-1) < uint(len(t.array)) {
						t.array[n-1] = v
						continue
					}
				}
				f.pc = pc
				l.setIndex(r[i.a], key, v, int(i.a))
				continue begin
			case opNewTable:
				r[i.a] = NewTable(int(i.b), int(i.c)).Value()
			case opSetList:
				first := int(i.c)
				if first == 0 {
					first = int(code[pc].b)
					pc++
				}
				l.setList(r[i.a].Table(), base+int(i.a)+1, int(i.b), (first-1)*fieldsPerFlush)

			case opAdd, opSub, opMul, opDiv:
				b, c := r[uint8(i.b)], r[uint8(i.c)]
				if i.b >= rkConst {
					b = consts[i.b-rkConst]
				}
				if i.c >= rkConst {
					c = consts[i.c-rkConst]
				}
				if b.isNumber() && c.isNumber() {
					x, y := b.float(), c.float()
					switch i.op {
					case opAdd:
						x += y
					case opSub:
						x -= y
					case opMul:
						x *= y
					default:
						x /= y
					}
					if x != x {
						x = luaparse.NaN(x, b.float(), y) // a processor may have taken the operands the other way round
					}
					r[i.a] = Number(x)
					continue
				}
				f.pc = pc
				v := l.arithmetic(evAdd+event(i.op-opAdd), b, c, i)
				l.stack[base+int(i.a)] = v
				continue begin
			case opMod, opPow:
				b, c := operand(r, consts, int(i.b)), operand(r, consts, int(i.c))
				if b.isNumber() && c.isNumber() {
					r[i.a] = Number(compute(evAdd+event(i.op-opAdd), b.float(), c.float()))
					continue
				}
				f.pc = pc
				v := l.arithmetic(evAdd+event(i.op-opAdd), b, c, i)
				l.stack[base+int(i.a)] = v
				continue begin
			case opUnm:
				v := r[uint8(i.b)]
				if v.isNumber() {
					r[i.a] = Number(-v.float())
					continue
				}
				f.pc = pc
				v = l.arithmetic(evUnm, v, v, instr{b: i.b, c: uint16(i.b)})
				l.stack[base+int(i.a)] = v
				continue begin
			case opNot:
				r[i.a] = Bool(!r[uint8(i.b)].Truth())
			case opLen:
				f.pc = pc
				r[i.a] = l.length(r[uint8(i.b)], int(i.b))
			case opConcat:
				f.pc = pc
				v := l.concat(base, int(i.b), int(i.c))
				l.stack[base+int(i.a)] = v
				continue begin

			case opJmp:
				pc += int(i.b)
				if i.b < 0 {
					if rt.Budget += int(i.b); rt.due() {
						f.pc = pc
						rt.poll(l)
					}
				}
			case opEq, opLt, opLe:
				b, c := r[uint8(i.b)], r[uint8(i.c)]
				if i.b >= rkConst {
					b = consts[i.b-rkConst]
				}
				if i.c >= rkConst {
					c = consts[i.c-rkConst]
				}
				var holds bool
				if b.isNumber() && c.isNumber() {
					x, y := b.float(), c.float()
					switch i.op {
					case opEq:
						holds = x == y
					case opLt:
						holds = x < y
					default:
						holds = x <= y
					}
				} else {
					f.pc = pc
					holds = l.compare(i.op, b, c)
					f, r = &l.frames[len(l.frames)-1], l.window(base) // a metamethod may have moved them
				}
				if holds != (i.a != 0) {
					pc++
				} else if forward := code[pc].b; forward >= 0 {
					pc += int(forward) + 1
				}
			case opTest:
				if r[i.a].Truth() != (i.c != 0) {
					pc++
				} else if forward := code[pc].b; forward >= 0 {
					pc += int(forward) + 1
				}
			case opTestSet:
				v := r[uint8(i.b)]
				if v.Truth() != (i.c != 0) {
					pc++
					continue
				}
				r[i.a] = v
				if forward := code[pc].b; forward >= 0 {
					pc += int(forward) + 1
				}

			case opCall:
				slot, want := base+int(i.a), int(i.c)-1
				if i.b != 0 {
					l.top = slot + int(i.b)
				}
				f.pc = pc
				if rt.Budget--; rt.due() {
					rt.poll(l)
				}
				switch l.precall(slot, want, int(i.a)) {
				case called:
					continue begin
				case yielded:
					return false
				}
				if want >= 0 {
					l.top = base + p.registers
				}
				f, r = &l.frames[len(l.frames)-1], l.window(base)
			case opTailCall:
				slot := base + int(i.a)
				if i.b != 0 {
					l.top = slot + int(i.b)
				}
				f.pc = pc
				if rt.Budget--; rt.due() {
					rt.poll(l)
				}
				if l.tailCall(slot, int(i.a)) == yielded {
					return false
				}
				continue begin
			case opReturn:
				first, n := base+int(i.a), int(i.b)-1
				if n < 0 {
					n = l.top - first
				}
				if l.open != nil {
					l.closeUpvalues(base)
				}
				entry, want := f.entry, f.want
				l.finish(first, n)
				if entry {
					return true
				}
				if want >= 0 {
					f = &l.frames[len(l.frames)-1]
					l.top = f.base + f.fn.proto.registers
				}
				continue begin

			case opForLoop:
				step, limit := r[i.a+2].float(), r[i.a+1].float()
				index := r[i.a].float() + step
				if step > 0 && index > limit || step <= 0 && index < limit || index != index || limit != limit {
					continue
				}
				pc += int(i.b)
				r[i.a] = Number(index)
				r[i.a+3] = r[i.a]
				if rt.Budget += int(i.b); rt.due() {
					f.pc = pc
					rt.poll(l)
				}
			case opForPrep:
				f.pc = pc
				l.prepareLoop(base + int(i.a))
				pc += int(i.b)
			case opTForLoop:
				f.pc = pc
				goOn := l.nextTurn(base+int(i.a), int(i.c))
				f = &l.frames[len(l.frames)-1]
				if l.top = base + p.registers; !goOn {
					f.pc++
				}
				continue begin
			case opClose:
				l.closeUpvalues(base + int(i.a))
			case opClosure:
				r[i.a] = l.closure(fn, p.protos[i.b], base, code[pc:]).Value()
				pc += len(p.protos[i.b].upvalues)
			case opVararg:
				f.pc = pc
				l.varargs(f, int(i.a), int(i.b)-1)
				continue begin
			}
		}
	}
}
