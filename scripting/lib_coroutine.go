package scripting

import (
	lua "github.com/yuin/gopher-lua"
)

// The machine's coroutines are kept, inside functions that count them, hand the run's step counter to
// each, and report errors as Lua 5.1 does. A state that has run coroutines is not used again.
func (st *state) coroutineLibrary() map[string]lua.LGFunction {
	native := func(name string) lua.LGFunction {
		st.L.Push(st.L.NewFunction(lua.OpenCoroutine))
		st.L.Call(0, 1)
		module := st.L.Get(-1).(*lua.LTable)
		st.L.Pop(1)
		return module.RawGetString(name).(*lua.LFunction).GFunction
	}
	c := coroutines{st, native("create"), native("resume")}
	return map[string]lua.LGFunction{
		"create":  c.create,
		"resume":  c.resume,
		"running": c.running,
		"status":  c.status,
		"wrap":    c.wrap,
		"yield":   c.yield,
	}
}

type coroutines struct {
	st                         *state
	nativeCreate, nativeResume lua.LGFunction
}

func checkThread(L *lua.LState, n int) *lua.LState {
	thread, ok := L.Get(n).(*lua.LState)
	if !ok {
		argError(L, n, "coroutine expected")
	}
	return thread
}

func (c coroutines) create(L *lua.LState) int {
	if fn, ok := L.Get(1).(*lua.LFunction); !ok || fn.IsG {
		argError(L, 1, "Lua function expected")
	}
	c.st.coroutines++
	c.st.tainted = true
	if c.st.coroutines > c.st.e.opts.MaxCoroutines {
		raise(L, "too many coroutines")
	}
	n := c.nativeCreate(L)
	L.Get(-1).(*lua.LState).SetContext(c.st)
	return n
}

func (c coroutines) resume(L *lua.LState) int {
	thread := checkThread(L, 1)
	if message := c.unresumable(L, thread); message != "" {
		L.Push(lua.LFalse)
		L.Push(lua.LString(message))
		return 2
	}
	c.st.enter(L)
	n := c.nativeResume(L)
	L.G.CurrentThread = c.st.visible(L) // the machine takes L itself
	c.st.leave()
	c.st.work(L, 1)
	if first := L.GetTop() - n + 1; n == 2 && L.Get(first) == lua.LFalse {
		if text, ok := L.Get(-1).(lua.LString); ok {
			L.Replace(L.GetTop(), lua.LString(vmMessage(string(text))))
		}
	}
	return n
}

// unresumable tells why a thread cannot be resumed, if it can't.
func (c coroutines) unresumable(L, thread *lua.LState) string {
	if status := c.statusOf(L, thread); status != "suspended" {
		return "cannot resume " + status + " coroutine"
	}
	return ""
}

// statusOf is the status of a thread to the one that runs, L.
func (c coroutines) statusOf(L, thread *lua.LState) string {
	if thread.Dead {
		return "dead"
	}
	status := "running"
	for L = c.st.visible(L); L != nil; L = c.st.visible(L.Parent) {
		if L == thread {
			return status
		}
		status = "normal"
	}
	return "suspended"
}

func (c coroutines) status(L *lua.LState) int {
	L.Push(lua.LString(c.statusOf(L, checkThread(L, 1))))
	return 1
}

// running answers the coroutine that runs, nil in the main thread.
func (c coroutines) running(L *lua.LState) int {
	if L = c.st.visible(L); L == L.G.MainThread {
		L.Push(lua.LNil)
	} else {
		L.Push(L)
	}
	return 1
}

func (c coroutines) wrap(L *lua.LState) int {
	c.create(L)
	thread := L.Get(-1).(*lua.LState)
	resume := func(L *lua.LState) int {
		L.Insert(thread, 1)
		n := c.resume(L)
		first := L.GetTop() - n + 1
		if L.Get(first) == lua.LFalse {
			v := L.Get(-1)
			if text, ok := v.(lua.LString); ok {
				v = lua.LString(where(L, 1) + string(text))
			}
			throw(L, v)
		}
		return n - 1
	}
	L.Push(L.NewClosure(resume, thread)) // as an upvalue, for what a run holds is counted by what its values refer to
	return 1
}

// yieldLevels is how many calls are looked at before a yield, whose cost grows with their square.
const yieldLevels = 100

// resumable tells whether the machine can come back to what runs on L, as far as it is looked at: it can where Lua functions called each
// other, but not into a library function that called back, an iterator or a metamethod.
func resumable(L *lua.LState) bool {
	if L.Parent == nil {
		return false
	}
	for level := range yieldLevels {
		caller, pc, ok := callSiteAt(L, level)
		switch {
		case caller == nil:
			return true
		case caller.IsG:
			return false
		case ok && opcode(caller.Proto.Code[pc]) == lua.OP_TAILCALL:
			// The machine loses its place when a coroutine's own function ends with a yield; see returnYields.
			if _, below := L.GetStack(level + 2); level == 0 && !below {
				return false
			}
		case ok && opcode(caller.Proto.Code[pc]) != lua.OP_CALL:
			return false
		case ok:
		case level == 0: // the machine names the call of any library function, but for a metamethod
			return false
		}
	}
	return true
}

func (c coroutines) yield(L *lua.LState) int {
	if !resumable(L) {
		throw(L, lua.LString("attempt to yield across metamethod/C-call boundary"))
	}
	return -1
}
