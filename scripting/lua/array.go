package lua

import "math/bits"

// NewList makes a table to which n elements are added, one after the other: what they grow it to, it has from the start.
func NewList(n int) *Table { return NewTable(grownArray(n), 0) }

// NewArray is a table whose elements are the values, laid out as if they had been set one after the other.
func NewArray(values []Value) *Table {
	t := NewList(len(values))
	copy(t.array, values)
	return t
}

// Refill makes of the table what NewArray makes of the values, unless the table has fields, a metatable, or an array of another size.
func (t *Table) Refill(values []Value) bool {
	if len(t.nodes) > 0 || t.meta != nil || t.readonly || len(t.array) != grownArray(len(values)) {
		return false
	}
	clear(t.array[copy(t.array, values):])
	return true
}

// grownArray is the size of an array to which n elements were added one after the other.
func grownArray(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}
