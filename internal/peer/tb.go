package peer

import (
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
)

// EnvRequire names the environment variable that, set to 1, turns a missing program from a skip into a failure. CI
// sets it, so that no test can pass there by not running.
const EnvRequire = "TEST_REQUIRE_PEERS"

// TargetsFromEnv names the servers to test, comma-separated: what TEST_TARGETS says, or both.
func TargetsFromEnv() string {
	if targets := os.Getenv("TEST_TARGETS"); targets != "" {
		return targets
	}
	return string(Redis) + "," + string(Codeq)
}

// Targeted reports whether a kind of server is among the targets.
func Targeted(targets string, kind Kind) bool {
	for name := range strings.SplitSeq(targets, ",") {
		if strings.TrimSpace(name) == string(kind) {
			return true
		}
	}
	return false
}

// ForTest starts a server for a test and stops it at the test's end. Where the program is missing the test is
// skipped, or fails if EnvRequire says so; a failing test logs what the server said.
func ForTest(tb testing.TB, opts Options) *Server {
	tb.Helper()
	s, err := Start(tb.Context(), opts)
	if err != nil {
		Missing(tb, err)
		tb.Fatalf("start %s: %v", opts.Kind, err)
	}
	tb.Cleanup(func() {
		s.Stop()
		if tb.Failed() {
			tb.Logf("what %s said:\n%s", opts.Kind, s.Log())
		}
	})
	return s
}

// SideBySide has n parallel tests run at the same time, unless -parallel tells how many: it is as many as there are processors else, which
// is too few for tests that wait. It is for TestMain, behind flag.Parse.
func SideBySide(n int) {
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // there is no such flag: this is no test
	}
}

// Missing skips the test if err says that a program is missing and it is not required; it returns otherwise.
func Missing(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrMissing) && os.Getenv(EnvRequire) != "1" {
		tb.Skipf("skipped: %v; set %s=1 to make this a failure", err, EnvRequire)
	}
}

// ToolForTest finds a program of the Redis tools or skips the test as ForTest does.
func ToolForTest(tb testing.TB, name string) string {
	tb.Helper()
	path, err := Tool(name)
	if err != nil {
		Missing(tb, err)
		tb.Fatal(err)
	}
	return path
}

// DialForTest opens a raw connection that ends with the test.
func (s *Server) DialForTest(tb testing.TB) *Conn {
	tb.Helper()
	c, err := s.Dial()
	if err != nil {
		tb.Fatalf("connect to %s: %v", s.opts.Kind, err)
	}
	tb.Cleanup(c.Close)
	return c
}
