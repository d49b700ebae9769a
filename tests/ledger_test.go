package tests

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// fate is how a task is meant to end, and by which detours.
type fate int

const (
	completes     fate = iota
	comesLate          // enqueued with a delay
	enqueuedTwice      // by two producers with one idempotency key
	nackedOnce
	dies // nacked until its attempts are used up
	abandonedOnce
	losesLease // its first worker vanishes
	beats      // its worker extends the lease
	fails      // its worker submits an error
	fates      // how many there are
)

// ending is how a task ended.
type ending string

const (
	completed ending = "completed"
	failed    ending = "failed"
	dead      ending = "dead"
)

// due is the ending that a fate asks for.
func (f fate) due() ending {
	switch f {
	case dies:
		return dead
	case fails:
		return failed
	}
	return completed
}

// entry is what the ledger knows of one task.
type entry struct {
	number  int // the producer's number of the task, which is its payload
	fate    fate
	claims  int
	endings []ending
}

// ledger records what clients saw: which task ids were acknowledged, how often each was claimed, how each ended.
type ledger struct {
	mu    sync.Mutex // guards all below
	tasks map[string]*entry
	ids   map[int]string // by number
	ended int
}

func newLedger() *ledger { return &ledger{tasks: map[string]*entry{}, ids: map[int]string{}} }

// enqueued records an acknowledged enqueue. The same number may come twice only with the same id.
func (l *ledger) enqueued(number int, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.ids[number]; known && before != id {
		return fmt.Errorf("task %d was enqueued as %s and as %s", number, before, id)
	}
	l.ids[number] = id
	l.entry(id, number)
	return nil
}

// entry finds or makes the entry of a task: a worker may claim it before its producer has read the reply.
func (l *ledger) entry(id string, number int) *entry {
	e := l.tasks[id]
	if e == nil {
		e = &entry{number: number, fate: fate(number % int(fates))}
		l.tasks[id] = e
	}
	return e
}

// claimed records a claim and returns the task's fate and how many claims it has had.
func (l *ledger) claimed(id string, number int) (fate, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(id, number)
	e.claims++
	return e.fate, e.claims
}

func (l *ledger) end(id string, how ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[id].endings = append(l.tasks[id].endings, how)
	l.ended++
}

// progress is the number of endings so far.
func (l *ledger) progress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// count is the number of tasks that ended so.
func (l *ledger) count(how ending) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.tasks {
		if slices.Contains(e.endings, how) {
			n++
		}
	}
	return n
}

// balance checks that n tasks were enqueued and that each ended exactly once, and as it should.
func (l *ledger) balance(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) != n || len(l.tasks) != n {
		return fmt.Errorf("%d tasks acknowledged and %d seen, want %d", len(l.ids), len(l.tasks), n)
	}
	for id, e := range l.tasks {
		if len(e.endings) != 1 || e.endings[0] != e.fate.due() {
			return fmt.Errorf("task %d (%s, fate %d) after %d claims ended as %v, want once as %s",
				e.number, id, e.fate, e.claims, e.endings, e.fate.due())
		}
	}
	return nil
}

func TestLedgerFindsImbalance(t *testing.T) {
	good := func() *ledger {
		l := newLedger()
		for number, id := range []string{"a", "b"} {
			if err := l.enqueued(number, id); err != nil {
				t.Fatal(err)
			}
			l.claimed(id, number)
			l.end(id, completed)
		}
		return l
	}
	if err := good().balance(2); err != nil {
		t.Errorf("balanced: %v", err)
	}
	for name, spoil := range map[string]func(l *ledger){
		"a task ends twice":        func(l *ledger) { l.end("a", completed) },
		"a task ends otherwise":    func(l *ledger) { l.tasks["b"].endings[0] = dead },
		"a task does not end":      func(l *ledger) { l.tasks["b"].endings = nil },
		"an unknown task is seen":  func(l *ledger) { l.claimed("c", 2) },
		"a task is missing":        func(l *ledger) { delete(l.ids, 0) },
		"a task has no claim left": func(l *ledger) { delete(l.tasks, "a") },
	} {
		l := good()
		spoil(l)
		if l.balance(2) == nil {
			t.Errorf("%s: the ledger balances", name)
		}
	}
	if good().enqueued(0, "other") == nil {
		t.Error("two ids for one number were accepted")
	}
}
