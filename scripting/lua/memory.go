package lua

import "unsafe"

// Held adds up the bytes that the runtime's threads and some more values reach, or enough of them to exceed the limit.
func (rt *Runtime) Held(limit uint64, more ...Value) uint64 {
	c := counter{limit: limit, seen: map[unsafe.Pointer]struct{}{}}
	c.add(rt.main.Value())
	for l := rt.current; l != nil; l = l.resumer {
		c.add(l.Value())
	}
	c.addAll(more)
	for len(c.left) > 0 && c.bytes <= limit {
		v := c.left[len(c.left)-1]
		c.left = c.left[:len(c.left)-1]
		c.visit(v)
	}
	return c.bytes
}

// counter adds up the sizes of what it reaches, each once.
type counter struct {
	seen  map[unsafe.Pointer]struct{}
	left  []Value // whose size is not added up yet
	bytes uint64
	limit uint64
}

// sharedText is the size of strings that are counted each time, however many values share one.
const sharedText = 32

// once tells whether the pointer was not seen before.
func (c *counter) once(p unsafe.Pointer) bool {
	if _, ok := c.seen[p]; ok || p == nil {
		return false
	}
	c.seen[p] = struct{}{}
	return true
}

func (c *counter) addAll(values []Value) {
	for _, v := range values {
		if c.bytes > c.limit {
			return
		}
		c.add(v)
	}
}

// add counts a value that something refers to; where it lies is counted already.
func (c *counter) add(v Value) {
	switch v.Kind() {
	case KindString:
		if n := len(v.str()); n <= sharedText || c.once(v.p) {
			c.bytes += uint64(n)
		}
	case KindTable, KindFunction, KindThread:
		if c.once(v.p) {
			c.left = append(c.left, v)
		}
	}
}

// visit counts what a table, function or thread is made of.
func (c *counter) visit(v Value) {
	switch v.Kind() {
	case KindTable:
		t := v.Table()
		c.bytes += uint64(unsafe.Sizeof(*t)) + uint64(cap(t.array))*uint64(unsafe.Sizeof(Nil)) + uint64(len(t.nodes))*uint64(unsafe.Sizeof(node{}))
		c.addAll(t.array)
		for i := range t.nodes {
			if c.bytes > c.limit {
				return
			}
			c.add(t.nodes[i].key)
			c.add(t.nodes[i].val)
		}
		if t.meta != nil {
			c.add(t.meta.Value())
		}
	case KindFunction:
		f := v.Function()
		c.bytes += uint64(unsafe.Sizeof(*f)) + uint64(cap(f.upvalues))*uint64(unsafe.Sizeof(f))
		for _, u := range f.upvalues {
			if c.once(unsafe.Pointer(u)) {
				c.bytes += uint64(unsafe.Sizeof(*u))
				c.add(*u.v)
			}
		}
		c.addProto(f.proto)
		if f.globals != nil {
			c.add(f.globals.Value())
		}
		c.addAll(f.held)
	case KindThread:
		l := v.Thread()
		c.bytes += uint64(unsafe.Sizeof(*l)) + uint64(cap(l.stack))*uint64(unsafe.Sizeof(Nil)) + uint64(cap(l.frames))*uint64(unsafe.Sizeof(frame{}))
		c.addAll(l.stack[:min(max(l.high, l.top), len(l.stack))])
		for i := range l.frames {
			if fn := l.frames[i].fn; fn != nil {
				c.add(fn.Value())
			}
		}
	}
}

// addProto counts a compiled function, and those within it.
func (c *counter) addProto(p *Proto) {
	if p == nil || !c.once(unsafe.Pointer(p)) {
		return
	}
	c.bytes += uint64(unsafe.Sizeof(*p)) + uint64(cap(p.code))*uint64(unsafe.Sizeof(instr{})) + 4*uint64(cap(p.lines)+cap(p.hashes)) +
		uint64(cap(p.consts))*uint64(unsafe.Sizeof(Nil)) + uint64(cap(p.locals))*uint64(unsafe.Sizeof(local{})) +
		uint64(cap(p.upvalues))*uint64(unsafe.Sizeof("")) + uint64(cap(p.protos))*uint64(unsafe.Sizeof(p))
	c.addAll(p.consts)
	for _, inner := range p.protos {
		c.addProto(inner)
	}
}
