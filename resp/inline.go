package resp

// appendWords splits an inline command into words by the rules of Redis' sdssplitargs and appends their places to spans;
// offset is the line's place in the buffer. Words are unescaped in place, which never makes them longer. It reports false
// when quotes are unbalanced.
//
// "…" knows \n \r \t \b \a \xHH and takes any other escaped byte for itself; '…' knows only \'. A closing quote must end
// the word; an opening one may stand inside it.
func appendWords(spans []span, line []byte, offset int) ([]span, bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return spans, true
		}
		length, next, ok := unescapeWord(line[i:])
		if !ok {
			return spans, false
		}
		spans = append(spans, span{offset + i, offset + i + length})
		i += next
	}
}

// unescapeWord unescapes the word at the start of b in place. length is the word's, next where the rest begins.
func unescapeWord(b []byte) (length, next int, ok bool) {
	i := 0
	for i < len(b) && !isSeparator(b[i]) {
		quote := b[i]
		if quote != '"' && quote != '\'' {
			b[length] = b[i]
			length++
			i++
			continue
		}
		n, used, ok := unescapeQuoted(b[length:], b[i+1:], quote)
		i += 1 + used
		if !ok || (i < len(b) && !isSpace(b[i])) {
			return 0, 0, false
		}
		return length + n, i, true
	}
	return length, i, true
}

// unescapeQuoted writes to dst what src holds up to the closing quote, which is the last byte used. dst may overlap src
// from before.
func unescapeQuoted(dst, src []byte, quote byte) (n, used int, ok bool) {
	for i := 0; i < len(src); {
		c := src[i]
		if c == quote {
			return n, i + 1, true
		}
		i++
		if c == '\\' && i < len(src) && (quote == '"' || src[i] == quote) {
			c = src[i]
			i++
			if quote == '"' {
				if c == 'x' && i+1 < len(src) && isHex(src[i]) && isHex(src[i+1]) {
					c = unhex(src[i])<<4 | unhex(src[i+1])
					i += 2
				} else {
					c = unescape(c)
				}
			}
		}
		dst[n] = c
		n++
	}
	return 0, 0, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isSeparator says what ends a word; isSpace says what may lie between words. As in Redis, they differ in \v and \f.
func isSeparator(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isSpace(c byte) bool { return isSeparator(c) || c == '\v' || c == '\f' }

func isHex(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
