package spec

import (
	"fmt"
	"strings"
	"testing"
)

// outline shows an argument tree on one line: name:type, a token before "=", "?" optional, "*" multiple, "+" with the token
// repeated, "#" the key specification.
func outline(arguments []Argument) string {
	parts := make([]string, len(arguments))
	for i := range arguments {
		a := &arguments[i]
		s := a.Name + ":" + a.Type.String()
		if len(a.Arguments) > 0 {
			s = a.Type.String() + "(" + outline(a.Arguments) + ")"
		}
		if a.Token != "" || a.Type == TypePureToken {
			s = a.Token + "=" + s
		}
		if a.KeySpec >= 0 {
			s += fmt.Sprintf("#%d", a.KeySpec)
		}
		if a.Optional {
			s += "?"
		}
		if a.Multiple {
			s += "*"
		}
		if a.MultipleToken {
			s += "+"
		}
		parts[i] = s
	}
	return strings.Join(parts, " ")
}

func TestSyntax(t *testing.T) {
	for _, test := range []struct {
		line, want string
		words      int
		open       bool
	}{
		{"X", "", 0, false},
		{"X key", "key:key#0", 1, false},
		{"X key element [element ...]", "key:key#0 element:string*", 2, true},
		{"X [section [section ...]]", "section:string?*", 0, true},
		{"X source destination", "source:key#0 destination:key#1", 2, false},
		{"X key newkey key2", "key:key#0 newkey:key#1 key2:key#1", 3, false},
		{"X field value [field value ...]", "block(field:string value:string)*", 2, true},
		{"X [COUNT count]", "COUNT=count:integer?", 0, true},
		{"X [COUNT count [ANY]]", "block(COUNT=count:integer ANY=any:pure-token?)?", 0, true},
		{"X [LIMIT offset count]", "LIMIT=block(offset:integer count:integer)?", 0, true},
		{"X LIMIT offset count", "LIMIT=offset:integer count:integer", 3, false},
		{"X [NX|XX] a", "oneof(NX=nx:pure-token XX=xx:pure-token)? a:string", 1, true},
		{"X <BEFORE | AFTER> pivot", "oneof(BEFORE=before:pure-token AFTER=after:pure-token) pivot:string", 2, false},
		{"X [AGGREGATE <SUM | MIN>]", "AGGREGATE=oneof(SUM=sum:pure-token MIN=min:pure-token)?", 0, true},
		{"X <a | B b c>", "oneof(a:string B=block(b:string c:string))", 1, true},
		{"X [GET pattern#1 [GET pattern#1 ...]]", "GET=pattern:pattern#1?*+", 0, true},
		{"X [GET a b [GET a b ...]]", "GET=block(a:string b:string)?*+", 0, true},
		{"X ID a [a ...]", "ID=a:string*", 2, true},
		{"X ID <a [a ...]>", "ID=block(a:string*)", 2, true},
		{"X STREAMS <key [key ...] id [id ...]>", "STREAMS=block(key:key#0* id:string*)", 3, true},
		{"X <a> [<a> ...]", "block(a:string)*", 1, true},
		{"X score:string ip:port a:integer", "score:string ip:port:string a:integer", 3, false},
		{`X <* | id> [= | ~] ""`, "oneof(*=*:pure-token id:string) oneof(===:pure-token ~=~:pure-token)? =empty_string:pure-token", 2, true},
	} {
		arguments, err := parseSyntax("x", test.line, 2)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		if got := outline(arguments); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.line, got, test.want)
		}
		if words, open := countWords(arguments); words != test.words || open != test.open {
			t.Errorf("%s: %d words, open %v; want %d, %v", test.line, words, open, test.words, test.open)
		}
	}
}

func TestBrokenSyntax(t *testing.T) {
	for line, want := range map[string]string{
		"Y a":                      "starts with",
		"x a":                      "starts with",
		"X [a":                     `"]" is missing`,
		"X a]":                     "wrong place",
		"X <a]":                    `">" is missing`,
		"X []":                     "nothing before",
		"X [a |]":                  "nothing before",
		"X a | b":                  "wrong place",
		"X ...":                    "wrong place",
		"X [b ...]":                "something else",
		"X a [b ...]":              "something else",
		"X a [a ... a]":            `"..." in the wrong place`,
		"X a [a | b ...]":          `"..." in the wrong place`,
		"X a <a ...>":              "outside of square brackets",
		"X A a [B a ...]":          "something else",
		"X a#2":                    "key specification",
		"X a#b":                    "key specification",
		strings.Repeat("X [", 100): "nested too deeply",
	} {
		_, err := parseSyntax("x", line, 2)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", line, err, want)
		}
	}
	if _, err := parseSyntax("x", "X key", 0); err == nil {
		t.Error("a key argument without key specifications passed")
	}
}

// TestUsage: the line for readers is the syntax line without annotations, and reads as the same words.
func TestUsage(t *testing.T) {
	for syntax, want := range map[string]string{
		"X key [NX | XX] [GET] [EX seconds | PX milliseconds]": "X key [NX | XX] [GET] [EX seconds | PX milliseconds]",
		"X STREAMS <key [key ...] id:string [id ...]>":         "X STREAMS key [key ...] id [id ...]",
		"X a:integer [LIMIT offset count] [b [b ...]]":         "X a [LIMIT offset count] [b [b ...]]",
		"X <A | B> [GET c [GET c ...]] [D <E | F>]":            "X <A | B> [GET c [GET c ...]] [D <E | F>]",
		`X <a | ""> field value [field value ...]`:             `X <a | ""> field value [field value ...]`,
		"X <A a | B b> [<A a | B b> ...]":                      "X <A a | B b> [<A a | B b> ...]",
	} {
		c := Command{Name: "x", Syntax: syntax, Keys: Keys{FirstKey(RO)}}
		if err := c.derive(); err != nil {
			t.Errorf("%s: %v", syntax, err)
		} else if got := c.Usage(); got != want {
			t.Errorf("%s: usage %q, want %q", syntax, got, want)
		}
	}
}

func FuzzSyntax(f *testing.F) {
	for _, c := range sample() {
		f.Add(c.Syntax)
	}
	f.Fuzz(func(t *testing.T, line string) {
		arguments, err := parseSyntax("x", "X "+line, 2)
		if err != nil {
			return
		}
		if words, _ := countWords(arguments); words > len(splitSyntax(line)) {
			t.Errorf("%q needs %d words, more than it has", line, words)
		}
		c := Command{Name: "x", derived: derived{arguments: arguments}}
		_ = c.Usage()
	})
}
