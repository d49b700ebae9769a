// Package luaparse parses Lua 5.1 into the syntax tree that gopher-lua compiles.
//
// It exists because scripts must see Redis' Lua: gopher-lua's own parser reports errors in other words, reserves
// `goto`, reads "010" as eight, and offers no place to hook operators in. This parser reports the reference
// implementation's errors byte for byte, keeps its limits (200 local variables, 60 upvalues, 200 levels of syntax), and
// rewrites what the virtual machine does differently into calls of hidden helpers, see Helper.
//
// It knows nothing of Redis, of states or of the script cache. It starts no goroutines and holds no locks.
package luaparse

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// Helper names a hidden value, mostly a function, which a rewritten chunk receives as an argument. The names contain
// parentheses, so that no script can spell them.
type Helper string

const (
	// Concat joins its operands; the virtual machine's own operator would print numbers with 17 digits.
	Concat Helper = "(concat)"
	// ForInit, ForLimit and ForStep turn the bounds of a numeric loop into numbers; the virtual machine refuses strings.
	ForInit  Helper = "(forinit)"
	ForLimit Helper = "(forlimit)"
	ForStep  Helper = "(forstep)"
	// Nothing returns no values. It stands for `...` in a main chunk, whose real arguments are the helpers.
	Nothing Helper = "(nothing)"
	// Plus and the like are operators: the virtual machine knows no negative zero, and its `%` rounds otherwise.
	Plus   Helper = "(+)"
	Less   Helper = "(-)"
	Times  Helper = "(*)"
	Over   Helper = "(/)"
	Modulo Helper = "(%)"
	Power  Helper = "(^)"
	Minus  Helper = "(minus)"
	// Call, PCall, Keys and Argv are redis.call, redis.pcall, KEYS and ARGV where these are the global ones, which never
	// change while a script runs. Looking them up each time would take longer than half of what redis.call does besides.
	Call  Helper = "(call)"
	PCall Helper = "(pcall)"
	Keys  Helper = "(KEYS)"
	Argv  Helper = "(ARGV)"
)

// Global answers the name of the global variable that a hidden local variable stands for.
func Global(local string) (name string, ok bool) {
	switch Helper(local) {
	case Keys, Argv:
		return local[1 : len(local)-1], true
	}
	return "", false
}

// Limits of the reference implementation.
const (
	maxLocals   = 200
	maxUpvalues = 60
	maxLevels   = 199
)

// maxConstants bounds a function's distinct constants. The reference implementation allows 262,144, but gopher-lua's
// compiler looks each one up by reading all others: that many would keep it busy for minutes.
const maxConstants = 8192

// maxHeight bounds the links of a chain: of operators that associate to the left, indexes, calls, and elseif. The reference
// implementation has no bound there, but gopher-lua's compiler recurses for each link, and Go ends a process whose stack is too deep.
const maxHeight = 10_000

// Chunk is a parsed chunk. Called with the helpers as arguments it runs the script; or, when parsed as a function,
// it returns the script as a function.
type Chunk struct {
	Stmts   []ast.Stmt
	Helpers []Helper
}

// Script parses a script: a chunk that runs when it is called with its helpers, in a world with KEYS, ARGV and redis.call.
func Script(src, chunkname string) (Chunk, error) { return run(&parser{script: true}, src, chunkname) }

// Main parses a chunk that runs when it is called with its helpers, in any other world.
func Main(src, chunkname string) (Chunk, error) { return run(&parser{}, src, chunkname) }

func run(p *parser, src, chunkname string) (Chunk, error) {
	stmts, err := p.parse(src, chunkname, true)
	if err != nil {
		return Chunk{}, err
	}
	return Chunk{Stmts: append(p.prologue(), stmts...), Helpers: p.helpers}, nil
}

// Function parses a chunk that, called with its helpers, returns the chunk as a variadic function.
func Function(src, chunkname string) (Chunk, error) {
	var p parser
	stmts, err := p.parse(src, chunkname, false)
	if err != nil {
		return Chunk{}, err
	}
	fn := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: stmts}
	fn.SetLine(0)
	fn.SetLastLine(p.lx.line)
	ret := &ast.ReturnStmt{Exprs: []ast.Expr{fn}}
	return Chunk{Stmts: append(p.prologue(), ret), Helpers: p.helpers}, nil
}

// function is what the parser knows of a function while it reads it.
type function struct {
	outer    *function
	line     int
	vararg   bool
	main     bool
	locals   []string
	upvalues map[string]struct{}
	// constants are the function's distinct constants, numbers as they are spelled.
	constants map[string]struct{}
	loops     int
}

type parser struct {
	lx      *lexer
	fn      *function
	levels  int
	height  int  // of the highest chain in what was read of the statement or operand
	script  bool // it is a script, with what Call, PCall, Keys and Argv stand for
	helpers []Helper
	redis   *ast.IdentExpr // where a script last read the global variable of that name
	needs   map[ast.Expr]int
}

func (p *parser) parse(src, chunkname string, main bool) (stmts []ast.Stmt, err error) {
	p.lx, p.needs = newLexer(src, chunkname), map[ast.Expr]int{}
	defer func() {
		if r := recover(); r != nil {
			syntax, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = syntax
		}
	}()
	p.fn = &function{vararg: true, main: main}
	p.lx.next()
	stmts = p.block()
	p.check(tkEOS)
	return stmts, nil
}

// prologue binds the helpers that the chunk uses to hidden local variables.
func (p *parser) prologue() []ast.Stmt {
	if len(p.helpers) == 0 {
		return nil
	}
	names := make([]string, len(p.helpers))
	for i, h := range p.helpers {
		names[i] = string(h)
	}
	bind := &ast.LocalAssignStmt{Names: names, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	return []ast.Stmt{bind}
}

// hidden makes an expression for a helper.
func (p *parser) hidden(h Helper, line int) *ast.IdentExpr {
	if !slices.Contains(p.helpers, h) {
		p.helpers = append(p.helpers, h)
	}
	e := &ast.IdentExpr{Value: string(h)}
	e.SetLine(line)
	return e
}

// helper builds a call of a helper that yields one value (or none, for Nothing).
func (p *parser) helper(h Helper, line int, args ...ast.Expr) *ast.FuncCallExpr {
	for _, arg := range args {
		single(arg)
	}
	call := &ast.FuncCallExpr{Func: p.hidden(h, line), Args: args, AdjustRet: h != Nothing}
	call.SetLine(line)
	return call
}

// single cuts an expression with many values to its first.
func single(e ast.Expr) ast.Expr {
	switch x := e.(type) {
	case *ast.FuncCallExpr:
		x.AdjustRet = true
	case *ast.Comma3Expr:
		x.AdjustRet = true
	}
	return e
}

func (p *parser) enter() {
	p.levels++
	if p.levels > maxLevels {
		p.lx.fail("chunk has too many syntax levels", "")
	}
}

func (p *parser) leave() { p.levels-- }

// above counts one more link of a chain: an operator, index, call or elseif over what was read before it.
func (p *parser) above() {
	p.height++
	if p.height > maxHeight {
		p.lx.fail("chunk has too many syntax levels", "")
	}
}

// beside ends an operand or a statement that stands beside what had the given height.
func (p *parser) beside(height int) { p.height = max(p.height, height) }

func (p *parser) check(k tokenKind) {
	if p.lx.tok.kind != k {
		p.lx.syntaxError("'" + k.String() + "' expected")
	}
}

func (p *parser) accept(k tokenKind) bool {
	if p.lx.tok.kind == k {
		p.lx.next()
		return true
	}
	return false
}

func (p *parser) expect(k tokenKind) {
	p.check(k)
	p.lx.next()
}

func (p *parser) closing(what, who tokenKind, line int) {
	if p.accept(what) {
		return
	}
	if line == p.lx.line {
		p.lx.syntaxError("'" + what.String() + "' expected")
	}
	p.lx.syntaxError(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", what, who, line))
}

func (p *parser) name() string {
	p.check(tkName)
	s := p.lx.tok.str
	p.lx.next()
	return s
}

// declare adds local variables to the scope; pending ones count towards the limit though nobody sees them yet.
func (p *parser) declare(names ...string) {
	p.limit(len(p.fn.locals)+len(names), maxLocals, "local variables")
	p.fn.locals = append(p.fn.locals, names...)
}

func (p *parser) limit(n, most int, what string) {
	if n <= most {
		return
	}
	if p.fn.line == 0 {
		p.lx.fail(fmt.Sprintf("main function has more than %d %s", most, what), "")
	}
	p.lx.fail(fmt.Sprintf("function at line %d has more than %d %s", p.fn.line, most, what), "")
}

// resolve notes the upvalues that a use of the name costs, and tells whether it is that of a global variable.
func (p *parser) resolve(name string) (global bool) {
	for f := p.fn; f != nil; f = f.outer {
		for i := len(f.locals) - 1; i >= 0; i-- {
			if f.locals[i] == name {
				for g := p.fn; g != f; g = g.outer {
					p.upvalue(g, name)
				}
				return false
			}
		}
	}
	p.constant(name)
	return true
}

// constant notes a constant of the function: a literal, or the name of a global variable, field or method.
func (p *parser) constant(spelling string) {
	if p.fn.constants == nil {
		p.fn.constants = map[string]struct{}{}
	}
	p.fn.constants[spelling] = struct{}{}
	if len(p.fn.constants) > maxConstants {
		p.lx.fail("constant table overflow", "")
	}
}

func (p *parser) upvalue(f *function, name string) {
	if f.upvalues == nil {
		f.upvalues = map[string]struct{}{}
	}
	f.upvalues[name] = struct{}{}
	current := p.fn
	p.fn = f
	p.limit(len(f.upvalues), maxUpvalues, "upvalues")
	p.fn = current
}

// scoped runs read and forgets the local variables that it declared.
func (p *parser) scoped(read func()) {
	mark := len(p.fn.locals)
	read()
	p.fn.locals = p.fn.locals[:mark]
}

func (p *parser) body(read func()) (stmts []ast.Stmt) {
	p.scoped(func() {
		if read != nil {
			read()
		}
		stmts = p.block()
	})
	return stmts
}

func (p *parser) blockEnds() bool {
	switch p.lx.tok.kind {
	case tkElse, tkElseif, tkEnd, tkEOS, tkUntil:
		return true
	}
	return false
}

func (p *parser) block() []ast.Stmt {
	stmts := []ast.Stmt{}
	p.enter()
	defer p.leave()
	for last := false; !last && !p.blockEnds(); {
		var stmt ast.Stmt
		height := p.height
		p.height = 0
		stmt, last = p.statement()
		p.beside(height)
		stmts = append(stmts, stmt)
		p.accept(';')
	}
	return closed(stmts)
}

// number makes a number expression that gopher-lua's compiler reads back exactly.
func number(value float64, line int) ast.Expr {
	text := strconv.FormatFloat(value, 'g', -1, 64)
	if text == "-0" {
		text = "-0.0" // the compiler would take it for an integer
	}
	e := &ast.NumberExpr{Value: text}
	e.SetLine(line)
	return e
}

func (p *parser) text(value string, line int) ast.Expr {
	p.constant(value)
	e := &ast.StringExpr{Value: value}
	e.SetLine(line)
	return e
}
