package lua

// Move copies the n elements from one index on to another, as if one after the other was set in an order that loses none. It does
// nothing and answers false unless all of them lie in the table's array.
func (t *Table) Move(from, to, n int) bool {
	if from < 1 || to < 1 || n < 0 || max(from, to)+n-1 > len(t.array) {
		return false
	}
	copy(t.array[to-1:to-1+n], t.array[from-1:])
	return true
}
