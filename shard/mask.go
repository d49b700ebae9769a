package shard

import "math/bits"

// MaxShards is how many shards one server may have.
const MaxShards = 256

// Mask is a set of shard ordinals.
type Mask [MaxShards / 64]uint64

// MaskOf returns the set of the given ordinals.
func MaskOf(ordinals ...int) Mask {
	var m Mask
	for _, n := range ordinals {
		m.Add(n)
	}
	return m
}

// MaskUpTo returns the set of the ordinals 0 … n-1.
func MaskUpTo(n int) Mask {
	var m Mask
	for i := range m {
		switch left := n - i*64; {
		case left >= 64:
			m[i] = ^uint64(0)
		case left > 0:
			m[i] = 1<<left - 1
		}
	}
	return m
}

// Add puts the ordinal into the set.
func (m *Mask) Add(n int) { m[n>>6] |= 1 << (n & 63) }

// Union puts every member of o into the set.
func (m *Mask) Union(o Mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

// Has tells whether the ordinal is in the set.
func (m *Mask) Has(n int) bool { return m[n>>6]&(1<<(n&63)) != 0 }

// Contains tells whether every member of o is in the set.
func (m *Mask) Contains(o Mask) bool {
	for i := range m {
		if o[i]&^m[i] != 0 {
			return false
		}
	}
	return true
}

// without is the set without the members of o.
func (m Mask) without(o Mask) Mask {
	for i := range m {
		m[i] &^= o[i]
	}
	return m
}

// Empty tells whether the set has no members.
func (m *Mask) Empty() bool { return *m == Mask{} }

// next returns the least member that is at least n, or -1.
func (m *Mask) next(n int) int {
	for i := n >> 6; i < len(m); i++ {
		word := m[i]
		if i == n>>6 {
			word &= ^uint64(0) << (n & 63)
		}
		if word != 0 {
			return i<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}
