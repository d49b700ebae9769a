package luaparse

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// statement reads one statement; last says that it must end its block.
func (p *parser) statement() (stmt ast.Stmt, last bool) {
	line := p.lx.line
	switch p.lx.tok.kind {
	case tkIf:
		stmt = p.ifStmt(line)
	case tkWhile:
		stmt = p.whileStmt(line)
	case tkDo:
		p.lx.next()
		stmt = &ast.IfStmt{Condition: compared(true, line), Then: p.body(nil)}
		p.closing(tkEnd, tkDo, line)
	case tkFor:
		stmt = p.forStmt(line)
	case tkRepeat:
		stmt = p.repeatStmt(line)
	case tkFunction:
		stmt = p.funcStmt(line)
	case tkLocal:
		p.lx.next()
		if p.accept(tkFunction) {
			stmt = p.localFunc(line)
		} else {
			stmt = p.localStmt()
		}
	case tkReturn:
		stmt, last = p.returnStmt(), true
	case tkBreak:
		p.lx.next()
		if p.fn.loops == 0 {
			p.lx.syntaxError("no loop to break")
		}
		stmt, last = &ast.BreakStmt{}, true
	default:
		return p.exprStmt(), false
	}
	stmt.SetLine(line)
	stmt.SetLastLine(p.lx.lastLine)
	return stmt, last
}

func (p *parser) ifStmt(line int) ast.Stmt {
	first := &ast.IfStmt{}
	first.SetLine(line)
	current := first
	p.lx.next()
	current.Condition = p.condition()
	p.expect(tkThen)
	current.Then = p.body(nil)
	for p.lx.tok.kind == tkElseif {
		next := &ast.IfStmt{}
		next.SetLine(p.lx.line)
		p.lx.next()
		next.Condition = p.condition()
		p.expect(tkThen)
		next.Then = p.body(nil)
		p.above()
		current.Else = []ast.Stmt{next}
		current = next
	}
	if p.accept(tkElse) {
		current.Else = p.body(nil)
	}
	p.closing(tkEnd, tkIf, line)
	return first
}

// closed puts an empty statement behind a declaration that ends a block: otherwise nothing would lie between the beginning of the
// variable and the end of the block, and no one could tell whether it belongs to it.
func closed(stmts []ast.Stmt) []ast.Stmt {
	if len(stmts) == 0 {
		return stmts
	}
	last := stmts[len(stmts)-1]
	if _, ok := last.(*ast.LocalAssignStmt); !ok {
		return stmts
	}
	empty := &ast.IfStmt{Condition: compared(true, last.LastLine()), Then: []ast.Stmt{}}
	empty.SetLine(last.LastLine())
	return append(stmts, empty)
}

// condition reads the condition of a block. A jump leads around the block, also where the condition is a constant, so that the
// code tells where the block's variables end.
func (p *parser) condition() ast.Expr {
	e := p.expr()
	if holds, ok := constant(e); ok {
		return compared(holds, e.Line())
	}
	return e
}

// constant tells whether an expression counts as true, if that can be told without evaluating it.
func constant(e ast.Expr) (holds, ok bool) {
	switch x := e.(type) {
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr:
		return true, true
	case *ast.FalseExpr, *ast.NilExpr:
		return false, true
	case *ast.LogicalOpExpr:
		holds, ok = constant(x.Lhs)
		if ok && holds == (x.Operator == "and") {
			return constant(x.Rhs)
		}
		return holds, ok
	}
	return false, false
}

// compared is a condition that holds, or does not, and that the compiler does not see through.
func compared(holds bool, line int) ast.Expr {
	e := &ast.RelationalOpExpr{Operator: "==", Lhs: &ast.NilExpr{}, Rhs: &ast.NilExpr{}}
	if !holds {
		e.Operator = "~="
	}
	e.SetLine(line)
	e.Lhs.SetLine(line)
	e.Rhs.SetLine(line)
	return e
}

// loop reads a loop's body, in which break may stand.
func (p *parser) loop(read func()) []ast.Stmt {
	p.fn.loops++
	stmts := p.body(read)
	p.fn.loops--
	return stmts
}

func (p *parser) whileStmt(line int) ast.Stmt {
	p.lx.next()
	s := &ast.WhileStmt{Condition: p.expr()}
	p.expect(tkDo)
	s.Stmts = p.loop(nil)
	p.closing(tkEnd, tkWhile, line)
	return s
}

func (p *parser) repeatStmt(line int) ast.Stmt {
	p.lx.next()
	s := &ast.RepeatStmt{}
	p.scoped(func() { // the condition sees the body's variables
		p.fn.loops++
		s.Stmts = p.block()
		p.fn.loops--
		p.closing(tkUntil, tkRepeat, line)
		s.Condition = p.expr()
	})
	return s
}

func (p *parser) forStmt(line int) ast.Stmt {
	p.lx.next()
	name := p.name()
	switch p.lx.tok.kind {
	case '=':
		return p.numericFor(name, line)
	case ',', tkIn:
		return p.genericFor(name, line)
	}
	p.lx.syntaxError("'=' or 'in' expected")
	return nil
}

func (p *parser) numericFor(name string, line int) ast.Stmt {
	p.lx.next()
	s := &ast.NumberForStmt{Name: name, Init: p.bound(ForInit)}
	p.expect(',')
	s.Limit = p.bound(ForLimit)
	if p.accept(',') {
		s.Step = p.bound(ForStep)
	}
	p.expect(tkDo)
	// Three hidden variables hold the loop's state, as in the reference implementation.
	s.Stmts = p.loop(func() { p.declare("(for index)", "(for limit)", "(for step)", name) })
	p.closing(tkEnd, tkFor, line)
	return s
}

// bound reads a bound of a numeric loop. Where it might be a string it goes through a helper, because gopher-lua
// accepts numbers only.
func (p *parser) bound(h Helper) ast.Expr {
	e := p.expr()
	switch e.(type) {
	case *ast.NumberExpr, *ast.UnaryLenOpExpr, *ast.UnaryMinusOpExpr, *ast.ArithmeticOpExpr:
		return e
	}
	return p.helper(h, p.lx.lastLine, e)
}

func (p *parser) genericFor(name string, line int) ast.Stmt {
	names := []string{name}
	for p.accept(',') {
		names = append(names, p.name())
	}
	p.expect(tkIn)
	s := &ast.GenericForStmt{Names: names, Exprs: p.exprList()}
	p.expect(tkDo)
	s.Stmts = p.loop(func() {
		p.declare("(for generator)", "(for state)", "(for control)")
		p.declare(names...)
	})
	p.closing(tkEnd, tkFor, line)
	return s
}

func (p *parser) funcStmt(line int) ast.Stmt {
	p.lx.next()
	first := p.name()
	p.resolve(first)
	var target ast.Expr = &ast.IdentExpr{Value: first}
	target.SetLine(line)
	name := &ast.FuncName{}
	for p.lx.tok.kind == '.' || p.lx.tok.kind == ':' {
		method := p.lx.tok.kind == ':'
		p.lx.next()
		field := p.name()
		if method {
			name.Receiver, name.Method = target, field
			break
		}
		attr := &ast.AttrGetExpr{Object: target, Key: p.text(field, line)}
		attr.SetLine(line)
		target = attr
		p.above()
	}
	if name.Method == "" {
		name.Func = target
	}
	return &ast.FuncDefStmt{Name: name, Func: p.funcBody(name.Method != "", line)}
}

func (p *parser) localFunc(line int) ast.Stmt {
	name := p.name()
	p.declare(name)
	return &ast.LocalAssignStmt{Names: []string{name}, Exprs: []ast.Expr{p.funcBody(false, line)}}
}

func (p *parser) localStmt() ast.Stmt {
	names := []string{p.name()}
	for p.accept(',') {
		names = append(names, p.name())
	}
	p.limit(len(p.fn.locals)+len(names), maxLocals, "local variables")
	s := &ast.LocalAssignStmt{Names: names, Exprs: []ast.Expr{}}
	if p.accept('=') {
		s.Exprs = p.exprList()
		// gopher-lua takes a lone function here for a recursive `local function`, whose name its body can see.
		// Parentheses in the tree would vanish; `nil or f` keeps the value and the scope apart.
		if f, ok := s.Exprs[0].(*ast.FunctionExpr); ok && len(names) == 1 && len(s.Exprs) == 1 {
			s.Exprs[0] = notRecursive(f)
		}
	}
	p.declare(names...)
	return s
}

func notRecursive(f *ast.FunctionExpr) ast.Expr {
	e := &ast.LogicalOpExpr{Operator: "or", Lhs: &ast.NilExpr{}, Rhs: f}
	e.SetLine(f.Line())
	e.Lhs.SetLine(f.Line())
	return e
}

func (p *parser) returnStmt() ast.Stmt {
	p.lx.next()
	s := &ast.ReturnStmt{}
	if !p.blockEnds() && p.lx.tok.kind != ';' {
		s.Exprs = p.exprList()
	}
	return s
}

func (p *parser) exprStmt() ast.Stmt {
	line := p.lx.line
	e := p.primary()
	if call, ok := e.expr.(*ast.FuncCallExpr); ok && !e.parens {
		s := &ast.FuncCallStmt{Expr: call}
		s.SetLine(line)
		return s
	}
	targets := []ast.Expr{p.target(e)}
	for p.accept(',') {
		targets = append(targets, p.target(p.primary()))
		// The reference implementation recurses for each target.
		if len(targets) > maxLevels {
			p.lx.fail("chunk has too many C levels", "")
		}
	}
	p.expect('=')
	values := p.exprList()
	for _, t := range targets {
		t.SetLine(p.lx.lastLine)
	}
	if _, logical := values[0].(*ast.LogicalOpExpr); logical || len(targets) > 1 {
		return multiple(targets, values, line)
	}
	s := &ast.AssignStmt{Lhs: targets, Rhs: values}
	s.SetLine(line)
	return s
}

// multiple spells an assignment to one or several targets out with temporary variables, because gopher-lua stores a value
// before it has read the others: `a, b = b, a` would give both the value of b. And `a = f() and b` would leave a local variable as
// it was, where f returns nil or false. The reference implementation evaluates
// the tables and keys on the left, then the right side, then stores from right to left.
func multiple(targets, values []ast.Expr, line int) ast.Stmt {
	left := &ast.LocalAssignStmt{}
	right := &ast.LocalAssignStmt{Exprs: values}
	temporary := func(s *ast.LocalAssignStmt, kind string, e ast.Expr) ast.Expr {
		name := fmt.Sprintf("(%s %d)", kind, len(s.Names)+1)
		s.Names = append(s.Names, name)
		if e != nil {
			s.Exprs = append(s.Exprs, e)
		}
		use := &ast.IdentExpr{Value: name}
		use.SetLine(line)
		return use
	}
	var stores []ast.Stmt
	for _, t := range targets {
		if attr, ok := t.(*ast.AttrGetExpr); ok {
			attr.Object = temporary(left, "table", attr.Object)
			if _, constant := attr.Key.(ast.ConstExpr); !constant {
				attr.Key = temporary(left, "table", attr.Key)
			}
		}
		store := &ast.AssignStmt{Lhs: []ast.Expr{t}, Rhs: []ast.Expr{temporary(right, "value", nil)}}
		store.SetLine(t.Line())
		stores = append([]ast.Stmt{store}, stores...)
	}
	block := &ast.IfStmt{Condition: compared(true, line)}
	if len(left.Names) > 0 {
		left.SetLine(line)
		block.Then = append(block.Then, left)
	}
	right.SetLine(line)
	block.Then = append(append(block.Then, right), stores...)
	block.SetLine(line)
	return block
}

// target checks that the expression can be assigned to. The check comes before the sign of assignment is looked for,
// as in the reference implementation, so a lone name misses its sign and a lone constant is a syntax error.
func (p *parser) target(e primaryExpr) ast.Expr {
	if !e.parens {
		switch x := e.expr.(type) {
		case *ast.IdentExpr:
			if name, ok := Global(x.Value); ok {
				x.Value = name // it is written to, which the table of globals refuses
			}
			return x
		case *ast.AttrGetExpr:
			return x
		}
	}
	p.lx.syntaxError("syntax error")
	return nil
}
