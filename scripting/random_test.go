package scripting

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// generator draws scripts for the libraries of binary formats and JSON.
type generator struct{ *rand.Rand }

func (g generator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

// TestRandomlyAsRedis compares with a real server what random scripts make of random arguments.
func TestRandomlyAsRedis(t *testing.T) {
	seeds, steps := turns(4, 40)
	redis := startRedis(t)
	e := New(Options{Logger: slog.New(slog.DiscardHandler)})
	for seed := uint64(1); seed <= seeds; seed++ {
		redis.do("SCRIPT", "FLUSH")
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		for step := range steps {
			body, arg := g.script()
			want := redis.do("EVAL", helpers+body, "0", arg)
			got, _, err := e.Eval(nil, []byte(helpers+body), nil, [][]byte{[]byte(arg)}, newFakeCaller(), 2)
			if err != nil || string(got) != want {
				t.Fatalf("seed %d, step %d: %s\n ARGV[1] = %q\n got  %q, %v\n want %q", seed, step, body, arg, clip(string(got)), err, clip(want))
			}
		}
	}
}

// turns is for how many seeds and steps random scripts are compared: few where the race detector slows one goroutine.
func turns(seeds, full uint64) (uint64, int) {
	switch {
	case testing.Short():
		return 1, 500
	case os.Getenv("TEST_FULL") == "1":
		return full, 5000
	}
	return seeds, 1500
}

// script draws a script with its only argument.
func (g generator) script() (body, arg string) {
	switch g.IntN(8) {
	case 0:
		return "return show({cmsgpack.unpack(ARGV[1])})", g.msgpack()
	case 1:
		return fmt.Sprintf("return show({cmsgpack.unpack_limit(ARGV[1], %d, %d)})", g.IntN(4), g.IntN(6)-1), g.msgpack()
	case 2:
		return "return hex(cmsgpack.pack(" + g.value(0) + "))", ""
	case 3:
		return "local j = cjson.new() " + g.jsonOptions() + "return j.encode(" + g.value(0) + ")", ""
	case 4:
		return "local j = cjson.new() " + g.jsonOptions() + "return show(j.decode(ARGV[1]))", g.mutated(g.json(0))
	case 5:
		if g.IntN(2) == 0 {
			return "return show(cmsgpack.unpack(cmsgpack.pack(" + g.value(0) + ")))", ""
		}
		return "return show(cjson.decode(cjson.encode(" + g.value(0) + ")))", ""
	case 6:
		return g.structs(), g.bytes(40)
	}
	return g.bits(), ""
}

// number writes a number.
func (g generator) number() string {
	switch g.IntN(8) {
	case 0:
		return g.pick("0", "1/0", "-1/0", "0/0", "-(0/0)", "2^31", "2^32", "2^53", "2^63", "-2^63", "2^64", "0.5")
	case 1:
		return strconv.FormatFloat(math.Float64frombits(g.Uint64()&^(1<<62)), 'g', -1, 64)
	case 2:
		return strconv.FormatFloat(float64(math.Float32frombits(g.Uint32()&^(1<<30))), 'g', -1, 64)
	case 3:
		return strconv.FormatInt(g.Int64()>>g.IntN(64), 10)
	case 4:
		return strconv.Itoa(1<<g.IntN(40) - g.IntN(3))
	case 5:
		return "-" + strconv.Itoa(1<<g.IntN(40)+g.IntN(3)-1)
	case 6:
		return strconv.FormatFloat(g.NormFloat64()*1000, 'f', g.IntN(6), 64)
	}
	return strconv.Itoa(g.IntN(300) - 150)
}

func (g generator) bytes(most int) string {
	buf := make([]byte, g.IntN(most+1))
	for i := range buf {
		buf[i] = byte(g.Uint32())
		if g.IntN(3) == 0 {
			buf[i] = byte(g.IntN(4))
		}
	}
	return string(buf)
}

// literal writes a string for Lua.
func literal(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		fmt.Fprintf(&out, "\\%03d", s[i])
	}
	return out.String() + `"`
}

// value writes a value in Lua.
func (g generator) value(depth int) string {
	kind := g.IntN(10)
	if depth > 4 {
		kind = g.IntN(7)
	}
	switch kind {
	case 0:
		return g.pick("nil", "true", "false", "cjson.null")
	case 1, 2:
		return literal(g.bytes(6))
	case 3:
		return literal(strings.Repeat(g.bytes(3), g.IntN(100)))
	case 4, 5, 6:
		return g.number()
	}
	var items []string
	switch g.IntN(3) {
	case 0:
		for range g.IntN(20) {
			items = append(items, g.value(depth+1))
		}
	case 1:
		for range g.IntN(8) {
			items = append(items, "["+literal(g.bytes(4))+"] = "+g.value(depth+1))
		}
	default:
		for range g.IntN(8) {
			items = append(items, "["+strconv.Itoa(g.IntN(14)-1)+g.pick("", "", ".5")+"] = "+g.value(depth+1))
		}
	}
	return "{" + strings.Join(items, ", ") + "}"
}

func (g generator) jsonOptions() string {
	var out strings.Builder
	for range g.IntN(3) {
		switch g.IntN(5) {
		case 0:
			fmt.Fprintf(&out, "j.encode_sparse_array(%s, %d, %d) ", g.pick("true", "false"), g.IntN(4), g.IntN(12))
		case 1:
			fmt.Fprintf(&out, "j.encode_number_precision(%d) ", 1+g.IntN(14))
		case 2:
			fmt.Fprintf(&out, "j.encode_invalid_numbers('%s') ", g.pick("on", "off", "null"))
		case 3:
			fmt.Fprintf(&out, "j.decode_invalid_numbers(%s) ", g.pick("true", "false"))
		default:
			fmt.Fprintf(&out, "j.encode_max_depth(%d) j.decode_max_depth(%d) ", 1+g.IntN(5), 1+g.IntN(5))
		}
	}
	return out.String()
}

// json writes a value in JSON, with some white space and some of what only strtod takes.
func (g generator) json(depth int) string {
	kind := g.IntN(8)
	if depth > 4 {
		kind = g.IntN(5)
	}
	space := g.pick("", "", "", " ", "\n\t", "\r ")
	switch kind {
	case 0:
		return space + g.pick("null", "true", "false", "nan", "-inf", "Infinity", "nan(x)", "0x1F", "0x.8p-3", "1e999", "01", "-0") + space
	case 1, 2:
		text := strings.TrimSuffix(g.number(), "/0")
		return space + strings.Trim(text, "-()") + g.pick("", "", "e5", "E-3", ".25", ".", "e", "x") + space
	case 3, 4:
		return space + g.jsonString()
	}
	items := make([]string, g.IntN(5))
	if kind == 5 {
		for i := range items {
			items[i] = g.jsonString() + g.pick("", " ") + ":" + g.json(depth+1)
		}
		return space + "{" + strings.Join(items, ",") + "}" + space
	}
	for i := range items {
		items[i] = g.json(depth + 1)
	}
	return space + "[" + strings.Join(items, ",") + "]" + space
}

func (g generator) jsonString() string {
	var out strings.Builder
	out.WriteByte('"')
	for range g.IntN(5) {
		out.WriteString(g.pick("a", "é", "\x01", "\xff", `\n`, `\t`, `\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\u20AC`, `\ud83d\ude00`, `\u0000`,
			`\ud83d`, `\udc00`, `\x`, `\u12`, "long enough"))
	}
	return out.String() + `"`
}

// mutated changes a byte or two, often not at all.
func (g generator) mutated(s string) string {
	buf := []byte(s)
	for range g.IntN(3) {
		if len(buf) == 0 {
			break
		}
		i := g.IntN(len(buf))
		switch g.IntN(3) {
		case 0:
			buf = append(buf[:i], buf[i+1:]...)
		case 1:
			buf[i] = g.pick("{", "}", "[", "]", ",", ":", `"`, `\`, "0", "e", "-", "+", ".", " ", "\x00", "n", "i", "t", "x", "\xff")[0]
		default:
			buf = append(buf, buf[i:]...)
		}
	}
	return string(buf)
}

// msgpack writes MessagePack that means something about as often as not.
func (g generator) msgpack() string {
	var out strings.Builder
	for range g.IntN(6) {
		code := byte(g.Uint32())
		if g.IntN(2) == 0 {
			code = 0xc0 + byte(g.IntN(32))
		}
		out.WriteByte(code)
		if code >= 0xd9 && code <= 0xdf {
			width := map[byte]int{0xd9: 0, 0xda: 1, 0xdc: 1, 0xde: 1}
			zeros, ok := width[code]
			if !ok {
				zeros = 3
			}
			out.WriteString(strings.Repeat("\x00", zeros))
			out.WriteByte(byte(g.IntN(5)))
		}
		out.WriteString(g.bytes(10))
	}
	return out.String()
}

func (g generator) structFormat() string {
	var out strings.Builder
	for range g.IntN(7) {
		option := g.pick("b", "B", "h", "H", "i", "I", "l", "L", "T", "f", "d", "s", "x", "c", "c0", " ", "<", ">", "!", "i", "I", "c")
		out.WriteString(option)
		if strings.Contains("iIc!", option) && g.IntN(2) == 0 {
			out.WriteString(strconv.Itoa(g.IntN(10)))
		}
		if g.IntN(60) == 0 {
			out.WriteString(g.pick("q", "?", "33", "2147483648", "0", "\x00", "!64", "i16", "i32"))
		}
	}
	return out.String()
}

func (g generator) structs() string {
	format := literal(g.structFormat())
	switch g.IntN(4) {
	case 0:
		return "return struct.size(" + format + ")"
	case 1:
		return fmt.Sprintf("return show({struct.unpack(%s, ARGV[1]%s)})", format, g.pick("", "", ", 2", ", 5", ", 0", ", 99"))
	}
	args := make([]string, 8)
	for i := range args {
		args[i] = g.number()
		if g.IntN(6) == 0 {
			args[i] = literal(g.bytes(12))
		}
	}
	list := strings.Join(args, ", ")
	if g.IntN(2) == 0 {
		return fmt.Sprintf("return show({struct.unpack(%s, struct.pack(%s, %s))})", format, format, list)
	}
	return fmt.Sprintf("return hex(struct.pack(%s, %s))", format, list)
}

func (g generator) bits() string {
	name := g.pick("tobit", "bnot", "bswap", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex")
	args := make([]string, 1+g.IntN(3))
	for i := range args {
		args[i] = g.number()
	}
	return "return tostring(bit." + name + "(" + strings.Join(args, ", ") + "))"
}
