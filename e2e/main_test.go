package e2e

import (
	"flag"
	"os"
	"testing"

	"codeq/internal/peer"
)

var (
	targetsFlag = flag.String("targets", peer.TargetsFromEnv(), "servers to test, comma-separated")
	tasksFlag   = flag.Int("tasks", 0, "tasks for each driver; 0 leaves it to the client's test")
	seedFlag    = flag.Uint64("seed", 1, "seed of the drivers' random choices")
)

// sideBySide is how many clients are tested at the same time unless -parallel tells: more than there are processors, since they wait for
// what they start, for delays and for the end of leases most of their time.
const sideBySide = 4

func TestMain(m *testing.M) {
	flag.Parse()
	peer.SideBySide(sideBySide)
	code := m.Run()
	peer.RemoveBuild()
	os.Exit(code)
}
