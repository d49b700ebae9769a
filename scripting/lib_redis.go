package scripting

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"strings"

	"codeq/scripting/lua"
)

// The levels of redis.log.
const (
	logDebug = iota
	logVerbose
	logNotice
	logWarning
)

func (st *state) redisLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"call":               func(L *lua.Thread) int { return st.command(L, true) },
		"pcall":              func(L *lua.Thread) int { return st.command(L, false) },
		"error_reply":        st.errorReply,
		"status_reply":       statusReply,
		"sha1hex":            st.sha1hex,
		"log":                st.redisLog,
		"setresp":            st.setResp,
		"set_repl":           setRepl,
		"replicate_commands": func(L *lua.Thread) int { L.Push(lua.True); return 1 },
		"breakpoint":         func(L *lua.Thread) int { L.Push(lua.False); return 1 },
		"debug":              func(*lua.Thread) int { return 0 },
		"acl_check_cmd":      st.aclCheckCmd,
	}
}

// errorTable makes the value that stands for an error: a table whose field err holds code and message. The code comes behind a "-", or is ERR.
func errorTable(text string) *lua.Table {
	text = cString(text)
	if coded, ok := strings.CutPrefix(text, "-"); ok {
		return codedError(coded)
	}
	return field("err", lua.String("ERR "+strings.Trim(text, "\r\n")))
}

// codedError is errorTable for a text that begins with its code, unless it is a single word. It is not copied if it can stay as it is.
func codedError(text string) *lua.Table {
	code, message, ok := strings.Cut(text, " ")
	if !ok {
		code, message = "ERR", text
	}
	if trimmed := strings.Trim(message, "\r\n"); !ok || len(trimmed) < len(message) {
		text = code + " " + trimmed
	}
	return field("err", lua.String(text))
}

// field makes a table of one field.
func field(name string, v lua.Value) *lua.Table {
	t := lua.NewTable(0, 1)
	t.SetText(name, v)
	return t
}

// fail raises an error of a redis.* function: a table, so without position.
func fail(L *lua.Thread, text string) int {
	L.Throw(errorTable(text).Value())
	return 0
}

// command is redis.call and redis.pcall.
func (st *state) command(L *lua.Thread, raises bool) int {
	text, ok := st.collect(L)
	if !ok {
		v := errorTable(text).Value()
		if raises {
			L.Throw(v)
		}
		L.Push(v)
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
		L.Throw(v)
	}
	L.Push(v)
	return 1
}

// callSteps is what a command counts towards the next look at the clock.
const callSteps = 64

// collect copies the arguments of a command out of the stack.
func (st *state) collect(L *lua.Thread) (message string, ok bool) {
	n := L.Top()
	if n == 0 {
		return "Please specify at least one argument for this redis lib call", false
	}
	bytes, ends := st.argBytes[:0], st.argEnds[:0]
	for i := 1; i <= n; i++ {
		v := L.Arg(i)
		if text, ok := v.Text(); ok {
			st.admit(L, len(bytes)+len(text))
			bytes = append(bytes, text...)
		} else if number, ok := v.Float(); ok {
			bytes = lua.AppendNumber(bytes, number, lua.ArgumentDigits)
		} else {
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

// errorReply is redis.error_reply.
func (st *state) errorReply(L *lua.Thread) int {
	text, ok := onlyText(L)
	if !ok {
		L.Push(errorTable(text).Value())
		return 1
	}
	st.reserve(L, len(text))
	L.Push(codedError(strings.TrimPrefix(cString(text), "-")).Value())
	return 1
}

// statusReply is redis.status_reply.
func statusReply(L *lua.Thread) int {
	text, ok := onlyText(L)
	if ok {
		L.Push(field("ok", lua.String(text)).Value())
	} else {
		L.Push(errorTable(text).Value())
	}
	return 1
}

// onlyText answers the only argument, which must be a string, or what is wrong.
func onlyText(L *lua.Thread) (text string, ok bool) {
	if text, ok = L.Arg(1).Text(); ok && L.Top() == 1 {
		return text, true
	}
	return "wrong number or type of arguments", false
}

func (st *state) sha1hex(L *lua.Thread) int {
	if L.Top() != 1 {
		return fail(L, "wrong number of arguments")
	}
	text, _ := L.Arg(1).ToText()
	st.reserve(L, len(text))
	sum := sha1.Sum([]byte(text))
	L.Push(lua.String(hex.EncodeToString(sum[:])))
	return 1
}

func (st *state) redisLog(L *lua.Thread) int {
	n := L.Top()
	if n < 2 {
		return fail(L, "redis.log() requires two arguments or more.")
	}
	number, ok := L.Arg(1).ToNumber()
	if !ok {
		return fail(L, "First argument must be a number (log level).")
	}
	level := lua.ToInt(number)
	if level < logDebug || level > logWarning {
		return fail(L, "Invalid debug level.")
	}
	if st.repeats() {
		return 0
	}
	var words []string
	for i := 2; i <= n; i++ {
		if text, ok := L.Arg(i).ToText(); ok {
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

func (st *state) setResp(L *lua.Thread) int {
	if L.Top() != 1 {
		return fail(L, "redis.setresp() requires one argument.")
	}
	version, _ := L.Arg(1).ToNumber()
	if v := lua.ToInt(version); v == 2 || v == 3 {
		st.resp = v
		return 0
	}
	return fail(L, "RESP version must be 2 or 3.")
}

// setRepl checks its argument and changes nothing: effects are logged as a whole.
func setRepl(L *lua.Thread) int {
	if L.Top() != 1 {
		return fail(L, "redis.set_repl() requires two arguments.")
	}
	flags, _ := L.Arg(1).ToNumber()
	if lua.ToInt(flags)&^3 != 0 {
		return fail(L, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func (st *state) aclCheckCmd(L *lua.Thread) int {
	if text, ok := st.collect(L); !ok {
		return fail(L, text)
	}
	known, permitted := true, true
	if p, ok := st.caller.(Permitter); ok {
		known, permitted = p.Permits(st.callArgs)
	}
	clear(st.callArgs)
	if !known {
		return fail(L, "Invalid command passed to redis.acl_check_cmd()")
	}
	L.Push(lua.Bool(permitted))
	return 1
}
