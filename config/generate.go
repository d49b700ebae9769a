package config

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const referenceHead = `# Configuration

<!-- Generated from the declarations in config/settings.go by "make generate"; change it there. -->

A setting is given, in the order of precedence from the lowest, by its default, by the YAML file that ` + "`--config`" + `
or ` + "`CODEQ_CONFIG`" + ` names, by its environment variable, or on the command line. Keys, variables and values that do not
exist stop the server at start, with the place, the reason and what to do. ` + "`config.yaml.example`" + ` shows every setting with its default.

Sizes of memory are bytes, or have one of Redis' units in any case: 1k is 1000 bytes, 1kb 1024, and so on with m, mb,
g and gb. In an environment variable, a list has spaces between its items, and a mapping is written key=value with
spaces between the pairs; in the file they are a YAML sequence and mapping. Rules for queues are written as in
mail lease=30s max-pending=5; * attempts=3.

CONFIG GET shows every setting. Those marked "yes" can be changed by CONFIG SET while the server runs; the file is not
changed with them.
`

const fixedHead = `
What codeq does by design, under the names that Redis has for it. CONFIG GET shows the value; setting that same value is accepted, and
any other is refused.
`

// WriteReference writes docs/configuration.md.
func WriteReference(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(referenceHead)
	defaults := Default()
	for _, g := range declared().groups {
		fmt.Fprintf(out, "\n## %s\n", g.title)
		if g.isFixed() {
			fmt.Fprintf(out, "%s\n| setting | value | meaning |\n|---|---|---|\n", fixedHead)
			for _, s := range g.settings {
				fmt.Fprintf(out, "| `%s` | %s | %s |\n", s.name, code(s.kind.format(defaults)), s.doc)
			}
			continue
		}
		for _, s := range g.settings {
			writeSetting(out, &s)
		}
	}
	return out.Flush()
}

func writeSetting(out *bufio.Writer, s *setting) {
	fmt.Fprintf(out, "\n### `%s`\n\n%s\n\n", s.name, s.doc)
	fmt.Fprintf(out, "- Value: %s\n- Default: %s\n", s.kind.describe(), code(s.def))
	if s.section != "" {
		fmt.Fprintf(out, "- In the file: `%s`, under `%s`\n", s.fileKey(), s.section)
	}
	fmt.Fprintf(out, "- Environment variable: `%s`\n", env(s.name))
	if s.alias != "" {
		fmt.Fprintf(out, "- Also called: `%s`, `%s`\n", s.alias, env(s.alias))
	}
	change := "no"
	if s.mutable {
		change = "yes"
	}
	fmt.Fprintf(out, "- CONFIG SET: %s\n", change)
}

func code(value string) string {
	if value == "" {
		return "empty"
	}
	return "`" + value + "`"
}

func (g *group) isFixed() bool {
	_, ok := g.settings[0].kind.(fixed)
	return ok
}

const exampleHead = `# Every setting of codeq-server with its default. Copy what you change to config.yaml and start with
# --config config.yaml, or with the path in CODEQ_CONFIG. docs/configuration.md says more.
#
# Generated from the declarations in config/settings.go by "make generate"; change it there.
`

// exampleWidth is where the example's comments break.
const exampleWidth = 100

// WriteExample writes config.yaml.example, which is a valid file that sets
// every setting to its default.
func WriteExample(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(exampleHead)
	for _, g := range declared().groups {
		if g.isFixed() {
			continue
		}
		fmt.Fprintf(out, "\n# --- %s ---\n", g.title)
		section := ""
		for _, s := range g.settings {
			out.WriteString("\n")
			if s.section != section {
				section = s.section
				if section != "" {
					fmt.Fprintf(out, "%s:\n", section)
				}
			}
			writeExample(out, &s)
		}
	}
	return out.Flush()
}

func writeExample(out *bufio.Writer, s *setting) {
	indent := ""
	if s.section != "" {
		indent = "  "
	}
	value := upperFirst(s.kind.describe()) + "."
	if s.mutable {
		value += " CONFIG SET can change it."
	}
	writeComment(out, indent, s.doc)
	writeComment(out, indent, value)
	fmt.Fprintf(out, "%s%s: %s\n", indent, s.fileKey(), exampleValue(s))
}

func writeComment(out *bufio.Writer, indent, sentence string) {
	line := indent + "#"
	for _, word := range strings.Fields(sentence) {
		if len(line)+1+len(word) > exampleWidth {
			fmt.Fprintln(out, line)
			line = indent + "#"
		}
		line += " " + word
	}
	fmt.Fprintln(out, line)
}

// exampleValue is the default in YAML.
func exampleValue(s *setting) string {
	switch s.kind.(type) {
	case sequence:
		items := strings.Fields(s.def)
		for i := range items {
			items[i] = strconv.Quote(items[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case mapping:
		return "{}"
	}
	if s.def == "" {
		return `""`
	}
	return s.def
}
