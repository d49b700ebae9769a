package queue

import (
	"math"
	"strconv"
)

// layout says where the members of a task's JSON stand, if codeq has written it and nobody has added anything: the fields in
// their order, none twice, no other members, and nothing between them but commas. Then the lengths of the values tell everything. It is kept
// with the task in the cache, so that whoever takes the next step of the task's life need not scan the text: laying it out takes a tenth of that.
type layout struct {
	lengths [fieldCount]uint16 // of the values; 0: the field is not there
	escaped uint32             // bits by field: something in the value is escaped
}

// maxLaidOut is how long a text with a layout may be.
const maxLaidOut = math.MaxUint16

// layOut makes d the document of a text that has the layout.
func (d *document) layOut(text []byte, l *layout) {
	d.begin(text, len("{"))
	at := d.body
	for f := range fieldCount {
		length := int(l.lengths[f])
		if length == 0 {
			continue
		}
		nameEnd := at + len(fieldNames[f]) + len(`""`)
		value := nameEnd + len(":")
		d.appendMember(at, nameEnd, value, value+length, f, l.escaped>>f&1 == 1)
		at = value + length + len(",")
	}
	d.closing = at - len(",")
}

// layout returns the document's, nil if it has none.
func (d *document) layout() *layout {
	if len(d.text) > maxLaidOut || len(d.members) == 0 || d.body != len("{") {
		return nil
	}
	l, at, last := new(layout), d.body, fieldUnknown
	for i := range d.members {
		m := &d.members[i]
		f := m.field
		if f <= last || m.nameEnd != at+len(fieldNames[f])+len(`""`) || m.value != m.nameEnd+len(":") {
			return nil
		}
		l.lengths[f] = uint16(m.end - m.value)
		if m.escaped {
			l.escaped |= 1 << f
		}
		last, at = f, m.end+len(",")
	}
	if d.closing != at-len(",") || d.closing+len("}") != len(d.text) {
		return nil
	}
	return l
}

// author writes a task's JSON, its fields in their order. The layout comes about on the way.
type author struct {
	text   []byte
	layout layout
}

// begin forgets what was written.
func (a *author) begin() { a.text, a.layout = append(a.text[:0], '{'), layout{} }

// end completes the text and returns its layout, nil if it has none.
func (a *author) end() *layout {
	a.text = append(a.text, '}')
	if len(a.text) > maxLaidOut {
		return nil
	}
	l := a.layout
	return &l
}

// name begins a field and returns where its value stands.
func (a *author) name(f field) (value int) {
	if len(a.text) > len("{") {
		a.text = append(a.text, ',')
	}
	a.text = appendName(a.text, f)
	return len(a.text)
}

// wrote ends a field whose value stands at value.
func (a *author) wrote(f field, value int) { a.layout.lengths[f] = uint16(len(a.text) - value) }

// string writes a field that is a string.
func (a *author) string(f field, val []byte) {
	value := a.name(f)
	a.text = appendString(a.text, val)
	a.wrote(f, value)
	if len(a.text)-value > len(val)+len(`""`) {
		a.layout.escaped |= 1 << f
	}
}

// word writes a field that is one of our words.
func (a *author) word(f field, word string) {
	value := a.name(f)
	a.text = appendWord(a.text, word)
	a.wrote(f, value)
}

// number writes a field that is an integer.
func (a *author) number(f field, n int64) {
	value := a.name(f)
	a.text = strconv.AppendInt(a.text, n, 10)
	a.wrote(f, value)
}

// json writes a field whose JSON is at hand, with nothing in it escaped.
func (a *author) json(f field, json []byte) {
	value := a.name(f)
	a.text = append(a.text, json...)
	a.wrote(f, value)
}

func appendName(dst []byte, f field) []byte {
	return append(append(append(dst, '"'), fieldNames[f]...), '"', ':')
}
