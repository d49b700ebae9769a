package commands

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"codeq/resp"
	"codeq/shard"
)

// TestCounters: what is counted is told since the last reset, and a rate is that of the time between two questions which are at
// least a second apart.
func TestCounters(t *testing.T) {
	now := time.Unix(1000, 0)
	c := counters{at: now}
	for _, step := range []struct {
		after time.Duration
		calls int64
		want  float64
	}{{0, 50, 0}, {time.Second / 2, 90, 0}, {time.Second / 2, 100, 100}, {time.Second, 200, 100}, {time.Second / 2, 1000, 100}, {3 * time.Second / 2, 300, 50}} {
		now = now.Add(step.after)
		got := c.perSecond(now, counts{calls: step.calls, in: 10 * step.calls, out: 20 * step.calls})
		if want := (rates{step.want, 10 * step.want, 20 * step.want}); got != want {
			t.Errorf("at %v with %d calls: %v, want %v", now.Unix(), step.calls, got, want)
		}
	}
	base := counts{calls: 300, in: 1, out: 2, rejected: 3, keys: shard.Stats{Expired: 4, Hits: 5, Misses: 6}}
	c.reset(now, base)
	later := counts{calls: 7, in: 11, out: 22, rejected: 33, keys: shard.Stats{Expired: 44, Hits: 55, Misses: 66}}
	want := counts{calls: 7, in: 10, out: 20, rejected: 30, keys: shard.Stats{Expired: 40, Hits: 50, Misses: 60}}
	if got := c.sinceReset(later); got != want {
		t.Errorf("since the reset: %v, want %v", got, want)
	}
	if got := c.perSecond(now.Add(time.Second), later); got != (rates{7, 10, 20}) {
		t.Errorf("a second after the reset: %v", got)
	}
}

// adminCommands are the server commands but for those of which the tests have their own.
func adminCommands() []Command {
	return slices.DeleteFunc(append(serverCommands(), configCommands()...), func(c Command) bool { return c.Name == "flushdb" || c.Name == "shutdown" })
}

// startCounted starts a server with what SAVE, INFO and CONFIG need.
func startCounted(t *testing.T) *testServer {
	s := startServer(t, append(adminCommands(), persistenceCommands()...)...)
	s.attach()
	return s
}

// attach gives the server a network that nobody is in.
func (s *testServer) attach() {
	network := resp.NewServer(resp.Options{Handler: s.Server, Limits: resp.NewLimits(), Now: s.clock.Now, Log: s.logger})
	s.t.Cleanup(func() {
		if err := network.Shutdown(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	s.Attach(network)
}

// has checks that INFO's section has these lines.
func (c *client) has(section string, lines ...string) {
	c.s.t.Helper()
	got := c.send("INFO " + section)
	for _, line := range lines {
		if !strings.Contains(got, " "+line+" ") {
			c.s.t.Errorf("INFO %s lacks %s:\n%s", section, line, got)
		}
	}
}

// TestLookupsOfCommands: what reads counts, by argument, alone and in transactions and scripts; what writes doesn't.
func TestLookupsOfCommands(t *testing.T) {
	s := startCounted(t)
	c := s.client()
	c.has("stats", "keyspace_hits:0", "keyspace_misses:0", "expired_keys:0")
	c.send("SET a 1", "GET a", "GET b", "DEL b", "DBSIZE")
	c.has("stats", "keyspace_hits:1", "keyspace_misses:1")
	c.send("MULTI", "GET a", "SET a 2", "GET b", "EXEC", "EVAL return%20redis.call('GET','a') 0", "DEL a")
	c.has("stats", "keyspace_hits:3", "keyspace_misses:2")
	c.send("CONFIG RESETSTAT", "GET a")
	c.has("stats", "keyspace_hits:0", "keyspace_misses:1", "total_commands_processed:2")
}

// TestSaves: SAVE has ended when it replies, BGSAVE ends in the background, within EXEC too; there is one at a time.
func TestSaves(t *testing.T) {
	s := startCounted(t)
	c := s.client()
	started := s.clock.Now()
	c.has("persistence", "rdb_saves:0", "rdb_bgsave_in_progress:0", "rdb_last_bgsave_time_sec:-1", "rdb_last_bgsave_status:ok")
	s.clock.Advance(time.Minute)
	c.want("+OK +OK", "SET a 1", "SAVE")
	if got := s.lastSave(); got != started.Add(time.Minute).Unix() {
		t.Errorf("LASTSAVE is %d", got)
	}
	c.has("persistence", "rdb_saves:1", "rdb_last_bgsave_time_sec:-1")

	tx := s.holdShard(0) // which keeps a save from ending
	c.want("+Background saving started", "BGSAVE SCHEDULE")
	s.clock.Advance(time.Minute)
	c.want("-ERR Background save already in progress -ERR Background save already in progress -ERR syntax error",
		"SAVE", "BGSAVE", "BGSAVE now")
	tx.End()
	for s.lastSave() != started.Add(2*time.Minute).Unix() {
		c.send("GET a") // until the trimmer has had its turn
	}
	c.has("persistence", "rdb_saves:2", "rdb_bgsave_in_progress:0", "rdb_last_bgsave_time_sec:60", "rdb_current_bgsave_time_sec:-1")
	s.clock.Advance(time.Minute)
	c.want("+OK +QUEUED +QUEUED *2 +Background saving started $1 1", "MULTI", "BGSAVE", "GET a", "EXEC")
	for s.lastSave() != started.Add(3*time.Minute).Unix() {
		c.send("GET a")
	}
	c.want("+OK", "CONFIG RESETSTAT")
	c.has("persistence", "rdb_saves:0")
}
