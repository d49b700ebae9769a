package spec

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Absent names commands of Redis that are not declared, and says why.
type Absent struct {
	Group Group
	Names []string // as a Command's
	Why   string   // a sentence, with a full stop
}

// WriteCompatibility writes, group by group, which commands do all that they do in Redis, where the others differ, and which
// there are not. Our own group is left out. The same declarations give the same bytes. The error is the writer's, or says what
// is wrong with the declarations.
func WriteCompatibility(w io.Writer, commands []Command, absent []Absent) error {
	table, err := NewTable(commands, func(c *Command) *Command { return c })
	if err != nil {
		return err
	}
	for _, a := range absent {
		for _, name := range a.Names {
			if _, found := table.Lookup([]byte(name)); found {
				return fmt.Errorf("command %q is declared, and is said to be absent", name)
			}
		}
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
		for _, a := range absent {
			if a.Group == g {
				rows = append(rows, fmt.Sprintf("| `%s` | absent | %s |\n", strings.Join(titles(a.Names), "`, `"), a.Why))
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

func titles(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = title(name)
	}
	slices.Sort(all)
	return all
}
