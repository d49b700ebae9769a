package scripting

import lua "github.com/yuin/gopher-lua"

// output is the string that a library function builds. It counts the work and keeps to the limit, provided that check is called
// for every few kilobytes.
type output struct {
	st      *state
	L       *lua.LState
	buf     []byte
	counted int // bytes of buf that are accounted for
}

// newOutput starts on the state's scratch buffer, so a function may have one at a time and must not call back into Lua.
func (st *state) newOutput(L *lua.LState) output {
	return output{st: st, L: L, buf: st.scratch[:0]}
}

// check refuses a string beyond the limit and ends a script that must stop.
func (o *output) check() {
	if len(o.buf) > o.st.e.opts.MaxStringBytes {
		raise(o.L, "resulting string too large")
	}
	if n := (len(o.buf) - o.counted) / bytesPerStep; n > 0 {
		o.counted = len(o.buf)
		o.st.work(o.L, n)
	}
}

// room refuses to add so many bytes beyond the limit, before they are copied.
func (o *output) room(n int) {
	if n > o.st.e.opts.MaxStringBytes-len(o.buf) {
		raise(o.L, "resulting string too large")
	}
}

// push leaves the string on the stack as a function's only result.
func (o *output) push() int {
	o.check()
	o.L.Push(lua.LString(o.buf))
	o.st.keepScratch(o.buf)
	return 1
}

// bytesPerStep is how many bytes copied count as much as an instruction.
const bytesPerStep = 64

// maxSlots is how many values a library function may have on the reference implementation's stack, its arguments included. It
// bounds the nesting and the results of the libraries' functions.
const maxSlots = 8000

// checkSlots raises the error of luaL_checkstack when n more values do not fit.
func checkSlots(L *lua.LState, used, n int, message string) {
	if used+n > maxSlots {
		raise(L, "stack overflow (%s)", message)
	}
}
