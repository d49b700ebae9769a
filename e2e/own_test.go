package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"codeq/internal/peer"
)

// ownTests are a client's own tests that speak to a server.
type ownTests struct {
	name     string
	packages []string
	// run and skip are patterns of the tests' names.
	run, skip string
	// hasty is the pattern of tests that look once at what one of their own goroutines is about to do. On a busy machine they
	// fail by chance, on Redis as well, so they are tried a few times.
	hasty string
	// variable of the environment or flag tells the tests where the server is.
	variable, flag string
}

// suites are the tests of the clients whose tests let themselves be told which server to use.
func suites() []ownTests {
	return []ownTests{
		{
			name:     "asynq",
			packages: []string{"github.com/hibiken/asynq", "github.com/hibiken/asynq/internal/rdb"},
			run:      ".",
			// These count goroutines, of which the go-redis that this module has leaves some, against Redis as well.
			skip: "^TestServer(FromRedisClient|Run)?$",
			flag: "-redis_addr",
		},
		{
			name:     "rmq",
			packages: []string{"github.com/adjust/rmq/v5"},
			run:      ".",
			// Those of clusters bring one of their own and meet the connections of the other tests in it.
			skip: "^TestCluster",
			// They wait until the server says that a delivery is unacknowledged, which its consumer need not have yet.
			hasty:    "^Test(Batch|ConsumerCommon|Multi|PushQueue|ReturnRejected|Stats)$",
			variable: "REDIS_ADDR",
		},
		{
			name:     "machinery",
			packages: []string{"github.com/RichardKnop/machinery/v2/integration-tests"},
			run:      "^TestRedis",
			skip:     "^$",
			variable: "REDIS_URL",
		},
	}
}

// TestOwn runs the clients' own tests. They take minutes, mostly waiting.
func TestOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("the clients' own tests take minutes")
	}
	t.Parallel()
	for _, suite := range suites() {
		for _, s := range scenes(false) {
			if !peer.Targeted(*targetsFlag, s.opts.Kind) {
				continue
			}
			t.Run(suite.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				suite.test(t, peer.ForTest(t, s.opts).Addr())
			})
		}
	}
}

// hastyTries is how often tests that may fail by chance are tried.
const hastyTries = 5

func (s ownTests) test(t *testing.T, addr string) {
	skip := s.skip
	if s.hasty != "" {
		skip += "|" + s.hasty
	}
	passed, err := s.play(t, addr, s.run, skip)
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; s.hasty != ""; try++ {
		more, err := s.play(t, addr, s.hasty, "^$")
		if err == nil {
			passed += more
			break
		}
		if try == hastyTries {
			t.Fatal(err)
		}
		t.Logf("try %d: %v", try, err)
	}
	t.Logf("%d tests passed", passed)
}

// play runs some of the tests on an empty server and says how many passed.
func (s ownTests) play(t *testing.T, addr, run, skip string) (passed int, err error) {
	c, err := peer.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Call("FLUSHALL"); err != nil {
		return 0, err
	}
	// One package at a time, since all of them clear the server.
	args := append([]string{"test", "-count=1", "-p=1", "-v", "-run=" + run, "-skip=" + skip}, s.packages...)
	if s.flag != "" {
		args = append(args, s.flag, addr)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	if s.variable != "" {
		cmd.Env = append(os.Environ(), s.variable+"="+addr)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w:\n%s", err, out)
	}
	return bytes.Count(out, []byte("\n--- PASS: ")), nil
}
