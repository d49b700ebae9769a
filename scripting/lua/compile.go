package lua

import (
	"errors"
	"fmt"

	"codeq/scripting/luaparse"
)

// The compiler makes instructions from the syntax tree in one pass over it, and the same ones that Lua 5.1 makes (lparser.c, lcode.c):
// scripts see which registers and constants there are, in which order operands are evaluated, and between which instructions
// a variable has its name, be it only in error messages. compile_redis_test.go compares with the code that a server makes.
//
// What an expression's value is, and where, is a description until somebody needs it: a constant, a local variable, an instruction
// whose register is not chosen yet, a condition that jumps. See result in compile_result.go, and jumps in compile_jump.go.
// compile_expr.go and compile_stmt.go go through the tree.

// Limits of the reference implementation.
const (
	maxConstants = 1<<18 - 1 // of a function, and as many functions in it
	maxVariables = 1<<15 - 1 // local ones that a function has, of which maxLocals of package luaparse can be in scope at once
)

var (
	errConstants = errors.New("constant table overflow")
	errVariables = errors.New("too many local variables")
)

// Compile compiles source text to a main chunk. chunkname is where it comes from, as lua_load has it: "@file", "=name", or a text. An
// error is a *luaparse.Error, or says what is too large for a function.
func Compile(src, chunkname string) (*Proto, error) { return compile(src, chunkname, 0) }

// Compile compiles as functions that the thread runs do, within which fewer levels of syntax are left.
func (l *Thread) Compile(src, chunkname string) (*Proto, error) {
	return compile(src, chunkname, l.rt.nested)
}

func compile(src, chunkname string, levels int) (p *Proto, err error) {
	id := ChunkID(chunkname)
	tree, err := luaparse.Parse(src, id, levels)
	if err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooLarge:
			err = r.error
		default:
			panic(r)
		}
	}()
	ch := &chunk{source: chunkname, id: id, texts: map[string]Value{}}
	return ch.function(tree), nil
}

// tooLarge is thrown, to be caught by Compile, when the tree is more than a function can hold.
type tooLarge struct{ error }

// chunk is what the functions of a chunk share.
type chunk struct {
	source string
	id     string           // the source, as messages tell it
	texts  map[string]Value // the constants that are strings, so that equal ones have the same bytes and are quickly compared
}

// coder makes the code of one function.
type coder struct {
	*chunk
	fn       *luaparse.Function
	proto    *Proto
	block    *block
	line     int        // of what is being compiled
	active   []variable // the local variables in scope; each one is in the register of its index
	free     int        // the first register that is free
	label    int        // the last instruction that is known to be the target of a jump
	pending  jumps      // those that lead to the next instruction
	texts    map[string]int
	numbers  map[float64]int // 0 and -0 are one key, as in the reference implementation
	literals [3]int          // the constants nil, false and true, plus one
}

// variable is a local variable in scope.
type variable struct {
	local *luaparse.Local // nil if it is a loop's hidden one
	info  int             // in the prototype's locals
}

// function compiles a function of the chunk.
func (ch *chunk) function(fn *luaparse.Function) *Proto {
	c := &coder{
		chunk: ch, fn: fn, line: max(fn.Line, 1), label: -1,
		proto: &Proto{
			source: ch.source, line: fn.Line, params: len(fn.Params), registers: 2, vararg: fn.Vararg, needsArg: fn.NeedsArg,
			upvalues: make([]string, len(fn.Upvalues)),
		},
		texts: map[string]int{}, numbers: map[float64]int{},
	}
	for i, up := range fn.Upvalues {
		c.proto.upvalues[i] = up.Name
	}
	for _, param := range fn.Params {
		c.declare(param)
	}
	if fn.Arg != nil {
		c.declare(fn.Arg)
	}
	c.reserve(len(c.active))
	c.statements(fn.Body)
	c.forget(0)
	c.emit(instr{op: opReturn, b: 1}, fn.LastLine)
	return c.proto
}

// emit adds an instruction and answers where it is. One that cannot fail may come without a line: then it has that of the one before, or
// of the statement that begins with it.
func (c *coder) emit(i instr, line int) int {
	p, pc := c.proto, c.pc()
	c.patch(&c.pending, pc, noRegister, pc)
	if line != 0 {
		c.line = line
	}
	p.code = append(p.code, i)
	p.lines = append(p.lines, int32(c.line))
	return pc
}

// pc is where the next instruction will be.
func (c *coder) pc() int { return len(c.proto.code) }

// at is an instruction.
func (c *coder) at(pc int) *instr { return &c.proto.code[pc] }

// reserve takes registers.
func (c *coder) reserve(n int) {
	c.ensure(n)
	c.free += n
}

// ensure makes sure that there are so many free registers.
func (c *coder) ensure(n int) {
	if c.free+n >= maxRegisters {
		panic(tooLarge{fmt.Errorf("%s:%d: function or expression too complex", c.id, c.line)})
	}
	c.proto.registers = max(c.proto.registers, c.free+n)
}

// release gives a register back, unless it is a variable's, or the operand is a constant. It must be the last one taken.
func (c *coder) release(rk int) {
	if rk < rkConst && rk >= len(c.active) {
		c.free--
	}
}

// declare brings a local variable into scope.
func (c *coder) declare(l *luaparse.Local) { c.declareAs(l, l.Name) }

// hide declares the hidden variables of a loop.
func (c *coder) hide(names ...string) {
	for _, name := range names {
		c.declareAs(nil, name)
	}
}

func (c *coder) declareAs(l *luaparse.Local, name string) {
	if len(c.proto.locals) >= maxVariables {
		panic(tooLarge{errVariables})
	}
	c.active = append(c.active, variable{l, len(c.proto.locals)})
	c.proto.locals = append(c.proto.locals, local{name: name, start: int32(c.pc())})
}

// forget ends the scope of all variables but the first ones.
func (c *coder) forget(kept int) {
	for _, v := range c.active[kept:] {
		c.proto.locals[v.info].end = int32(c.pc())
	}
	c.active = c.active[:kept]
}

// register is that of a variable of this function, -1 if it is none.
func (c *coder) register(l *luaparse.Local) int {
	for i := len(c.active) - 1; i >= 0; i-- {
		if c.active[i].local == l {
			return i
		}
	}
	return -1
}

// upvalue is which upvalue of this function a variable is.
func (c *coder) upvalue(l *luaparse.Local) int {
	for i, up := range c.fn.Upvalues {
		if up == l {
			return i
		}
	}
	panic("lua: the tree has a variable that is out of scope: " + l.Name)
}

// text is the constant of a string.
func (c *coder) text(s string) int {
	k, ok := c.texts[s]
	if !ok {
		v, shared := c.chunk.texts[s]
		if !shared {
			v = String(s)
			c.chunk.texts[s] = v
		}
		k = c.constant(v, hashText(s))
		c.texts[s] = k
	}
	return k
}

// number is the constant of a number.
func (c *coder) number(f float64) int {
	k, ok := c.numbers[f]
	if !ok {
		k = c.constant(Number(f), 0)
		c.numbers[f] = k
	}
	return k
}

// literal is the constant of nil, false or true.
func (c *coder) literal(kind resultKind) int {
	k := &c.literals[kind-isNil]
	if *k == 0 {
		*k = 1 + c.constant([...]Value{Nil, False, True}[kind-isNil], 0)
	}
	return *k - 1
}

func (c *coder) constant(v Value, hash uint32) int {
	p := c.proto
	if len(p.consts) >= maxConstants {
		panic(tooLarge{errConstants})
	}
	p.consts = append(p.consts, v)
	p.hashes = append(p.hashes, hash)
	return len(p.consts) - 1
}

// rounded is a size as the reference implementation tells opNewTable of it: four bits of it, the rest rounded up.
func rounded(size int) int {
	shift := 0
	for ; size >= 16; shift++ {
		size = (size + 1) / 2
	}
	return size << shift
}
