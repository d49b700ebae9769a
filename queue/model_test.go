package queue

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"codeq/internal/clock"
	"codeq/shard"
	"codeq/supplier"
)

// The model: what has become of every task, in plain Go values. Its timers run whenever the clock was moved, as those of the
// store do, so that the two can be compared after every step, crashes and restarts included.
type modelTask struct {
	id, queue   string
	priority    int
	attempts    int64
	maxAttempts int64
	status, at  string
	worker      string
	until       int64 // end of the lease
	due         int64 // of a delayed task
	late        bool  // it was taken from worker since its lease had run out
	ttl         int64 // end of its retention, in unix seconds
	result      bool  // there is one
	created     int64 // the time that its JSON has; 0: none
	purged      bool  // its entry was, so that it must be gone
}

type modelList struct {
	queue    string
	priority int
	home     int // of the tasks, where queues are spread
}

type machine struct {
	transaction *shard.Tx // of each change, the same for all as in a session

	spread  bool // the supplier is task
	fs      *vfs.MemFS
	clk     *clock.Manual
	st      *shard.Store
	router  *supplier.Router
	queues  *Queues
	random  *rand.PCG // one for all starts, lest an id be made twice; drawn from by this goroutine and timers, under shards' locks
	tx      *Tx
	tasks   map[string]*modelTask
	ids     []string
	pending map[modelList][]string // the next one to be claimed first; some are stale, for their tasks are elsewhere or gone
	made    int
	firsts  map[string]modelFirst // by idempotency key
	paused  map[string]bool       // by queue
	until   float64               // of the rate of ratedQueue, in ms
	leaps   int                   // far into the future, of which there are maxLeaps at most, lest retention end

	digits   int // by which queues are cut
	policies atomic.Pointer[Policies]
}

const (
	modelShards  = 3
	modelBackoff = 1000
	retentionMs  = 24 * 3600 * 1000
	rawRetention = 25 * 3600 // s
	maxLeaps     = 8         // of two hours at most
)

// placer is that of package commands, which this one may not import.
type placer struct{ *supplier.Router }

func (p placer) Place(db int, key []byte) (shard.Placement, error) {
	route := p.Route(db, key)
	kinds := map[supplier.PartitionType]shard.Kind{supplier.PartitionHash: shard.KindHash, supplier.PartitionZSet: shard.KindZSet,
		supplier.PartitionList: shard.KindList, supplier.PartitionSet: shard.KindSet}
	return shard.Placement{Shard: route.Shard, Partitioned: route.Kind == supplier.Partitioned, Kind: kinds[route.Type]}, route.Err
}

func (p placer) PartitionsGroups(db int) bool { return p.Spreads(db) }

func (p placer) GroupKeys(group []byte) [][]byte { return supplier.TaskKeys(group) }

func (p placer) Abandoned(db, ordinal int, group []byte, before shard.Former) ([][]byte, error) {
	return Abandoned(p.Router, db, ordinal, group, before)
}

func (p placer) Partitioned(db int) [][]byte { return p.PartitionedKeys(db) }

func newMachine(t rapid.TB, name string) *machine {
	topology := supplier.Topology{Default: modelShards}
	s, err := supplier.NewRegistry().New(name, supplier.Options{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		spread: name == "task",
		fs:     vfs.NewCrashableMem(), clk: clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		random: rand.NewPCG(3, 4), tasks: map[string]*modelTask{}, pending: map[modelList][]string{},
		firsts: map[string]modelFirst{}, paused: map[string]bool{},
	}
	if m.router, err = supplier.NewRouter(supplier.RouterConfig{Topology: topology, Supplier: s}); err != nil {
		t.Fatal(err)
	}
	m.setDigits(DefaultPolicy().SlotDigits)
	m.open(t)
	return m
}

func (m *machine) open(t rapid.TB) {
	quiet := slog.New(slog.DiscardHandler)
	m.queues = New(Options{Router: m.router, Logger: quiet, Policies: m.policies.Load, Random: m.random})
	st, err := shard.Open(shard.Options{
		Dir: "data", FS: m.fs, Names: m.router.Topology().Names(), DefaultShards: modelShards, Databases: 2, Placer: placer{m.router},
		Tracker: m.queues, Clock: m.clk, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Fsync: shard.FsyncAlways,
		CacheBytes: 16 << 10, BlockCache: 8 << 20, MemtableBytes: 256 << 10, LogSegment: 64 << 10, LogMax: 512 << 10,
		ExpireInterval: 100, Random: rand.NewPCG(1, 2), Fatal: func(err error) { panic(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.st, m.tx, m.transaction = st, m.queues.NewTx(), st.NewTx()
}

// change runs fn in a transaction over all shards, as a command on queues or as a raw one, and commits unless fn fails.
func (m *machine) change(t rapid.TB, raw bool, fn func(db shard.DB) error) (failure *Error) {
	tx := m.transaction
	tx.Begin(m.st.All())
	ended := false
	defer func() {
		if !ended { // the test has failed, and goes no further
			tx.End()
		}
	}()
	tx.Mute(!raw)
	err := m.tx.On(tx.DB(0))
	if err == nil {
		err = fn(tx.DB(0))
	}
	if err == nil {
		err = tx.Commit()
	}
	pos := tx.End()
	if ended = true; err == nil {
		err = m.st.Wait(pos)
	}
	if err != nil && !errors.As(err, &failure) {
		t.Fatal(err)
	}
	return failure
}

func (m *machine) drawTask(t *rapid.T) *modelTask {
	if len(m.ids) == 0 {
		t.Skip("there are no tasks")
	}
	return m.tasks[rapid.SampledFrom(m.ids).Draw(t, "task")]
}

// drawHeld draws a task and a worker, more often than not one that holds it.
func (m *machine) drawHeld(t *rapid.T) (*modelTask, []byte) {
	held := slices.DeleteFunc(slices.Clone(m.ids), func(id string) bool { return m.tasks[id].worker == "" })
	if len(held) == 0 || rapid.IntRange(0, 3).Draw(t, "anybody") == 0 {
		return m.drawTask(t), drawWorker(t)
	}
	k := m.tasks[rapid.SampledFrom(held).Draw(t, "held")]
	return k, []byte(k.worker)
}

func drawQueue(t *rapid.T) Name {
	return nameOf(rapid.SampledFrom(modelQueues[:]).Draw(t, "queue"))
}

func drawWorker(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom([]string{"v", "w"}).Draw(t, "worker"))
}

// listOf is the list that a task is pending in.
func (m *machine) listOf(k *modelTask) modelList {
	l := modelList{queue: k.queue, priority: k.priority}
	if m.spread {
		l.home = m.router.Home([]byte(k.id))
	}
	return l
}

// push adds a task to the model's list: it is the last to be claimed, or with next the first.
func (m *machine) push(k *modelTask, next bool) {
	k.status, k.at = statusPending, atPending
	l := m.listOf(k)
	if next {
		m.pending[l] = append([]string{k.id}, m.pending[l]...)
	} else {
		m.pending[l] = append(m.pending[l], k.id)
	}
}

// leave takes a task out of the model's list, if it waits there: the entry that came last.
func (m *machine) leave(k *modelTask) {
	if k.at != atPending {
		return
	}
	l := m.listOf(k)
	for i, id := range slices.Backward(m.pending[l]) {
		if id == k.id {
			m.pending[l] = slices.Delete(slices.Clone(m.pending[l]), i, i+1)
			return
		}
	}
}

// keep prolongs the retention of a task that has changed, and perhaps ended.
func (m *machine) keep(k *modelTask, ended bool) {
	first, last := (m.clk.NowMs()+retentionMs+999)/1000, (m.clk.NowMs()+retentionMs+retentionMs/retentionParts)/1000
	switch {
	case k.ttl > last || ended && k.ttl < first:
		if k.ttl = last; ended {
			k.ttl = first
		}
	case k.ttl < first-retentionSlack:
		k.ttl = last
	}
}

func (m *machine) giveBack(k *modelTask, now, delay int64) {
	k.worker, k.late = "", false
	switch {
	case k.attempts >= k.maxAttempts:
		k.status, k.at = statusFailed, atDLQ
	case delay == 0:
		m.push(k, false)
	default:
		k.status, k.at, k.due = statusPending, atDelayed, now+delay
	}
	m.keep(k, k.at == atDLQ)
}

// timers does what the store's timers do.
func (m *machine) timers() {
	now := m.clk.NowMs()
	for _, id := range m.ids {
		if k := m.tasks[id]; k.status == statusInProgress && k.until <= now {
			worker := k.worker
			m.giveBack(k, now, modelBackoff)
			k.worker, k.late = worker, true
		}
	}
	var due []*modelTask
	for _, id := range m.ids {
		if k := m.tasks[id]; k.at == atDelayed && k.due <= now {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b *modelTask) int {
		if a.due != b.due {
			return int(a.due - b.due)
		}
		return strings.Compare(a.id, b.id)
	})
	for _, k := range due {
		m.push(k, false)
	}
}

func (m *machine) add(id string, name Name, priority int, attempts int64, due int64) *modelTask {
	k := &modelTask{id: id, queue: name.String(), priority: priority, maxAttempts: attempts}
	m.tasks[id], m.ids = k, append(m.ids, id)
	m.keep(k, false)
	if due > m.clk.NowMs() {
		k.status, k.at, k.due = statusPending, atDelayed, due
		return k
	}
	m.push(k, false)
	return k
}

func (m *machine) Claim(t *rapid.T) {
	c := Claim{Worker: drawWorker(t), Queues: rapid.SliceOfNDistinct(rapid.Custom(drawQueue), 1, 3, Name.String).Draw(t, "queues"),
		Count: rapid.IntRange(1, 3).Draw(t, "count"), LeaseMs: rapid.Int64Range(1, 4000).Draw(t, "lease"), Turn: rapid.Uint32().Draw(t, "turn")}
	var got []string
	m.change(t, false, func(shard.DB) error {
		_, err := m.tx.Claim(&c, func(v *View) {
			id, _ := v.doc.string(fieldID)
			got = append(got, string(id))
		})
		return err
	})
	var want []string
	if !m.spread {
		want = m.claim(&c, 0)
	}
	for i := 0; m.spread && len(want) == 0 && i < modelShards; i++ {
		want = m.claim(&c, (int(c.Turn)+i)%modelShards)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
}

// claim is what a claim takes on one shard: of the highest priority, from the queue whose next task is the oldest.
func (m *machine) claim(c *Claim, home int) (want []string) {
	for priority := supplier.MaxPriority; priority >= 0; priority-- {
		for len(want) < c.Count {
			l, ok := m.oldest(c, priority, home)
			if !ok {
				break
			}
			k := m.tasks[m.pending[l][0]]
			m.pending[l] = m.pending[l][1:]
			if k == nil || k.at != atPending {
				continue
			}
			m.claimed(k, c)
			want = append(want, k.id)
		}
	}
	return want
}

// oldest is the list of the claim's queues whose next task was made first. What is no task, or does not say when, comes before all.
func (m *machine) oldest(c *Claim, priority, home int) (oldest modelList, ok bool) {
	first := int64(math.MaxInt64)
	for _, name := range c.Queues {
		l := modelList{name.String(), priority, home}
		if m.paused[l.queue] || len(m.pending[l]) == 0 {
			continue
		}
		since := int64(0)
		if k := m.tasks[m.pending[l][0]]; k != nil {
			since = k.created
		}
		if since < first {
			oldest, ok, first = l, true, since
		}
	}
	return oldest, ok
}

// claimed notes that the claim got the task.
func (m *machine) claimed(k *modelTask, c *Claim) {
	k.status, k.at, k.worker, k.until, k.late = statusInProgress, atInProgress, string(c.Worker), m.clk.NowMs()+c.LeaseMs, false
	if age := m.clk.NowMs() - k.created; k.attempts > 0 || age >= retentionMs/2 {
		m.keep(k, false)
	}
	k.attempts++
}

// owned checks how a command of a worker on a task ended, and tells whether it should have had an effect.
func (k *modelTask) owned(t *rapid.T, worker []byte, failure *Error, lateToo bool) bool {
	want := Code("")
	switch {
	case lateToo && k.late && k.worker == string(worker):
	case k.status != statusInProgress:
		want = NotInProgress
	case k.worker != string(worker):
		want = NotOwner
	}
	got := Code("")
	if failure != nil {
		got = failure.Code
	}
	if got != want {
		t.Fatalf("%+v: the worker %s gets %q, want %q", *k, worker, got, want)
	}
	return want == ""
}

func (m *machine) Submit(t *rapid.T) {
	k, worker := m.drawHeld(t)
	submission, status := Submission{Result: []byte("1")}, statusCompleted
	if rapid.IntRange(0, 2).Draw(t, "failed") == 0 {
		submission, status = Submission{Error: []byte("bad")}, statusFailed
	}
	failure := m.change(t, false, func(shard.DB) error { return m.tx.Submit(worker, []byte(k.id), submission) })
	if k.owned(t, worker, failure, true) {
		m.leave(k)
		k.status, k.at, k.late, k.result = status, atNowhere, false, true
		m.keep(k, true)
	}
}

func (m *machine) Nack(t *rapid.T) {
	k, worker := m.drawHeld(t)
	delay := rapid.SampledFrom([]int64{-1, 0, 1500}).Draw(t, "delay")
	failure := m.change(t, false, func(shard.DB) error {
		_, err := m.tx.Nack(worker, []byte(k.id), delay, nil)
		return err
	})
	if k.owned(t, worker, failure, false) {
		if delay < 0 {
			delay = modelBackoff
		}
		m.giveBack(k, m.clk.NowMs(), delay)
	}
}

func (m *machine) Abandon(t *rapid.T) {
	k, worker := m.drawHeld(t)
	if k.owned(t, worker, m.change(t, false, func(shard.DB) error { return m.tx.Abandon(worker, []byte(k.id)) }), false) {
		k.attempts--
		k.worker = ""
		m.push(k, true)
		m.keep(k, false)
	}
}

func (m *machine) Heartbeat(t *rapid.T) {
	k, worker := m.drawHeld(t)
	lease := rapid.Int64Range(1, 4000).Draw(t, "lease")
	failure := m.change(t, false, func(shard.DB) error {
		_, err := m.tx.Heartbeat(worker, []byte(k.id), lease)
		return err
	})
	if k.owned(t, worker, failure, false) {
		k.until = m.clk.NowMs() + lease
		m.keep(k, false)
	}
}

func (m *machine) Cancel(t *rapid.T) {
	k := m.drawTask(t)
	m.change(t, false, func(shard.DB) error {
		ended, err := m.tx.Cancel([]byte(k.id))
		if want := k.status == statusPending || k.at == atDLQ; err == nil && ended != want {
			t.Fatalf("%+v: cancelled is %v", *k, ended)
		}
		return err
	})
	if k.status == statusPending || k.at == atDLQ {
		m.leave(k)
		k.status, k.at, k.late, k.worker, k.result = statusFailed, atNowhere, false, "", true
		m.keep(k, true)
	}
}

func (m *machine) Requeue(t *rapid.T) {
	k := m.drawTask(t)
	m.change(t, false, func(shard.DB) error {
		_, err := m.tx.Requeue(nameOf(k.queue), [][]byte{[]byte(k.id)}, 0)
		return err
	})
	if k.at == atDLQ {
		k.attempts, k.late, k.worker = 0, false, ""
		m.push(k, false)
		m.keep(k, false)
	}
}

// Cleanup removes tasks that have ended before their retention is over, up to a number. Others that it meets are kept for another one.
func (m *machine) Cleanup(t *rapid.T) {
	until, count, want := m.clk.NowMs()+retentionMs+rapid.Int64Range(-300_000, retentionMs/retentionParts+1000).Draw(t, "until"), rapid.IntRange(1, 4).Draw(t, "count"), 0
	for home := range modelShards {
		var due []*modelTask
		for _, id := range m.ids {
			if k := m.tasks[id]; m.queues.Home(0, []byte(id)) == home && k.ttl*1000 <= until {
				due = append(due, k)
			}
		}
		slices.SortFunc(due, func(a, b *modelTask) int { return cmp.Or(cmp.Compare(a.ttl, b.ttl), strings.Compare(a.id, b.id)) })
		for _, k := range due {
			if want == count {
				break
			}
			if k.status != statusCompleted && k.status != statusFailed {
				k.ttl = max(m.clk.NowMs()+retentionMs, until+1000) / 1000
				continue
			}
			want++
			m.remove(k.id)
		}
	}
	m.change(t, false, func(shard.DB) error {
		n, err := m.tx.Cleanup(until, count)
		if n != int64(want) {
			t.Fatalf("%d tasks are cleaned up, want %d", n, want)
		}
		return err
	})
}

// remove forgets a task.
func (m *machine) remove(id string) {
	delete(m.tasks, id)
	m.ids = slices.DeleteFunc(slices.Clone(m.ids), func(other string) bool { return other == id })
}

func (m *machine) Advance(t *rapid.T) {
	ms := rapid.Int64Range(1, 3000).Draw(t, "ms")
	switch far := rapid.IntRange(0, 7).Draw(t, "far"); {
	case far == 0:
		ms *= 100
	case far == 1 && m.leaps < maxLeaps:
		m.leaps++
		ms *= 2400 // beyond what a task may be kept longer than its retention
	}
	m.clk.Advance(time.Duration(ms) * time.Millisecond)
}

func (m *machine) Restart(t *rapid.T) {
	if err := m.st.Close(); err != nil {
		t.Fatal(err)
	}
	m.clk.Advance(time.Duration(rapid.Int64Range(0, 3000).Draw(t, "ms")) * time.Millisecond)
	m.open(t)
}

func (m *machine) Crash(t *rapid.T) {
	fs := m.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := m.st.Close(); err != nil {
		t.Fatal(err)
	}
	m.fs = fs
	m.open(t)
}

// Check compares the store with the model. Looking at a lease or a delayed set does what is due there.
func (m *machine) Check(t *rapid.T) {
	m.timers()
	m.change(t, true, func(db shard.DB) error {
		for _, id := range m.ids {
			if _, err := db.Exists([]byte(leasePrefix + id)); err != nil {
				return err
			}
		}
		for _, queue := range modelQueues {
			if err := m.checkQueue(t, db, queue); err != nil {
				return err
			}
		}
		return nil
	})
	m.change(t, true, func(db shard.DB) error {
		if err := m.checkCounts(t); err != nil {
			return err
		}
		for _, id := range m.ids {
			if err := m.checkTask(t, db, m.tasks[id]); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkQueue compares every place of a queue: each task is where the model has it, and nothing is elsewhere.
func (m *machine) checkQueue(t *rapid.T, db shard.DB, queue string) error {
	want := map[string][]string{}
	for _, id := range m.ids {
		if k := m.tasks[id]; k.queue == queue && k.at != atNowhere && k.at != atPending {
			want[k.at] = append(want[k.at], id)
		}
	}
	got := map[string][]string{}
	delayed, err := db.ZSet([]byte("codeq:q:" + queue + ":delayed"))
	if err != nil {
		return err
	}
	if err := delayed.Each(func(id []byte, score float64) bool {
		if k := m.tasks[string(id)]; shard.DueMs(score) != k.due {
			t.Errorf("%s is due at %v, want %d", id, score, k.due)
		}
		got[atDelayed] = append(got[atDelayed], string(id))
		return true
	}); err != nil {
		return err
	}
	for at, state := range map[string]string{atInProgress: "inprog", atDLQ: "dlq"} {
		set, err := db.SetOf([]byte("codeq:q:" + queue + ":" + state))
		if err == nil {
			err = set.Each(func(id []byte) bool { got[at] = append(got[at], string(id)); return true })
		}
		if err != nil {
			return err
		}
	}
	for _, at := range []string{atDelayed, atInProgress, atDLQ} {
		slices.Sort(got[at])
		slices.Sort(want[at])
		if !slices.Equal(got[at], want[at]) {
			t.Fatalf("queue %s, %s: %v, want %v", queue, at, got[at], want[at])
		}
	}
	for priority := range supplier.MaxPriority + 1 {
		if !m.spread {
			if err := m.checkPending(t, db, modelList{queue: queue, priority: priority}); err != nil {
				return err
			}
		}
		for home := 0; m.spread && home < modelShards; home++ {
			was := db.Narrow(home)
			err := m.checkPending(t, db, modelList{queue, priority, home})
			if db.NarrowTo(was); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCounts compares how much there is of all tasks together.
func (m *machine) checkCounts(t *rapid.T) error {
	results := 0
	for _, k := range m.tasks {
		if k.result {
			results++
		}
	}
	for _, c := range []struct {
		what string
		len  func() (int64, error)
		want int
	}{{"tasks", m.tx.tasks.Len, len(m.ids)}, {"results", m.tx.results.Len, results}, {"retentions", m.tx.ttl.Len, len(m.ids)}} {
		if n, err := c.len(); err != nil || n != int64(c.want) {
			t.Fatalf("%d %s, %v, want %d", n, c.what, err, c.want)
		}
	}
	return nil
}

// checkPending compares one list of pending tasks.
func (m *machine) checkPending(t *rapid.T, db shard.DB, l modelList) error {
	ids, err := pendingIDs(db, l.queue, l.priority)
	if err != nil {
		return err
	}
	if want := m.pending[l]; !slices.Equal(ids, want) {
		t.Fatalf("%+v: %v, want %v", l, ids, want)
	}
	return nil
}

// checkTask compares a task's JSON, retention and lease.
func (m *machine) checkTask(t *rapid.T, db shard.DB, k *modelTask) error {
	if found, err := m.tx.load([]byte(k.id)); !found || err != nil {
		t.Fatalf("%s: found is %v, %v", k.id, found, err)
	}
	got := &m.tx.task
	if got.status != k.status || got.at != k.at || got.attempts != k.attempts {
		t.Fatalf("%s is %s at %s after %d attempts, want %+v", k.id, got.status, got.at, got.attempts, *k)
	}
	if strings.HasPrefix(k.id, "raw") && !strings.Contains(string(got.text), `"x":[1]`) {
		t.Fatalf("an unknown field is lost: %s", got.text)
	}
	if ttl, _, err := m.tx.ttl.Score([]byte(k.id)); err != nil || ttl != float64(k.ttl) {
		t.Fatalf("%s is kept until %f, %v, want %+v", k.id, ttl, err, *k)
	}
	if until, _ := got.time(fieldLeaseUntil); k.status == statusInProgress && until != k.until/1000*1000 {
		t.Fatalf("%s says that it is leased until %d, want %+v", k.id, until, *k)
	}
	at, leased, err := db.ExpireAt([]byte(leasePrefix + k.id))
	if want := k.status == statusInProgress; leased != want || leased && at != k.until {
		t.Fatalf("%s: lease %v until %d, want %+v", k.id, leased, at, *k)
	}
	return err
}

func TestModel(t *testing.T) { testModel(t, "hash") }

// TestModelSpread is the model for queues that are spread over the shards: each shard has lists of its own, and a claim takes from one.
func TestModelSpread(t *testing.T) { testModel(t, "task") }

func testModel(t *testing.T, supplier string) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, supplier)
		defer func() {
			if err := m.st.Close(); err != nil {
				t.Error(err)
			}
		}()
		m.run(t)
	})
}

// run takes random steps. Restarts are dear, so they are rare.
func (m *machine) run(t *rapid.T) {
	steps := []func(*rapid.T){m.Enqueue, m.Enqueue, m.Enqueue, m.RawEnqueue, m.Claim, m.Claim, m.Claim, m.Submit, m.Nack, m.Abandon, m.Heartbeat,
		m.Cancel, m.Requeue, m.RequeueSome, m.Purge, m.RawPush, m.RawClaim, m.RawClaim, m.RawFinish, m.RawRepair, m.Pause, m.Cleanup, m.Advance, m.Advance}
	if !m.spread { // there, which fragment is next is left to the other claims
		steps = append(steps, m.ClaimSlots, m.ClaimSlots, m.CutAnew)
	}
	for range rapid.IntRange(10, 80).Draw(t, "steps") {
		step := rapid.IntRange(0, 20*len(steps)).Draw(t, "step")
		switch {
		case step == 0:
			m.Restart(t)
		case step == 1:
			m.Crash(t)
		case len(m.ids) == 0:
			m.Enqueue(t)
		default:
			steps[step%len(steps)](t)
		}
		m.Check(t)
	}
}
