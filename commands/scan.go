package commands

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"codeq/resp"
	"codeq/shard"
)

// What SCAN, HSCAN, SSCAN and ZSCAN share: their arguments, their reply, and the glob patterns, which KEYS and the
// subscriptions to patterns use too. A new command of the family calls scanCollection and adds what it finds.

// defaultScanCount is how many elements a call visits when it has no COUNT.
const defaultScanCount = 10

// gathered is a reply whose length is known only at its end.
type gathered struct {
	n        int
	elements resp.Writer
}

// bulk adds a string.
func (g *gathered) bulk(b []byte) {
	g.n++
	g.elements.Bulk(b)
}

// reply writes the array.
func (g *gathered) reply(out *resp.Writer) {
	out.Array(g.n)
	out.Raw(g.elements.Bytes())
}

// scanCall is one call of the family: what it asks for, and what was found for it.
type scanCall struct {
	gathered
	cursor  uint64
	count   int
	pattern []byte // nil matches everything
	kind    []byte // SCAN's TYPE, nil for every type
}

// options parses "[MATCH pattern] [COUNT count] [TYPE type]" to the end; only SCAN takes a type.
func (s *scanCall) options(a *arguments, typed bool) error {
	s.count = defaultScanCount
	for a.more() {
		switch {
		case a.token("MATCH"):
			s.pattern = a.bytes()
		case a.token("COUNT"):
			count := a.integer()
			if count < 1 {
				a.fail(resp.ErrSyntax)
			}
			s.count = int(count)
		case typed && a.token("TYPE"):
			s.kind = a.bytes()
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	if string(s.pattern) == "*" {
		s.pattern = nil
	}
	return a.done()
}

// matches tells whether MATCH lets the name pass.
func (s *scanCall) matches(name []byte) bool { return s.pattern == nil || globMatch(s.pattern, name) }

// hasType tells whether TYPE lets the kind pass. A type that does not exist matches nothing.
func (s *scanCall) hasType(kind shard.Kind) bool {
	return s.kind == nil || strings.EqualFold(string(s.kind), kind.String())
}

// reply writes the cursor of the next call and what was found.
func (s *scanCall) reply(out *resp.Writer, next uint64) {
	var digits [20]byte
	out.Array(2)
	out.Bulk(strconv.AppendUint(digits[:0], next, 10))
	s.gathered.reply(out)
}

// scanCollection carries out HSCAN, SSCAN and ZSCAN: the cursor is checked first, then the key, then, if there is a
// collection, the options. length and opened are what opening the collection gave; visit goes through the elements
// from the cursor on, adds those that match and returns the next cursor.
func scanCollection(c *Call, length func() (int64, error), opened error, visit func(*scanCall) (next uint64, err error)) error {
	a := c.args(1)
	s := &scanCall{cursor: a.cursor()}
	if a.err != nil {
		return a.err
	}
	if opened != nil {
		return opened
	}
	n, err := length()
	if err != nil {
		return err
	}
	if n == 0 {
		s.reply(c.Out, 0)
		return nil
	}
	if err := s.options(a, false); err != nil {
		return err
	}
	next, err := visit(s)
	if err != nil {
		return err
	}
	s.reply(c.Out, next)
	return nil
}

// cursor takes a cursor. Redis reads it with C's strtoul, so a sign may stand before the digits, a NUL ends them,
// and nothing at all reads as zero.
func (a *arguments) cursor() uint64 {
	n, ok := parseCursor(a.bytes())
	if !ok {
		a.fail(resp.ErrInvalidCursor)
	}
	return n
}

func parseCursor(b []byte) (n uint64, ok bool) {
	b, _, _ = bytes.Cut(b, []byte{0})
	if len(b) == 0 {
		return 0, true
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		digit := uint64(c - '0')
		if digit > 9 || n > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	if negative {
		n = -n
	}
	return n, len(b) > 0
}

// globMatch tells whether the whole of s matches the pattern, with the rules of Redis' stringmatchlen: * is any run of
// bytes, ? any byte, [a-z] and [^a-z] one of or none of a set, and a backslash takes the next byte as it is.
//
// Everything but a star stands for exactly one byte. So when something does not match, it suffices to let the last star
// take one byte more: what stands before that star has matched as early as it can, and later would leave less to match.
// That takes at most len(pattern)*len(s) steps and no recursion, whoever sends the pattern.
func globMatch(pattern, s []byte) bool {
	if len(s) == 0 {
		// Redis compares nothing with an empty string: not even a star matches it.
		return len(pattern) == 0
	}
	p, i := 0, 0
	star, from := -1, 0 // behind the last star, and where its run ends in s
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			if p == len(pattern) {
				return true
			}
			star, from = p, i
			continue
		}
		if p < len(pattern) {
			if next, ok := globByte(pattern, p, s[i]); ok {
				p = next
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globByte matches c with the part of the pattern at p that stands for one byte, and returns where the part behind it
// begins.
func globByte(pattern []byte, p int, c byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return globSet(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// globSet matches c with a set whose opening bracket stands before p. A set without its closing bracket ends with the
// pattern.
func globSet(pattern []byte, p int, c byte) (next int, ok bool) {
	inverted := p < len(pattern) && pattern[p] == '^'
	if inverted {
		p++
	}
	found := false
	for p < len(pattern) && pattern[p] != ']' {
		rest := pattern[p:]
		switch {
		case rest[0] == '\\' && len(rest) >= 2:
			found = found || rest[1] == c
			p += 2
		case len(rest) >= 3 && rest[1] == '-':
			// Redis compares C's char, which is signed.
			low, high, is := int8(rest[0]), int8(rest[2]), int8(c)
			found = found || min(low, high) <= is && is <= max(low, high)
			p += 3
		default:
			found = found || rest[0] == c
			p++
		}
	}
	return min(p+1, len(pattern)), found != inverted
}
