package supplier

import (
	"context"
	"slices"
	"testing"
)

func TestRegistry(t *testing.T) {
	r := NewRegistry()
	if got, want := r.Names(), []string{"default", "hash", "static", "task"}; !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
	own := func(Options) (ShardSupplier, error) { return &static{fallback: "default-0"}, nil }
	expectError(t, r.Register("hash", own), "registered already")
	expectError(t, r.Register("", own), "needs a name")
	expectError(t, r.Register("own", nil), "needs a name and a factory")
	expectError(t, r.Register("own", own), "")
	expectError(t, r.Register("own", own), "registered already")
	if _, err := r.New("own", Options{Topology: Topology{Default: 1}}); err != nil {
		t.Error(err)
	}
	if _, err := NewRegistry().New("own", Options{Topology: Topology{Default: 1}}); err == nil {
		t.Error("a registry knows what was registered in another one")
	}
}

func TestNewRefuses(t *testing.T) {
	top := Topology{Default: 2, Named: []string{"premium"}}
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"hash", Options{Topology: top}, ""},
		{"default", Options{Topology: top}, ""},
		{"default", Options{Topology: top, DefaultShard: "premium"}, ""},
		{"static", Options{Topology: top}, ""},
		{"hush", Options{Topology: top}, "set supplier to one of default, hash, static, task"},
		{"hash", Options{}, "at least 1"},
		{"hash", Options{Topology: top, DefaultShard: "premium"}, "set supplier to static"},
		{"hash", Options{Topology: top, Tenants: map[string]string{"t": "premium"}}, "set supplier to static"},
		{"task", Options{Topology: top}, ""},
		{"task", Options{Topology: top, Tenants: map[string]string{"t": "premium"}}, "set supplier to static"},
		{"default", Options{Topology: top, Commands: map[string]string{"C": "premium"}}, "set supplier to static"},
		{"default", Options{Topology: top, DefaultShard: "gold"}, `static-default-shard: there is no shard "gold"; use default-0 … default-1, premium, or add it`},
		{"static", Options{Topology: top, DefaultShard: "default-2"}, `no shard "default-2"`},
		{"static", Options{Topology: top, Commands: map[string]string{"C": "gold"}}, `static-commands: C: there is no shard "gold"`},
		{"static", Options{Topology: top, Tenants: map[string]string{"acme": "gold"}}, `static-tenants: acme: there is no shard "gold"`},
		{"static", Options{Topology: top, Commands: map[string]string{"C": "premium", "c": "default-0"}}, "mapped twice"},
		{"static", Options{Topology: top, Commands: map[string]string{"mail:acme": "premium"}}, `static-commands: the command "mail:acme" has a colon`},
	}
	for _, tt := range tests {
		_, err := NewRegistry().New(tt.name, tt.opts)
		expectError(t, err, tt.want)
	}
}

func TestBuiltInAnswers(t *testing.T) {
	top := Topology{Default: 4, Named: []string{"premium", "bulk"}}
	mapped := Options{
		Topology:     top,
		DefaultShard: "default-1",
		Commands:     map[string]string{"GENERATE_MASTER": "bulk"},
		Tenants:      map[string]string{"acme": "premium"},
	}
	tests := []struct {
		supplier        string
		opts            Options
		command, tenant string
		want            string
	}{
		{"default", Options{Topology: top}, "c", "t", "default-0"},
		{"default", Options{Topology: top, DefaultShard: "bulk"}, "c", "t", "bulk"},
		{"static", mapped, "generate_master", "acme", "premium"},
		{"static", mapped, "generate_master", "other", "bulk"},
		{"static", mapped, "generate_master", "", "bulk"},
		{"static", mapped, "other", "acme", "premium"},
		{"static", mapped, "other", "", "default-1"},
		// Hash64 of "c:t", of "c" and of "generate_master", modulo 4.
		{"hash", Options{Topology: top}, "c", "t", "default-" + string('0'+byte(Hash64([]byte("c:t"))%4))},
		{"hash", Options{Topology: top}, "c", "", "default-" + string('0'+byte(Hash64([]byte("c"))%4))},
	}
	for _, tt := range tests {
		s, err := NewRegistry().New(tt.supplier, tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.CurrentShard(context.Background(), tt.command, tt.tenant)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %q is on %q, %v; want %q", tt.supplier, tt.command, tt.tenant, got, err, tt.want)
		}
		all, err := s.QueueShards(context.Background(), tt.command, tt.tenant)
		if err != nil || !slices.Equal(all, []string{tt.want}) {
			t.Errorf("%s: %q, %q may be on %q, %v; want %q", tt.supplier, tt.command, tt.tenant, all, err, tt.want)
		}
	}
}
