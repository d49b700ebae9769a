package lua

import (
	"math"
	"unsafe"
)

// Kind is the type of a value, as scripts see it.
type Kind uint8

// The kinds. Light stands for light userdata, of which there is one, Null.
const (
	KindNil Kind = iota
	KindBool
	KindNumber
	KindString
	KindTable
	KindFunction
	KindThread
	KindLight
)

// String returns the name that Lua's type gives the kind.
func (k Kind) String() string { return kindNames[k] }

var kindNames = [...]string{"nil", "boolean", "number", "string", "table", "function", "thread", "userdata"}

// Value is a Lua value, in two words and without a box for numbers, so that arithmetic allocates nothing and a string is the bytes of a
// Go string. The zero Value is nil. Values are compared with Equal; == would take two equal strings for different ones.
//
// p tells a number by the address numberTag, whose bits n then are. Of anything else the kind is in the upper byte of n, and below it
// the length of a string, whose bytes p points to, or the truth of a boolean; p is the table, function or thread.
type Value struct {
	p unsafe.Pointer
	n uint64
}

// numberTag is pointed to by all numbers.
var numberTag byte

const kindShift = 56

// maxText is the longest string that a Value can hold, far beyond what a process can.
const maxText = 1<<kindShift - 1

// Nil, True and False are the values of these names; Null is the light userdata that is a null pointer.
var (
	Nil   = Value{}
	False = Value{n: uint64(KindBool) << kindShift}
	True  = Value{n: uint64(KindBool)<<kindShift | 1}
	Null  = Value{n: uint64(KindLight) << kindShift}
)

// Bool is a boolean.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// Number is a number.
func Number(f float64) Value { return Value{unsafe.Pointer(&numberTag), math.Float64bits(f)} }

// String is a string, which shares its bytes.
func String(s string) Value {
	return Value{unsafe.Pointer(unsafe.StringData(s)), uint64(KindString)<<kindShift | uint64(len(s))}
}

// Value is the table as a value.
func (t *Table) Value() Value { return Value{unsafe.Pointer(t), uint64(KindTable) << kindShift} }

// Value is the function as a value.
func (f *Function) Value() Value {
	return Value{unsafe.Pointer(f), uint64(KindFunction) << kindShift}
}

// Value is the thread as a value.
func (l *Thread) Value() Value { return Value{unsafe.Pointer(l), uint64(KindThread) << kindShift} }

// Kind is the kind of the value.
func (v Value) Kind() Kind {
	if v.isNumber() {
		return KindNumber
	}
	return Kind(v.n >> kindShift)
}

// IsNil tells whether the value is nil.
func (v Value) IsNil() bool { return v.p == nil && v.n == 0 }

// Truth tells whether the value counts as true: anything but nil and false.
func (v Value) Truth() bool { return v.p != nil || v.n != 0 && v.n != False.n }

func (v Value) isNumber() bool { return v.p == unsafe.Pointer(&numberTag) }

func (v Value) isString() bool { return !v.isNumber() && Kind(v.n>>kindShift) == KindString }

// float is the number; the value must be one.
func (v Value) float() float64 { return math.Float64frombits(v.n) }

// str is the string; the value must be one.
func (v Value) str() string { return unsafe.String((*byte)(v.p), v.n&maxText) }

// Float is the number, if the value is one.
func (v Value) Float() (f float64, ok bool) {
	if !v.isNumber() {
		return 0, false
	}
	return v.float(), true
}

// Text is the string, if the value is one.
func (v Value) Text() (s string, ok bool) {
	if !v.isString() {
		return "", false
	}
	return v.str(), true
}

// Table is the table, nil if the value is none.
func (v Value) Table() *Table {
	if v.isNumber() || Kind(v.n>>kindShift) != KindTable {
		return nil
	}
	return (*Table)(v.p)
}

// Function is the function, nil if the value is none.
func (v Value) Function() *Function {
	if v.isNumber() || Kind(v.n>>kindShift) != KindFunction {
		return nil
	}
	return (*Function)(v.p)
}

// Thread is the thread, nil if the value is none.
func (v Value) Thread() *Thread {
	if v.isNumber() || Kind(v.n>>kindShift) != KindThread {
		return nil
	}
	return (*Thread)(v.p)
}

// ToNumber is the coercion of arithmetic: numbers, and strings that spell one.
func (v Value) ToNumber() (f float64, ok bool) {
	if v.isNumber() {
		return v.float(), true
	}
	if v.isString() {
		return ParseNumber(v.str())
	}
	return 0, false
}

// ToText is the coercion of concatenation: strings, and numbers as text.
func (v Value) ToText() (s string, ok bool) {
	if v.isString() {
		return v.str(), true
	}
	if v.isNumber() {
		return NumberText(v.float()), true
	}
	return "", false
}

// Equal tells whether two values are the same, without metamethods.
func Equal(a, b Value) bool {
	if a.isNumber() || b.isNumber() {
		return a.p == b.p && a.float() == b.float()
	}
	if a.n != b.n {
		return false
	}
	return a.p == b.p || a.isString() && a.str() == b.str()
}
