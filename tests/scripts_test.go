package tests

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// callFromScript calls the command that its arguments make, three times with a growing number of words behind the name where that does
// not end earlier, and tells of an error all that a script can see of it; of other replies only that there was one.
const callFromScript = `local out = {}
for extra = 0, 5 do
	local words = {unpack(ARGV)}
	for i = 1, extra do words[#words + 1] = ({'k', '1', '2', 'left', 'x'})[i] end
	local reply = redis.pcall(unpack(words))
	local seen = 'a reply'
	if type(reply) == 'table' and reply.err then
		local fields = {}
		for name, value in pairs(reply) do fields[#fields + 1] = name .. '=' .. tostring(value) end
		table.sort(fields)
		seen = table.concat(fields, ';')
	end
	out[#out + 1] = seen
end
return out`

// TestScriptsMayCall calls each command of Redis, and each subcommand, from a script with too few, enough and too many arguments, and wants the
// same to be refused in the same words.
func TestScriptsMayCall(t *testing.T) {
	redis, codeq := both(t)
	inBothProtocols(t, redis, codeq, func(p pair) {
		for _, name := range list(t, p.reference) {
			if name == "migrate" {
				continue // it is refused before its arguments are looked at
			}
			words := strings.Split(name, "|")
			for _, c := range []*peer.Conn{p.reference, p.subject} {
				call(t, c, "FLUSHALL")
				call(t, c, "RPUSH", "k", "1")
			}
			for _, script := range []string{"EVAL", "EVAL_RO"} {
				args := append([]string{script, callFromScript, "0"}, words...)
				want, got := call(t, p.reference, args...).Strings(), call(t, p.subject, args...).Strings()
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Errorf("RESP%d %s: %s with %d arguments: %q; Redis: %q", p.proto, script, name, i, got[i:], want[i])
						break
					}
				}
			}
		}
	})
}

// scriptCalls are pipelines whose replies are equal byte for byte. A word that is sha(…) stands for the SHA1 of that script, and SHA(…)
// for the same in upper case.
func scriptCalls() [][][]string {
	const (
		get = "return redis.call('get', KEYS[1])"
		// A key whose time comes while the script runs is there until it ends.
		expires = "redis.call('set', 'soon', 'v', 'px', 1) for i = 1, 500000 do end " +
			"return {redis.call('get', 'soon'), redis.call('exists', 'soon')}"
		shows = "local r = redis.pcall(unpack(ARGV)) local t = {} for k, v in pairs(r) do t[#t + 1] = k .. '=' .. tostring(v) end " +
			"table.sort(t) return t"
	)
	one := func(words ...string) [][]string { return [][]string{words} }
	return [][][]string{
		{{"SET", "k", "v"}, {"EVAL", get, "1", "k"}, {"EVALSHA", "sha(" + get + ")", "1", "k"}},
		{{"EVALSHA", "SHA(" + get + ")", "1", "k"}, {"EVALSHA_RO", "SHA(" + get + ")", "1", "k"}},
		{{"SCRIPT", "EXISTS", "sha(" + get + ")", "SHA(" + get + ")", "sha(x)", "short"}, {"SCRIPT", "EXISTS"}},
		{{"SCRIPT", "FLUSH"}, {"EVALSHA", "sha(" + get + ")", "1", "k"}, {"SCRIPT", "EXISTS", "sha(" + get + ")"}},
		{{"EVALSHA", "sha(" + get + ")", "x"}, {"EVALSHA", "short", "0"}, {"EVALSHA", "sha(" + get + ")"}, {"EVAL", get, "-1"}, {"EVAL", get, "2", "k"}},
		{{"SCRIPT", "LOAD", get}, {"EVALSHA", "sha(" + get + ")", "1", "k"}, {"SCRIPT", "FLUSH", "ASYNC"}, {"SCRIPT", "FLUSH", "SYNC"}},
		{{"SCRIPT", "FLUSH", "x"}, {"SCRIPT", "FLUSH", "SYNC", "x"}, {"SCRIPT", "LOAD"}, {"SCRIPT", "LOAD", "return 'x"}, {"SCRIPT"}},
		{{"SCRIPT", "x"}, {"SCRIPT", "KILL"}, {"SCRIPT", "HELP", "x"}}, one("SCRIPT", "DEBUG", "NO"),
		{{"MULTI"}, {"EVALSHA", "sha(return 1)", "0"}, {"SET", "k", "w"}, {"EVAL", "return 1", "0"}, {"EVALSHA", "sha(return 1)", "0"}, {"EXEC"}},
		{{"MULTI"}, {"SCRIPT", "LOAD", "return 2"}, {"EVALSHA", "sha(return 2)", "0"}, {"SCRIPT", "FLUSH"}, {"EVALSHA", "sha(return 2)", "0"}, {"EXEC"}},
		{{"MULTI"}, {"EVAL", "return redis.call('incr', 'n')", "0"}, {"EVAL", "return redis.pcall('incr', 'k')", "0"}, {"GET", "n"}, {"EXEC"}},
		one("EVAL", expires, "0"), one("EXISTS", "soon"),
		// Keys that are made up, in another database, and names that are none of the script's business.
		{{"EVAL", "for i = 1, 20 do redis.call('set', 'u' .. i, i) end return redis.call('mget', 'u1', 'u9', 'u20', 'u21')", "0"}, {"DBSIZE"}},
		{{"EVAL", "redis.call('select', 5) return redis.call('set', 'k', 'five')", "0"}, {"GET", "k"}, {"SELECT", "5"}, {"GET", "k"}, {"SELECT", "0"}},
		// What a script tells and is told.
		one("EVAL", "return {1.9, -1.9, true, false, 'x', {ok = 'fine'}, {err = 'bad news'}}", "0"),
		one("EVAL", "return {1, nil, 3}", "0"), one("EVAL", "return {1, false, 3}", "0"), one("EVAL", "return {}", "0"),
		one("EVAL", "return {double = 3.5}", "0"), one("EVAL", "return {map = {a = 1}}", "0"), one("EVAL", "return {set = {a = true}}", "0"),
		one("EVAL", "return {big_number = '123'}", "0"), one("EVAL", "return {verbatim_string = {format = 'txt', string = 'x'}}", "0"),
		one("EVAL", "redis.setresp(3) return redis.call('hgetall', 'none')", "0"),
		{{"ZADD", "z", "1.5", "m"}, {"EVAL", "redis.setresp(3) return redis.call('zscore', 'z', 'm')", "0"}, {"EVAL", "return redis.call('zscore', 'z', 'm')", "0"}},
		{{"HSET", "h", "f", "v"}, {"EVAL", "redis.setresp(3) local r = redis.call('hgetall', 'h') return {type(r.map), r.map.f}", "0"}},
		{{"EVAL", "redis.setresp(3) return 1", "0"}, {"EVAL", "return redis.call('hgetall', 'h')", "0"}}, // it ends with the script
		one("EVAL", "redis.setresp(4)", "0"), one("EVAL", "redis.setresp()", "0"), one("EVAL", "redis.setresp('x')", "0"),
		one("EVAL", "return redis.error_reply('NOT FOUND')", "0"), one("EVAL", "return redis.error_reply('short')", "0"),
		one("EVAL", "return redis.error_reply('-CODE text')", "0"), one("EVAL", "return {err = 'MY text', more = 1, source = 's', line = '7'}", "0"),
		one("EVAL", "return {err = 'x', ignore_error_stats_update = true}", "0"), one("EVAL", "error({err = 'MY thrown', line = '9'})", "0"),
		one("EVAL", "error('plain')", "0"), one("EVAL", "error()", "0"),
		one("EVAL", "return redis.call('incr', 'h')", "0"), one("EVAL", "return redis.pcall('incr', 'h')", "0"),
		one("EVAL", shows, "0", "incr", "h"), one("EVAL", shows, "0", "nosuch"), one("EVAL", shows, "0", "get"), one("EVAL", shows, "0", "incr", "k"),
		one("EVAL", "local r = redis.pcall('incr', 'h') error(r)", "0"), one("EVAL", "\n\nlocal x = nil + 1", "0"),
		one("EVAL", "return tostring(pcall(redis.call, 'incr', 'h'))", "0"),
		one("EVAL", "local ok, e = pcall(redis.call, 'incr', 'h') return {tostring(ok), type(e), e.err, e.source, e.line}", "0"),
		// The sandbox.
		one("EVAL", "x = 1", "0"), one("EVAL", "return x", "0"), one("EVAL", "redis.call = nil", "0"), one("EVAL", "string.x = 1", "0"),
		one("EVAL", "getmetatable('').__index = nil", "0"), one("EVAL", "setmetatable(_G, {})", "0"), one("EVAL", "rawset(_G, 'x', 1)", "0"),
		one("EVAL", "return tostring(getmetatable(_G) ~= nil)", "0"), one("EVAL", "return type(os.exit) .. type(os.clock) .. type(io) .. type(require)", "0"),
		one("EVAL", "return {type(print), type(dofile), type(loadfile), type(module), type(package), type(debug)}", "0"),
		one("EVAL", "table.insert(redis, 1)", "0"), one("EVAL", "cjson.encode = 1", "0"), one("EVAL", "KEYS[1] = 'mine' return KEYS[1]", "0"),
		one("EVAL", "return {type(KEYS), type(ARGV), #KEYS, #ARGV}", "1", "a", "b"),
		// Flags.
		one("EVAL", "#!lua flags=no-writes\nreturn redis.call('set', 'k', 'v')", "0"), one("EVAL_RO", "return redis.call('set', 'k', 'v')", "0"),
		one("EVAL", "#!lua flags=no-writes,allow-stale,allow-oom,no-cluster,allow-cross-slot-keys\nreturn 1", "0"),
		one("EVAL", "#!lua flags=nosuch\nreturn 1", "0"), one("EVAL", "#!lua name=x\nreturn 1", "0"), one("EVAL", "#!python\nreturn 1", "0"),
		one("EVAL_RO", "#!lua\nreturn 1", "0"), one("EVAL", "#!lua", "0"), one("EVAL", "#!", "0"),
		one("EVAL", "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}", "0"),
		one("EVAL", "return {redis.breakpoint(), redis.replicate_commands(), redis.set_repl(redis.REPL_NONE)}", "0"),
		one("EVAL", "redis.debug('x') return redis.acl_check_cmd('set', 'a', 'b')", "0"), one("EVAL", "return redis.acl_check_cmd('nosuch')", "0"),
		one("EVAL", "redis.log(redis.LOG_DEBUG, 'x') return redis.sha1hex('')", "0"), one("EVAL", "redis.log(9, 'x')", "0"), one("EVAL", "redis.log()", "0"),
		one("EVAL", "local t = {} for i = 1, 7999 do t[i] = 'v' .. i end return redis.call('rpush', 'many', unpack(t))", "0"),
		one("EVAL", "local t = {} for i = 1, 8000 do t[i] = 'v' .. i end return redis.call('rpush', 'many', unpack(t))", "0"),
	}
}

// withDigests puts the SHA1 of scripts in the place of what stands for them.
func withDigests(words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		name, rest, _ := strings.Cut(word, "(")
		if !strings.EqualFold(name, "sha") {
			continue
		}
		sum := sha1.Sum([]byte(strings.TrimSuffix(rest, ")")))
		words[i] = hex.EncodeToString(sum[:])
		if name == "SHA" {
			words[i] = strings.ToUpper(words[i])
		}
	}
	return words
}

// TestScriptsAsRedis compares EVAL and its kin, in pipelines, with Redis.
func TestScriptsAsRedis(t *testing.T) {
	redis, codeq := both(t)
	inBothProtocols(t, redis, codeq, func(p pair) {
		for _, c := range []*peer.Conn{p.reference, p.subject} {
			call(t, c, "FLUSHALL")
			call(t, c, "SCRIPT", "FLUSH")
		}
		for _, pipeline := range scriptCalls() {
			var bytesOf []byte
			for _, words := range pipeline {
				bytesOf = peer.AppendCommand(bytesOf, withDigests(words)...)
			}
			for _, c := range []*peer.Conn{p.reference, p.subject} {
				if err := c.Write(bytesOf); err != nil {
					t.Fatal(err)
				}
			}
			for _, words := range pipeline {
				want, err := p.reference.Read()
				if err != nil {
					t.Fatal(err)
				}
				if got, err := p.subject.Read(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("RESP%d %.150q: %.300q, %v; Redis: %.300q", p.proto, words, got, err, want)
				}
			}
		}
	})
}

// TestClockOfScripts checks that TIME and a key's time to live do not move while a script runs. In Redis they do.
func TestClockOfScripts(t *testing.T) {
	if !targeted(peer.Codeq) {
		t.Skip("tests codeq")
	}
	c := peer.ForTest(t, codeqTarget(4, "hash", "everysec").opts).DialForTest(t)
	const still = "redis.call('set', 'soon', 'v', 'px', 1) local a = redis.call('time') for i = 1, 500000 do end local b = redis.call('time') " +
		"return {tostring(a[1] == b[1] and a[2] == b[2]), redis.call('pttl', 'soon'), redis.call('get', 'soon')}"
	if got := call(t, c, "EVAL", still, "0"); text(got.Elems) != text([]peer.Reply{{Kind: '$', Str: "true"}, {Kind: ':', Str: "1"}, {Kind: '$', Str: "v"}}) {
		t.Errorf("got %q", text(got.Elems))
	}
}
