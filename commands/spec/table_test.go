package spec

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// handled is what a package that runs commands may index.
type handled struct {
	Command
	run string
}

func handledTable(t *testing.T) *Table[handled] {
	t.Helper()
	var items []handled
	for _, c := range sample() {
		items = append(items, handled{c, "run " + c.Name})
	}
	table, err := NewTable(items, func(h *handled) *Command { return &h.Command })
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestLookup(t *testing.T) {
	table := handledTable(t)
	for name, want := range map[string]string{
		"get": "run get", "GET": "run get", "gEt": "run get", "client": "run client", "Client|LIST": "run client|list",
		"": "", "ge": "", "gett": "", "client|": "", "|list": "", "get\x00": "",
		strings.Repeat("g", maxNameLength): "", strings.Repeat("g", 1000): "",
	} {
		got, ok := table.Lookup([]byte(name))
		if ok != (want != "") || (ok && got.run != want) {
			t.Errorf("Lookup(%q) = %v, %v; want %q", name, got, ok, want)
		}
	}
}

func TestResolve(t *testing.T) {
	table := handledTable(t)
	for call, want := range map[string][2]string{
		"get k":               {"get", ""},
		"CONFIG GET x":        {"config|get", ""},
		"config set":          {"config|set", ""},
		"config":              {"config", ""},
		"config nonesuch":     {"", "config"},
		"config get|x":        {"", "config"},
		"config|get x":        {"", ""},
		"nonesuch":            {"", ""},
		"nonesuch get":        {"", ""},
		"xgroup CREATE k g $": {"xgroup|create", ""},
	} {
		cmd, container := table.Resolve(byteArgs(call))
		if got := [2]string{nameOf(cmd), nameOf(container)}; got != want {
			t.Errorf("Resolve(%q) = %q, want %q", call, got, want)
		}
	}
	if cmd, container := table.Resolve(nil); cmd != nil || container != nil {
		t.Error("an empty call was resolved")
	}
}

func nameOf(h *handled) string {
	if h == nil {
		return ""
	}
	return h.Name
}

// TestNoAllocation: what every request passes through does not allocate.
func TestNoAllocation(t *testing.T) {
	table := handledTable(t)
	keys, elements := make([]KeyRef, 0, 8), make([]int, 0, 8)
	for _, call := range []string{"GET k", "CONFIG GET x", "set k v EX 10", "eval x 2 a b", "XREAD STREAMS a b 0 0",
		"zadd k NX 1 a 2 b", "nonesuch k", strings.Repeat("x", 200)} {
		args := byteArgs(call)
		if n := testing.AllocsPerRun(50, func() {
			cmd, _ := table.Resolve(args)
			if cmd == nil {
				return
			}
			keys, _ = AppendKeys(keys[:0], &cmd.Command, args)
			elements = AppendElements(elements[:0], &cmd.Command, args)
			table.Lookup(args[0])
		}); n != 0 {
			t.Errorf("%s: %v allocations", call, n)
		}
	}
}

func TestNames(t *testing.T) {
	table := handledTable(t)
	all := table.Names(nil)
	if len(all) != len(sample()) || !slices.IsSorted(all) {
		t.Errorf("Names(nil) = %q", all)
	}
	if got, want := table.Names(InCategory("HyperLogLog")), []string{"pfcount", "pfmerge"}; !slices.Equal(got, want) {
		t.Errorf("in @hyperloglog: %q, want %q", got, want)
	}
	if got := table.Names(InCategory("nonesuch")); len(got) != 0 {
		t.Errorf("in an unknown category: %q", got)
	}
	top := table.Commands()
	if len(top) != table.Len() || slices.ContainsFunc(top, func(c *Command) bool { return strings.Contains(c.Name, "|") }) {
		t.Errorf("Commands lists %d of %d, or subcommands", len(top), table.Len())
	}
	n := 0
	for range table.All() {
		n++
	}
	if n != len(all) {
		t.Errorf("All ranges over %d, want %d", n, len(all))
	}
}

func TestArity(t *testing.T) {
	table := handledTable(t)
	for _, test := range []struct {
		name  string
		words int
		want  bool
	}{
		{"get", 1, false}, {"get", 2, true}, {"get", 3, false}, {"lpush", 2, false}, {"lpush", 3, true}, {"lpush", 99, true},
		{"config|get", 2, false}, {"config|get", 3, true}, {"config", 1, false}, {"quit", 1, true}, {"quit", 2, true},
	} {
		c, ok := table.Lookup([]byte(test.name))
		if !ok || c.AcceptsArgs(test.words) != test.want {
			t.Errorf("%s with %d words: want %v", test.name, test.words, test.want)
		}
	}
}

// TestCallKeys holds what must be true without a redis-server to compare with; TestKeysAsRedis has more calls.
func TestCallKeys(t *testing.T) {
	table := handledTable(t)
	for _, test := range []struct {
		call string
		want []int
		err  error
	}{
		{"mset a 1 b 2", []int{1, 3}, nil},
		{"blpop a b 0", []int{1, 2}, nil},
		{"eval x 0", nil, nil},
		{"pfmerge d", []int{1}, nil},
		{"sort k GET store STORE d", []int{1, 5}, nil},
		{"migrate h 1  0 10 KEYS a b", []int{7, 8}, nil},
		{"zunionstore d 9 a", nil, ErrInvalidArguments},
		{"xread COUNT 1 a", nil, ErrInvalidArguments},
		{"config get x", nil, ErrNoKeyArguments},
		{"get", nil, ErrInvalidArgCount},
		{"nonesuch", nil, ErrInvalidCommand},
	} {
		keys, err := table.CallKeys([]KeyRef{{Pos: 77}}, byteArgs(test.call))
		var got []int
		for _, k := range keys[1:] {
			got = append(got, k.Pos)
		}
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) || keys[0].Pos != 77 {
			t.Errorf("%s: %v, %v; want %v, %v", test.call, keys, err, test.want, test.err)
		}
	}
}

func TestElements(t *testing.T) {
	table := handledTable(t)
	for call, want := range map[string][]int{
		"hset h a 1 b 2":               {2, 4},
		"hget h a":                     {2},
		"hmget h a b c":                {2, 3, 4},
		"sadd s a b":                   {2, 3},
		"zadd z 1 a":                   {3},
		"zadd z NX ch 1 a 2 b":         {5, 7},
		"zadd z XX":                    nil,
		"lrem l 0 a":                   {3},
		"zrange z 0 -1":                nil,
		"zadd z NX XX GT LT CH INCR 1": nil,
	} {
		args := byteArgs(call)
		c, _ := table.Resolve(args)
		if got := AppendElements(nil, &c.Command, args); !slices.Equal(got, want) {
			t.Errorf("%s: elements %v, want %v", call, got, want)
		}
	}
}
