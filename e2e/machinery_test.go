package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"strconv"
	"testing"
	"time"

	"github.com/RichardKnop/machinery/v2"
	backendiface "github.com/RichardKnop/machinery/v2/backends/iface"
	redisbackend "github.com/RichardKnop/machinery/v2/backends/redis"
	brokeriface "github.com/RichardKnop/machinery/v2/brokers/iface"
	redisbroker "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	eagerlock "github.com/RichardKnop/machinery/v2/locks/eager"
	"github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"
)

// noMachineryKill is why machinery is left in peace.
const noMachineryKill = "its broker takes tasks by BLPOP, so what is on its way to a worker when the connection breaks is lost"

// TestMachineryRedigo uses the broker and the backend that stand on redigo.
func TestMachineryRedigo(t *testing.T) {
	testMachinery(t, func(cnf *config.Config, addr string) (brokeriface.Broker, backendiface.Backend) {
		return redisbroker.New(cnf, addr, "", "", 1), redisbackend.New(cnf, addr, "", "", 1)
	})
}

// TestMachineryGoRedis uses those that stand on go-redis.
func TestMachineryGoRedis(t *testing.T) {
	testMachinery(t, func(cnf *config.Config, addr string) (brokeriface.Broker, backendiface.Backend) {
		return redisbroker.NewGR(cnf, []string{addr}, 2), redisbackend.NewGR(cnf, []string{addr}, 2)
	})
}

type connectMachinery func(cnf *config.Config, addr string) (brokeriface.Broker, backendiface.Backend)

func testMachinery(t *testing.T, connect connectMachinery) {
	log.Set(stdlog.New(io.Discard, "", 0))
	test(t, client{
		drive: func(ctx context.Context, o order, report func(event)) error {
			return driveMachinery(ctx, o, report, connect)
		},
		tasks: 400, brief: 160, limit: 2 * time.Minute,
		noKill: noMachineryKill,
		left:   keysBut(),
	})
}

// The kinds of work that are sent to machinery; some are several tasks.
const (
	machineryPlain      = iota
	machineryLater      // due in a second
	machineryRetried    // fails once, and is tried again after a second
	machineryRetryLater // asks twice to be tried again a moment later
	machineryDoomed     // fails for good, which calls another task
	machineryChain      // three in a row, each with the result of the one before
	machineryGroup      // three side by side
	machineryChord      // three side by side, and one with their results
	machineryKinds
)

// machineryWait bounds the wait for one result, machineryPoll is how often the client looks for it.
const (
	machineryWait = time.Minute
	machineryPoll = 5 * time.Millisecond
)

// machineryRun is a run of the driver.
type machineryRun struct {
	*performance
	server *machinery.Server
	tries  *attempts
	checks []func() error // of the results, once all is sent
	groups []string       // what the backend knows of them has to be removed in the end
}

func driveMachinery(ctx context.Context, o order, report func(event), connect connectMachinery) error {
	cnf := &config.Config{
		DefaultQueue: "machinery_tasks", ResultsExpireIn: 3600, NoUnixSignals: true,
		Redis: &config.RedisConfig{MaxIdle: 10, NormalTasksPollPeriod: 1000, DelayedTasksPollPeriod: 2},
	}
	broker, backend := connect(cnf, o.addr)
	r := &machineryRun{
		performance: perform(ctx, o, report), tries: newAttempts(),
		server: machinery.NewServer(cnf, broker, backend, eagerlock.New()),
	}
	if err := r.server.RegisterTasks(map[string]any{
		"add": r.add, "flaky": r.flaky, "later": r.later, "doomed": r.doomed, "mourn": r.mourn,
	}); err != nil {
		return fmt.Errorf("register the tasks: %w", err)
	}
	worker := r.server.NewWorker("worker", 8)
	quit := make(chan error, 1)
	worker.LaunchAsync(quit)
	for _, i := range r.shuffled() {
		if err := r.send(i%machineryKinds, fmt.Sprint("task-", i), int64(i)); err != nil {
			return err
		}
	}
	for _, check := range r.checks {
		if err := check(); err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	worker.Quit()
	if err := <-quit; err != nil {
		return fmt.Errorf("quit the worker: %w", err)
	}
	if err := r.purge(connect); err != nil {
		return err
	}
	report(event{Event: end})
	return nil
}

// add, flaky, later, doomed and mourn are the tasks. Their ids come with their contexts.
func (r *machineryRun) add(ctx context.Context, numbers ...int64) (int64, error) {
	sum := int64(0)
	for _, n := range numbers {
		sum += n
	}
	r.done(tasks.SignatureFromContext(ctx).UUID)
	return sum, nil
}

func (r *machineryRun) flaky(ctx context.Context) (string, error) {
	return r.failUntil(ctx, 2, errors.New("not yet"))
}

func (r *machineryRun) later(ctx context.Context) (string, error) {
	return r.failUntil(ctx, 3, tasks.NewErrRetryTaskLater("not yet", 20*time.Millisecond))
}

// failUntil succeeds at an attempt, and gives the number of it.
func (r *machineryRun) failUntil(ctx context.Context, last int, reason error) (string, error) {
	id := tasks.SignatureFromContext(ctx).UUID
	attempt := r.tries.next(id)
	if attempt < last {
		r.failed(id, attempt)
		return "", reason
	}
	r.done(id)
	return strconv.Itoa(attempt), nil
}

func (r *machineryRun) doomed(ctx context.Context) error {
	id := tasks.SignatureFromContext(ctx).UUID
	r.failed(id, r.tries.next(id))
	return errors.New("meant to fail")
}

func (r *machineryRun) mourn(ctx context.Context, reason string) error {
	if reason != "meant to fail" {
		return unexpected("the reason for a failure", reason, nil)
	}
	r.done(tasks.SignatureFromContext(ctx).UUID)
	return nil
}

// signature is a task with numbers for arguments.
func signature(id, name string, numbers ...int64) *tasks.Signature {
	s := &tasks.Signature{UUID: id, Name: name}
	for _, n := range numbers {
		s.Args = append(s.Args, tasks.Arg{Type: "int64", Value: n})
	}
	return s
}

// send sends one piece of work and notes how to check its result.
func (r *machineryRun) send(kind int, id string, n int64) error {
	s := signature(id, "add", n, 1)
	want := strconv.FormatInt(n+1, 10)
	promise := event{ID: id}
	switch kind {
	case machineryLater:
		due := time.Now().UTC().Add(time.Second)
		s.ETA = &due
	case machineryRetried:
		s, promise, want = signature(id, "flaky"), failing(id, 1), "2"
		s.RetryCount = 3
	case machineryRetryLater:
		s, promise, want = signature(id, "later"), failing(id, 2), "3"
	case machineryDoomed:
		return r.sendDoomed(id)
	case machineryChain, machineryGroup, machineryChord:
		return r.sendFlow(kind, id, n)
	}
	return r.enqueue(promise, func() error {
		result, err := r.server.SendTaskWithContext(r.ctx, s)
		r.checks = append(r.checks, func() error {
			got, err := result.GetWithTimeout(machineryWait, machineryPoll)
			if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != want {
				return unexpected("result of "+id, got, err)
			}
			return nil
		})
		return err
	})
}

// sendDoomed sends a task that fails, and the one that is called then.
func (r *machineryRun) sendDoomed(id string) error {
	s := signature(id, "doomed")
	mourner := signature(id+"-mourned", "mourn")
	s.OnError = []*tasks.Signature{mourner}
	if err := r.enqueue(event{ID: mourner.UUID}, func() error { return nil }); err != nil {
		return err
	}
	return r.enqueue(dying(id, 1), func() error {
		result, err := r.server.SendTaskWithContext(r.ctx, s)
		r.checks = append(r.checks, func() error {
			if _, err := result.GetWithTimeout(machineryWait, machineryPoll); err == nil || !result.GetState().IsFailure() {
				return unexpected("state of "+id, result.GetState(), err)
			}
			r.dead(id)
			return nil
		})
		return err
	})
}

// sendFlow sends a chain, a group or a chord.
func (r *machineryRun) sendFlow(kind int, id string, n int64) error {
	parts := []*tasks.Signature{
		signature(id+"-a", "add", n), signature(id+"-b", "add", 1), signature(id+"-c", "add", 1),
	}
	for _, part := range parts {
		if err := r.enqueue(event{ID: part.UUID}, func() error { return nil }); err != nil {
			return err
		}
	}
	if kind == machineryChain {
		chain, err := tasks.NewChain(parts...)
		if err != nil {
			return fmt.Errorf("chain: %w", err)
		}
		result, err := r.server.SendChainWithContext(r.ctx, chain)
		if err != nil {
			return fmt.Errorf("send a chain: %w", err)
		}
		r.expect(id, n+2, func() (any, error) { return first(result.GetWithTimeout(machineryWait, machineryPoll)) })
		return nil
	}
	group, err := tasks.NewGroup(parts...)
	if err != nil {
		return fmt.Errorf("group: %w", err)
	}
	r.groups = append(r.groups, group.GroupUUID)
	if kind == machineryGroup {
		results, err := r.server.SendGroupWithContext(r.ctx, group, 2)
		if err != nil {
			return fmt.Errorf("send a group: %w", err)
		}
		r.expect(id, n, func() (any, error) { return first(results[0].GetWithTimeout(machineryWait, machineryPoll)) })
		return nil
	}
	callback := signature(id+"-chord", "add")
	if err := r.enqueue(event{ID: callback.UUID}, func() error { return nil }); err != nil {
		return err
	}
	chord, err := tasks.NewChord(group, callback)
	if err != nil {
		return fmt.Errorf("chord: %w", err)
	}
	result, err := r.server.SendChordWithContext(r.ctx, chord, 2)
	if err != nil {
		return fmt.Errorf("send a chord: %w", err)
	}
	r.expect(id, n+2, func() (any, error) { return first(result.GetWithTimeout(machineryWait, machineryPoll)) })
	return nil
}

// expect notes a result to be checked.
func (r *machineryRun) expect(id string, want int64, get func() (any, error)) {
	r.checks = append(r.checks, func() error {
		got, err := get()
		if err != nil || fmt.Sprint(got) != strconv.FormatInt(want, 10) {
			return unexpected("result of "+id, got, err)
		}
		return nil
	})
}

// first is the only value of a result.
func first[T any](values []T, err error) (any, error) {
	if err != nil || len(values) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%d values", len(values)))
	}
	return values[0], nil
}

// purge removes what the backend remembers of every task, which it would do by itself an hour later.
func (r *machineryRun) purge(connect connectMachinery) error {
	_, backend := connect(r.server.GetConfig(), r.addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.ended {
		if err := backend.PurgeState(id); err != nil {
			return fmt.Errorf("forget %s: %w", id, err)
		}
	}
	for _, id := range r.groups {
		if err := backend.PurgeGroupMeta(id); err != nil {
			return fmt.Errorf("forget %s: %w", id, err)
		}
	}
	return nil
}
