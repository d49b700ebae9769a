package e2e

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeq/internal/peer"
)

// order is what a driver is told to do.
type order struct {
	addr  string // host:port of the server
	tasks int
	seed  uint64
	kill  bool // the server will be killed in the middle
}

// driver plays a client until all its tasks have ended. It may call report from several goroutines.
type driver func(ctx context.Context, o order, report func(event)) error

// client is a client library and how it is put to the test.
type client struct {
	drive driver
	// tasks is how many tasks the driver enqueues, brief the number with -short.
	tasks, brief int
	// limit ends a run that hangs.
	limit time.Duration
	// noKill says why the client does not get over a crash of its server; it is not killed then.
	noKill string
	// noRedisKill says why the client does not get over a crash of Redis, though of codeq; Redis is not killed then.
	noRedisKill string
	// slowRecovery says why the client takes too long to get over a crash for -short; it is not killed then.
	slowRecovery string
	// repeats says why this client may finish a task twice after a crash of its server. Without it once is once.
	repeats string
	// left lists what a run left behind that it should not have.
	left func(c *peer.Conn) ([]string, error)
}

// features is a client whose driver tries its features one by one, each of which is a task of the ledger.
func features(drive driver) client {
	return client{
		drive: drive, tasks: 1, brief: 1, limit: 10 * time.Minute, left: keysBut(),
		noKill: "a check looks at each step, and a crash takes what its client had under way",
	}
}

// scene is one server that a client meets.
type scene struct {
	name string
	opts peer.Options
	kill bool
}

// scenes are the servers and fates that a client meets. With -short it is the one that asks most: four shards, and the kill
// where the client can get over it. Redis is the control: what fails there as well is the client's own doing. Its append-only
// file is on, since it is to keep what it acknowledged, too; without fsync, since with everysec Redis holds writes to the file back for up to
// two seconds while a slow fsync goes on, and loses them when it is killed, though it has acknowledged them.
func scenes(killed bool) []scene {
	control := peer.Options{Kind: peer.Redis, AppendFsync: "no"}
	codeq := func(shards int) peer.Options { return peer.Options{Kind: peer.Codeq, Shards: shards} }
	if testing.Short() {
		return []scene{{name: "codeq/shards=4", opts: codeq(4), kill: killed}}
	}
	all := []scene{
		{name: "redis", opts: control},
		{name: "codeq/shards=1", opts: codeq(1)},
		{name: "codeq/shards=4", opts: codeq(4)},
	}
	if killed {
		for _, s := range all {
			all = append(all, scene{name: s.name + "/killed", opts: s.opts, kill: true})
		}
	}
	return all
}

// test runs a client through all its scenes.
func test(t *testing.T, c client) {
	t.Helper()
	t.Parallel()
	for _, s := range scenes(c.noKill == "" && !(testing.Short() && c.slowRecovery != "")) {
		if !peer.Targeted(*targetsFlag, s.opts.Kind) {
			continue
		}
		if s.kill && s.opts.Kind == peer.Redis && c.noRedisKill != "" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			play(t, c, s)
		})
	}
}

// play runs a client through one scene.
func play(t *testing.T, c client, s scene) {
	server := peer.ForTest(t, s.opts)
	ctx, cancel := context.WithTimeout(t.Context(), c.limit)
	defer cancel()
	o := order{addr: server.Addr(), tasks: c.tasks, seed: *seedFlag, kill: s.kill}
	if testing.Short() {
		o.tasks = c.brief
	}
	if *tasksFlag > 0 {
		o.tasks = *tasksFlag
	}
	books := newLedger()
	half, finished := make(chan struct{}), make(chan error, 1)
	go func() { finished <- watch(ctx, t, c.drive, o, books, half) }() // ends with the driver, which ctx bounds

	if s.kill {
		select {
		case <-half:
			if len(finished) > 0 {
				t.Error("the driver had come to an end before the server was killed")
			}
			server.Kill9()
			if err := server.Restart(ctx); err != nil {
				t.Errorf("restart in the middle: %v", err)
				cancel()
			}
		case <-ctx.Done():
		}
	}
	if err := <-finished; err != nil {
		t.Fatalf("driver, with %d of %d tasks at an end: %v", books.progress(), o.tasks, err)
	}
	counts, err := books.balance(o.tasks, s.kill && c.repeats != "")
	if err != nil {
		t.Fatalf("ledger: %v (%v)", err, counts)
	}
	if s.opts.Shards > 1 && !s.kill { // a server that was killed counts from then on
		t.Log(spread(t, server.DialForTest(t)))
	}
	left, err := c.left(server.DialForTest(t))
	if err != nil {
		t.Fatalf("look for what is left: %v", err)
	}
	for _, what := range left {
		t.Errorf("left behind: %s", what)
	}
	t.Logf("%v", counts)
}

// spread says how many of codeq's transactions locked more than one shard.
func spread(t *testing.T, c *peer.Conn) string {
	t.Helper()
	info, err := c.Call("INFO", "stats")
	if err != nil {
		t.Fatalf("how many transactions were spread: %v", err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(info.Str) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.Atoi(value); err == nil {
			counts[name] = n
		}
	}
	all, several := counts["transactions"], counts["transactions_over_shards"]
	return fmt.Sprintf("%d of %d transactions over several shards: %.1f %%", several, all, 100*float64(several)/float64(max(all, 1)))
}

// watch runs the driver and enters what it reports. It closes half when half of the tasks have ended, or the driver has.
func watch(ctx context.Context, t *testing.T, drive driver, o order, books *ledger, half chan struct{}) error {
	var once sync.Once
	reached := func() { once.Do(func() { close(half) }) }
	defer reached()
	var mu sync.Mutex // guards the first wrong event and whether the last one was seen
	var wrong error
	ended := false
	err := drive(ctx, o, func(e event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Event {
		case note:
			t.Logf("note: %s", e.Text)
			return
		case end:
			ended = true
			return
		}
		if err := books.record(e); err != nil && wrong == nil {
			wrong = err
		}
		if books.progress() >= o.tasks/2 {
			reached()
		}
	})
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	case !ended:
		return fmt.Errorf("it did not say that it had come to the end")
	}
	return ctx.Err()
}

// split gives the host and the port of an order.
func (o order) split() (host, port string, err error) {
	host, port, err = net.SplitHostPort(o.addr)
	if err != nil {
		return "", "", fmt.Errorf("address of the server: %w", err)
	}
	return host, port, nil
}

// databases is how many databases a server has.
const databases = 16

// keysBut lists the keys of all databases except those that match a pattern of what a client leaves by design.
func keysBut(patterns ...string) func(*peer.Conn) ([]string, error) {
	return func(c *peer.Conn) ([]string, error) {
		var left []string
		for db := range databases {
			if _, err := c.Call("SELECT", strconv.Itoa(db)); err != nil {
				return nil, err
			}
			keys, err := c.Call("KEYS", "*")
			if err != nil {
				return nil, err
			}
			for _, key := range keys.Strings() {
				if !matches(key, patterns) {
					left = append(left, fmt.Sprintf("key %s of database %d", key, db))
				}
			}
		}
		return left, nil
	}
}

func matches(key string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, key) // a malformed pattern matches nothing, so the test fails
		return ok
	})
}
