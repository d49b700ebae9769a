// Package tests holds black-box tests: they start server binaries and see of them only what a client sees. Every test
// that can runs against a real redis-server too, which proves the test before it judges codeq.
//
// -targets (or TEST_TARGETS) names the servers, "redis,codeq" unless told. A server that this machine lacks skips its
// tests, unless TEST_REQUIRE_PEERS=1. TEST_FULL=1 asks for the long forms, and -seed repeats a run.
//
// Goroutines are those of the clients that a test plays; each ends before its test does. Locks: the ledger's mutex.
package tests

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"
)

var (
	targetsFlag = flag.String("targets", peer.TargetsFromEnv(), "servers to test, comma-separated")
	seedFlag    = flag.Uint64("seed", 0, "seed of random choices; 0 takes 1, or one from the clock with TEST_FULL=1")
	tasksFlag   = flag.Int("tasks", 0, "tasks in the cycle tests; 0 takes 5000, or 50000 with TEST_FULL=1")
	roundsFlag  = flag.Int("rounds", 0, "crashes per policy in TestKill9; 0 takes 3, or 20 with TEST_FULL=1")
	stepsFlag   = flag.Int("steps", 3000, "commands per seed in TestDifferential")
	seedsFlag   = flag.Int("seeds", 0, "seeds in TestDifferential; 0 takes 20, or 200 with TEST_FULL=1")
)

// sideBySide is how many tests run at the same time unless -parallel tells: more than there are processors, since they wait for
// replies, disks and delays of seconds most of their time.
const sideBySide = 6

func TestMain(m *testing.M) {
	flag.Parse()
	peer.SideBySide(sideBySide)
	code := m.Run()
	peer.RemoveBuild()
	os.Exit(code)
}

// full reports whether the long forms are asked for.
func full() bool { return os.Getenv("TEST_FULL") == "1" }

// pick gives the flag's value if it was set, else the one for the form that runs.
func pick(set, short, long int) int {
	if set > 0 {
		return set
	}
	if full() {
		return long
	}
	return short
}

// seed is the seed of this run; the test prints it, so that -seed can repeat it.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := *seedFlag
	switch {
	case s != 0:
	case full():
		s = uint64(time.Now().UnixNano())
	default:
		s = 1 // what everybody runs must not fail for one only
	}
	t.Logf("seed: -seed=%d", s)
	return s
}

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// targeted reports whether a kind of server is to be tested.
func targeted(kind peer.Kind) bool { return peer.Targeted(*targetsFlag, kind) }

// target is one server with one configuration.
type target struct {
	name string
	opts peer.Options
}

// The durability policies.
var policies = [...]string{"always", "everysec", "no"}

// redisTarget is the reference. What it acknowledges survives a crash of the process under every policy.
func redisTarget(policy string) target {
	return target{"redis/" + policy, peer.Options{Kind: peer.Redis, AppendFsync: policy}}
}

// isDefault reports whether the options are those that codeq-server has unless it is told others.
func isDefault(opts peer.Options) bool {
	return opts.Kind == peer.Codeq && opts.Shards == 4 && opts.Supplier == "hash" && opts.AppendFsync == "everysec"
}

func codeqTarget(shards int, supplier, policy string) target {
	opts := peer.Options{Kind: peer.Codeq, Shards: shards, Supplier: supplier, AppendFsync: policy}
	if supplier == "static" {
		shard := func(i int) string { return fmt.Sprintf("default-%d", i%shards) }
		opts.Static = &peer.Static{
			DefaultShard: shard(0),
			Commands:     map[string]string{"RENDER": shard(1), "GENERATE_MASTER": shard(2)},
			Tenants:      map[string]string{"acme": shard(3)},
		}
	}
	if supplier == "task" {
		for _, script := range []string{codeqclient.ClaimScript, codeqclient.OldClaimScript} {
			opts.PerShardScripts = append(opts.PerShardScripts, redis.NewScript(script).Hash())
		}
	}
	return target{fmt.Sprintf("codeq/shards=%d/%s/%s", shards, supplier, policy), opts}
}

// eachTarget runs a test against those of the targets that -targets names.
func eachTarget(t *testing.T, targets []target, run func(t *testing.T, opts peer.Options)) {
	t.Helper()
	for _, target := range targets {
		if targeted(target.opts.Kind) {
			t.Run(target.name, func(t *testing.T) { run(t, target.opts) })
		}
	}
}

// eachTargetAtOnce is eachTarget with the targets, and other tests that call it, side by side. It is for what takes long.
func eachTargetAtOnce(t *testing.T, targets []target, run func(t *testing.T, opts peer.Options)) {
	t.Helper()
	t.Parallel()
	eachTarget(t, targets, func(t *testing.T, opts peer.Options) {
		t.Parallel()
		run(t, opts)
	})
}

// plainTargets are one configuration of each server, for tests that configurations make no difference to.
func plainTargets() []target {
	return []target{redisTarget("everysec"), codeqTarget(4, "hash", "everysec")}
}

// shardedTargets are plainTargets and codeq with one shard, and with a supplier that places queues by name.
func shardedTargets() []target {
	return append(plainTargets(), codeqTarget(4, "static", "everysec"), codeqTarget(1, "hash", "everysec"))
}

// testTimeout ends the waits of one test, so that a server that hangs fails it with a message of its own.
const testTimeout = 5 * time.Minute

// pollInterval is how often a test looks for what sends no signal.
const pollInterval = time.Millisecond

func testContext(t *testing.T) context.Context {
	limit := testTimeout
	if full() {
		limit *= 10
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
