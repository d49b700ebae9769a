package scripting

import (
	"reflect"
	"runtime"
	"runtime/metrics"
	"unsafe"
	"weak"

	lua "github.com/yuin/gopher-lua"
)

// What a run holds is bounded. The machine allocates on the process' heap and has no hook there, so this is found out in three steps,
// each of which is rare where the one before is not:
//
//  1. Every few thousand steps, and when the garbage collector has been through, poll asks how large the process' heap is. Below
//     the limit there is nothing to do. The collector counts because a single step may take a lot: t[4000000] = 1 fills 64 MB.
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
	building []lua.LValue
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
	held := st.coming + st.held(limit)
	if held > limit {
		st.stopped, st.stop = true, errOverMemory
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
func (st *state) hold(v lua.LValue) (mark int) {
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
func (st *state) admit(L *lua.LState, n int) {
	if n > keepBytes && int64(n) > st.e.opts.MaxMemory() {
		st.abort(L, errOverMemory)
	}
}

// held adds up what the run's threads reach, or enough of it to exceed the limit.
func (st *state) held(limit uint64) uint64 {
	c := counter{seen: map[unsafe.Pointer]struct{}{}, limit: limit}
	c.add(reflect.ValueOf(st.L))
	for thread := range st.hosts {
		c.add(reflect.ValueOf(thread))
	}
	c.add(reflect.ValueOf(st.building))
	for len(c.left) > 0 && c.bytes <= limit {
		v := c.left[len(c.left)-1]
		c.left = c.left[:len(c.left)-1]
		c.bytes += uint64(v.Type().Size())
		c.add(v)
	}
	return c.bytes
}

// counter adds up the sizes of values, by reflection, for the machine's tables and threads do not tell theirs: a table keeps its room, and the
// names of fields that were removed.
type counter struct {
	seen  map[unsafe.Pointer]struct{}
	left  []reflect.Value // what pointers that were seen point to
	bytes uint64
	limit uint64
}

// small is the size of strings that are counted each time, however many share one.
const small = 32

// What a map takes, about. It does not tell how much room it has, which is no less than leastSlots; the machine makes room for eight
// or 32 fields with the first one, so leastFields is between.
const (
	mapHeader   = 48
	leastSlots  = 8
	leastFields = 20
)

// once tells whether the pointer was not seen before.
func (c *counter) once(p unsafe.Pointer) bool {
	if _, ok := c.seen[p]; ok || p == nil {
		return false
	}
	c.seen[p] = struct{}{}
	return true
}

// add counts what the value refers to; its own size counts where it lies.
func (c *counter) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		// The state is the threads' context. Behind it is the server.
		if v.Type() != reflect.TypeFor[*state]() && c.once(v.UnsafePointer()) {
			c.left = append(c.left, v.Elem())
		}
	case reflect.Interface:
		if v = v.Elem(); v.IsValid() {
			if v.Kind() != reflect.Pointer {
				c.bytes += uint64(v.Type().Size())
			}
			c.add(v)
		}
	case reflect.String:
		if v.Len() <= small || c.once(v.UnsafePointer()) {
			c.bytes += uint64(v.Len())
		}
	case reflect.Slice:
		if c.once(v.UnsafePointer()) {
			c.bytes += uint64(v.Cap()) * uint64(v.Type().Elem().Size())
			c.addAll(v)
		}
	case reflect.Array:
		c.addAll(v)
	case reflect.Map:
		c.addMap(v)
	case reflect.Struct:
		for i := range v.NumField() {
			c.add(v.Field(i))
		}
	}
}

func (c *counter) addAll(v reflect.Value) {
	if !refers(v.Type().Elem()) {
		return
	}
	for i := 0; i < v.Len() && c.bytes <= c.limit; i++ {
		c.add(v.Index(i))
	}
}

func (c *counter) addMap(v reflect.Value) {
	if !c.once(v.UnsafePointer()) {
		return
	}
	slots := max(v.Len(), leastSlots)
	if v.Type().Key().Kind() == reflect.String {
		slots = max(slots, leastFields)
	}
	c.bytes += mapHeader + uint64(slots)*uint64(v.Type().Key().Size()+v.Type().Elem().Size())*5/4
	for entries := v.MapRange(); entries.Next() && c.bytes <= c.limit; {
		c.add(entries.Key())
		c.add(entries.Value())
	}
}

// refers tells whether the elements of a slice may refer to something that counts. Structs are call frames, of which a thread has room for
// thousands: the functions in them are on the thread's stack as well.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}

// watchCollector has all states look at their memory whenever the garbage collector has been through, as long as there is the engine.
func (e *Engine) watchCollector() { rearm(weak.Make(e)) }

// rearm makes an object that nobody refers to, whose finalizer tells the engine and makes the next one. The runtime runs it on a goroutine
// of its own.
func rearm(engine weak.Pointer[Engine]) {
	type bell struct{ _ *byte } // with a pointer, so that it is alone in its place
	runtime.SetFinalizer(new(bell), func(*bell) {
		e := engine.Value()
		if e == nil {
			return
		}
		e.poolMu.Lock()
		for st := range e.states {
			st.collected.Store(true)
		}
		e.poolMu.Unlock()
		rearm(engine)
	})
}
