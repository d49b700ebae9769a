package luaparse

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// TestErrors holds the shapes of errors; the parent package compares hundreds of them with a real server.
func TestErrors(t *testing.T) {
	for src, want := range map[string]string{
		"x":                                "c:1: '=' expected near '<eof>'",
		"if true then\n\n":                 "c:3: 'end' expected (to close 'if' at line 1) near '<eof>'",
		"return 'a":                        "c:1: unfinished string near '<eof>'",
		"return [==[":                      "c:1: unfinished long string near '<eof>'",
		"return 0xg":                       "c:1: malformed number near '0xg'",
		"return {" + manyConstants() + "}": "c:1: constant table overflow",
		"break":                            "c:1: no loop to break near '<eof>'",
		"\x01":                             "c:1: unexpected symbol near 'char(1)'",
		strings.Repeat("(", 100000):        "c:1: chunk has too many syntax levels",
		"local function f()\n" + strings.Repeat("local a\n", 201) + "end": "c:203: function at line 1 has more than 200 local variables",
	} {
		_, err := Main(src, "c")
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", src, err, want)
		}
	}
}

func manyConstants() string {
	var list strings.Builder
	for i := range maxConstants + 1 {
		list.WriteString(strconv.Itoa(i) + ",")
	}
	return list.String()
}

// TestHelpers checks that a chunk asks for the helpers that it needs, and no more.
func TestHelpers(t *testing.T) {
	for src, want := range map[string][]Helper{
		"return 1 + 2":                        nil,
		"return a .. 1 .. b":                  {Concat},
		"for i = 1, #t do end":                nil,
		"for i = a, b, c do end":              {ForInit, ForLimit, ForStep},
		"return ...":                          {Nothing},
		"return function(...) return ... end": nil,
		"return a + 1, 2 - a, 2 * 3 % -4":     nil,
		"return a + b, a - 0, -a, a ^ 2":      {Plus, Less, Minus, Power},
		"return 2 * a, 2 / a, 2 % a":          {Times, Over, Modulo},
		"return redis.call(KEYS[1])":          nil,
	} {
		chunk, err := Main(src, "c")
		if err != nil || len(chunk.Helpers) != len(want) {
			t.Errorf("%s: %v %v, want %v", src, chunk.Helpers, err, want)
			continue
		}
		for i, h := range chunk.Helpers {
			if h != want[i] {
				t.Errorf("%s: %v, want %v", src, chunk.Helpers, want)
			}
		}
		if _, err := lua.Compile(chunk.Stmts, "c"); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// TestChains compiles the longest chains that may be, and is refused those that are longer, however they are put together.
func TestChains(t *testing.T) {
	repeat := strings.Repeat
	for _, chain := range [][3]string{
		{"return 1", "<2", ""}, {"return a", " and a", ""}, {"return a", " or a", ""}, {"return a", " + b", ""}, {"return a", " * b - 1", ""},
		{"return a", "()", ""}, {"return a", ".a", ""}, {"return a", "[1]", ""}, {"return a", ":a()", ""}, {"return a", "'x'", ""}, {"return a", "{}", ""},
		{"if a then ", "elseif a then ", "end"}, {"function a", ".a", "() end"}, {"a", ".a", " = 1"},
	} {
		chunk, err := Main(chain[0]+repeat(chain[1], maxHeight/2)+chain[2], "c")
		if err != nil {
			t.Errorf("%s: %v", chain[1], err)
		} else if _, err := lua.Compile(chunk.Stmts, "c"); err != nil {
			t.Errorf("%s: %v", chain[1], err)
		}
		for _, src := range []string{
			chain[0] + repeat(chain[1], maxHeight+1) + chain[2],
			"return a" + repeat(".a", maxHeight) + "(function() " + chain[0] + chain[1] + chain[2] + " end)",
			"return (function() " + chain[0] + repeat(chain[1], maxHeight/2) + chain[2] + " end)" + repeat(" + a", maxHeight/2+1),
		} {
			if _, err := Main(src, "c"); err == nil || !strings.Contains(err.Error(), "too many syntax levels") {
				t.Errorf("too much of %s: %v", chain[1], err)
			}
		}
	}
	// What stands side by side does not add up.
	for _, src := range []string{repeat("a.b() ", 2*maxHeight), "return {" + repeat("a.b + 1,", 2*maxHeight) + "}", repeat("if a.b then else end ", 2*maxHeight)} {
		if _, err := Main(src, "c"); err != nil {
			t.Errorf("%.40s: %v", src, err)
		}
	}
}

// TestScriptGlobals checks which names a script reads as hidden variables, and that a chain of operators does not use up the
// registers.
func TestScriptGlobals(t *testing.T) {
	for src, want := range map[string][]Helper{
		"return redis.call(KEYS[1], ARGV)":                {Call, Keys, Argv},
		"return redis.pcall(), redis['call']()":           {PCall, Call},
		"local KEYS, redis return redis.call(KEYS)":       nil,
		"return redis.call, redis:call(), x.redis.call()": nil,
		"local function f(redis) redis.call() end":        nil,
		"return 1" + strings.Repeat(" * a", 1000):         {Times},
	} {
		chunk, err := Script(src, "c")
		if err != nil || !slices.Equal(chunk.Helpers, want) {
			t.Errorf("%.60s: %v %v, want %v", src, chunk.Helpers, err, want)
		} else if _, err := lua.Compile(chunk.Stmts, "c"); err != nil {
			t.Errorf("%.60s: %v", src, err)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, " 010 ": 10, "1e3": 1000, ".5": .5, "5.": 5, "0x10": 16, "-0x1p4": -16,
		"1e999": math.Inf(1), "-inf": math.Inf(-1), "123456789012345678": 123456789012345678} {
		if got, ok := Number(text); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "x", "1_0", "0x", "1e", "--1", "1 2", "0b1", "1e5x"} {
		if got, ok := Number(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"return a .. b", "for i = 1, 2 do end", "a, b.c = 1, 2", "local function f(...) return ... end", "return {[1]=2; x=3}", "--[[x]] return '\\065'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		chunk, err := Main(src, "c")
		if err != nil {
			return
		}
		_, _ = lua.Compile(chunk.Stmts, "c") // must not panic either
		if _, err := Function(src, "c"); err != nil {
			t.Errorf("as a script it parses, as a function it does not: %v", err)
		}
	})
}
