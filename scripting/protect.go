package scripting

import (
	lua "github.com/yuin/gopher-lua"
)

// An error that is raised on a thread makes the machine close the upvalues of all of the thread's frames, those below the
// protected call included: the functions around it would go on with copies of the local variables that they share. So a protected
// call runs on a thread of its own, whose frames are just those that the error ends. Scripts do not see these threads: to them the
// host, which is the thread that called pcall, goes on running.

const (
	// maxNestedCalls bounds library functions that call back into Lua, which nest on the Go stack.
	maxNestedCalls = 199
	// maxIdleThreads bounds the threads for protected calls that a state keeps.
	maxIdleThreads = 2
)

// protection is what a state knows of its protected calls.
type protection struct {
	nested int                         // library functions that have called back into Lua and not returned
	hosts  map[*lua.LState]*lua.LState // by the thread of a protected call that goes on
	idle   []*lua.LState
}

// enter and leave count library functions that call back into Lua and nest on the Go stack.
func (st *state) enter(L *lua.LState) {
	if st.nested >= maxNestedCalls {
		raise(L, "C stack overflow")
	}
	st.nested++
}

func (st *state) leave() { st.nested-- }

// protected calls the function below its arguments at the stack's top and answers what was raised, if anything was.
// A run that must stop goes on unwinding.
func (st *state) protected(L *lua.LState, nargs int) (raised lua.LValue, ok bool) {
	nested := st.nested
	st.enter(L)
	thread := st.protectedThread(L)
	L.XMoveTo(thread, nargs+1)
	err := thread.PCall(nargs, lua.MultRet, nil)
	st.nested = nested
	delete(st.hosts, thread)
	if st.stopped {
		throw(L, lua.LString(""))
	}
	if err == nil {
		thread.XMoveTo(L, thread.GetTop())
		st.keepThread(thread)
		return nil, true
	}
	api, isAPI := err.(*lua.ApiError)
	if !isAPI {
		return lua.LString(err.Error()), false
	}
	if api.Type != lua.ApiErrorPanic {
		st.keepThread(thread)
	}
	return st.errorValue(api), false
}

// protectedThread answers a thread for a protected call on L.
func (st *state) protectedThread(L *lua.LState) *lua.LState {
	var thread *lua.LState
	if n := len(st.idle); n > 0 {
		thread, st.idle = st.idle[n-1], st.idle[:n-1]
	} else {
		own := st.L.Options
		st.L.Options.CallStackSize, st.L.Options.RegistrySize = callDepth, registers
		thread, _ = st.L.NewThread()
		st.L.Options = own
		thread.Options = own
		thread.SetContext(st)
	}
	thread.Env = L.Env
	st.hosts[thread] = L
	return thread
}

func (st *state) keepThread(thread *lua.LState) {
	if len(st.idle) < maxIdleThreads {
		st.idle = append(st.idle, thread)
	}
}

// visible answers the thread that a script knows as the one that L belongs to.
func (st *state) visible(L *lua.LState) *lua.LState {
	for st.hosts[L] != nil {
		L = st.hosts[L]
	}
	return L
}

// whereBelow is where, for any level: what called a protected call is on its host.
func (st *state) whereBelow(L *lua.LState, level int) string {
	for host := st.hosts[L]; host != nil; host = st.hosts[L] {
		frames := 0
		for {
			if _, ok := L.GetStack(frames); !ok {
				break
			}
			frames++
		}
		if level < frames {
			break
		}
		L, level = host, level-frames
	}
	return where(L, level)
}
