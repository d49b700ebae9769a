package tests

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"codeq/internal/peer"

	"github.com/anishathalye/porcupine"
)

// The model of one queue: the tasks of a priority are claimed in the order in which they were enqueued, those of the highest first;
// a task is claimed by one worker at a time, and only that one ends it or gives it back. Tasks are small numbers, which their
// priorities follow from, so that a state is a few short strings that == compares.

const (
	linPriorities = 3
	// linTasks is how many tasks a history can have: a task is a byte.
	linTasks = 250
)

// What has become of a task; a larger number is heldBy and the worker that has claimed it.
const (
	linAbsent byte = iota
	linPending
	linEnded
	linHeldBy
)

// queueState is the model's state, compared by ==.
type queueState struct {
	crashes int
	pending [linPriorities]string // tasks, the next to be claimed first
	fate    string                // of each task
}

// queueOp is an operation. crashes is how many there had been when its client connected.
type queueOp struct {
	verb    string
	worker  byte
	task    byte
	count   int
	crashes int
}

// queueAnswer is what came back. An operation that has none may have happened until the next crash, or not at all.
type queueAnswer struct {
	lost  bool
	code  string // OK or the first word of an error
	tasks string // that were claimed
}

func (o queueOp) String() string {
	switch o.verb {
	case "claim":
		return fmt.Sprintf("worker %d claims up to %d", o.worker, o.count)
	case "crash":
		return "crash"
	}
	return fmt.Sprintf("worker %d: %s %d", o.worker, o.verb, o.task)
}

func (a queueAnswer) String() string {
	if a.lost {
		return "no answer"
	}
	return strings.TrimSpace(a.code + " " + fmt.Sprint([]byte(a.tasks)))
}

// priorityOf is in place 0 for what is claimed first.
func priorityOf(task byte) int { return int(task) % linPriorities }

// put replaces the fate of a task.
func (s queueState) put(task, fate byte) queueState {
	fates := []byte(s.fate)
	fates[task] = fate
	s.fate = string(fates)
	return s
}

// step is what an operation answers in a state, and the state after it.
func (s queueState) step(o queueOp) (queueAnswer, queueState) {
	ok := queueAnswer{code: "OK"}
	switch o.verb {
	case "crash":
		s.crashes++
		return ok, s
	case "enqueue":
		s.pending[priorityOf(o.task)] += string([]byte{o.task})
		return ok, s.put(o.task, linPending)
	case "claim":
		for p := range s.pending {
			for len(s.pending[p]) > 0 && len(ok.tasks) < o.count {
				task := s.pending[p][0]
				s.pending[p] = s.pending[p][1:]
				s = s.put(task, linHeldBy+o.worker)
				ok.tasks += string([]byte{task})
			}
		}
		return ok, s
	}
	switch fate := s.fate[o.task]; {
	case fate == linAbsent:
		return queueAnswer{code: "NOTFOUND"}, s
	case fate < linHeldBy:
		return queueAnswer{code: "NOTINPROGRESS"}, s
	case fate != linHeldBy+o.worker:
		return queueAnswer{code: "NOTOWNER"}, s
	}
	list := &s.pending[priorityOf(o.task)]
	switch o.verb {
	case "submit":
		return ok, s.put(o.task, linEnded)
	case "nack":
		*list += string([]byte{o.task})
	case "abandon":
		*list = string([]byte{o.task}) + *list
	}
	return ok, s.put(o.task, linPending)
}

// queueModel is the model as package porcupine takes it.
func queueModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return queueState{fate: string(make([]byte, linTasks))} },
		Step: func(state, input, output any) (bool, any) {
			s, o, got := state.(queueState), input.(queueOp), output.(queueAnswer)
			if got.lost && s.crashes > o.crashes {
				return true, s // it had not happened by the crash, so it never will
			}
			want, next := s.step(o)
			return got.lost || got == want, next
		},
	}
}

// byShard splits the history of a queue that is spread over shards, given the homes of its tasks, into one for each shard, where the order is
// that of any queue. A claim is an operation on the shard whose tasks it got. One that got nothing has found each shard empty when it came there,
// and of one without an answer nobody knows where it was: both are operations on every shard.
func byShard(history []porcupine.Operation, homes map[byte]string) ([][]porcupine.Operation, error) {
	parts := map[string][]porcupine.Operation{}
	for _, home := range homes {
		parts[home] = nil
	}
	everywhere := func(o porcupine.Operation) {
		for home := range parts {
			parts[home] = append(parts[home], o)
		}
	}
	for _, o := range history {
		op, answer := o.Input.(queueOp), o.Output.(queueAnswer)
		switch {
		case op.verb == "crash", op.verb == "claim" && answer.tasks == "":
			everywhere(o)
			continue
		case op.verb == "claim":
			op.task = answer.tasks[0]
		}
		home := homes[op.task]
		for _, task := range []byte(answer.tasks) {
			if homes[task] != home {
				return nil, fmt.Errorf("%v: %v, which are at home on %s and %s", op, answer, home, homes[task])
			}
		}
		parts[home] = append(parts[home], o)
	}
	return slices.Collect(maps.Values(parts)), nil
}

// linCheckLimit bounds the search for an order.
const linCheckLimit = 5 * time.Second

// verdicts are those on the histories of a test.
type verdicts struct{ histories, undecided int }

// checkAll checks what the clients have done.
func (v *verdicts) checkAll(t *testing.T, l *linear, opts peer.Options) {
	t.Helper()
	histories, err := l.histories(opts.Supplier == "task")
	if err != nil {
		t.Fatal(err)
	}
	for _, history := range histories {
		v.check(t, history)
	}
}

// check fails the test with the history unless it is linearizable. One that is not decided within the limit is passed over.
func (v *verdicts) check(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	v.histories++
	switch porcupine.CheckOperationsTimeout(queueModel(), history, linCheckLimit) {
	case porcupine.Illegal:
		t.Fatalf("the history is not linearizable:\n%s", listing(history))
	case porcupine.Unknown:
		v.undecided++
	}
}

// suffice fails the test when more than half of the histories were passed over.
func (v *verdicts) suffice(t *testing.T) {
	t.Helper()
	if 2*v.undecided > v.histories {
		t.Errorf("%d of %d histories were not decided within %v", v.undecided, v.histories, linCheckLimit)
	}
}

// listing shows a history by the beginnings of its operations.
func listing(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var out bytes.Buffer
	for _, o := range history {
		fmt.Fprintf(&out, "%5d–%-5d %v: %v\n", o.Call, o.Return, o.Input, o.Output)
	}
	return out.String()
}

// TestQueueModelRefuses proves that the check can fail, and that it grants what a lost answer leaves open. Tasks 0 and 3 are of the first
// priority, 1 is of the second.
func TestQueueModelRefuses(t *testing.T) {
	enqueue := func(task byte) queueOp { return queueOp{verb: "enqueue", task: task} }
	claim := func(worker byte) queueOp { return queueOp{verb: "claim", worker: worker, count: 1} }
	got := func(tasks ...byte) queueAnswer { return queueAnswer{code: "OK", tasks: string(tasks)} }
	submit := queueOp{verb: "submit", worker: 1}
	crash, ok, lost := queueOp{verb: "crash"}, got(), queueAnswer{lost: true}
	type step struct {
		op     queueOp
		answer queueAnswer
	}
	for name, c := range map[string]struct {
		fine  bool
		steps []step
	}{
		"in order":            {true, []step{{enqueue(0), ok}, {enqueue(3), ok}, {claim(1), got(0)}, {claim(1), got(3)}, {submit, ok}}},
		"wrong end":           {false, []step{{enqueue(0), ok}, {enqueue(3), ok}, {claim(1), got(3)}}},
		"priority":            {true, []step{{enqueue(1), ok}, {enqueue(0), ok}, {claim(1), got(0)}}},
		"wrong priority":      {false, []step{{enqueue(1), ok}, {enqueue(0), ok}, {claim(1), got(1)}}},
		"claimed twice":       {false, []step{{enqueue(0), ok}, {claim(1), got(0)}, {claim(2), got(0)}}},
		"not found":           {false, []step{{enqueue(0), ok}, {claim(1), got()}}},
		"another's":           {false, []step{{enqueue(0), ok}, {claim(2), got(0)}, {submit, ok}}},
		"refused":             {true, []step{{enqueue(0), ok}, {claim(2), got(0)}, {submit, queueAnswer{code: "NOTOWNER"}}}},
		"ended twice":         {false, []step{{enqueue(0), ok}, {claim(1), got(0)}, {submit, ok}, {submit, ok}}},
		"lost in a crash":     {false, []step{{enqueue(0), ok}, {crash, ok}, {claim(1), got()}}},
		"unanswered, done":    {true, []step{{enqueue(0), lost}, {crash, ok}, {claim(1), got(0)}}},
		"unanswered, undone":  {true, []step{{enqueue(0), lost}, {crash, ok}, {claim(1), got()}}},
		"undone after all":    {false, []step{{enqueue(0), lost}, {crash, ok}, {claim(1), got()}, {claim(1), got(0)}}},
		"claimed, unanswered": {true, []step{{enqueue(0), ok}, {claim(1), lost}, {crash, ok}, {claim(2), got()}, {submit, ok}}},
	} {
		var history []porcupine.Operation
		for i, s := range c.steps {
			call := int64(10 * i)
			end := call + 1
			if s.answer.lost {
				end = call + 12 // the next operation is the crash
			}
			history = append(history, porcupine.Operation{Input: s.op, Call: call, Output: s.answer, Return: end})
		}
		if fine := porcupine.CheckOperations(queueModel(), history); fine != c.fine {
			t.Errorf("%s: linearizable %v, want %v:\n%s", name, fine, c.fine, listing(history))
		}
	}
}

// TestSpreadQueueModelRefuses proves the check of queues that are spread over shards: there is an order on each shard, and none between them.
// Tasks 0, 3 and 6 are of one priority.
func TestSpreadQueueModelRefuses(t *testing.T) {
	homes := map[byte]string{0: "one", 3: "one", 6: "two"}
	enqueued := []byte{0, 3, 6}
	claim := func(tasks ...byte) (queueOp, queueAnswer) {
		return queueOp{verb: "claim", worker: 1, count: 2}, queueAnswer{code: "OK", tasks: string(tasks)}
	}
	for name, c := range map[string]struct {
		fine   bool
		claims [][]byte
	}{
		"shard by shard":       {true, [][]byte{{0, 3}, {6}, {}}},
		"the other one first":  {true, [][]byte{{6}, {0, 3}, {}}},
		"wrong end":            {false, [][]byte{{6}, {3, 0}}},
		"less than there is":   {false, [][]byte{{0}, {6}, {3}}},
		"over both":            {false, [][]byte{{0, 6}, {3}}},
		"nothing too early":    {false, [][]byte{{0, 3}, {}, {6}}},
		"claimed twice":        {false, [][]byte{{6}, {6}, {0, 3}}},
		"lost":                 {false, [][]byte{{0, 3}, {}}},
		"nothing for too long": {false, [][]byte{{}, {0, 3}, {6}}},
	} {
		var history []porcupine.Operation
		add := func(op queueOp, a queueAnswer) {
			call := int64(10 * len(history))
			history = append(history, porcupine.Operation{Input: op, Call: call, Output: a, Return: call + 1})
		}
		for _, task := range enqueued {
			add(queueOp{verb: "enqueue", task: task}, queueAnswer{code: "OK"})
		}
		for _, tasks := range c.claims {
			add(claim(tasks...))
		}
		parts, err := byShard(history, homes)
		fine := err == nil
		for _, part := range parts {
			fine = fine && porcupine.CheckOperations(queueModel(), part)
		}
		if fine != c.fine {
			t.Errorf("%s: linearizable %v, %v, want %v:\n%s", name, fine, err, c.fine, listing(history))
		}
	}
}
