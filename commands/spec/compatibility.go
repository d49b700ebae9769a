package spec

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteCompatibility writes, group by group, which commands do all that they do in Redis, and where the others differ. Our own
// group is left out. The same declarations give the same bytes. The error is the writer's, or says what is wrong with the
// declarations.
func WriteCompatibility(w io.Writer, commands []Command) error {
	table, err := NewTable(commands, func(c *Command) *Command { return c })
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for g := Queue + 1; g <= lastGroup; g++ {
		var full []string
		var rows []string
		for c := range table.All() {
			switch {
			case c.Group != g || c.IsContainer():
			case c.Differs == "":
				full = append(full, "`"+title(c.Name)+"`")
			default:
				rows = append(rows, fmt.Sprintf("| `%s` | partial | %s |\n", title(c.Name), c.Differs))
			}
		}
		writeGroup(out, g, full, rows)
	}
	return out.Flush()
}

// writeGroup writes to a bufio.Writer, which keeps the first error for Flush.
func writeGroup(out *bufio.Writer, g Group, full, rows []string) {
	if len(full)+len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n### %s\n", g)
	if len(full) > 0 {
		fmt.Fprintf(out, "\nFull: %s.\n", strings.Join(full, ", "))
	}
	if len(rows) > 0 {
		fmt.Fprintf(out, "\n| command | support | what differs, or why |\n|---|---|---|\n%s", strings.Join(rows, ""))
	}
}

// title is a command's name as people write it.
func title(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "|", " ")) }
