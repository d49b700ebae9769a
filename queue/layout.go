package queue

import (
	"math"
	"math/bits"
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

// laidOut is a layout with what follows from it: where each field's member stands, or would stand, in the text, and where the text ends.
type laidOut struct {
	layout
	starts [fieldCount + 1]uint32
}

// memberLens are the lengths of members without their values: names, quotes, colons, and the commas or the brace behind them.
var memberLens = func() (lens [fieldCount]uint32) {
	for f, name := range fieldNames {
		lens[f] = uint32(len(name) + len(`"":,`))
	}
	return lens
}()

// locate works out the starts.
func (l *laidOut) locate() {
	at := uint32(len("{"))
	for f, length := range l.lengths {
		l.starts[f] = at
		if length > 0 {
			at += memberLens[f] + uint32(length)
		}
	}
	l.starts[fieldCount] = at
}

// value is the value of a field that is there.
func (l *laidOut) value(text []byte, f field) []byte {
	end := l.starts[f+1] - uint32(len(","))
	return text[end-uint32(l.lengths[f]) : end]
}

// members counts the fields that are there.
func (l *layout) members() (n int) {
	for _, length := range l.lengths {
		if length > 0 {
			n++
		}
	}
	return n
}

func (l *layout) isEscaped(f field) bool { return l.escaped>>f&1 == 1 }

// layOut makes d the document of a text that has the layout.
func (d *document) layOut(text []byte, l *layout) {
	d.text, d.isLaid, d.laid.layout = text, true, *l
	d.laid.locate()
}

// spread makes a document that is laid out one of members.
func (d *document) spread() {
	l := d.laid
	d.begin(d.text, len("{"))
	for f := range fieldCount {
		if l.lengths[f] == 0 {
			continue
		}
		start, end := int(l.starts[f]), int(l.starts[f+1])-len(",")
		value := end - int(l.lengths[f])
		d.appendMember(start, value-len(":"), value, end, f, l.isEscaped(f))
	}
	d.closing = len(d.text) - len("}")
}

// patchLaid is patchInto for a document that is laid out: what stands between two fields that change is copied as one. It tells whether
// what comes about has a layout again; if not, it has to be made the other way.
func (d *document) patchLaid(to *document, p *patch) bool {
	size, from := len(d.text), &d.laid
	for set := p.set; set != 0; set &= set - 1 {
		f := bits.TrailingZeros32(set)
		size += int(memberLens[f]) + len(p.values[f])
	}
	if size > maxLaidOut {
		return false
	}
	l := from.layout
	text, copied := append(to.text[:0], '{'), uint32(len("{"))
	for changed := p.set | p.drop; changed != 0; changed &= changed - 1 {
		f := field(bits.TrailingZeros32(changed))
		if start := from.starts[f]; copied < start {
			text = append(text, d.text[copied:start]...)
			text[len(text)-1] = ',' // where the old text ends it is a brace
		}
		copied = from.starts[f+1]
		l.lengths[f], l.escaped = 0, l.escaped&^(1<<f)
		if p.set>>f&1 == 1 {
			text = append(append(appendName(text, f), p.values[f]...), ',')
			l.set(f, p.values[f])
		}
	}
	text = append(text, d.text[copied:]...)
	to.text = text
	if len(text) == len("{") {
		return false
	}
	text[len(text)-1] = '}'
	to.isLaid, to.laid.layout = true, l
	to.laid.locate()
	return true
}

// set notes a field's new value.
func (l *layout) set(f field, value []byte) {
	l.lengths[f] = uint16(len(value))
	if isEscaped(value) {
		l.escaped |= 1 << f
	}
}

// layout returns the document's, nil if it has none.
func (d *document) layout() *layout {
	if d.isLaid {
		l := d.laid.layout
		return &l
	}
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
