package scripting

import (
	"strconv"
	"strings"

	"codeq/scripting/lua"
)

const (
	maxCaptures = 32
	// maxPatternDepth bounds the recursion of a match. The reference implementation has the C stack for a limit.
	maxPatternDepth = 200_000
	openCapture     = -1
	positionCapture = -2
)

type capture struct{ start, length int }

// matcher matches one subject against one pattern. Every step is accounted for, because a short pattern can take
// time exponential in the subject's length.
type matcher struct {
	st       *state
	L        *lua.Thread
	src, pat string
	anchored bool // it must match where the search begins
	literal  bool // it begins with a letter that is not special, so that it matches at such a letter only
	level    int
	depth    int
	captures [maxCaptures]capture
}

// compile takes a pattern. It ends at a NUL, and an anchor is at its beginning if there can be one.
func (m *matcher) compile(pattern string, anchor bool) {
	m.pat = cString(pattern)
	if anchor {
		m.pat, m.anchored = strings.CutPrefix(m.pat, "^")
	}
	if m.pat == "" || m.anchored {
		return
	}
	m.literal = strings.IndexByte(".%[()$", m.pat[0]) < 0 && (len(m.pat) == 1 || strings.IndexByte("?*-", m.pat[1]) < 0)
}

// search looks for a match from a position on and answers where it begins and ends, or -1.
func (m *matcher) search(from int) (start, end int) {
	for start = from; start <= len(m.src); start++ {
		if m.literal {
			n := strings.IndexByte(m.src[start:], m.pat[0])
			if n < 0 {
				m.st.work(m.L, (len(m.src)-start)/bytesPerStep)
				break
			}
			m.st.work(m.L, n/bytesPerStep)
			start += n
		}
		m.level = 0
		if end = m.match(start, 0); end >= 0 {
			return start, end
		}
		if m.anchored {
			break
		}
	}
	return -1, -1
}

func class(c, kind byte) bool {
	var is bool
	switch kind | 0x20 {
	case 'a':
		is = isAlpha(c)
	case 'c':
		is = c < 32 || c == 127
	case 'd':
		is = c >= '0' && c <= '9'
	case 'l':
		is = c >= 'a' && c <= 'z'
	case 'p':
		is = c > 32 && c < 127 && !isAlpha(c) && (c < '0' || c > '9')
	case 's':
		is = c == ' ' || (c >= 9 && c <= 13)
	case 'u':
		is = c >= 'A' && c <= 'Z'
	case 'w':
		is = isAlpha(c) || (c >= '0' && c <= '9')
	case 'x':
		is = (c >= '0' && c <= '9') || (c|0x20 >= 'a' && c|0x20 <= 'f')
	case 'z':
		is = c == 0
	default:
		return kind == c
	}
	if kind >= 'A' && kind <= 'Z' {
		return !is
	}
	return is
}

func isAlpha(c byte) bool { return (c|0x20) >= 'a' && (c|0x20) <= 'z' }

// classEnd answers the index behind the single-character class at p.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	if c == '%' {
		if p >= len(m.pat) {
			m.L.Raise("malformed pattern (ends with '%%')")
		}
		return p + 1
	}
	if c != '[' {
		return p
	}
	if p < len(m.pat) && m.pat[p] == '^' {
		p++
	}
	for first := true; first || p >= len(m.pat) || m.pat[p] != ']'; first = false {
		if p >= len(m.pat) {
			m.L.Raise("malformed pattern (missing ']')")
		}
		p++
		if m.pat[p-1] == '%' && p < len(m.pat) {
			p++
		}
	}
	return p + 1
}

// inSet matches c against the set from p, its '[', to end, its ']'.
func (m *matcher) inSet(c byte, p, end int) bool {
	found := true
	p++
	if m.pat[p] == '^' {
		found = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%':
			p++
			if class(c, m.pat[p]) {
				return found
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return found
			}
			p += 2
		case m.pat[p] == c:
			return found
		}
	}
	return !found
}

func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	switch c := m.src[s]; m.pat[p] {
	case '.':
		return true
	case '%':
		return class(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	default:
		return m.pat[p] == c
	}
}

// match answers the end of a match of the pattern from p at s, or -1.
func (m *matcher) match(s, p int) int {
	m.depth++
	if m.depth > maxPatternDepth {
		m.L.Raise("pattern too complex")
	}
	end := m.items(s, p)
	m.depth--
	return end
}

// items matches item after item, and recurses where there is a choice.
func (m *matcher) items(s, p int) int {
	for {
		m.st.work(m.L, 1)
		if p == len(m.pat) {
			return s
		}
		switch c := m.pat[p]; {
		case c == '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.startCapture(s, p+2, positionCapture)
			}
			return m.startCapture(s, p+1, openCapture)
		case c == ')':
			return m.endCapture(s, p+1)
		case c == '%' && m.isSpecial(p+1):
			if s, p = m.special(s, p+1); s < 0 {
				return -1
			}
			continue
		case c == '$' && p+1 == len(m.pat):
			if s == len(m.src) {
				return s
			}
			return -1
		}
		end := m.classEnd(p)
		matched := m.single(s, p, end)
		var suffix byte
		if end < len(m.pat) {
			suffix = m.pat[end]
		}
		switch suffix {
		case '?':
			if matched {
				if e := m.match(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.longest(s, p, end)
		case '+':
			if !matched {
				return -1
			}
			return m.longest(s+1, p, end)
		case '-':
			return m.shortest(s, p, end)
		default:
			if !matched {
				return -1
			}
			s++
			p = end
		}
	}
}

// isSpecial says whether the letter behind a percent sign is more than a class: %b, %f or a back reference.
func (m *matcher) isSpecial(p int) bool {
	return p < len(m.pat) && (m.pat[p] == 'b' || m.pat[p] == 'f' || (m.pat[p] >= '0' && m.pat[p] <= '9'))
}

// special matches such an item and answers where to go on; a negative position means no match.
func (m *matcher) special(s, p int) (nextS, nextP int) {
	switch m.pat[p] {
	case 'b':
		return m.balance(s, p+1), p + 3
	case 'f':
		next, ok := m.frontier(s, p+1)
		if !ok {
			return -1, next
		}
		return s, next
	}
	return m.backReference(s, m.pat[p]), p + 1
}

// singlesPerWork is how many characters are matched at once, each of which may take a look at the whole of a set.
const singlesPerWork = 64

func (m *matcher) longest(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		if n++; n%singlesPerWork == 0 {
			m.st.work(m.L, singlesPerWork/16+end-p)
		}
	}
	for ; n >= 0; n-- {
		if e := m.match(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

func (m *matcher) shortest(s, p, end int) int {
	for {
		if e := m.match(s, end+1); e >= 0 {
			return e
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) startCapture(s, p, what int) int {
	if m.level >= maxCaptures {
		m.L.Raise("too many captures")
	}
	m.captures[m.level] = capture{s, what}
	m.level++
	e := m.match(s, p)
	if e < 0 {
		m.level--
	}
	return e
}

func (m *matcher) endCapture(s, p int) int {
	open := m.level - 1
	for open >= 0 && m.captures[open].length != openCapture {
		open--
	}
	if open < 0 {
		m.L.Raise("invalid pattern capture")
	}
	m.captures[open].length = s - m.captures[open].start
	e := m.match(s, p)
	if e < 0 {
		m.captures[open].length = openCapture
	}
	return e
}

func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		m.L.Raise("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	open, shut, nested := m.pat[p], m.pat[p+1], 1
	for i := s + 1; i < len(m.src); i++ {
		switch c := m.src[i]; {
		case c == shut:
			nested--
			if nested == 0 {
				m.st.work(m.L, (i-s)/16)
				return i + 1
			}
		case c == open:
			nested++
		}
	}
	m.st.work(m.L, (len(m.src)-s)/16)
	return -1
}

func (m *matcher) frontier(s, p int) (next int, ok bool) {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.L.Raise("missing '[' after '%%f' in pattern")
	}
	end := m.classEnd(p)
	var previous, current byte
	if s > 0 {
		previous = m.src[s-1]
	}
	if s < len(m.src) {
		current = m.src[s]
	}
	return end, !m.inSet(previous, p, end-1) && m.inSet(current, p, end-1)
}

func (m *matcher) backReference(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.level || m.captures[i].length == openCapture {
		m.L.Raise("invalid capture index")
	}
	c := m.captures[i]
	n := c.length
	if n >= 0 && len(m.src)-s >= n && m.src[c.start:c.start+n] == m.src[s:s+n] {
		return s + n
	}
	return -1
}

// bounds answers where a capture begins and ends; without any, the first is the whole match. One of a position has no end, but -1.
func (m *matcher) bounds(i, s, e int) (from, to int) {
	if i >= m.level {
		if i != 0 {
			m.L.Raise("invalid capture index")
		}
		return s, e
	}
	c := m.captures[i]
	switch c.length {
	case openCapture:
		m.L.Raise("unfinished capture")
	case positionCapture:
		return c.start, -1
	}
	return c.start, c.start + c.length
}

// value is a capture as a value.
func (m *matcher) value(i, s, e int) lua.Value {
	from, to := m.bounds(i, s, e)
	if to < 0 {
		return lua.Number(float64(from + 1))
	}
	return m.st.substring(m.L, m.src[from:to], len(m.src))
}

// appendValue appends a capture as text.
func (m *matcher) appendValue(dst []byte, i, s, e int) []byte {
	from, to := m.bounds(i, s, e)
	if to < 0 {
		return strconv.AppendInt(dst, int64(from+1), 10)
	}
	return append(dst, m.src[from:to]...)
}

// push pushes all captures, or the whole match when there are none and whole is set.
func (m *matcher) push(s, e int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.L.Push(m.value(i, s, e))
	}
	return n
}

// plain says whether a pattern has no special characters.
func plain(pattern string) bool { return !strings.ContainsAny(cString(pattern), "^$*+?.([%-") }
