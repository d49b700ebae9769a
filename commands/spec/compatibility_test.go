package spec

import (
	"bytes"
	"strings"
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
	absent := []Absent{{Group: Server, Names: []string{"crate|shut", "crate|open"}, Why: "There is no crate."}}
	const want = "\n### list\n\nFull: `INDEX`, `LEN`.\n" +
		"\n### server\n\n| command | support | what differs, or why |\n|---|---|---|\n" +
		"| `BOX OPEN` | partial | There is no box. |\n| `CRATE OPEN`, `CRATE SHUT` | absent | There is no crate. |\n"
	var got bytes.Buffer
	if err := WriteCompatibility(&got, commands, absent); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	absent[0].Names[0] = "len"
	if err := WriteCompatibility(&got, commands, absent); err == nil || !strings.Contains(err.Error(), "is said to be absent") {
		t.Errorf("a command that is there and absent: %v", err)
	}
}
