package scripting

import "codeq/scripting/lua"

// output is the string that a library function builds. It counts the work and keeps to the limit, provided that check is called
// for every few kilobytes.
type output struct {
	st      *state
	L       *lua.Thread
	buf     []byte
	counted int // bytes of buf that are accounted for
}

// newOutput takes the state's scratch buffer, which push gives back: a function that is called meanwhile has one of its own.
func (st *state) newOutput(L *lua.Thread) output {
	buf := st.scratch[:0]
	st.scratch = nil
	return output{st: st, L: L, buf: buf}
}

// check refuses a string beyond the limit and ends a script that must stop.
func (o *output) check() {
	added := len(o.buf) - o.counted
	o.st.grow(o.L, len(o.buf), added)
	if added > bytesPerStep {
		o.counted = len(o.buf)
	}
}

// room refuses to add so many bytes beyond the limit, before they are copied.
func (o *output) room(n int) {
	if n > o.st.e.opts.MaxStringBytes-len(o.buf) {
		o.L.Raise("resulting string too large")
	}
}

// push leaves the string on the stack as a function's only result.
func (o *output) push() int {
	o.check()
	o.L.Push(lua.String(string(o.buf)))
	o.st.keepScratch(o.buf)
	return 1
}

// bytesPerStep is how many bytes copied count as much as an instruction.
const bytesPerStep = 64

// maxSlots is how many values a library function may have on the reference implementation's stack, its arguments included. It
// bounds the nesting and the results of the libraries' functions.
const maxSlots = 8000

// checkSlots raises the error of luaL_checkstack when n more values do not fit.
func checkSlots(L *lua.Thread, used, n int, message string) {
	if used+n > maxSlots {
		L.Raise("stack overflow (%s)", message)
	}
}
