package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Validate reports every contradiction in a set of declarations, joined into one error. NewTable calls it, so that a
// server with a bad declaration does not start.
func Validate(commands []Command) error {
	own := slices.Clone(commands)
	pointers := make([]*Command, len(own))
	for i := range own {
		pointers[i] = &own[i]
	}
	return deriveAll(pointers)
}

// deriveAll links containers with their subcommands, derives what follows from each declaration, and checks all.
func deriveAll(commands []*Command) error {
	var errs []error
	byName := make(map[string]*Command, len(commands))
	for _, c := range commands {
		c.derived = derived{}
		if byName[c.Name] != nil {
			errs = append(errs, fmt.Errorf("command %q: declared twice", c.Name))
		}
		byName[c.Name] = c
	}
	for _, c := range commands {
		container, _, isSub := strings.Cut(c.Name, "|")
		if !isSub {
			continue
		}
		parent := byName[container]
		if parent == nil {
			errs = append(errs, fmt.Errorf("command %q: its container %q is not declared", c.Name, container))
			continue
		}
		parent.derived.subcommands = append(parent.derived.subcommands, c)
	}
	for _, c := range commands {
		slices.SortFunc(c.derived.subcommands, func(a, b *Command) int { return strings.Compare(a.Name, b.Name) })
		problems := c.problems()
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("command %q: %w", c.Name, p))
		}
	}
	return errors.Join(errs...)
}

// problems derives and checks one command.
func (c *Command) problems() []error {
	if err := c.derive(); err != nil {
		return []error{err}
	}
	p := &problemList{}
	c.checkNames(p)
	c.checkTexts(p)
	c.checkArity(p)
	c.checkFlags(p)
	for i := range c.Keys {
		c.checkKeySpec(p, i)
	}
	c.checkKeyFunction(p)
	c.checkElements(p)
	return p.errs
}

type problemList struct{ errs []error }

// when notes a problem if the condition holds.
func (p *problemList) when(bad bool, format string, args ...any) {
	if bad {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

func (c *Command) checkNames(p *problemList) {
	p.when(c.Name == "" || c.Name != strings.ToLower(c.Name) || strings.ContainsAny(c.Name, " \t"),
		"the name must be one lower-case word")
	p.when(len(c.Name) > maxNameLength, "the name is longer than %d bytes", maxNameLength)
	p.when(strings.Count(c.Name, "|") > 1, "a subcommand has no subcommands")
	p.when(c.IsContainer() && len(c.derived.subcommands) == 0, "has neither a syntax nor subcommands")
	p.when(c.Group == 0 || c.Group > lastGroup, "has no group")
}

func (c *Command) checkTexts(p *problemList) {
	p.when(!isVersion(c.Since), "since %q is not a version", c.Since)
	p.when(c.Summary == "", "has no summary")
	p.when(c.Summary != "" && !strings.HasSuffix(c.Summary, "."), "the summary lacks its full stop")
	p.when(c.Differs != "" && !strings.HasSuffix(c.Differs, "."), "what differs lacks its full stop")
	p.when(strings.ContainsAny(c.Differs, "|\n"), "what differs would break a row of a table")
	p.when(c.Complexity == "" && !c.IsContainer(), "has no complexity")
	deprecated := c.DocFlags&Deprecated != 0
	p.when(deprecated != (c.DeprecatedSince != ""), "the Deprecated flag and DeprecatedSince go together")
	p.when(c.ReplacedBy != "" && !deprecated, "is replaced but not deprecated")
	p.when(deprecated && !isVersion(c.DeprecatedSince), "deprecated since %q is not a version", c.DeprecatedSince)
	for _, hint := range c.Hints {
		p.when(!isHint(hint), "unknown hint %q", hint)
	}
	for _, change := range c.History {
		p.when(!isVersion(change.Version) || change.What == "", "history entry %q is not complete", change)
	}
}

// isVersion accepts "major.minor.patch".
func isVersion(s string) bool {
	parts := strings.Split(s, ".")
	for _, part := range parts {
		if _, ok := parseCount([]byte(part)); !ok {
			return false
		}
	}
	return len(parts) == 3
}

// isHint accepts the tips that Redis 7.0 defines.
func isHint(s string) bool {
	kind, policy, hasPolicy := strings.Cut(s, ":")
	switch kind {
	case "nondeterministic_output", "nondeterministic_output_order":
		return !hasPolicy
	case "request_policy":
		return slices.Contains([]string{"all_nodes", "all_shards", "multi_shard", "special"}, policy)
	case "response_policy":
		return slices.Contains([]string{"one_succeeded", "all_succeeded", "agg_logical_and", "agg_logical_or", "agg_min",
			"agg_max", "agg_sum", "special"}, policy)
	}
	return false
}

// checkArity refuses an arity that asks for more than the syntax, or for an exact number where the syntax is open. A
// laxer one stands: such a command checks the rest itself.
func (c *Command) checkArity(p *problemList) {
	implied := c.impliedArity()
	p.when(c.Arity > 0 && c.Arity != implied, "arity %d contradicts the syntax, which has %d", c.Arity, implied)
	p.when(c.Arity < 0 && -c.Arity > max(implied, -implied), "arity %d asks for more than the syntax, which has %d",
		c.Arity, implied)
	p.when(c.Arity != 0 && c.Arity == implied, "arity %d follows from the syntax: leave it out", c.Arity)
}

func (c *Command) checkFlags(p *problemList) {
	f := c.Flags
	p.when(f&Write != 0 && f&ReadOnly != 0, "both writes and is read-only")
	p.when(f&MovableKeys != 0, "movablekeys is derived, not declared")
	p.when(f&DenyOOM != 0 && f&ReadOnly != 0, "is read-only and can't need more memory")
	p.when(f>>1 >= MovableKeys, "has unknown flags")
	p.when(c.ACL&NoCategory != 0 && c.ACL != NoCategory, "NoCategory stands alone")
	p.when(c.IsContainer() && (f != 0 || len(c.Keys) > 0), "a container that does nothing has no flags and no keys")
}

func (c *Command) checkKeySpec(p *problemList, i int) {
	k := &c.Keys[i]
	access := k.Flags & (RO | RW | OW | RM)
	p.when(k.Flags&NotKey == 0 && (access == 0 || access&(access-1) != 0),
		"key specification %d needs exactly one of RO, RW, OW, RM", i)
	// RW is no contradiction: PFCOUNT is read-only and refreshes a cached count in the value.
	p.when(c.Flags&ReadOnly != 0 && access&(OW|RM) != 0, "is read-only but key specification %d writes", i)
	p.when((k.Begin.kind == beginUnknown) != (k.Find.kind == findUnknown), "key specification %d is half unknown", i)
	if k.Find.kind == findUnknown {
		return
	}
	p.when(k.Find.step < 1, "key specification %d has step %d", i, k.Find.step)
	p.when(k.Begin.kind == beginKeyword && (k.Begin.keyword == "" || k.Begin.index == 0),
		"key specification %d has no keyword or starts at the command's name", i)
	if k.Begin.kind != beginIndex {
		return
	}
	least := max(c.derived.arity, -c.derived.arity)
	last := k.Begin.index + k.Find.count
	if k.Find.kind == findRange {
		last = k.Begin.index + max(k.Find.last, -1) // An open range may be empty.
	}
	p.when(k.Begin.index < nameWords(c.Name), "key specification %d points at the command's name", i)
	p.when(last >= least, "key specification %d points behind the %d words that a call has at least", i, least)
}

func (c *Command) checkKeyFunction(p *problemList) {
	needed := false
	for i := range c.Keys {
		k := &c.Keys[i]
		needed = needed || k.Begin.kind == beginUnknown || k.Flags&(Incomplete|VariableFlags) != 0
	}
	p.when(needed && c.GetKeys == nil, "its key specifications do not suffice, but it has no GetKeys")
	p.when(!needed && c.GetKeys != nil, "its key specifications suffice, so GetKeys would never be called")
}

func (c *Command) checkElements(p *problemList) {
	e := &c.Elements
	if !e.Known() {
		return
	}
	p.when(!c.HasKeys(), "has elements but no keys")
	p.when(e.from <= nameWords(c.Name), "its elements start at the key")
}
