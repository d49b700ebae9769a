package tests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeq/internal/codeqclient"
	"codeq/internal/peer"
)

// clientOn makes a codeQ client on one database whose clock the test moves and whose ids count up.
func clientOn(t *testing.T, s *peer.Server, db int) (c *codeqclient.Client, advance func(time.Duration)) {
	t.Helper()
	rdb := codeqclient.Dial(s.Addr(), db, 10)
	t.Cleanup(func() { _ = rdb.Close() })
	now := time.Unix(1_800_000_000, 0)
	ids := 0
	c, err := codeqclient.New(t.Context(), rdb, codeqclient.Options{
		Now:   func() time.Time { return now },
		NewID: func() string { ids++; return fmt.Sprintf("id-%d-%d", db, ids) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, func(d time.Duration) { now = now.Add(d) }
}

// must ends the test on an error of a step that is not what it is about.
func must[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestMigrate moves a queue from one database to another, as codeQ moves a shard, and runs it there to its end.
func TestMigrate(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := t.Context()
		s := peer.ForTest(t, opts)
		from, _ := clientOn(t, s, 0)
		to, advance := clientOn(t, s, 1)
		q := codeqclient.Queue{Command: "MOVE_ME", Tenant: "acme"}
		for i := range 10 {
			delay := time.Duration(i/8) * time.Minute // the last two
			_, _, err := from.Enqueue(ctx, codeqclient.Enqueue{Queue: q, Priority: 3, MaxAttempts: 1, Delay: delay})
			must(t, 0, err)
		}
		claimed, err := from.Claim(ctx, q, "w", time.Minute)
		if must(t, claimed, err) == nil || claimed.ID != "id-0-1" {
			t.Fatalf("first claim: %+v", claimed)
		}
		must(t, 0, from.Nack(ctx, q, claimed.ID, "w", time.Second, "no"))

		pending, err := from.MigratePending(ctx, to, q, q, 3, 100)
		must(t, 0, err)
		delayed, err := from.MigrateDelayed(ctx, to, q, q)
		must(t, 0, err)
		buried, err := from.MigrateDead(ctx, to, q, q, 100)
		must(t, 0, err)
		if pending != 7 || delayed != 2 || buried != 1 {
			t.Fatalf("moved %d pending, %d delayed, %d dead; want 7, 2, 1", pending, delayed, buried)
		}
		left, err := from.Stats(ctx, q)
		if must(t, left, err) != (codeqclient.Stats{}) {
			t.Errorf("left behind: %+v", left)
		}
		advance(2 * time.Minute)
		var claimedIDs []string
		for i := 2; i <= 10; i++ {
			task, err := to.Claim(ctx, q, "w", time.Minute)
			if must(t, task, err) == nil {
				t.Fatalf("claim %d after the move: none left", i)
			}
			claimedIDs = append(claimedIDs, task.ID)
			must(t, 0, to.Submit(ctx, q, task.ID, "w", nil, ""))
		}
		// What was pending keeps its order; what was delayed became pending after it.
		want := "id-0-2 id-0-3 id-0-4 id-0-5 id-0-6 id-0-7 id-0-8"
		if got := strings.Join(claimedIDs, " "); !strings.HasPrefix(got, want) {
			t.Errorf("claimed after the move: %s; want %s first", got, want)
		}
		stats, err := to.Stats(ctx, q)
		if must(t, stats, err).Waiting() != 0 || stats.DLQ != 1 {
			t.Errorf("at the end: %+v", stats)
		}
	})
}

// TestTaskJSON compares the bytes that a task is stored as, since other clients read them.
func TestTaskJSON(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := t.Context()
		c, _ := clientOn(t, peer.ForTest(t, opts), 0)
		q := codeqclient.Queue{Command: "Render"}
		_, became, err := c.Enqueue(ctx, codeqclient.Enqueue{Queue: q, Payload: `{"a":1}`})
		if must(t, became, err) != true {
			t.Error("the first task did not make the queue ready")
		}
		task, err := c.Claim(ctx, q, "w1", time.Minute)
		if must(t, task, err) == nil {
			t.Fatal("nothing to claim")
		}
		const want = `{"id":"id-0-1","command":"Render","payload":"{\"a\":1}","status":"IN_PROGRESS",` +
			`"lastKnownLocation":"INPROG_SET","workerId":"w1","leaseUntil":"2027-01-15T08:01:00Z","attempts":1,` +
			`"createdAt":"2027-01-15T08:00:00Z","updatedAt":"2027-01-15T08:00:00Z"}`
		rdb := c.Redis()
		got, err := rdb.HGet(ctx, "codeq:tasks", "id-0-1").Result()
		if must(t, got, err) != want {
			t.Errorf("stored\n%s\nwant\n%s", got, want)
		}
		lease, err := rdb.Get(ctx, "codeq:lease:id-0-1").Result()
		if must(t, lease, err) != "w1" {
			t.Errorf("lease of %q", lease)
		}
		members, err := rdb.SMembers(ctx, "codeq:q:render:inprog").Result()
		if !slices.Equal(must(t, members, err), []string{"id-0-1"}) {
			t.Errorf("in progress: %q", members)
		}
		score, err := rdb.ZScore(ctx, "codeq:tasks:ttl", "id-0-1").Result()
		if must(t, score, err) != 1_800_086_400 {
			t.Errorf("kept until %v", score)
		}
		if err := c.Submit(ctx, q, "id-0-1", "other", nil, ""); err != codeqclient.ErrNotOwner {
			t.Errorf("submit by another worker: %v", err)
		}
	})
}

func TestSubscriptions(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := t.Context()
		c, advance := clientOn(t, peer.ForTest(t, opts), 0)
		start := time.Unix(1_800_000_000, 0)
		for i, id := range []string{"late", "soon"} {
			must(t, 0, c.Subscribe(ctx, codeqclient.Subscription{
				ID: id, Command: "RENDER", ExpiresAt: start.Add(time.Duration(2-i) * time.Hour),
			}))
		}
		ids, err := c.Subscribers(ctx, "RENDER")
		if !slices.Equal(must(t, ids, err), []string{"soon", "late"}) {
			t.Errorf("subscribers: %q", ids)
		}
		advance(90 * time.Minute)
		ids, err = c.Subscribers(ctx, "RENDER")
		if !slices.Equal(must(t, ids, err), []string{"late"}) {
			t.Errorf("subscribers after one expired: %q", ids)
		}
		for _, want := range []bool{true, false} {
			may, err := c.MayNotify(ctx, "late", time.Hour)
			if must(t, may, err) != want {
				t.Errorf("may notify: %v, want %v", may, want)
			}
		}
		for want := int64(1); want < 3; want++ {
			next, err := c.NextInGroup(ctx, "RENDER", "g")
			if must(t, next, err) != want {
				t.Errorf("next in group: %d, want %d", next, want)
			}
		}
	})
}

// TestRateLimit checks the script's float arithmetic to the last digit, with a rate that is written as an exponent.
func TestRateLimit(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := t.Context()
		c, advance := clientOn(t, peer.ForTest(t, opts), 0)
		for i, step := range []struct {
			pause   time.Duration
			cost    float64
			allowed bool
			wait    float64
		}{
			{0, 0.7, true, 0},
			{0, 0.2, true, 0},
			{0, 0.3, false, (0.3 - (1.0 - 0.7 - 0.2)) / 1e-1},
			{1 * time.Second, 0.2, true, 0},
		} {
			advance(step.pause)
			allowed, wait, err := c.Allow(ctx, "producer", "token", "1e-1", 1, step.cost)
			if must(t, allowed, err) != step.allowed || strconv.FormatFloat(wait, 'g', 12, 64) !=
				strconv.FormatFloat(step.wait, 'g', 12, 64) {
				t.Errorf("step %d: allowed %v, wait %v; want %v, %v", i, allowed, wait, step.allowed, step.wait)
			}
		}
		keys, err := c.Redis().Keys(ctx, "codeq:rl:producer:*").Result()
		if len(must(t, keys, err)) != 1 {
			t.Fatalf("buckets: %q", keys)
		}
		// 1 − 0.7 − 0.2 + 1 s × 0.1/s − 0.2, in the order in which the script computes it.
		var left float64 = 1
		for _, change := range []float64{-0.7, -0.2, 0.1, -0.2} {
			left += change
		}
		tokens, err := c.Redis().HGet(ctx, keys[0], "tokens").Result()
		if want := strconv.FormatFloat(left, 'g', 17, 64); must(t, tokens, err) != want {
			t.Errorf("tokens at the end: %s, want %s", tokens, want)
		}
	})
}

// TestTopics lets many clients change one topic under WATCH; no change may be lost.
func TestTopics(t *testing.T) {
	eachTarget(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		ctx := t.Context()
		c, _ := clientOn(t, peer.ForTest(t, opts), 0)
		const clients, changes = 4, 25
		var wg sync.WaitGroup
		errs := make(chan error, clients*changes)
		for range clients {
			wg.Go(func() {
				for range changes {
					errs <- c.UpdateTopic(ctx, "jobs", func(old string) string { return old + "+" })
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			must(t, 0, err)
		}
		got, err := c.Redis().Get(ctx, "codeq:admin:topic:jobs").Result()
		if len(must(t, got, err)) != clients*changes {
			t.Errorf("%d changes left of %d", len(got), clients*changes)
		}
		must(t, 0, c.DeleteTopic(ctx, "jobs"))
		topics, err := c.Topics(ctx)
		if len(must(t, topics, err)) != 0 {
			t.Errorf("topics after deletion: %q", topics)
		}
	})
}
