package spec

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// maxNameLength bounds a command's name, "container|subcommand" in full, so that a lookup folds its case on the stack.
const maxNameLength = 64

// Table indexes declared commands by name. T is what the running package wraps a Command in.
type Table[T any] struct {
	items    []T // sorted by name
	commands []*Command
	byName   map[string]int
	top      topNames
}

// NewTable derives everything from the declarations and indexes them. command returns the Command within an item. The items
// are copied. The error is Validate's.
func NewTable[T any](items []T, command func(*T) *Command) (*Table[T], error) {
	t := &Table[T]{items: slices.Clone(items), byName: make(map[string]int, len(items))}
	slices.SortStableFunc(t.items, func(a, b T) int { return strings.Compare(command(&a).Name, command(&b).Name) })
	for i := range t.items {
		c := command(&t.items[i])
		t.commands = append(t.commands, c)
		t.byName[c.Name] = i
	}
	t.top = newTopNames(t.commands)
	if err := deriveAll(t.commands); err != nil {
		return nil, err
	}
	return t, nil
}

// Lookup finds a command by its full name in any case: "GET", "client|list". It does not allocate.
func (t *Table[T]) Lookup(name []byte) (*T, bool) {
	var folded [maxNameLength]byte
	i, ok := t.byName[string(fold(folded[:0], name))]
	if !ok {
		return nil, false
	}
	return &t.items[i], true
}

// Resolve finds the command that a call means, which for a container's subcommand is the subcommand. For an unknown
// subcommand cmd is nil and container is not; for an unknown command both are. It does not allocate.
func (t *Table[T]) Resolve(args [][]byte) (cmd, container *T) {
	i := t.resolve(args)
	switch {
	case i.cmd >= 0:
		return &t.items[i.cmd], nil
	case i.container >= 0:
		return nil, &t.items[i.container]
	}
	return nil, nil
}

// resolved holds indexes into a table, -1 for none.
type resolved struct{ cmd, container int }

func (t *Table[T]) resolve(args [][]byte) resolved {
	if len(args) == 0 {
		return resolved{-1, -1}
	}
	i := t.top.find(t.commands, args[0])
	if i < 0 || len(args) == 1 || len(t.commands[i].derived.subcommands) == 0 {
		return resolved{i, -1}
	}
	var buffer [maxNameLength]byte
	name := fold(append(fold(buffer[:0], args[0]), '|'), args[1])
	if sub, ok := t.byName[string(name)]; ok {
		return resolved{sub, -1}
	}
	return resolved{-1, i}
}

// topNames finds the commands that are no subcommands, in any case. Each request looks there, and each call of a script, so it is a
// hash table of its own: a map would want a folded copy of the name first.
type topNames struct {
	n     int
	cells []int16 // a power of two of them; each the index of a command or -1, behind those of the same hash
}

func newTopNames(commands []*Command) topNames {
	var top topNames
	for _, c := range commands {
		if !strings.Contains(c.Name, "|") {
			top.n++
		}
	}
	const spread = 4 // cells for each name
	top.cells = slices.Repeat([]int16{-1}, 1<<bits.Len(uint(spread*top.n)))
	for i, c := range commands {
		if strings.Contains(c.Name, "|") {
			continue
		}
		cell := top.cell([]byte(c.Name))
		for top.cells[cell] >= 0 {
			cell = top.next(cell)
		}
		top.cells[cell] = int16(i)
	}
	return top
}

// find returns the index of the command, -1 if there is none of that name.
func (top *topNames) find(commands []*Command, name []byte) int {
	for cell := top.cell(name); top.cells[cell] >= 0; cell = top.next(cell) {
		if i := int(top.cells[cell]); equalFold(name, commands[i].Name) {
			return i
		}
	}
	return -1
}

// cell is where to begin with a name: FNV-1a of what letters have in common in both cases.
func (top *topNames) cell(name []byte) int {
	const offset, prime, anyCase = 2166136261, 16777619, 0x20
	h := uint32(offset)
	for _, c := range name[:min(len(name), maxNameLength)] {
		h = (h ^ uint32(c|anyCase)) * prime
	}
	return int(h) & (len(top.cells) - 1)
}

func (top *topNames) next(cell int) int { return (cell + 1) & (len(top.cells) - 1) }

// fold appends the name in lower case. A name longer than any command's is cut, behind a byte that no name has.
func fold(dst, name []byte) []byte {
	if len(dst)+len(name) > maxNameLength {
		return append(dst, 0)
	}
	for _, c := range name {
		dst = append(dst, lower(c))
	}
	return dst
}

// All ranges over the commands and subcommands, sorted by name.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range t.items {
			if !yield(&t.items[i]) {
				return
			}
		}
	}
}

// Commands lists the commands without the subcommands, sorted by name, as COMMAND and COMMAND DOCS do.
func (t *Table[T]) Commands() []*Command {
	top := make([]*Command, 0, t.top.n)
	for _, c := range t.commands {
		if !strings.Contains(c.Name, "|") {
			top = append(top, c)
		}
	}
	return top
}

// Len is the number of commands without the subcommands, which is what COMMAND COUNT replies.
func (t *Table[T]) Len() int { return t.top.n }

// Names lists the names of the commands and subcommands that keep accepts, sorted, as COMMAND LIST does; a nil keep accepts all.
func (t *Table[T]) Names(keep func(*Command) bool) []string {
	names := make([]string, 0, len(t.commands))
	for _, c := range t.commands {
		if keep == nil || keep(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// InCategory is a filter for Names: COMMAND LIST FILTERBY ACLCAT. An unknown category keeps nothing.
func InCategory(name string) func(*Command) bool {
	category, _ := CategoryByName(name)
	return func(c *Command) bool { return c.derived.categories&category != 0 }
}

// CallKeys appends the keys of a whole call, found by its name, as COMMAND GETKEYS does. Its errors are KeyErrors.
func (t *Table[T]) CallKeys(dst []KeyRef, args [][]byte) ([]KeyRef, error) {
	i := t.resolve(args)
	if i.cmd < 0 {
		return dst, ErrInvalidCommand
	}
	c := t.commands[i.cmd]
	if !c.HasKeys() {
		return dst, ErrNoKeyArguments
	}
	if !c.AcceptsArgs(len(args)) {
		return dst, ErrInvalidArgCount
	}
	return AppendKeys(dst, c, args)
}
