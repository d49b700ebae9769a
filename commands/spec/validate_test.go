package spec

import (
	"bytes"
	"strings"
	"testing"
)

// valid is a declaration without fault, which each test spoils in one way.
func valid() Command {
	return Command{Name: "x", Syntax: "X key [a]", Group: List, Since: "1.0.0", Complexity: "O(1)", Summary: "Does x.",
		Flags: Write, Keys: Keys{FirstKey(RW)}}
}

func TestValidate(t *testing.T) {
	if err := Validate([]Command{valid()}); err != nil {
		t.Fatal(err)
	}
	if err := Validate(sample()); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		want  string
		spoil func(*Command)
	}{
		{"something else", func(c *Command) { c.Syntax = "X key [a ...]" }},
		{"one lower-case word", func(c *Command) { c.Name, c.Syntax = "X", "X key" }},
		{"longer than", func(c *Command) {
			c.Name = strings.Repeat("x", maxNameLength+1)
			c.Syntax = strings.ToUpper(c.Name) + " key"
		}},
		{"is not declared", func(c *Command) { c.Name, c.Syntax = "x|y", "X Y key" }},
		{"neither a syntax", func(c *Command) { c.Syntax = "" }},
		{"no group", func(c *Command) { c.Group = 0 }},
		{"not a version", func(c *Command) { c.Since = "1.0" }},
		{"not a version", func(c *Command) { c.Since = "1.0.x" }},
		{"no summary", func(c *Command) { c.Summary = "" }},
		{"full stop", func(c *Command) { c.Summary = "Does x" }},
		{"differs lacks its", func(c *Command) { c.Differs = "It does not" }},
		{"break a row", func(c *Command) { c.Differs = "a|b." }},
		{"no complexity", func(c *Command) { c.Complexity = "" }},
		{"go together", func(c *Command) { c.DocFlags = Deprecated }},
		{"go together", func(c *Command) { c.DeprecatedSince = "7.0.0" }},
		{"not deprecated", func(c *Command) { c.ReplacedBy = "`Y`" }},
		{"unknown hint", func(c *Command) { c.Hints = []string{"request_policy:some"} }},
		{"not complete", func(c *Command) { c.History = []Change{{Version: "7.0.0"}} }},
		{"contradicts the syntax", func(c *Command) { c.Arity = 2 }},
		{"more than the syntax", func(c *Command) { c.Arity = -3 }},
		{"leave it out", func(c *Command) { c.Arity = -2 }},
		{"both writes", func(c *Command) { c.Flags |= ReadOnly }},
		{"derived, not declared", func(c *Command) { c.Flags |= MovableKeys }},
		{"need more memory", func(c *Command) { c.Flags = ReadOnly | DenyOOM; c.Keys[0].Flags = RO }},
		{"unknown flags", func(c *Command) { c.Flags |= MovableKeys << 1 }},
		{"stands alone", func(c *Command) { c.ACL = NoCategory | CatList }},
		{"exactly one of", func(c *Command) { c.Keys[0].Flags = Access }},
		{"exactly one of", func(c *Command) { c.Keys[0].Flags = RO | RW }},
		{"is read-only but", func(c *Command) { c.Flags = ReadOnly; c.Keys[0].Flags = OW }},
		{"half unknown", func(c *Command) { c.Keys[0].Find = Find{} }},
		{"has step 0", func(c *Command) { c.Keys[0].Find = Range(0, 0, 0) }},
		{"no keyword", func(c *Command) { c.Keys[0].Begin = Keyword("", 1) }},
		{"points at the command's name", func(c *Command) { c.Keys[0].Begin = Index(0) }},
		{"points behind", func(c *Command) { c.Keys[0].Begin = Index(2) }},
		{"points behind", func(c *Command) { c.Keys[0].Find = Range(1, 1, 0) }},
		{"points behind", func(c *Command) { c.Keys[0].Find = KeyNum(1, 2, 1) }},
		{"do not suffice", func(c *Command) { c.Keys[0].Flags |= Incomplete }},
		{"never be called", func(c *Command) { c.GetKeys = SetKeys }},
		{"elements but no keys", func(c *Command) { c.Syntax, c.Keys, c.Elements = "X a", nil, ElementAt(2) }},
		{"start at the key", func(c *Command) { c.Elements = ElementAt(1) }},
	}
	for _, test := range tests {
		c := valid()
		test.spoil(&c)
		err := Validate([]Command{c})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one with %q", err, test.want)
		}
	}
}

// TestValidateCollects: all problems of all commands are in one error.
func TestValidateCollects(t *testing.T) {
	a := valid()
	a.Syntax, a.Since, a.Summary = "X key", "", ""
	b := a
	_, err := NewTable([]Command{a, b}, func(c *Command) *Command { return c })
	if err == nil {
		t.Fatal("no error")
	}
	for want, n := range map[string]int{"declared twice": 1, "not a version": 2, "no summary": 2} {
		if got := strings.Count(err.Error(), want); got != n {
			t.Errorf("%q stands %d times in %q, want %d", want, got, err, n)
		}
	}
}

func TestCategories(t *testing.T) {
	for _, test := range []struct {
		c    Command
		want string
	}{
		{Command{Group: List, Flags: Write | Fast}, "write list fast"},
		{Command{Group: Server, Flags: Admin}, "admin slow dangerous"},
		{Command{Group: Scripting, Flags: ReadOnly}, "slow scripting"},
		{Command{Group: PubSub, Flags: PubSubFlag}, "pubsub slow"},
		{Command{Group: Generic, ACL: NoCategory}, "slow"},
		{Command{Group: Generic, ACL: CatDangerous, Flags: Blocking}, "slow blocking dangerous"},
		{Command{Group: Queue}, "slow queue"},
	} {
		test.c.Syntax = "X"
		if got := strings.Join(test.c.impliedCategories().Names(), " "); got != test.want {
			t.Errorf("group %s, flags %v: %s, want %s", test.c.Group, test.c.Flags.Names(), got, test.want)
		}
	}
	for i, name := range CategoryNames() {
		if c, ok := CategoryByName(strings.ToUpper(name)); !ok || c != 1<<i {
			t.Errorf("category %q is %v, %v", name, c, ok)
		}
	}
	if NoCategory != 1<<len(CategoryNames()) || MovableKeys != 1<<(len(flagNames())-1) {
		t.Error("the names and the constants of flags or categories do not match")
	}
}

func TestReference(t *testing.T) {
	push := Command{Name: "push", Syntax: "PUSH key a:integer [a:integer ...]", Group: List, Since: "1.0.0", Complexity: "O(1)",
		Summary: "Pushes.", Flags: Write | Fast, Keys: Keys{FirstKey(RW)}, DocFlags: Deprecated, DeprecatedSince: "2.0.0",
		ReplacedBy: "`LPUSH`", History: []Change{{"1.5.0", "Takes several elements."}}}
	commands := []Command{
		push,
		{Name: "box", Group: Queue, Since: "1.0.0", Summary: "Holds subcommands."},
		{Name: "box|open", Syntax: "BOX OPEN", Group: Queue, Since: "1.0.0", Complexity: "O(1)", Summary: "Opens."},
	}
	const want = "# Commands\n\nGenerated from the declarations in `commands/`; do not edit.\n" +
		"\n## queue\n\n### BOX OPEN\n\n```\nBOX OPEN\n```\n\nOpens.\n\n" +
		"- Since: 1.0.0\n- Complexity: O(1)\n- ACL categories: @slow, @queue\n" +
		"\n## list\n\n### PUSH\n\n```\nPUSH key a [a ...]\n```\n\nPushes.\n\n" +
		"- Since: 1.0.0\n- Complexity: O(1)\n- Flags: write, fast\n- ACL categories: @write, @list, @fast\n" +
		"- Deprecated since 2.0.0: use `LPUSH`.\n- 1.5.0: Takes several elements.\n"
	var got bytes.Buffer
	if err := WriteReference(&got, commands); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	commands[0].Summary = ""
	if err := WriteReference(&got, commands); err == nil {
		t.Error("a bad declaration was documented")
	}
}
