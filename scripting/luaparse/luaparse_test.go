package luaparse

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// check compares what each source shows.
func check(t *testing.T, lines bool, cases [][2]string) {
	t.Helper()
	for _, c := range cases {
		if got := show(c[0], lines); got != c[1] {
			t.Errorf("%.80q\n got %.300s\nwant %.300s", c[0], got, c[1])
		}
	}
}

// TestErrors holds the shapes of errors, all of them as redis-server has them.
func TestErrors(t *testing.T) {
	check(t, false, [][2]string{
		{"x", "c:1: '=' expected near '<eof>'"},
		{"x\x00", "c:1: '=' expected"},
		{"if true then\n\n", "c:3: 'end' expected (to close 'if' at line 1) near '<eof>'"},
		{"if true then else elseif", "c:1: 'end' expected near 'elseif'"},
		{"return 'a", "c:1: unfinished string near '<eof>'"},
		{"return 'a\nb'", "c:1: unfinished string near ''a'"},
		{"return '\\300'", "c:1: escape sequence too large near '''"},
		{"return [==[", "c:1: unfinished long string near '<eof>'"},
		{"return [=x", "c:1: invalid long string delimiter near '[='"},
		{"return 1\n[[\n\nx]]", "c:4: '<eof>' expected near '[[\nx]]'"},
		{"--[[", "c:1: unfinished long comment near '<eof>'"},
		{"return 0xg", "c:1: malformed number near '0xg'"},
		{"return 5..2", "c:1: malformed number near '5..2'"},
		{"break\nx", "c:2: no loop to break near 'x'"},
		{"while true do return function() break end end", "c:1: no loop to break near 'end'"},
		{"while x do end\r\nbreak", "c:2: no loop to break near '<eof>'"},
		{"return 'a\x00b\n'", "c:1: unfinished string near ''a'"},
		{"return 'a\\", "c:1: unfinished string near '<eof>'"},
		{"\x01", "c:1: unexpected symbol near 'char(1)'"},
		{"goto x", "c:1: '=' expected near 'x'"},
		{"f()\n()", "c:2: ambiguous syntax (function call x new statement) near '('"},
		{"x, f() = 1", "c:1: syntax error near '='"},
		{"(x) = 1", "c:1: syntax error near '='"},
		{"(f())", "c:1: syntax error near '<eof>'"},
		{"a:b = 1", "c:1: function arguments expected near '='"},
		{"for a b", "c:1: '=' or 'in' expected near 'b'"},
		{"function f(a,) end", "c:1: <name> or '...' expected near ')'"},
		{"function f(..., a) end", "c:1: ')' expected near ','"},
		{"return function\n(\n)\n", "c:4: 'end' expected (to close 'function' at line 2) near '<eof>'"},
		{"local function\nf\n()\n", "c:4: 'end' expected (to close 'function' at line 3) near '<eof>'"},
		{"function\nf\n()\n", "c:4: 'end' expected (to close 'function' at line 1) near '<eof>'"},
		{"return function() return ... end", "c:1: cannot use '...' outside a vararg function near '...'"},
		{"return {x\n\n=}", "c:3: unexpected symbol near '}'"},
		{"return 1;;", "c:1: '<eof>' expected near ';'"},
	})
}

// TestLimits is just within each limit and just beyond it.
func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	names := func(n int, separator string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("a%d", i)
		}
		return strings.Join(list, separator)
	}
	for _, c := range []struct {
		name  string
		src   func(n int) string
		most  int
		error string
	}{
		{"parentheses", func(n int) string { return "return " + repeat("(", n) + "1" + repeat(")", n) }, 198,
			"c:1: chunk has too many syntax levels"},
		{"blocks", func(n int) string { return repeat("do ", n) + repeat("end ", n) }, 199, "c:1: chunk has too many syntax levels"},
		{"concatenations", func(n int) string { return "return 1" + repeat(" .. 1", n) }, 198, "c:1: chunk has too many syntax levels"},
		{"locals", func(n int) string { return "local " + names(n, "\n,") + "\n= 1" }, 200,
			"c:202: main function has more than 200 local variables"},
		{"parameters", func(n int) string { return "return function(" + names(n, ",") + ") end" }, 200,
			"c:1: function at line 1 has more than 200 local variables"},
		{"self", func(n int) string { return "function f:x(" + names(n, ",") + ") end" }, 199,
			"c:1: function at line 1 has more than 200 local variables"},
		{"arg", func(n int) string { return "function f(" + names(n, ",") + ",...) end" }, 199,
			"c:1: function at line 1 has more than 200 local variables"},
		{"state of a loop", func(n int) string { return "local " + names(n, ",") + "\nfor\ni\n= 1, 2 do end" }, 196,
			"c:4: main function has more than 200 local variables"},
		{"state of an iterator", func(n int) string { return "local " + names(n, ",") + "\nfor k\n, v\nin x do end" }, 195,
			"c:4: main function has more than 200 local variables"},
		{"upvalues", func(n int) string {
			return "local " + names(n, ",") + "\nfunction f()\nfunction g() return " + names(n, "+") + " end end"
		}, 60, "c:3: function at line 2 has more than 60 upvalues"},
		{"targets", func(n int) string { return repeat("a,", n-1) + "a = 1" }, 200,
			"c:1: main function has more than 199 variables in assignment"},
		{"targets in a block", func(n int) string { return "do " + repeat("a,", n-1) + "a = 1 end" }, 199,
			"c:1: main function has more than 198 variables in assignment"},
	} {
		if _, err := Parse(c.src(c.most), "c", 0); err != nil {
			t.Errorf("%s: %d are refused: %v", c.name, c.most, err)
		}
		if _, err := Parse(c.src(c.most+1), "c", 0); err == nil || err.Error() != c.error {
			t.Errorf("%s: %d: %v, want %s", c.name, c.most+1, err, c.error)
		}
	}
	// Blocks that have ended, and variables that were hidden by others, do not count.
	if got := show(repeat("do local "+names(150, ",")+" end ", 3), false); !strings.HasPrefix(got, "do local") {
		t.Error(got)
	}
}

// TestNames checks which variable a name is.
func TestNames(t *testing.T) {
	check(t, false, [][2]string{
		{"x = y", "x = y"},
		{"local x = x x = x", "local x#1 = x; x#1 = x#1"},
		{"local x, x = 1 return x", "local x#1, x#2 = 1; return x#2"},
		{"local x local x = x", "local x#1 = ; local x#2 = x#1"},
		{"local x do local x x = 1 end x = 2", "local x#1 = ; do local x#2 = ; x#2 = 1 end; x#1 = 2"},
		{"repeat local x until x return x", "repeat local x#1 =  until x#1; return x"},
		{"while x do local x end", "while x do local x#1 =  end"},
		{"if x then local x elseif x then else local x end y = x", "if x then local x#1 =  elseif x then  else local x#2 =  end; y = x"},
		{"for x = x, x, x do x() end x()", "for x#1 = x, x, x do x#1() end; x()"},
		{"for x, y in x, y do x(y) end x(y)", "for x#1, y#2 in x, y do x#1(y#2) end; x(y)"},
		{"local function f() f() end", "local f#1* function()[f#1] f#1() end"},
		{"local f = function() f() end", "local f#1 = function()[] f() end"},
		{"function f() f() end", "f = function()[] f() end"},
		{"local a function a.b.c:d(x) return self, x end", `local a#1 = ; a#1["b"]["c"]["d"] = function(self#2, x#3)[] return self#2, x#3 end`},
		{"function a.b(self) self() end return self", `a["b"] = function(self#1)[] self#1() end; return self`},
		{"local x = function(x) return x end", "local x#2 = function(x#1)[] return x#1 end"},
		{"return ...", "return ..."},
		{"return arg", "return arg"},
		{"return function(a, ...) return arg end", "return function(a#1 ... arg#2!)[] return arg#2 end"},
		{"return function(...) return arg, ... end", "return function( ... arg#1)[] return arg#1, ... end"},
		{"return function(...) return function() return arg end end",
			"return function( ... arg#1*!)[] return function()[arg#1] return arg#1 end end"},
		{"return function(...) return function(...) return ... end end",
			"return function( ... arg#1!)[] return function( ... arg#2)[] return ... end end"},
	})
}

// TestUpvalues checks the order of upvalues, and that a function has those of the functions in it.
func TestUpvalues(t *testing.T) {
	check(t, false, [][2]string{
		{"local a, b, c function f() return c, a, c end", "local a#1*, b#2, c#3* = ; f = function()[c#3 a#1] return c#3, a#1, c#3 end"},
		{"local a, b function f() local x = b return function() return a, x, b end end", "local a#1*, b#2* = ; " +
			"f = function()[b#2 a#1] local x#3* = b#2; return function()[a#1 x#3 b#2] return a#1, x#3, b#2 end end"},
		{"local a function f() return function() return function() a = 1 end end end", "local a#1* = ; " +
			"f = function()[a#1] return function()[a#1] return function()[a#1] a#1 = 1 end end end"},
		{"local a function f(a) return a end", "local a#1 = ; f = function(a#2)[] return a#2 end"},
		{"local a function f() a() local a a() end", "local a#1* = ; f = function()[a#1] a#1(); local a#2 = ; a#2() end"},
		{"local a function f() a() end local a function g() a() end", "local a#1* = ; f = function()[a#1] a#1() end; " +
			"local a#2* = ; g = function()[a#2] a#2() end"},
		{"for i = 1, 2 do f(function() return i end) end", "for i#1* = 1, 2 do f(function()[i#1] return i#1 end) end"},
		{"repeat local x until function() return x end", "repeat local x#1* =  until function()[x#1] return x#1 end"},
	})
}

// TestShape checks precedence, and where parentheses matter.
func TestShape(t *testing.T) {
	check(t, false, [][2]string{
		{"return a + b * c ^ d ^ e - f", "return {{a + {b * {c ^ {d ^ e}}}} - f}"},
		{"return -a ^ b, not a == b, #a .. b", "return {- {a ^ b}}, {{not a} == b}, {{# a} .. b}"},
		{"return a or b and c < d .. e", "return {a or {b and {c < {d .. e}}}}"},
		{"return a > b, a >= b, a <= b, a ~= b, a % b / c", "return {a > b}, {a >= b}, {a <= b}, {a ~= b}, {{a % b} / c}"},
		{"return a .. b .. c .. d", "return {a .. b .. c .. d}"},
		{"return a .. (b .. c), (a .. b) .. c", "return {a .. b .. c}, {{a .. b} .. c}"},
		{"return (a), (a.b), (f()), ((...))", `return a, a["b"], (f()), (...)`},
		{"return {f(), (f()), x = f(), [y] = 1; ...}", `return [f(), (f()), "x" = f(), y = 1, ...]`},
		{"(a).b = (a)(b)", `a["b"] = a(b)`},
		{"a.b[c]:d 'x' {} (y)", `a["b"][c]:d("x")([])(y)`},
		{"a, b.c, d[1] = 1, 2", `a, b["c"], d[1] = 1, 2`},
		{"do return end", "do return  end"},
		{"while a do break end", "while a do break end"},
		{"return 'a\\65\\n\\\n\\'', [[\n\n]], [=[]]]=]", `return "aA\n\n'", "\n", "]]"`},
		{"--[==[ ]] ]==] return 1 -- x", "return 1"},
		{"return 0x10, 1e2, .5, 3.", "return 16, 100, 0.5, 3"},
		// strchr finds the zero byte at the end of any string.
		{"return 1\x00\x00 + a .\x00 'b'", `return {{1 + a} .. "b"}`},
	})
}

// TestFolding checks what is computed: numbers, as far as they give neither a NaN nor something divided by zero.
func TestFolding(t *testing.T) {
	check(t, false, [][2]string{
		{"return 1 + 2 * 3 ^ 2 - 4 / 8, 5 % 3, -5 % 3, 5 % -3", "return 18.5, 2, 1, -1"},
		{"return -2 ^ 2, -(-2), -0, (2) ^ -1", "return -4, 2, -0, 0.5"},
		{"return 1 / 0, 1 % 0, 0 / -0", "return {1 / 0}, {1 % 0}, {0 / -0}"},
		{"return 1e999, 1e999 - 1e999, -1e999", "return +Inf, {+Inf - +Inf}, -Inf"},
		{"return a + 1 + 2, 1 + 2 + a", "return {{a + 1} + 2}, {3 + a}"},
		{"return '1' + 1, -'1', #'a', 1 .. 2, 1 < 2", `return {"1" + 1}, {- "1"}, {# "a"}, {1 .. 2}, {1 < 2}`},
		{"return not nil, not false, not true, not 0, not 'x', not a", "return true, true, false, false, false, {not a}"},
		{"return nil or a, false or 1, true and f(), 1 and ..., 'x' and 2", "return a, 1, (f()), (...), 2"},
		{"return nil and a, true or a, a or 1, -(nil or 1)", "return {nil and a}, {true or a}, {a or 1}, -1"},
	})
}

// TestLines checks lines, all of them as redis-server's string.dump has them. They are those of the last token that was consumed when the
// instruction was made; see settle.
func TestLines(t *testing.T) {
	check(t, true, [][2]string{
		{"return x\n+ y\n- z\n", "return {{x@2 + y@2}@2 - z@3}@3@1"},
		{"return x\n,\ny\n,z", "return x@2, y@4, z@4@1"},
		{"return (x\n)\n", "return x@2@1"},
		{"return a\n.b\n.c\n", `return a@1["b"]@2["c"]@3@1`},
		{"return a\n[b\n]\n[c\n]\n", `return a@1[b@2]@3[c@4]@5@1`},
		{"return a.b\n:c\n'x'", `return a@1["b"]@2:c@2("x")@3@1`},
		{"return a\n:\nb(\n\n)", `return a@3:b@3()@3@1`},
		{"return a(\nb,\nc\n)", `return a@1(b@2, c@4)@1@1`},
		{"return a {\nb }", `return a@1([b@2])@1@1`},
		{"return -\na, not\nb\n, #\nc", "return {- a@2}@2, {not b@3}@3, {# c@5}@5@1"},
		{"return a\nand b\nor c\n", "return {{a@2 and b@2} or c@3}@1"},
		{"return a\n..\nb\n..\nc\n", "return {a@2 .. b@4 .. c@5}@5@1"},
		{"return a ..\n(b\n.. c\n)", "return {a@1 .. b@3 .. c@3}@3@1"},
		{"return a\n<\nb", "return {a@2 < b@3}@3@1"},
		{"return {a\n,\nb\n}", "return [a@2, b@4]@1"},
		{"return {a\n;\n}", "return [a@3]@1"},
		{"return {a\n= b\n, [c\n] = d\n}", `return ["a" = b@2@2, c@3 = d@4@4]@1`},
		{"return {a\n.b}", `return [a@2["b"]@2]@1`},
		{"return {a\n(b)}", `return [a@2(b@2)@2]@1`},
		{"a\n=\nb\n", "a@3 = b@3@3"},
		{"a\n.b\n.c, d = e,\nf\n", `a@1["b"]@2["c"]@4, d@4 = e@3, f@4@4`},
		{"function\na\n.b\n.c() end", `a@2["b"]@3["c"]@1 = function()[]  end@1@4@1`},
		{"return function\n()\nend", "return function()[]  end@2@3@1"},
		{"local function\na\n()\nend", "local a#1 function()[]  end@3@4@1"},
		{"local a\n= b\n, c\n", "local a#1 = b@3, c@3@1"},
		{"for\ni\n=\na,\nb,\nc\ndo\nend", "for i#1 = a@4, b@5, c@6 do@7  end@1"},
		{"for\na\nin\nb\n,c\ndo\nend", "for a#1 in b@5, c@5 do  end@4"},
		{"while a\ndo\nb\n.c()\nend", `while a@1 do b@3["c"]@4()@4@3 end@1`},
		{"repeat\nuntil\na\n", "repeat  until a@3@3"},
		{"if a\nthen\nelseif\nb\nthen end", "if a@1 then  elseif b@4 then  else end@1"},
		{"do\nbreak end", "c:2: no loop to break near 'end'"},
		{"return function(...) return\n...\nend", "return function( ... arg#1)[] return ...@1@1 end@1@3@1"},
	})
}

// TestChains parses the longest chains that may be, and is refused those that are longer, however they are put together.
func TestChains(t *testing.T) {
	repeat := strings.Repeat
	for _, chain := range [][3]string{
		{"return 1", "<2", ""}, {"return a", " and a", ""}, {"return a", " or a", ""}, {"return a", " + b", ""},
		{"return a", " * b - 1", ""}, {"return a", "()", ""}, {"return a", ".a", ""}, {"return a", "[1]", ""}, {"return a", ":a()", ""},
		{"return a", "'x'", ""}, {"return a", "{}", ""}, {"function a", ".a", "() end"}, {"a", ".a", " = 1"},
	} {
		if _, err := Parse(chain[0]+repeat(chain[1], maxHeight/2)+chain[2], "c", 0); err != nil {
			t.Errorf("%s: %v", chain[1], err)
		}
		for _, src := range []string{
			chain[0] + repeat(chain[1], maxHeight+1) + chain[2],
			"return a" + repeat(".a", maxHeight) + "(function() " + chain[0] + chain[1] + chain[2] + " end)",
			"return (function() " + chain[0] + repeat(chain[1], maxHeight/2) + chain[2] + " end)" + repeat(" + a", maxHeight/2+1),
		} {
			if _, err := Parse(src, "c", 0); err == nil || !strings.Contains(err.Error(), "too many syntax levels") {
				t.Errorf("too much of %s: %v", chain[1], err)
			}
		}
	}
	// What stands side by side does not add up.
	for _, src := range []string{repeat("a.b() ", 2*maxHeight), "return {" + repeat("a.b + 1,", 2*maxHeight) + "}",
		repeat("if a.b then else end ", 2*maxHeight), "if a.b then " + repeat("elseif a.b then ", 2*maxHeight) + "end"} {
		if _, err := Parse(src, "c", 0); err != nil {
			t.Errorf("%.40s: %v", src, err)
		}
	}
}

func TestCompute(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		op         Op
		a, b, want float64
	}{
		{Add, 1, 2, 3}, {Sub, 1, 2, -1}, {Mul, 3, 2, 6}, {Div, 1, 0, inf}, {Pow, 2, -1, .5},
		{Mod, 5.5, 2, 1.5}, {Mod, -5, 3, 1}, {Mod, 5, -3, -1}, {Mod, 1e300, 7, 1e300 - math.Floor(1e300/7)*7},
	} {
		if got := Compute(c.op, c.a, c.b); got != c.want {
			t.Errorf("%v %s %v = %v, want %v", c.a, operatorText[c.op], c.b, got, c.want)
		}
	}
	positive, negative := math.Copysign(math.NaN(), 1), math.Copysign(math.NaN(), -1)
	for _, c := range []struct {
		v, a, b float64
		minus   bool
	}{{positive, -1, .5, true}, {negative, 1, positive, false}, {positive, negative, positive, true}} {
		if got := NaN(c.v, c.a, c.b); !math.IsNaN(got) || math.Signbit(got) != c.minus {
			t.Errorf("NaN of %v and %v: %v, minus %v", c.a, c.b, got, math.Signbit(got))
		}
	}
	if got := NaN(1, negative, 2); got != 1 {
		t.Errorf("what is no NaN becomes %v", got)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, " 010 ": 10, "1e3": 1000, ".5": .5, "5.": 5, "0x10": 16, "-0x1p4": -16,
		"1e999": math.Inf(1), "-inf": math.Inf(-1), "123456789012345678": 123456789012345678} {
		if got, ok := Number(text); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	if got, ok := Number(" NaN "); !ok || !math.IsNaN(got) {
		t.Errorf("NaN: %v %v", got, ok)
	}
	for _, text := range []string{"", " ", "x", "1_0", "0x", "1e", "--1", "1 2", "0b1", "1e5x"} {
		if got, ok := Number(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzParse looks for panics, for nodes without a line, and for variables that are used where nobody declared them.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"return a .. b", "for i = 1, 2 do end", "a, b.c = 1, 2", "local function f(...) return ... end",
		"return {[1]=2; x=3, y\n.z}", "--[[x]] return '\\065'", "repeat local a until function() return a end",
		"function a.b:c(x) return self:x(x) end"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		main, err := Parse(src, "c", 0)
		if (main == nil) == (err == nil) {
			t.Fatal(main, err)
		}
		if text := show(src, true); err == nil && strings.HasPrefix(text, "incomplete: ") {
			t.Error(text)
		}
	})
}
