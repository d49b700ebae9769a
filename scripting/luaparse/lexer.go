package luaparse

import (
	"fmt"
	"strings"
)

// tokenKind is a token's kind: a byte for single-character tokens, or one of the constants below.
type tokenKind int

const (
	tkAnd tokenKind = iota + 257
	tkBreak
	tkDo
	tkElse
	tkElseif
	tkEnd
	tkFalse
	tkFor
	tkFunction
	tkIf
	tkIn
	tkLocal
	tkNil
	tkNot
	tkOr
	tkRepeat
	tkReturn
	tkThen
	tkTrue
	tkUntil
	tkWhile
	tkConcat
	tkDots
	tkEq
	tkGe
	tkLe
	tkNe
	tkNumber
	tkName
	tkString
	tkEOS
)

// tokenText lists the tokens' spellings in the order of their kinds.
var tokenText = [...]string{"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
	"or", "repeat", "return", "then", "true", "until", "while", "..", "...", "==", ">=", "<=", "~=", "<number>", "<name>", "<string>", "<eof>"}

// word is the kind of a reserved word, or tkName.
func word(text string) tokenKind {
	for i, reserved := range tokenText[:tkWhile-tkAnd+1] {
		if reserved == text {
			return tkAnd + tokenKind(i)
		}
	}
	return tkName
}

func (k tokenKind) String() string {
	switch {
	case k >= tkAnd:
		return tokenText[k-tkAnd]
	case k < 32 || k == 127:
		return fmt.Sprintf("char(%d)", int(k))
	}
	return string([]byte{byte(k)})
}

// token is one token; text is what an error message quotes, str the value of a name or string, num a number's value.
type token struct {
	kind tokenKind
	text string
	str  string
	num  float64
}

// endOfInput is what the lexer sees behind the last byte.
const endOfInput = -1

// lexer cuts a chunk into tokens.
type lexer struct {
	src      string
	pos      int // index of current
	current  int // the byte at pos, or endOfInput
	line     int // line of the token just read, or of the one behind it if that was read ahead
	lastLine int // what line was before tok was the current token
	chunk    string
	tok      token
	ahead    token
	hasAhead bool
}

// Error is a syntax error; its text is the reference implementation's.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

func newLexer(src, chunk string) *lexer {
	lx := &lexer{src: src, chunk: chunk, line: 1, lastLine: 1, pos: -1}
	lx.step()
	return lx
}

func (lx *lexer) step() {
	lx.pos++
	if lx.pos < len(lx.src) {
		lx.current = int(lx.src[lx.pos])
		return
	}
	lx.pos = len(lx.src)
	lx.current = endOfInput
}

// fail raises a syntax error; near is what the message quotes, or empty for none.
func (lx *lexer) fail(message, near string) {
	text := fmt.Sprintf("%s:%d: %s", lx.chunk, lx.line, message)
	if near != "" {
		// The reference implementation handles C strings: a quoted token ends at its first zero byte.
		if zero := strings.IndexByte(near, 0); zero >= 0 {
			near = near[:zero]
		}
		text += " near '" + near + "'"
	}
	panic(&Error{text})
}

func (lx *lexer) syntaxError(message string) { lx.fail(message, lx.tok.quoted()) }

// quoted is what messages quote of a token. The reference implementation takes a zero byte for no token.
func (t *token) quoted() string {
	switch t.kind {
	case 0:
		return ""
	case tkName, tkString, tkNumber:
		return t.text
	}
	return t.kind.String()
}

func (lx *lexer) next() {
	lx.lastLine = lx.line
	if lx.hasAhead {
		lx.tok, lx.hasAhead = lx.ahead, false
		return
	}
	lx.tok = lx.scan()
}

// peek reads the token behind the current one. As in the reference implementation the line is that one's from now on.
func (lx *lexer) peek() tokenKind {
	lx.ahead, lx.hasAhead = lx.scan(), true
	return lx.ahead.kind
}

func (lx *lexer) newline() {
	old := lx.current
	lx.step()
	if (lx.current == '\n' || lx.current == '\r') && lx.current != old {
		lx.step()
	}
	lx.line++
}

func isDigit(c int) bool { return c >= '0' && c <= '9' }

func isNameStart(c int) bool {
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

func isNamePart(c int) bool { return isNameStart(c) || isDigit(c) }

func (lx *lexer) scan() token {
	for {
		switch c := lx.current; {
		case c == endOfInput:
			return token{kind: tkEOS}
		case c == '\n' || c == '\r':
			lx.newline()
		case c == ' ' || c == '\t' || c == '\v' || c == '\f':
			lx.step()
		case c == '-':
			lx.step()
			if lx.current != '-' {
				return token{kind: '-'}
			}
			lx.comment()
		case c == '[':
			start := lx.pos
			if level := lx.longBracket(); level >= 0 {
				return lx.longString(start, level, "unfinished long string")
			} else if level < -1 {
				lx.fail("invalid long string delimiter", lx.src[start:lx.pos])
			}
			return token{kind: '['}
		case c == '"' || c == '\'':
			return lx.shortString()
		case c == '.':
			return lx.dot()
		case c == '=' || c == '<' || c == '>' || c == '~':
			return lx.comparison()
		case isDigit(c):
			return lx.number(lx.pos)
		case isNameStart(c):
			start := lx.pos
			for isNamePart(lx.current) {
				lx.step()
			}
			text := lx.src[start:lx.pos]
			return token{kind: word(text), text: text, str: text}
		default:
			lx.step()
			return token{kind: tokenKind(c)}
		}
	}
}

func (lx *lexer) comparison() token {
	first := lx.current
	lx.step()
	if lx.current != '=' {
		return token{kind: tokenKind(first)}
	}
	lx.step()
	switch first {
	case '=':
		return token{kind: tkEq}
	case '<':
		return token{kind: tkLe}
	case '>':
		return token{kind: tkGe}
	}
	return token{kind: tkNe}
}

// skip steps over one of two bytes, or over a zero byte: the reference implementation asks strchr for the byte in a string,
// and that finds the zero at the string's end.
func (lx *lexer) skip(a, b byte) bool {
	if lx.current != int(a) && lx.current != int(b) && lx.current != 0 {
		return false
	}
	lx.step()
	return true
}

func (lx *lexer) dot() token {
	start := lx.pos
	lx.step()
	switch {
	case !lx.skip('.', '.'):
		if isDigit(lx.current) {
			return lx.number(start)
		}
		return token{kind: '.'}
	case lx.skip('.', '.'):
		return token{kind: tkDots}
	}
	return token{kind: tkConcat}
}

func (lx *lexer) comment() {
	lx.step()
	if lx.current == '[' {
		start := lx.pos
		if level := lx.longBracket(); level >= 0 {
			lx.longString(start, level, "unfinished long comment")
			return
		}
	}
	for lx.current != '\n' && lx.current != '\r' && lx.current != endOfInput {
		lx.step()
	}
}

// longBracket reads `[=*` and answers the number of signs when a second bracket follows, -1 for a lone bracket, and
// less for signs without a second bracket.
func (lx *lexer) longBracket() int {
	open := lx.current
	lx.step()
	count := 0
	for lx.current == '=' {
		lx.step()
		count++
	}
	if lx.current == open {
		return count
	}
	return -count - 1
}

// longString reads a string or comment behind its opening bracket, without a line break that comes first. Messages quote it without
// that, too.
func (lx *lexer) longString(start, level int, unfinished string) token {
	lx.step()
	var text strings.Builder
	text.WriteString(lx.src[start:lx.pos])
	if lx.current == '\n' || lx.current == '\r' {
		lx.newline()
	}
	for {
		switch lx.current {
		case endOfInput:
			lx.fail(unfinished, "<eof>")
		case ']':
			from := lx.pos
			if lx.longBracket() == level {
				lx.step()
				text.WriteString(lx.src[from:lx.pos])
				all := text.String()
				return token{kind: tkString, text: all, str: all[level+2 : len(all)-level-2]}
			}
			text.WriteString(lx.src[from:lx.pos])
		case '\n', '\r':
			text.WriteByte('\n')
			lx.newline()
		default:
			text.WriteByte(byte(lx.current))
			lx.step()
		}
	}
}

func (lx *lexer) shortString() token {
	quote := lx.current
	start := lx.pos
	lx.step()
	// raw is what the reference implementation has in its buffer: the escapes already replaced.
	raw := []byte{lx.src[start]}
	for lx.current != quote {
		switch lx.current {
		case endOfInput:
			lx.fail("unfinished string", "<eof>")
		case '\n', '\r':
			lx.fail("unfinished string", string(raw))
		case '\\':
			lx.step()
			raw = lx.escape(raw)
		default:
			raw = append(raw, byte(lx.current))
			lx.step()
		}
	}
	lx.step()
	text := string(append(raw, byte(quote)))
	return token{kind: tkString, text: text, str: text[1 : len(text)-1]}
}

func (lx *lexer) escape(raw []byte) []byte {
	const letters, values = "abfnrtv", "\a\b\f\n\r\t\v"
	switch c := lx.current; {
	case c == endOfInput:
		return raw
	case c == '\n' || c == '\r':
		lx.newline()
		return append(raw, '\n')
	case isDigit(c):
		value := 0
		for i := 0; i < 3 && isDigit(lx.current); i++ {
			value = value*10 + lx.current - '0'
			lx.step()
		}
		if value > 255 {
			lx.fail("escape sequence too large", string(raw))
		}
		return append(raw, byte(value))
	default:
		lx.step()
		if i := strings.IndexByte(letters, byte(c)); i >= 0 {
			return append(raw, values[i])
		}
		return append(raw, byte(c))
	}
}

func (lx *lexer) number(start int) token {
	for isDigit(lx.current) || lx.current == '.' {
		lx.step()
	}
	if lx.skip('e', 'E') {
		lx.skip('+', '-')
	}
	for isNamePart(lx.current) {
		lx.step()
	}
	text := lx.src[start:lx.pos]
	spelled, _, _ := strings.Cut(text, "\x00")
	value, ok := Number(spelled)
	if !ok {
		lx.fail("malformed number", text)
	}
	return token{kind: tkNumber, text: text, num: value}
}
