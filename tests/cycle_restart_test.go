package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"codeq/internal/peer"
)

// gate is where clients wait while the server is down.
type gate struct {
	mu sync.Mutex // guards up
	up chan struct{}
}

// newGate makes a gate that is open.
func newGate() *gate {
	g := &gate{up: make(chan struct{})}
	close(g.up)
	return g
}

// shut makes clients wait; only the goroutine that kills and restarts the server calls it and open.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.up)
}

// wait returns when the server is there, true, or when ctx ends, false. It is codeqclient's Recover.
func (g *gate) wait(ctx context.Context, _ error) bool {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	select {
	case <-up:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// crashes kills the server whenever the number of ended tasks reaches the next of the marks, and restarts it.
func (c *cycle) crashes(ctx context.Context, marks []int) error {
	for _, mark := range marks {
		err := peer.Poll(ctx, pollInterval, func() (bool, error) { return c.ledger.progress() >= mark, nil })
		if err != nil {
			return fmt.Errorf("wait for %d ended tasks: %w", mark, err)
		}
		c.gate.shut()
		c.server.Kill9()
		if err := c.server.Restart(ctx); err != nil {
			return fmt.Errorf("restart after %d ended tasks: %w", mark, err)
		}
		c.gate.open()
	}
	return nil
}

// TestCodeqCycleRestart kills the server in the middle of the cycle. Clients reconnect; one that got no reply looks
// what became of its operation; every task still ends exactly once.
func TestCodeqCycleRestart(t *testing.T) {
	targets := []target{redisTarget("always")}
	for _, policy := range policies {
		targets = append(targets, codeqTarget(4, "hash", policy))
	}
	targets = append(targets, codeqTarget(16, "static", "everysec"), codeqTarget(4, "task", "everysec"))
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		c := newCycle(ctx, t, peer.ForTest(t, opts), cycleTasks(opts), false, newGate())
		crashed := make(chan error, 1)
		go func() { // ends after the last crash, or with the test's context
			crashed <- c.crashes(ctx, []int{c.n / 10, c.n / 3, c.n * 2 / 3})
		}()
		if err := c.run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-crashed; err != nil {
			t.Fatal(err)
		}
		if err := c.audit(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
