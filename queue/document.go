package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A task's JSON is patched, never decoded and encoded again: every transition of a task rewrites it, most of it is a payload that
// does not change, and fields that a newer client has added must come out as they went in. So a document is the text with the
// places of its members:
//
//  1. scan walks over the whole text once. It accepts what RFC 8259 and so encoding/json do, since a text may come
//     from any client, and keeps for each member where its name begins, where its value stands, and which field it is.
//  2. A patch names new values for fields, and fields to leave out.
//  3. patchInto copies the text with the patch's fields in place of the old ones. A field that was not there comes before
//     the first one that follows it in codeQ's order; whatever it doesn't know stays where it is, byte for byte. Where members
//     stand in the new text is known as they are copied, so what has been patched need not be scanned.
//  4. Where the members of a task stand that we wrote ourselves is kept with it in the cache, see layout.go, so that most
//     tasks are never scanned.
//
// As in encoding/json the last of several members with one name counts, and when it is patched the others go.

// field is a member of a task's JSON, in codeQ's order.
type field int8

const (
	fieldUnknown field = iota - 1
	fieldID
	fieldCommand
	fieldPayload
	fieldPriority
	fieldWebhook
	fieldTraceParent
	fieldTraceState
	fieldStatus
	fieldLocation
	fieldWorker
	fieldLeaseUntil
	fieldAttempts
	fieldMaxAttempts
	fieldError
	fieldResultKey
	fieldTenant
	fieldCreatedAt
	fieldUpdatedAt
	fieldCount
)

var fieldNames = [fieldCount]string{"id", "command", "payload", "priority", "webhook", "traceParent", "traceState", "status",
	"lastKnownLocation", "workerId", "leaseUntil", "attempts", "maxAttempts", "error", "resultKey", "tenantId",
	"createdAt", "updatedAt"}

// String is the field's name in JSON.
func (f field) String() string { return fieldNames[f] }

// fieldNamed is the field with the name, or fieldUnknown.
func fieldNamed(name []byte) field {
	switch string(name) {
	case "id":
		return fieldID
	case "command":
		return fieldCommand
	case "payload":
		return fieldPayload
	case "priority":
		return fieldPriority
	case "webhook":
		return fieldWebhook
	case "traceParent":
		return fieldTraceParent
	case "traceState":
		return fieldTraceState
	case "status":
		return fieldStatus
	case "lastKnownLocation":
		return fieldLocation
	case "workerId":
		return fieldWorker
	case "leaseUntil":
		return fieldLeaseUntil
	case "attempts":
		return fieldAttempts
	case "maxAttempts":
		return fieldMaxAttempts
	case "error":
		return fieldError
	case "resultKey":
		return fieldResultKey
	case "tenantId":
		return fieldTenant
	case "createdAt":
		return fieldCreatedAt
	case "updatedAt":
		return fieldUpdatedAt
	}
	return fieldUnknown
}

// member is one member of the object: name, colon and value stand at text[start:end], the value at text[value:end].
type member struct {
	start, nameEnd, value, end int
	field                      field
	escaped                    bool // something in the name, or in the value if it is a string, is escaped
}

// document is a scanned JSON object. Its zero value can scan, and scan again; the members' memory is kept.
type document struct {
	text    []byte
	members []member
	body    int // behind the opening brace
	closing int // the closing brace
	// at is the index of each field's last member, plus one; 0: it has none.
	at [fieldCount]int32
	// laid says where the members stand if isLaid, and then the fields above but text say nothing.
	isLaid bool
	laid   laidOut
}

// maxDepth is how deep values may be nested: as encoding/json has it.
const maxDepth = 10000

// errNotObject says what is wrong with a text that is JSON but no object.
var errNotObject = errors.New("it is no JSON object")

// scan makes d the document of text, which it refers to from then on.
func (d *document) scan(text []byte) error {
	d.begin(text, 0)
	s := scanner{text: text}
	s.space()
	if s.peek() != '{' {
		if s.value(0) && s.end() {
			return errNotObject
		}
		return s.fault()
	}
	s.pos++
	d.body = s.pos
	if !d.scanMembers(&s) || !s.end() {
		return s.fault()
	}
	return nil
}

// begin makes d a document of the text that has no members yet.
func (d *document) begin(text []byte, body int) {
	d.text, d.members, d.at, d.body, d.isLaid = text, d.members[:0], [fieldCount]int32{}, body, false
}

// scanMembers scans from behind the opening brace to behind the closing one.
func (d *document) scanMembers(s *scanner) bool {
	s.space()
	if s.peek() == '}' {
		d.closing = s.pos
		s.pos++
		return true
	}
	for {
		start := s.pos
		escapedName, ok := s.str()
		if !ok {
			return false
		}
		nameEnd := s.pos
		if !s.colon() {
			return false
		}
		value, escaped := s.pos, false
		if s.peek() == '"' {
			escaped, ok = s.str()
		} else {
			ok = s.value(1)
		}
		if !ok {
			return false
		}
		name := d.text[start+1 : nameEnd-1]
		if escapedName {
			name = appendUnquoted(nil, name)
		}
		d.appendMember(start, nameEnd, value, s.pos, fieldNamed(name), escapedName || escaped)
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case '}':
			d.closing = s.pos
			s.pos++
			return true
		default:
			return false
		}
	}
}

// appendMember notes a member behind the others. It writes the fields where they belong: a member that is made first and appended
// then is copied from memory which was written just before in smaller pieces, and that stalls.
func (d *document) appendMember(start, nameEnd, value, end int, f field, escaped bool) {
	d.members = append(d.members, member{})
	m := &d.members[len(d.members)-1]
	m.start, m.nameEnd, m.value, m.end, m.field, m.escaped = start, nameEnd, value, end, f, escaped
	if f != fieldUnknown {
		d.at[f] = int32(len(d.members))
	}
}

// raw is the JSON text of a field's value; nil when it is not there. A null counts as not there, as in encoding/json.
func (d *document) raw(f field) []byte {
	if !d.has(f) {
		return nil
	}
	var val []byte
	if d.isLaid {
		val = d.laid.value(d.text, f)
	} else {
		m := &d.members[d.at[f]-1]
		val = d.text[m.value:m.end]
	}
	if val[0] == 'n' {
		return nil
	}
	return val
}

// has tells whether there is a member of the field.
func (d *document) has(f field) bool {
	if d.isLaid {
		return d.laid.lengths[f] > 0
	}
	return d.at[f] > 0
}

// isEscaped tells whether something may be escaped in the name or the value of a field that is there.
func (d *document) isEscaped(f field) bool {
	if d.isLaid {
		return d.laid.isEscaped(f)
	}
	return d.members[d.at[f]-1].escaped
}

// string returns a field that is a string. Its bytes are the document's where nothing in it is escaped.
func (d *document) string(f field) ([]byte, error) {
	raw := d.raw(f)
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '"' {
		return nil, fmt.Errorf("its %s is no string", f)
	}
	return unquoted(raw, d.isEscaped(f)), nil
}

// integer returns a field that is an integer, 0 if it is not there.
func (d *document) integer(f field) (int64, error) {
	raw := d.raw(f)
	if raw == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its %s is no integer", f)
	}
	return n, nil
}

// patch is what a document is to become. Values are JSON texts.
type patch struct {
	set, drop uint32 // bits by field
	values    [fieldCount][]byte
}

func (p *patch) put(f field, json []byte) {
	p.set |= 1 << f
	p.drop &^= 1 << f
	p.values[f] = json
}

func (p *patch) remove(f field) {
	p.drop |= 1 << f
	p.set &^= 1 << f
}

// patchInto makes to, another document, what the patch makes of this one, which has been scanned without an error or is laid out. The
// memory of its text is used again.
func (d *document) patchInto(to *document, p *patch) {
	if d.isLaid {
		if d.patchLaid(to, p) {
			return
		}
		d.spread()
	}
	to.begin(append(to.text[:0], d.text[:d.body]...), d.body)
	missing := p.set
	for f := range d.at {
		if d.at[f] != 0 {
			missing &^= 1 << f
		}
	}
	for i := range d.members {
		m := &d.members[i]
		f := m.field
		if f == fieldUnknown {
			to.copyMember(d, m)
			continue
		}
		bit := uint32(1) << f
		if before := missing & (bit - 1); before != 0 {
			to.appendFields(p, before)
			missing &^= before
		}
		switch {
		case p.drop&bit != 0, p.set&bit != 0 && int(d.at[f]) != i+1:
		case p.set&bit != 0:
			to.copyWith(d, m, p.values[f])
		default:
			to.copyMember(d, m)
		}
	}
	to.appendFields(p, missing)
	to.closing = len(to.text)
	to.text = append(to.text, d.text[d.closing:]...)
}

// copyMember appends a member of another document.
func (d *document) copyMember(from *document, m *member) {
	d.separate()
	by := len(d.text) - m.start
	d.text = append(d.text, from.text[m.start:m.end]...)
	d.appendMember(m.start+by, m.nameEnd+by, m.value+by, m.end+by, m.field, m.escaped)
}

// copyWith is copyMember with another value.
func (d *document) copyWith(from *document, m *member, value []byte) {
	d.separate()
	by := len(d.text) - m.start
	d.text = append(append(d.text, from.text[m.start:m.value]...), value...)
	escaped := m.escaped && isEscaped(from.text[m.start:m.nameEnd]) || isEscaped(value)
	d.appendMember(m.start+by, m.nameEnd+by, m.value+by, len(d.text), m.field, escaped)
}

// separate appends a comma unless nothing stands in the object yet.
func (d *document) separate() {
	if len(d.members) > 0 {
		d.text = append(d.text, ',')
	}
}

// appendFields appends new members for the fields.
func (d *document) appendFields(p *patch, fields uint32) {
	for ; fields != 0; fields &= fields - 1 {
		f := field(bits.TrailingZeros32(fields))
		d.separate()
		start := len(d.text)
		d.text = appendName(d.text, f)
		value := len(d.text)
		d.text = append(d.text, p.values[f]...)
		d.appendMember(start, value-1, value, len(d.text), f, isEscaped(p.values[f]))
	}
}

// scanner walks over a JSON text. Its methods tell whether the text was right so far; pos is where it was not.
type scanner struct {
	text []byte
	pos  int
}

// fault says where the text is no JSON.
func (s *scanner) fault() error {
	if s.pos >= len(s.text) {
		return errors.New("its JSON ends too early")
	}
	return fmt.Errorf("its JSON is not valid at byte %d", s.pos+1)
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.text) && s.text[s.pos] <= ' ' {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// end skips white space and tells whether that was all.
func (s *scanner) end() bool {
	s.space()
	return s.pos == len(s.text)
}

// colon skips the colon behind a name and the white space around it.
func (s *scanner) colon() bool {
	s.space()
	if s.peek() != ':' {
		return false
	}
	s.pos++
	s.space()
	return true
}

// value skips a value that begins here.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); c {
	case '"':
		_, ok := s.str()
		return ok
	case '{', '[':
		return depth < maxDepth && s.nested(depth+1, c == '{')
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(word string) bool {
	if len(s.text)-s.pos < len(word) || string(s.text[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// nested skips an object or an array.
func (s *scanner) nested(depth int, object bool) bool {
	closing := byte(']')
	if object {
		closing = '}'
	}
	s.pos++
	s.space()
	if s.peek() == closing {
		s.pos++
		return true
	}
	for {
		if object {
			if _, ok := s.str(); !ok || !s.colon() {
				return false
			}
		}
		if !s.value(depth) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case closing:
			s.pos++
			return true
		default:
			return false
		}
	}
}

// str skips a string and tells whether something in it is escaped.
func (s *scanner) str() (escaped, ok bool) {
	if s.peek() != '"' {
		return false, false
	}
	text, i := s.text, s.pos+1
	i += plainLen(text[i:]) // up to the first escape; where there is one, as in JSON in JSON, runs between them are short
	for i < len(text) {
		c := text[i]
		switch {
		case c == '"':
			s.pos = i + 1
			return escaped, true
		case c == '\\':
			escaped = true
			n := escapeLen(text[i:])
			if n == 0 {
				s.pos = i
				return escaped, false
			}
			i += n
		case c < ' ':
			s.pos = i
			return escaped, false
		default:
			i++
		}
	}
	s.pos = i
	return escaped, false
}

// plainLen is how many of the first bytes stand for themselves in a string, found eight at a time: it may be up to seven less.
func plainLen(text []byte) (n int) {
	const ones = 0x0101010101010101
	for ; len(text)-n >= 8; n += 8 {
		word := binary.LittleEndian.Uint64(text[n:])
		quote, escape := word^'"'*ones, word^'\\'*ones
		// A byte that is less than the one which is subtracted from it has its highest bit set then: 1 finds zeros, ' ' finds controls.
		// A borrow may make a bit of a byte behind one that was found, so only the first counts.
		found := ((quote-ones)&^quote | (escape-ones)&^escape | (word-' '*ones)&^word) & (0x80 * ones)
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	return n
}

// escapeLen is the length of the escape that text begins with, 0 if it is none.
func escapeLen(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := unit(text); ok {
			return 6
		}
	}
	return 0
}

// unit reads \u and four hexadecimal digits.
func unit(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case '1' <= c && c <= '9':
		s.digits()
	default:
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

// digits skips digits and tells whether there were any.
func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > from
}

// isEscaped tells whether something in a JSON text is escaped.
func isEscaped(raw []byte) bool { return bytes.IndexByte(raw, '\\') >= 0 }

// unquoted is the value of a string, quotes included, that was scanned. If nothing is escaped it is a part of raw.
func unquoted(raw []byte, escaped bool) []byte {
	body := raw[1 : len(raw)-1]
	if escaped && isEscaped(body) {
		return appendUnquoted(make([]byte, 0, len(body)), body)
	}
	return body
}

// appendUnquoted appends what stands between a string's quotes, with its escapes resolved. Half a surrogate pair is U+FFFD, as in
// encoding/json.
func appendUnquoted(dst, body []byte) []byte {
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		switch e := body[i+1]; e {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := unit(body[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				low, ok := unit(body[i:])
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r, i = pair, i+6
				} else {
					r = utf8.RuneError
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		default:
			dst = append(dst, e)
		}
		i += 2
	}
	return dst
}

// appendString appends b, which is UTF-8, as a JSON string. It escapes what encoding/json does, so that our texts are those
// that codeQ would have written.
func appendString(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(b); i += 8 {
		for found := escapedIn(wordAt(b[i:])); found != 0; found &= found - 1 {
			at := i + bits.TrailingZeros64(found)/8
			c := b[at]
			if c == 0xe2 { // U+2028 and U+2029 begin with it, and end no string in JavaScript when they are escaped
				if at+2 < len(b) && b[at+1] == 0x80 && b[at+2]&^1 == 0xa8 {
					dst = append(append(dst, b[start:at]...), `\u202`...)
					dst = append(dst, digits[b[at+2]&0xf])
					start = at + 3
				}
				continue
			}
			dst = append(append(dst, b[start:at]...), '\\')
			switch c {
			case '"', '\\':
				dst = append(dst, c)
			case '\b':
				dst = append(dst, 'b')
			case '\f':
				dst = append(dst, 'f')
			case '\n':
				dst = append(dst, 'n')
			case '\r':
				dst = append(dst, 'r')
			case '\t':
				dst = append(dst, 't')
			default:
				dst = append(dst, 'u', '0', '0', digits[c>>4], digits[c&0xf])
			}
			start = at + 1
		}
	}
	return append(append(dst, b[start:]...), '"')
}

// wordAt is the first eight bytes of b, spaces behind its end.
func wordAt(b []byte) (word uint64) {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	word = ' ' * lanes
	for i, c := range b {
		word ^= uint64(c^' ') << (8 * i)
	}
	return word
}

// lanes times a byte is a word with that byte in each of its eight lanes.
const lanes = 0x0101010101010101

// escapedIn sets the highest bit of those lanes of a word that appendString has to look at: what must be escaped in a string, what
// encoding/json escapes for HTML's sake, and 0xe2. No lane's sum reaches the next lane.
func escapedIn(word uint64) uint64 {
	const low7, high = 0x7f * lanes, 0x80 * lanes
	low := word & low7
	ascii := ((low | 4*lanes) ^ '&'*lanes + low7) & // '"' and '&' differ in this bit
		((low | 2*lanes) ^ '>'*lanes + low7) & // '<' and '>' in this one
		(low ^ '\\'*lanes + low7) &
		(low + (0x80-' ')*lanes) // neither of them nor a control
	return ^((ascii | word) & (low ^ (0xe2&0x7f)*lanes + low7 | ^word)) & high
}

// appendWord appends one of our words, which have nothing to escape, as a JSON string.
func appendWord(dst []byte, word string) []byte {
	return append(append(append(dst, '"'), word...), '"')
}

// isJSON tells whether text is one JSON value, with white space around it.
func isJSON(text []byte) bool {
	s := scanner{text: text}
	s.space()
	return s.value(0) && s.end()
}
