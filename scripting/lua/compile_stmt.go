package lua

import "codeq/scripting/luaparse"

// block is a block that is being compiled, but not the outermost of a function.
type block struct {
	outer    *block
	kept     int   // the variables around it
	captured bool  // some variable of it is an upvalue of a function that has been compiled
	loop     bool  // break ends it
	breaks   jumps // those that break makes
}

func (c *coder) enter(loop bool) *block {
	c.block = &block{outer: c.block, kept: len(c.active), loop: loop}
	return c.block
}

func (c *coder) leave() {
	b := c.block
	c.block = b.outer
	c.forget(b.kept)
	if b.captured {
		c.emit(instr{op: opClose, a: uint8(b.kept)}, 0)
	}
	c.free = b.kept
	c.land(b.breaks)
}

// captured notes that a variable is an upvalue of a function. The outermost block has none to note it: a return closes all upvalues.
func (c *coder) captured(register int) {
	b := c.block
	for b != nil && b.kept > register {
		b = b.outer
	}
	if b != nil {
		b.captured = true
	}
}

func (c *coder) statements(list []luaparse.Stmt) {
	for _, s := range list {
		c.statement(s)
		c.free = len(c.active)
	}
}

func (c *coder) body(list []luaparse.Stmt) {
	c.enter(false)
	c.statements(list)
	c.leave()
}

func (c *coder) statement(s luaparse.Stmt) {
	switch s := s.(type) {
	case *luaparse.Assign:
		c.assignment(s)
	case *luaparse.Declare:
		c.line = s.Line
		c.adjust(len(s.Locals), s.Values)
		for _, l := range s.Locals {
			c.declare(l)
		}
	case *luaparse.DeclareFunction:
		c.localFunction(s)
	case *luaparse.CallStmt:
		c.line = s.Line
		o := c.call(s.Call)
		c.at(o.info).c = 1
	case *luaparse.Do:
		c.body(s.Body)
	case *luaparse.While:
		c.while(s)
	case *luaparse.Repeat:
		c.repeat(s)
	case *luaparse.If:
		c.branches(s)
	case *luaparse.NumericFor:
		c.numericFor(s)
	case *luaparse.GenericFor:
		c.genericFor(s)
	case *luaparse.Return:
		c.returns(s)
	case *luaparse.Break:
		c.line = s.Line
		c.leaveLoop()
	default:
		panic("lua: the tree has a statement of no known type")
	}
}

// adjust puts as many values as are wanted into the next registers. Those of further expressions are there, too.
func (c *coder) adjust(want int, values []luaparse.Expr) {
	last := c.list(values)
	c.adjustLast(want-len(values), &last)
}

// adjustLast ends a list of expressions with as many values more as are missing.
func (c *coder) adjustLast(missing int, last *result) {
	if last.isList() {
		n := max(missing+1, 0)
		c.wantResults(last, n)
		if n > 1 {
			c.reserve(n - 1)
		}
		return
	}
	if last.kind != isNothing {
		c.toNext(last)
	}
	if missing > 0 {
		first := c.free
		c.reserve(missing)
		c.loadNil(first, missing)
	}
}

// assignment evaluates the tables and keys on the left, then the values, and stores from right to left; the last value without a detour.
func (c *coder) assignment(s *luaparse.Assign) {
	c.line = s.Line
	targets := make([]result, len(s.Targets))
	for i, x := range s.Targets {
		targets[i] = c.expr(x)
		if targets[i].kind == isLocal {
			c.keepApart(targets[:i], targets[i].info)
		}
	}
	last := c.list(s.Values)
	n := len(targets)
	if missing := n - len(s.Values); missing == 0 {
		c.wantOne(&last)
		n--
		c.assign(&targets[n], &last)
	} else {
		c.adjustLast(missing, &last)
		c.free += min(missing, 0)
	}
	for n--; n >= 0; n-- {
		value := result{kind: isRegister, info: c.free - 1}
		c.assign(&targets[n], &value)
	}
}

// keepApart copies a variable that is assigned to, if a table or a key of the targets before it is that variable, for these.
func (c *coder) keepApart(before []result, register int) {
	found := false
	for i := range before {
		o := &before[i]
		if o.kind != isField {
			continue
		}
		if o.info == register {
			o.info, found = c.free, true
		}
		if o.key == register {
			o.key, found = c.free, true
		}
	}
	if found {
		c.emit(instr{op: opMove, a: uint8(c.free), b: int32(register)}, 0)
		c.reserve(1)
	}
}

// localFunction declares a function that knows itself. Messages know its name when it is there.
func (c *coder) localFunction(s *luaparse.DeclareFunction) {
	variable := result{kind: isLocal, info: c.free}
	c.reserve(1)
	c.declare(s.Local)
	fn := c.closure(s.Function)
	c.assign(&variable, &fn)
	c.proto.locals[c.active[len(c.active)-1].info].start = int32(c.pc())
}

// condition answers the jumps that are made if the condition is false.
func (c *coder) condition(x luaparse.Expr) jumps {
	o := c.expr(x)
	if o.kind == isNil {
		o.kind = isFalse
	}
	c.goIfTrue(&o)
	return o.ifFalse
}

func (c *coder) branches(s *luaparse.If) {
	var ends jumps
	for i, x := range s.Conditions {
		otherwise := c.condition(x)
		c.body(s.Thens[i])
		if i < len(s.Conditions)-1 || s.HasElse {
			c.join(&ends, c.jump())
			c.land(otherwise)
		} else {
			c.join(&ends, otherwise)
		}
	}
	if s.HasElse {
		c.body(s.Else)
	}
	c.land(ends)
}

func (c *coder) while(s *luaparse.While) {
	start := c.here()
	exit := c.condition(s.Condition)
	c.enter(true)
	c.body(s.Body)
	c.lead(c.jump(), start)
	c.leave()
	c.land(exit)
}

// repeat compiles a loop whose condition is part of the body's block. If variables of that are upvalues, they are closed on both
// ways out of it.
func (c *coder) repeat(s *luaparse.Repeat) {
	start := c.here()
	c.enter(true)
	scope := c.enter(false)
	c.statements(s.Body)
	again := c.condition(s.Condition)
	if scope.captured {
		c.leaveLoop()
		c.land(again)
		c.leave()
		again = c.jump()
	} else {
		c.leave()
	}
	c.lead(again, start)
	c.leave()
}

// leaveLoop jumps behind the loop.
func (c *coder) leaveLoop() {
	b, captured := c.block, false
	for ; !b.loop; b = b.outer {
		captured = captured || b.captured
	}
	if captured {
		c.emit(instr{op: opClose, a: uint8(b.kept)}, 0)
	}
	c.join(&b.breaks, c.jump())
}

// numericFor compiles the loop to opForPrep, which jumps to the opForLoop behind the body, which jumps back.
func (c *coder) numericFor(s *luaparse.NumericFor) {
	c.enter(true)
	base := c.free
	for _, x := range []luaparse.Expr{s.Init, s.Limit, s.Step} {
		step := result{kind: isNumber, number: 1}
		if x != nil {
			step = c.expr(x)
		}
		c.toNext(&step)
	}
	c.hide("(for index)", "(for limit)", "(for step)")
	start := c.emit(instr{op: opForPrep, a: uint8(base)}, s.DoLine)
	c.loopBody([]*luaparse.Local{s.Local}, s.Body)
	c.land(lone(start))
	end := c.emit(instr{op: opForLoop, a: uint8(base)}, s.Line)
	c.lead(lone(end), start+1)
	c.leave()
}

// genericFor compiles the loop to a jump to the opTForLoop behind the body, which a jump back follows.
func (c *coder) genericFor(s *luaparse.GenericFor) {
	c.enter(true)
	base := c.free
	c.adjust(3, s.Values)
	c.free = base + 3
	c.ensure(3)
	c.hide("(for generator)", "(for state)", "(for control)")
	start := c.pc()
	in := c.jump()
	c.loopBody(s.Locals, s.Body)
	c.land(in)
	end := c.line
	c.emit(instr{op: opTForLoop, a: uint8(base), c: uint16(len(s.Locals))}, s.Line)
	c.line = end
	c.lead(c.jump(), start+1)
	c.leave()
}

func (c *coder) loopBody(locals []*luaparse.Local, list []luaparse.Stmt) {
	c.enter(false)
	for _, l := range locals {
		c.declare(l)
	}
	c.reserve(len(locals))
	c.body(list)
	c.leave()
}

// returns compiles a return. A lone call is a tail call.
func (c *coder) returns(s *luaparse.Return) {
	c.line = s.Line
	i := instr{op: opReturn, b: int32(len(s.Values) + 1)}
	last := c.list(s.Values)
	switch {
	case last.isList():
		c.wantResults(&last, multiple)
		if last.kind == isCall && len(s.Values) == 1 {
			c.at(last.info).op = opTailCall
		}
		i.a, i.b = uint8(len(c.active)), 0
	case len(s.Values) == 1:
		i.a = uint8(c.toAny(&last))
	case len(s.Values) > 1:
		c.toNext(&last)
		i.a = uint8(len(c.active))
	}
	c.emit(i, s.Line)
}
