package spec

import (
	"bytes"
	"testing"
)

func TestCompatibility(t *testing.T) {
	command := func(name, syntax, differs string, group Group) Command {
		return Command{Name: name, Syntax: syntax, Group: group, Since: "1.0.0", Complexity: "O(1)", Summary: "Does it.", Differs: differs}
	}
	commands := []Command{
		command("len", "LEN a", "", List), command("index", "INDEX a", "", List),
		command("box|open", "BOX OPEN", "There is no box.", Server), {Name: "box", Group: Server, Since: "1.0.0", Summary: "Holds."},
		command("own", "OWN", "", Queue),
	}
	const want = "\n### list\n\nFull: `INDEX`, `LEN`.\n" +
		"\n### server\n\n| command | support | what differs, or why |\n|---|---|---|\n" +
		"| `BOX OPEN` | partial | There is no box. |\n"
	var got bytes.Buffer
	if err := WriteCompatibility(&got, commands); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
