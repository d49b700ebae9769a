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

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	peer.RemoveBuild()
	os.Exit(code)
}
