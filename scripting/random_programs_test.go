package scripting

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// programs draws scripts in the language itself: arithmetic, strings and their formats and patterns, tables, errors and pcall,
// commands with all kinds of replies. What is known to differ it leaves out: tables that are called or added to, lengths of tables with
// gaps, the order of fields.
type programs struct {
	generator
	depth  int
	locals []string
	tables []string
}

// named is what tells which variable an error is about. It is left out where only that differs: behind `and` and `or` the name is not always
// found.
var named = regexp.MustCompile(`(?:local|upvalue|field|global) '\w+' \((a \w+ value)\)`)

// TestRandomProgramsAsRedis compares with a real server what random programs reply.
func TestRandomProgramsAsRedis(t *testing.T) {
	seeds, steps := turns(4, 20)
	redis := startRedis(t)
	e := New(Options{Logger: slog.New(slog.DiscardHandler)})
	for seed := uint64(1); seed <= seeds; seed++ {
		redis.do("SCRIPT", "FLUSH")
		rnd := rand.New(rand.NewPCG(seed, 1))
		for step := range steps {
			p := programs{generator: generator{rnd}}
			body := helpers + "local function N(x) return x end " + p.program()
			redis.do("FLUSHALL")
			redis.do("SET", "s", "v")
			redis.do("RPUSH", "l", "a", "b")
			redis.do("HSET", "h", "f", "v")
			redis.do("ZADD", "z", "1.5", "a", "inf", "i", "-inf", "m", "1e20", "big")
			arg := p.text()
			want := redis.do("EVAL", body, "1", "k1", arg, "10")
			got, _, err := e.Eval(nil, []byte(body), bytesOf("k1"), bytesOf(arg, "10"), newFakeCaller(), 2)
			if err != nil || string(got) != want && named.ReplaceAllString(string(got), "$1") != named.ReplaceAllString(want, "$1") {
				t.Fatalf("seed %d, step %d: %s\n ARGV[1] = %q\n got  %q, %v\n want %q", seed, step, body[len(helpers):], arg, clip(string(got)), err, clip(want))
			}
		}
	}
}

// program is a script: some statements, and what became of the variables.
func (p *programs) program() string {
	var out strings.Builder
	for range 1 + p.IntN(6) {
		out.WriteString(p.statement() + "\n")
	}
	var results []string
	for _, name := range append(p.locals, p.tables...) {
		results = append(results, "show("+name+")")
	}
	results = append(results, "show("+p.any()+")", p.any())
	out.WriteString("return {" + strings.Join(results, ", ") + "}")
	return out.String()
}

func (p *programs) statement() string {
	switch p.IntN(12) {
	case 0, 1, 2, 3:
		return p.declare()
	case 4:
		if len(p.tables) > 0 {
			t := p.pick(p.tables...)
			return p.pick(
				fmt.Sprintf("%s[#%s + 1] = %s", t, t, p.solid()), fmt.Sprintf("table.insert(%s, %s)", t, p.solid()),
				fmt.Sprintf("table.insert(%s, 1, %s)", t, p.solid()), fmt.Sprintf("table.remove(%s)", t), fmt.Sprintf("table.remove(%s, 1)", t),
				fmt.Sprintf("%s.%s = %s", t, p.pick("x", "y"), p.any()), fmt.Sprintf("pcall(table.sort, %s)", t),
				fmt.Sprintf("table.sort(%s, function(a, b) return tostring(a) < tostring(b) end)", t))
		}
	case 5:
		return p.within("if "+p.any()+" then ", " end")
	case 6:
		return p.within(fmt.Sprintf("for i = %s, %s%s do ", p.small(), p.small(), p.pick("", ", 1", ", -1", ", 2", ", 0.5")), " end")
	case 7:
		name := p.fresh("v")
		text := fmt.Sprintf("local %s = {pcall(function(a, b) %s return %s end, %s, %s)} if type(%s[2]) == 'function' then %s = {} end", name,
			p.within("", ""), p.any(), p.any(), p.any(), name, name)
		p.tables = append(p.tables, name)
		return text
	case 8:
		name := p.fresh("v")
		text := fmt.Sprintf("local %s = {%s(%s)}", name, p.pick("redis.call", "redis.pcall", "redis.pcall", "redis.pcall"), p.command())
		p.tables = append(p.tables, name)
		return text
	case 9:
		if len(p.locals) > 0 {
			return p.pick(p.locals...) + " = " + p.any()
		}
	case 10:
		if p.IntN(6) == 0 {
			return "if " + p.any() + " then error(" + p.any() + p.pick("", ", 0", ", 1", ", 2") + ") end"
		}
	case 11:
		name := p.fresh("v")
		text := fmt.Sprintf("local %s = '' for k, w in ipairs({%s, %s, %s}) do %s = %s .. k .. tostring(w) end", name, p.number1(), p.string1(), p.number1(), name, name)
		p.locals = append(p.locals, name)
		return text
	}
	return p.declare()
}

// within draws a statement whose variables end with it.
func (p *programs) within(before, after string) string {
	locals, tables := p.locals, p.tables
	text := before
	if p.depth < 3 {
		p.depth++
		for range 1 + p.IntN(2) {
			text += p.statement() + " "
		}
		p.depth--
	}
	p.locals, p.tables = locals, tables
	return text + after
}

func (p *programs) fresh(prefix string) string {
	return fmt.Sprintf("%s%d", prefix, len(p.locals)+len(p.tables)+10*p.depth)
}

func (p *programs) declare() string {
	name := p.fresh("v")
	if p.IntN(3) == 0 {
		items := make([]string, p.IntN(5))
		for i := range items {
			items[i] = p.solid()
		}
		text := "local " + name + " = {" + strings.Join(items, ", ") + "}"
		p.tables = append(p.tables, name)
		return text
	}
	text := "local " + name + " = " + p.any()
	p.locals = append(p.locals, name)
	return text
}

// any is an expression of any type but that of tables and functions.
func (p *programs) any() string {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 5 {
		return p.pick("1", "'x'", "nil", "true", p.text1())
	}
	switch p.IntN(10) {
	case 0:
		return p.pick("nil", "true", "false")
	case 1, 2, 3:
		return p.number1()
	case 4, 5, 6:
		return p.string1()
	case 7:
		return "(" + p.any() + p.pick(" and ", " or ", " == ", " ~= ") + p.any() + ")"
	case 8:
		return "(" + p.number1() + p.pick(" < ", " <= ", " > ", " >= ") + p.number1() + ")"
	}
	return p.pick("not ", "") + "(" + p.any() + ")"
}

// solid is an expression that is not nil.
func (p *programs) solid() string {
	if p.IntN(2) == 0 {
		return p.literalNumber()
	}
	return p.text1()
}

func (p *programs) small() string { return fmt.Sprint(p.IntN(12) - 4) }

func (p *programs) smallCall() string { return "N(" + p.small() + ")" }

// literalNumber is a number in a call, so that nothing is computed from constants: how the zeros among those come by their sign
// depends on the order in which the reference implementation meets them.
func (p *programs) literalNumber() string {
	if p.IntN(2) == 0 {
		return p.small()
	}
	if text := p.anyNumber(); !strings.HasPrefix(text, "-") || p.IntN(2) == 0 {
		return text
	}
	return "1.5"
}

// number1 is an expression that is mostly a number, or a string that spells one.
func (p *programs) number1() string {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 5 {
		return p.smallCall()
	}
	switch p.IntN(16) {
	case 0, 1, 2:
		return "N(" + p.literalNumber() + ")"
	case 3, 4, 5, 6:
		return "(" + p.number1() + p.pick(" + ", " - ", " * ", " / ", " % ") + p.number1() + ")"
	case 7:
		return "(" + p.smallCall() + " ^ " + p.small() + ")"
	case 8:
		return "-" + p.number1()
	case 9:
		return "#" + p.string1()
	case 10:
		if len(p.tables) > 0 {
			return "#" + p.pick(p.tables...)
		}
	case 11:
		return fmt.Sprintf("math.%s(%s)", p.pick("floor", "ceil", "abs", "sqrt"), p.number1())
	case 12:
		return fmt.Sprintf("math.%s(%s, %s)", p.pick("max", "min", "fmod"), p.number1(), p.number1())
	case 13:
		return fmt.Sprintf("tonumber(%s%s)", p.string1(), p.pick("", "", "", ", 16", ", 2", ", 36"))
	case 14:
		if len(p.locals) > 0 {
			return p.pick(p.locals...)
		}
	case 15:
		return fmt.Sprintf("(%s):byte(%s)", p.string1(), p.pick("", p.small()))
	}
	return p.smallCall()
}

func (p *programs) text() string {
	return p.pick("", "a", "abc", "10", "0x1F", " 7 ", "1e3", "a,b;c", "Hello World", "%d", "x=1, y=22", "ééß", "aAbB01 _-", p.bytes(8))
}

func (p *programs) text1() string { return literal(p.text()) }

// pattern is one of string.find and its kin, often a bad one.
func (p *programs) patternText() string {
	var out strings.Builder
	for range 1 + p.IntN(4) {
		out.WriteString(p.pick("a", "b", "%a", "%d", "%w", "%s", "%p", ".", "[a-c]", "[^,]", "[%w_]", "(%a+)", "(.)", "()", "%%", "x", "%b()", "%f[%w]", "%1", "[", "%", "(", "^", "$", "]"))
		out.WriteString(p.pick("", "", "", "*", "+", "-", "?"))
	}
	return literal(out.String())
}

// string1 is an expression that is mostly a string.
func (p *programs) string1() string {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 5 {
		return p.text1()
	}
	switch p.IntN(16) {
	case 0, 1:
		return p.text1()
	case 2, 3:
		return "(" + p.string1() + " .. " + p.pick(p.string1(), p.number1()) + ")"
	case 4:
		return fmt.Sprintf("tostring(%s)", p.any())
	case 5:
		return fmt.Sprintf("(%s):%s()", p.string1(), p.pick("upper", "lower", "reverse", "len"))
	case 6:
		return fmt.Sprintf("(%s):rep(%s)", p.text1(), p.small())
	case 7:
		return fmt.Sprintf("(%s):sub(%s%s)", p.string1(), p.small(), p.pick("", ", "+p.small()))
	case 8, 9:
		return p.format()
	case 10:
		return fmt.Sprintf("show({(%s):%s(%s%s)})", p.string1(), p.pick("find", "match"), p.patternText(), p.pick("", "", ", "+p.small()))
	case 11:
		return fmt.Sprintf("(%s):gsub(%s, %s%s)", p.string1(), p.patternText(), p.pick("'<%0>'", "'%1'", "''", "'%%'", "{a = 1, b = false}",
			"function(c) return c end", "function() end", "'%2'", "string.upper"), p.pick("", "", ", 1"))
	case 12:
		if len(p.tables) > 0 {
			return fmt.Sprintf("table.concat(%s%s)", p.pick(p.tables...), p.pick("", ", ','", ", '', 2", ", 1, 1, 2"))
		}
	case 13:
		return fmt.Sprintf("cjson.encode({%s, %s})", p.solid(), p.solid())
	case 14:
		return "ARGV[1]"
	case 15:
		return fmt.Sprintf("string.char(%s, %s)", p.small(), p.pick("65", "255", "0", "256"))
	}
	return p.text1()
}

func (p *programs) format() string {
	spec := "%" + p.pick("", "-", "0", "+", " ", "#", "-0", "+ ") + p.pick("", "", "5", "12", "1", "99", "100") + p.pick("", "", ".0", ".3", ".10", ".20", ".")
	verb := p.pick("d", "i", "u", "x", "X", "o", "c", "e", "E", "f", "g", "G", "s", "q", "%", "y")
	value := p.number1()
	if verb == "s" || verb == "q" {
		value = p.string1()
	}
	return fmt.Sprintf("string.format(%s, %s)", literal("<"+spec+verb+">"), value)
}

// command is the arguments of a command, sometimes ones that it refuses.
func (p *programs) command() string {
	switch p.IntN(10) {
	case 0:
		return "'get', " + p.pick("'s'", "'none'", "'l'", "KEYS[1]", one(p.any()))
	case 1:
		return "'set', KEYS[1], " + one(p.pick(p.number1(), p.string1(), p.any()))
	case 2:
		return "'echo', " + one(p.pick(p.number1(), p.string1(), p.any()))
	case 3:
		return "'lrange', 'l', 0, -1"
	case 4:
		return p.pick("'hgetall', 'h'", "'type', 's'", "'type', 'none'", "'zscore', 'z', 'big'", "'zscore', 'z', 'no'", "'smembers', 'none'", "'rpop', 'l'")
	case 5:
		return p.pick("'incr', 's'", "'incr', KEYS[1]", "'nosuch'", "'get'", "", one(p.any()))
	case 6:
		return "'lpush', 'l', " + one(p.pick(p.number1(), p.string1()))
	case 7:
		return "'zrange', 'z', '0', '-1', 'withscores'"
	case 8:
		return "'hget', 'h', 'f'"
	}
	return "'echo', " + one(p.number1())
}

// one cuts an expression to one value.
func one(expression string) string { return "(" + expression + ")" }
