package lua

// A jump whose target is not known yet is in a list: its operand B tells the next one of the list. A list that belongs to a result
// consists of jumps that are made when the result is true, or false. Each of them is behind an instruction that decides it. If that one
// is opTestSet, the result's value is what it tested, which it can store; for now without a register. Otherwise the value is a
// boolean, which nobody has yet.

// jumps is a list of jumps. The zero jumps is empty.
type jumps struct {
	first, last int // instructions, plus one; the operand B of each is the next one, and that of the last 0
}

// noRegister is operand A of an opTestSet that stores nothing yet.
const noRegister = 255

func (j jumps) empty() bool { return j.first == 0 }

// lone is a list of the jump at pc, whose operand B is 0.
func lone(pc int) jumps { return jumps{pc + 1, pc + 1} }

// join adds the jumps of another list to one.
func (c *coder) join(to *jumps, more jumps) {
	switch {
	case more.empty():
	case to.empty():
		*to = more
	default:
		c.at(to.last - 1).b = int32(more.first)
		to.last = more.last
	}
}

// jump makes a jump. What leads to it need not: it goes with it.
func (c *coder) jump() jumps {
	led := c.pending
	c.pending = jumps{}
	list := lone(c.emit(instr{op: opJmp}, 0))
	c.join(&list, led)
	return list
}

// jumpIf makes a jump behind the instruction that decides it.
func (c *coder) jumpIf(i instr, line int) jumps {
	c.emit(i, line)
	return c.jump()
}

// here is the next instruction, to which a jump leads: what follows is not to be merged with what is before.
func (c *coder) here() int {
	c.label = c.pc()
	return c.label
}

// land makes jumps lead to the next instruction.
func (c *coder) land(list jumps) {
	c.here()
	c.join(&c.pending, list)
}

// lead makes jumps lead to a place.
func (c *coder) lead(list jumps, target int) {
	if target == c.pc() {
		c.land(list)
		return
	}
	c.patch(&list, target, noRegister, target)
}

// patch gives the jumps of a list their targets and empties it: those whose value is tested store it in the register and lead to the first
// target, the others to the second one.
func (c *coder) patch(list *jumps, stored, register, other int) {
	for next := list.first; next != 0; {
		pc := next - 1
		i := c.at(pc)
		next = int(i.b)
		target := other
		if c.store(pc, register) {
			target = stored
		}
		i.b = int32(target - pc - 1)
	}
	*list = jumps{}
}

// decider is the instruction that decides whether the jump at pc is made: the one before, or the jump itself.
func (c *coder) decider(pc int) *instr {
	if pc > 0 {
		switch i := c.at(pc - 1); i.op {
		case opEq, opLt, opLe, opTest, opTestSet, opTForLoop:
			return i
		}
	}
	return c.at(pc)
}

// store gives the value that decides the jump at pc a register, if there is such a value; it need not be stored if it is there, or if
// there is no register. It answers whether there is one.
func (c *coder) store(pc, register int) bool {
	i := c.decider(pc)
	if i.op != opTestSet {
		return false
	}
	if register == noRegister || register == int(i.b) {
		*i = instr{op: opTest, a: uint8(i.b), c: i.c}
	} else {
		i.a = uint8(register)
	}
	return true
}

// dropValues makes the jumps of a list store nothing.
func (c *coder) dropValues(list jumps) {
	for next := list.first; next != 0; next = int(c.at(next - 1).b) {
		c.store(next-1, noRegister)
	}
}

// lacksValue tells whether there is a jump in the list behind which the value is a boolean that nobody has yet.
func (c *coder) lacksValue(list jumps) bool {
	for next := list.first; next != 0; next = int(c.at(next - 1).b) {
		if c.decider(next-1).op != opTestSet {
			return true
		}
	}
	return false
}

// invert makes a comparison jump when it does not hold.
func (c *coder) invert(o *result) { c.decider(o.info).a ^= 1 }

// jumpOn makes a jump that is made if the result's truth is as given.
func (c *coder) jumpOn(o *result, truth bool) jumps {
	if o.kind == isInstruction {
		if i := *c.at(o.info); i.op == opNot {
			c.proto.code, c.proto.lines = c.proto.code[:o.info], c.proto.lines[:o.info]
			return c.jumpIf(instr{op: opTest, a: uint8(i.b), c: flag(!truth)}, 0)
		}
	}
	c.toSomeRegister(o)
	c.releaseResult(o)
	return c.jumpIf(instr{op: opTestSet, a: noRegister, b: int32(o.info), c: flag(truth)}, 0)
}

func flag(b bool) uint16 {
	if b {
		return 1
	}
	return 0
}

// goIfTrue goes on with what follows if the result is true; the jumps that are made if it is false are in its list.
func (c *coder) goIfTrue(o *result) {
	c.discharge(o)
	var away jumps
	switch o.kind {
	case isConstant, isNumber, isTrue:
	case isCondition:
		c.invert(o)
		away = lone(o.info)
	default:
		away = c.jumpOn(o, false)
	}
	c.join(&o.ifFalse, away)
	c.land(o.ifTrue)
	o.ifTrue = jumps{}
}

// goIfFalse is the contrary of goIfTrue.
func (c *coder) goIfFalse(o *result) {
	c.discharge(o)
	var away jumps
	switch o.kind {
	case isNil, isFalse:
	case isCondition:
		away = lone(o.info)
	default:
		away = c.jumpOn(o, true)
	}
	c.join(&o.ifTrue, away)
	c.land(o.ifFalse)
	o.ifFalse = jumps{}
}

// not makes the result its negation.
func (c *coder) not(o *result) {
	c.discharge(o)
	switch o.kind {
	case isNil, isFalse:
		o.kind = isTrue
	case isConstant, isNumber, isTrue:
		o.kind = isFalse
	case isCondition:
		c.invert(o)
	default:
		c.toSomeRegister(o)
		c.releaseResult(o)
		o.become(isInstruction, c.emit(instr{op: opNot, b: int32(o.info)}, 0))
	}
	o.ifTrue, o.ifFalse = o.ifFalse, o.ifTrue
	c.dropValues(o.ifFalse)
	c.dropValues(o.ifTrue)
}
