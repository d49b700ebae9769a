package queue

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// decoded is a document as encoding/json sees it.
func decoded(t interface{ Fatalf(string, ...any) }, text []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("encoding/json: %v in %q", err, text)
	}
	return m
}

// normal is a document to be compared: whether it has no members yet or none any more makes no difference, nor whether it is laid out.
func normal(d document) document {
	d.members = append([]member{}, d.members...)
	if d.isLaid {
		d.spread()
	}
	d.laid = laidOut{}
	return d
}

// checkPatch holds a patched document against what encoding/json makes of it.
func checkPatch(t interface{ Fatalf(string, ...any) }, text []byte, set, drop uint32) {
	var d document
	if err := d.scan(text); err != nil {
		t.Fatalf("scan %q: %v", text, err)
	}
	want := decoded(t, text)
	var p patch
	for f := range fieldCount {
		switch {
		case drop&(1<<f) != 0:
			p.remove(f)
			delete(want, f.String())
		case set&(1<<f) != 0:
			p.put(f, []byte(`"new `+f.String()+`"`))
			want[f.String()] = json.RawMessage(p.values[f])
		}
	}
	var patched, scanned document
	d.patchInto(&patched, &p)
	out := patched.text
	if err := scanned.scan(out); err != nil {
		t.Fatalf("%q patched with set %b drop %b is %q: %v", text, set, drop, out, err)
	}
	if !reflect.DeepEqual(normal(patched), normal(scanned)) {
		t.Fatalf("%q patched with set %b drop %b is %q with the members %v, which are %v", text, set, drop, out, patched, scanned)
	}
	got := decoded(t, out)
	if len(got) != len(want) {
		t.Fatalf("%q patched with set %b drop %b is %q, which has %d members, want %d", text, set, drop, out, len(got), len(want))
	}
	for name, val := range want {
		if !bytes.Equal(got[name], val) {
			t.Fatalf("%q patched with set %b drop %b is %q, where %s is %q, want %q", text, set, drop, out, name, got[name], val)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, text := range []string{
		`{"id":"1","command":"C","payload":"{\"a\":1}","status":"PENDING","createdAt":"x","updatedAt":"y"}`,
		`{}`, ` { "x" : [ 1 , {"status":"no"} , null ] , "updatedAt":1 } `, `[]`, `{"status":1,"status":2}`, `{"st\u0061tus":1}`,
		`{"a":1.5e+3,"b":-0,"c":true,"d":false,"e":null,"f":"\ud83d\ude00 \ud83d \/"}`, `{"a":01}`, `{"a":1,}`, "{\"a\":\"\x01\"}",
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `"x"`, `{"a":1} x`, "", `{"a"`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(text), uint32(1<<fieldStatus|1<<fieldLocation), uint32(1<<fieldError))
	}
	f.Fuzz(func(t *testing.T, text []byte, set, drop uint32) {
		var d document
		err := d.scan(text)
		if valid := json.Valid(text); isJSON(text) != valid || (err == nil || err == errNotObject) != valid {
			t.Fatalf("%q: valid is %v, scan says %v", text, valid, err)
		}
		if err != nil {
			return
		}
		checkPatch(t, text, set, drop)
		checkStrings(t, &d)
		checkLayout(t, &d)
	})
}

// checkStrings compares the strings of a document with those that encoding/json reads, as far as they are UTF-8.
func checkStrings(t *testing.T, d *document) {
	for _, m := range d.members {
		raw := d.text[m.value:m.end]
		if raw[0] != '"' || !utf8.Valid(raw) {
			continue
		}
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if got := unquoted(raw, m.escaped); string(got) != want {
			t.Fatalf("%q is read as %q, want %q", raw, got, want)
		}
	}
}

// TestPatchKeepsWhatItDoesNotKnow demands more than the same meaning: the same bytes.
func TestPatchKeepsWhatItDoesNotKnow(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{}`, `{"status":"S","workerId":"W"}`},
		{`{"id":"1","payload":"p","error":"e"}`, `{"id":"1","payload":"p","status":"S","workerId":"W"}`},
		{`{"status":"x","attempts":1,"leaseUntil":"l"}`, `{"status":"S","workerId":"W","attempts":1,"leaseUntil":"l"}`},
		{`{"new": {"b" : 1e0} ,"updatedAt":1,"z":"\u0041"}`, `{"new": {"b" : 1e0},"status":"S","workerId":"W","updatedAt":1,"z":"\u0041"}`},
		{`{"status":1,"q":0,"status" : 2}`, `{"q":0,"status" : "S","workerId":"W"}`},
		{`{"error":1,"x":2}`, `{"status":"S","workerId":"W","x":2}`},
	} {
		var d document
		if err := d.scan([]byte(test.text)); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var p patch
		p.put(fieldStatus, []byte(`"S"`))
		p.put(fieldWorker, []byte(`"W"`))
		p.remove(fieldError)
		var patched document
		d.patchInto(&patched, &p)
		if got := string(patched.text); got != test.want {
			t.Errorf("%s became %s, want %s", test.text, got, test.want)
		}
	}
}

func TestAppendStringAsEncodingJSON(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if got := appendString(nil, []byte(s)); !bytes.Equal(got, want) {
			t.Fatalf("%q is written as %s, want %s", s, got, want)
		}
	}
	for r := rune(0); r < 0x2100; r++ {
		check(t, "a"+string(r)+"b")
	}
	check(t, "\u2028\u2029\u202a é <&>")
	for length := range 20 { // around one word and two
		for at := range length + 1 {
			for r := rune(0); r <= 0x80; r++ {
				check(t, strings.Repeat("x", at)+string(r)+strings.Repeat("\x7f", length-at))
			}
			for _, s := range []string{"\u2028", "\u2029", "\u202a", "€", "â", "b\xc3\xa2\u2028<\u2029"} {
				check(t, strings.Repeat("é", at/2)+strings.Repeat("x", at%2)+s+strings.Repeat("é", length-at))
			}
		}
	}
	for a := range rune(0x80) { // no byte changes what is found of the one beside it
		for b := range rune(0x80) {
			check(t, string([]rune{a, b, a, b, a, b, a, b, b}))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
}

// TestAppendStringOfOtherBytes: the id of a task that another client has made may be anything. What is not UTF-8 comes out as it is.
func TestAppendStringOfOtherBytes(t *testing.T) {
	for length := range 12 {
		for c := 0x80; c <= 0xff; c++ {
			s := strings.Repeat("x", length) + string([]byte{byte(c)})
			for _, s := range []string{s, s + "\x80", s + "x\xa8", s + "\x80\xaa", s + "\xff" + s} {
				if got := string(appendString(nil, []byte(s))); got != `"`+s+`"` {
					t.Fatalf("%q is written as %q", s, got)
				}
			}
		}
	}
}

func TestFieldsHaveNames(t *testing.T) {
	for f := range fieldCount {
		if fieldNamed([]byte(f.String())) != f {
			t.Errorf("%s is not found by its name", f)
		}
	}
}

func TestNesting(t *testing.T) {
	for _, n := range []int{maxDepth - 1, maxDepth, maxDepth + 1} {
		text := []byte(`{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
		var d document
		if err := d.scan(text); (err == nil) != json.Valid(text) {
			t.Errorf("%d arrays in an object: %v, and encoding/json says %v", n, err, json.Valid(text))
		}
	}
}

func BenchmarkPatch(b *testing.B) {
	text := []byte(`{"id":"9b2f3c1e-0001-8f6b-9c0e-2d1a7b5e6f30","command":"GENERATE_MASTER","payload":"` +
		strings.Repeat(`{\"a\":1,\"name\":\"x\"}`, 9) + `","priority":5,"status":"IN_PROGRESS","lastKnownLocation":"INPROG_SET",` +
		`"workerId":"w1","leaseUntil":"2026-01-02T03:04:05Z","attempts":1,"maxAttempts":5,"tenantId":"acme",` +
		`"createdAt":"2026-01-02T03:04:05.123456789Z","updatedAt":"2026-01-02T03:04:05.123456789Z"}`)
	var d, patched document
	var p patch
	p.put(fieldStatus, []byte(`"COMPLETED"`))
	p.put(fieldLocation, []byte(`"NONE"`))
	p.put(fieldResultKey, []byte(`"9b2f3c1e-0001-8f6b-9c0e-2d1a7b5e6f30"`))
	p.put(fieldUpdatedAt, []byte(`"2026-01-02T03:04:06.123456789Z"`))
	p.remove(fieldLeaseUntil)
	b.Run("scanned", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if err := d.scan(text); err != nil {
				b.Fatal(err)
			}
			d.patchInto(&patched, &p)
		}
	})
	b.Run("laid out", func(b *testing.B) {
		if err := d.scan(text); err != nil {
			b.Fatal(err)
		}
		l := d.layout()
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			d.layOut(text, l)
			d.patchInto(&patched, &p)
		}
	})
}
