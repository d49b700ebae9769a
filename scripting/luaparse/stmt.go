package luaparse

// statement reads one statement; last says that it must end its block.
func (p *parser) statement() (stmt Stmt, last bool) {
	line := p.lx.line
	switch p.lx.tok.kind {
	case tkIf:
		return p.ifStmt(line), false
	case tkWhile:
		return p.whileStmt(line), false
	case tkDo:
		p.lx.next()
		s := &Do{Body: p.body()}
		p.closing(tkEnd, tkDo, line)
		return s, false
	case tkFor:
		p.scoped(func() { stmt = p.forStmt(line) })
		return stmt, false
	case tkRepeat:
		return p.repeatStmt(line), false
	case tkFunction:
		return p.funcStmt(line), false
	case tkLocal:
		p.lx.next()
		if p.accept(tkFunction) {
			return p.localFunc(line), false
		}
		return p.localStmt(line), false
	case tkReturn:
		return p.returnStmt(line), true
	case tkBreak:
		p.lx.next()
		if p.fn.loops == 0 {
			p.lx.syntaxError("no loop to break")
		}
		return &Break{Line: line}, true
	}
	return p.exprStmt(line), false
}

func (p *parser) ifStmt(line int) Stmt {
	s := &If{Line: line}
	for s.Conditions == nil || p.lx.tok.kind == tkElseif {
		p.lx.next()
		s.Conditions = append(s.Conditions, p.value())
		p.expect(tkThen)
		s.Thens = append(s.Thens, p.body())
	}
	if p.accept(tkElse) {
		s.HasElse, s.Else = true, p.body()
	}
	p.closing(tkEnd, tkIf, line)
	return s
}

// loop reads a loop's body, in which break may stand.
func (p *parser) loop() []Stmt {
	p.fn.loops++
	stmts := p.block()
	p.fn.loops--
	return stmts
}

func (p *parser) whileStmt(line int) Stmt {
	p.lx.next()
	s := &While{Condition: p.value(), Line: line}
	p.expect(tkDo)
	p.scoped(func() { s.Body = p.loop() })
	p.closing(tkEnd, tkWhile, line)
	return s
}

func (p *parser) repeatStmt(line int) Stmt {
	p.lx.next()
	s := &Repeat{}
	p.scoped(func() { // the condition sees the body's variables
		s.Body = p.loop()
		p.closing(tkUntil, tkRepeat, line)
		s.Condition = p.value()
		s.Line = p.lx.lastLine
	})
	return s
}

func (p *parser) forStmt(line int) Stmt {
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

func (p *parser) numericFor(name string, line int) Stmt {
	p.hide("(for index)", "(for limit)", "(for step)")
	s := &NumericFor{Local: p.declare(name), Line: line}
	p.lx.next()
	s.Init = p.value()
	p.expect(',')
	s.Limit = p.value()
	if p.accept(',') {
		s.Step = p.value()
	}
	s.Body, s.DoLine = p.forBody(line)
	return s
}

func (p *parser) genericFor(name string, line int) Stmt {
	p.hide("(for generator)", "(for state)", "(for control)")
	s := &GenericFor{Locals: []*Local{p.declare(name)}}
	for p.accept(',') {
		s.Locals = append(s.Locals, p.declare(p.name()))
	}
	p.expect(tkIn)
	s.Line = p.lx.line
	s.Values = p.values()
	s.Body, _ = p.forBody(line)
	return s
}

// forBody reads the body of a loop, and `do` before it, whose line it answers too.
func (p *parser) forBody(line int) (stmts []Stmt, doLine int) {
	p.expect(tkDo)
	doLine = p.lx.lastLine
	p.reveal()
	stmts = p.loop()
	p.closing(tkEnd, tkFor, line)
	return stmts, doLine
}

func (p *parser) funcStmt(line int) Stmt {
	p.lx.next()
	var target Expr = p.variable()
	method := false
	for !method && (p.lx.tok.kind == '.' || p.lx.tok.kind == ':') {
		method = p.lx.tok.kind == ':'
		p.settle(target)
		p.lx.next()
		target = &Index{Object: target, Key: &Text{p.name()}}
		p.above()
	}
	fn := p.funcBody(method, line)
	return assign([]Expr{target}, []Expr{fn}, line)
}

func (p *parser) localFunc(line int) Stmt {
	s := &DeclareFunction{Local: p.declare(p.name()), Line: line}
	p.reveal()
	s.Function = p.funcBody(false, p.lx.line)
	return s
}

func (p *parser) localStmt(line int) Stmt {
	s := &Declare{Line: line}
	for s.Locals == nil || p.accept(',') {
		s.Locals = append(s.Locals, p.declare(p.name()))
	}
	if p.accept('=') {
		s.Values = p.values()
	}
	p.reveal()
	return s
}

func (p *parser) returnStmt(line int) Stmt {
	p.lx.next()
	s := &Return{Line: line}
	if !p.blockEnds() && p.lx.tok.kind != ';' {
		s.Values = p.values()
	}
	return s
}

func (p *parser) exprStmt(line int) Stmt {
	e, parens := p.primary()
	if call, ok := e.(*Call); ok {
		return &CallStmt{Call: call, Line: line}
	}
	targets := []Expr{p.target(e, parens)}
	for p.accept(',') {
		e, parens = p.primary()
		// The reference implementation recurses for each target.
		p.limit(p.fn, len(targets), maxLevels-p.levels, "variables in assignment")
		targets = append(targets, p.target(e, parens))
	}
	p.expect('=')
	values := p.values()
	return assign(targets, values, p.lx.lastLine)
}

// target checks that the expression can be assigned to. The check comes before the sign of assignment is looked for,
// as in the reference implementation, so a lone name misses its sign and a lone constant is a syntax error.
func (p *parser) target(e Expr, parens bool) Expr {
	switch e.(type) {
	case *Name, *Index:
		if !parens {
			return e
		}
	}
	p.lx.syntaxError("syntax error")
	return nil
}

func assign(targets, values []Expr, line int) Stmt {
	for _, target := range targets {
		switch t := target.(type) {
		case *Name:
			t.Line = line
		case *Index:
			t.Line = line
		}
	}
	return &Assign{Targets: targets, Values: values, Line: line}
}
