package scripting

import "codeq/scripting/lua"

// argError reports a bad argument of the running library function as the reference implementation does.
func argError(L *lua.Thread, n int, message string) {
	kind, name := L.Callee()
	switch kind {
	case "":
		name = "?"
	case "method":
		n--
		if n == 0 {
			L.Raise("calling '%s' on bad self (%s)", name, message)
		}
	}
	L.Raise("bad argument #%d to '%s' (%s)", n, name, message)
}

func typeError(L *lua.Thread, n int, want string) {
	got := "no value"
	if n <= L.Top() {
		got = L.Arg(n).Kind().String()
	}
	argError(L, n, want+" expected, got "+got)
}

// checkAny answers the argument, which must be there, even if it is nil.
func checkAny(L *lua.Thread, n int) lua.Value {
	if n > L.Top() {
		argError(L, n, "value expected")
	}
	return L.Arg(n)
}

func checkTable(L *lua.Thread, n int) *lua.Table {
	t := L.Arg(n).Table()
	if t == nil {
		typeError(L, n, "table")
	}
	return t
}

func checkFunction(L *lua.Thread, n int) *lua.Function {
	f := L.Arg(n).Function()
	if f == nil {
		typeError(L, n, "function")
	}
	return f
}

func checkString(L *lua.Thread, n int) string {
	s, ok := L.Arg(n).ToText()
	if !ok {
		typeError(L, n, "string")
	}
	return s
}

func optString(L *lua.Thread, n int, otherwise string) string {
	if L.Arg(n).IsNil() {
		return otherwise
	}
	return checkString(L, n)
}

func checkNumber(L *lua.Thread, n int) float64 {
	v, ok := L.Arg(n).ToNumber()
	if !ok {
		typeError(L, n, "number")
	}
	return v
}

// checkLong answers an argument that is a lua_Integer in the reference implementation.
func checkLong(L *lua.Thread, n int) int { return lua.ToInt(checkNumber(L, n)) }

func optLong(L *lua.Thread, n, otherwise int) int {
	if L.Arg(n).IsNil() {
		return otherwise
	}
	return checkLong(L, n)
}

// checkInt answers an argument that is an int in the reference implementation, which drops the upper half of what is larger.
func checkInt(L *lua.Thread, n int) int { return int(int32(checkLong(L, n))) }

func optInt(L *lua.Thread, n, otherwise int) int {
	if L.Arg(n).IsNil() {
		return otherwise
	}
	return checkInt(L, n)
}
