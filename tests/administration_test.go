package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// both starts a redis-server and a codeq-server to be compared, or skips the test, which goes on beside others.
func both(t *testing.T) (redis, codeq *peer.Server) {
	t.Helper()
	if !targeted(peer.Redis) || !targeted(peer.Codeq) {
		t.Skip("compares redis with codeq")
	}
	t.Parallel()
	return peer.ForTest(t, redisTarget("everysec").opts), peer.ForTest(t, codeqTarget(4, "hash", "everysec").opts)
}

// connectionCalls have replies that are equal byte for byte. They run in this order on one connection.
func connectionCalls() []string {
	return []string{
		"PING", "PING hi", "PING a b", "ECHO hi", "ECHO",
		"SELECT 3", "SELECT 16", "SELECT -1", "SELECT a", "SELECT 99999999999999", "SELECT 99999999999999999999", "SELECT 0",
		"AUTH x", "AUTH default x", "AUTH nobody x", "AUTH a b c",
		"HELLO 4", "HELLO 1", "HELLO a", "HELLO 3 foo", "HELLO 3 AUTH x", "HELLO 3 SETNAME", "HELLO 3 AUTH nobody x",
		"CLIENT GETNAME", "CLIENT SETNAME worker-1", "CLIENT GETNAME", "CLIENT SETNAME a\tb", "CLIENT GETNAME",
		"CLIENT KILL", "CLIENT KILL id", "CLIENT KILL ID abc", "CLIENT KILL ID 0", "CLIENT KILL TYPE foo", "CLIENT KILL USER nobody",
		"CLIENT KILL SKIPME maybe", "CLIENT KILL 1.2.3.4:5", "CLIENT KILL foo bar", "CLIENT KILL ADDR 1.2.3.4:5",
		"CLIENT KILL ADDR 1.2.3.4:5 LADDR", "CLIENT KILL TYPE replica SKIPME no", "CLIENT KILL ID 999999",
		"CLIENT LIST TYPE foo", "CLIENT LIST TYPE pubsub", "CLIENT LIST ID", "CLIENT LIST ID a", "CLIENT LIST ID 999999", "CLIENT LIST foo",
		"CLIENT LIST ID 1 TYPE normal", "CLIENT NO-EVICT on", "CLIENT NO-EVICT maybe", "CLIENT foo", "CLIENT",
		"CONFIG GET", "CONFIG GET maxclients", "CONFIG GET MaxClients", "CONFIG GET nosuch", "CONFIG GET appendfsync", "CONFIG foo",
		"CONFIG", "CONFIG SET", "CONFIG SET a", "CONFIG SET a b", "CONFIG SET maxclients 1 timeout", "CONFIG SET maxclients a",
		"CONFIG SET maxclients 0", "CONFIG SET timeout 1 timeout 2", "CONFIG SET databases 3", "CONFIG SET appendfsync maybe",
		"CONFIG SET timeout 7 tcp-keepalive 9", "CONFIG GET timeout", "CONFIG SET timeout 0", "CONFIG REWRITE 1", "CONFIG RESETSTAT",
		"SHUTDOWN ABORT", "SHUTDOWN foo", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW",
		"SET k v", "DBSIZE", "DBSIZE a", "SELECT 1", "DBSIZE", "SET k v", "INFO keyspace", "FLUSHDB", "DBSIZE", "INFO keyspace", "SELECT 0",
		"DBSIZE", "FLUSHALL foo", "FLUSHALL SYNC ASYNC", "FLUSHALL ASYNC", "DBSIZE", "SET k v EX 100", "DBSIZE", "FLUSHDB SYNC",
		"INFO nosuch", "TIME a", "LASTSAVE a", "INFO cluster",
		"COMMAND foo", "COMMAND COUNT a", "COMMAND LIST foo", "COMMAND LIST FILTERBY foo", "COMMAND LIST FILTERBY MODULE x",
		"COMMAND LIST FILTERBY ACLCAT nosuch", "COMMAND LIST FILTERBY PATTERN CLIENT|L*", "COMMAND INFO nosuch CLIENT|foo GET",
		"COMMAND DOCS nosuch", "COMMAND GETKEYS", "COMMAND GETKEYS nosuch x", "COMMAND GETKEYS ping", "COMMAND GETKEYS ping x",
		"COMMAND GETKEYS get", "COMMAND GETKEYS get a", "COMMAND GETKEYS set a", "COMMAND GETKEYS mset a 1 b 2",
		"COMMAND GETKEYS eval x 2 a b c", "COMMAND GETKEYS eval x 5 a", "COMMAND GETKEYSANDFLAGS set a b", "COMMAND GETKEYSANDFLAGS set a b GET",
		"COMMAND GETKEYS georadius k 1 2 3 m STORE", "COMMAND GETKEYS georadius k 1 2 3 m STORE d", "COMMAND GETKEYS georadius k 1 2 3 m STOREDIST",
		"MULTI", "DEBUG SLEEP 0", "EXEC", "MULTI", "MODULE LOAD x", "MODULE LIST", "EXEC", "MULTI", "MODULE LIST", "SSUBSCRIBE a", "EXEC",
		"DEBUG", "DEBUG SLEEP 0", "MODULE LOAD", "MODULE LOAD x", "MODULE UNLOAD x", "MODULE LOADEX x",
		"RESET 1", "RESET", "CLIENT GETNAME", "QUIT",
	}
}

// TestConnectionAsRedis compares the connection, server and introspection commands in both protocols.
func TestConnectionAsRedis(t *testing.T) {
	redis, codeq := both(t)
	inBothProtocols(t, redis, codeq, func(p pair) {
		p.compare(t, connectionCalls(), nil)
		if _, err := p.subject.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("after QUIT: %v", err)
		}
	})
}

// pair is a connection to Redis and one to the server under test, which speak the same protocol.
type pair struct {
	proto              int
	reference, subject *peer.Conn
}

// inBothProtocols calls fn with a new pair of connections in RESP2, and with another one in RESP3.
func inBothProtocols(t *testing.T, redis, codeq *peer.Server, fn func(pair)) {
	t.Helper()
	for proto := 2; proto <= 3; proto++ {
		p := pair{proto, redis.DialForTest(t), codeq.DialForTest(t)}
		for _, c := range []*peer.Conn{p.reference, p.subject} {
			if err := c.Hello(proto); err != nil {
				t.Fatal(err)
			}
		}
		fn(p)
	}
}

// compare sends calls, whose words are split at blanks, to both and wants the same replies. Behind each it calls after,
// unless that is nil.
func (p pair) compare(t *testing.T, calls []string, after func(call string)) {
	t.Helper()
	for _, call := range calls {
		args := strings.Split(strings.TrimSuffix(call, `""`), " ") // "" is an empty word
		want, err := p.reference.Do(args...)
		if err != nil {
			t.Fatalf("RESP%d %s: redis: %v", p.proto, call, err)
		}
		if got, err := p.subject.Do(args...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("RESP%d %s: %q, %v; Redis: %q", p.proto, call, got, err, want)
		}
		if after != nil {
			after(call)
		}
	}
}

// TestCommandsAsRedis compares what COMMAND tells of every command that both have.
func TestCommandsAsRedis(t *testing.T) {
	redis, codeq := both(t)
	inBothProtocols(t, redis, codeq, func(p pair) {
		known := list(t, p.reference)
		compared := 0
		for _, name := range list(t, p.subject) {
			if !slices.Contains(known, name) {
				t.Logf("%s is not a command of Redis", name)
				continue
			}
			compared++
			for _, about := range []string{"INFO", "DOCS"} {
				want, got := describe(t, p.reference, about, name), describe(t, p.subject, about, name)
				if want != got && !(about == "DOCS" && documentedOtherwise(name)) {
					t.Errorf("RESP%d COMMAND %s %s:\n%s\nRedis:\n%s", p.proto, about, name, got, want)
				}
			}
		}
		if compared < 80 {
			t.Errorf("only %d commands were compared", compared)
		}
	})
}

// documentedOtherwise names the commands whose arguments Redis documents in a way that we don't follow.
func documentedOtherwise(name string) bool {
	switch name {
	case "client|kill": // marks each of its alternatives as optional
		return true
	case "command|getkeys", "command|getkeysandflags", "debug": // says nothing of their arguments
		return true
	}
	return false
}

func list(t *testing.T, c *peer.Conn) []string {
	t.Helper()
	reply, err := c.Call("COMMAND", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	return reply.Strings()
}

// describe is what COMMAND INFO or DOCS says of a command, without what we say in words of our own and without the
// subcommands, which are compared by themselves.
func describe(t *testing.T, c *peer.Conn, about, name string) string {
	t.Helper()
	reply, err := c.Call("COMMAND", about, name)
	if err != nil {
		t.Fatal(err)
	}
	if about == "INFO" && len(reply.Elems) == 1 && len(reply.Elems[0].Elems) == 10 {
		reply.Elems[0].Elems = reply.Elems[0].Elems[:9]
	}
	return shape(reply)
}

// shape writes a reply without the prose in its maps. In RESP2 a map can't be told from an array; one that begins with a known
// key is taken for a map.
func shape(r peer.Reply) string {
	if r.Elems == nil {
		return fmt.Sprintf("%c%s", r.Kind, r.Str)
	}
	elems := r.Elems
	if isMap(r) {
		elems = withoutProse(elems)
	}
	parts := make([]string, len(elems))
	for i, e := range elems {
		parts[i] = shape(e)
	}
	return fmt.Sprintf("%c[%s]", r.Kind, strings.Join(parts, " "))
}

func isMap(r peer.Reply) bool {
	first := ""
	if len(r.Elems) > 0 {
		first = r.Elems[0].Str
	}
	return r.Kind == '%' || (len(r.Elems)%2 == 0 && slices.Contains([]string{"summary", "name", "notes"}, first))
}

func withoutProse(pairs []peer.Reply) []peer.Reply {
	skip := []string{"summary", "complexity", "history", "notes", "subcommands"}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Str != "type" {
			continue
		}
		// Arguments: the version that one came with, and the names of those that have none in the syntax.
		skip = append(skip, "since", "deprecated_since")
		if slices.Contains([]string{"oneof", "block", "pure-token"}, pairs[i+1].Str) {
			skip = append(skip, "name")
		}
	}
	var kept []peer.Reply
	for i := 0; i < len(pairs); i += 2 {
		if !slices.Contains(skip, pairs[i].Str) {
			kept = append(kept, pairs[i], pairs[i+1])
		}
	}
	return kept
}

// TestInfo wants the fields that clients and their dashboards read, in Redis' form.
func TestInfo(t *testing.T) {
	wanted := []string{"redis_version:7.0.15", "redis_mode:standalone", "uptime_in_days:0", "connected_clients:",
		"maxmemory_policy:noeviction", "loading:0", "role:master", "connected_slaves:0", "cluster_enabled:0", "used_memory_human:",
		"used_memory_peak_human:", "process_id:", "run_id:", "tcp_port:", "used_cpu_user:", "db0:keys=1,expires=0,avg_ttl=0"}
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		c := s.DialForTest(t)
		if _, err := c.Call("SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		reply, err := c.Call("INFO")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wanted {
			if !strings.Contains(reply.Str, "\r\n"+want) {
				t.Errorf("INFO lacks %s", want)
			}
		}
		for _, refused := range []string{"valkey_version", "dragonfly_version", "# Commandstats"} {
			if strings.Contains(reply.Str, refused) {
				t.Errorf("INFO has %s", refused)
			}
		}
		for _, section := range strings.Split(strings.TrimSuffix(reply.Str, "\r\n"), "\r\n\r\n") {
			title, fields, _ := strings.Cut(section, "\r\n")
			if !strings.HasPrefix(title, "# ") {
				t.Errorf("a section begins with %q", title)
			}
			for _, line := range strings.Split(fields, "\r\n") {
				if line != "" && !strings.Contains(line, ":") {
					t.Errorf("%s has the line %q", title, line)
				}
			}
		}
		several, err := c.Call("INFO", "commandstats", "SERVER", "nosuch")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(several.Str, "# Server\r\n") || !strings.Contains(several.Str, "\r\n\r\n# Commandstats\r\n") ||
			!strings.Contains(several.Str, "cmdstat_set:calls=1,usec=") || strings.Contains(several.Str, "# Clients") {
			t.Errorf("INFO of two sections: %s", several.Str)
		}
		if _, err := c.Call("CONFIG", "RESETSTAT"); err != nil {
			t.Fatal(err)
		}
		if after, err := c.Call("INFO", "commandstats"); err != nil || strings.Contains(after.Str, "cmdstat_set:") {
			t.Errorf("after CONFIG RESETSTAT: %s, %v", after.Str, err)
		}
	})
}

// TestClients looks at clients from another one and closes them.
func TestClients(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		me, other := s.DialForTest(t), s.DialForTest(t)
		call := func(c *peer.Conn, line string) peer.Reply {
			t.Helper()
			reply, err := c.Call(strings.Split(line, " ")...)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return reply
		}
		for _, line := range []string{"CLIENT SETNAME other", "SELECT 3", "MULTI", "PING"} {
			call(other, line)
		}
		line := fieldsOf(t, call(me, "CLIENT LIST").Str, "other")
		for name, want := range map[string]string{"db": "3", "flags": "x", "multi": "1", "user": "default", "resp": "2"} {
			if line[name] != want {
				t.Errorf("CLIENT LIST: %s=%s, want %s", name, line[name], want)
			}
		}
		if got := fieldsOf(t, call(me, "CLIENT LIST ID "+line["id"]).Str, "other")["addr"]; got != line["addr"] {
			t.Errorf("CLIENT LIST ID: addr=%s", got)
		}
		if got := call(me, "CLIENT KILL LADDR "+line["laddr"]+" ADDR "+line["addr"]); got.Str != "1" {
			t.Errorf("CLIENT KILL: %q", got.Str)
		}
		if _, err := other.Read(); err == nil {
			t.Error("a killed client got a reply")
		}
		third := s.DialForTest(t)
		addr := fieldsOf(t, call(third, "CLIENT INFO").Str, "")["addr"]
		if got := call(me, "CLIENT KILL "+addr); got.Str != "OK" {
			t.Errorf("CLIENT KILL %s: %q", addr, got.Str)
		}
		if _, err := third.Read(); err == nil {
			t.Error("a killed client got a reply")
		}
		// By id, since a client that was closed a moment ago may still be on the list.
		if got := call(me, "CLIENT KILL TYPE normal SKIPME no ID "+call(me, "CLIENT ID").Str); got.Str != "1" {
			t.Errorf("CLIENT KILL of oneself: %q", got.Str)
		}
		if _, err := me.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("after CLIENT KILL of oneself: %v", err)
		}
	})
}

// fieldsOf finds the line of the client with that name.
func fieldsOf(t *testing.T, lines, name string) map[string]string {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		fields := map[string]string{}
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			fields[key] = value
		}
		if fields["name"] == name {
			return fields
		}
	}
	t.Fatalf("no client is named %q:\n%s", name, lines)
	return nil
}

// TestPassword sets a password and goes through the ways to give it.
func TestPassword(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		steps := func(c *peer.Conn, pairs ...string) {
			t.Helper()
			for i := 0; i < len(pairs); i += 2 {
				got, err := c.Do(strings.Split(pairs[i], " ")...)
				if want := pairs[i+1]; err != nil || !strings.HasPrefix(string(got), want) {
					t.Errorf("%s: %q, %v; want %q", pairs[i], got, err, want)
				}
			}
		}
		admin := s.DialForTest(t)
		steps(admin, "CONFIG SET requirepass s3cret", "+OK", "PING", "+PONG")
		steps(s.DialForTest(t), "PING", "-NOAUTH Authentication required.\r\n", "HELLO 3", "-NOAUTH HELLO must be called",
			"AUTH wrong", "-WRONGPASS", "AUTH nobody s3cret", "-WRONGPASS", "AUTH s3cret", "+OK", "PING", "+PONG",
			"AUTH wrong", "-WRONGPASS", "PING", "+PONG", "RESET", "+RESET", "PING", "-NOAUTH")
		steps(s.DialForTest(t), "HELLO 3 AUTH default wrong", "-WRONGPASS", "HELLO 3 SETNAME x AUTH default s3cret", "%7", "CLIENT GETNAME", "$1\r\nx",
			"CLIENT LIST TYPE master", "=4\r\ntxt:")
		steps(s.DialForTest(t), "QUIT", "+OK")
		steps(admin, "CONFIG SET requirepass ", "+OK")
		steps(s.DialForTest(t), "PING", "+PONG")
	})
}

// TestShutdownCommand: no reply, code 0, and the data is there afterwards.
func TestShutdownCommand(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		for _, how := range []string{"SHUTDOWN", "SHUTDOWN NOSAVE NOW FORCE"} {
			s := peer.ForTest(t, opts)
			c := s.DialForTest(t)
			if _, err := c.Call("SET", "k", how); err != nil {
				t.Fatal(err)
			}
			if reply, err := c.Do(strings.Split(how, " ")...); !errors.Is(err, io.EOF) {
				t.Errorf("%s: %q, %v", how, reply, err)
			}
			ctx := testContext(t)
			if err := s.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			if got, err := s.DialForTest(t).Call("GET", "k"); err != nil || got.Str != how {
				t.Errorf("after %s and a restart: %q, %v", how, got.Str, err)
			}
		}
	})
}
