// Package words splits lines into words by the rules of Redis' sdssplitargs, which inline commands and the first lines of
// scripts have in common. It knows nothing of what the words mean.
//
// It starts no goroutines and has no locks.
package words

// Next finds the first word at or behind from and unescapes it in place, which never makes it longer: it is line[start:end],
// and the rest of the line begins at next. Without another word, start is len(line). Not ok says that quotes are unbalanced.
//
// "…" knows \n \r \t \b \a \xHH and takes any other escaped byte for itself; '…' knows only \'. A closing quote must end
// the word; an opening one may stand inside it.
func Next(line []byte, from int) (start, end, next int, ok bool) {
	for from < len(line) && isSpace(line[from]) {
		from++
	}
	length, used, ok := unescapeWord(line[from:])
	return from, from + length, from + used, ok
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
