package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// introspectiveCalls have replies that are equal byte for byte: they ask what there is nothing of, or what is wrong. They run
// in this order on one connection.
func introspectiveCalls() []string {
	return []string{
		"OBJECT", "OBJECT foo k", "OBJECT ENCODING", "OBJECT ENCODING nosuch", "OBJECT FREQ nosuch", "OBJECT IDLETIME nosuch",
		"OBJECT REFCOUNT nosuch", "SET k v", "OBJECT FREQ k", "OBJECT REFCOUNT k",
		"MEMORY", "MEMORY foo", "MEMORY USAGE", "MEMORY USAGE nosuch", "MEMORY USAGE k SAMPLES", "MEMORY USAGE k SAMPLES -1",
		"MEMORY USAGE k SAMPLES x", "MEMORY USAGE k foo 1", "MEMORY USAGE k", "MEMORY USAGE k SAMPLES 0", "MEMORY PURGE",
		"WAIT 0 0", "WAIT 0 100", "WAIT a 0", "WAIT 0 b", "WAIT 0 -1", "WAIT 0", "ROLE", "ROLE x",
		"REPLICAOF NO ONE", "slaveof no one", "REPLICAOF a b", "REPLICAOF a 99999", "REPLICAOF a", "FAILOVER", "CLUSTER", "CLUSTER foo",
		"CLUSTER SLOTS", "CLUSTER HELP", "CLUSTER NODES", "CLUSTER KEYSLOT", "CLUSTER KEYSLOT a", "ASKING", "READONLY", "READWRITE",
		"MODULE", "MODULE foo", "MODULE LIST", "MODULE LOAD /nosuch", "MODULE UNLOAD x",
		"ACL", "ACL foo", "ACL WHOAMI", "ACL USERS", "ACL LIST", "ACL GETUSER default", "ACL GETUSER x", "ACL CAT nosuch", "ACL CAT a b",
		"ACL GENPASS 0", "ACL GENPASS 4097", "ACL GENPASS x", "ACL GENPASS 1 2", "ACL DRYRUN default GET x", "ACL DRYRUN nosuch GET x",
		"ACL DRYRUN default nosuch", "ACL DRYRUN default GET", "ACL DRYRUN default CONFIG", "ACL LOG", "ACL LOG 3", "ACL LOG x", "ACL LOG RESET",
		"ACL LOG 1 2", "ACL DELUSER default", "ACL DELUSER x y", "ACL SAVE", "ACL LOAD", "ACL SETUSER", "ACL SETUSER default",
		"ACL SETUSER default on nopass ~* &* +@all", "ACL SETUSER default nosuch", "ACL LIST",
		"ACL SETUSER default >secret", "ACL LIST", "ACL GETUSER default", "ACL SETUSER default nopass", "ACL LIST",
		"CONFIG GET slowlog-log-slower-than", "CONFIG SET slowlog-log-slower-than -1", "SLOWLOG RESET", // what happens to be slow
		"SLOWLOG", "SLOWLOG foo", "SLOWLOG GET", "SLOWLOG GET -2", "SLOWLOG GET x", "SLOWLOG GET 1 2", "SLOWLOG LEN", "SLOWLOG RESET", "SLOWLOG LEN a", "CONFIG SET slowlog-log-slower-than 10000",
		"LATENCY", "LATENCY foo", "LATENCY LATEST", "LATENCY HISTORY x", "LATENCY GRAPH x", "LATENCY RESET", "LATENCY RESET x", "LATENCY HISTOGRAM nosuch",
		"DEBUG", "DEBUG nosuch", "DEBUG OBJECT nosuch", "DEBUG SLEEP", "DEBUG SLEEP 0", "DEBUG SET-ACTIVE-EXPIRE 1", "DEBUG ERROR", "DEBUG ERROR MY",
		"DEBUG LOG hello", "DEBUG RELOAD", "DEBUG RELOAD MERGE foo", "DEBUG LOADAOF", "GET k",
		"DEBUG PROTOCOL string", "DEBUG PROTOCOL integer", "DEBUG PROTOCOL double", "DEBUG PROTOCOL bignum", "DEBUG PROTOCOL null",
		"DEBUG PROTOCOL array", "DEBUG PROTOCOL set", "DEBUG PROTOCOL map", "DEBUG PROTOCOL attrib", "DEBUG PROTOCOL push",
		"DEBUG PROTOCOL verbatim", "DEBUG PROTOCOL true", "DEBUG PROTOCOL false", "DEBUG PROTOCOL nosuch",
		"LOLWUT VERSION x", "SAVE a", "BGSAVE foo", "BGSAVE SCHEDULE foo", "BGREWRITEAOF a", "SAVE",
		"MULTI", "SAVE", "DISCARD", "SORT_RO k STORE d", "SORT nosuch LIMIT 0 1 GET #",
		"CONFIG GET list-max-listpack-size", "CONFIG GET zset-max-ziplist-entries", "CONFIG GET slowlog-max-len",
		"CONFIG SET slowlog-max-len x", "CONFIG SET latency-tracking maybe", "CONFIG SET latency-tracking-info-percentiles 101",
		"CONFIG SET latency-tracking-info-percentiles x", "CONFIG SET enable-debug-command no", "CONFIG GET enable-debug-command",
		"CONFIG SET hash-max-ziplist-entries 3 hash-max-listpack-entries 4", "CONFIG SET hash-max-listpack-value x", "CONFIG SET hash-max-ziplist-entries 3",
		"CONFIG GET hash-max-listpack-entries", "CONFIG SET hash-max-listpack-entries 512", "CONFIG GET replicaof", "CONFIG GET aclfile",
	}
}

// TestIntrospectionAsRedis compares the commands that tell of the server itself, in both protocols.
func TestIntrospectionAsRedis(t *testing.T) {
	redis, codeq := debuggable(t)
	inBothProtocols(t, redis, codeq, func(p pair) {
		p.compare(t, introspectiveCalls(), func(call string) {
			if call != "DEBUG PROTOCOL push" || p.proto != 3 {
				return
			}
			// Which has a second reply.
			want, err := p.reference.Read()
			if got, errGot := p.subject.Read(); err != nil || errGot != nil || !bytes.Equal(got, want) {
				t.Errorf("behind a push: %q, %v; Redis: %q, %v", got, errGot, want, err)
			}
		})
	})
}

// debuggable starts both servers with DEBUG allowed.
func debuggable(t *testing.T) (redis, codeq *peer.Server) {
	t.Helper()
	if !targeted(peer.Redis) || !targeted(peer.Codeq) {
		t.Skip("compares redis with codeq")
	}
	reference, subject := redisTarget("everysec").opts, codeqTarget(4, "hash", "everysec").opts
	reference.Args = []string{"--enable-debug-command", "local"}
	// A setting that has no flag needs a file, which counts instead of the one that peer writes.
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("shards: 4\nenable-debug-command: local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	subject.Args = []string{"--config", file}
	return peer.ForTest(t, reference), peer.ForTest(t, subject)
}

// valuesOfEveryEncoding make one key each, named after the first word behind the command.
func valuesOfEveryEncoding() [][]string {
	many := func(command, key string, n int, item func(i int) []string) []string {
		args := []string{command, key}
		for i := range n {
			args = append(args, item(i)...)
		}
		return args
	}
	number := func(i int) []string { return []string{strconv.Itoa(1000 + 7*i)} }
	name := func(i int) []string { return []string{"member:" + strconv.Itoa(i)} }
	pair := func(i int) []string { return []string{"field:" + strconv.Itoa(i), "value " + strconv.Itoa(i)} }
	scored := func(i int) []string { return []string{strconv.Itoa(i), "member:" + strconv.Itoa(i)} }
	text := func(n int) string { return strings.Repeat("x", n) }
	return [][]string{
		{"SET", "s:int", "12345678"}, {"SET", "s:min", "-9223372036854775808"}, {"SET", "s:over", "9223372036854775808"}, {"SET", "s:zeros", "007"},
		{"SET", "s:empty", ""}, {"SET", "s:44", text(44)}, {"SET", "s:45", text(45)}, {"SET", "s:1000", text(1000)}, {"SET", "s:large", text(100_000)},
		many("RPUSH", "l:small", 3, name), many("RPUSH", "l:numbers", 1000, number), many("RPUSH", "l:large", 5000, name),
		many("HSET", "h:small", 5, pair), many("HSET", "h:512", 512, pair), many("HSET", "h:513", 513, pair), {"HSET", "h:64", "f", text(64)},
		{"HSET", "h:65", "f", text(65)}, {"HSET", "h:field", text(65), "v"}, many("HSET", "h:large", 5000, pair),
		many("SADD", "t:ints", 512, number), many("SADD", "t:513", 513, number), {"SADD", "t:name", "1", "2", "x"}, {"SADD", "t:wide", "1", "70000"},
		{"SADD", "t:widest", "1", "9223372036854775807"}, {"SADD", "t:zeros", "01"}, many("SADD", "t:large", 5000, name),
		many("ZADD", "z:small", 5, scored), many("ZADD", "z:128", 128, scored), many("ZADD", "z:129", 129, scored), {"ZADD", "z:64", "1.5", text(64)},
		{"ZADD", "z:65", "1", text(65)}, many("ZADD", "z:large", 5000, scored),
	}
}

// TestEncodingsAsRedis compares OBJECT ENCODING exactly and MEMORY USAGE roughly, also with other limits.
func TestEncodingsAsRedis(t *testing.T) {
	redis, codeq := both(t)
	reference, subject := redis.DialForTest(t), codeq.DialForTest(t)
	call := func(args ...string) (want, got peer.Reply) {
		t.Helper()
		want, err := reference.Call(args...)
		if err != nil {
			t.Fatalf("%q: redis: %v", args, err)
		}
		if got, err = subject.Call(args...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return want, got
	}
	limits := [][]string{
		nil,
		{"hash-max-listpack-entries", "4", "set-max-intset-entries", "10", "zset-max-ziplist-entries", "4", "list-max-listpack-size", "10"},
		{"hash-max-listpack-entries", "600", "hash-max-ziplist-value", "100", "zset-max-listpack-entries", "200", "zset-max-listpack-value", "10",
			"set-max-intset-entries", "600", "list-max-ziplist-size", "-5"},
	}
	for i, settings := range limits {
		call("FLUSHALL")
		if settings != nil {
			call(append([]string{"CONFIG", "SET"}, settings...)...)
		}
		for n := range 1000 {
			call("XADD", "x:large", strconv.Itoa(1_700_000_000_000+n)+"-1", "field", "value "+strconv.Itoa(n))
		}
		for _, command := range append(valuesOfEveryEncoding(), []string{"XADD", "x:small", "1-1", "field", "value"}, []string{"EXISTS", "x:large"}) {
			call(command...)
			key := command[1]
			if want, got := call("OBJECT", "ENCODING", key); got.Str != want.Str {
				t.Errorf("limits %d: %s is %s, in Redis %s", i, key, got.Str, want.Str)
			}
			for _, samples := range []string{"5", "0"} {
				want, got := call("MEMORY", "USAGE", key, "SAMPLES", samples)
				if !roughly(got.Str, want.Str) {
					t.Errorf("limits %d: MEMORY USAGE %s SAMPLES %s is %s, in Redis %s", i, key, samples, got.Str, want.Str)
				}
			}
		}
	}
}

// roughly allows an estimate a third too much or too little.
func roughly(got, want string) bool {
	g, errGot := strconv.Atoi(got)
	w, errWant := strconv.Atoi(want)
	return errGot == nil && errWant == nil && 3*g <= 4*w && 4*g >= 3*w
}

// TestSlowLogAsRedis logs everything and compares what is kept of each command.
func TestSlowLogAsRedis(t *testing.T) {
	var shown [2]string
	redis, codeq := both(t)
	for i, s := range []*peer.Server{redis, codeq} {
		c := s.DialForTest(t)
		long := []string{"RPUSH", "l"}
		for n := range 40 {
			long = append(long, strconv.Itoa(n))
		}
		calls := [][]string{{"CLIENT", "SETNAME", "tester"}, {"CONFIG", "SET", "slowlog-log-slower-than", "0"}, {"SLOWLOG", "RESET"},
			{"SET", "a", "1"}, {"SET", "b", strings.Repeat("x", 128)}, {"SET", "c", strings.Repeat("y", 200)}, long, long[:32], long[:33],
			{"GET"}, {"NOSUCH"}, {"LPUSH", "a", "x"}, {"AUTH", "secret"}, {"AUTH", "default", "secret"}, {"HELLO", "2", "AUTH", "default", "secret"},
			{"CONFIG", "SET", "requirepass", ""}, {"CONFIG", "SET", "timeout", "0", "requirepass", ""}, {"ACL", "SETUSER", "default", "nopass"},
			{"MULTI"}, {"SET", "a", "2"}, {"INCR", "a"}, {"EXEC"}, {"EVAL", "return redis.call('GET','a')", "0"},
			{"CONFIG", "SET", "slowlog-log-slower-than", "-1"}, {"SET", "a", "3"}, {"SLOWLOG", "LEN"}}
		for _, args := range calls {
			if _, err := c.Do(args...); err != nil {
				t.Fatalf("%s: %q: %v", s.Kind(), args, err)
			}
		}
		reply, err := c.Call("SLOWLOG", "GET", "-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range reply.Elems {
			if len(e.Elems) != 6 || e.Elems[0].Kind != ':' || e.Elems[1].Kind != ':' || e.Elems[2].Kind != ':' {
				t.Fatalf("%s: an entry is %v", s.Kind(), e)
			}
			// The commands of scripts come from no client in Redis.
			shown[i] += fmt.Sprintf("%s %q\n", e.Elems[0].Str, e.Elems[3].Strings())
		}
		for args, want := range map[string]int{"GET": 10, "GET 3": 3, "GET 0": 0} {
			reply, err := c.Call(append([]string{"SLOWLOG"}, strings.Fields(args)...)...)
			if err != nil || len(reply.Elems) != want {
				t.Errorf("%s: SLOWLOG %s has %d entries, %v", s.Kind(), args, len(reply.Elems), err)
			}
		}
	}
	if shown[0] != shown[1] {
		t.Errorf("Redis:\n%s\ncodeq:\n%s", shown[0], shown[1])
	}
}

// TestErrorStatsAsRedis counts error replies by their code.
func TestErrorStatsAsRedis(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		c := peer.ForTest(t, opts).DialForTest(t)
		for _, line := range []string{"CONFIG RESETSTAT", "SET a 1", "LPUSH a x", "LPUSH a y", "GET", "NOSUCH", "INCRBY a x", "EVALSHA 1 0", "AUTH x", "EXEC"} {
			if _, err := c.Do(strings.Fields(line)...); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		reply, err := c.Call("INFO", "errorstats", "stats")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"errorstat_ERR:count=5\r\n", "errorstat_NOSCRIPT:count=1\r\n", "errorstat_WRONGTYPE:count=2\r\n", "total_error_replies:8\r\n"} {
			if !strings.Contains(reply.Str, want) {
				t.Errorf("INFO lacks %q:\n%s", want, reply.Str)
			}
		}
		if _, err := c.Call("CONFIG", "RESETSTAT"); err != nil {
			t.Fatal(err)
		}
		if reply, err = c.Call("INFO", "errorstats"); err != nil || reply.Str != "# Errorstats\r\n" {
			t.Errorf("after CONFIG RESETSTAT: %q, %v", reply.Str, err)
		}
	})
}

// TestLatencyStatsAsRedis looks at the form of the histograms, whose numbers are each server's own.
func TestLatencyStatsAsRedis(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		c := peer.ForTest(t, opts).DialForTest(t)
		call := func(args ...string) peer.Reply {
			t.Helper()
			reply, err := c.Call(args...)
			if err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			return reply
		}
		for range 10 {
			call("SET", "a", "1")
			call("CONFIG", "GET", "hz")
		}
		reply := call("LATENCY", "HISTOGRAM", "Set", "config", "nosuch")
		if len(reply.Elems) != 4 || reply.Elems[0].Str+reply.Elems[2].Str != "config|getset" && reply.Elems[0].Str+reply.Elems[2].Str != "setconfig|get" {
			t.Fatalf("LATENCY HISTOGRAM: %v", reply)
		}
		for _, i := range []int{1, 3} {
			one := reply.Elems[i].Elems
			if len(one) != 4 || one[0].Str != "calls" || one[1].Str != "10" || one[2].Str != "histogram_usec" || len(one[3].Elems) < 2 {
				t.Fatalf("LATENCY HISTOGRAM: %v", reply)
			}
			if steps := one[3].Elems; steps[len(steps)-1].Str != "10" {
				t.Errorf("the last step has %s of 10 calls", steps[len(steps)-1].Str)
			}
		}
		call("CONFIG", "SET", "latency-tracking-info-percentiles", "50.50 100 0")
		text := call("INFO", "latencystats").Str
		if !strings.Contains(text, "\r\nlatency_percentiles_usec_set:p50.5=") || !strings.Contains(text, ",p100=") || !strings.Contains(text, ",p0=") {
			t.Errorf("INFO latencystats: %s", text)
		}
		call("CONFIG", "SET", "latency-tracking", "no")
		if text := call("INFO", "latencystats").Str; text != "# Latencystats\r\n" {
			t.Errorf("INFO latencystats without latency-tracking: %q", text)
		}
	})
}

// TestServerTells goes through what each server says in words of its own.
func TestServerTells(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		c := peer.ForTest(t, opts).DialForTest(t)
		for _, step := range []struct{ line, want string }{
			{"SET k v", "+OK"}, {"LOLWUT", "$"}, {"LOLWUT VERSION 5 10 10", "$"}, {"MEMORY DOCTOR", "$"}, {"MEMORY MALLOC-STATS", "$"}, {"MEMORY STATS", "*"},
			{"LATENCY DOCTOR", "$"}, {"ACL CAT", "*2"}, {"ACL CAT scripting", "*"}, {"ACL GENPASS", "$64\r\n"}, {"ACL GENPASS 5", "$2\r\n"},
			{"OBJECT HELP", "*"}, {"MEMORY HELP", "*"}, {"SLOWLOG HELP", "*"}, {"LATENCY HELP", "*"}, {"ACL HELP", "*"}, {"MODULE HELP", "*"},
			{"DEBUG HELP", "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, " +
				"otherwise you need to set this option in the configuration file, and then restart the server.\r\n"},
			{"BGREWRITEAOF", "+Background append only file rewriting s"}, {"LASTSAVE", ":"}, {"OBJECT IDLETIME k", ":"}, {"GET k", "$1\r\nv\r\n"},
		} {
			got, err := c.Do(strings.Fields(step.line)...)
			if err != nil || !strings.HasPrefix(string(got), step.want) {
				t.Errorf("%s: %.100q, %v; want %q", step.line, got, err, step.want)
			}
		}
	})
}

// TestReplicationIsRefused: what would make a replica, or feed one, is refused and changes nothing.
func TestReplicationIsRefused(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		if opts.Kind == peer.Redis {
			t.Skip("Redis has replication")
		}
		c := peer.ForTest(t, opts).DialForTest(t)
		for _, line := range []string{"REPLICAOF 127.0.0.1 6379", "SLAVEOF localhost 1", "SYNC", "PSYNC ? -1", "REPLCONF listening-port 1", "REPLCONF"} {
			if got, err := c.Do(strings.Fields(line)...); err != nil || !strings.HasPrefix(string(got), "-ERR replication is not supported") {
				t.Errorf("%s: %q, %v", line, got, err)
			}
		}
		if got, err := c.Do("ACL", "SETUSER", "worker", "on"); err != nil || !strings.HasPrefix(string(got), "-ERR there is one user") {
			t.Errorf("ACL SETUSER: %q, %v", got, err)
		}
		if got, err := c.Do("DEBUG", "SLEEP", "0"); err != nil || !strings.HasPrefix(string(got), "-ERR DEBUG command not allowed") {
			t.Errorf("DEBUG: %q, %v", got, err)
		}
		if got, err := c.Do("BGSAVE"); err != nil || string(got) != "+Background saving started\r\n" {
			t.Errorf("BGSAVE: %q, %v", got, err)
		}
	})
}
