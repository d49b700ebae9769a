package scripting

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
)

// programs draws scripts in the language itself: arithmetic, strings and their formats and patterns, tables, errors and pcall,
// commands with all kinds of replies.
type programs struct {
	generator
	depth  int
	locals []string
	tables []string
}

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
			body := helpers + visits + p.program()
			redis.do("FLUSHALL")
			redis.do("SET", "s", "v")
			redis.do("RPUSH", "l", "a", "b")
			redis.do("HSET", "h", "f", "v")
			redis.do("ZADD", "z", "1.5", "a", "inf", "i", "-inf", "m", "1e20", "big")
			arg := p.text()
			want := redis.do("EVAL", body, "1", "k1", arg, "10")
			got, _, err := e.Eval(nil, []byte(body), bytesOf("k1"), bytesOf(arg, "10"), newFakeCaller(), 2)
			if err != nil || string(got) != want {
				t.Fatalf("seed %d, step %d: %s\n ARGV[1] = %q\n got  %q, %v\n want %q", seed, step, body[len(helpers)+len(visits):], arg, clip(string(got)), err, clip(want))
			}
		}
	}
}

// visits are N, which keeps a constant from being computed with, and order, which shows in which order pairs visits a table.
const visits = "local function N(x) return x end " +
	"local function order(t) local o = '' for k, v in pairs(t) do o = o .. type(k) .. (type(k) == 'boolean' and 'b' or k) .. ';' end return o end "

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
	switch p.IntN(14) {
	case 0, 1, 2, 3:
		return p.declare()
	case 12, 13:
		return p.flow()
	case 4:
		if len(p.tables) > 0 {
			t := p.pick(p.tables...)
			return p.pick(
				fmt.Sprintf("%s[#%s + 1] = %s", t, t, p.solid()), fmt.Sprintf("table.insert(%s, %s)", t, p.solid()),
				fmt.Sprintf("table.insert(%s, 1, %s)", t, p.solid()), fmt.Sprintf("table.remove(%s)", t), fmt.Sprintf("table.remove(%s, 1)", t),
				fmt.Sprintf("%s.%s = %s", t, p.pick("x", "y"), p.any()), fmt.Sprintf("pcall(table.sort, %s)", t),
				fmt.Sprintf("%s[%d] = %s", t, p.IntN(20)-1, p.pick("nil", p.solid())), fmt.Sprintf("%s[#%s] = nil", t, t),
				fmt.Sprintf("%s[%s] = %s", t, p.text1(), p.pick("nil", "true", p.solid())),
				fmt.Sprintf("for k, w in pairs(%s) do %s[k] = %s end", t, t, p.pick("nil", "w", p.solid())),
				fmt.Sprintf("for i = %s, %s do %s[i] = i end", p.small(), p.small(), t),
				fmt.Sprintf("table.sort(%s, function(a, b) return tostring(a) < tostring(b) end)", t))
		}
	case 5:
		return p.within("if "+p.any()+" then ", " end")
	case 6:
		return p.within(fmt.Sprintf("for i = %s, %s%s do ", p.small(), p.small(), p.pick("", ", 1", ", -1", ", 2", ", 0.5")), " end")
	case 7:
		name := p.fresh("v")
		text := fmt.Sprintf("local %s = {pcall(function(a, b) %s return %s end, %s, %s)} if type(%s[2]) == 'function' then %s = {} end", name,
			p.within("", ""), p.pick(p.any(), p.mistake()), p.any(), p.any(), name, name)
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

// flow draws a statement with functions, coroutines, metatables and loops.
func (p *programs) flow() string {
	name := p.fresh("v")
	declares := func(format string, args ...any) string {
		text := fmt.Sprintf(strings.ReplaceAll(format, "$", name), args...)
		p.tables = append(p.tables, name)
		return text
	}
	switch p.IntN(7) {
	case 0:
		return declares("local $ = {} do local fs = {} for i = 1, 4 do local j = %s %s fs[i] = function() i = i + 1 j = tostring(j) .. i return j end "+
			"if %s then break end end for i, f in ipairs(fs) do $[#$ + 1] = f() $[#$ + 1] = f() end end", p.any(), p.within("", ""), p.any())
	case 1:
		return declares("local $ = {} for a, b in coroutine.wrap(function(...) for i = 1, %s do coroutine.yield(i, %s) end %s return coroutine.yield(7, ...) end) do "+
			"$[#$ + 1] = a $[#$ + 1] = b if #$ > 9 then break end end", p.small(), p.any(), p.within("", ""))
	case 2:
		return declares("local $ = {} do local co = coroutine.create(function(a, ...) %s local x, y = coroutine.yield(a, ...) %s return x, y, %s end) "+
			"for i = 1, 3 do local r = {coroutine.resume(co, i, %s)} $[i] = #r for j = 1, 4 do if type(r[j]) ~= 'table' then $[#$ + 1] = r[j] end end end "+
			"$.s = coroutine.status(co) end", p.within("", ""), p.within("", ""), p.pick(p.any(), p.mistake()), p.any())
	case 3:
		return declares("local $ = setmetatable({%s}, {__index = function(t, k) return k end, __newindex = function(t, k, w) rawset(t, k, type(w)) end, "+
			"__%s = function(a, b) %s return %s end, __lt = function(a, b) return %s end, __call = function(t, ...) return select('#', ...) end})",
			p.solid(), p.pick("add", "sub", "unm", "concat", "eq", "le", "div", "mod", "pow", "len"), p.within("", ""), p.any(), p.any())
	case 4:
		return declares("local $ do local function f(a, b, ...) local c, d = ... %s return select('#', ...), d, a, ... end $ = {f(%s, %s, %s, %s)} $[#$ + 1] = (f(1)) end",
			p.within("", ""), p.any(), p.any(), p.any(), p.any())
	case 5:
		return p.within("do local n = 0 while n < 4 do n = n + 1 ", " if "+p.any()+" then break end end end")
	}
	return p.within("do local n = 0 repeat n = n + 1 local m = "+p.any()+" ", " until n > 3 or m end")
}

// mistake is an expression with an error about a variable, more often than not.
func (p *programs) mistake() string {
	names := append([]string{"a", "b", "a.x", "b[1]", "nosuch", "KEYS", "redis", "string.x", "ARGV[7]", "('x').y", "a:f"}, p.tables...)
	v, w := p.pick(append(names, p.locals...)...), p.pick(append(names, p.locals...)...)
	if strings.Contains(v, ":") {
		return v + "()"
	}
	w = strings.ReplaceAll(w, ":", ".")
	return p.pick(v+"()", v+"()()", v+" + 1", "1 + "+v, "-"+v, v+" .. 'x'", "'x' .. "+v, v+".y.z", v+":m()", "#"+v, v+" < "+w, v+" <= 1", v+" + "+w,
		"('x' .. "+v+") .. "+w, "1 .. "+v+" .. 2", "("+v+" and "+w+").x.y", "("+v+" or "+w+")()", v+"["+w+"].x.y", v+"[nil].x", "a == b and "+v+".x.y")
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

// literalNumber is a number in parentheses.
func (p *programs) literalNumber() string {
	if p.IntN(2) == 0 {
		return "(" + p.small() + ")"
	}
	return "(" + p.number() + ")"
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
		return p.pick("", "N") + p.literalNumber()
	case 3, 4, 5, 6:
		return "(" + p.number1() + p.pick(" + ", " - ", " * ", " / ", " % ") + p.number1() + ")"
	case 7:
		return "(" + p.pick(p.smallCall(), p.small()) + " ^ " + p.small() + ")"
	case 8:
		return "-" + p.number1()
	case 9:
		return "#" + p.string1()
	case 10:
		if len(p.tables) > 0 {
			return p.pick("#", "#", "order") + "(" + p.pick(p.tables...) + ")"
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
