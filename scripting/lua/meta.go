package lua

// event is what a metamethod is for.
type event uint8

// The events. A table remembers which of those before cachedEvents it lacks.
const (
	evIndex event = iota
	evNewIndex
	evEq
	cachedEvents
	evAdd event = iota - 1
	evSub
	evMul
	evDiv
	evMod
	evPow
	evUnm
	evLt
	evLe
	evConcat
	evCall
	events
)

// eventNames are the fields of a metatable, with their hashes.
var eventNames = func() (names [events]struct {
	text Value
	hash uint32
}) {
	for ev, name := range [events]string{"__index", "__newindex", "__eq", "__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm", "__lt",
		"__le", "__concat", "__call"} {
		names[ev].text, names[ev].hash = String(name), hashText(name)
	}
	return names
}()

// method is the metamethod of a metatable for the event, nil if there is none, or no metatable.
func (t *Table) method(ev event) Value {
	if t == nil || ev < cachedEvents && t.lacks&(1<<ev) != 0 {
		return Nil
	}
	name := &eventNames[ev]
	if slot := t.findText(name.text, name.hash); slot != nil && !slot.IsNil() {
		return *slot
	}
	if ev < cachedEvents {
		t.lacks |= 1 << ev
	}
	return Nil
}

// Metatable is the metatable of a value, nil if it has none.
func (l *Thread) Metatable(v Value) *Table {
	if t := v.Table(); t != nil {
		return t.meta
	}
	if v.isString() {
		return l.rt.TextMeta
	}
	return nil
}

func (l *Thread) method(v Value, ev event) Value { return l.Metatable(v).method(ev) }

// Metafield is a field of the value's metatable, nil if there is none.
func (l *Thread) Metafield(v Value, name string) Value {
	meta := l.Metatable(v)
	if meta == nil {
		return Nil
	}
	return meta.GetText(name)
}

// maxIndexLoop bounds the tables that an index is handed on to (MAXTAGLOOP).
const maxIndexLoop = 100

// Index is object[key].
func (l *Thread) Index(object, key Value) Value { return l.index(object, key, nowhere) }

// index is Index for the running instruction, in which the object is the given operand.
func (l *Thread) index(object, key Value, operand int) Value {
	for range maxIndexLoop {
		var method Value
		if t := object.Table(); t != nil {
			if v := t.Get(key); !v.IsNil() {
				return v
			}
			if method = t.meta.method(evIndex); method.IsNil() {
				return Nil
			}
		} else if method = l.method(object, evIndex); method.IsNil() {
			l.typeError("index", object, operand)
		}
		if method.Kind() == KindFunction {
			return l.callMeta(method, object, key)
		}
		object, operand = method, nowhere
	}
	l.fault("loop in gettable")
	return Nil
}

// SetIndex is object[key] = v.
func (l *Thread) SetIndex(object, key, v Value) { l.setIndex(object, key, v, nowhere) }

func (l *Thread) setIndex(object, key, v Value, operand int) {
	for range maxIndexLoop {
		var method Value
		if t := object.Table(); t != nil {
			if t.readonly {
				l.fault("Attempt to modify a readonly table")
			}
			l.checkKey(key)
			slot := t.slot(key)
			if slot.IsNil() {
				method = t.meta.method(evNewIndex)
			}
			if method.IsNil() {
				*slot = v
				return
			}
		} else if method = l.method(object, evNewIndex); method.IsNil() {
			l.typeError("index", object, operand)
		}
		if method.Kind() == KindFunction {
			l.callMeta(method, object, key, v)
			return
		}
		object, operand = method, nowhere
	}
	l.fault("loop in settable")
}

// checkKey refuses what cannot be a key.
func (l *Thread) checkKey(k Value) {
	if k.IsNil() {
		l.fault("table index is nil")
	}
	if f, ok := k.Float(); ok && f != f {
		l.fault("table index is NaN")
	}
}

// arithmetic is an operator whose operands are not both numbers.
func (l *Thread) arithmetic(ev event, a, b Value, i instr) Value {
	x, okX := a.ToNumber()
	y, okY := b.ToNumber()
	if okX && okY {
		return Number(compute(ev, x, y))
	}
	method := l.method(a, ev)
	if method.IsNil() {
		method = l.method(b, ev)
	}
	if !method.IsNil() {
		return l.callMeta(method, a, b)
	}
	if okX {
		l.typeError("perform arithmetic on", b, int(i.c))
	}
	l.typeError("perform arithmetic on", a, int(i.b))
	return Nil
}

// Less is a < b.
func (l *Thread) Less(a, b Value) bool {
	switch kind := a.Kind(); {
	case kind != b.Kind():
	case kind == KindNumber:
		return a.float() < b.float()
	case kind == KindString:
		return a.str() < b.str()
	default:
		if less, ok := l.ordered(evLt, a, b); ok {
			return less
		}
	}
	l.orderError(a, b)
	return false
}

func (l *Thread) lessEqual(a, b Value) bool {
	switch kind := a.Kind(); {
	case kind != b.Kind():
	case kind == KindNumber:
		return a.float() <= b.float()
	case kind == KindString:
		return a.str() <= b.str()
	default:
		if less, ok := l.ordered(evLe, a, b); ok {
			return less
		}
		if less, ok := l.ordered(evLt, b, a); ok {
			return !less
		}
	}
	l.orderError(a, b)
	return false
}

// ordered compares by the metamethod that both have, if they have the same one.
func (l *Thread) ordered(ev event, a, b Value) (less, ok bool) {
	method := l.method(a, ev)
	if method.IsNil() || !Equal(method, l.method(b, ev)) {
		return false, false
	}
	return l.callMeta(method, a, b).Truth(), true
}

func (l *Thread) orderError(a, b Value) {
	if a.Kind() == b.Kind() {
		l.fault("attempt to compare two %s values", a.Kind())
	}
	l.fault("attempt to compare %s with %s", a.Kind(), b.Kind())
}

// equal is a == b.
func (l *Thread) equal(a, b Value) bool {
	if Equal(a, b) {
		return true
	}
	x, y := a.Table(), b.Table()
	if x == nil || y == nil {
		return false
	}
	method := x.meta.method(evEq)
	if method.IsNil() || x.meta != y.meta && !Equal(method, y.meta.method(evEq)) {
		return false
	}
	return l.callMeta(method, a, b).Truth()
}

// length is #v.
func (l *Thread) length(v Value, operand int) Value {
	if t := v.Table(); t != nil {
		return Number(float64(t.Len()))
	}
	if s, ok := v.Text(); ok {
		return Number(float64(len(s)))
	}
	l.typeError("get length of", v, operand)
	return Nil
}
