package tests

import (
	"context"
	"fmt"
	"testing"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"
)

// auditNative compares what the Q commands tell of queues and tasks with what the raw ones do, and with the ledger.
func (c *cycle) auditNative(ctx context.Context) error {
	for _, q := range c.queues {
		raw, err := c.client.Stats(ctx, q)
		if err != nil {
			return err
		}
		stats, err := c.native.fields(ctx, "Q.STATS", q.Command, "TENANT", q.Tenant)
		if err != nil {
			return err
		}
		if stats["ready"] != int64(0) || stats["delayed"] != raw.Delayed || stats["inProgress"] != raw.InProgress || stats["dlq"] != raw.DLQ {
			return fmt.Errorf("%w: Q.STATS of %v tells %v, the raw commands %+v", errLedger, q, stats, raw)
		}
	}
	ends := map[[2]bool]int{} // by who enqueued the task and who ended it, true for the Q commands
	for id, e := range c.ledger.tasks {
		want := codeqclient.Failed
		if e.fate.due() == completed {
			want = codeqclient.Completed
		}
		task, err := c.native.fields(ctx, "Q.GET", id)
		if err != nil || task["status"] != string(want) || task["payload"] != fmt.Sprint(e.number) {
			return fmt.Errorf("%w: Q.GET of task %d tells %v, %w", errLedger, e.number, task, err)
		}
		if e.fate.due() == dead {
			continue
		}
		var index int
		if _, err := fmt.Sscanf(fmt.Sprint(task["workerId"]), "worker-%d", &index); err != nil {
			return fmt.Errorf("%w: task %d was ended by %v", errLedger, e.number, task["workerId"])
		}
		ends[[2]bool{id[14] == '8', c.clientOf(index) == operations(c.native)}]++ // its ids are UUIDs of version 8, codeQ's of 4
		result, err := c.native.fields(ctx, "Q.RESULT", id)
		if err != nil || result["status"] != string(want) {
			return fmt.Errorf("%w: Q.RESULT of task %d tells %v, %w", errLedger, e.number, result, err)
		}
	}
	if len(ends) != 4 {
		return fmt.Errorf("%w: some kind of client got nothing of the other's: %v", errLedger, ends)
	}
	return nil
}

// fields sends a command whose reply is a map.
func (n *nativeClient) fields(ctx context.Context, args ...any) (map[any]any, error) {
	reply, _, err := n.do(ctx, args...)
	fields, ok := reply.(map[any]any)
	if err == nil && !ok {
		err = fmt.Errorf("%v: %v", args, reply)
	}
	return fields, err
}

// TestMixedCycleRestart has half of the producers and workers use codeQ's client and the others the Q commands, on the same queues at the
// same time, while the server is killed now and then. Whoever enqueued a task, it is seen and ended by either, exactly once.
func TestMixedCycleRestart(t *testing.T) {
	targets := []target{codeqTarget(4, "hash", "everysec"), codeqTarget(4, "task", "everysec")}
	if full() {
		targets = append(targets, codeqTarget(4, "hash", "always"), codeqTarget(16, "static", "no"), codeqTarget(1, "hash", "no"),
			codeqTarget(16, "task", "always"))
	}
	eachTargetAtOnce(t, targets, func(t *testing.T, opts peer.Options) {
		ctx := testContext(t)
		g := newGate()
		n := cycleTasks(opts)
		if !full() {
			n = min(n, 1500)
		}
		c := newCycle(ctx, t, peer.ForTest(t, opts), n, false, g)
		c.native = &nativeClient{rdb: c.client.Redis(), gate: g, claiming: c.client.Claiming()}
		var marks []int
		for i := 1; i < pick(*roundsFlag, 4, 20); i++ {
			marks = append(marks, n*i/pick(*roundsFlag, 4, 20))
		}
		crashed := make(chan error, 1)
		go func() { crashed <- c.crashes(ctx, marks) }() // ends after the last crash, or with the test's context
		if err := c.run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-crashed; err != nil {
			t.Fatal(err)
		}
		if err := c.auditNative(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.audit(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
