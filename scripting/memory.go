package scripting

import (
	"runtime/metrics"

	"codeq/scripting/lua"
)

// What a run holds is bounded. The machine allocates on the process' heap and has no hook there, so this is found out in three steps,
// each of which is rare where the one before is not:
//
//  1. Every few thousand steps poll asks how large the process' heap is. Below the limit there is nothing to do. No step takes much: one that
//     builds a large string counts as many.
//  2. Above it, the process must have allocated, since the run was last looked at, what would bring the run to its limit.
//  3. Then what the run's threads reach is added up.
//
// So a run is stopped at some point past its limit, and never for what others hold. A string, an array of arguments or a reply that is
// beyond the limit by itself is refused before it is made.
//
// Rejected: to count what each instruction may allocate (some allocate 100 times what most do, so that either innocent scripts are
// counted all the time or a loop escapes); to take the growth of the heap for the run's (caches grow, too).

// errOverMemory stops a run that holds too much.
const errOverMemory Error = "ERR the script holds more memory than lua-memory-limit allows"

const (
	heapInUse     = "/memory/classes/heap/objects:bytes"
	heapAllocated = "/gc/heap/allocs:bytes"
	// minRecount is the part of the limit that the process must have allocated before a run is counted again.
	minRecount = 4
)

// errLongSource refuses a text that takes more than the limit to compile.
const errLongSource Error = "ERR the script is longer than a hundredth of lua-memory-limit: to compile it may take a hundred times its length"

const (
	// parseFactor is about how many bytes a byte of source text takes while it is compiled, at most.
	parseFactor = 100
	// shortSource is the length of a text that is compiled whatever the limit.
	shortSource = 1 << 20
)

// admitSource refuses a client's text that may take more memory to compile than a run may hold.
func (e *Engine) admitSource(n int) error {
	if n > shortSource && int64(n) > e.opts.MaxMemory()/parseFactor {
		return errLongSource
	}
	return nil
}

// gauge is what a state knows of the memory of its run.
type gauge struct {
	samples []metrics.Sample
	since   uint64 // heapAllocated when the run was last looked at, 0 if it was not
	room    uint64 // what may be allocated since, before the run has to be counted
	coming  uint64 // the size of a string that is about to be made, or to grow
	// building are the values that a library function makes and that nothing of the run refers to yet.
	building []lua.Value
}

// checkMemory stops the run if it holds too much.
func (st *state) checkMemory() {
	limit := uint64(st.e.opts.MaxMemory())
	if st.samples == nil {
		st.samples = []metrics.Sample{{Name: heapInUse}, {Name: heapAllocated}}
	}
	inUse, allocated := st.heap()
	if st.since == 0 {
		st.since, st.room = allocated, limit/minRecount
	}
	if inUse < limit || allocated-st.since < st.room {
		return
	}
	held := st.coming + st.rt.Held(limit, st.building...)
	if held > limit {
		st.stopped, st.stop, st.spent = true, errOverMemory, true
		return
	}
	_, st.since = st.heap() // again, for to count takes memory, too
	st.room = max(limit-held, limit/minRecount)
}

// heap is what the process has on its heap, and has ever had, with what is about to be made.
func (st *state) heap() (inUse, allocated uint64) {
	metrics.Read(st.samples)
	return st.samples[0].Value.Uint64() + st.coming, st.samples[1].Value.Uint64() + st.coming
}

// hold counts a value that is being built as held, until release takes it and what came after it away.
func (st *state) hold(v lua.Value) (mark int) {
	st.building = append(st.building, v)
	return len(st.building) - 1
}

// release has only the first mark values count. A function that builds values begins with release(0), for one before may have ended
// with an error.
func (st *state) release(mark int) {
	clear(st.building[mark:])
	st.building = st.building[:mark]
}

// admit ends a run that is about to make something of that size, if that is beyond the limit by itself.
func (st *state) admit(L *lua.Thread, n int) {
	if n > keepBytes && int64(n) > st.e.opts.MaxMemory() {
		st.abort(L, errOverMemory)
	}
}
