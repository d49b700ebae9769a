package spec

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteReference writes docs/commands.md: the commands by group and name. Containers that do nothing by themselves are left
// out, as their subcommands stand for them. The same declarations give the same bytes. The error is the writer's, or Validate's.
func WriteReference(w io.Writer, commands []Command) error {
	table, err := NewTable(commands, func(c *Command) *Command { return c })
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "# Commands\n\nGenerated from the declarations in `commands/`; do not edit.\n")
	for g := Group(1); g <= lastGroup; g++ {
		var members []*Command
		for c := range table.All() {
			if c.Group == g && !c.IsContainer() {
				members = append(members, c)
			}
		}
		if len(members) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n## %s\n", g)
		for _, c := range members {
			writeEntry(out, c)
		}
	}
	return out.Flush()
}

// writeEntry writes to a bufio.Writer, which keeps the first error for Flush.
func writeEntry(out *bufio.Writer, c *Command) {
	fmt.Fprintf(out, "\n### %s\n\n```\n%s\n```\n\n%s\n\n", title(c.Name), c.Usage(), c.Summary)
	fmt.Fprintf(out, "- Since: %s\n- Complexity: %s\n", c.Since, c.Complexity)
	if flags := c.EffectiveFlags().Names(); len(flags) > 0 {
		fmt.Fprintf(out, "- Flags: %s\n", strings.Join(flags, ", "))
	}
	fmt.Fprintf(out, "- ACL categories: @%s\n", strings.Join(c.Categories().Names(), ", @"))
	if c.DeprecatedSince != "" {
		fmt.Fprintf(out, "- Deprecated since %s", c.DeprecatedSince)
		if c.ReplacedBy != "" {
			fmt.Fprintf(out, ": use %s", c.ReplacedBy)
		}
		fmt.Fprintln(out, ".")
	}
	if c.Differs != "" {
		fmt.Fprintf(out, "- Differs from Redis: %s\n", c.Differs)
	}
	for _, change := range c.History {
		fmt.Fprintf(out, "- %s: %s\n", change.Version, change.What)
	}
}
