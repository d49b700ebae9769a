package scripting

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The levels of redis.log.
const (
	logDebug = iota
	logVerbose
	logNotice
	logWarning
)

func (st *state) redisLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"call":               func(L *lua.LState) int { return st.command(L, true) },
		"pcall":              func(L *lua.LState) int { return st.command(L, false) },
		"error_reply":        func(L *lua.LState) int { return st.singleField(L, "err") },
		"status_reply":       func(L *lua.LState) int { return st.singleField(L, "ok") },
		"sha1hex":            st.sha1hex,
		"log":                st.redisLog,
		"setresp":            st.setResp,
		"set_repl":           st.setRepl,
		"replicate_commands": func(L *lua.LState) int { L.Push(lua.LTrue); return 1 },
		"breakpoint":         func(L *lua.LState) int { L.Push(lua.LFalse); return 1 },
		"debug":              nothing,
		"acl_check_cmd":      st.aclCheckCmd,
	}
}

// errorTable makes the value that stands for an error: a table whose field err holds code and message.
func (st *state) errorTable(text string) *lua.LTable {
	code, message, hasCode := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	if !strings.HasPrefix(text, "-") {
		code, message = "ERR", text
	} else if !hasCode {
		code, message = "ERR", code
	}
	t := st.L.CreateTable(0, 1)
	t.RawSetString("err", lua.LString(code+" "+strings.Trim(message, "\r\n")))
	return t
}

// fail raises an error of a redis.* function: a table, so without position.
func (st *state) fail(L *lua.LState, text string) int {
	throw(L, st.errorTable(text))
	return 0
}

// command is redis.call and redis.pcall.
func (st *state) command(L *lua.LState, raises bool) int {
	text, ok := st.collect(L)
	if !ok {
		t := st.errorTable(text)
		if raises {
			throw(L, t)
		}
		L.Push(t)
		return 1
	}
	reply, err := st.caller.Call(st.reply[:0], st.resp, st.callArgs)
	clear(st.callArgs)
	if err != nil {
		st.abort(L, err)
	}
	st.reply = reply
	st.noteCall()
	st.admit(L, len(reply))
	st.work(L, callSteps+len(reply)/bytesPerStep)
	v := st.parseReply(L, reply)
	if raises && len(reply) > 0 && reply[0] == '-' {
		throw(L, v)
	}
	L.Push(v)
	return 1
}

// callSteps is what a command counts towards the next look at the clock.
const callSteps = 64

// collect copies the arguments of a command out of the stack.
func (st *state) collect(L *lua.LState) (message string, ok bool) {
	n := L.GetTop()
	if n == 0 {
		return "Please specify at least one argument for this redis lib call", false
	}
	bytes, ends := st.argBytes[:0], st.argEnds[:0]
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			st.admit(L, len(bytes)+len(v))
			bytes = append(bytes, v...)
		case lua.LNumber:
			bytes = appendArgument(bytes, float64(v))
		default:
			return "Lua redis lib command arguments must be strings or integers", false
		}
		ends = append(ends, len(bytes))
	}
	args, start := st.callArgs[:0], 0
	for _, end := range ends {
		args = append(args, bytes[start:end:end])
		start = end
	}
	st.argBytes, st.argEnds, st.callArgs = bytes, ends, args
	return "", true
}

func appendArgument(dst []byte, v float64) []byte { return appendNumber(dst, v, argumentDigits) }

func (st *state) singleField(L *lua.LState, field string) int {
	text, ok := L.Get(1).(lua.LString)
	if L.GetTop() != 1 || !ok {
		L.Push(st.errorTable("wrong number or type of arguments"))
		return 1
	}
	if field == "err" {
		if !strings.HasPrefix(string(text), "-") {
			text = "-" + text
		}
		L.Push(st.errorTable(string(text)))
		return 1
	}
	t := L.CreateTable(0, 1)
	t.RawSetString(field, text)
	L.Push(t)
	return 1
}

func (st *state) sha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		return st.fail(L, "wrong number of arguments")
	}
	text, _ := toText(L.Get(1))
	st.reserve(L, len(text))
	sum := sha1.Sum([]byte(text))
	L.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

func (st *state) redisLog(L *lua.LState) int {
	n := L.GetTop()
	if n < 2 {
		return st.fail(L, "redis.log() requires two arguments or more.")
	}
	number, ok := toNumber(L.Get(1))
	if !ok {
		return st.fail(L, "First argument must be a number (log level).")
	}
	level := toInt(number)
	if level < logDebug || level > logWarning {
		return st.fail(L, "Invalid debug level.")
	}
	if st.repeats() {
		return 0
	}
	var words []string
	for i := 2; i <= n; i++ {
		if text, ok := toText(L.Get(i)); ok {
			words = append(words, text)
		}
	}
	severity := slog.LevelDebug
	switch level {
	case logNotice:
		severity = slog.LevelInfo
	case logWarning:
		severity = slog.LevelWarn
	}
	st.e.opts.Logger.Log(context.Background(), severity, strings.Join(words, " "), "source", "script")
	return 0
}

func (st *state) setResp(L *lua.LState) int {
	if L.GetTop() != 1 {
		return st.fail(L, "redis.setresp() requires one argument.")
	}
	version, _ := toNumber(L.Get(1))
	if v := toInt(version); v == 2 || v == 3 {
		st.resp = v
		return 0
	}
	return st.fail(L, "RESP version must be 2 or 3.")
}

// setRepl checks its argument and changes nothing: effects are logged as a whole.
func (st *state) setRepl(L *lua.LState) int {
	if L.GetTop() != 1 {
		return st.fail(L, "redis.set_repl() requires two arguments.")
	}
	flags, _ := toNumber(L.Get(1))
	if toInt(flags)&^3 != 0 {
		return st.fail(L, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func (st *state) aclCheckCmd(L *lua.LState) int {
	if text, ok := st.collect(L); !ok {
		return st.fail(L, text)
	}
	known, permitted := true, true
	if p, ok := st.caller.(Permitter); ok {
		known, permitted = p.Permits(st.callArgs)
	}
	clear(st.callArgs)
	if !known {
		return st.fail(L, "Invalid command passed to redis.acl_check_cmd()")
	}
	L.Push(lua.LBool(permitted))
	return 1
}
