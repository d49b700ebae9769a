package commands

import (
	"strings"
	"testing"

	"codeq/commands/spec"
)

// TestFamilies builds the registry that the server starts with.
func TestFamilies(t *testing.T) {
	if _, err := newRegistry(families()); err != nil {
		t.Fatal(err)
	}
}

func TestFaultyDeclarations(t *testing.T) {
	run := func(*Call) error { return nil }
	key := spec.Keys{spec.FirstKey(spec.RO)}
	with := func(c Command, scope Scope) Command {
		c.Scope = scope
		return c
	}
	container := declare("box", "", 0, nil, run)
	sub := declare("box|open", "BOX OPEN", 0, nil, run)
	for _, test := range []struct {
		name     string
		want     string
		commands []Command
	}{
		{"no handler", "has no handler", []Command{declare("a", "A key", 0, key, nil)}},
		{"container with handler", "is a container", []Command{container, sub}},
		{"scope", "unknown scope", []Command{with(declare("a", "A key", 0, key, run), scopeApart+1)}},
		{"keys of the session", "no use for them", []Command{with(declare("a", "A key", 0, key, run), scopeSession)}},
		{"keys of all", "no use for them", []Command{with(declare("a", "A key", 0, key, run), scopeAll)}},
		{"own in scripts", "scripts can't", []Command{with(declare("a", "A key", 0, key, run), scopeOwn)}},
		{"twice", "declared twice", []Command{declare("a", "A key", 0, key, run), declare("a", "A key", 0, key, run)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newRegistry(test.commands)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
