package commands

import (
	"fmt"
	"testing"

	"codeq/rdb"
	"codeq/resp"
	"codeq/supplier"
)

// TestRestorePartitioned: a partitioned key takes its own type, and no deadline.
func TestRestorePartitioned(t *testing.T) {
	c := startServer(t, append(dumpCommands(), copyCommands()...)...).client()
	hash := &rdb.Value{Kind: rdb.Hash}
	for i := range 20 {
		hash.Items = append(hash.Items, fmt.Append(nil, "task", i), []byte("v"))
	}
	send := func(args ...string) string {
		t.Helper()
		words := make([][]byte, len(args))
		for i, arg := range args {
			words[i] = []byte(arg)
		}
		c.conn.Out.Reset()
		c.s.Serve(c.conn, [][][]byte{words})
		return string(c.conn.Out.Bytes())
	}
	payload := string(rdb.Encode(hash))
	text := string(rdb.Encode(&rdb.Value{Kind: rdb.String, Str: []byte("x")}))
	const refused = "-" + string(resp.ErrNoDeadline) + "\r\n"
	for _, step := range []struct {
		want string
		args []string
	}{
		{"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", []string{"RESTORE", "codeq:tasks", "0", text}},
		{refused, []string{"RESTORE", "codeq:tasks", "1000", payload}},
		{"+OK\r\n", []string{"RESTORE", "codeq:tasks", "0", payload}},
		{":20\r\n", []string{"HLEN", "codeq:tasks"}},
		{"-BUSYKEY Target key name already exists.\r\n", []string{"RESTORE", "codeq:tasks", "0", payload}},
		{"+OK\r\n", []string{"RESTORE", "codeq:tasks", "0", payload, "REPLACE"}},
		{refused, []string{"RESTORE", "codeq:tasks", "1000", payload, "REPLACE"}},
		{refused, []string{"RESTORE", "codeq:tasks", "4102444800000", payload, "REPLACE", "ABSTTL"}},
		{":20\r\n", []string{"HLEN", "codeq:tasks"}},
		{"+OK\r\n", []string{"RESTORE", "mortal", "1000", payload}},
		{refused, []string{"COPY", "mortal", "codeq:tasks", "REPLACE"}},
		{refused, []string{"COPY", "mortal", "codeq:tasks", "DB", "1"}},
		{":20\r\n", []string{"HLEN", "codeq:tasks"}},
		{":1\r\n", []string{"COPY", "codeq:tasks", "plain"}},
		{":20\r\n", []string{"HLEN", "plain"}},
		{":0\r\n", []string{"COPY", "plain", "codeq:tasks"}},
		{":1\r\n", []string{"MOVE", "codeq:tasks", "2"}},
		{":0\r\n", []string{"HLEN", "codeq:tasks"}},
		{"+OK\r\n", []string{"SWAPDB", "0", "2"}},
		{":20\r\n", []string{"HLEN", "codeq:tasks"}},
	} {
		if got := send(step.args...); got != step.want {
			t.Errorf("%q: %q, want %q", step.args, got, step.want)
		}
	}
}

// TestRouteAlike: databases can be swapped if they keep their keys on the same shards.
func TestRouteAlike(t *testing.T) {
	topology := supplier.Topology{Default: 4}
	hash, err := supplier.NewRegistry().New("hash", supplier.Options{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	router, err := supplier.NewRouter(supplier.RouterConfig{Topology: topology, Supplier: hash,
		Databases: map[int]string{3: "default-1", 4: "default-1", 5: "default-2"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{router: router}
	for _, c := range []struct {
		a, b int
		want bool
	}{{0, 1, true}, {0, 3, false}, {3, 0, false}, {3, 4, true}, {3, 5, false}, {3, 3, true}} {
		if got := s.routeAlike(c.a, c.b); got != c.want {
			t.Errorf("databases %d and %d: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
