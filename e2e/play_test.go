package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"codeq/internal/peer"
)

// pollInterval is how often a Go driver looks for what sends no signal.
const pollInterval = 10 * time.Millisecond

// performance is one run of a Go driver: it reports the tasks and knows which have not ended.
type performance struct {
	order
	ctx    context.Context
	report func(event)

	mu    sync.Mutex // guards all below
	open  map[string]bool
	ended map[string]bool
}

func perform(ctx context.Context, o order, report func(event)) *performance {
	return &performance{order: o, ctx: ctx, report: report, open: map[string]bool{}, ended: map[string]bool{}}
}

// enqueue calls send until the server has the task, and reports it with what is to become of it. Only a server that will be
// killed may fail to answer.
func (p *performance) enqueue(promise event, send func() error) error {
	if err := p.insist(send); err != nil {
		return fmt.Errorf("enqueue %s: %w", promise.ID, err)
	}
	promise.Event = enqueued
	p.report(promise)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended[promise.ID] {
		p.open[promise.ID] = true
	}
	return nil
}

// insist calls do until it succeeds or, when the server is not going to be killed, once.
func (p *performance) insist(do func() error) error {
	var last error
	err := peer.Poll(p.ctx, pollInterval, func() (bool, error) {
		last = do()
		if last != nil && !p.kill {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (p *performance) done(id string) { p.end(event{Event: done, ID: id}) }
func (p *performance) dead(id string) { p.end(event{Event: dead, ID: id}) }
func (p *performance) failed(id string, attempt int) {
	p.report(event{Event: failed, ID: id, Attempt: attempt})
}

func (p *performance) note(format string, args ...any) {
	p.report(event{Event: note, Text: fmt.Sprintf(format, args...)})
}

func (p *performance) end(e event) {
	p.report(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, e.ID)
	p.ended[e.ID] = true
}

// hasEnded reports whether a task is done or dead.
func (p *performance) hasEnded(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[id]
}

// waiting is the number of tasks that were enqueued and have not ended.
func (p *performance) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// until waits for a condition.
func (p *performance) until(what string, met func() bool) error {
	err := peer.Poll(p.ctx, pollInterval, func() (bool, error) { return met(), nil })
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}

// settle waits until every task has ended.
func (p *performance) settle() error {
	return p.until("all tasks have ended", func() bool { return p.waiting() == 0 })
}

// shuffled are the numbers of the tasks, in the order in which the seed has them enqueued.
func (p *performance) shuffled() []int { return rand.New(rand.NewPCG(p.seed, 0)).Perm(p.tasks) }

// attempts counts the attempts at each task, as its workers see them.
type attempts struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

func newAttempts() *attempts { return &attempts{n: map[string]int{}} }

// next counts one more attempt and returns its number, from 1.
func (a *attempts) next(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n[id]++
	return a.n[id]
}

// ids are the names of n tasks.
func ids(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + strconv.Itoa(i)
	}
	return all
}

// failing is the promise of a task whose first n attempts fail.
func failing(id string, n int) event { return event{ID: id, Fails: &n} }

// dying is the promise of a task that fails for good at its n-th attempt.
func dying(id string, n int) event { return event{ID: id, Fails: &n, Dies: true} }

// unexpected is the error for an answer of a client's that is not the one that it should be.
func unexpected(what string, got any, err error) error {
	return fmt.Errorf("%s: got %+v, error %v", what, got, err)
}
