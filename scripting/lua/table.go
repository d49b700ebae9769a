package lua

import (
	"math"
	"math/bits"
)

// Table is a table as Lua 5.1 has it: an array for the elements 1, 2, … as long as more than half of it is in use, and nodes for all
// else, in chains that lie among each other. Scripts see how that is done by the order in which pairs visits a table, and by what # says of one
// with holes. So the layout is the reference implementation's, down to the hashes, and cjson.encode answers what it answers on Redis.
// (Brent's variation of a chained scatter table: "Reducing the Retrieval Time of Scatter Storage Techniques", 1973.)
type Table struct {
	array    []Value
	nodes    []node // a power of two of them, or none
	lastFree int    // all nodes from here on are in use
	meta     *Table
	lacks    uint8 // the events below cachedEvents that have no metamethod, as far as is known
	readonly bool
}

// node holds a key. One whose value is nil still links its chain.
type node struct {
	key, val Value
	next     int32 // of the chain; -1 ends it
}

// NewTable makes a table with room for so many elements and fields.
func NewTable(elements, fields int) *Table {
	t := &Table{}
	if elements > 0 {
		t.array = make([]Value, elements)
	}
	t.makeNodes(fields)
	return t
}

// Metatable is the table's metatable, nil if it has none.
func (t *Table) Metatable() *Table { return t.meta }

// SetMetatable gives the table a metatable, or none.
func (t *Table) SetMetatable(meta *Table) { t.meta = meta }

// Readonly tells whether scripts cannot write to the table.
func (t *Table) Readonly() bool { return t.readonly }

// SetReadonly has the machine refuse what scripts write to the table; Set and the like don't.
func (t *Table) SetReadonly(readonly bool) { t.readonly = readonly }

// hashText is the hash of a string in Lua 5.1: of every character of a short one, and of some 32 of a long one.
func hashText(s string) uint32 {
	h, step := uint32(len(s)), len(s)>>5+1
	for i := len(s); i >= step; i -= step {
		h ^= h<<5 + h>>2 + uint32(s[i-1])
	}
	return h
}

// home is the node where a key belongs. There must be nodes.
func (t *Table) home(k Value) int32 {
	size := uint32(len(t.nodes))
	switch k.Kind() {
	case KindNumber:
		f := k.float()
		if f == 0 {
			return 0
		}
		b := math.Float64bits(f)
		return int32((uint32(b) + uint32(b>>32)) % ((size - 1) | 1))
	case KindString:
		return int32(hashText(k.str()) & (size - 1))
	case KindBool:
		return int32(uint32(k.n&1) & (size - 1))
	}
	return int32(uint32(uintptr(k.p)) % ((size - 1) | 1))
}

// Get is the value of a key, without metamethods.
func (t *Table) Get(k Value) Value {
	if slot := t.find(k); slot != nil {
		return *slot
	}
	return Nil
}

// GetInt is the value of an integer key.
func (t *Table) GetInt(i int) Value {
	if uint(i-1) < uint(len(t.array)) {
		return t.array[i-1]
	}
	return t.Get(Number(float64(i)))
}

// GetText is the value of a key that is a string.
func (t *Table) GetText(s string) Value {
	if slot := t.findText(String(s), hashText(s)); slot != nil {
		return *slot
	}
	return Nil
}

// find is where the value of a key is, nil if the key is not there. One that is there may have the value nil.
func (t *Table) find(k Value) *Value {
	switch {
	case k.isNumber():
		f := k.float()
		if i := int(f); float64(i) == f && uint(i-1) < uint(len(t.array)) {
			return &t.array[i-1]
		}
	case k.isString():
		return t.findText(k, hashText(k.str()))
	case k.IsNil():
		return nil
	}
	if i := t.nodeOf(k); i >= 0 {
		return &t.nodes[i].val
	}
	return nil
}

// nodeOf is the node of a key, -1 if it has none.
func (t *Table) nodeOf(k Value) int32 {
	if len(t.nodes) == 0 {
		return -1
	}
	i := t.home(k)
	for i >= 0 && !Equal(t.nodes[i].key, k) {
		i = t.nodes[i].next
	}
	return i
}

// findText is find for a string whose hash is known.
func (t *Table) findText(k Value, hash uint32) *Value {
	if len(t.nodes) == 0 {
		return nil
	}
	for i := int32(hash & uint32(len(t.nodes)-1)); i >= 0; {
		n := &t.nodes[i]
		if n.key.n == k.n && (n.key.p == k.p || !n.key.isNumber() && n.key.str() == k.str()) {
			return &n.val
		}
		i = n.next
	}
	return nil
}

// Set gives a key, which is neither nil nor NaN, a value, without metamethods.
func (t *Table) Set(k, v Value) { *t.slot(k) = v }

// SetInt is Set for an integer key.
func (t *Table) SetInt(i int, v Value) {
	if uint(i-1) < uint(len(t.array)) {
		t.array[i-1] = v
		return
	}
	t.Set(Number(float64(i)), v)
}

// SetText is Set for a key that is a string.
func (t *Table) SetText(s string, v Value) { t.Set(String(s), v) }

// slot is where the value of a key goes. The key is there from now on.
func (t *Table) slot(k Value) *Value {
	t.lacks = 0
	if slot := t.find(k); slot != nil {
		return slot
	}
	return t.insert(k)
}

// slotText is slot for a string whose hash is known.
func (t *Table) slotText(k Value, hash uint32) *Value {
	t.lacks = 0
	if slot := t.findText(k, hash); slot != nil {
		return slot
	}
	return t.insert(k)
}

// insert makes a node for a key that has none. If another key has its home, that one stays, unless it is not at home itself.
func (t *Table) insert(k Value) *Value {
	if len(t.nodes) == 0 {
		t.rehash(k)
		return t.slot(k)
	}
	at := t.home(k)
	if !t.nodes[at].val.IsNil() {
		free := t.freeNode()
		if free < 0 {
			t.rehash(k)
			return t.slot(k)
		}
		if other := t.home(t.nodes[at].key); other != at {
			for t.nodes[other].next != at {
				other = t.nodes[other].next
			}
			t.nodes[other].next = free
			t.nodes[free] = t.nodes[at]
			t.nodes[at] = node{next: -1}
		} else {
			t.nodes[free].next = t.nodes[at].next
			t.nodes[at].next = free
			at = free
		}
	}
	t.nodes[at].key = k
	return &t.nodes[at].val
}

// freeNode is a node that was never used, -1 if there is none.
func (t *Table) freeNode() int32 {
	for t.lastFree > 0 {
		t.lastFree--
		if t.nodes[t.lastFree].key.IsNil() {
			return int32(t.lastFree)
		}
	}
	return -1
}

func (t *Table) makeNodes(n int) {
	t.nodes, t.lastFree = nil, 0
	if n <= 0 {
		return
	}
	size := 1 << bits.Len(uint(n-1))
	t.nodes, t.lastFree = make([]node, size), size
	for i := range t.nodes {
		t.nodes[i].next = -1
	}
}

// maxArrayBits bounds the array: it has 2^26 elements at most.
const maxArrayBits = 26

// census counts integer keys by their size: the i-th number is of those from 2^(i-1)+1 to 2^i.
type census [maxArrayBits + 1]int

// add counts a key if it is one that the array may hold.
func (c *census) add(k Value) int {
	f, ok := k.Float()
	if i := int(f); ok && float64(i) == f && i > 0 && i <= 1<<maxArrayBits {
		c[bits.Len(uint(i-1))]++
		return 1
	}
	return 0
}

// rehash makes room for one more key: it chooses the size of the array anew, the largest of which more than half is in use, and that of the
// nodes to hold what is left exactly.
func (t *Table) rehash(more Value) {
	var counts census
	integers, total := 0, 0
	for i, v := range t.array {
		if !v.IsNil() {
			counts[bits.Len(uint(i))]++
			integers++
		}
	}
	total = integers
	for i := range t.nodes {
		if n := &t.nodes[i]; !n.val.IsNil() {
			integers += counts.add(n.key)
			total++
		}
	}
	integers += counts.add(more)
	total++
	size, within := 0, 0
	for i, sum, power := 0, 0, 1; power/2 < integers && i <= maxArrayBits; i, power = i+1, 2*power {
		if sum += counts[i]; counts[i] > 0 && sum > power/2 {
			size, within = power, sum
		}
		if sum == integers {
			break
		}
	}
	t.resize(size, total-within)
}

func (t *Table) resize(elements, fields int) {
	old, nodes := t.array, t.nodes
	if elements > len(old) {
		t.array = make([]Value, elements)
		copy(t.array, old)
	}
	t.makeNodes(fields)
	if elements < len(old) {
		t.array = append([]Value(nil), old[:elements]...)
		for i, v := range old[elements:] {
			if !v.IsNil() {
				t.SetInt(elements+i+1, v)
			}
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := &nodes[i]; !n.val.IsNil() {
			t.Set(n.key, n.val)
		}
	}
}

// Len is a border of the table: the index of an element that is there, or 0, such that the next one is not.
func (t *Table) Len() int {
	n := len(t.array)
	if n > 0 && t.array[n-1].IsNil() {
		low, high := 0, n // low is 0 or there, high is not
		for high-low > 1 {
			if middle := (low + high) / 2; t.array[middle-1].IsNil() {
				high = middle
			} else {
				low = middle
			}
		}
		return low
	}
	if len(t.nodes) == 0 {
		return n
	}
	low, high := n, n+1
	for !t.GetInt(high).IsNil() {
		low, high = high, 2*high
		if high > math.MaxInt32 { // made on purpose: count
			for low = 1; !t.GetInt(low).IsNil(); low++ {
			}
			return low - 1
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; t.GetInt(middle).IsNil() {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// Next is the key after k, and its value; the first one after nil, and nil after the last. ok is false if k is no key of the table.
func (t *Table) Next(k Value) (next, v Value, ok bool) {
	at, ok := t.place(k)
	if !ok {
		return Nil, Nil, false
	}
	for ; at < len(t.array); at++ {
		if v := t.array[at]; !v.IsNil() {
			return Number(float64(at + 1)), v, true
		}
	}
	for at -= len(t.array); at < len(t.nodes); at++ {
		if n := &t.nodes[at]; !n.val.IsNil() {
			return n.key, n.val, true
		}
	}
	return Nil, Nil, true
}

// place is the place after a key's in the order of visits: of the array, and then of the nodes.
func (t *Table) place(k Value) (place int, ok bool) {
	if k.IsNil() {
		return 0, true
	}
	if f, isNumber := k.Float(); isNumber {
		if i := int(f); float64(i) == f && uint(i-1) < uint(len(t.array)) {
			return i, true
		}
	}
	i := t.nodeOf(k)
	return len(t.array) + int(i) + 1, i >= 0
}
