package rdb

import (
	"bytes"
	"errors"
	"slices"
)

// Kind is the type of a value.
type Kind uint8

// The kinds.
const (
	String Kind = iota + 1
	List
	Set
	ZSet
	Hash
	StreamKind
)

// Value is one value. Its slices may refer to the payload that it was decoded from.
type Value struct {
	Kind Kind
	// Str is the value of a String.
	Str []byte
	// Items are the elements of a List in their order, the members of a Set or a ZSet, or the fields of a Hash, each
	// followed by its value.
	Items [][]byte
	// Scores are those of a ZSet's Items.
	Scores []float64
	// Stream is the value of a StreamKind.
	Stream *Stream
}

// What a payload can be refused for.
var (
	// ErrPayload says that the payload is cut, damaged or of a version that is not known.
	ErrPayload = errors.New("rdb: the payload's version or checksum is wrong")
	// ErrFormat says that the payload is whole but no value.
	ErrFormat = errors.New("rdb: the payload has no value of a known form")
	// ErrTooBig says that the value exceeds MaxSize.
	ErrTooBig = errors.New("rdb: the value is too big")
)

// MaxSize is the most that the elements of one value may cost. It bounds what a payload of a few bytes, which claims to
// have been compressed, can take in memory.
const MaxSize = 512 << 20

// elementCost is what an element costs besides its bytes.
const elementCost = 32

// Budget is what the elements of a value may still cost. A new one is MaxSize.
type Budget int

// Spend takes the cost of an element from the budget, or returns ErrTooBig.
func (b *Budget) Spend(element []byte) error { return b.spend(len(element) + elementCost) }

func (b *Budget) spend(n int) error {
	if n > int(*b) {
		return ErrTooBig
	}
	*b -= Budget(n)
	return nil
}

// hasRepeats tells whether a step-th item of the list occurs twice.
func hasRepeats(items [][]byte, step int) bool {
	names := make([][]byte, 0, len(items)/step)
	for i := 0; i < len(items); i += step {
		names = append(names, items[i])
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return true
		}
	}
	return false
}
