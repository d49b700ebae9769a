package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// call is Call for a command that must not fail.
func call(t *testing.T, c *peer.Conn, args ...string) peer.Reply {
	t.Helper()
	reply, err := c.Call(args...)
	if err != nil {
		t.Fatalf("%.100q: %v", args, err)
	}
	return reply
}

// TestFunctionReplies sends commands one by one to redis-server and the server under test, in both protocol versions.
func TestFunctionReplies(t *testing.T) {
	get, set := libraryOf("a", "get"), libraryOf("b", "set")
	commands := [][]string{
		{"FUNCTION"}, {"FUNCTION", "x"}, {"FUNCTION", "LOAD"}, {"FUNCTION", "LOAD", "x", get}, {"FUNCTION", "LOAD", "REPLACE"},
		{"FUNCTION", "LOAD", "REPLACE", "replace", get}, {"FUNCTION", "LOAD", get}, {"FUNCTION", "LOAD", libraryOf("c", "GET")},
		{"FUNCTION", "STATS"}, {"FUNCTION", "STATS", "x"}, {"FUNCTION", "LIST"}, {"FUNCTION", "LIST", "WITHCODE"},
		{"FUNCTION", "LIST", "LIBRARYNAME"}, {"FUNCTION", "LIST", "LIBRARYNAME", "A"},
		{"FUNCTION", "LIST", "LIBRARYNAME", "a", "LIBRARYNAME", "a"}, {"FUNCTION", "LIST", "x"}, {"FUNCTION", "DUMP"}, {"FUNCTION", "DUMP", "x"}, {"FCALL"},
		{"FCALL", "get"}, {"FCALL", "get", "1", "k"}, {"FCALL", "GET", "1", "k"},
		{"FCALL", "get", "x"}, {"FCALL", "get", "1"}, {"FCALL", "get", "-1"}, {"FCALL", "nosuch", "x"}, {"FCALL_RO", "get", "1", "k"},
		{"FUNCTION", "DELETE"}, {"FUNCTION", "DELETE", "A"}, {"FUNCTION", "DELETE", "a"}, {"FUNCTION", "LOAD", set},
		{"FUNCTION", "FLUSH", "x"},
		{"FUNCTION", "FLUSH", "SYNC", "x"}, {"FUNCTION", "RESTORE"}, {"FUNCTION", "RESTORE", "x"}, {"FUNCTION", "RESTORE", "x", "y"},
		{"FUNCTION", "RESTORE", "x", "y", "z"}, {"FUNCTION", "RESTORE", "x", "FLUSH", "z"},
		{"FUNCTION", "KILL"}, {"FUNCTION", "KILL", "x"}, {"SCRIPT", "KILL"},
		{"FUNCTION", "FLUSH", "async"}, {"FUNCTION", "LIST"}, {"FUNCTION", "DUMP"},
		{"SCRIPT", "DEBUG"}, {"SCRIPT", "DEBUG", "no"}, {"SCRIPT", "DEBUG", "x"},
		{"EVAL", "return redis.call('FCALL', 'set', '0')", "0"}, {"EVAL", "return redis.call('FUNCTION', 'FLUSH')", "0"},
		{"FLUSHALL"}, {"FUNCTION", "LIST"},
		{"FUNCTION", "LOAD", "#!lua name=t\nwhile true do end"},
	}
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		redis := peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)
		server := peer.ForTest(t, opts).DialForTest(t)
		for proto := 2; proto <= 3; proto++ {
			for _, c := range []*peer.Conn{redis, server} {
				if err := c.Hello(proto); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range commands {
				want, err := redis.Do(args...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := server.Do(args...)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("RESP%d: %q\n got  %q\n want %q", proto, args, got, want)
				}
			}
		}
	})
}

// exchangedLibraries are libraries whose texts have every length and form that a string can have in a payload.
func exchangedLibraries() []string {
	rng := newRand(1, 9)
	noise := make([]byte, 70_000) // two bytes do not hold its length, and it does not compress
	for i := range noise {
		noise[i] = byte('0' + rng.IntN(75))
		if noise[i] == '\\' {
			noise[i] = '0'
		}
	}
	return []string{
		libraryOf("small", "get"), libraryOf("both", "set", "incr", "push"),
		libraryOf("repetitive", "keys") + strings.Repeat("-- a comment\n", 10_000),
		libraryOf("noisy", "pcall") + "-- " + string(noise) + "\n",
		libraryOf("binary", "fail") + "-- \x00\xff\r\n",
	}
}

// TestFunctionExchange carries libraries from redis-server to the server under test and back.
func TestFunctionExchange(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		redis := peer.ForTest(t, peer.Options{Kind: peer.Redis}).DialForTest(t)
		server := peer.ForTest(t, opts).DialForTest(t)
		for _, code := range exchangedLibraries() {
			call(t, redis, "FUNCTION", "LOAD", code)
			want := call(t, redis, "FUNCTION", "LIST", "WITHCODE")
			from, to := redis, server
			for _, policy := range []string{"FLUSH", "REPLACE", "APPEND"} {
				if policy == "APPEND" { // which takes no library that is there
					call(t, to, "FUNCTION", "FLUSH")
				}
				call(t, to, "FUNCTION", "RESTORE", call(t, from, "FUNCTION", "DUMP").Str, policy)
				if got := call(t, to, "FUNCTION", "LIST", "WITHCODE"); !anyOrder(got, want) {
					t.Fatalf("%.40q, restored with %s: got %.2000q, want %.2000q", code, policy, ordered(got), ordered(want))
				}
				from, to = to, from
			}
		}
		for _, c := range []*peer.Conn{redis, server} {
			call(t, c, "SET", "k", "v")
			if got := call(t, c, "FCALL", "get", "1", "k"); got.Str != "v" {
				t.Errorf("got %q", got.Str)
			}
		}
	})
}

// TestFunctionsKill9 kills the server right behind the reply to a command that changes libraries.
func TestFunctionsKill9(t *testing.T) {
	targets := []target{redisTarget("always")}
	for _, policy := range policies {
		targets = append(targets, codeqTarget(4, "hash", policy))
	}
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		server := peer.ForTest(t, opts)
		for round := range pick(*roundsFlag, 3, 20) {
			last := "#!lua name=last\nredis.register_function('last', function() return " + strconv.Itoa(round) + " end)"
			if err := crashBehind(ctx, server, []string{"FUNCTION", "LOAD", "REPLACE", last}); err != nil {
				t.Fatal(err)
			}
			c := server.DialForTest(t)
			if got := call(t, c, "FCALL", "last", "0"); got.Str != strconv.Itoa(round) {
				t.Fatalf("round %d: the function returns %s", round, got.Str)
			}
			call(t, c, "FUNCTION", "LOAD", "REPLACE", libraryOf("other", "get"))
			dump := call(t, c, "FUNCTION", "DUMP").Str
			if err := crashBehind(ctx, server, []string{"FUNCTION", "DELETE", "other"}); err != nil {
				t.Fatal(err)
			}
			wantLibraries(t, server, "last")
			if err := crashBehind(ctx, server, []string{"FUNCTION", "RESTORE", dump, "REPLACE"}); err != nil {
				t.Fatal(err)
			}
			wantLibraries(t, server, "last", "other")
			if err := crashBehind(ctx, server, []string{"FUNCTION", "FLUSH"}); err != nil {
				t.Fatal(err)
			}
			wantLibraries(t, server)
		}
	})
}

// crashBehind sends a command, kills the server as soon as the reply is there, and starts it again.
func crashBehind(ctx context.Context, s *peer.Server, args []string) error {
	c, err := s.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Call(args...); err != nil {
		return err
	}
	s.Kill9()
	return s.Restart(ctx)
}

func wantLibraries(t *testing.T, s *peer.Server, names ...string) {
	t.Helper()
	c := s.DialForTest(t)
	if got := len(call(t, c, "FUNCTION", "LIST").Elems); got != len(names) {
		t.Fatalf("%d libraries, want %q", got, names)
	}
	for _, name := range names {
		if got := len(call(t, c, "FUNCTION", "LIST", "LIBRARYNAME", name).Elems); got != 1 {
			t.Fatalf("%d libraries %s", got, name)
		}
	}
}

// TestFunctionsAtomic kills the server while a connection replaces two libraries in one transaction again and again: there
// are never two of different rounds.
func TestFunctionsAtomic(t *testing.T) {
	eachTargetAtOnce(t, []target{redisTarget("always"), codeqTarget(4, "hash", "everysec")}, func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		server := peer.ForTest(t, opts)
		rng := newRand(seed(t), 11)
		for range pick(*roundsFlag, 3, 20) {
			acked, err := replaceUntilKilled(server, 20+rng.IntN(100))
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			c := server.DialForTest(t)
			x, y := call(t, c, "FCALL", "x", "0").Str, call(t, c, "FCALL", "y", "0").Str
			if n, err := strconv.Atoi(x); err != nil || x != y || n < acked {
				t.Fatalf("%v: x returns %s and y %s, acknowledged was %d", errTorn, x, y, acked)
			}
		}
	})
}

// replaceUntilKilled replaces the libraries of functions x and y by versions that return the number of the transaction, and
// kills the server with further transactions on the way. It returns the last number that was acknowledged.
func replaceUntilKilled(s *peer.Server, kill int) (acked int, err error) {
	c, err := s.Dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	const ahead, replies = 8, 4
	for sent := 1; ; sent++ {
		var out []byte
		out = peer.AppendCommand(out, "MULTI")
		for _, f := range []string{"x", "y"} {
			out = peer.AppendCommand(out, "FUNCTION", "LOAD", "REPLACE",
				fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function() return %d end)", f, f, sent))
		}
		if err := c.Write(peer.AppendCommand(out, "EXEC")); err != nil {
			return 0, err
		}
		if sent <= ahead {
			continue
		}
		if acked == kill {
			s.Kill9()
			return acked, nil
		}
		for range replies {
			raw, err := c.Read()
			if err != nil {
				return 0, err
			}
			if raw[0] == '-' {
				return 0, errors.New(string(raw))
			}
		}
		acked++
	}
}

// TestFunctionBusy lets a function run past the limit and asks for its end in the ways that there are.
func TestFunctionBusy(t *testing.T) {
	const busyFunction = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"
	const busyScript = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		server := peer.ForTest(t, opts)
		c, runner := server.DialForTest(t), server.DialForTest(t)
		call(t, c, "CONFIG", "SET", "busy-reply-threshold", "20")
		call(t, c, "FUNCTION", "LOAD", "#!lua name=l\n"+
			"redis.register_function('spin', function() while true do pcall(function() while true do end end) end end)")
		run := func(busy string, args ...string) {
			t.Helper()
			if err := runner.Send(args...); err != nil {
				t.Fatal(err)
			}
			if err := peer.Poll(ctx, pollInterval, func() (bool, error) {
				raw, err := c.Do("PING")
				return string(raw) == busy, err
			}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(want string, args ...string) {
			t.Helper()
			if got, err := c.Do(args...); err != nil || string(got) != want {
				t.Errorf("%q: %q, %v, want %q", args, got, err, want)
			}
		}
		run(busyFunction, "FCALL", "SPIN", "1", "k", "arg")
		want(busyFunction, "FUNCTION", "LIST")
		want(busyFunction, "SCRIPT", "KILL")
		stats := text(call(t, c, "FUNCTION", "STATS").Elems)
		if !strings.Contains(stats, `$"name"$"spin"$"command"*""($"FCALL"$"SPIN"$"1"$"k"$"arg")$"duration_ms":`) {
			t.Errorf("stats: %s", stats)
		}
		want("+OK\r\n", "MULTI")
		want("-EXECABORT Transaction discarded because of: "+busyFunction[1:], "EXEC")
		want("+OK\r\n", "FUNCTION", "KILL")
		raw, err := runner.Read()
		if killed := "-ERR Script killed by user with SCRIPT KILL... script: spin, on @user_function:2.\r\n"; err != nil || string(raw) != killed {
			t.Errorf("the function's reply: %q, %v", raw, err)
		}
		run(busyScript, "EVAL", "while true do end", "0")
		want(busyScript, "FUNCTION", "STATS")
		want(busyScript, "FUNCTION", "KILL")
		want("+OK\r\n", "SCRIPT", "KILL")
		if raw, err := runner.Read(); err != nil || !strings.HasPrefix(string(raw), "-ERR Script killed by user with SCRIPT KILL... script: ") {
			t.Errorf("the script's reply: %q, %v", raw, err)
		}
	})
}
