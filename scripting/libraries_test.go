package scripting

import (
	"strings"
	"testing"
	"unsafe"
)

// TestSettingsEnd checks that what a script sets holds to its end and is unknown to the next one on the same state.
func TestSettingsEnd(t *testing.T) {
	e := New(Options{PoolSize: 1})
	const read = " local r = {} for _, f in ipairs({'encode_sparse_array', 'encode_max_depth', 'decode_max_depth', " +
		"'encode_number_precision', 'encode_keep_buffer', 'encode_invalid_numbers', 'decode_invalid_numbers'}) do " +
		"for _, v in ipairs({cjson[f]()}) do r[#r + 1] = tostring(v) end end return table.concat(r, ' ')"
	const set = "cjson.encode_sparse_array(true, 5, 6) cjson.encode_max_depth(7) cjson.decode_max_depth(8) cjson.encode_number_precision(9) " +
		"cjson.encode_keep_buffer(false) cjson.encode_invalid_numbers('null') cjson.decode_invalid_numbers(false)"
	defaults, changed := appendBulk(nil, "false 2 10 1000 1000 14 true false true"), appendBulk(nil, "true 5 6 7 8 9 false null false")
	for _, c := range []struct {
		body string
		want []byte
	}{
		{read[1:], defaults}, {set + read, changed}, {read[1:], defaults},
		{set + " local j = cjson.new() j.encode_max_depth(3)" + read, changed},
		{"local cjson = cjson.new()" + read, defaults},
		{"local cjson = cjson.new() " + set + read, changed},
		{"local new = cjson.new() " + strings.ReplaceAll(set, "cjson", "new") + read, defaults},
	} {
		if got := eval(t, e, c.body); got != string(c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
	for _, body := range []string{set + " error('x')", "cjson.encode_max_depth(1) return cjson.encode({{}})"} {
		eval(t, e, body)
		if got := eval(t, e, read[1:]); got != string(defaults) {
			t.Errorf("after %s: %q", body, got)
		}
	}
}

// TestLibrariesAreReadOnly tries to leave something behind in the libraries.
func TestLibrariesAreReadOnly(t *testing.T) {
	for _, attack := range []string{"$.leak = 'leak'", "rawset($, 'leak', 'leak')", "setmetatable($, {__index = {leak = 'leak'}})",
		"getmetatable($).__index.leak = 'leak'", "rawset(getmetatable($), '__index', {leak = 'leak'})", "table.insert($, 'leak')",
		"for k in pairs($) do $[k] = 'leak' end", "for k in pairs($) do pcall(rawset, $, k, 'leak') end", "$ = {leak = 'leak'}"} {
		for _, library := range []string{"bit", "cjson", "cmsgpack", "struct"} {
			e := New(Options{PoolSize: 1})
			eval(t, e, strings.ReplaceAll(attack, "$", library))
			body := "local n = 0 for k, v in pairs(" + library + ") do if v == 'leak' then n = n + 1 end end return {n, " + library + ".leak}"
			if got := eval(t, e, body); got != "*1\r\n:0\r\n" {
				t.Errorf("%s, %s: %q", library, attack, got)
			}
		}
	}
}

// TestLibraryLimits builds and reads what would take more memory than a script is granted.
func TestLibraryLimits(t *testing.T) {
	e := New(Options{MaxStringBytes: 1 << 20})
	const tree = "local t = {} for i = 1, 100 do t = {t, t, t, t, t, t, t, t} end "
	const long = "local s = ('x'):rep(1e6) "
	const large = "resulting string too large"
	for body, want := range map[string]string{
		tree + "return cjson.encode(t)":                                                              large,
		tree + "return cmsgpack.pack(t)":                                                             large,
		long + "return cjson.encode({s, s})":                                                         large,
		long + "return cjson.encode(s .. ('y'):rep(5e4))":                                            large,
		long + "return cmsgpack.pack(s, s)":                                                          large,
		long + "return struct.pack('ss', s, s)":                                                      large,
		long + "return struct.pack('c0c0', s, s)":                                                    large,
		long + "return table.concat({s, s})":                                                         large,
		long + "return table.concat({s, 1}, ('y'):rep(5e4))":                                         large,
		long + "return ('%s%s'):format(s, s)":                                                        large,
		long + "return ('%q'):format(s .. ('\\0'):rep(2e4))":                                         large,
		long + "return s:gsub('x', 'yy')":                                                            large,
		long + "return ('x'):gsub('x', ('%0'):rep(10) .. s .. ('y'):rep(5e4))":                       large,
		long + "return ('x'):gsub('x', function() return s .. ('y'):rep(5e4) end)":                   large,
		long + "return s:gsub('^(.-)$', '%1%1')":                                                     large,
		long + "return s:rep(2)":                                                                     large,
		"return cjson.encode(('\\1'):rep(2e5))":                                                      large,
		"return cjson.encode({[1] = 1, [2e5] = 2})":                                                  "excessively sparse array",
		"local j = cjson.new() j.encode_sparse_array(false, 0) return j.encode({[1e6] = 1})":         large,
		"return cmsgpack.unpack(('\\221\\255\\255\\255\\255'):rep(3000))":                            "Missing bytes in input.",
		"return cmsgpack.unpack(('\\223\\255\\255\\255\\255'):rep(3000))":                            "Missing bytes in input.",
		"return cmsgpack.unpack('\\219\\255\\255\\255\\255x')":                                       "Missing bytes in input.",
		"return cmsgpack.unpack(('\\145'):rep(1e5))":                                                 "stack overflow",
		"return cjson.decode(('['):rep(1e5))":                                                        "Found too many nested data structures (1001)",
		"return struct.unpack(('b'):rep(1e5), ('x'):rep(1e5))":                                       "stack overflow (too many results)",
		"return cmsgpack.unpack(('x'):rep(1e5))":                                                     "stack overflow (too many return values at once",
		"return struct.pack('!1073741824i32', 1) == nil and 1 or error('no more than its 32 bytes')": "no more than its 32 bytes",
	} {
		if got := eval(t, e, body); !strings.HasPrefix(got, "-") || !strings.Contains(got, want) {
			t.Errorf("%s: %.200q, want %q", body, got, want)
		}
	}
}

// TestPartsOfStrings checks that a short part of a long string does not keep it in memory, since only the part counts as held.
func TestPartsOfStrings(t *testing.T) {
	st := newState(New(Options{}))
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		part, source string
		shared       bool
	}{{long[:999], long, true}, {long[:500], long, true}, {long[:499], long, false}, {long[10:20], long, false}, {long[3:4], long[:64], true}} {
		text, _ := st.substring(st.L, c.part, len(c.source)).Text()
		if text != c.part || (unsafe.StringData(text) == unsafe.StringData(c.part)) != c.shared {
			t.Errorf("%d of %d bytes: shared must be %v", len(c.part), len(c.source), c.shared)
		}
	}
}

// rawCaller answers every command with the same reply.
type rawCaller struct {
	*fakeCaller
	reply string
}

func (r rawCaller) Call(dst []byte, _ int, _ [][]byte) ([]byte, error) {
	return append(dst, r.reply...), nil
}

// TestRepliesOfAnyKind hands replies of all kinds, many of which no command of Redis gives to a script, through a script.
func TestRepliesOfAnyKind(t *testing.T) {
	e := New(Options{})
	for _, c := range []struct{ reply, shown, resp2, resp3 string }{
		{"_\r\n", `nil`, "$-1\r\n", "_\r\n"},
		{"#t\r\n", `true`, ":1\r\n", "#t\r\n"},
		{"#f\r\n", `false`, ":0\r\n", "#f\r\n"},
		{",1.5\r\n", `{"646f75626c65"=1.5}`, "$3\r\n1.5\r\n", ",1.5\r\n"},
		{",inf\r\n", `{"646f75626c65"=inf}`, "$3\r\ninf\r\n", ",inf\r\n"},
		{",-inf\r\n", `{"646f75626c65"=-inf}`, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{",nan\r\n", `{"646f75626c65"=nan}`, "$3\r\nnan\r\n", ",nan\r\n"},
		{"(12345678901234567890\r\n", `{"6269675f6e756d626572"="3132333435363738393031323334353637383930"}`, "$20\r\n12345678901234567890\r\n",
			"(12345678901234567890\r\n"},
		{"=7\r\ntxt:abc\r\n", `{"766572626174696d5f737472696e67"={"666f726d6174"="747874","737472696e67"="616263"}}`, "$3\r\nabc\r\n",
			"=7\r\ntxt:abc\r\n"},
		{"~2\r\n:1\r\n$1\r\na\r\n", `{"736574"={"61"=true,1=true}}`, "*2\r\n:1\r\n$1\r\na\r\n", "~2\r\n:1\r\n$1\r\na\r\n"},
		{"%1\r\n+k\r\n*2\r\n_\r\n:7\r\n", `{"6d6170"={{"6f6b"="6b"}={2=7}}}`, "*2\r\n+k\r\n*0\r\n", "%1\r\n+k\r\n*0\r\n"},
		{"*-1\r\n", `false`, ":0\r\n", "#f\r\n"},
		{"$-1\r\n", `false`, ":0\r\n", "#f\r\n"},
	} {
		caller := rawCaller{newFakeCaller(), c.reply}
		for proto, want := range map[int]string{2: c.resp2, 3: c.resp3} {
			got, _, err := e.Eval(nil, []byte("redis.setresp(3) return redis.call('x')"), nil, nil, caller, proto)
			if err != nil || string(got) != want {
				t.Errorf("%q in RESP%d: %q, %v, want %q", c.reply, proto, got, err, want)
			}
		}
		got, _, err := e.Eval(nil, []byte(helpers+"redis.setresp(3) return show(redis.call('x'))"), nil, nil, caller, 2)
		if want := appendBulk(nil, c.shown); err != nil || string(got) != string(want) {
			t.Errorf("%q is %q, %v, want %q", c.reply, got, err, want)
		}
	}
}

// TestPermissions asks for what the caller permits.
func TestPermissions(t *testing.T) {
	e := New(Options{})
	body := []byte("return {tostring(redis.acl_check_cmd('get', 'a')), tostring(redis.acl_check_cmd('incr', 'a'))}")
	for _, c := range []struct {
		caller Caller
		want   string
	}{
		{newFakeCaller(), "*2\r\n$4\r\ntrue\r\n$5\r\nfalse\r\n"},
		{struct{ Caller }{newFakeCaller()}, "*2\r\n$4\r\ntrue\r\n$4\r\ntrue\r\n"}, // no Permitter
	} {
		if got, _, err := e.Eval(nil, body, nil, nil, c.caller, 2); err != nil || string(got) != c.want {
			t.Errorf("%T: %q, %v, want %q", c.caller, got, err, c.want)
		}
	}
}

func BenchmarkLibraries(b *testing.B) {
	const job = `local job = {id = 'a1b2c3', attempts = 3, priority = 5.5, done = false, tags = {'x', 'y', 'z'}, args = {{n = 1}, {n = 2}}} `
	for name, body := range map[string]string{
		"cjson.encode":    job + "for i = 1, 100 do cjson.encode(job) end",
		"cjson.decode":    job + "local s = cjson.encode(job) for i = 1, 100 do cjson.decode(s) end",
		"cmsgpack.pack":   job + "for i = 1, 100 do cmsgpack.pack(job) end",
		"cmsgpack.unpack": job + "local s = cmsgpack.pack(job) for i = 1, 100 do cmsgpack.unpack(s) end",
		"struct.pack":     "for i = 1, 100 do struct.pack('>I4I2sd', i, 7, 'abcdef', 1.5) end",
		"bit.band":        "for i = 1, 100 do bit.band(i, 255) end",
	} {
		b.Run(name, func(b *testing.B) {
			e := New(Options{})
			sha := loaded(b, e, body)
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = e.EvalSHA(nil, sha, nil, nil, cannedCaller{}, 2)
			}
		})
	}
}
