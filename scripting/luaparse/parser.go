// Package luaparse parses Lua 5.1 into a syntax tree.
//
// It follows the reference implementation, whose errors it reports byte for byte, in the order in which that finds them. It keeps its
// limits (200 local variables, 60 upvalues, 200 levels of syntax), and notes the lines that it would note with each instruction.
//
// It knows nothing of Redis, of instructions, or of the script cache. It starts no goroutines and holds no locks.
package luaparse

import (
	"fmt"
	"slices"
)

// Limits of the reference implementation.
const (
	maxLocals   = 200
	maxUpvalues = 60
	maxLevels   = 200
)

// maxHeight bounds the links of a chain: of operators that associate to the left, indexes, and calls. The reference implementation has no
// bound there, but a compiler of the tree recurses for each link, and Go ends a process whose stack is too deep.
const maxHeight = 10_000

// function is what the parser knows of a function while it reads it.
type function struct {
	tree  *Function
	outer *function
	// locals are the variables that are seen at this place, and behind them those that will be when their declaration ends.
	locals []*Local
	seen   int
	loops  int
}

type parser struct {
	lx     *lexer
	fn     *function
	levels int
	height int // of the highest chain in what was read of the statement or operand
}

// Parse parses a chunk, which is a function that takes any arguments. chunkname is what messages call it, levels how many levels of syntax are
// taken already: those of the functions in C that the reference implementation runs it within. An error is an *Error.
func Parse(src, chunkname string, levels int) (main *Function, err error) {
	main = &Function{Vararg: true}
	p := &parser{lx: newLexer(src, chunkname), fn: &function{tree: main}, levels: levels}
	defer func() {
		if r := recover(); r != nil {
			syntax, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			main, err = nil, syntax
		}
	}()
	p.lx.next()
	main.Body = p.block()
	p.check(tkEOS)
	main.LastLine = p.lx.line
	return main, nil
}

func (p *parser) enter() {
	p.levels++
	if p.levels > maxLevels {
		p.lx.fail("chunk has too many syntax levels", "")
	}
}

func (p *parser) leave() { p.levels-- }

// above counts one more link of a chain: an operator, index or call over what was read before it.
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

func (p *parser) limit(f *function, n, most int, what string) {
	if n <= most {
		return
	}
	if f.tree.Line == 0 {
		p.lx.fail(fmt.Sprintf("main function has more than %d %s", most, what), "")
	}
	p.lx.fail(fmt.Sprintf("function at line %d has more than %d %s", f.tree.Line, most, what), "")
}

// declare adds a local variable, which nobody sees before reveal.
func (p *parser) declare(name string) *Local {
	p.limit(p.fn, len(p.fn.locals)+1, maxLocals, "local variables")
	local := &Local{Name: name}
	p.fn.locals = append(p.fn.locals, local)
	return local
}

// hide adds the variables that hold the state of a loop, which no script can name. They count as local variables.
func (p *parser) hide(names ...string) {
	for _, name := range names {
		p.declare(name)
	}
}

func (p *parser) reveal() { p.fn.seen = len(p.fn.locals) }

// resolve finds the local variable that f knows by a name, and makes it an upvalue of each function between; nil means a global one.
func (p *parser) resolve(f *function, name string) *Local {
	if f == nil {
		return nil
	}
	for i := f.seen - 1; i >= 0; i-- {
		if f.locals[i].Name == name {
			return f.locals[i]
		}
	}
	local := p.resolve(f.outer, name)
	if local == nil || slices.Contains(f.tree.Upvalues, local) {
		return local
	}
	p.limit(f, len(f.tree.Upvalues)+1, maxUpvalues, "upvalues")
	f.tree.Upvalues = append(f.tree.Upvalues, local)
	local.Captured = true
	return local
}

// variable reads a name.
func (p *parser) variable() *Name {
	name := p.name()
	return &Name{Name: name, Local: p.resolve(p.fn, name)}
}

// scoped runs read and forgets the local variables that it declared.
func (p *parser) scoped(read func()) {
	mark := len(p.fn.locals)
	read()
	p.fn.locals = p.fn.locals[:mark]
	p.fn.seen = mark
}

// body reads a block, which is the scope of its variables.
func (p *parser) body() (stmts []Stmt) {
	p.scoped(func() { stmts = p.block() })
	return stmts
}

func (p *parser) blockEnds() bool {
	switch p.lx.tok.kind {
	case tkElse, tkElseif, tkEnd, tkEOS, tkUntil:
		return true
	}
	return false
}

// block reads statements up to the word that ends them. Their variables are still known behind it.
func (p *parser) block() (stmts []Stmt) {
	p.enter()
	defer p.leave()
	for last := false; !last && !p.blockEnds(); {
		var stmt Stmt
		height := p.height
		p.height = 0
		stmt, last = p.statement()
		p.beside(height)
		stmts = append(stmts, stmt)
		p.accept(';')
	}
	return stmts
}
