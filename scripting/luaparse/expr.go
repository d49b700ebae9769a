package luaparse

// exprs reads a list of expressions, the last of which still waits to be settled.
func (p *parser) exprs() []Expr {
	list := []Expr{p.expr()}
	for p.accept(',') {
		p.settle(list[len(list)-1])
		list = append(list, p.expr())
	}
	return list
}

// values is exprs whose values are wanted as soon as they are read.
func (p *parser) values() []Expr {
	list := p.exprs()
	p.settle(list[len(list)-1])
	return list
}

func (p *parser) expr() Expr { return p.subexpr(0) }

// value is expr whose value is wanted as soon as it is read.
func (p *parser) value() Expr { return p.settle(p.expr()) }

// settle makes this the place where an expression's value is wanted: a variable or field is read with the line of the last token.
func (p *parser) settle(e Expr) Expr {
	switch x := e.(type) {
	case *Name:
		if x.Line == 0 {
			x.Line = p.lx.lastLine
		}
	case *Index:
		if x.Line == 0 {
			x.Line = p.lx.lastLine
		}
	}
	return e
}

// priorities answers the left and right priority of a binary operator; left is 0 for anything else.
func priorities(k tokenKind) (left, right int) {
	switch k {
	case tkOr:
		return 1, 1
	case tkAnd:
		return 2, 2
	case '<', '>', tkLe, tkGe, tkNe, tkEq:
		return 3, 3
	case tkConcat:
		return 5, 4
	case '+', '-':
		return 6, 6
	case '*', '/', '%':
		return 7, 7
	case '^':
		return 10, 9
	}
	return 0, 0
}

const unaryPriority = 8

func (p *parser) subexpr(limit int) Expr {
	p.enter()
	defer p.leave()
	defer p.beside(p.height)
	p.height = 0
	e := p.unary()
	for {
		op := p.lx.tok.kind
		left, right := priorities(op)
		if left == 0 || left <= limit {
			return e
		}
		p.lx.next()
		p.settle(e)
		operand := p.settle(p.subexpr(right))
		p.above()
		e = binary(op, e, operand, p.lx.lastLine)
	}
}

func (p *parser) unary() Expr {
	op := Not
	switch p.lx.tok.kind {
	case tkNot:
	case '-':
		op = Minus
	case '#':
		op = Len
	default:
		return p.simple()
	}
	p.lx.next()
	operand := p.settle(p.subexpr(unaryPriority))
	if e := foldUnary(op, operand); e != nil {
		return e
	}
	return &Unary{Op: op, Operand: operand, Line: p.lx.lastLine}
}

func binary(k tokenKind, left, right Expr, line int) Expr {
	switch k {
	case tkAnd, tkOr:
		if e := foldLogical(k == tkOr, left, right); e != nil {
			return e
		}
		return &Logical{Or: k == tkOr, Left: left, Right: right, Line: line}
	case tkConcat:
		if chain, ok := right.(*Concat); ok {
			chain.Operands = append([]Expr{left}, chain.Operands...)
			return chain
		}
		return &Concat{Operands: []Expr{left, right}, Line: line}
	}
	op := operator(k)
	if e := fold(op, left, right); e != nil {
		return e
	}
	return &Binary{Op: op, Left: left, Right: right, Line: line}
}

// operator is the operator that a token stands for between two operands.
func operator(k tokenKind) Op {
	switch k {
	case '+':
		return Add
	case '-':
		return Sub
	case '*':
		return Mul
	case '/':
		return Div
	case '%':
		return Mod
	case '^':
		return Pow
	case tkEq:
		return Eq
	case tkNe:
		return Ne
	case '<':
		return Lt
	case tkLe:
		return Le
	case '>':
		return Gt
	}
	return Ge
}

func (p *parser) simple() Expr {
	var e Expr
	switch t := p.lx.tok; t.kind {
	case tkNumber:
		e = &Numeral{t.num}
	case tkString:
		e = &Text{t.str}
	case tkNil:
		e = &Nil{}
	case tkTrue:
		e = &True{}
	case tkFalse:
		e = &False{}
	case tkDots:
		e = p.dots()
	case '{':
		return p.table()
	case tkFunction:
		p.lx.next()
		return p.funcBody(false, p.lx.line)
	default:
		e, _ = p.primary()
		return e
	}
	p.lx.next()
	return e
}

// dots is `...`. A function that uses it does without the table `arg`.
func (p *parser) dots() Expr {
	fn := p.fn.tree
	if !fn.Vararg {
		p.lx.syntaxError("cannot use '...' outside a vararg function")
	}
	fn.NeedsArg = false
	return &Vararg{Line: p.lx.lastLine}
}

// prefix reads a name, or an expression in parentheses.
func (p *parser) prefix() (e Expr, parens bool) {
	line := p.lx.line
	switch p.lx.tok.kind {
	case tkName:
		return p.variable(), false
	case '(':
		p.lx.next()
		e = p.expr()
		p.closing(')', '(', line)
		return p.settle(single(e)), true
	}
	p.lx.syntaxError("unexpected symbol")
	return nil, false
}

// primary reads a prefix and what follows it; parens says that nothing does, and that it is in parentheses.
func (p *parser) primary() (e Expr, parens bool) {
	e, parens = p.prefix()
	for {
		switch p.lx.tok.kind {
		case '.':
			p.settle(e)
			p.lx.next()
			e = &Index{Object: e, Key: &Text{p.name()}}
		case '[':
			p.settle(e)
			p.lx.next()
			e = &Index{Object: e, Key: p.value()}
			p.expect(']')
		case ':':
			p.lx.next()
			method := p.name()
			p.settle(e)
			e = p.call(&Call{Func: e, Method: method, MethodLine: p.lx.lastLine})
		case '(', tkString, '{':
			p.settle(e)
			e = p.call(&Call{Func: e})
		default:
			return e, parens
		}
		parens = false
		p.above()
	}
}

// call reads a call's arguments. A call's line is that of its opening parenthesis.
func (p *parser) call(call *Call) Expr {
	line := p.lx.line
	call.Line = line
	switch p.lx.tok.kind {
	case '(':
		if line != p.lx.lastLine {
			p.lx.syntaxError("ambiguous syntax (function call x new statement)")
		}
		p.lx.next()
		if p.lx.tok.kind != ')' {
			call.Args = p.exprs()
		}
		p.closing(')', '(', line)
		if n := len(call.Args); n > 0 {
			p.settle(call.Args[n-1])
		}
	case '{':
		call.Args = []Expr{p.table()}
	case tkString:
		call.Args = []Expr{&Text{p.lx.tok.str}}
		p.lx.next()
	default:
		p.lx.syntaxError("function arguments expected")
	}
	return call
}

func (p *parser) table() Expr {
	line := p.lx.line
	e := &Table{Line: line}
	p.expect('{')
	var last Expr
	for p.lx.tok.kind != '}' {
		p.settle(last) // an element of the list is taken when the next field begins
		field := p.field()
		last = field.Value
		e.Fields = append(e.Fields, field)
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.closing('}', '{', line)
	p.settle(last)
	return e
}

func (p *parser) field() Field {
	var key Expr
	switch {
	case p.lx.tok.kind == tkName && p.lx.peek() == '=':
		key = &Text{p.name()}
	case p.lx.tok.kind == '[':
		p.lx.next()
		key = p.value()
		p.expect(']')
	default:
		return Field{Value: p.expr()}
	}
	p.expect('=')
	value := p.value()
	return Field{Key: key, Value: value, Line: p.lx.lastLine}
}

// funcBody reads a function from its parameters on.
func (p *parser) funcBody(method bool, line int) *Function {
	fn := &Function{Line: line}
	p.fn = &function{tree: fn, outer: p.fn}
	p.expect('(')
	if method {
		fn.Params = append(fn.Params, p.declare("self"))
	}
	if p.lx.tok.kind != ')' {
		p.parameters(fn)
	}
	p.reveal()
	p.expect(')')
	fn.Body = p.block()
	fn.LastLine = p.lx.line
	p.closing(tkEnd, tkFunction, line)
	p.fn = p.fn.outer
	return fn
}

func (p *parser) parameters(fn *Function) {
	for more := true; more; more = !fn.Vararg && p.accept(',') {
		switch p.lx.tok.kind {
		case tkName:
			fn.Params = append(fn.Params, p.declare(p.name()))
		case tkDots:
			p.lx.next()
			// Old-style variadic functions have their arguments in a local table as well.
			fn.Vararg, fn.NeedsArg, fn.Arg = true, true, p.declare("arg")
		default:
			p.lx.syntaxError("<name> or '...' expected")
		}
	}
}
