package luaparse

import "github.com/yuin/gopher-lua/ast"

// primaryExpr is a prefix expression; parens says that it is one in parentheses.
type primaryExpr struct {
	expr   ast.Expr
	parens bool
}

func (p *parser) exprList() []ast.Expr {
	list := []ast.Expr{p.expr()}
	for p.accept(',') {
		list = append(list, p.expr())
	}
	return list
}

func (p *parser) expr() ast.Expr { return p.subexpr(0) }

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

func (p *parser) subexpr(limit int) ast.Expr {
	p.enter()
	defer p.leave()
	e := p.unary()
	for {
		op := p.lx.tok.kind
		left, right := priorities(op)
		if left == 0 || left <= limit {
			return e
		}
		p.lx.next()
		e = p.binary(op, e, p.subexpr(right))
	}
}

func (p *parser) unary() ast.Expr {
	line := p.lx.line
	var e ast.Expr
	switch p.lx.tok.kind {
	case tkNot:
		p.lx.next()
		e = &ast.UnaryNotOpExpr{Expr: single(p.subexpr(unaryPriority))}
	case '-':
		p.lx.next()
		e = &ast.UnaryMinusOpExpr{Expr: single(p.subexpr(unaryPriority))}
	case '#':
		p.lx.next()
		e = &ast.UnaryLenOpExpr{Expr: single(p.subexpr(unaryPriority))}
	default:
		return p.simple()
	}
	e.SetLine(line)
	return e
}

func (p *parser) binary(op tokenKind, lhs, rhs ast.Expr) ast.Expr {
	var e ast.Expr
	switch op {
	case tkOr, tkAnd:
		e = &ast.LogicalOpExpr{Operator: op.String(), Lhs: single(lhs), Rhs: single(rhs)}
	case '<', '>', tkLe, tkGe, tkNe, tkEq:
		e = &ast.RelationalOpExpr{Operator: op.String(), Lhs: single(lhs), Rhs: single(rhs)}
	case tkConcat:
		return p.concat(lhs, rhs)
	default:
		e = &ast.ArithmeticOpExpr{Operator: op.String(), Lhs: single(lhs), Rhs: single(rhs)}
	}
	e.SetLine(p.lx.lastLine)
	return e
}

// maxConcatArgs bounds the operands of one call, which all need a register.
const maxConcatArgs = 50

// concat turns a chain of concatenations, which associates to the right, into one call of the helper. Parentheses on the
// right end a chain, because the operator can be overloaded.
func (p *parser) concat(lhs, rhs ast.Expr) ast.Expr {
	if call, ok := rhs.(*ast.FuncCallExpr); ok && isConcat(call) && len(call.Args) < maxConcatArgs {
		call.Args = append([]ast.Expr{single(lhs)}, call.Args...)
		return call
	}
	return p.helper(Concat, p.lx.lastLine, lhs, rhs)
}

func isConcat(call *ast.FuncCallExpr) bool {
	name, ok := call.Func.(*ast.IdentExpr)
	return ok && name.Value == string(Concat)
}

func (p *parser) simple() ast.Expr {
	line := p.lx.line
	var e ast.Expr
	switch t := p.lx.tok; t.kind {
	case tkNumber:
		p.constant(t.text)
		e = number(t.num, line)
	case tkString:
		e = p.text(t.str, line)
	case tkNil:
		e = &ast.NilExpr{}
	case tkTrue:
		e = &ast.TrueExpr{}
	case tkFalse:
		e = &ast.FalseExpr{}
	case tkDots:
		e = p.dots(line)
	case '{':
		return p.table()
	case tkFunction:
		p.lx.next()
		return p.funcBody(false, line)
	default:
		primary := p.primary()
		if call, ok := primary.expr.(*ast.FuncCallExpr); ok && primary.parens && isConcat(call) {
			return parenthesized(call)
		}
		return primary.expr
	}
	e.SetLine(line)
	p.lx.next()
	return e
}

// parenthesized keeps a concatenation in parentheses from being merged into the chain around it.
func parenthesized(call *ast.FuncCallExpr) ast.Expr {
	e := &ast.LogicalOpExpr{Operator: "or", Lhs: &ast.FalseExpr{}, Rhs: call}
	e.SetLine(call.Line())
	e.Lhs.SetLine(call.Line())
	return e
}

func (p *parser) dots(line int) ast.Expr {
	if !p.fn.vararg {
		p.lx.syntaxError("cannot use '...' outside a vararg function")
	}
	if p.fn.main {
		return p.helper(Nothing, line)
	}
	return &ast.Comma3Expr{}
}

func (p *parser) prefix() primaryExpr {
	line := p.lx.line
	switch p.lx.tok.kind {
	case tkName:
		name := p.name()
		p.resolve(name)
		e := &ast.IdentExpr{Value: name}
		e.SetLine(line)
		return primaryExpr{expr: e}
	case '(':
		p.lx.next()
		e := single(p.expr())
		p.closing(')', '(', line)
		return primaryExpr{e, true}
	}
	p.lx.syntaxError("unexpected symbol")
	return primaryExpr{}
}

func (p *parser) primary() primaryExpr {
	e := p.prefix()
	for {
		switch p.lx.tok.kind {
		case '.':
			p.lx.next()
			keyLine := p.lx.line
			key := p.text(p.name(), keyLine)
			e = primaryExpr{expr: p.index(e.expr, key)}
		case '[':
			p.lx.next()
			key := single(p.expr())
			p.expect(']')
			e = primaryExpr{expr: p.index(e.expr, key)}
		case ':':
			p.lx.next()
			method := p.name()
			p.constant(method)
			call := p.call(nil)
			call.Receiver, call.Method = e.expr, method
			e = primaryExpr{expr: call}
		case '(', tkString, '{':
			e = primaryExpr{expr: p.call(e.expr)}
		default:
			return e
		}
	}
}

func (p *parser) index(object, key ast.Expr) ast.Expr {
	e := &ast.AttrGetExpr{Object: single(object), Key: key}
	e.SetLine(p.lx.lastLine)
	return e
}

// call reads a call's arguments. A call's line is that of its opening parenthesis.
func (p *parser) call(fn ast.Expr) *ast.FuncCallExpr {
	line := p.lx.line
	call := &ast.FuncCallExpr{Args: []ast.Expr{}}
	if fn != nil {
		call.Func = single(fn)
	}
	call.SetLine(line)
	switch p.lx.tok.kind {
	case '(':
		if line != p.lx.lastLine {
			p.lx.syntaxError("ambiguous syntax (function call x new statement)")
		}
		p.lx.next()
		if p.lx.tok.kind != ')' {
			call.Args = p.exprList()
		}
		p.closing(')', '(', line)
	case '{':
		call.Args = []ast.Expr{p.table()}
	case tkString:
		call.Args = []ast.Expr{p.text(p.lx.tok.str, line)}
		p.lx.next()
	default:
		p.lx.syntaxError("function arguments expected")
	}
	return call
}

func (p *parser) table() ast.Expr {
	line := p.lx.line
	e := &ast.TableExpr{Fields: []*ast.Field{}}
	e.SetLine(line)
	p.expect('{')
	for p.lx.tok.kind != '}' {
		e.Fields = append(e.Fields, p.field())
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.closing('}', '{', line)
	return e
}

func (p *parser) field() *ast.Field {
	switch {
	case p.lx.tok.kind == tkName && p.lx.peek() == '=':
		key := p.text(p.lx.tok.str, p.lx.line)
		p.lx.next()
		p.lx.next()
		return &ast.Field{Key: key, Value: single(p.expr())}
	case p.lx.tok.kind == '[':
		p.lx.next()
		key := single(p.expr())
		p.expect(']')
		p.expect('=')
		return &ast.Field{Key: key, Value: single(p.expr())}
	}
	return &ast.Field{Value: p.expr()}
}

// funcBody reads a function from its parameters on.
func (p *parser) funcBody(method bool, line int) *ast.FunctionExpr {
	p.fn = &function{outer: p.fn, line: line}
	if method {
		p.declare("self")
	}
	e := &ast.FunctionExpr{ParList: &ast.ParList{Names: []string{}}}
	e.SetLine(line)
	p.expect('(')
	for p.lx.tok.kind != ')' {
		if p.lx.tok.kind == tkDots {
			p.lx.next()
			e.ParList.HasVargs, p.fn.vararg = true, true
			// Old-style variadic functions have their arguments in a local table as well.
			p.declare("arg")
			break
		}
		if p.lx.tok.kind != tkName {
			p.lx.syntaxError("<name> or '...' expected")
		}
		name := p.name()
		e.ParList.Names = append(e.ParList.Names, name)
		p.declare(name)
		if !p.accept(',') {
			break
		}
	}
	p.expect(')')
	e.Stmts = p.block()
	e.SetLastLine(p.lx.line)
	p.closing(tkEnd, tkFunction, line)
	p.fn = p.fn.outer
	return e
}
