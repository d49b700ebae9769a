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
		if v.doc.at[f] == 0 {
			fn(f)
		}
	}
}

// Len is how many values Each visits.
func (v *View) Len() int {
	n := len(v.doc.members)
	v.zeros(func(field) { n++ })
	return n
}

// Each visits the values.
func (v *View) Each(fn func(Value)) {
	for i := range v.doc.members {
		m := &v.doc.members[i]
		fn(valueOf(unquoted(v.doc.text[m.start:m.nameEnd], m.escaped), v.doc.text[m.value:m.end], m.escaped))
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
