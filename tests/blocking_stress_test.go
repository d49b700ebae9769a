package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codeq/internal/peer"
)

// The arena: many workers wait for elements that pushers push in all ways, while others hang up, are killed, unblocked and
// flushed away. Every element is unique and must be accounted for: it was received by one worker, or taken by the flusher, or
// else was on its way to a worker that was hung up on or killed, of which there can't be more than such workers. And when
// the pushers pause, every element must have found a worker, as one waits for each key: so no wake-up is lost.

// arenaSize says how much happens.
type arenaSize struct {
	workers, rounds, pushes int // pushes of each pusher in a round
}

const arenaPushers = 4

// game is what is played in the arena.
type game struct {
	draw     func(rng *rand.Rand, worker int) wait
	drawPush func(rng *rand.Rand, name func(int) string) (commands [][]string, elements []string)
	prepare  [][]string
	keys     []string
	settled  func(c *peer.Conn, key string) (bool, error) // the key holds nothing that anybody waits for
	flushes  bool
	violent  bool // connections are killed and hung up on; without it nothing at all may be lost
}

// arena is what its actors share.
type arena struct {
	game
	ctx    context.Context
	server *peer.Server
	seed   uint64
	closed atomic.Bool // workers stop when they get nothing

	mu       sync.Mutex // guards what follows
	pushed   map[string]bool
	received map[string]int
	waiting  map[string]bool // the ids of the workers' connections
	lost     int             // elements that may have been on their way to a connection that ended
	failed   error
}

// arenaLists and arenaSets are the keys; with four shards there are some on each.
func arenaLists() []string { return []string{"l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"} }
func arenaSets() []string  { return []string{"z0", "z1", "z2", "z3"} }

func (a *arena) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = err
	}
}

func (a *arena) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// take notes that somebody has got elements.
func (a *arena) take(elements ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range elements {
		a.received[e]++
	}
}

// enter makes a worker's connection known, and leave forgets it, with what it may have been sent and not received.
func (a *arena) enter(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = true
}

func (a *arena) leave(id string, lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
	a.lost += lost
}

// pick draws one of the workers' connections.
func (a *arena) pick(rng *rand.Rand) (id string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	skip := rng.IntN(max(1, min(16, len(a.waiting)))) // the order of a map is random as it is
	for id = range maps.Keys(a.waiting) {
		if skip--; skip < 0 {
			return id, true
		}
	}
	return "", false
}

// slim is a connection that costs little, since there are thousands.
type slim struct {
	nc net.Conn
	r  *bufio.Reader
}

func dialSlim(addr string) (*slim, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &slim{nc, bufio.NewReaderSize(nc, 256)}, nil
}

func (c *slim) send(args ...string) error {
	_, err := c.nc.Write(peer.AppendCommand(nil, args...))
	return err
}

// read reads a reply of RESP2 and returns its strings; nothing for a null or an empty array, and an error for an error.
func (c *slim) read() (words []string, err error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	n, _ := strconv.Atoi(text) // meaningful where it is used
	switch {
	case line[0] == '-':
		return nil, errors.New(text)
	case line[0] == '$' && n >= 0:
		bulk := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, bulk); err != nil {
			return nil, err
		}
		return []string{string(bulk[:n])}, nil
	case line[0] == '*':
		for range n {
			more, err := c.read()
			if err != nil {
				return nil, err
			}
			words = append(words, more...)
		}
		return words, nil
	case line[0] == '$':
		return nil, nil
	}
	return []string{text}, nil
}

func (c *slim) do(args ...string) ([]string, error) {
	if err := c.send(args...); err != nil {
		return nil, err
	}
	return c.read()
}

// wait is one blocking call of a worker.
type wait struct {
	args []string
	most int                           // elements that it may get
	got  func(reply []string) []string // the elements of a reply
}

// drawWait draws a worker's next call. The first workers wait for ever, and for all keys of a kind, so that in the end there is
// somebody for every element.
func drawWait(rng *rand.Rand, worker int) wait {
	timeout := "0"
	if worker%4 == 1 && rng.IntN(3) > 0 {
		timeout = fmt.Sprintf("0.%03d", 1+rng.IntN(30))
	}
	lists, sets := arenaLists(), arenaSets()
	rng.Shuffle(len(lists), func(i, j int) { lists[i], lists[j] = lists[j], lists[i] })
	what, of := rng.IntN(8), 1+rng.IntN(4)
	if worker < 16 {
		what, of, timeout = worker%2, len(sets), "0"
	}
	switch what {
	case 0:
		return wait{slices.Concat([]string{"BZPOPMIN"}, sets[:of], []string{timeout}), 1, func(reply []string) []string { return reply[1:2] }}
	case 2:
		return wait{slices.Concat([]string{"BRPOP"}, lists[:of], []string{timeout}), 1, elementsBehind}
	case 3:
		return wait{slices.Concat([]string{"BLMPOP", timeout, strconv.Itoa(of)}, lists[:of], []string{"LEFT", "COUNT", "3"}), 3, elementsBehind}
	case 4: // moves it on, for somebody else
		return wait{[]string{"BLMOVE", lists[0], lists[1], "LEFT", "RIGHT", timeout}, 0, func([]string) []string { return nil }}
	}
	return wait{slices.Concat([]string{"BLPOP"}, lists, []string{timeout}), 1, elementsBehind}
}

// elementsBehind are the elements of a reply that begins with the key.
func elementsBehind(reply []string) []string { return reply[1:] }

// work is the life of a worker, over many connections.
func (a *arena) work(number int) {
	rng := newRand(a.seed, uint64(1000+number))
	for a.err() == nil {
		c, err := dialSlim(a.server.Addr())
		if err != nil {
			a.fail(err)
			return
		}
		id, err := c.do("CLIENT", "ID")
		if err != nil {
			a.fail(err)
			return
		}
		a.enter(id[0])
		again := a.workOn(c, id[0], rng, number)
		_ = c.nc.Close() // nothing more is expected of it
		if !again {
			return
		}
	}
}

// workOn uses one connection until it ends and tells whether the worker goes on with another.
func (a *arena) workOn(c *slim, id string, rng *rand.Rand, number int) (again bool) {
	for {
		w := a.draw(rng, number)
		if err := c.send(w.args...); err != nil {
			a.leave(id, 0)
			return true
		}
		if a.violent && number%4 == 2 && rng.IntN(20) == 0 { // hangs up, with or without a command behind
			if rng.IntN(2) == 0 {
				_ = c.send("PING") // may come too late
			}
			a.leave(id, w.most)
			return true
		}
		reply, err := c.read()
		switch {
		case err != nil && strings.HasPrefix(err.Error(), "UNBLOCKED"):
		case err != nil && strings.HasPrefix(err.Error(), "ERR"):
			a.fail(err)
			return false
		case err != nil: // killed
			a.leave(id, w.most)
			return true
		case len(reply) > 0:
			a.take(w.got(reply)...)
			continue
		}
		if a.closed.Load() {
			a.leave(id, 0)
			return false
		}
	}
}

// push pushes so many times, each in one of many ways.
func (a *arena) push(number, pushes int, round int) {
	rng := newRand(a.seed, uint64(number+10*round))
	c, err := a.server.Dial()
	if err != nil {
		a.fail(err)
		return
	}
	defer c.Close()
	for i := range pushes {
		name := func(j int) string { return fmt.Sprintf("%d.%d.%d.%d", round, number, i, j) }
		commands, elements := a.drawPush(rng, name)
		a.mu.Lock()
		for _, e := range elements {
			a.pushed[e] = true
		}
		a.mu.Unlock()
		var out []byte
		for _, command := range commands {
			out = peer.AppendCommand(out, command...)
		}
		err := c.Write(out)
		for n := 0; n < len(commands) && err == nil; n++ {
			var raw []byte
			if raw, err = c.Read(); err == nil && raw[0] == '-' {
				err = errors.New(string(raw))
			}
		}
		if err != nil {
			a.fail(fmt.Errorf("%q: %w", commands, err))
			return
		}
	}
}

// drawPush draws commands that push elements.
func drawPush(rng *rand.Rand, name func(int) string) (commands [][]string, elements []string) {
	lists, sets := arenaLists(), arenaSets()
	list := func() string { return lists[rng.IntN(len(lists))] }
	elements = []string{name(0)}
	switch rng.IntN(9) {
	case 0:
		elements = append(elements, name(1), name(2))
		return [][]string{append([]string{"RPUSH", list()}, elements...)}, elements
	case 5:
		ways := waysOverAnotherKey()
		return [][]string{{"EVAL", ways[rng.IntN(len(ways))], "2", "beside " + name(0), list(), name(0)}}, elements
	case 6:
		return [][]string{{"EVAL", "redis.call('zadd', KEYS[1], 1, ARGV[1]) redis.call('zunionstore', KEYS[2], 2, KEYS[1], KEYS[2]) redis.call('del', KEYS[1])",
			"2", "beside " + name(0), sets[rng.IntN(4)], name(0)}}, elements
	case 1:
		elements = append(elements, name(1), name(2))
		return [][]string{{"MULTI"}, {"RPUSH", list(), name(0)}, {"LPUSH", list(), name(1)},
			{"ZADD", sets[rng.IntN(4)], "1", name(2)}, {"EXEC"}}, elements
	case 2:
		elements = append(elements, name(1))
		return [][]string{{"EVAL", "redis.call('rpush', KEYS[1], ARGV[1]) redis.call('rpush', KEYS[2], 'x') redis.call('rpop', KEYS[2]) " +
			"return redis.call('lpush', KEYS[2], ARGV[2])", "2", list(), list(), name(0), name(1)}}, elements
	case 3:
		return [][]string{{"ZADD", sets[rng.IntN(4)], strconv.Itoa(rng.IntN(100)), name(0)}}, elements
	case 4:
		return [][]string{{"RPUSH", "side", name(0)}, {"RPOPLPUSH", "side", list()}}, elements
	}
	return [][]string{{"LPUSH", list(), name(0)}}, elements
}

// waysOverAnotherKey are scripts that make a list ready by a command on the whole value of another key, or push where there is a
// list already.
func waysOverAnotherKey() []string {
	const make, otherwise = "redis.call('rpush', KEYS[1], ARGV[1]) ", " redis.call('rpush', KEYS[2], ARGV[1]) end redis.call('del', KEYS[1])"
	return []string{
		make + "if redis.call('renamenx', KEYS[1], KEYS[2]) == 0 then" + otherwise,
		make + "if redis.call('copy', KEYS[1], KEYS[2]) == 0 then" + otherwise,
		make + "if redis.pcall('restore', KEYS[2], 0, redis.call('dump', KEYS[1])).err then" + otherwise,
		make + "if redis.call('exists', KEYS[2]) == 0 then redis.call('sort', KEYS[1], 'by', 'nosort', 'store', KEYS[2]) else" + otherwise,
		"redis.call('select', 1) redis.call('rpush', KEYS[2], ARGV[1]) if redis.call('move', KEYS[2], 0) == 0 then " +
			"redis.call('del', KEYS[2]) redis.call('select', 0) redis.call('rpush', KEYS[2], ARGV[1]) end",
	}
}

// disturb unblocks, kills and flushes until done is closed.
func (a *arena) disturb(round int, done <-chan struct{}) {
	rng := newRand(a.seed, uint64(500+round))
	c, err := dialSlim(a.server.Addr())
	if err != nil {
		a.fail(err)
		return
	}
	defer c.nc.Close()
	for {
		select {
		case <-done:
			return
		default:
		}
		id, ok := a.pick(rng)
		switch what := rng.IntN(8); {
		case !ok:
		case what == 0 && a.violent:
			_, err = c.do("CLIENT", "KILL", "ID", id)
		case what == 1 && a.flushes:
			err = a.flush(c)
		case what == 2:
			_, err = c.do("CLIENT", "UNBLOCK", id, "ERROR")
		default:
			_, err = c.do("CLIENT", "UNBLOCK", id)
		}
		if err != nil {
			a.fail(err)
			return
		}
	}
}

// flush empties the databases and notes what that takes away.
func (a *arena) flush(c *slim) error {
	script := "local all = {} for i, k in ipairs(KEYS) do local t = redis.call('type', k).ok " +
		"for j, v in ipairs(t == 'list' and redis.call('lrange', k, 0, -1) or t == 'zset' and redis.call('zrange', k, 0, -1) or {}) do all[#all + 1] = v end " +
		"end redis.call('flushall') return all"
	keys := append(append(arenaLists(), arenaSets()...), "side")
	taken, err := c.do(append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)...)
	a.take(taken...)
	return err
}

// round lets pushers push while others disturb, and then waits until every element has found a worker.
func (a *arena) round(round, pushes int) error {
	done := make(chan struct{})
	var pushing, disturbing sync.WaitGroup
	disturbing.Go(func() { a.disturb(round, done) })
	for number := range arenaPushers {
		pushing.Go(func() { a.push(number, pushes, round) })
	}
	pushing.Wait()
	close(done)
	disturbing.Wait()
	c, err := a.server.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range a.keys {
		err := peer.Poll(a.ctx, pollInterval, func() (bool, error) {
			settled, err := a.settled(c, key)
			return settled, errors.Join(err, a.err())
		})
		if err != nil {
			return fmt.Errorf("round %d: %s holds what somebody waits for: %w", round, key, err)
		}
	}
	return nil
}

// end lets all workers go home.
func (a *arena) end(workers *sync.WaitGroup) error {
	a.closed.Store(true)
	c, err := dialSlim(a.server.Addr())
	if err != nil {
		return err
	}
	defer c.nc.Close()
	err = peer.Poll(a.ctx, pollInterval, func() (bool, error) {
		a.mu.Lock()
		left := slices.Collect(maps.Keys(a.waiting))
		a.mu.Unlock()
		for _, id := range left {
			if _, err := c.do("CLIENT", "UNBLOCK", id); err != nil {
				return false, err
			}
		}
		return len(left) == 0, a.err()
	})
	if err == nil {
		workers.Wait()
	}
	return err
}

// balance accounts for every element.
func (a *arena) balance() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	missing := 0
	for e := range a.pushed {
		switch n := a.received[e]; {
		case n > 1:
			return fmt.Errorf("%s was received %d times", e, n)
		case n == 0:
			missing++
		}
	}
	for e := range a.received {
		if !a.pushed[e] {
			return fmt.Errorf("%q was received and never pushed", e)
		}
	}
	if missing > a.lost {
		return fmt.Errorf("%d of %d elements are missing; %d may have been on their way to connections that ended", missing, len(a.pushed), a.lost)
	}
	return a.failed
}

// playArena lets the game take its course, and accounts for everything when it is over. It ends with nobody blocked and nothing
// done for those who have gone.
func playArena(t *testing.T, opts peer.Options, g game) *arena {
	size := arenaSize{workers: pick(0, 120, 3000), rounds: pick(0, 4, 20), pushes: pick(0, 100, 1000)}
	a := &arena{game: g, ctx: testContext(t), server: peer.ForTest(t, opts), seed: seed(t), pushed: map[string]bool{},
		received: map[string]int{}, waiting: map[string]bool{}}
	c := a.server.DialForTest(t)
	for _, command := range a.prepare {
		if _, err := c.Call(command...); err != nil {
			t.Fatal(err)
		}
	}
	var workers sync.WaitGroup
	for number := range size.workers {
		workers.Go(func() { a.work(number) })
	}
	for round := range size.rounds {
		if err := a.round(round, size.pushes); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.end(&workers); err != nil {
		t.Fatal(err)
	}
	if err := a.balance(); err != nil {
		t.Error(err)
	}
	err := peer.Poll(a.ctx, pollInterval, func() (bool, error) {
		info, err := c.Call("INFO", "clients")
		return strings.Contains(info.Str, "blocked_clients:0\r\n") && strings.Contains(info.Str, "connected_clients:1\r\n"), err
	})
	if err != nil {
		t.Errorf("clients are left: %v", err)
	}
	t.Logf("%d elements, at most %d lost with their connections", len(a.pushed), a.lost)
	return a
}

// eachArena plays the game in calm and in violence on all servers.
func eachArena(t *testing.T, g game, after func(t *testing.T, a *arena)) {
	eachTarget(t, shardedTargets(), func(t *testing.T, opts peer.Options) {
		for _, g.violent = range []bool{false, true} {
			a := playArena(t, opts, g)
			after(t, a)
			a.server.Stop()
		}
	})
}

// TestBlockingArena plays with lists and sorted sets.
func TestBlockingArena(t *testing.T) {
	settled := func(c *peer.Conn, key string) (bool, error) {
		n, err := c.Call("EXISTS", key)
		return n.Str == "0", err
	}
	g := game{draw: drawWait, drawPush: drawPush, keys: append(arenaLists(), arenaSets()...), settled: settled, flushes: true}
	eachArena(t, g, func(t *testing.T, a *arena) {
		if left, err := a.server.DialForTest(t).Call("KEYS", "*"); err != nil || len(left.Elems) > 0 {
			t.Errorf("left: %q, %v", left.Strings(), err)
		}
	})
}
