package e2e

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
)

// The events that a driver reports; doc.go says what they mean.
const (
	enqueued = "enqueued"
	done     = "done"
	failed   = "failed"
	dead     = "dead"
	note     = "note"
	end      = "end"
)

// event is one line of a driver.
type event struct {
	Event   string `json:"event"`
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
	Dies    bool   `json:"dies"`
	Fails   *int   `json:"fails"`
}

// entry is what a driver saw of one task: how often each event came, and what its enqueue promised.
type entry struct {
	enqueued, done, failed, dead int
	dies                         bool
	fails                        *int
}

// ledger holds every task that a driver spoke of.
type ledger struct {
	mu    sync.Mutex // guards all below
	tasks map[string]*entry
	ended int // tasks that are done or dead, each counted once
}

func newLedger() *ledger { return &ledger{tasks: map[string]*entry{}} }

// record enters an event about a task.
func (l *ledger) record(e event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.ID == "" {
		return fmt.Errorf("event %q without an id", e.Event)
	}
	task := l.tasks[e.ID]
	if task == nil {
		task = &entry{}
		l.tasks[e.ID] = task
	}
	before := task.done + task.dead
	switch e.Event {
	case enqueued:
		task.enqueued++
		task.dies, task.fails = e.Dies, e.Fails
	case done:
		task.done++
	case failed:
		task.failed++
	case dead:
		task.dead++
	default:
		return fmt.Errorf("unknown event %q", e.Event)
	}
	if before == 0 && task.done+task.dead > 0 {
		l.ended++
	}
	return nil
}

// progress is the number of tasks that have ended.
func (l *ledger) progress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// summary counts a whole ledger.
type summary struct {
	tasks, done, dead, failed, repeats int
}

func (s summary) String() string {
	return fmt.Sprintf("%d tasks: %d done, %d dead; %d failed attempts, %d done again",
		s.tasks, s.done, s.dead, s.failed, s.repeats)
}

// balance checks that at least n tasks were enqueued and that each ended as it was meant to: once, or with repeats allowed at
// least once.
func (l *ledger) balance(n int, repeats bool) (summary, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s summary
	for _, id := range slices.Sorted(maps.Keys(l.tasks)) {
		task := l.tasks[id]
		if err := task.check(repeats); err != nil {
			return s, fmt.Errorf("task %s: %w", id, err)
		}
		s.tasks++
		s.failed += task.failed
		if task.dies {
			s.dead++
			continue
		}
		s.done++
		s.repeats += task.done - 1
	}
	if s.tasks < n {
		return s, fmt.Errorf("%d tasks were enqueued, want %d", s.tasks, n)
	}
	return s, nil
}

func (e *entry) check(repeats bool) error {
	switch {
	case e.enqueued != 1:
		return fmt.Errorf("enqueued %d times", e.enqueued)
	case e.dies && (e.done > 0 || e.dead != 1):
		return fmt.Errorf("meant to die: done %d times, dead %d times", e.done, e.dead)
	case e.dies:
	case e.dead > 0 || e.done == 0:
		return fmt.Errorf("meant to be done: done %d times, dead %d times", e.done, e.dead)
	case e.done > 1 && !repeats:
		return fmt.Errorf("done %d times", e.done)
	}
	// A crash may cost a task one of its attempts before a worker has seen it, so a dying one may have failed less often.
	if e.fails != nil && !(e.dies && repeats) && (e.failed < *e.fails || e.failed > *e.fails && !repeats) {
		return fmt.Errorf("%d attempts failed, want %d", e.failed, *e.fails)
	}
	return nil
}

func TestLedgerFindsImbalance(t *testing.T) {
	one := 1
	good := []event{
		{Event: enqueued, ID: "a", Fails: &one}, {Event: failed, ID: "a"}, {Event: done, ID: "a"},
		{Event: enqueued, ID: "b", Dies: true}, {Event: dead, ID: "b"},
	}
	balance := func(repeats bool, events ...event) error {
		l := newLedger()
		for _, e := range events {
			if err := l.record(e); err != nil {
				return err
			}
		}
		_, err := l.balance(2, repeats)
		return err
	}
	if err := balance(false, good...); err != nil {
		t.Errorf("balanced: %v", err)
	}
	again := append(slices.Clone(good), event{Event: done, ID: "a"}, event{Event: failed, ID: "a"})
	if err := balance(true, again...); err != nil {
		t.Errorf("balanced with repeats: %v", err)
	}
	if balance(false, again...) == nil {
		t.Error("a repeat was accepted")
	}
	for name, extra := range map[string]event{
		"enqueued twice":           {Event: enqueued, ID: "a"},
		"dead and not meant to":    {Event: dead, ID: "a"},
		"done and meant to die":    {Event: done, ID: "b"},
		"dead twice":               {Event: dead, ID: "b"},
		"a task nobody enqueued":   {Event: done, ID: "c"},
		"a task that does not end": {Event: enqueued, ID: "c"},
		"an event without an id":   {Event: done},
		"an unknown event":         {Event: "lost", ID: "a"},
	} {
		if balance(true, append(slices.Clone(good), extra)...) == nil {
			t.Errorf("%s: the ledger balances", name)
		}
	}
	for missing := range good {
		if balance(true, slices.Delete(slices.Clone(good), missing, missing+1)...) == nil {
			t.Errorf("without %+v the ledger balances", good[missing])
		}
	}
}
