package queue

import "strconv"

// View is a task or a result as it is shown: the members of its JSON, those that the server does not know included. Of a task,
// what its JSON leaves out since it is zero is shown all the same.
type View struct {
	doc  document
	task bool
}

// read makes v a view of a JSON object.
func (v *View) read(text []byte, task bool) error {
	v.task = task
	return v.doc.scan(text)
}

// Kind is what a value is shown as.
type Kind uint8

// The kinds of values. JSON is the text of a value that is neither a string nor an integer.
const (
	Text Kind = iota
	Integer
	JSON
)

// Value is a member to be shown.
type Value struct {
	Name []byte
	Kind Kind
	Text []byte // unless it is an integer
	Int  int64
}

// zeros are the fields of a task that are shown when they are not there.
func (v *View) zeros(fn func(f field)) {
	if !v.task {
		return
	}
	for _, f := range [...]field{fieldPriority, fieldAttempts} {
		if !v.doc.has(f) {
			fn(f)
		}
	}
}

// Len is how many values Each visits.
func (v *View) Len() int {
	n := len(v.doc.members)
	if v.doc.isLaid {
		n = v.doc.laid.members()
	}
	v.zeros(func(field) { n++ })
	return n
}

// fieldTexts are the fields' names.
var fieldTexts = func() (texts [fieldCount][]byte) {
	for f, name := range fieldNames {
		texts[f] = []byte(name)
	}
	return texts
}()

// Each visits the values. Their names may not be changed.
func (v *View) Each(fn func(Value)) {
	d := &v.doc
	if d.isLaid {
		for f := range fieldCount {
			if d.laid.lengths[f] > 0 {
				fn(valueOf(fieldTexts[f], d.laid.value(d.text, f), d.laid.isEscaped(f)))
			}
		}
	} else {
		for i := range d.members {
			m := &d.members[i]
			fn(valueOf(unquoted(d.text[m.start:m.nameEnd], m.escaped), d.text[m.value:m.end], m.escaped))
		}
	}
	v.zeros(func(f field) { fn(Value{Name: []byte(f.String()), Kind: Integer}) })
}

func valueOf(name, raw []byte, escaped bool) Value {
	if raw[0] == '"' {
		return Value{Name: name, Text: unquoted(raw, escaped)}
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return Value{Name: name, Kind: Integer, Int: n}
	}
	return Value{Name: name, Kind: JSON, Text: raw}
}
