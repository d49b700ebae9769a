package scripting

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// where answers the position "user_script:3: " of the function at the level above the running library function, or
// nothing when that is no Lua function.
func where(L *lua.LState, level int) string {
	dbg, ok := L.GetStack(level)
	if !ok {
		return ""
	}
	if _, err := L.GetInfo("Sl", dbg, nil); err != nil || dbg.CurrentLine < 0 {
		return ""
	}
	return dbg.Source + ":" + strconv.Itoa(dbg.CurrentLine) + ": "
}

// raise raises an error at the position of the library function's caller.
func raise(L *lua.LState, format string, args ...any) {
	throw(L, lua.LString(where(L, 1)+fmt.Sprintf(format, args...)))
}

// throw raises a value as it is.
func throw(L *lua.LState, v lua.LValue) { L.Error(v, 0) }

// argError reports a bad argument of the running library function as the reference implementation does.
func argError(L *lua.LState, n int, message string) {
	kind, name := "", "?"
	if fn, pc, ok := callSite(L); ok {
		if k, s := describeRegister(fn.Proto, pc, argA(fn.Proto.Code[pc])); k != "" {
			kind, name = k, s
		}
	}
	if kind == "method" {
		n--
		if n == 0 {
			raise(L, "calling '%s' on bad self (%s)", name, message)
		}
	}
	raise(L, "bad argument #%d to '%s' (%s)", n, name, message)
}

func typeError(L *lua.LState, n int, want string) {
	got := "no value"
	if n <= L.GetTop() {
		got = typeName(L.Get(n))
	}
	argError(L, n, want+" expected, got "+got)
}

func typeName(v lua.LValue) string { return v.Type().String() }

// checkAny answers the argument, which must be there, even if it is nil.
func checkAny(L *lua.LState, n int) lua.LValue {
	if n > L.GetTop() {
		argError(L, n, "value expected")
	}
	return L.Get(n)
}

func checkTable(L *lua.LState, n int) *lua.LTable {
	t, ok := L.Get(n).(*lua.LTable)
	if !ok {
		typeError(L, n, "table")
	}
	return t
}

func checkFunction(L *lua.LState, n int) *lua.LFunction {
	f, ok := L.Get(n).(*lua.LFunction)
	if !ok {
		typeError(L, n, "function")
	}
	return f
}

func checkString(L *lua.LState, n int) string {
	switch v := L.Get(n).(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return numberText(v)
	}
	typeError(L, n, "string")
	return ""
}

func optString(L *lua.LState, n int, otherwise string) string {
	if L.Get(n) == lua.LNil {
		return otherwise
	}
	return checkString(L, n)
}

func checkNumber(L *lua.LState, n int) float64 {
	v, ok := toNumber(L.Get(n))
	if !ok {
		typeError(L, n, "number")
	}
	return v
}

func checkInt(L *lua.LState, n int) int { return toInt(checkNumber(L, n)) }

func optInt(L *lua.LState, n int, otherwise int) int {
	if L.Get(n) == lua.LNil {
		return otherwise
	}
	return checkInt(L, n)
}

// vmMessages maps the virtual machine's own error texts to the reference implementation's. They carry no variable names:
// where the machine offers a hook, operators.go raises the full text before the machine does.
var vmMessages = map[string]string{
	"attempt to call a non-function object":     "attempt to call a table value",
	"stack overflow":                            "stack overflow",
	"registry overflow":                         "stack overflow",
	"__len undefined":                           "attempt to get length of a userdata value",
	"for statement init must be a number":       "'for' initial value must be a number",
	"for statement limit must be a number":      "'for' limit must be a number",
	"for statement step must be a number":       "'for' step must be a number",
	"too many recursions in gettable":           "loop in gettable",
	"too many recursions in settable":           "loop in settable",
	"attempt to compare table with table":       "attempt to compare two table values",
	"attempt to compare userdata with userdata": "attempt to compare two userdata values",
}

// vmMessage rewrites an error text of the virtual machine; anything else passes unchanged.
func vmMessage(text string) string {
	i := strings.Index(text, ": ")
	if i < 0 {
		return text
	}
	position, message := text[:i+2], text[i+2:]
	if own, ok := vmMessages[message]; ok {
		return position + own
	}
	if rest, ok := strings.CutPrefix(message, "cannot perform "); ok {
		if _, operands, ok := strings.Cut(rest, " operation between "); ok {
			left, right, _ := strings.Cut(operands, " and ")
			if left == "number" || left == "string" {
				left = right
			}
			return position + "attempt to perform arithmetic on a " + left + " value"
		}
	}
	return text
}
