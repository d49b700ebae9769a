package commands

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"codeq/supplier"
)

// routed is what decides where the keys of a server with two default shards are.
type routed struct {
	supplier string
	named    string // the names of the named shards
	mapped   string // COMMAND=SHARD, for the static supplier
	fallback string // the static supplier's default shard
	pins     map[int]string
}

func (r routed) open(t *testing.T, fs vfs.FS) (*testServer, error) {
	options := supplier.Options{Topology: supplier.Topology{Default: 2, Named: strings.Fields(r.named)}, DefaultShard: r.fallback}
	for _, mapping := range strings.Fields(r.mapped) {
		if options.Commands == nil {
			options.Commands = map[string]string{}
		}
		command, shard, _ := strings.Cut(mapping, "=")
		options.Commands[command] = shard
	}
	return openPinned(t, fs, r.supplier, options, r.pins)
}

func (r routed) mustOpen(t *testing.T, fs vfs.FS) *testServer {
	t.Helper()
	s, err := r.open(t, fs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// placementTest is a change of what decides where keys are.
type placementTest struct {
	name     string
	from, to routed
	fill     string // commands, separated by semicolons
	refused  string // what the error says; empty: the change is accepted
	then     string // commands afterwards, with the former configuration if the change was refused
	want     string // the replies to the last of them
}

// run makes the change. If it is refused, twice, nothing is written and the former configuration is accepted.
func (tt *placementTest) run(t *testing.T) {
	fs := vfs.NewMem()
	s := tt.from.mustOpen(t, fs)
	for _, line := range strings.Split(tt.fill, "; ") {
		if reply := s.client().send("select 0", line); strings.Contains(reply, " -") {
			t.Fatalf("%s: %s", line, reply)
		}
	}
	s.stop()
	config := tt.to
	if tt.refused != "" {
		config = tt.from
		before := files(t, fs)
		for range 2 {
			if _, err := tt.to.open(t, fs); err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Fatalf("the error is %v, want one with %q", err, tt.refused)
			}
			if after := files(t, fs); after != before {
				t.Errorf("the refused start has made\n%sof\n%s", after, before)
			}
		}
	}
	s = config.mustOpen(t, fs)
	if tt.then != "" {
		lines := strings.Split(tt.then, "; ")
		c, last := s.client(), len(lines)-1
		if reply := c.send(append([]string{"select 0"}, lines[:last]...)...); strings.Contains(reply, " -") {
			t.Errorf("%s: %s", tt.then, reply)
		}
		if reply := c.send(lines[last]); !strings.Contains(reply, tt.want) {
			t.Errorf("%s: %s, want %s", lines[last], reply, tt.want)
		}
	}
}

// files is FORMAT with the folders of shards.
func files(t *testing.T, fs vfs.FS) string {
	t.Helper()
	f, err := fs.Open("data/FORMAT")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s bytes.Buffer
	if _, err := io.Copy(&s, f); err != nil {
		t.Fatal(err)
	}
	shards, err := fs.List("data/shards")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(shards)
	fmt.Fprintln(&s, shards)
	return s.String()
}

// TestNewShardsHideNothing: a new named shard takes over the keys that have its name, and the ids that have its number.
func TestNewShardsHideNothing(t *testing.T) {
	id := string(supplier.AppendID(nil, 2, [16]byte{7}))
	const refused, later = "with premium added to named-shards, would not find them: go back to supplier %s, without premium in named-shards", "4000000000"
	for _, name := range []string{"hash", "task"} {
		from, to := routed{supplier: name}, routed{supplier: name, named: "premium"}
		two := routed{supplier: name, named: "bulk premium"}
		refused := fmt.Sprintf(refused, name)
		tests := []placementTest{
			{name: "tasks", from: from, to: to, fill: "q.enqueue mail hello; q.enqueue mail hello; q.claim w commands 1 mail; set plain x", then: "q.claim w commands 1 mail", want: "hello"},
			{name: "another ordinal", from: from, to: to, fill: "q.enqueue mail hello id " + string(supplier.AppendID(nil, 3, [16]byte{7})), then: "q.claim w commands 1 mail", want: "hello"},
			{name: "another name", from: from, to: to, fill: "lpush codeq:q:mail:s:bulk:pending:5 t1", then: "rpop codeq:q:mail:s:bulk:pending:5", want: "$2 t1"},
			{name: "empty", from: from, to: to, fill: "lpush codeq:q:mail:s:premium:pending:5 t1; rpop codeq:q:mail:s:premium:pending:5; q.enqueue mail p id " + id + "; flushall"},
			{name: "a pause", from: from, to: to, fill: "set codeq:q:mail:s:premium:paused 1"},

			{name: "a task", from: from, to: to, fill: "q.enqueue mail hello id " + id, refused: refused, then: "q.claim w commands 1 mail", want: "hello"},
			{name: "the second shard", from: from, to: two, fill: "q.enqueue mail hello id " + id, refused: "with bulk, premium added", then: "q.get " + id, want: "hello"},
			{name: "the second name", from: from, to: two, fill: "lpush codeq:q:mail:s:premium:pending:5 t1", refused: "with bulk, premium added", then: "rpop codeq:q:mail:s:premium:pending:5", want: "$2 t1"},
			{name: "a result", from: from, to: to, fill: "hset codeq:results " + id + " x", refused: `has the key "codeq:results" with the element "` + id, then: "hget codeq:results " + id, want: "x"},
			{name: "retention", from: from, to: to, fill: "zadd codeq:tasks:ttl " + later + " " + id, refused: refused, then: "zscore codeq:tasks:ttl " + id, want: later},
			{name: "a lease", from: from, to: to, fill: "set codeq:lease:" + id + " w", refused: `has the key "codeq:lease:` + id, then: "get codeq:lease:" + id, want: "w"},
		}
		for _, key := range []string{"codeq:q:mail:s:premium:", "codeq:q:{mail:acme}:s:premium:"} {
			for state, write := range map[string]string{"pending:5": "lpush %s t1", "inprog": "sadd %s t1", "dlq": "sadd %s t1", "delayed": "zadd %s " + later + " t1"} {
				tests = append(tests, placementTest{name: key + state, from: from, to: to, fill: fmt.Sprintf(write, key+state),
					refused: "has tasks at " + key + state, then: "exists " + key + state, want: ":1"})
			}
		}
		for state, write := range map[string]string{"pending:3": "lpush %s t1 %s", "inprog": "sadd %s t1 %s", "dlq": "sadd %s t1 %s", "delayed": "zadd %s " + later + " %s"} {
			key := "codeq:q:mail:" + state
			tt := placementTest{name: key, from: from, to: to, fill: fmt.Sprintf(write, key, id), then: "exists " + key, want: ":1"}
			if name == "task" {
				tt.refused = fmt.Sprintf("has the key %q with the element %q", key, id)
			}
			tests = append(tests, tt)
		}
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, tt.run)
		}
	}
	t.Run("with another supplier", (&placementTest{from: routed{supplier: "hash"}, to: routed{supplier: "static", named: "premium", mapped: "other=premium"},
		fill: "q.enqueue sms hello id " + id, refused: "with premium added", then: "q.claim w commands 1 sms", want: "hello"}).run)
}
