package queue

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"codeq/shard"
)

// checkLayout holds the document of a layout against the one that was scanned, and tells whether the text has a layout.
func checkLayout(t interface{ Fatalf(string, ...any) }, scanned *document) (has bool) {
	l := scanned.layout()
	if l == nil {
		return false
	}
	var d document
	d.layOut(scanned.text, l)
	if from := scanned.laid; scanned.isLaid && from != d.laid {
		t.Fatalf("%q is laid out as %v, want %v", scanned.text, from, d.laid)
	}
	if !reflect.DeepEqual(normal(d), normal(*scanned)) {
		t.Fatalf("%q is laid out as %v, want %v", scanned.text, d, *scanned)
	}
	return true
}

// TestAuthor has tasks written field by field, and compares text and layout with what is read of the text.
func TestAuthor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a author
		want := map[string]any{}
		for range 2 { // the second time in the memory of the first
			a.begin()
			clear(want)
			for f := range fieldCount {
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0:
					val := rapid.String().Draw(t, "text")
					a.string(f, []byte(val))
					want[f.String()] = val
				case 1:
					val := rapid.Int32().Draw(t, "number")
					a.number(f, int64(val))
					want[f.String()] = float64(val)
				case 2:
					a.word(f, statusPending)
					want[f.String()] = statusPending
				case 3:
					a.json(f, []byte(`"j"`))
					want[f.String()] = "j"
				}
			}
			if len(want) == 0 {
				return
			}
			l := a.end()
			var got map[string]any
			if err := json.Unmarshal(a.text, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q is %v, %v; want %v", a.text, got, err, want)
			}
			var d document
			if err := d.scan(a.text); err != nil {
				t.Fatal(err)
			}
			if !checkLayout(t, &d) || !reflect.DeepEqual(l, d.layout()) {
				t.Fatalf("%q was written with the layout %v, want %v", a.text, l, d.layout())
			}
		}
	})
}

// TestLayoutOfPatched: what a task with a layout becomes is what it would become without, and has a layout unless it is too long or empty.
func TestLayoutOfPatched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) []byte {
			s := rapid.String().Draw(t, label)
			if rapid.IntRange(0, 20).Draw(t, "long") == 0 {
				s += strings.Repeat("x", maxLaidOut/2)
			}
			return []byte(s)
		}
		var a author
		a.begin()
		there := rapid.Uint32Range(1, 1<<fieldCount-1).Draw(t, "there")
		for f := range fieldCount {
			if there>>f&1 == 1 {
				a.string(f, text("text"))
			}
		}
		l := a.end()
		if l == nil {
			return
		}
		var laid, scanned, patched, want document
		laid.layOut(a.text, l)
		if err := scanned.scan(a.text); err != nil {
			t.Fatal(err)
		}
		var p patch
		for f := range fieldCount {
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				p.put(f, appendString(nil, text("new")))
			case 1:
				p.remove(f)
			}
		}
		laid.patchInto(&patched, &p)
		scanned.patchInto(&want, &p)
		if !reflect.DeepEqual(normal(patched), normal(want)) {
			t.Fatalf("%q has become %v, want %v", a.text, patched, want)
		}
		if small := len(want.members) > 0 && len(want.text) <= maxLaidOut; checkLayout(t, &patched) != small {
			t.Fatalf("%q has a layout: %t", want.text, !small)
		}
	})
}

// TestNoLayout: a text that is not as codeq writes it has none, for it would be read as another.
func TestNoLayout(t *testing.T) {
	const plain = `{"id":"1","command":"c","status":"s"}`
	for _, test := range []struct {
		text string
		has  bool
	}{
		{plain, true},
		{`{"id":"\u0031","payload":{"a":"\n"},"status":7}`, true},
		{`{}`, false},
		{" " + plain, false},
		{plain + "\n", false},
		{`{ "id":"1"}`, false},
		{`{"id" :"1"}`, false},
		{`{"id": "1"}`, false},
		{`{"id":"1" }`, false},
		{`{"id":"1", "command":"c"}`, false},
		{`{"i\u0064":"1"}`, false},
		{`{"command":"c","id":"1"}`, false},
		{`{"id":"1","id":"1"}`, false},
		{`{"id":"1","x":1}`, false},
		{`{"id":"` + strings.Repeat("x", maxLaidOut-len(`{"id":""}`)) + `"}`, true},
		{`{"id":"` + strings.Repeat("x", maxLaidOut-len(`{"id":""}`)+1) + `"}`, false},
	} {
		var d document
		if err := d.scan([]byte(test.text)); err != nil {
			t.Fatal(err)
		}
		if has := checkLayout(t, &d); has != test.has {
			t.Errorf("%.50s… has a layout: %t, want %t", test.text, has, test.has)
		}
	}
	var a author
	for _, length := range []int{maxLaidOut - len(`{"id":""}`), maxLaidOut - len(`{"id":""}`) + 1} {
		a.begin()
		a.string(fieldID, bytes.Repeat([]byte("x"), length))
		if l := a.end(); (l != nil) != (len(a.text) <= maxLaidOut) {
			t.Errorf("%d bytes were written with the layout %v", len(a.text), l)
		}
	}
}

// TestLayoutsAreKept: each step of a task's life finds the layout that the one before has left, and one that another client has saved
// meanwhile is scanned.
func TestLayoutsAreKept(t *testing.T) {
	m := newMachine(t, "hash")
	defer func() {
		if err := m.st.Close(); err != nil {
			t.Error(err)
		}
	}()
	name, worker, id := nameOf("a"), []byte("w"), []byte("1")
	memo := func() (l *layout) {
		_, kept, found, err := m.tx.tasks.GetMemo(id)
		if err != nil || !found {
			t.Fatalf("the task is there: %t, %v", found, err)
		}
		l, _ = kept.Of.(*layout)
		return l
	}
	for _, step := range []struct {
		name string
		kept bool
		do   func() error
	}{
		{"enqueue", true, func() error {
			return m.tx.Enqueue(&Enqueue{Queue: name, ID: id}, [][]byte{[]byte("p")}, func([]byte) {})
		}},
		{"claim", true, func() error {
			_, err := m.tx.Claim(&Claim{Worker: worker, Queues: []Name{name}, Count: 1}, func(*View) {})
			return err
		}},
		{"heartbeat", true, func() error {
			_, err := m.tx.Heartbeat(worker, id, 0)
			return err
		}},
		{"save of another client", false, func() error {
			text, _, err := m.tx.tasks.Get(id)
			if err == nil {
				_, err = m.tx.tasks.Set(id, slices.Replace(bytes.Clone(text), len(text)-1, len(text), []byte(`,"x":"y"}`)...))
			}
			return err
		}},
		{"abandon", false, func() error { return m.tx.Abandon(worker, id) }},
	} {
		for _, when := range []string{"in", "behind"} {
			err := m.change(t, false, func(shard.DB) error {
				if when == "in" {
					if err := step.do(); err != nil {
						return err
					}
				}
				l := memo()
				if (l != nil) != step.kept {
					t.Errorf("%s the %s the layout is %v", when, step.name, l)
				}
				var d document
				text, _, err := m.tx.tasks.Get(id)
				if err == nil {
					err = d.scan(text)
				}
				if err == nil && !reflect.DeepEqual(l, d.layout()) {
					t.Errorf("%s the %s the layout of %q is %v, want %v", when, step.name, text, l, d.layout())
				}
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
	}
}
