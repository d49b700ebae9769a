package scripting

import (
	"codeq/scripting/lua"
)

func (st *state) coroutineLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"create":  createCoroutine,
		"resume":  st.resumeCoroutine,
		"running": runningCoroutine,
		"status":  coroutineStatus,
		"wrap":    st.wrapCoroutine,
		"yield":   func(L *lua.Thread) int { return L.Yield(L.Top()) },
	}
}

func checkThread(L *lua.Thread, n int) *lua.Thread {
	thread := L.Arg(n).Thread()
	if thread == nil {
		argError(L, n, "coroutine expected")
	}
	return thread
}

func createCoroutine(L *lua.Thread) int {
	L.Push(newCoroutine(L).Value())
	return 1
}

// newCoroutine makes a coroutine of the first argument.
func newCoroutine(L *lua.Thread) *lua.Thread {
	fn := L.Arg(1).Function()
	if fn == nil || fn.IsGo() {
		argError(L, 1, "Lua function expected")
	}
	return L.Runtime().NewThread(fn)
}

func (st *state) resumeCoroutine(L *lua.Thread) int {
	co := checkThread(L, 1)
	n, thrown := st.resume(L, co, L.Top()-1)
	if thrown == nil {
		L.Insert(L.Top()-n+1, lua.True)
		return n + 1
	}
	L.Push(lua.False)
	L.Push(thrown.Value)
	return 2
}

// resume resumes a coroutine with so many values from the stack, and leaves on it what that has yielded or returned.
func (st *state) resume(L, co *lua.Thread, nargs int) (nresults int, thrown *lua.Error) {
	if status := co.Status(L); status != "suspended" {
		return 0, &lua.Error{Value: lua.String("cannot resume " + status + " coroutine")}
	}
	st.work(L, 1)
	nresults, thrown = L.Resume(co, nargs)
	st.unwind(L)
	return nresults, thrown
}

func coroutineStatus(L *lua.Thread) int {
	L.Push(lua.String(checkThread(L, 1).Status(L)))
	return 1
}

// runningCoroutine answers the coroutine that runs, nil in the main thread.
func runningCoroutine(L *lua.Thread) int {
	if L == L.Runtime().Main() {
		L.Push(lua.Nil)
	} else {
		L.Push(L.Value())
	}
	return 1
}

// wrapCoroutine makes a function that resumes a coroutine. An error's text begins with the position of the function's caller.
func (st *state) wrapCoroutine(L *lua.Thread) int {
	co := newCoroutine(L)
	resume := func(L *lua.Thread) int {
		n, thrown := st.resume(L, co, L.Top())
		if thrown == nil {
			return n
		}
		if text, ok := thrown.Value.ToText(); ok {
			st.raiseText(L, 1, text)
		}
		L.Throw(thrown.Value)
		return 0
	}
	L.Push(lua.NewFunction(resume, co.Value()).Value())
	return 1
}
