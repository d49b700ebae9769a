package luaparse

import (
	"math"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

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
		rhs := p.subexpr(right)
		p.above()
		e = p.binary(op, e, rhs)
	}
}

func (p *parser) unary() ast.Expr {
	line := p.lx.line
	var e ast.Expr
	switch p.lx.tok.kind {
	case tkNot:
		p.lx.next()
		e = negated(p.subexpr(unaryPriority))
	case '-':
		p.lx.next()
		operand := p.subexpr(unaryPriority)
		if v, ok := literal(operand); ok {
			return number(-v, line)
		}
		return p.helper(Minus, line, operand)
	case '#':
		p.lx.next()
		e = &ast.UnaryLenOpExpr{Expr: single(p.subexpr(unaryPriority))}
	default:
		return p.simple()
	}
	e.SetLine(line)
	return e
}

// negated is `not e`, computed where e is a constant: what is not there is not among the function's constants.
func negated(e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.NilExpr, *ast.FalseExpr:
		return &ast.TrueExpr{}
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr:
		return &ast.FalseExpr{}
	}
	return &ast.UnaryNotOpExpr{Expr: single(e)}
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
		return p.arithmetic(op, lhs, rhs)
	}
	e.SetLine(p.lx.lastLine)
	return e
}

// arithmetic computes what has constant operands, as the reference implementation does: all zeros among a function's constants
// have the sign of the first, so it matters which ones there are.
func (p *parser) arithmetic(op tokenKind, lhs, rhs ast.Expr) ast.Expr {
	a, okA := literal(lhs)
	b, okB := literal(rhs)
	if okA && okB && (b != 0 || op != '/' && op != '%') {
		if v := Compute(byte(op), a, b); !math.IsNaN(v) {
			return number(v, p.lx.lastLine)
		}
	}
	// Counting, by far the most frequent, is left to the virtual machine, which gets it right.
	counts := (op == '+' || op == '-') && (okA && a != 0 || okB && b != 0)
	if need := max(1+p.need(lhs), 2+p.need(rhs)); !counts && need < maxNeed {
		call := p.helper(operator(op), p.lx.lastLine, lhs, rhs)
		p.needs[call] = need
		return call
	}
	left := single(lhs)
	if p.height%maxFold == 0 {
		left = parenthesized(left)
	}
	e := &ast.ArithmeticOpExpr{Operator: op.String(), Lhs: left, Rhs: single(rhs)}
	e.SetLine(p.lx.lastLine)
	p.needs[e] = max(p.need(lhs), 1+p.need(rhs))
	return e
}

// maxNeed bounds the registers that an expression of operators takes, since a call needs more of them than the virtual machine's
// own operator. What would need more is left to that.
const maxNeed = 100

// maxFold bounds the operators that follow each other without anything between. gopher-lua's compiler looks for constants below each operator
// again, down to what is no operator, so that a long chain would take the square of its length.
const maxFold = 16

// need is how many registers an expression of operators takes; anything else counts as one.
func (p *parser) need(e ast.Expr) int { return max(1, p.needs[e]) }

// operator is the helper that stands for an operator.
func operator(op tokenKind) Helper {
	switch op {
	case '+':
		return Plus
	case '-':
		return Less
	case '*':
		return Times
	case '/':
		return Over
	case '%':
		return Modulo
	}
	return Power
}

// Compute carries out an arithmetic operator as the reference implementation does.
func Compute(op byte, a, b float64) float64 {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		return a / b
	case '%':
		return a - float64(math.Floor(a/b)*b) // rounded before the subtraction, on every machine
	}
	return NaN(math.Pow(a, b), a, b)
}

// NaN is the result of a function of a and b, but for which NaN it is, if it is one: scripts see the sign. It is that of
// an argument which is one, else the one that an x86 processor makes, which is negative.
func NaN(v, a, b float64) float64 {
	switch {
	case !math.IsNaN(v):
		return v
	case math.IsNaN(a):
		return a
	case math.IsNaN(b):
		return b
	}
	return math.Copysign(v, -1)
}

func literal(e ast.Expr) (float64, bool) {
	n, ok := e.(*ast.NumberExpr)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	return v, err == nil || math.IsInf(v, 0)
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

// parenthesized keeps an expression from being merged into the chain around it.
func parenthesized(inner ast.Expr) ast.Expr {
	e := &ast.LogicalOpExpr{Operator: "or", Lhs: &ast.FalseExpr{}, Rhs: inner}
	e.SetLine(inner.Line())
	e.Lhs.SetLine(inner.Line())
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
		return primaryExpr{expr: p.variable(line)}
	case '(':
		p.lx.next()
		e := single(p.expr())
		p.closing(')', '(', line)
		return primaryExpr{e, true}
	}
	p.lx.syntaxError("unexpected symbol")
	return primaryExpr{}
}

// variable reads a name.
func (p *parser) variable(line int) ast.Expr {
	name := p.name()
	global := p.resolve(name) && p.script
	if global {
		switch name {
		case "KEYS":
			return p.hidden(Keys, line)
		case "ARGV":
			return p.hidden(Argv, line)
		}
	}
	e := &ast.IdentExpr{Value: name}
	e.SetLine(line)
	if global && name == "redis" {
		p.redis = e
	}
	return e
}

// callee is what a call calls: Call or PCall if that is what the expression means.
func (p *parser) callee(e ast.Expr) ast.Expr {
	field, ok := e.(*ast.AttrGetExpr)
	if !ok || p.redis == nil || field.Object != ast.Expr(p.redis) {
		return e
	}
	key, ok := field.Key.(*ast.StringExpr)
	switch {
	case ok && key.Value == "call":
		return p.hidden(Call, e.Line())
	case ok && key.Value == "pcall":
		return p.hidden(PCall, e.Line())
	}
	return e
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
			e = primaryExpr{expr: p.call(p.callee(e.expr))}
		default:
			return e
		}
		p.above()
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
