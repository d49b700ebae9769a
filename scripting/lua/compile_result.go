package lua

// resultKind says where the value of an expression is.
type resultKind uint8

const (
	isNothing resultKind = iota // there is no expression
	isNil                       // literals, in the order of coder.literals
	isFalse
	isTrue
	isConstant    // the constant info
	isNumber      // the number, which is no constant of the function yet
	isLocal       // the variable in register info
	isUpvalue     // the upvalue info
	isGlobal      // the global variable whose name is the constant info
	isField       // the field with the key in RK key of the table in register info
	isCondition   // whether the jump info is made
	isInstruction // what the instruction info leaves in its register A, which is not chosen yet
	isRegister    // in register info
	isCall        // the results of the opCall info
	isVararg      // the extra arguments, by the opVararg info
)

// result is the value of an expression, or a variable that is assigned to. It may be undecided: then it is what its kind says only
// if none of the jumps in its lists was made.
type result struct {
	kind      resultKind
	info, key int
	number    float64
	line      int   // of the instruction that reads or writes a variable
	ifTrue    jumps // made where the result is true
	ifFalse   jumps
}

// become changes where the value is.
func (o *result) become(kind resultKind, info int) { o.kind, o.info = kind, info }

func (o *result) undecided() bool { return !o.ifTrue.empty() || !o.ifFalse.empty() }

// isNumeral tells whether the result is a number that the compiler knows.
func (o *result) isNumeral() bool { return o.kind == isNumber && !o.undecided() }

// isList tells whether the result can have many values.
func (o *result) isList() bool { return o.kind == isCall || o.kind == isVararg }

// releaseResult gives the result's register back.
func (c *coder) releaseResult(o *result) {
	if o.kind == isRegister {
		c.release(o.info)
	}
}

// releaseBoth gives the registers of two results back, the last one taken first.
func (c *coder) releaseBoth(a, b *result) {
	if a.kind == isRegister && b.kind == isRegister && a.info > b.info {
		a, b = b, a
	}
	c.releaseResult(b)
	c.releaseResult(a)
}

// wantResults says how many values a list is to have; of `...` they will be in the next registers.
func (c *coder) wantResults(o *result, n int) {
	switch i := c.at(o.info); o.kind {
	case isCall:
		i.c = uint16(n + 1)
	case isVararg:
		i.a, i.b = uint8(c.free), int32(n+1)
		c.reserve(1)
	}
}

// wantOne makes one value of a list.
func (c *coder) wantOne(o *result) {
	switch o.kind {
	case isCall:
		o.become(isRegister, int(c.at(o.info).a))
	case isVararg:
		c.at(o.info).b = 2
		o.kind = isInstruction
	}
}

// discharge makes a value of a variable.
func (c *coder) discharge(o *result) {
	switch o.kind {
	case isLocal:
		o.kind = isRegister
	case isUpvalue:
		o.become(isInstruction, c.emit(instr{op: opGetUpval, b: int32(o.info)}, 0))
	case isGlobal:
		o.become(isInstruction, c.emit(instr{op: opGetGlobal, b: int32(o.info)}, o.line))
	case isField:
		c.release(o.key)
		c.release(o.info)
		i := instr{op: opGetTable, b: int32(o.info), c: uint16(o.key)}
		if name, ok := c.fieldName(o.key); ok {
			i.op, i.c = opGetField, uint16(name)
		}
		o.become(isInstruction, c.emit(i, o.line))
	case isCall, isVararg:
		c.wantOne(o)
	}
}

// fieldName is the constant of an operand RK that is a string.
func (c *coder) fieldName(rk int) (k int, ok bool) {
	if rk < rkConst {
		return 0, false
	}
	return rk - rkConst, c.proto.consts[rk-rkConst].isString()
}

// put puts the value into a register, but leaves its jumps as they are; a condition stays where it is.
func (c *coder) put(o *result, register int) {
	c.discharge(o)
	a := uint8(register)
	switch o.kind {
	case isNil:
		c.loadNil(register, 1)
	case isFalse, isTrue:
		c.emit(instr{op: opLoadBool, a: a, b: int32(o.kind - isFalse)}, 0)
	case isConstant:
		c.emit(instr{op: opLoadK, a: a, b: int32(o.info)}, 0)
	case isNumber:
		c.emit(instr{op: opLoadK, a: a, b: int32(c.number(o.number))}, 0)
	case isInstruction:
		c.at(o.info).a = a
	case isRegister:
		if o.info != register {
			c.emit(instr{op: opMove, a: a, b: int32(o.info)}, 0)
		}
	default:
		return
	}
	o.become(isRegister, register)
}

// toSomeRegister is put with the next register, unless the value is in one.
func (c *coder) toSomeRegister(o *result) {
	if o.kind != isRegister {
		c.reserve(1)
		c.put(o, c.free-1)
	}
}

// toRegister puts the value into a register, whichever of the jumps are made.
func (c *coder) toRegister(o *result, register int) {
	c.put(o, register)
	if o.kind == isCondition {
		c.join(&o.ifTrue, lone(o.info))
	}
	if o.undecided() {
		var setFalse, setTrue int
		if c.lacksValue(o.ifTrue) || c.lacksValue(o.ifFalse) {
			var around jumps
			if o.kind != isCondition {
				around = c.jump()
			}
			c.here()
			setFalse = c.emit(instr{op: opLoadBool, a: uint8(register), c: 1}, 0)
			c.here()
			setTrue = c.emit(instr{op: opLoadBool, a: uint8(register), b: 1}, 0)
			c.land(around)
		}
		end := c.here()
		c.patch(&o.ifFalse, end, register, setFalse)
		c.patch(&o.ifTrue, end, register, setTrue)
	}
	o.become(isRegister, register)
}

// toNext puts the value into the next register.
func (c *coder) toNext(o *result) {
	c.discharge(o)
	c.releaseResult(o)
	c.reserve(1)
	c.toRegister(o, c.free-1)
}

// toAny puts the value into the next register unless it is in one, and answers which.
func (c *coder) toAny(o *result) int {
	c.discharge(o)
	if o.kind == isRegister {
		if !o.undecided() {
			return o.info
		}
		if o.info >= len(c.active) {
			c.toRegister(o, o.info)
			return o.info
		}
	}
	c.toNext(o)
	return o.info
}

// toValue makes the result one that is decided.
func (c *coder) toValue(o *result) {
	if o.undecided() {
		c.toAny(o)
		return
	}
	c.discharge(o)
}

// toRK makes the result one that instructions take as an operand: a register, or a constant.
func (c *coder) toRK(o *result) int {
	c.toValue(o)
	fits := len(c.proto.consts) <= maxRK
	switch {
	case o.kind == isNumber && fits:
		o.become(isConstant, c.number(o.number))
	case (o.kind == isNil || o.kind == isFalse || o.kind == isTrue) && fits:
		o.become(isConstant, c.literal(o.kind))
	}
	if o.kind == isConstant && o.info <= maxRK {
		return rkConst + o.info
	}
	return c.toAny(o)
}

// field makes the result, whose value is in a register, its field of that key.
func (c *coder) field(o *result, key result, line int) {
	o.key = c.toRK(&key)
	o.kind, o.line = isField, line
}

// assign stores a value in a variable.
func (c *coder) assign(variable *result, o *result) {
	switch variable.kind {
	case isLocal:
		c.releaseResult(o)
		c.toRegister(o, variable.info)
		return
	case isUpvalue:
		c.emit(instr{op: opSetUpval, a: uint8(c.toAny(o)), b: int32(variable.info)}, variable.line)
	case isGlobal:
		c.emit(instr{op: opSetGlobal, a: uint8(c.toAny(o)), b: int32(variable.info)}, variable.line)
	case isField:
		c.setField(variable.info, variable.key, c.toRK(o), variable.line)
	}
	c.releaseResult(o)
}

// setField stores what is in an RK in the field of a table.
func (c *coder) setField(table, key, value, line int) {
	i := instr{op: opSetTable, a: uint8(table), b: int32(key), c: uint16(value)}
	if name, ok := c.fieldName(key); ok {
		i.op, i.b = opSetField, int32(name)
	}
	c.emit(i, line)
}

// self makes the result the method of that name, with the object behind it. A name beyond what the instruction can hold takes two more.
func (c *coder) self(o *result, name string, line int) {
	object := c.toAny(o)
	key := c.text(name)
	c.releaseResult(o)
	method := c.free
	c.reserve(2)
	if key <= maxRK {
		c.emit(instr{op: opSelf, a: uint8(method), b: int32(object), c: uint16(key)}, line)
	} else {
		c.reserve(1)
		c.emit(instr{op: opMove, a: uint8(method + 1), b: int32(object)}, line)
		c.emit(instr{op: opLoadK, a: uint8(method + 2), b: int32(key)}, line)
		c.emit(instr{op: opGetTable, a: uint8(method), b: int32(method + 1), c: uint16(method + 2)}, line)
		c.free--
	}
	o.become(isRegister, method)
}

// loadNil fills registers with nil. Those of a function that begins are nil, unless they are parameters; and what is behind others that
// were filled just before is filled with them.
func (c *coder) loadNil(first, n int) {
	last := first + n - 1
	if pc := c.pc(); pc > c.label {
		if pc == 0 {
			if first >= len(c.active) {
				return
			}
		} else if i := c.at(pc - 1); i.op == opLoadNil && int(i.a) <= first && first <= int(i.b)+1 {
			i.b = max(i.b, int32(last))
			return
		}
	}
	c.emit(instr{op: opLoadNil, a: uint8(first), b: int32(last)}, 0)
}
