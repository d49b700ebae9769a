package tests

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// migrateScript is what TestMigrateCommand sends, a command a line: S: to the source, T: to the target, t: to the target without
// looking at the reply, which tells of the connection that Redis keeps, or of the key that it has restored in database 0 when
// the one that was asked for does not exist. HOST and PORT are the target's, SELF the source's port. A pair of quotes is the
// empty string.
const migrateScript = `
S: SET a 1
S: SET b 2 PX 100000
S: MIGRATE HOST PORT a 0 60000
S: MIGRATE HOST PORT b 0 -5 COPY
S: EXISTS a b
T: MGET a b
T: PERSIST b
S: PERSIST b
S: MIGRATE HOST PORT b 0 60000
S: MIGRATE HOST PORT b 0 60000 COPY REPLACE
S: MIGRATE HOST PORT b 0 60000 copy Replace copy
S: GET b
T: PTTL b
S: MIGRATE HOST PORT nokey 0 60000
S: MIGRATE HOST PORT "" 0 60000 KEYS no key
S: MIGRATE HOST PORT "" 0 60000 KEYS
S: MIGRATE HOST PORT "" 0 60000
S: MSET k1 1 k2 2 k3 3 k4 4
S: EXPIRE k1 1000
T: MSET k2 busy k4 busy
S: MIGRATE HOST PORT "" 0 60000 KEYS k1 no k2 k3 k4
S: MGET k1 k2 k3 k4
T: MGET k1 k2 k3 k4
T: PERSIST k1
S: MIGRATE HOST PORT "" 0 60000 REPLACE KEYS k1 k2
S: EXISTS k1 k2 k3
T: GET k2
S: SET c 1
S: MIGRATE HOST PORT c 3 60000
T: SELECT 3
T: GET c
T: SELECT 0
T: EXISTS c
S: SELECT 2
S: SET c 2
S: MIGRATE HOST PORT c 1 60000
S: EXISTS c
S: SELECT 0
S: SET "" empty
S: MIGRATE HOST PORT "" 0 60000
S: EXISTS ""
T: GET ""
S: SET d 1
S: MIGRATE HOST PORT d 99 60000
S: MIGRATE HOST PORT d 0 60000 AUTH secret
S: EXISTS d
t: DEL d
T: CONFIG SET requirepass secret
t: CLIENT KILL TYPE normal
S: MIGRATE HOST PORT d 0 60000
S: MIGRATE HOST PORT d 0 60000 AUTH wrong
S: EXISTS d
S: MIGRATE HOST PORT d 0 60000 AUTH secret COPY
S: MIGRATE HOST PORT d 0 60000 REPLACE AUTH2 default secret KEYS d
S: MIGRATE HOST PORT "" 0 60000 REPLACE AUTH2 default secret KEYS d
T: CONFIG SET requirepass ""
S: EXISTS d
T: GET d
S: SET e 1
S: MIGRATE HOST 1 e 0 60000
S: MIGRATE HOST port e 0 60000
S: MIGRATE "" PORT e 0 60000
S: MIGRATE HOST SELF e 0 100
S: MIGRATE HOST PORT e x 60000
S: MIGRATE HOST PORT e 0 x
S: MIGRATE HOST PORT e x x BAD
S: MIGRATE HOST PORT e 0 60000 AUTH
S: MIGRATE HOST PORT e 0 60000 AUTH2 a
S: MIGRATE HOST PORT e 0
S: GET e
`

// migrateWords splits a line of the script for a pair of servers.
func migrateWords(line string, source, target *peer.Server) []string {
	host, port, _ := net.SplitHostPort(target.Addr())
	_, self, _ := net.SplitHostPort(source.Addr())
	words := strings.Fields(line)
	for i, word := range words {
		switch word {
		case "HOST":
			words[i] = host
		case "PORT":
			words[i] = port
		case "SELF":
			words[i] = self
		case `""`:
			words[i] = ""
		}
	}
	return words
}

// transcribe runs the script and returns its lines with their replies.
func transcribe(t *testing.T, source, target *peer.Server) (lines []string) {
	t.Helper()
	conns := map[string]*peer.Conn{"S:": source.DialForTest(t), "T:": target.DialForTest(t)}
	conns["t:"] = conns["T:"]
	for line := range strings.SplitSeq(strings.TrimSpace(migrateScript), "\n") {
		raw, err := conns[line[:2]].Do(migrateWords(line[2:], source, target)...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if line[0] != 't' {
			lines = append(lines, fmt.Sprintf("%s → %q", line, raw))
		}
	}
	return lines
}

// TestMigrateCommand runs one script with redis-server as source and target, and with the server under test in the place of one or
// both. All transcripts are the same.
func TestMigrateCommand(t *testing.T) {
	eachTargetAtOnce(t, shardedTargets()[1:], func(t *testing.T, opts peer.Options) {
		redis := peer.Options{Kind: peer.Redis}
		want := transcribe(t, peer.ForTest(t, redis), peer.ForTest(t, redis))
		for _, pair := range [][2]peer.Options{{opts, redis}, {redis, opts}, {opts, opts}} {
			got := transcribe(t, peer.ForTest(t, pair[0]), peer.ForTest(t, pair[1]))
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s to %s:\n got %s\nwant %s", pair[0].Kind, pair[1].Kind, got[i], want[i])
				}
			}
		}
	})
}

// TestMigrateValues migrates values of every type, with and without a deadline, to and fro. Each arrives as it was.
func TestMigrateValues(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		rng := newRand(seed(t), 9)
		servers := []*peer.Server{peer.ForTest(t, peer.Options{Kind: peer.Redis}), peer.ForTest(t, opts), peer.ForTest(t, opts)}
		var conns []*peer.Conn
		for _, s := range servers {
			conns = append(conns, s.DialForTest(t))
		}
		send := func(c *peer.Conn, args ...string) string {
			t.Helper()
			reply, err := c.Call(args...)
			if err != nil {
				t.Fatal(err)
			}
			return reply.Str
		}
		// A long string is in chunks; the others are partitioned keys, where there are such, with a retention that is not over.
		values := dumpValues(rng, "key")
		values["long string"] = [][]string{{"SETRANGE", "key", "50000", "far"}, {"APPEND", "key", strings.Repeat("tail", 10_000)}}
		values["tasks"] = [][]string{{"HSET", "codeq:tasks", "id1", "a", "id2", "b", "id3", "c"}}
		values["deadlines"] = [][]string{{"ZADD", "codeq:tasks:ttl", "4102444801", "id1", "4102444802", "id2", "4102444803", "id3"}}
		for name, commands := range values {
			key := commands[0][1]
			for _, command := range commands {
				send(conns[0], command...)
			}
			if key == "key" {
				send(conns[0], "PEXPIREAT", key, "4102444800123")
			}
			want, wantAt := content(t, conns[0], key), send(conns[0], "PTTL", key)
			for _, hop := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
				from, to := hop[0], hop[1]
				line := "MIGRATE HOST PORT " + key + " 0 10000"
				if got := send(conns[from], migrateWords(line, servers[from], servers[to])...); got != "OK" {
					t.Fatalf("%s, hop %d: %s", name, from, got)
				}
				if got := content(t, conns[to], key); got != want {
					t.Fatalf("%s, hop %d:\n got %s\nwant %s", name, from, got, want)
				}
				if got := send(conns[from], "EXISTS", key); got != "0" {
					t.Fatalf("%s is still at %d", name, from)
				}
				at := send(conns[to], "PTTL", key)
				if !within(60_000)(peer.Reply{Kind: ':', Str: at}, peer.Reply{Kind: ':', Str: wantAt}) {
					t.Fatalf("%s, hop %d: expires in %s ms, before in %s", name, from, at, wantAt)
				}
			}
			send(conns[0], "DEL", key)
		}
	})
}

// stubborn is a target that answers when it is told to.
type stubborn struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

// answer waits for a request of some words and sends the reply, if there is one.
func (s *stubborn) answer(name string, words int, reply string) {
	s.t.Helper()
	for n := range 1 + 2*words {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if n == 2 && strings.TrimSpace(line) != name {
			s.t.Fatalf("got %q, want %s", line, name)
		}
	}
	if _, err := s.conn.Write([]byte(reply)); err != nil {
		s.t.Fatal(err)
	}
}

// migrateToStubborn sends a MIGRATE of the key and takes its connection.
func migrateToStubborn(t *testing.T, client *peer.Conn, key, timeoutMs string) *stubborn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := client.Send("MIGRATE", host, port, key, "0", timeoutMs); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &stubborn{t: t, conn: conn, lines: bufio.NewReader(conn)}
}

// TestMigrateLosesNoChange changes a key while it is on its way: it waits until the key has gone, and makes a new one.
func TestMigrateLosesNoChange(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		server := peer.ForTest(t, opts)
		mover, writer := server.DialForTest(t), server.DialForTest(t)
		if _, err := mover.Call("SET", "k", "before"); err != nil {
			t.Fatal(err)
		}
		target := migrateToStubborn(t, mover, "k", "60000")
		target.answer("SELECT", 2, "+OK\r\n")
		target.answer("RESTORE", 4, "")
		if err := writer.Send("APPEND", "k", "after"); err != nil {
			t.Fatal(err)
		}
		if opts.Kind == peer.Codeq { // which serves others meanwhile
			other := server.DialForTest(t)
			for range 200 {
				if _, err := other.Call("PING"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := target.conn.Write([]byte("+OK\r\n")); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			conn *peer.Conn
			want string
		}{{mover, "+OK\r\n"}, {writer, ":5\r\n"}} {
			if got, err := step.conn.Read(); err != nil || string(got) != step.want {
				t.Fatalf("got %q, %v; want %q", got, err, step.want)
			}
		}
		if got, err := writer.Call("GET", "k"); err != nil || got.Str != "after" {
			t.Fatalf("the key is %q, %v", got.Str, err)
		}
	})
}

// TestMigrateEnds has targets that hang, hang up, or answer one key of two. What is not acknowledged stays.
func TestMigrateEnds(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		client := peer.ForTest(t, opts).DialForTest(t)
		expect := func(want string) {
			t.Helper()
			if got, err := client.Read(); err != nil || string(got) != want {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
			if got, err := client.Call("GET", "k"); err != nil || got.Str != "v" {
				t.Fatalf("the key is %q, %v", got.Str, err)
			}
		}
		if _, err := client.Call("SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		const unread = "-IOERR error or timeout reading to target instance\r\n"
		migrateToStubborn(t, client, "k", "100")
		expect(unread)
		target := migrateToStubborn(t, client, "k", "100")
		target.answer("SELECT", 2, "+OK\r\n")
		expect(unread)
		target = migrateToStubborn(t, client, "k", "60000")
		target.answer("SELECT", 2, "+OK\r\n")
		target.answer("RESTORE", 4, "-OOM no room\r\n")
		expect("-ERR Target instance replied with error: OOM no room\r\n")
	})
}

// TestMigrateDoesNotKeepTheServer stops a server, and kills a client, whose MIGRATE waits for a target that says nothing.
func TestMigrateDoesNotKeepTheServer(t *testing.T) {
	eachTarget(t, []target{codeqTarget(4, "hash", "everysec")}, func(t *testing.T, opts peer.Options) {
		server := peer.ForTest(t, opts)
		mover, admin := server.DialForTest(t), server.DialForTest(t)
		if _, err := mover.Call("SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		id, err := mover.Call("CLIENT", "ID")
		if err != nil {
			t.Fatal(err)
		}
		target := migrateToStubborn(t, mover, "k", "600000")
		target.answer("SELECT", 2, "+OK\r\n")
		target.answer("RESTORE", 4, "")
		if _, err := admin.Call("CLIENT", "KILL", "ID", id.Str); err != nil {
			t.Fatal(err)
		}
		if got, err := admin.Call("GET", "k"); err != nil || got.Str != "v" {
			t.Fatalf("the key is %q, %v", got.Str, err)
		}
		target = migrateToStubborn(t, admin, "k", "600000")
		target.answer("SELECT", 2, "+OK\r\n")
		target.answer("RESTORE", 4, "")
		if err := server.Term(testContext(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMigrateStandsAlone: what it sends can't be taken back, so codeq refuses it where a command may have to run again.
func TestMigrateStandsAlone(t *testing.T) {
	eachTarget(t, []target{codeqTarget(4, "hash", "everysec")}, func(t *testing.T, opts peer.Options) {
		client := peer.ForTest(t, opts).DialForTest(t)
		const refused = "MIGRATE can't be part of a transaction or a script"
		for _, command := range [][]string{{"SET", "k", "v"}, {"MULTI"}, {"MIGRATE", "h", "1", "k", "0", "10"}} {
			if _, err := client.Call(command...); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := client.Call("EXEC")
		if err != nil || !slices.Equal(reply.Strings(), []string{"ERR " + refused}) {
			t.Errorf("EXEC: %q, %v", reply.Strings(), err)
		}
		_, err = client.Call("EVAL", "return redis.call('MIGRATE', 'h', '1', KEYS[1], '0', '10')", "1", "k")
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("EVAL: %v", err)
		}
	})
}
