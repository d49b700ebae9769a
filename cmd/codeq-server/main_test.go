package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeq/config"
	"codeq/internal/peer"
	"codeq/resp"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.RemoveBuild()
	os.Exit(code)
}

// execute runs the command line within the test's process, as far as nothing is served.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := rootCommand()
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err := command.Execute()
	return out.String(), err
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence: flags over environment over file over defaults.
func TestPrecedence(t *testing.T) {
	file := writeFile(t, "addr: 127.0.0.1:1\nshards: 3\nappendfsync: always\n")
	t.Setenv("CODEQ_ADDR", "127.0.0.1:2")
	t.Setenv("CODEQ_SHARDS", "5")
	out, err := execute(t, "--config", file, "--check", "--addr", "127.0.0.1:3", "--data", "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"listens on   127.0.0.1:3\n", "data         /nowhere\n", "shards       5\n", "appendfsync  always\n", "databases    16\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("--check lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat("/nowhere"); err == nil {
		t.Error("--check made the data folder")
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"adr: x\n", "did you mean addr?"},
		{"shards: 0\n", "config.yaml:1:9"},
		{"supplier: hasch\n", "hash"},
		{"key-patterns: [nothing]\n", "nothing"},
		{"supplier: static\nstatic:\n  commands:\n    x: nosuch\n", "nosuch"},
	} {
		if out, err := execute(t, "--check", "--config", writeFile(t, test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %s, %v; want an error with %q", test.file, out, err, test.want)
		}
	}
	for _, args := range [][]string{{"--nosuch"}, {"word"}, {"--addr", "nonsense", "--check"}, {"--config", "/nowhere/file", "--check"}} {
		if _, err := execute(t, args...); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestVersion(t *testing.T) {
	out, err := execute(t, "--version")
	if err != nil || !strings.HasPrefix(out, "codeq-server 0.") || strings.Count(out, "\n") != 1 {
		t.Errorf("%q, %v", out, err)
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func call(t *testing.T, c *peer.Conn, args ...string) string {
	t.Helper()
	reply, err := c.Call(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return reply.Str
}

// TestLife starts the server on a port of its choice, stops it with each signal, and finds the data again.
func TestLife(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Codeq, Addr: "127.0.0.1:0", Shards: 2})
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		call(t, s.DialForTest(t), "SET", "key", signal.String())
		if err := s.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := call(t, s.DialForTest(t), "GET", "key"); got != signal.String() {
			t.Errorf("after %s: %q", signal, got)
		}
	}
	if !strings.Contains(s.Log(), "msg=ready addr="+s.Addr()) || !strings.Contains(s.Log(), "msg=stopped\n") {
		t.Errorf("the log lacks ready or stopped:\n%s", s.Log())
	}
}

// TestRefusals: what keeps the server from starting ends it with code 1 and says what to do.
func TestRefusals(t *testing.T) {
	first := peer.ForTest(t, peer.Options{Kind: peer.Codeq, Shards: 2})
	for _, test := range []struct {
		name string
		opts peer.Options
		want string
	}{
		{"data in use", peer.Options{Kind: peer.Codeq, Dir: first.Dir(), Shards: 2}, "in use"},
		{"address in use", peer.Options{Kind: peer.Codeq, Args: []string{"--addr", first.Addr()}}, "--addr"},
		{"unknown setting", peer.Options{Kind: peer.Codeq, Args: []string{"--appendfsync", "sometimes"}}, "--appendfsync: appendfsync"},
	} {
		s, err := peer.Start(t.Context(), test.opts)
		if err == nil {
			s.Stop()
			t.Errorf("%s: it started", test.name)
		} else if !strings.Contains(err.Error(), "code 1 ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := first.Term(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if s, err := peer.Start(t.Context(), peer.Options{Kind: peer.Codeq, Dir: first.Dir(), Shards: 3}); err == nil {
		s.Stop()
		t.Error("it started with another number of shards")
	} else if !strings.Contains(err.Error(), "--shards 2") {
		t.Errorf("another number of shards: %v", err)
	}
}

// TestLogFailure: a log that can't be written ends the server, after the clients whose commits it fails have been told, and what
// was acknowledged before is there after the next start.
func TestLogFailure(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Codeq, Args: []string{"--config", writeFile(t, "shards: 2\nlog-segment-size: 1mb\n")}})
	log := filepath.Join(s.Dir(), "data", "log")
	segments, err := filepath.Glob(filepath.Join(log, "*.log"))
	if err != nil || len(segments) == 0 || len(segments) > 2 {
		t.Fatalf("the log has the files %q, %v; want one, or the next as well", segments, err)
	}
	// The one behind the next can't be made.
	inTheWay := filepath.Join(log, "0000000003.log.tmp")
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	writer, idle := s.DialForTest(t), s.DialForTest(t)
	call(t, idle, "PING")
	acknowledged := 0
	for {
		reply, err := writer.Do("RPUSH", "list", strings.Repeat("x", 10_000))
		if err != nil {
			break // the failure was found between its commands
		}
		if !strings.HasPrefix(string(reply), ":") {
			// The commit failed, or the log had failed before the command began.
			if !strings.HasPrefix(string(reply), "-ERR not acknowledged") && !strings.HasPrefix(string(reply), "-ERR internal error, nothing was changed") {
				t.Fatalf("the client was told %q", reply)
			}
			break
		}
		acknowledged++
	}
	if err := s.Wait(testContext(t)); err == nil || s.ExitCode() != 1 {
		t.Fatalf("the server ended with code %d, %v", s.ExitCode(), err)
	}
	if !strings.Contains(s.Log(), "the store has failed") || !strings.Contains(s.Log(), "repair the disk") {
		t.Errorf("the log lacks the reason:\n%s", s.Log())
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(call(t, s.DialForTest(t), "LLEN", "list")); err != nil || n < acknowledged || n > acknowledged+1 {
		t.Errorf("after the start the list has %d elements, %v; %d were acknowledged", n, err, acknowledged)
	}
}

// TestConfigSet changes what others than CONFIG GET have to know.
func TestConfigSet(t *testing.T) {
	s := peer.ForTest(t, peer.Options{Kind: peer.Codeq})
	c := s.DialForTest(t)
	// Who has asked whether the server is ready may still be counted.
	err := peer.Poll(testContext(t), time.Millisecond, func() (bool, error) {
		return strings.Contains(call(t, c, "INFO", "clients"), "connected_clients:1\r\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, c, "CONFIG", "SET", "maxclients", "2", "appendfsync", "always", "loglevel", "debug")
	call(t, c, "SET", "k", "v")
	second := s.DialForTest(t)
	call(t, second, "PING")
	third := s.DialForTest(t)
	if got, err := third.Read(); err != nil || string(got) != "-ERR max number of clients reached\r\n" {
		t.Errorf("the third client of two: %q, %v", got, err)
	}
	call(t, c, "CONFIG", "SET", "proto-max-bulk-len", "1mb")
	if reply, err := second.Do("ECHO", strings.Repeat("x", 2<<20)); err == nil && !strings.HasPrefix(string(reply), "-ERR Protocol error") {
		t.Errorf("an argument over proto-max-bulk-len: %.60q", reply)
	}
	if reply, err := c.Do("CONFIG", "REWRITE"); err != nil || !strings.HasPrefix(string(reply), "-ERR Rewriting config file") {
		t.Errorf("CONFIG REWRITE: %q, %v", reply, err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("permissions: %v, %v", info.Mode(), err)
	}
	if _, err := listenUnix(path, 0); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a socket in use: %v", err)
	}
	// A server that is killed leaves its socket behind.
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := listenUnix(path, 0)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	if err := setBacklog(second, 7); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path, 0); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestListenIsAllOrNothing(t *testing.T) {
	c := config.Default()
	c.Addr, c.UnixSocket = "127.0.0.1:0", filepath.Join(t.TempDir(), "missing", "s")
	if l, err := listen(c); err == nil {
		closeAll(l)
		t.Error("a socket in a folder that does not exist")
	}
}

func TestLimitsFollowConfig(t *testing.T) {
	c, err := config.Load(config.Sources{Flags: []config.Flag{
		{Setting: "timeout", Value: "7"}, {Setting: "max-args", Value: "2000"},
		{Setting: "client-output-buffer-limit", Value: "normal 5mb 0 0"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	limits := newLimits(c)
	if limits.IdleTimeout.Load() != int64(7*time.Second) || limits.MaxArgs.Load() != 2000 || limits.MaxOutputBuffer.Load() != 5<<20 ||
		limits.MaxBulkLen.Load() != resp.DefaultMaxBulkLen {
		t.Errorf("timeout %d, max-args %d, output %d", limits.IdleTimeout.Load(), limits.MaxArgs.Load(), limits.MaxOutputBuffer.Load())
	}
}

// TestFiles divides files among clients and tables, where the limit can be raised and where it can't.
func TestFiles(t *testing.T) {
	for _, test := range []struct{ limit, clients, shards, tables, accepted int }{
		{1 << 30, 10000, 4, 1024, 10000},
		{1 << 30, 10000, 64, 4096, 10000},
		{11152, 10000, 4, 1024, 10000},
		{11151, 10000, 4, 1024, 9999},
		{4096, 10000, 4, 512, 3456},
		{1024, 10000, 4, 128, 768},
		{1024, 10000, 64, 128, 768},
		{1200, 10, 4, 1024, 10},
		{100, 10000, 4, 12, 1},
	} {
		limit := func(wanted int) int { return min(max(wanted, 64), test.limit) }
		f := newFiles(test.clients, test.shards, limit, slog.New(slog.DiscardHandler))
		limits := resp.NewLimits()
		f.setMaxClients(limits, test.clients)
		if accepted := limits.MaxClients.Load(); f.tables != test.tables || accepted != int64(test.accepted) {
			t.Errorf("%+v: %d files of tables and %d clients", test, f.tables, accepted)
		}
	}
}

// stackError prints more than its text where the format allows, as Pebble's errors do.
type stackError struct{}

func (stackError) Error() string { return "no room" }

func (stackError) Format(w fmt.State, _ rune) {
	_, _ = fmt.Fprint(w, "no room")
	if w.Flag('+') {
		_, _ = fmt.Fprint(w, "\nstack trace")
	}
}

// TestErrorsAreLoggedByTheirText in both forms of the log.
func TestErrorsAreLoggedByTheirText(t *testing.T) {
	for _, format := range []config.LogFormat{config.LogText, config.LogJSON} {
		var out strings.Builder
		log := newLogger(&out, format, new(slog.LevelVar))
		log.Error("failed", "err", fmt.Errorf("write: %w", stackError{}), "path", "x")
		log.Error("failed", "err", stackError{})
		if text := out.String(); strings.Count(text, "no room") != 2 || strings.Contains(text, "stack trace") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
