package spec

import "slices"

// Key positions. A command declares where its keys stand as a list of KeySpec, each in two steps as Redis has them: where
// to begin (an index, or after a keyword) and how to find the keys from there (a range, or a count that stands among
// the arguments). Where that is not enough, Command.GetKeys is asked.

// Keys is the key specifications of a command.
type Keys []KeySpec

// KeySpec finds some of a command's keys.
type KeySpec struct {
	Notes string
	Flags KeyFlags
	Begin Begin
	Find  Find
}

// Begin is where the search for keys starts. Its zero value is "unknown": only GetKeys can tell.
type Begin struct {
	kind    beginKind
	index   int
	keyword string
}

type beginKind uint8

const (
	beginUnknown beginKind = iota
	beginIndex
	beginKeyword
)

// Index begins at argument i; the command's name is argument 0, or 0 and 1 for a subcommand.
func Index(i int) Begin { return Begin{kind: beginIndex, index: i} }

// Keyword begins after the first argument that equals the word, looking from argument from on; a negative from counts from the
// end of the arguments and looks backwards.
func Keyword(word string, from int) Begin { return Begin{beginKeyword, from, word} }

// Find is how keys are found from the beginning on. Its zero value is "unknown".
type Find struct {
	kind findKind
	// For a range: the last key relative to the first, or counted from the end of the arguments if negative; and the part of the
	// remaining arguments that are keys (2 for a half), used if last is negative.
	last, limit int
	// For a count: where the count and the first key stand relative to the beginning.
	count, first int
	step         int
}

type findKind uint8

const (
	findUnknown findKind = iota
	findRange
	findCount
)

// Range finds keys from the beginning to last (relative to the beginning; from the end of the arguments if negative), every step
// arguments. A limit of n > 1 takes only the first 1/n of the arguments that remain.
func Range(last, step, limit int) Find {
	return Find{kind: findRange, last: last, step: step, limit: limit}
}

// KeyNum finds as many keys as the argument at the offset count says; the first one stands at the offset first.
func KeyNum(count, first, step int) Find {
	return Find{kind: findCount, count: count, first: first, step: step}
}

// FirstKey is the usual case: one key, the first argument.
func FirstKey(flags KeyFlags) KeySpec { return KeyAt(1, flags) }

// KeyAt is one key at argument i.
func KeyAt(i int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Begin: Index(i), Find: Range(0, 1, 0)}
}

// KeysFrom is every argument from i on.
func KeysFrom(i int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Begin: Index(i), Find: Range(-1, 1, 0)}
}

// CountedKeys is a number of keys at argument i, and that many keys after it.
func CountedKeys(i int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Begin: Index(i), Find: KeyNum(0, 1, 1)}
}

// KeyRef is a key among a command's arguments: its position and how the command uses it.
type KeyRef struct {
	Pos   int
	Flags KeyFlags
}

// KeyError is why the keys of a call can't be told. Its text is Redis', without the error code.
type KeyError string

// Error is Redis' text.
func (e KeyError) Error() string { return string(e) }

// The errors of COMMAND GETKEYS.
const (
	ErrInvalidCommand   KeyError = "Invalid command specified"
	ErrNoKeyArguments   KeyError = "The command has no key arguments"
	ErrInvalidArgCount  KeyError = "Invalid number of arguments specified for command"
	ErrInvalidArguments KeyError = "Invalid arguments specified for command"
)

// HasKeys reports whether a call of the command can have keys at all.
func (c *Command) HasKeys() bool {
	if c.GetKeys != nil {
		return true
	}
	for i := range c.Keys {
		if c.Keys[i].Flags&NotKey == 0 {
			return true
		}
	}
	return false
}

// AppendKeys appends the keys of a call to dst, in the order of the key specifications. args starts with the command's
// name. A command without keys adds none. It returns dst as it was and ErrInvalidArguments if the positions can't be told;
// such a call is one that the command's handler refuses, with an error that says more.
//
// It does not allocate if dst has room, and reads the arguments only for keywords and counts.
func AppendKeys(dst []KeyRef, c *Command, args [][]byte) ([]KeyRef, error) {
	before := len(dst)
	reliable := true
	for i := range c.Keys {
		k := &c.Keys[i]
		if k.Flags&NotKey != 0 {
			continue
		}
		var ok bool
		dst, ok = k.appendKeys(dst, args)
		if !ok || k.Flags&(Incomplete|VariableFlags) != 0 {
			reliable = false
			break
		}
	}
	if !reliable {
		dst = dst[:before]
		if c.GetKeys != nil {
			dst = c.GetKeys(dst, args)
		}
	}
	if len(dst) == before && c.Flags&NoMandatoryKeys == 0 && c.HasKeys() {
		return dst, ErrInvalidArguments
	}
	return dst, nil
}

// StoresUnread tells whether a call may name, among several keys, one that the command stores to without a look at what was there.
func (s Keys) StoresUnread() bool {
	if len(s) == 1 && s[0].plain() && s[0].Find.last == 0 {
		return false // it is the only one
	}
	return slices.ContainsFunc(s, func(k KeySpec) bool { return k.Flags&Access == 0 || k.Flags&(Incomplete|VariableFlags) != 0 })
}

// appendKeys reports false if the arguments do not fit the specification. A keyword that is absent fits: it is optional.
func (k *KeySpec) appendKeys(dst []KeyRef, args [][]byte) ([]KeyRef, bool) {
	begin := k.Begin.index
	switch k.Begin.kind {
	case beginUnknown:
		return dst, false
	case beginKeyword:
		if begin = k.Begin.after(args); begin == 0 {
			return dst, true
		}
	}
	first, last, ok := k.Find.bounds(begin, args)
	if k.Find.open() && first == len(args) {
		return dst, true
	}
	if !ok || first > last || last >= len(args) {
		return dst, false
	}
	for i := first; i <= last; i += k.Find.step {
		dst = append(dst, KeyRef{i, k.Flags})
	}
	return dst, true
}

// after returns the position behind the keyword, or 0 if it is not there or nothing follows it.
func (b Begin) after(args [][]byte) int {
	i, end, step := b.index, len(args)-1, 1
	if i < 0 {
		i, end, step = len(args)+i, 1, -1
	}
	for ; i >= 1 && i < len(args); i += step {
		if i+1 < len(args) && equalFold(args[i], b.keyword) {
			return i + 1
		}
		if i == end {
			break
		}
	}
	return 0
}

// open reports whether all arguments to the end are keys. There may be none: PFMERGE needs no source.
func (f Find) open() bool { return f.kind == findRange && f.last == -1 && f.limit < 2 }

// bounds returns the positions of the first and the last key.
func (f Find) bounds(begin int, args [][]byte) (first, last int, ok bool) {
	switch f.kind {
	case findRange:
		if f.last >= 0 {
			return begin, begin + f.last, true
		}
		if f.limit < 2 {
			return begin, len(args) + f.last, true
		}
		return begin, begin + (len(args)-begin)/f.limit + f.last, true
	case findCount:
		if begin+f.count >= len(args) {
			return 0, 0, false
		}
		n, ok := parseCount(args[begin+f.count])
		if !ok || n > len(args) {
			return 0, 0, false
		}
		first = begin + f.first
		return first, first + (n-1)*f.step, true
	}
	return 0, 0, false
}

// parseCount reads a non-negative decimal number. More digits than any count of arguments has are refused.
func parseCount(b []byte) (int, bool) {
	const maxDigits = 9
	if len(b) == 0 || len(b) > maxDigits || (b[0] == '0' && len(b) > 1) {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// equalFold compares with an ASCII word, regardless of case.
func equalFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if lower(c) != lower(word[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// legacyRange is the first, last and step of the key positions, which is all that clients before 7.0 knew.
type legacyRange struct{ first, last, step int }

// plain reports whether the specification is a range at a fixed place.
func (k *KeySpec) plain() bool { return k.Begin.kind == beginIndex && k.Find.kind == findRange }

// end is the last key's position, from the end of the arguments if negative.
func (k *KeySpec) end() int {
	if k.Find.last >= 0 {
		return k.Begin.index + k.Find.last
	}
	return k.Find.last
}

// joined lists those specifications that make one contiguous range; the others are left to the movablekeys flag.
func (s Keys) joined() (l legacyRange, whole bool) {
	if len(s) == 1 && s[0].plain() {
		return legacyRange{s[0].Begin.index, s[0].end(), s[0].Find.step}, s[0].Flags&Incomplete == 0
	}
	whole = true
	for i := range s {
		k := &s[i]
		if !k.plain() || k.Find.step != 1 || (l.first != 0 && k.Begin.index != l.last+1) {
			whole = false
			continue
		}
		if k.Flags&Incomplete != 0 {
			whole = false
		}
		if l.first == 0 {
			l.first = k.Begin.index
		}
		l.last, l.step = k.end(), 1
	}
	return l, whole
}

func (s Keys) legacyRange() legacyRange {
	l, _ := s.joined()
	return l
}

// movable reports whether first, last and step do not tell all the keys.
func (s Keys) movable() bool {
	_, whole := s.joined()
	return !whole
}
