package scripting

import (
	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

// The virtual machine coerces strings and reports errors in its own way, but asks the operands' metatables first, and types
// other than tables can have metatables too. So the types below get metatables whose metamethods coerce as
// Redis' Lua does and raise its errors, with the name of the variable. Scripts do not see these metatables.

// installOperators sets the hidden metatables of all types but tables.
func (st *state) installOperators() {
	L := st.L
	common := L.NewTable()
	methods := map[string]lua.LGFunction{"__newindex": indexError, "__call": callError, "__len": lengthError, "__lt": compareError,
		"__le": compareError}
	for event, operator := range map[string]byte{"__add": '+', "__sub": '-', "__mul": '*', "__div": '/', "__mod": '%', "__pow": '^'} {
		methods[event] = arithmetic(event, operator)
	}
	for event, method := range methods {
		common.RawSetString(event, L.NewFunction(method))
	}
	plain := copyTable(L, common)
	plain.RawSetString("__index", L.NewFunction(indexError))
	for _, v := range []lua.LValue{lua.LNil, lua.LTrue, L.NewFunction(indexError), L} {
		L.SetMetatable(v, plain)
	}
	st.null.Metatable = plain
	// Numbers and strings take part in arithmetic and comparison without help.
	number := L.NewTable()
	number.RawSetString("__index", L.NewFunction(indexError))
	number.RawSetString("__newindex", L.NewFunction(indexError))
	number.RawSetString("__call", L.NewFunction(callError))
	number.RawSetString("__len", L.NewFunction(lengthError))
	L.SetMetatable(lua.LNumber(0), number)
	text := copyTable(L, common)
	text.RawSetString("__index", st.strings)
	L.SetMetatable(lua.LString(""), text)
}

func copyTable(L *lua.LState, from *lua.LTable) *lua.LTable {
	to := L.NewTable()
	from.ForEach(func(k, v lua.LValue) { to.RawSet(k, v) })
	return to
}

func indexError(L *lua.LState) int {
	fn, pc, ok := callSite(L)
	operand := 256
	if ok {
		switch inst := fn.Proto.Code[pc]; opcode(inst) {
		case lua.OP_GETTABLE, lua.OP_GETTABLEKS, lua.OP_SELF:
			operand = argB(inst)
		case lua.OP_SETTABLE, lua.OP_SETTABLEKS:
			operand = argA(inst)
		}
	}
	raise(L, "attempt to index %s", variable(fn, pc, operand, L.Get(1)))
	return 0
}

func callError(L *lua.LState) int {
	fn, pc, ok := callSite(L)
	operand := 256
	if ok {
		if inst := fn.Proto.Code[pc]; opcode(inst) != lua.OP_TFORLOOP {
			operand = argA(inst)
		}
	}
	raise(L, "attempt to call %s", variable(fn, pc, operand, L.Get(1)))
	return 0
}

func lengthError(L *lua.LState) int {
	fn, pc, ok := callSite(L)
	operand := 256
	if ok && opcode(fn.Proto.Code[pc]) == lua.OP_LEN {
		operand = argB(fn.Proto.Code[pc])
	}
	raise(L, "attempt to get length of %s", variable(fn, pc, operand, L.Get(1)))
	return 0
}

func compareError(L *lua.LState) int {
	raise(L, "%s", orderText(L.Get(1), L.Get(2)))
	return 0
}

func orderText(a, b lua.LValue) string {
	if a.Type() == b.Type() {
		return "attempt to compare two " + typeName(a) + " values"
	}
	return "attempt to compare " + typeName(a) + " with " + typeName(b)
}

// arithmetic is the metamethod that strings and the types without arithmetic share.
func arithmetic(event string, operator byte) lua.LGFunction {
	return func(L *lua.LState) int {
		a, okA := toNumber(L.Get(1))
		b, okB := toNumber(L.Get(2))
		if !okA || !okB {
			return overloaded(L, event)
		}
		L.Push(lua.LNumber(luaparse.Compute(operator, a, b)))
		return 1
	}
}

// operator is the helper behind an operator.
func operator(operator byte, event string) lua.LGFunction {
	otherwise := arithmetic(event, operator)
	return func(L *lua.LState) int {
		a, okA := L.Get(1).(lua.LNumber)
		b, okB := L.Get(2).(lua.LNumber)
		if okA && okB {
			L.Push(lua.LNumber(luaparse.Compute(operator, float64(a), float64(b))))
			return 1
		}
		if t, ok := L.Get(1).(*lua.LTable); ok {
			if method := L.GetMetaField(t, event); method != lua.LNil {
				return callMethod(L, method, t, L.Get(2))
			}
		}
		return otherwise(L)
	}
}

// negative is the helper behind the unary minus.
func negative(L *lua.LState) int {
	v := L.Get(1)
	if t, ok := v.(*lua.LTable); ok {
		if method := L.GetMetaField(t, "__unm"); method != lua.LNil {
			return callMethod(L, method, t, t)
		}
	}
	n, ok := toNumber(v)
	if !ok {
		arithmeticError(L, v, v)
	}
	L.Push(lua.LNumber(-n))
	return 1
}

func callMethod(L *lua.LState, method, a, b lua.LValue) int {
	L.Push(method)
	L.Push(a)
	L.Push(b)
	L.Call(2, 1)
	return 1
}

// overloaded calls the right operand's metamethod when a table stands there: the machine came here because it asks the left
// operand, a string, first.
func overloaded(L *lua.LState, event string) int {
	a, b := L.Get(1), L.Get(2)
	if t, ok := b.(*lua.LTable); ok {
		if method := L.GetMetaField(t, event); method != lua.LNil {
			return callMethod(L, method, a, b)
		}
	}
	arithmeticError(L, a, b)
	return 0
}

func arithmeticError(L *lua.LState, a, b lua.LValue) {
	culprit, left := a, true
	if _, ok := toNumber(a); ok {
		culprit, left = b, false
	}
	fn, pc, ok := callSite(L)
	operand := 256
	if ok {
		inst := fn.Proto.Code[pc]
		switch op := opcode(inst); {
		case op == lua.OP_CALL && left: // of a helper, whose arguments stand behind it
			operand = argA(inst) + 1
		case op == lua.OP_CALL:
			operand = argA(inst) + 2
		case op >= lua.OP_ADD && op <= lua.OP_POW && left:
			operand = argB(inst)
		case op >= lua.OP_ADD && op <= lua.OP_POW:
			operand = argC(inst)
		}
	}
	raise(L, "attempt to perform arithmetic on %s", variable(fn, pc, operand, culprit))
}

// concat is the helper behind `..`; it associates to the right, as the operator does.
func (st *state) concat(L *lua.LState) int {
	n := L.GetTop()
	size := 0
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			size += len(v)
		case lua.LNumber:
			size += 8
		default:
			return st.concatOverloaded(L, n)
		}
	}
	st.reserve(L, size)
	buf := st.scratch[:0]
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			buf = append(buf, v...)
		case lua.LNumber:
			buf = appendNumber(buf, float64(v), textDigits)
		}
	}
	st.keepScratch(buf)
	L.Push(lua.LString(buf))
	return 1
}

func (st *state) concatOverloaded(L *lua.LState, n int) int {
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		a, okA := toText(left)
		b, okB := toText(right)
		if okA && okB {
			st.reserve(L, len(a)+len(b))
			right = lua.LString(a + b)
			continue
		}
		method := L.GetMetaField(left, "__concat")
		if method == lua.LNil {
			method = L.GetMetaField(right, "__concat")
		}
		if method == lua.LNil {
			concatError(L, i, n, left, right)
		}
		callMethod(L, method, left, right)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

func concatError(L *lua.LState, i, n int, left, right lua.LValue) {
	culprit, position := left, i
	if _, ok := toText(left); ok {
		culprit, position = right, i+1
	}
	operand := 256
	fn, pc, ok := callSite(L)
	// Past the last operand the right side is an intermediate result, which has no name.
	if ok && (position < n || i == n-1) {
		operand = argA(fn.Proto.Code[pc]) + position
	}
	raise(L, "attempt to concatenate %s", variable(fn, pc, operand, culprit))
}

// loopBound is the helper behind the bounds of numeric loops.
func loopBound(what string) lua.LGFunction {
	return func(L *lua.LState) int {
		v := L.Get(1)
		if _, ok := v.(lua.LNumber); ok {
			return 1
		}
		n, ok := toNumber(v)
		if !ok {
			raise(L, "'for' %s must be a number", what)
		}
		L.Push(lua.LNumber(n))
		return 1
	}
}

func nothing(*lua.LState) int { return 0 }
