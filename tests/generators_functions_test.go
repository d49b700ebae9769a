package tests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeq/internal/peer"
)

// functionsFamily has libraries of functions, calls of them, and scripts that say something about themselves. The names of
// libraries and functions are few, so that they collide. No function keeps anything in its library's variables, and none
// fails after a write: see docs/compatibility.md.
func functionsFamily() family {
	code := func(g *gen) []string { return []string{g.pick(libraries())} }
	payload := func(g *gen) []string { return []string{g.pick(functionPayloads())} }
	library := oneOf("a", "A", "b", "nosuch")
	function := oneOf("get", "GET", "set", "incr", "push", "keys", "pcall", "fail", "nosuch")
	policy := maybe(70, oneOf("FLUSH", "APPEND", "REPLACE", "replace", "BAD", "FLUSH x"))
	rest := func(g *gen) []string {
		if g.chance(5) {
			return []string{g.pick([]string{"-1", "abc", "99", ""}), "l1"}
		}
		n := 1 + g.rng.IntN(2)
		return append([]string{strconv.Itoa(n)}, seq(many(n, n, key), many(0, 3, value))(g)...)
	}
	script := func(g *gen) []string {
		first := g.pick([]string{"#!lua", "#!lua flags=no-writes", "#!lua flags=allow-oom,no-cluster", "#!lua flags=nosuch", "#!lua name=x", "#!js"})
		return []string{first + "\n" + g.pick(scripts())}
	}
	list := many(0, 3, oneOf("WITHCODE", "withcode", "LIBRARYNAME a", "LIBRARYNAME *", "libraryname [A-B]", "LIBRARYNAME", "x"))
	return family{name: "functions", keys: []string{"l1", "h1", "s1", "z1", "n1"}, rows: []row{
		{name: "FUNCTION LOAD", weight: 10, args: seq(maybe(50, oneOf("REPLACE", "replace", "x", "REPLACE REPLACE")), code), equal: collided, fixed: true},
		{name: "FUNCTION DELETE", weight: 3, args: library, equal: exact, fixed: true},
		{name: "FUNCTION FLUSH", weight: 1, args: maybe(50, oneOf("ASYNC", "SYNC", "BAD", "SYNC x")), equal: exact, fixed: true},
		{name: "FUNCTION LIST", weight: 6, args: list, equal: anyOrder, fixed: true},
		{name: "FUNCTION DUMP", weight: 3, args: none, equal: sameLength, fixed: true},
		{name: "FUNCTION RESTORE", weight: 5, args: seq(payload, policy), equal: collided, fixed: true},
		{name: "FUNCTION STATS", weight: 3, args: none, equal: exact, fixed: true},
		{name: "FCALL", weight: 30, args: seq(function, rest), equal: exact, fixed: true},
		{name: "FCALL_RO", weight: 10, args: seq(function, rest), equal: exact, fixed: true},
		{name: "EVAL", weight: 8, args: seq(script, rest), equal: compiled, fixed: true},
		{name: "EVAL_RO", weight: 6, args: seq(script, rest), equal: compiled, fixed: true},
	}}
}

// sameLength is for FUNCTION DUMP, whose libraries come in any order.
func sameLength(a, b peer.Reply) bool { return a.Kind == b.Kind && len(a.Str) == len(b.Str) }

// collided is exact but for the name that is taken, of several.
func collided(a, b peer.Reply) bool {
	for _, what := range []string{"ERR Function ", "ERR Library "} {
		const taken = " already exists"
		if strings.HasPrefix(a.Str, what) && strings.HasPrefix(b.Str, what) && strings.HasSuffix(a.Str, taken) && strings.HasSuffix(b.Str, taken) {
			return a.Kind == '-' && b.Kind == '-'
		}
	}
	return exact(a, b)
}

// anyOrder takes the elements of an array that has nothing but arrays or maps in any order, at each level.
func anyOrder(a, b peer.Reply) bool { return ordered(a) == ordered(b) }

// ordered writes a reply so that what anyOrder takes as equal gives equal text.
func ordered(r peer.Reply) string {
	parts, plain := make([]string, len(r.Elems)), false
	for i, e := range r.Elems {
		parts[i] = ordered(e)
		plain = plain || !strings.ContainsRune("*%~", rune(e.Kind))
	}
	if !plain {
		slices.Sort(parts)
	}
	return fmt.Sprintf("%c%v%q(%s)", r.Kind, r.Null, r.Str, strings.Join(parts, ","))
}

// functionBodies are by the names of functions what these do.
func functionBodies() map[string]string {
	return map[string]string{
		"get":   `function(k) return redis.call('GET', k[1]) end`,
		"set":   `function(k, a) return redis.call('SET', k[1], a[1] or 'x') end`,
		"incr":  `function(k) return redis.call('INCR', k[1]) end`,
		"push":  `function(k) return {redis.call('RPUSH', k[1], 1, 2), redis.call('LPOP', k[1]), redis.call('LLEN', k[1])} end`,
		"keys":  `function(...) return {...} end`,
		"pcall": `function(k) local r = redis.pcall('LLEN', k[1]) if type(r) == 'table' then return r.err end return r end`,
		"fail":  `function(k, a) local t = nil return t.x end`,
	}
}

// libraryOf writes a library with the functions of that names.
func libraryOf(name string, functions ...string) string {
	code := "#!lua name=" + name + "\n"
	for _, f := range functions {
		code += fmt.Sprintf("redis.register_function('%s', %s)\n", f, functionBodies()[strings.ToLower(f)])
	}
	return code
}

// libraries is what FUNCTION LOAD gets. Some of it is refused.
func libraries() []string {
	return []string{
		libraryOf("a", "get", "set"), libraryOf("a", "get", "keys", "fail"), libraryOf("A", "INCR"), libraryOf("A", "incr", "pcall"),
		libraryOf("b", "set", "push"), libraryOf("b", "push"), libraryOf("b", "pcall", "fail", "keys"),
		"#!lua name=b\nredis.register_function{function_name='get', callback=" + functionBodies()["get"] + ", flags={'no-writes'}, description='reads'}",
		"#!lua name=b\nredis.register_function{function_name='set', callback=" + functionBodies()["set"] + ", flags={'no-writes', 'allow-stale'}}",
		"#!lua name=b\nredis.register_function{function_name='push', callback=" + functionBodies()["push"] + ", flags={'no-cluster', 'allow-oom'}}",
		libraryOf("b", "get", "get"), libraryOf("a"), libraryOf("a-b", "get"), libraryOf("", "get"), "get", "#!lua\n", "#!js name=a\n",
		"#!lua name=a\nx = 1", "#!lua name=a\nnosuch()", "#!lua name=a\nredis.call('PING')", "#!lua name=a\nredis.register_function('get')",
	}
}

// functionPayloads is what FUNCTION RESTORE gets: what redis-server has replied to FUNCTION DUMP with a library "a" that has get,
// with libraries "A" and "b" that have keys and incr, and with none; and what it has never replied.
func functionPayloads() []string {
	return []string{
		"\n\x00]\x9b\\@\x0f\x7f\xa2\xda",
		"\xf5\xc3@W@\\\x1f#!lua name=a\nredis.register_func\x0btion('get', \xe0\x00\x0f\x08k) return \x06@1\x08call('GET $" +
			"\nk[1]) end)\n\n\x00\xc0\xf6\xe3/ \x98\xbb\x12",
		"\xf5@M#!lua name=A\nredis.register_function('keys', function(...) return {...} end)\n\xf5\xc3@Y@^\x1f#!lua name=b" +
			"\nredis.register_func\x0ction('incr', \xe0\x00\x10\x08k) return \x06@2\x09call('INCR %\nk[1]) end)\n\n\x00P\xde*" +
			"\x9a\x99_fP",
		"\xf5\xc3@W@\\\x1f#!lta name=a\nredis.register_func\x0btion('get', \xe0\x00\x0f\x08k) return \x06@1\x08call('GET $" +
			"\nk[1]) end)\n\n\x00\xc0\xf6\xe3/ \x98\xbb\x12",
		"\x00\x01x\n\x00\"\x80\x86_\xbd\xe8H\xd0",
		"\xf5\n\x00?\x97u!\x84\xd9\\\xa4",
		"short",
		"\xf5\x0cnot a librar\n\x00\x17^\xeb(\x1e\xe8\xe6\xf2",
	}
}
