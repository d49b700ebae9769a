package lua

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listing writes what a function is, one line for each instruction, and its functions behind it. Constants are written as what they
// are: those of conditions that the parser has decided are in no table, other than in the reference implementation.
func listing(p *Proto) string {
	var b strings.Builder
	fmt.Fprintf(&b, "function %d params %d registers %d vararg %t arg %t upvalues %q\n",
		p.line, p.params, p.registers, p.vararg, p.needsArg, p.upvalues)
	for pc, i := range p.code {
		fmt.Fprintf(&b, "%d %s %d %s %s", pc, opNames[i.op], i.a, p.operandText(i.op, 'B', int(i.b)), p.operandText(i.op, 'C', int(i.c)))
		if mayFail(i.op) {
			fmt.Fprintf(&b, " line %d", p.lines[pc])
		}
		b.WriteString("\n")
	}
	for _, l := range p.locals {
		fmt.Fprintf(&b, "local %s %d %d\n", l.name, l.start, l.end)
	}
	for _, inner := range p.protos {
		b.WriteString(listing(inner))
	}
	return b.String()
}

// operandText writes an operand, one that is a constant as its value.
func (p *Proto) operandText(op opcode, which byte, n int) string {
	k := n
	switch op {
	case opLoadK, opGetGlobal, opSetGlobal:
		if which == 'C' {
			k = -1
		}
	case opGetField, opSelf:
		if which == 'B' {
			k = -1
		}
	case opSetField:
		if which == 'C' {
			k -= rkConst
		}
	case opSetTable, opAdd, opSub, opMul, opDiv, opMod, opPow, opEq, opLt, opLe:
		k -= rkConst
	case opGetTable:
		if k -= rkConst; which == 'B' {
			k = -1
		}
	default:
		k = -1
	}
	if k < 0 {
		return strconv.Itoa(n)
	}
	v := p.consts[k]
	if f, ok := v.Float(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if text, ok := v.Text(); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%s(%t)", v.Kind(), v.Truth())
}

var opNames = [...]string{
	"Move", "LoadK", "LoadBool", "LoadNil", "GetUpval", "GetGlobal", "GetTable", "GetField", "SetGlobal", "SetUpval", "SetTable", "SetField",
	"NewTable", "Self", "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Unm", "Not", "Len", "Concat", "Jmp", "Eq", "Lt", "Le", "Test", "TestSet",
	"Call", "TailCall", "Return", "ForLoop", "ForPrep", "TForLoop", "SetList", "Close", "Closure", "Vararg",
}

// mayFail tells whether an instruction can raise an error, so that its line is seen.
func mayFail(op opcode) bool {
	switch op {
	case opMove, opLoadK, opLoadBool, opLoadNil, opGetUpval, opSetUpval, opNewTable, opNot, opJmp, opTest, opTestSet, opReturn, opSetList, opClose,
		opClosure, opVararg:
		return false
	}
	return true
}

// sources are the scripts of the package above.
func sources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	var list []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "\n==\n")
		if len(parts) == 1 {
			parts = strings.Split(string(text), "\n")
		}
		list = append(list, parts...)
	}
	return slices.Concat(list, constructs)
}

// constructs are scripts with what is rare elsewhere.
var constructs = []string{
	"a[i], i = 1, 2 local t, i = {}, 1 i, t[i], t = i + 1, 20, nil t.x, t.y, t = t, t",
	"local a, b, c = f() a, b = b, a a, b, c = 1, 2 a, b = 1, 2, 3 a, b = 1, f(), 3 a, b, c = ... a.b, c = f()",
	"local a <const> = 1",
	"return a and b or c, not a == b, not (a and b), (a or b) and (c or d), a == b or c < d and e",
	"local a = nil and 1 local b = false or nil local c = -(a and nil or 0) return 0, -0, 1/0, 0/0, 2^2^3, -2^2, 'x' and 5",
	"while true do local x f = function() return x end if a then break end end",
	"while true do local x if a then break end f = function() return x end end",
	"repeat local x f = function() return x end until x repeat local y if y then break end until y == a or b",
	"for i = 1, 2 do local function f() return i, f end if f() then break end end for i = a, b, -1 do end",
	"for k, v in pairs(t) do f = function() return k, v end break end for k in a, b, c do local x = k end for k in ... do end",
	"local function f(a, ...) local x = ... return ..., (...), f(...) end function a.b.c:d(...) return self, arg end",
	"return {f(), f()}, {...}, {f(), nil}, {[1] = 2, x = 3; 4, f()}, {{}, {{}}}, {(f())}, {n = f(), ...}",
	"return { " + strings.Repeat("a, ", 50) + "f()}, {" + strings.Repeat("1, ", 120) + "x = 1}, {" + strings.Repeat("x = y, ", 37) + "}",
	"return a .. b .. c, a .. (b .. c), (a .. b) .. c, a .. 1 .. nil, (a .. b) == c .. d",
	"local a local b, c local function f() local d, e = nil d = nil return d, e end local g do local h end local i",
	"f{}:g'x'.y(1)(2)[a.b][c] = d.e.f, #g.h, -i[j][k]",
	"if nil then f() elseif false then g() elseif 1 then h() else i() end while nil do end repeat until nil while 1 do break end",
	"return\nf\n(\na.b\n,\nc\n.d\n)\n+\ng:h(\n1\n)\n..\ni",
	"return (f(1))", "return ...", "return f(), g()", "do return a end", "return", "",
	"return a" + strings.Repeat(" and a", 9000) + strings.Repeat(" or a", 900), "return a" + strings.Repeat(".a + a", 4000),
	"return a" + strings.Repeat(" < a and a or b", 3000), "return a" + strings.Repeat(":a()()[a]", 3000),
	"if a then b() " + strings.Repeat("elseif a or b then c() ", 9000) + "else d() end",
	strings.Repeat("local a ", 200) + "return " + strings.Repeat("a .. ", 40) + "a",
}

// comparable tells whether the code can be that of the reference implementation: beyond 256 constants it must load them first.
func comparable(p *Proto) bool {
	for _, inner := range p.protos {
		if !comparable(inner) {
			return false
		}
	}
	return len(p.consts) <= 256
}

// compareCode compiles source text here and on the server.
func compareCode(t *testing.T, d *dumper, src string) {
	t.Helper()
	want, message := d.compile(src)
	got, err := Compile(src, "@user_script")
	switch {
	case err != nil && err.Error() != message:
		t.Fatalf("%s\ngot error %v\nwant %s", src, err, message)
	case err == nil && want == nil:
		t.Fatalf("%s\nwant error %s", src, message)
	case err == nil && comparable(got):
		if a, b := listing(got), listing(want); a != b {
			t.Fatalf("%s\n%s", src, difference(a, b))
		}
	}
}

// TestListing shows what code is, where there is no server to compare with.
func TestListing(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"local a, b = f() return a and b or 'c'", `
			0 GetGlobal 0 "f" 0 line 1
			1 Call 0 1 3 line 1
			2 Test 0 0 0
			3 Jmp 0 2 0
			4 TestSet 2 1 1
			5 Jmp 0 1 0
			6 LoadK 2 "c" 0
			7 Return 2 2 0
			8 Return 0 1 0
			local a 2 8
			local b 2 8`},
		{"while x > 1 do local y z.k = function() return y end break end", `
			0 GetGlobal 0 "x" 0 line 1
			1 Lt 0 1 0 line 1
			2 Jmp 0 9 0
			3 LoadNil 0 0 0
			4 GetGlobal 1 "z" 0 line 1
			5 Closure 2 0 0
			6 Move 0 0 0
			7 SetField 1 "k" 2 line 1
			8 Close 0 0 0
			9 Jmp 0 2 0
			10 Close 0 0 0
			11 Jmp 0 -12 0
			12 Return 0 1 0
			local y 4 10`},
		{"for i = 1, #t do t[i] = {i, f(i)} end", `
			0 LoadK 0 1 0
			1 GetGlobal 1 "t" 0 line 1
			2 Len 1 1 0 line 1
			3 LoadK 2 1 0
			4 ForPrep 0 8 0 line 1
			5 GetGlobal 4 "t" 0 line 1
			6 NewTable 5 1 0
			7 Move 6 3 0
			8 GetGlobal 7 "f" 0 line 1
			9 Move 8 3 0
			10 Call 7 2 0 line 1
			11 SetList 5 0 1
			12 SetTable 4 3 5 line 1
			13 ForLoop 0 -9 0 line 1
			14 Return 0 1 0
			local (for index) 4 14
			local (for limit) 4 14
			local (for step) 4 14
			local i 5 13`},
	} {
		p, err := Compile(test.src, "@user_script")
		if err != nil {
			t.Fatal(err)
		}
		p.protos = nil
		_, got, _ := strings.Cut(listing(p), "\n")
		if want := strings.TrimPrefix(strings.ReplaceAll(test.want, "\t", ""), "\n") + "\n"; got != want {
			t.Errorf("%s\n%s", test.src, difference(got, want))
		}
	}
}

// TestCompileAsRedis compiles the scripts of all tests here and on the server.
func TestCompileAsRedis(t *testing.T) {
	d := newDumper(t)
	for _, src := range sources(t) {
		compareCode(t, d, src)
	}
}

// TestRandomCodeAsRedis does the same with random programs.
func TestRandomCodeAsRedis(t *testing.T) {
	d := newDumper(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(1500) {
		compareCode(t, d, randomProgram(seed, i))
	}
}

// TestTooLarge compares what is said of functions that are too large.
func TestTooLarge(t *testing.T) {
	d := newDumper(t)
	constants := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "x=%d ", i)
		}
		return b.String()
	}
	for _, test := range []struct{ fits, more, message string }{
		{"return f(" + strings.Repeat("1, ", 247) + "1)", "return f(" + strings.Repeat("1, ", 248) + "1)",
			"user_script:1: function or expression too complex"},
		{"return " + strings.Repeat("1, ", 248) + "1", "\nreturn " + strings.Repeat("1, ", 249) + "1",
			"user_script:2: function or expression too complex"},
		{strings.Repeat("do local a end ", maxVariables), strings.Repeat("do local a end ", maxVariables+1), "too many local variables"},
		{constants(maxConstants - 1), constants(maxConstants), "constant table overflow"},
	} {
		if _, err := Compile(test.fits, "@user_script"); err != nil {
			t.Errorf("%.40s: %v", test.fits, err)
		}
		if _, err := Compile(test.more, "@user_script"); err == nil || err.Error() != test.message {
			t.Errorf("%.40s: got %v, want %s", test.more, err, test.message)
		}
		const load = "local f, e = loadstring(ARGV[1], '@user_script') return f and '' or type(e) == 'table' and e.err or e"
		if got, _ := d.eval(load, test.fits); got != "" {
			t.Errorf("redis-server, %.40s: %s", test.fits, got)
		}
		if got, _ := d.eval(load, test.more); !strings.HasPrefix(strings.TrimPrefix(got, "ERR "), test.message) {
			t.Errorf("redis-server, %.40s: %s, want %s", test.more, got, test.message)
		}
	}
}

// TestCodeIsSound checks what the machine relies on, of scripts and random programs.
func TestCodeIsSound(t *testing.T) {
	list := sources(t)
	for i := range uint64(200) {
		list = append(list, randomProgram(1, i))
	}
	for _, src := range list {
		if p, err := Compile(src, "@user_script"); err == nil {
			checkSound(t, src, p)
		}
	}
}

// checkSound checks the code of a function and of those in it.
func checkSound(t *testing.T, src string, p *Proto) {
	t.Helper()
	if len(p.lines) != len(p.code) || len(p.hashes) != len(p.consts) || p.code[len(p.code)-1].op != opReturn || p.registers > maxRegisters {
		t.Fatalf("%s\n%s", src, listing(p))
	}
	for k, v := range p.consts {
		if s, ok := v.Text(); ok && p.hashes[k] != hashText(s) {
			t.Fatalf("%s\nhash of constant %q", src, s)
		}
	}
	for pc := 0; pc < len(p.code); pc++ {
		i := p.code[pc]
		if !p.soundAt(pc) {
			t.Fatalf("%s\nat %d of\n%s", src, pc, listing(p))
		}
		switch {
		case i.op == opClosure:
			pc += len(p.protos[i.b].upvalues)
		case i.op == opSetList && i.c == 0:
			pc++
		}
	}
	for _, l := range p.locals {
		if l.start > l.end || int(l.end) >= len(p.code) {
			t.Fatalf("%s\nlocal %s of\n%s", src, l.name, listing(p))
		}
	}
	for _, inner := range p.protos {
		checkSound(t, src, inner)
	}
}

// soundAt checks the operands of an instruction.
func (p *Proto) soundAt(pc int) bool {
	i := p.code[pc]
	a, b, c := int(i.a), int(i.b), int(i.c)
	register := func(n int) bool { return n >= 0 && n < p.registers }
	rk := func(n int) bool { return register(n) || n >= rkConst && n-rkConst < len(p.consts) }
	text := func(k int) bool { return k >= 0 && k < len(p.consts) && p.consts[k].isString() }
	target := func() bool { return pc+1+b >= 0 && pc+1+b < len(p.code) }
	decides := p.code[min(pc+1, len(p.code)-1)].op == opJmp
	switch i.op {
	case opLoadK:
		return register(a) && b < len(p.consts)
	case opGetUpval, opSetUpval:
		return register(a) && b < len(p.upvalues)
	case opGetGlobal, opSetGlobal:
		return register(a) && text(b)
	case opGetTable:
		return register(a) && register(b) && rk(c)
	case opGetField:
		return register(a) && register(b) && text(c)
	case opSetTable:
		return register(a) && rk(b) && rk(c)
	case opSetField:
		return register(a) && text(b) && rk(c)
	case opSelf:
		return register(a+1) && register(b) && text(c)
	case opAdd, opSub, opMul, opDiv, opMod, opPow:
		return register(a) && rk(b) && rk(c)
	case opMove, opUnm, opNot, opLen, opLoadNil:
		return register(a) && register(b)
	case opConcat:
		return register(a) && register(b) && register(c) && b < c
	case opJmp:
		return target()
	case opForLoop, opForPrep:
		return register(a+3) && target()
	case opEq, opLt, opLe:
		return rk(b) && rk(c) && decides
	case opTest:
		return register(a) && decides
	case opTestSet:
		return register(a) && register(b) && decides
	case opCall, opTailCall:
		return register(a) && register(max(a+b-1, 0))
	case opReturn:
		return b <= 1 || register(a+b-2)
	case opTForLoop:
		return register(a+5) && register(a+2+c) && decides
	case opSetList:
		return register(a + b)
	case opClosure:
		return register(a) && b < len(p.protos) && pc+len(p.protos[b].upvalues) < len(p.code)
	}
	return register(a)
}

// TestRunAsRedis runs programs here and on the server.
func TestRunAsRedis(t *testing.T) {
	d := newDumper(t)
	var many strings.Builder // constants, beyond maxRK
	many.WriteString("local x, o = 0, {}")
	for i := range maxRK {
		fmt.Fprintf(&many, " x = %d", i)
	}
	many.WriteString(" function o:m(k) return self == o and k end return '' .. o:m(5) .. ({y = -7}).y .. -8 - x .. (o['z'] or 'none')")
	for _, src := range []string{
		"local t = {} for i = 1, 130 do t[i] = i end local u = {" + strings.Repeat("1, ", 130) + "} return #t .. ' ' .. #u",
		"local s = '' for i = 10, 1, -3 do s = s .. i .. ' ' end return s",
		"local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return '' .. fib(15)",
		"local fs = {} for i = 1, 3 do local x = i * 2 fs[i] = function() x = x + i return x end end return fs[1]() .. fs[1]() .. fs[2]() .. fs[3]()",
		"local function f(...) local a, b = ... return (a or 'x') .. (b or 'y') .. #{...} end return f() .. f(1) .. f(1, 2, 3)",
		"local function it(t, i) i = i + 1 if i <= #t then return i, t[i] end end " +
			"local s = '' for i, v in it, {4, 5, 6}, 0 do s = s .. i .. v end return s",
		"local i, t = 1, {} i, t[i] = i + 1, 20 return i .. t[1]",
		"local a, b, c = 1, 2 a, b, c = b, a return a .. b .. (c == nil and 'nil' or c)",
		"local n, s = 0, '' repeat local m = n n = n + 1 local f = function() return m end s = s .. f() until m == 4 return s",
		"local o = {n = 1} function o:add(k) self.n = self.n + k return self end return '' .. o:add(2):add(3).n",
		"local s = '' for _, v in next, {nil, false, 0, ''} do s = s .. (v and 'y' or not v and 'n') .. (v == 0 and 1 or 2) end return s",
		"local function f(n) if n == 0 then return 'done' end return f(n - 1) end return f(30000)",
		"local i = 0 while true do i = i + 1 if i > 5 and i % 2 == 0 or i > 100 then break end end return '' .. i",
		"local t = {[1] = 'a', x = 'b', 'c', 'd'; 'e', n = {m = {'f'}}} return t[1] .. t[2] .. t[3] .. t.x .. t.n.m[1]",
		many.String(),
		"local function f(a, ...) return arg.n .. a .. arg[1] end return f(1, 2, 3)",
	} {
		want, _ := d.eval(src, "")
		p, err := Compile(src, "@user_script")
		if err != nil {
			t.Fatal(err)
		}
		rt := NewRuntime(func(l *Thread) { l.Runtime().Budget = 1 << 30 })
		rt.Reserve = func(*Thread, int) {}
		globals := NewTable(0, 1)
		globals.SetText("next", NewFunction(func(l *Thread) int {
			k, v, _ := l.Arg(1).Table().Next(l.Arg(2))
			l.Push(k)
			l.Push(v)
			return 2
		}).Value())
		l := rt.Main()
		l.Push(NewClosure(p, globals).Value())
		if err := l.PCall(0, 1); err != nil {
			t.Errorf("%s\n%v", src, err)
		} else if got, _ := l.Pop().Text(); got != want {
			t.Errorf("%s\ngot %s, want %s", src, got, want)
		}
	}
}

func randomProgram(seed, i uint64) string {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, i))}
	w.block(1 + int(i%5))
	return w.String()
}

// difference writes two listings from the first line on in which they differ.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return fmt.Sprintf("line %d, got\n%s\nwant\n%s", n, strings.Join(a[n:min(len(a), n+10)], "\n"), strings.Join(b[n:min(n+10, len(b))], "\n"))
}

// writer writes random programs, which need not make sense when they run.
type writer struct {
	*rand.Rand
	strings.Builder
	loops int
}

func (w *writer) pick(list ...string) string { return list[w.IntN(len(list))] }

// add writes text in which $e is an expression, $o one that the parser leaves undecided, $l a list of some, $n a name, $v a variable,
// $c a call, $b a block and $f a function's rest.
func (w *writer) add(text string, depth int) {
	for {
		before, after, found := strings.Cut(text, "$")
		w.WriteString(before)
		if !found {
			return
		}
		switch after[0] {
		case 'e':
			w.expr(depth - 1)
		case 'o':
			w.add(w.pick("$n", "$n.x", "$n[$e]", "$n == $e", "$n < $e", "not $n", "$c", "#$n", "($n and $e)", "not ($n or $e)",
				"{}"), depth-1)
		case 'l':
			w.add(w.pick("$e", "$e, $e", "$e, $e, $e", "$c", "$e, $c", "..."), depth)
		case 'n':
			w.WriteString(w.pick("a", "b", "c", "d", "e"))
		case 'v':
			w.add(w.pick("$n", "$n", "$n.x", "$n[$e]", "$n[$n]", "$c.y", "($e)[$e]"), depth)
		case 'c':
			w.add(w.pick("$n($l)", "$n()", "$v($l)", "$n:m($l)", "$n'text'", "$n{$l}", "$c($e)"), depth-1)
		case 'b':
			w.block(depth - 1)
		case 'f':
			w.function(depth)
		}
		text = after[1:]
	}
}

func (w *writer) expr(depth int) {
	if depth <= 0 {
		w.add(w.pick("$n", "$n", "$n", "nil", "true", "false", "1", "0", "-0", "2.5", "'x'", "'y'", "...", "$n.x", "{}",
			"$n()"), 0)
		return
	}
	w.add(w.pick("$e + $e", "$e - $e", "$e * $e", "$e / $e", "$e % $e", "$e ^ $e", "$e .. $e", "$e == $e", "$e ~= $e", "$e < $e",
		"$e <= $e", "$e > $e", "$e >= $e", "$o and $e", "$o or $e", "$o and $e or $e", "$o or $o and $e", "not $e", "-$e", "#$e", "not ($e)",
		"($e)", "($e)", "-($e)",
		"($o and $e) == $e", "($o or $e).z", "{$l}", "{x = $e, $e, [$e] = $e; $l}", "function$f", "$v", "$c", "($c)",
		"(...)", "$e .. ($e .. $e)", "$e\n+\n$e"), depth)
}

func (w *writer) function(depth int) {
	loops := w.loops
	w.loops = 0
	w.WriteString(w.pick("(...)", "(a, ...)", "(a, b, ...)"))
	w.block(depth - 1)
	w.WriteString(" end")
	w.loops = loops
}

func (w *writer) block(depth int) {
	for range 1 + w.IntN(4) {
		w.WriteString("\n")
		w.statement(depth)
		w.WriteString(";")
	}
	switch n := w.IntN(8); {
	case n == 0:
		w.add(w.pick("return", "return $e", "return $l", "return $c", "return ($c)"), depth)
	case n < 3 && w.loops > 0:
		w.WriteString("break")
	}
	w.WriteString("\n")
}

func (w *writer) statement(depth int) {
	if depth <= 0 {
		w.add(w.pick("local $n", "local $n, $n = $l", "$n = $e", "$v = $e", "$c", "$v, $v = $l", "$n, $n = $n, $n"), 1)
		return
	}
	loop := w.pick("while $e do $b end", "repeat $b until $e", "for $n = $e, $e do $b end", "for $n = $e, $e, $e do $b end",
		"for $n in $e do $b end", "for $n, $n in $l do $b end", "for $n, $n in $c do $b end")
	other := w.pick("local $n = $e", "local $n, $n = $l", "local $n, $n, $n", "$v = $e", "$v, $v = $l", "$v, $v, $v = $l", "$c",
		"local function $n$f", "function $n$f", "function $n.x$f", "function $n.x:y$f", "do $b end", "if $e then $b end",
		"if $e then $b else $b end", "if $e then $b elseif $e then $b else $b end", "if $e then $b elseif $e then $b end")
	if w.IntN(4) > 0 {
		w.add(other, depth)
		return
	}
	w.loops++
	w.add(loop, depth)
	w.loops--
}
