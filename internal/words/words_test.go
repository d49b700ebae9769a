package words

import (
	"slices"
	"testing"
)

func TestNext(t *testing.T) {
	for _, c := range []struct {
		line  string
		words []string
	}{
		{"", nil},
		{" \t\v\f ", nil},
		{"get a", []string{"get", "a"}},
		{"\tget \va\r", []string{"get", "a"}},
		{"a\vb", []string{"a\vb"}},
		{`"" ''`, []string{"", ""}},
		{`a"b c" d`, []string{"ab c", "d"}},
		{`"\x41\x4g\q\\\"\n\r\t\b\a"`, []string{"Ax4gq\\\"\n\r\t\b\a"}},
		{`'a\'b\n"' "'"`, []string{`a'b\n"`, "'"}},
		{`\x41`, []string{`\x41`}},
		{"\"a\"\v'b'", []string{"a", "b"}},
	} {
		if got, ok := split(c.line); !ok || !slices.Equal(got, c.words) {
			t.Errorf("%q: got %q, %v, want %q", c.line, got, ok, c.words)
		}
	}
	for _, line := range []string{"\"a\"\x00 b", `"a"b`, `b 'a`, `"a\`, `"a\"`, `'a''b'`} {
		if got, ok := split(line); ok {
			t.Errorf("%q: got %q, want it to be refused", line, got)
		}
	}
}

// split answers all words of a line, or none if its quotes are unbalanced.
func split(text string) (all []string, ok bool) {
	line := []byte(text)
	for next := 0; ; {
		var start, end int
		if start, end, next, ok = Next(line, next); !ok {
			return nil, false
		}
		if start == len(line) {
			return all, true
		}
		all = append(all, string(line[start:end]))
	}
}
