package lua

import (
	"math"

	"codeq/scripting/luaparse"
)

// expr compiles an expression.
func (c *coder) expr(x luaparse.Expr) result {
	switch x := x.(type) {
	case *luaparse.Nil:
		return result{kind: isNil}
	case *luaparse.True:
		return result{kind: isTrue}
	case *luaparse.False:
		return result{kind: isFalse}
	case *luaparse.Numeral:
		return result{kind: isNumber, number: x.Value}
	case *luaparse.Text:
		return result{kind: isConstant, info: c.text(x.Value)}
	case *luaparse.Vararg:
		return result{kind: isVararg, info: c.emit(instr{op: opVararg, b: 1}, x.Line)}
	case *luaparse.Name:
		return c.name(x)
	case *luaparse.Index:
		return c.index(x)
	case *luaparse.Call:
		return c.call(x)
	case *luaparse.Paren:
		o := c.expr(x.Inner)
		c.discharge(&o)
		return o
	case *luaparse.Binary:
		return c.binary(x)
	case *luaparse.Logical:
		return c.logical(x)
	case *luaparse.Concat:
		return c.concat(x)
	case *luaparse.Unary:
		return c.unary(x)
	case *luaparse.Table:
		return c.table(x)
	case *luaparse.Function:
		return c.closure(x)
	}
	panic("lua: the tree has an expression of no known type")
}

func (c *coder) name(x *luaparse.Name) result {
	o := result{line: x.Line}
	if x.Local == nil {
		o.become(isGlobal, c.text(x.Name))
	} else if register := c.register(x.Local); register >= 0 {
		o.become(isLocal, register)
	} else {
		o.become(isUpvalue, c.upvalue(x.Local))
	}
	return o
}

func (c *coder) index(x *luaparse.Index) result {
	o := c.expr(x.Object)
	c.toAny(&o)
	key := c.expr(x.Key)
	c.toValue(&key)
	c.field(&o, key, x.Line)
	return o
}

func (c *coder) call(x *luaparse.Call) result {
	fn := c.expr(x.Func)
	if x.Method != "" {
		c.self(&fn, x.Method, x.MethodLine)
	} else {
		c.toNext(&fn)
	}
	i := instr{op: opCall, a: uint8(fn.info), c: 2}
	if !c.openList(x.Args) {
		i.b = int32(c.free - fn.info)
	}
	pc := c.emit(i, x.Line)
	c.free = fn.info + 1
	return result{kind: isCall, info: pc}
}

// openList puts the values of a list into the next registers. It answers whether they are as many as the last expression has, up to the top.
func (c *coder) openList(list []luaparse.Expr) bool {
	if len(list) == 0 {
		return false
	}
	last := c.list(list)
	if last.isList() {
		c.wantResults(&last, multiple)
		return true
	}
	c.toNext(&last)
	return false
}

// list puts the values of all expressions but the last into the next registers.
func (c *coder) list(list []luaparse.Expr) (last result) {
	for i, x := range list {
		last = c.expr(x)
		if i < len(list)-1 {
			c.toNext(&last)
		}
	}
	return last
}

func (c *coder) unary(x *luaparse.Unary) result {
	o := c.expr(x.Operand)
	if x.Op == luaparse.Not {
		c.not(&o)
		return o
	}
	i := instr{op: opLen}
	if x.Op == luaparse.Minus {
		if o.isNumeral() {
			return result{kind: isNumber, number: -o.number}
		}
		i.op = opUnm
	}
	i.b = int32(c.toAny(&o))
	c.releaseResult(&o)
	return result{kind: isInstruction, info: c.emit(i, x.Line)}
}

// binary compiles arithmetic and comparisons. A numeral on the left becomes a constant after what is on the right.
func (c *coder) binary(x *luaparse.Binary) result {
	left := c.expr(x.Left)
	arithmetic := x.Op <= luaparse.Pow
	if !arithmetic || !left.isNumeral() {
		c.toRK(&left)
	}
	right := c.expr(x.Right)
	if arithmetic {
		if left.isNumeral() && right.isNumeral() {
			if f, ok := fold(x.Op, left.number, right.number); ok {
				return result{kind: isNumber, number: f}
			}
		}
		rk := c.toRK(&right)
		i := instr{op: opAdd + opcode(x.Op-luaparse.Add), b: int32(c.toRK(&left)), c: uint16(rk)}
		c.releaseBoth(&left, &right)
		return result{kind: isInstruction, info: c.emit(i, x.Line)}
	}
	return c.comparison(x.Op, &left, &right, x.Line)
}

// fold computes what the parser could not, because conditions lead to the numerals: -(a and nil or 1).
func fold(op luaparse.Op, a, b float64) (f float64, ok bool) {
	if b == 0 && (op == luaparse.Div || op == luaparse.Mod) {
		return 0, false
	}
	f = luaparse.Compute(op, a, b)
	return f, f == f
}

// comparison compiles one, > and >= as < and <= with the operands exchanged.
func (c *coder) comparison(op luaparse.Op, left, right *result, line int) result {
	b, d := c.toRK(left), c.toRK(right)
	c.releaseResult(right)
	c.releaseResult(left)
	i := instr{op: opEq, a: 1}
	switch op {
	case luaparse.Ne:
		i.a = 0
	case luaparse.Lt:
		i.op = opLt
	case luaparse.Le:
		i.op = opLe
	case luaparse.Gt:
		i.op, b, d = opLt, d, b
	case luaparse.Ge:
		i.op, b, d = opLe, d, b
	}
	i.b, i.c = int32(b), uint16(d)
	jump := c.jumpIf(i, line)
	return result{kind: isCondition, info: jump.first - 1}
}

func (c *coder) logical(x *luaparse.Logical) result {
	left := c.expr(x.Left)
	if x.Or {
		c.goIfFalse(&left)
	} else {
		c.goIfTrue(&left)
	}
	right := c.expr(x.Right)
	c.discharge(&right)
	if x.Or {
		c.join(&right.ifTrue, left.ifTrue)
	} else {
		c.join(&right.ifFalse, left.ifFalse)
	}
	return right
}

// concat compiles a chain of `..`, whose operands must be in registers that follow each other. If the last one is another chain, it becomes
// one with it.
func (c *coder) concat(x *luaparse.Concat) result {
	first := c.free
	last := c.list(x.Operands)
	c.toValue(&last)
	if last.kind == isInstruction {
		if i := c.at(last.info); i.op == opConcat {
			i.b = int32(first)
			c.free = first
			return last
		}
	}
	c.toNext(&last)
	c.free = first
	return result{kind: isInstruction, info: c.emit(instr{op: opConcat, b: int32(first), c: uint16(last.info)}, x.Line)}
}

func (c *coder) closure(x *luaparse.Function) result {
	if len(c.proto.protos) >= maxConstants {
		panic(tooLarge{errConstants})
	}
	c.proto.protos = append(c.proto.protos, c.function(x))
	o := result{kind: isInstruction, info: c.emit(instr{op: opClosure, b: int32(len(c.proto.protos) - 1)}, x.LastLine)}
	for _, up := range x.Upvalues {
		i := instr{op: opMove, b: int32(c.register(up))}
		if i.b < 0 {
			i = instr{op: opGetUpval, b: int32(c.upvalue(up))}
		} else {
			c.captured(int(i.b))
		}
		c.emit(i, 0)
	}
	return o
}

// table compiles a constructor. The elements of its list wait in registers until there are fieldsPerFlush of them.
func (c *coder) table(x *luaparse.Table) result {
	pc := c.emit(instr{op: opNewTable}, x.Line)
	t := result{kind: isInstruction, info: pc}
	c.toNext(&t)
	var (
		element              result // the last one, which is not in a register yet
		elements, waiting, n int
	)
	for _, field := range x.Fields {
		if element.kind != isNothing {
			c.toNext(&element)
			element = result{}
			if waiting == fieldsPerFlush {
				c.setList(t.info, elements, waiting)
				waiting = 0
			}
		}
		if field.Key != nil {
			n++
			c.keyed(t.info, &field)
			continue
		}
		element = c.expr(field.Value)
		elements++
		waiting++
	}
	if waiting > 0 {
		if element.isList() {
			c.wantResults(&element, multiple)
			c.setList(t.info, elements, 0)
			elements--
		} else {
			if element.kind != isNothing {
				c.toNext(&element)
			}
			c.setList(t.info, elements, waiting)
		}
	}
	i := c.at(pc)
	i.b, i.c = int32(rounded(elements)), uint16(min(rounded(n), math.MaxUint16))
	return t
}

// keyed compiles an element with a key.
func (c *coder) keyed(table int, field *luaparse.Field) {
	free := c.free
	key := c.expr(field.Key)
	rk := c.toRK(&key)
	value := c.expr(field.Value)
	c.setField(table, rk, c.toRK(&value), field.Line)
	c.free = free
}

// setList stores the elements that wait behind the table, of which there were that many; none waiting stands for all up to the top.
func (c *coder) setList(table, elements, waiting int) {
	i := instr{op: opSetList, a: uint8(table), b: int32(waiting)}
	batch := (elements-1)/fieldsPerFlush + 1
	if batch < 1<<16 {
		i.c = uint16(batch)
		c.emit(i, 0)
	} else {
		c.emit(i, 0)
		c.emit(instr{b: int32(batch)}, 0)
	}
	c.free = table + 1
}
