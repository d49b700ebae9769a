package supplier

import (
	"bytes"
	"fmt"
	"strings"
)

// maxPatterns and maxPatternLen bound what every other key is compared with.
const (
	maxPatterns   = 64
	maxPatternLen = 256
)

// pattern says where in a client's keys the part stands that its keys have in
// common, as `bull:{queue}:*` does for BullMQ: the key is then hashed by that
// part, as if the client had written braces around it.
//
// The form is a literal prefix, one {capture}, and either the end or a colon
// and a rest in which `*` stands for any bytes, none too. The capture is a whole
// segment of the key or the end of one: it has at least one byte and no colon. So a key
// matches in one way at most, and matching takes one pass.
type pattern struct {
	prefix string
	rest   [][]byte // what stands between the stars behind the capture; nil where the capture ends the key
}

func parsePattern(text string) (pattern, error) {
	bad := func(why string) (pattern, error) {
		return pattern{}, fmt.Errorf("key-patterns: %q %s; write it like \"bull:{queue}:*\"", text, why)
	}
	if len(text) > maxPatternLen {
		return pattern{}, fmt.Errorf("key-patterns: a pattern has %d characters; at most %d are possible", len(text), maxPatternLen)
	}
	prefix, tail, open := strings.Cut(text, "{")
	capture, rest, closed := strings.Cut(tail, "}")
	switch {
	case !open || !closed:
		return bad("has no {capture}")
	case capture == "" || strings.ContainsAny(capture, "{*:"):
		return bad("has a capture that is not a name")
	case strings.ContainsAny(rest, "{}") || strings.Contains(prefix, "}"):
		return bad("has more than one capture, or stray braces")
	case strings.Contains(prefix, "*"):
		return bad("has a star before its capture")
	case rest != "" && rest[0] != ':':
		return bad("goes on behind its capture without a colon")
	}
	p := pattern{prefix: prefix}
	if rest != "" {
		p.rest = bytes.Split([]byte(rest), []byte("*"))
	}
	return p, nil
}

// capture is the part of key that p captures.
func (p *pattern) capture(key []byte) ([]byte, bool) {
	if !hasPrefix(key, p.prefix) {
		return nil, false
	}
	part, rest := key[len(p.prefix):], []byte(nil)
	if i := bytes.IndexByte(part, ':'); i >= 0 {
		part, rest = part[:i], part[i:]
	}
	return part, len(part) > 0 && p.matchRest(rest)
}

// matchRest matches greedily from the left, which suffices: a piece between
// two stars found earlier leaves more for those behind it.
func (p *pattern) matchRest(b []byte) bool {
	if len(p.rest) == 0 {
		return len(b) == 0
	}
	first, more := p.rest[0], p.rest[1:]
	if len(more) == 0 {
		return bytes.Equal(b, first)
	}
	if !bytes.HasPrefix(b, first) {
		return false
	}
	b = b[len(first):]
	for _, piece := range more[:len(more)-1] {
		i := bytes.Index(b, piece)
		if i < 0 {
			return false
		}
		b = b[i+len(piece):]
	}
	return bytes.HasSuffix(b, more[len(more)-1])
}
