package tests

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// runTool runs a program of the Redis tools against a server. It must end with code 0 and say nothing on standard error.
func runTool(t *testing.T, s *peer.Server, stdin []byte, tool string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), peer.ToolForTest(t, tool), append([]string{"-h", host, "-p", port}, args...)...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("%s %q: %v\nstdout: %.2000s\nstderr: %s", tool, args, err, out.String(), complaints.String())
	}
	return out.String()
}

func TestRedisCLI(t *testing.T) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		t.Run("pipe and scan", func(t *testing.T) { cliPipeAndScan(t, s) })
		t.Run("docs", func(t *testing.T) { cliDocs(t, s) })
		t.Run("commands", func(t *testing.T) { cliCommands(t, s) })
	})
}

// cliPipeAndScan loads keys with --pipe, which waits for an ECHO of its own, and lists them with --scan.
func cliPipeAndScan(t *testing.T, s *peer.Server) {
	const keys = 2000
	var protocol []byte
	var want []string
	for i := range keys {
		key := fmt.Sprintf("pipe:%d", i)
		want = append(want, key)
		protocol = peer.AppendCommand(protocol, "SET", key, strings.Repeat("v", i%300))
	}
	out := runTool(t, s, protocol, "redis-cli", "--pipe")
	if !strings.Contains(out, fmt.Sprintf("errors: 0, replies: %d", keys)) {
		t.Errorf("--pipe said: %s", out)
	}
	got := strings.Fields(runTool(t, s, nil, "redis-cli", "--scan", "--pattern", "pipe:*"))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(slices.Compact(got), want) {
		t.Errorf("--scan gave %d keys, want %d", len(got), keys)
	}
}

// cliDocs asks for what redis-cli's help is made of: a map from each command to its documentation.
func cliDocs(t *testing.T, s *peer.Server) {
	count := strings.TrimSpace(runTool(t, s, nil, "redis-cli", "COMMAND", "COUNT"))
	if n, err := strconv.Atoi(count); err != nil || n < 80 {
		t.Errorf("COMMAND COUNT: %q", count)
	}
	docs := runTool(t, s, nil, "redis-cli", "-3", "--no-raw", "COMMAND", "DOCS")
	for _, want := range []string{`"lpush"`, `"summary"`, `"since"`, `"group"`, `"complexity"`, `"arguments"`} {
		if !strings.Contains(docs, want) {
			t.Errorf("COMMAND DOCS lacks %s", want)
		}
	}
	one := runTool(t, s, nil, "redis-cli", "--no-raw", "COMMAND", "DOCS", "zadd")
	if !strings.Contains(one, "sorted-set") || strings.Contains(one, "lpush") {
		t.Errorf("COMMAND DOCS zadd: %s", one)
	}
	if none := runTool(t, s, nil, "redis-cli", "--no-raw", "COMMAND", "DOCS", "nosuch"); !strings.Contains(none, "empty") {
		t.Errorf("COMMAND DOCS nosuch: %q", none)
	}
}

// cliCommands runs a session from standard input in both protocols.
func cliCommands(t *testing.T, s *peer.Server) {
	script := "DEL cli:h\nHSET cli:h f v\nHGETALL cli:h\nMULTI\nINCR cli:n\nDISCARD\nZADD cli:z 1.5 m\nZSCORE cli:z m\nDEL cli:z\n"
	for proto, want := range map[string]string{
		"-2": "(integer) 0\n(integer) 1\n1) \"f\"\n2) \"v\"\nOK\nQUEUED\nOK\n(integer) 1\n\"1.5\"\n(integer) 1\n",
		"-3": "(integer) 0\n(integer) 1\n1# \"f\" => \"v\"\nOK\nQUEUED\nOK\n(integer) 1\n(double) 1.5\n(integer) 1\n",
	} {
		if _, err := s.DialForTest(t).Call("DEL", "cli:h"); err != nil {
			t.Fatal(err)
		}
		if got := runTool(t, s, []byte(script), "redis-cli", proto, "--no-raw"); got != want {
			t.Errorf("session with %s:\n%s\nwant:\n%s", proto, got, want)
		}
	}
}

// TestRedisBenchmark runs the tool's own tests: no error, no warning, a rate for each.
func TestRedisBenchmark(t *testing.T) {
	const tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset"
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		s := peer.ForTest(t, opts)
		for _, depth := range []string{"1", "16"} {
			out := runTool(t, s, nil, "redis-benchmark", "--csv", "-n", "2000", "-c", "20", "-r", "500", "-P", depth, "-t", tests)
			// PING comes twice, LRANGE four times after an LPUSH that fills its list.
			if lines := strings.Count(out, "\n"); lines < 1+15+1+4 {
				t.Errorf("-P %s: %d lines:\n%s", depth, lines, out)
			}
			if strings.Contains(strings.ToLower(out), "err") {
				t.Errorf("-P %s:\n%s", depth, out)
			}
		}
	})
}
