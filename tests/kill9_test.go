package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codeq/internal/peer"
)

const (
	// killWriters is how many connections write at the same time, two of each kind.
	killWriters = 20
	// killDepth is how many commands a pipelining writer has on the way.
	killDepth = 8
	// killFewest and killMost bound the number of acknowledged writes after which the server is killed.
	killFewest, killMost = 200, 4000
	// killBacklog is how many ids each claiming writer finds in its pending list; more than it can take.
	killBacklog = 2 * killMost
)

// errTorn says that something acknowledged is missing or something whole is in pieces.
var errTorn = errors.New("after the crash")

// writer is one connection's part in a round. write sends its number seq-th write; sent and acked count those that
// were sent and acknowledged, so after a crash the server holds at least acked and at most sent of them.
type writer struct {
	kind        writerKind
	prefix      string // of its keys; names the round and the writer
	sent, acked int
}

// writerKind is one way to write and to tell whether all of it is there.
type writerKind struct {
	name  string
	depth int
	setup func(c *peer.Conn, prefix string) error
	// command appends the seq-th write, in RESP, and says how many replies it has. The last one acknowledges.
	command func(dst []byte, prefix string, seq int) ([]byte, int)
	// count tells how many of the writes are there, given that they are the first ones and whole; else an error.
	count func(c *peer.Conn, prefix string) (int, error)
}

func noSetup(*peer.Conn, string) error { return nil }

func writerKinds() []writerKind {
	return []writerKind{
		{"list", 1, noSetup, pushCommand, countPushed},
		{"list pipelined", killDepth, noSetup, pushCommand, countPushed},
		{"string", 1, noSetup, setCommand, countSet},
		{"string pipelined", killDepth, noSetup, setCommand, countSet},
		{"text", 1, noSetup, appendCommand, countAppended},
		{"text pipelined", killDepth, noSetup, appendCommand, countAppended},
		{"transaction", 1, noSetup, multiCommand, countMulti},
		{"transaction pipelined", killDepth, noSetup, multiCommand, countMulti},
		{"claim", 1, claimSetup, claimCommand, countClaimed},
		{"claim pipelined", killDepth, claimSetup, claimCommand, countClaimed},
	}
}

// pushCommand pushes numbers on the writer's own list and, so that writers meet on a key, on one that all share.
func pushCommand(dst []byte, prefix string, seq int) ([]byte, int) {
	dst = peer.AppendCommand(dst, "LPUSH", sharedList(prefix), prefix+" "+strconv.Itoa(seq))
	return peer.AppendCommand(dst, "LPUSH", prefix+":list", strconv.Itoa(seq)), 2
}

// sharedList is the list of a round that all its pushing writers share.
func sharedList(prefix string) string { return prefix[:strings.LastIndexByte(prefix, ':')] + ":shared" }

func countPushed(c *peer.Conn, prefix string) (int, error) {
	n, err := countUp(c, prefix+":list")
	if err != nil {
		return 0, err
	}
	reply, err := c.Call("LRANGE", sharedList(prefix), "0", "-1")
	if err != nil {
		return 0, err
	}
	shared := 0
	items := reply.Strings()
	for i := len(items) - 1; i >= 0; i-- {
		if seq, own := strings.CutPrefix(items[i], prefix+" "); own {
			if seq != strconv.Itoa(shared) {
				return 0, fmt.Errorf("%w: %s pushed %s as its number %d", errTorn, prefix, seq, shared)
			}
			shared++
		}
	}
	// The shared push goes first, so a crash may come between the two, but only once.
	if shared != n && shared != n+1 {
		return 0, fmt.Errorf("%w: %s pushed %d on the shared list, %d on its own", errTorn, prefix, shared, n)
	}
	return n, nil
}

// countUp checks that the list was pushed 0, 1, 2, … and returns how many.
func countUp(c *peer.Conn, key string) (int, error) {
	reply, err := c.Call("LRANGE", key, "0", "-1")
	if err != nil {
		return 0, err
	}
	items := reply.Strings()
	for i, item := range items {
		if item != strconv.Itoa(len(items)-1-i) {
			return 0, fmt.Errorf("%w: %s holds %s at %d of %d", errTorn, key, item, i, len(items))
		}
	}
	return len(items), nil
}

// setCommand sets a key of its own for each number, so that every acknowledged one must be found.
func setCommand(dst []byte, prefix string, seq int) ([]byte, int) {
	return peer.AppendCommand(dst, "SET", fmt.Sprintf("%s:set:%d", prefix, seq), strconv.Itoa(seq)), 1
}

func countSet(c *peer.Conn, prefix string) (int, error) {
	keys, err := c.Call("KEYS", prefix+":set:*")
	if err != nil {
		return 0, err
	}
	n := len(keys.Elems)
	for seq := range n { // n keys that are not the first n would leave a hole among these
		reply, err := c.Call("GET", fmt.Sprintf("%s:set:%d", prefix, seq))
		if err != nil {
			return 0, err
		}
		if reply.Null || reply.Str != strconv.Itoa(seq) {
			return 0, fmt.Errorf("%w: %s:set:%d of %d holds %q", errTorn, prefix, seq, n, reply.Str)
		}
	}
	return n, nil
}

// textLine is what a number appends to its writer's text: so much that codeq soon keeps the text in chunks.
const textLine = "%200d\n"

func appendCommand(dst []byte, prefix string, seq int) ([]byte, int) {
	return peer.AppendCommand(dst, "APPEND", prefix+":text", fmt.Sprintf(textLine, seq)), 1
}

func countAppended(c *peer.Conn, prefix string) (int, error) {
	reply, err := c.Call("GET", prefix+":text")
	if err != nil {
		return 0, err
	}
	lines := strings.SplitAfter(reply.Str, "\n")
	n := len(lines) - 1 // behind the last line there is nothing
	for seq, line := range lines[:n] {
		if line != fmt.Sprintf(textLine, seq) {
			return 0, fmt.Errorf("%w: line %d of %d of %s is %q", errTorn, seq, n, prefix, line)
		}
	}
	if lines[n] != "" {
		return 0, fmt.Errorf("%w: %s ends in %q", errTorn, prefix, lines[n])
	}
	return n, nil
}

// multiCommand writes a number to two keys, which a server with shards keeps apart, in one transaction.
func multiCommand(dst []byte, prefix string, seq int) ([]byte, int) {
	number := strconv.Itoa(seq)
	dst = peer.AppendCommand(dst, "MULTI")
	dst = peer.AppendCommand(dst, "SET", prefix+":last", number)
	dst = peer.AppendCommand(dst, "LPUSH", prefix+":log", number)
	return peer.AppendCommand(dst, "EXEC"), 4
}

func countMulti(c *peer.Conn, prefix string) (int, error) {
	n, err := countUp(c, prefix+":log")
	if err != nil {
		return 0, err
	}
	reply, err := c.Call("GET", prefix+":last")
	if err != nil {
		return 0, err
	}
	if n == 0 && reply.Null || n > 0 && reply.Str == strconv.Itoa(n-1) {
		return n, nil
	}
	return 0, fmt.Errorf("%w: %s: one half of the transaction says %d, the other %q", errTorn, prefix, n-1, reply.Str)
}

// claimScript moves an id through four keys as a claim does.
const claimScript = `
local id = redis.call('RPOP', KEYS[1])
if not id then return false end
redis.call('SADD', KEYS[2], id)
redis.call('HSET', KEYS[3], id, ARGV[1])
redis.call('ZADD', KEYS[4], id, id)
return id
`

func claimKeys(prefix string) [4]string {
	return [4]string{prefix + ":pending", prefix + ":inprog", prefix + ":tasks", prefix + ":ttl"}
}

func claimSetup(c *peer.Conn, prefix string) error {
	args := []string{"LPUSH", claimKeys(prefix)[0]}
	for i := range killBacklog {
		args = append(args, strconv.Itoa(i))
	}
	_, err := c.Call(args...)
	return err
}

func claimCommand(dst []byte, prefix string, seq int) ([]byte, int) {
	keys := claimKeys(prefix)
	return peer.AppendCommand(dst, "EVAL", claimScript, "4", keys[0], keys[1], keys[2], keys[3], strconv.Itoa(seq)), 1
}

func countClaimed(c *peer.Conn, prefix string) (int, error) {
	keys := claimKeys(prefix)
	var counts [4]int
	for i, command := range [...]string{"LLEN", "SCARD", "HLEN", "ZCARD"} {
		reply, err := c.Call(command, keys[i])
		if err != nil {
			return 0, err
		}
		if counts[i], err = strconv.Atoi(reply.Str); err != nil {
			return 0, err
		}
	}
	n := counts[1]
	if counts[0] != killBacklog-n || counts[2] != n || counts[3] != n {
		return 0, fmt.Errorf("%w: %s: %d of %d pending, %d in progress, %d tasks, %d ttl", errTorn, prefix,
			counts[0], killBacklog, n, counts[2], counts[3])
	}
	tasks, err := c.Call("HGETALL", keys[2])
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(tasks.Elems); i += 2 { // the i-th claim took the i-th id, for lists are queues
		if tasks.Elems[i].Str != tasks.Elems[i+1].Str {
			return 0, fmt.Errorf("%w: %s: claim %s took %s", errTorn, prefix, tasks.Elems[i+1].Str, tasks.Elems[i].Str)
		}
	}
	return n, nil
}

// run writes until the connection breaks or stop is closed. Only what was acknowledged in order counts.
func (w *writer) run(c *peer.Conn, acks *atomic.Int64, stop <-chan struct{}) error {
	var out []byte
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		out = out[:0]
		replies := 0
		for range w.kind.depth {
			var n int
			out, n = w.kind.command(out, w.prefix, w.sent)
			replies = n
			w.sent++
		}
		if c.Write(out) != nil {
			return nil
		}
		for range w.kind.depth {
			for range replies {
				raw, err := c.Read()
				if err != nil {
					return nil // the crash
				}
				if raw[0] == '-' {
					return fmt.Errorf("%s: %s", w.prefix, raw)
				}
			}
			w.acked++
			acks.Add(1)
		}
	}
}

// round lets all writers write until the server has acknowledged a random number of writes, kills it, and returns
// the writers.
func killRound(ctx context.Context, s *peer.Server, rng *rand.Rand, round int) ([]*writer, error) {
	kinds := writerKinds()
	var acks atomic.Int64
	stop := make(chan struct{})
	writers := make([]*writer, killWriters)
	errs := make([]error, killWriters)
	var wg sync.WaitGroup
	for i := range writers {
		w := &writer{kind: kinds[i%len(kinds)], prefix: fmt.Sprintf("k9:%d:%d", round, i)}
		writers[i] = w
		c, err := s.Dial()
		if err != nil {
			close(stop)
			return nil, err
		}
		defer c.Close()
		if err := w.kind.setup(c, w.prefix); err != nil {
			close(stop)
			return nil, err
		}
		wg.Go(func() { errs[i] = w.run(c, &acks, stop) })
	}
	after := int64(killFewest + rng.IntN(killMost-killFewest))
	err := peer.Poll(ctx, pollInterval, func() (bool, error) { return acks.Load() >= after || !s.Running(), nil })
	s.Kill9()
	close(stop)
	wg.Wait()
	return writers, errors.Join(append(errs, err)...)
}

// verify counts what is there and compares it with what was acknowledged and sent.
func (w *writer) verify(c *peer.Conn) (int, error) {
	n, err := w.kind.count(c, w.prefix)
	if err != nil {
		return 0, fmt.Errorf("%s writer: %w", w.kind.name, err)
	}
	if n < w.acked || n > w.sent {
		return 0, fmt.Errorf("%w: %s writer %s: %d writes are there, %d were acknowledged and %d sent", errTorn,
			w.kind.name, w.prefix, n, w.acked, w.sent)
	}
	return n, nil
}

// kill9 runs rounds on one data directory. What a crash left must stay so over all later crashes.
func kill9(ctx context.Context, t *testing.T, s *peer.Server, rng *rand.Rand, rounds int) error {
	t.Helper()
	acked := 0
	var earlier []*writer
	for round := range rounds {
		writers, err := killRound(ctx, s, rng, round)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if err := s.Restart(ctx); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		c, err := s.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		for _, w := range append(earlier, writers...) {
			n, err := w.verify(c)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			w.acked, w.sent = n, n
		}
		for _, w := range writers {
			acked += w.acked
		}
		earlier = writers
	}
	t.Logf("%d crashes, %d writes kept", rounds, acked)
	return nil
}

// TestKill9 kills the server at random moments under many writers. Every acknowledged write must be there, nothing
// may be torn, each list keeps its order; a write without a reply is there or not, but whole.
func TestKill9(t *testing.T) {
	var targets []target
	for _, policy := range policies {
		// With everysec Redis 7.0 puts writing its file off, for two seconds at most, while an fsync of it is on its way,
		// so that on a slow disk a kill loses what it has acknowledged: 24 writes in one of 20 crashes here.
		if policy != "everysec" {
			targets = append(targets, redisTarget(policy))
		}
		targets = append(targets, codeqTarget(4, "hash", policy))
	}
	targets = append(targets, codeqTarget(16, "hash", "everysec"), codeqTarget(4, "task", "everysec"))
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		rng := newRand(seed(t), 2)
		err := kill9(testContext(t), t, peer.ForTest(t, opts), rng, pick(*roundsFlag, 3, 20))
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestKill9FindsLoss proves the proof: a server that keeps nothing must not pass.
func TestKill9FindsLoss(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Redis})
	err := kill9(testContext(t), t, s, newRand(seed(t), 2), 1)
	if !errors.Is(err, errTorn) {
		t.Fatalf("a server without persistence: %v", err)
	}
}

// TestKill9FindsPieces proves each writer's check: writes that are whole pass, pieces of them do not.
func TestKill9FindsPieces(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Redis})
	c := s.DialForTest(t)
	const prefix = "k9:0:0"
	for i, kind := range writerKinds() {
		for _, damage := range [][]string{
			nil,
			{"RPUSH", prefix + ":list", "7"},
			{"LPOP", prefix + ":list"},
			{"LSET", prefix + ":list", "0", "0"},
			{"RPUSH", "k9:0:shared", prefix + " 7"},
			{"DEL", prefix + ":set:1"},
			{"SET", prefix + ":set:1", "2"},
			{"SET", prefix + ":last", "1"},
			{"LPOP", prefix + ":log"},
			{"DEL", prefix + ":last"},
			{"LPUSH", prefix + ":pending", "0"},
			{"SREM", prefix + ":inprog", "1"},
			{"HDEL", prefix + ":tasks", "1"},
			{"HSET", prefix + ":tasks", "1", "2"},
			{"ZREM", prefix + ":ttl", "1"},
		} {
			if _, err := c.Call("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			w := &writer{kind: kind, prefix: prefix, acked: 3, sent: 3}
			if err := kind.setup(c, prefix); err != nil {
				t.Fatal(err)
			}
			for seq := range 3 {
				out, replies := kind.command(nil, prefix, seq)
				if err := c.Write(out); err != nil {
					t.Fatal(err)
				}
				for range replies {
					if raw, err := c.Read(); err != nil || raw[0] == '-' {
						t.Fatalf("%s: %q, %v", kind.name, raw, err)
					}
				}
			}
			concerns := true
			if damage != nil {
				reply, err := c.Call("EXISTS", damage[1])
				if err != nil {
					t.Fatal(err)
				}
				concerns = reply.Str == "1" // the keys of another kind of writer are not there
				if _, err := c.Do(damage...); err != nil {
					t.Fatal(err)
				}
			}
			_, err := w.verify(c)
			if damaged := damage != nil && concerns; damaged != errors.Is(err, errTorn) {
				t.Errorf("writer kind %d, %s, after %q: %v", i, kind.name, damage, err)
			}
		}
	}
}
