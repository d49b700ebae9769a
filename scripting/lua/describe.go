package lua

// Error messages name the variable that was wrong: "attempt to index local 'a' (a nil value)". Its name is found as in the reference implementation, by
// reading the code backwards from the failing instruction to the one that filled the register.

// typeError reports what cannot be done to a value, which the running instruction has in a register, or has not.
func (l *Thread) typeError(what string, v Value, operand int) {
	text := "a " + v.Kind().String() + " value"
	if f := l.frame(); operand < rkConst && f.fn != nil && !f.fn.IsGo() {
		if kind, name := f.fn.proto.describe(f.pc-1, operand); kind != "" {
			text = kind + " '" + name + "' (" + text + ")"
		}
	}
	l.fault("attempt to %s %s", what, text)
}

// describe is what a register holds when an instruction begins: "local", "global", "field", "upvalue" or "method", and its name; or nothing.
func (p *Proto) describe(pc, register int) (kind, name string) {
	for {
		if name := p.localName(pc, register); name != "" {
			return "local", name
		}
		write := p.lastWrite(pc, register)
		if write < 0 {
			return "", ""
		}
		switch i := p.code[write]; i.op {
		case opMove:
			if i.b >= int32(i.a) {
				return "", ""
			}
			register = int(i.b)
		case opGetGlobal:
			return "global", p.consts[i.b].str()
		case opGetUpval:
			return "upvalue", p.upvalues[i.b]
		case opGetField:
			return "field", p.fieldName(int(i.c))
		case opGetTable:
			return "field", p.fieldName(int(i.c) - rkConst)
		case opSelf:
			return "method", p.fieldName(int(i.c))
		default:
			return "", ""
		}
	}
}

// namedConsts are the constants that the reference implementation has as operands; it loads others, and does not know their names.
const namedConsts = 256

// fieldName is a key that is a constant string, "?" for any other.
func (p *Proto) fieldName(constant int) string {
	if constant >= 0 && constant < namedConsts {
		if name, ok := p.consts[constant].Text(); ok {
			return name
		}
	}
	return "?"
}

// localName is the local variable that a register is at an instruction, "" if it is none.
func (p *Proto) localName(pc, register int) string {
	for i := range p.locals {
		local := &p.locals[i]
		if int(local.start) > pc {
			break
		}
		if pc < int(local.end) {
			if register == 0 {
				return local.name
			}
			register--
		}
	}
	return ""
}

// lastWrite is the last instruction before one that set the register, as far as forward jumps do not lead around it; -1 if none did.
func (p *Proto) lastWrite(last, register int) int {
	found := -1
	for pc := 0; pc < last; pc++ {
		i := p.code[pc]
		a, sets := int(i.a), false
		switch i.op {
		case opLoadNil:
			sets = a <= register && register <= int(i.b)
		case opTForLoop:
			sets = register >= a+2
		case opCall, opTailCall:
			sets = register >= a
		case opSelf:
			sets = register == a || register == a+1
		case opJmp, opForLoop, opForPrep:
			sets = i.op != opJmp && register == a
			if to := pc + 1 + int(i.b); pc < to && to <= last {
				pc = to - 1
			}
		case opClosure:
			sets = register == a
			if sets {
				found = pc
			}
			pc += len(p.protos[i.b].upvalues)
			continue
		case opSetList:
			if i.c == 0 {
				pc++
			}
		case opSetGlobal, opSetUpval, opSetTable, opSetField, opEq, opLt, opLe, opReturn, opClose:
		default:
			sets = register == a
		}
		if sets {
			found = pc
		}
	}
	return found
}
