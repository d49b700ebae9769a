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

// TestNamedQueuesAreNotLeft: the keys of a queue on a named shard have the shard's name, by which they are found there whatever the
// configuration, but not by the commands of queues.
func TestNamedQueuesAreNotLeft(t *testing.T) {
	premium := routed{supplier: "static", named: "premium bulk", mapped: "mail=premium"}
	const enqueue, claim, refused = "q.enqueue mail hello id t1", "q.claim w commands 1 mail", "has tasks at codeq:q:mail:s:premium:pending:0 (database 0) on shard \"premium\", "
	for name, to := range map[string]routed{
		"to hash":             {supplier: "hash"},
		"to task":             {supplier: "task"},
		"to default":          {supplier: "default"},
		"without mapping":     {supplier: "static"},
		"to a default shard":  {supplier: "static", mapped: "mail=default-1"},
		"to another shard":    {supplier: "static", mapped: "mail=bulk"},
		"to a pinned one":     {supplier: "static", mapped: "mail=premium", pins: map[int]string{0: "premium"}},
		"with one more shard": {supplier: "hash", named: "premium bulk third"},
	} {
		if to.named == "" {
			to.named = premium.named
		}
		tests := []placementTest{
			{name: name, from: premium, to: to, fill: enqueue, refused: refused, then: claim, want: "hello"},
			{name: name + ", claimed", from: premium, to: to, fill: enqueue + "; " + claim, refused: "codeq:q:mail:s:premium:inprog", then: "q.abandon w t1; " + claim, want: "hello"},
			{name: name + ", paused", from: premium, to: to, fill: "q.pause mail", refused: "has the key codeq:q:mail:s:premium:paused (database 0)", then: enqueue + "; " + claim, want: "*-1"},
			{name: name + ", empty", from: premium, to: to, fill: enqueue + "; q.purge mail state pending", then: enqueue + "; " + claim, want: "hello"},
		}
		for _, tt := range tests {
			t.Run(tt.name, tt.run)
		}
	}
	pinned := routed{supplier: "static", named: "premium bulk", mapped: "mail=premium", pins: map[int]string{0: "premium"}}
	more := routed{supplier: "static", named: "premium bulk third", mapped: "mail=premium new=third"}
	fallback := routed{supplier: "default", named: "premium", fallback: "premium"}
	for _, tt := range []placementTest{
		{name: "a mapping for a new queue", from: premium, to: more, fill: enqueue + "; q.enqueue other x", then: claim, want: "hello"},
		{name: "a paused queue stays", from: premium, to: more, fill: enqueue + "; q.pause mail", then: claim, want: "*-1"},
		{name: "the default shard", from: fallback, to: routed{supplier: "hash", named: "premium"}, fill: enqueue, refused: refused, then: claim, want: "hello"},
		{name: "no longer pinned", from: pinned, to: premium, fill: enqueue, refused: "has tasks at codeq:q:mail:pending:0 (database 0) on shard \"premium\"", then: claim, want: "hello"},
		{name: "no longer pinned, paused", from: pinned, to: premium, fill: "q.pause mail", refused: "has the key codeq:q:mail:paused (database 0)", then: enqueue + "; " + claim, want: "*-1"},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestOtherFormsAreLeftAlone: keys in forms that the commands of queues do not look at have to be where they are looked for by their names.
func TestOtherFormsAreLeftAlone(t *testing.T) {
	hash, task := routed{supplier: "hash", named: "premium"}, routed{supplier: "task", named: "premium"}
	static := routed{supplier: "static", named: "premium", mapped: "mail=premium"}
	const (
		raw    = "lpush codeq:q:mail:s:premium:pending:5 t1"
		tagged = "lpush codeq:q:{mail}:s:premium:pending:5 t1"
		pop    = "rpop codeq:q:mail:s:premium:pending:5"
	)
	for _, tt := range []placementTest{
		{name: "hash to task", from: hash, to: task, fill: raw, then: pop, want: "$2 t1"},
		{name: "task to hash", from: task, to: hash, fill: raw, then: pop, want: "$2 t1"},
		{name: "hash to static", from: hash, to: routed{supplier: "static", named: "premium", mapped: "mail=default-0"}, fill: raw, then: pop, want: "$2 t1"},
		{name: "hash to the form", from: hash, to: static, fill: raw, then: "q.stats mail", want: "$5 ready :1"},
		{name: "tagged", from: static, to: hash, fill: tagged, then: "rpop codeq:q:{mail}:s:premium:pending:5", want: "$2 t1"},
		{name: "a mapping", from: hash, to: hash, fill: raw + "; set codeq:q:mail:s:premium:paused 1", then: pop, want: "$2 t1"},
		{name: "one more shard", from: static, to: routed{supplier: "static", named: "premium bulk", mapped: "mail=premium"},
			fill: "lpush codeq:q:other:s:premium:pending:5 t1", then: "rpop codeq:q:other:s:premium:pending:5", want: "$2 t1"},
		{name: "a pause for nobody", from: hash, to: task, fill: "set codeq:q:mail:s:premium:paused 1; set codeq:q:{mail}:s:premium:paused 1"},
		{name: "a pause for nobody under task", from: task, to: hash, fill: "set codeq:q:mail:paused 1; set codeq:q:{mail}:s:premium:paused 1"},
		{name: "with the wrong shard", from: static, to: hash, fill: "set codeq:q:mail:s:default-1:paused 1; lpush codeq:q:mail:s:default-0:pending:0 t1"},
	} {
		t.Run(tt.name, tt.run)
	}
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

// TestPausesAreKept: a queue that is paused is paused still, or the start is refused.
func TestPausesAreKept(t *testing.T) {
	hash, task := routed{supplier: "hash", named: "premium"}, routed{supplier: "task", named: "premium"}
	on := func(shard string) routed {
		return routed{supplier: "static", named: "premium", mapped: "mail=" + shard}
	}
	pinned := func(r routed, shard string) routed {
		r.pins = map[int]string{0: shard}
		return r
	}
	const enqueue, pause, claim, key, spread = "q.enqueue mail p", "q.pause mail", "q.claim w commands 1 mail", "has the key codeq:q:mail:paused (database 0)", "has the key codeq:q:mail:s:default-0:paused (database 0)"
	for _, tt := range []placementTest{
		{name: "hash to task", from: hash, to: task, refused: key},
		{name: "task to hash", from: task, to: hash, refused: spread},
		{name: "static to static", from: on("default-0"), to: on("default-1"), refused: key},
		{name: "static to a named shard", from: on("default-0"), to: on("premium"), refused: key},
		{name: "static to task", from: on("default-0"), to: task, refused: key},
		{name: "task to static", from: task, to: on("default-0"), refused: spread},
		{name: "pinned elsewhere", from: pinned(task, "default-0"), to: pinned(task, "default-1"), refused: key},
		{name: "pinned and spread", from: pinned(task, "default-0"), to: task, refused: key},
		{name: "spread and pinned", from: task, to: pinned(task, "default-0"), refused: spread},
		{name: "task with one more shard", from: task, to: routed{supplier: "task", named: "premium bulk"}, refused: spread},
		{name: "hash with one more shard", from: hash, to: routed{supplier: "hash", named: "premium bulk"}},
		{name: "the same place", from: on("default-0"), to: routed{supplier: "default", named: "premium"}},
		{name: "another mapping", from: on("default-0"), to: on("default-0 new=premium")},
		{name: "another pin", from: task, to: routed{supplier: "task", named: "premium", pins: map[int]string{3: "premium"}}},
		{name: "pinned and the same", from: pinned(task, "default-0"), to: pinned(hash, "default-0")},
	} {
		tt.fill, tt.then, tt.want = pause, enqueue+"; "+claim, "*-1"
		t.Run(tt.name, tt.run)
		if tt.refused != "" {
			tt.fill, tt.refused, tt.want = pause+"; q.resume mail", "", "*1"
			t.Run(tt.name+", resumed", tt.run)
		}
	}
}
