package scripting

import (
	"slices"
	"strings"

	"codeq/scripting/lua"
)

// arguments makes the tables KEYS or ARGV of consecutive runs, which often get the same words, or as many: then the strings, or the table, are
// used again. All words share one string, so a run that gets others costs two allocations.
type arguments struct {
	values []lua.Value
	size   int // bytes of the words
	table  *lua.Table
}

// of answers the table of a run's words, and whether it is the one of the run before.
func (a *arguments) of(words [][]byte) (t *lua.Table, again bool) {
	if !a.holds(words) {
		a.take(words)
	}
	if a.table != nil && a.table.Refill(a.values) {
		return a.table, true
	}
	a.table = lua.NewArray(a.values)
	return a.table, false
}

// holds tells whether the values are those of the words.
func (a *arguments) holds(words [][]byte) bool {
	if len(words) != len(a.values) {
		return false
	}
	for i, word := range words {
		if text, _ := a.values[i].Text(); text != string(word) {
			return false
		}
	}
	return true
}

// take makes values of the words.
func (a *arguments) take(words [][]byte) {
	a.size = 0
	for _, word := range words {
		a.size += len(word)
	}
	var all strings.Builder
	all.Grow(a.size)
	for _, word := range words {
		all.Write(word)
	}
	text := all.String()
	a.values = slices.Grow(a.values[:0], len(words))
	for _, word := range words {
		a.values = append(a.values, lua.String(text[:len(word)]))
		text = text[len(word):]
	}
}

// trim forgets what is too large to be kept between runs.
func (a *arguments) trim() (trimmed bool) {
	if a.size+valueBytes*cap(a.values) <= keepBytes {
		return false
	}
	*a = arguments{}
	return true
}

// valueBytes is the size of a value.
const valueBytes = 16
