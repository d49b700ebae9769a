package supplier

import (
	"slices"
	"strings"
	"testing"
)

func TestTopologyNamesAndOrdinals(t *testing.T) {
	top := Topology{Default: 3, Named: []string{"premium", "eu-1"}}
	if err := top.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []string{"default-0", "default-1", "default-2", "premium", "eu-1"}
	if got := top.Names(); !slices.Equal(got, want) {
		t.Fatalf("names are %q, want %q", got, want)
	}
	for i, name := range want {
		if got, ok := top.Ordinal(name); !ok || got != i {
			t.Errorf("ordinal of %q is %d, %v; want %d", name, got, ok, i)
		}
	}
	for _, name := range []string{"", "default", "default-3", "default-03", "Premium"} {
		if got, ok := top.Ordinal(name); ok {
			t.Errorf("%q has ordinal %d; want none", name, got)
		}
	}
}

func TestTopologyValidate(t *testing.T) {
	tests := []struct {
		top  Topology
		want string // a part of the error; empty for none
	}{
		{Topology{Default: 1}, ""},
		{Topology{Default: 256}, ""},
		{Topology{Default: 255, Named: []string{"a"}}, ""},
		{Topology{Default: 1, Named: []string{"a", "9_z-"}}, ""},
		{Topology{Default: 0}, "at least 1"},
		{Topology{Default: -1}, "at least 1"},
		{Topology{Default: 257}, "remove 1"},
		{Topology{Default: 255, Named: []string{"a", "b"}}, "remove 1"},
		{Topology{Default: 1, Named: []string{"a", "b", "a"}}, `"a" is named twice`},
		{Topology{Default: 1, Named: []string{""}}, "0 characters"},
		{Topology{Default: 1, Named: []string{strings.Repeat("x", 65)}}, "65 characters"},
		{Topology{Default: 1, Named: []string{"Premium"}}, `'P' at position 1`},
		{Topology{Default: 1, Named: []string{"a:b"}}, `':' at position 2`},
		{Topology{Default: 1, Named: []string{"../up"}}, `'.' at position 1`},
		{Topology{Default: 1, Named: []string{"default"}}, "belongs to the default group"},
		{Topology{Default: 1, Named: []string{"default-7"}}, "belongs to the default group"},
	}
	for _, tt := range tests {
		expectError(t, tt.top.Validate(), tt.want)
	}
}

// expectError checks that an error has a part, or that there is none where the
// part is empty.
func expectError(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case part != "" && err == nil:
		t.Errorf("no error; want one with %q", part)
	case part != "" && !strings.Contains(err.Error(), part):
		t.Errorf("the error is %q; want one with %q", err, part)
	}
}
