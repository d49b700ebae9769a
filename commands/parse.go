package commands

import (
	"bytes"
	"math"
	"strconv"

	"codeq/resp"
)

// arguments reads a command's arguments from left to right. The first one that is wrong sets the error and
// everything after it reads as zero, so a handler parses straight through and asks once, with done or err.
type arguments struct {
	rest [][]byte
	err  error
}

// more tells whether arguments are left and none was wrong so far.
func (a *arguments) more() bool { return a.err == nil && len(a.rest) > 0 }

// fail notes the first error.
func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// bytes takes the next argument as it is. A missing one is a syntax error.
func (a *arguments) bytes() []byte {
	if !a.more() {
		a.fail(resp.ErrSyntax)
		return nil
	}
	arg := a.rest[0]
	a.rest = a.rest[1:]
	return arg
}

// take takes the next n arguments.
func (a *arguments) take(n int) [][]byte {
	if a.err != nil || n < 0 || n > len(a.rest) {
		a.fail(resp.ErrSyntax)
		return nil
	}
	args := a.rest[:n]
	a.rest = a.rest[n:]
	return args
}

// all takes every argument that is left.
func (a *arguments) all() [][]byte { return a.take(len(a.rest)) }

// integer takes an integer as Redis reads it: decimal, no blanks, no leading plus or zeros.
func (a *arguments) integer() int64 {
	n, ok := parseInt(a.bytes())
	if !ok {
		a.fail(resp.ErrNotInteger)
	}
	return n
}

// token takes the next argument if it is the given upper-case word, in any case.
func (a *arguments) token(word string) bool {
	if !a.more() || !isToken(a.rest[0], word) {
		return false
	}
	a.rest = a.rest[1:]
	return true
}

// done returns the first error; arguments that are left over are a syntax error.
func (a *arguments) done() error {
	if a.more() {
		a.fail(resp.ErrSyntax)
	}
	return a.err
}

// isToken tells whether the argument is the upper-case word, in any case.
func isToken(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i := range arg {
		c := arg[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// maxIntegerText is the length of the longest integer.
const maxIntegerText = 20

// parseInt reads a decimal int64 the way Redis' string2ll does: only its canonical spelling counts.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > maxIntegerText {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	switch {
	case len(digits) == 0:
		return 0, false
	case digits[0] == '0':
		return 0, len(b) == 1
	}
	n, ok := parseDigits(digits)
	if !ok {
		return 0, false
	}
	if b[0] == '-' {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n <= math.MaxInt64
}

// parseDigits reads a decimal uint64 that consists of digits alone.
func parseDigits(digits []byte) (n uint64, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' || n > math.MaxUint64/10 {
			return 0, false
		}
		next := n*10 + uint64(c-'0')
		if next < n*10 {
			return 0, false
		}
		n = next
	}
	return n, len(digits) > 0
}

// parseFloat reads a float64 the way Redis' strtod calls do: no blanks around it, hexadecimal and inf allowed,
// NaN and what overflows refused.
func parseFloat(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 1024 || bytes.IndexByte(b, '_') >= 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err == nil {
		return f, !math.IsNaN(f)
	}
	// strconv wants an exponent behind a hexadecimal mantissa, C does not.
	if bytes.ContainsAny(b, "xX") && !bytes.ContainsAny(b, "pP") {
		if f, err := strconv.ParseFloat(string(b)+"p0", 64); err == nil {
			return f, true
		}
	}
	return 0, false
}
