package queue

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"codeq/shard"
	"codeq/supplier"
)

// Enqueueing and claiming in the model, see model_test.go.

// modelQueues are by their names as keys have them.
var modelQueues = [...]string{"a", "b", "a:t"}

func nameOf(queue string) Name {
	name := Name{Command: []byte(queue[:1])}
	if len(queue) > 1 {
		name.Tenant = []byte(queue[2:])
	}
	return name
}

const (
	// limitedQueue has limits on what waits and on payloads, ratedQueue on tasks a second.
	limitedQueue, ratedQueue = "b", "a:t"
	modelMaxPending          = 6
	modelMaxPayload          = 3
	modelMaxRate             = 3
)

func modelPolicy(name Name, digits int) Policy {
	p := DefaultPolicy()
	p.Backoff, p.BaseMs, p.RetentionMs, p.SlotDigits = Fixed, modelBackoff, retentionMs, digits
	switch name.String() {
	case limitedQueue:
		p.MaxPending, p.MaxPayload = modelMaxPending, modelMaxPayload
	case ratedQueue:
		p.MaxRate = modelMaxRate
	}
	return p
}

// setDigits sets by how many digits queues are cut.
func (m *machine) setDigits(digits int) {
	m.digits = digits
	m.policies.Store(NewPolicies(func(name Name) Policy { return modelPolicy(name, digits) }))
}

// modelFirst is the task that an idempotency key stands for.
type modelFirst struct {
	id    string
	until int64
}

// first is the task of an idempotency key that counts, or empty.
func (m *machine) first(key string) string {
	f := m.firsts[key]
	if f.until <= m.clk.NowMs() || m.tasks[f.id] == nil {
		return ""
	}
	return f.id
}

// refuses tells whether the limits of the queue refuse new tasks, and counts those against its rate that they don't.
func (m *machine) refuses(queue string, payloads []string) bool {
	now, n := float64(m.clk.NowMs()), len(payloads)
	switch {
	case n == 0:
	case queue == limitedQueue:
		waiting := 0
		for l, ids := range m.pending {
			if l.queue == queue {
				waiting += len(ids)
			}
		}
		for _, k := range m.tasks {
			if k.queue == queue && k.at == atDelayed {
				waiting++
			}
		}
		tooLong := slices.ContainsFunc(payloads, func(p string) bool { return len(p) > modelMaxPayload })
		return tooLong || waiting+n > modelMaxPending
	case queue == ratedQueue:
		until := max(m.until, now) + float64(n)*1000/modelMaxRate
		if until-now > 1000 {
			return true
		}
		m.until = until
	}
	return false
}

func (m *machine) Enqueue(t *rapid.T) {
	e := Enqueue{Queue: drawQueue(t), Priority: rapid.SampledFrom([]int{0, 5, 9}).Draw(t, "priority"),
		MaxAttempts: rapid.Int64Range(1, 3).Draw(t, "attempts"), Turn: rapid.Uint32().Draw(t, "turn")}
	if rapid.Bool().Draw(t, "delayed") {
		e.VisibleMs = m.clk.NowMs() + rapid.Int64Range(0, 5000).Draw(t, "delay")
	}
	texts := rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q", "abc", "long"}), 1, 3).Draw(t, "payloads")
	switch rapid.IntRange(0, 4).Draw(t, "id") {
	case 0:
		m.made++
		e.ID, texts = fmt.Appendf(nil, "task-%d", m.made), texts[:1]
	case 1:
		e.Key = []byte("customer")
	}
	if rapid.IntRange(0, 2).Draw(t, "idempotent") == 0 {
		e.Several = len(texts) > 1 || rapid.Bool().Draw(t, "several")
		e.Idempotency, e.WindowMs = []byte(rapid.SampledFrom([]string{"k", "l"}).Draw(t, "idempotency")), rapid.Int64Range(1000, 20_000).Draw(t, "window")
	}
	var payloads [][]byte
	var firsts, fresh, got []string
	for i, text := range texts {
		payloads, firsts = append(payloads, []byte(text)), append(firsts, "")
		if e.Idempotency != nil {
			firsts[i] = m.first(string(e.idempotencyKey(i)))
		}
		if firsts[i] == "" {
			fresh = append(fresh, text)
		}
	}
	refused := m.refuses(e.Queue.String(), fresh)
	failure := m.change(t, false, func(shard.DB) error {
		return m.tx.Enqueue(&e, payloads, func(id []byte) { got = append(got, string(id)) })
	})
	if refused {
		if failure == nil || failure.Code != Quota || len(got) > 0 {
			t.Fatalf("%v to %s: %v, %v, want that they are refused", texts, e.Queue, got, failure)
		}
		return
	}
	if failure != nil || len(got) != len(texts) {
		t.Fatalf("%v to %s: %v, %v", texts, e.Queue, got, failure)
	}
	for i, id := range got {
		if firsts[i] != "" {
			if id != firsts[i] {
				t.Fatalf("%s was made again for the key of %s", id, firsts[i])
			}
			continue
		}
		m.add(id, e.Queue, e.Priority, e.MaxAttempts, e.VisibleMs).created = m.clk.NowMs()
		if e.Idempotency != nil {
			m.firsts[string(e.idempotencyKey(i))] = modelFirst{id, m.clk.NowMs() + e.WindowMs}
		}
	}
}

// CutAnew changes the number of digits that queues are cut by.
func (m *machine) CutAnew(t *rapid.T) {
	m.setDigits(rapid.IntRange(1, shard.MaxSlotDigits).Draw(t, "digits"))
}

// ClaimSlots claims by slot. Whichever slot's turn it is, what leaves a list are the oldest entries of slots in the share, and of these the
// tasks are claimed that were not stale; those of a lower priority only if there is none left of a higher one.
func (m *machine) ClaimSlots(t *rapid.T) {
	c := Claim{Worker: drawWorker(t), Queues: []Name{drawQueue(t)}, Count: rapid.IntRange(1, 4).Draw(t, "count"),
		LeaseMs: rapid.Int64Range(1, 4000).Draw(t, "lease")}
	c.Slots.Of = rapid.Int64Range(1, 3).Draw(t, "shares")
	c.Slots.Share = rapid.Int64Range(0, c.Slots.Of-1).Draw(t, "share")
	r, err := c.Slots.of(m.digits)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	queue := c.Queues[0].String()
	left := map[int][]string{}
	m.change(t, false, func(db shard.DB) error {
		_, err := m.tx.Claim(&c, func(v *View) {
			id, _ := v.doc.string(fieldID)
			got = append(got, string(id))
		})
		for priority := range supplier.MaxPriority + 1 {
			if err == nil {
				left[priority], err = pendingIDs(db, queue, priority)
			}
		}
		return err
	})
	for priority := supplier.MaxPriority; priority >= 0; priority-- {
		l := modelList{queue: queue, priority: priority}
		var more bool
		want, more = m.takeSlots(t, &c, r, m.pending[l], left[priority], want)
		more = more && !m.paused[queue]
		if m.pending[l] = left[priority]; more && len(want) < len(got) {
			t.Fatalf("%v: claimed %v before all of priority %d", r, got, priority)
		}
		if more && len(got) < c.Count {
			t.Fatalf("%v: claimed %v and left some of %v", r, got, left[priority])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%v: claimed %v, and %v left the lists", r, got, want)
	}
}

// takeSlots compares a list before and after a claim. It adds the tasks that the claim must have got to those before, and tells
// whether it has left some that it could have.
func (m *machine) takeSlots(t *rapid.T, c *Claim, r shard.SlotRange, before, after, got []string) (claimed []string, more bool) {
	taken := map[uint16]bool{} // slots of which an entry is gone
	var stays []string
	for _, id := range slices.Backward(before) { // a slot's oldest go first, so of equal ones the last stay
		slot := supplier.Slot([]byte(id), m.digits)
		if n := len(after); n > 0 && after[n-1] == id {
			if after = after[:n-1]; taken[slot] {
				t.Fatalf("%v: %s of %v stays, and one behind it is gone", r, id, before)
			}
			if slot >= r.From && slot <= r.To {
				stays = append(stays, id)
			}
			continue
		}
		if taken[slot] = true; slot < r.From || slot > r.To {
			t.Fatalf("%v: %s of %v is gone", r, id, before)
		}
		if k := m.tasks[id]; k != nil && k.at == atPending {
			m.claimed(k, c)
			got = append(got, id)
		}
	}
	more = slices.ContainsFunc(stays, func(id string) bool { return m.tasks[id] != nil && m.tasks[id].at == atPending })
	return got, more
}

// pendingIDs are those of a pending list, the next one first.
func pendingIDs(db shard.DB, queue string, priority int) (ids []string, err error) {
	list, err := db.List(fmt.Appendf(nil, "codeq:q:%s:pending:%d", queue, priority))
	if err != nil {
		return nil, err
	}
	n, err := list.Len()
	if err == nil {
		err = list.Range(0, max(n-1, 0), func(id []byte) { ids = append(ids, string(id)) })
	}
	slices.Reverse(ids)
	return ids, err
}

// Pause pauses a queue, or resumes it.
func (m *machine) Pause(t *rapid.T) {
	name, paused := drawQueue(t), rapid.Bool().Draw(t, "paused")
	m.change(t, false, func(shard.DB) error { return m.tx.SetPaused(name, paused) })
	m.paused[name.String()] = paused
}

// RequeueSome revives some dead tasks, whichever: they come behind what is pending.
func (m *machine) RequeueSome(t *rapid.T) {
	name, count := drawQueue(t), rapid.IntRange(1, 3).Draw(t, "count")
	queue := name.String()
	dead := map[string]bool{}
	for id, k := range m.tasks {
		if k.queue == queue && k.at == atDLQ {
			dead[id] = true
		}
	}
	want := min(count, len(dead))
	var lists map[modelList][]string
	m.change(t, false, func(db shard.DB) error {
		n, err := m.tx.Requeue(name, nil, int64(count))
		if n != int64(want) {
			t.Fatalf("%d tasks are revived, want %d", n, want)
		}
		if err != nil {
			return err
		}
		lists, err = m.lists(db, queue)
		return err
	})
	for l, ids := range lists {
		had := len(m.pending[l])
		if len(ids) < had || !slices.Equal(ids[:had], m.pending[l]) {
			t.Fatalf("%+v: %v, want %v in front", l, ids, m.pending[l])
		}
		for _, id := range ids[had:] {
			k := m.tasks[id]
			if !dead[id] || m.listOf(k) != l {
				t.Fatalf("%+v: %s has come there", l, id)
			}
			delete(dead, id)
			k.attempts, k.late, k.worker = 0, false, ""
			m.push(k, false)
			m.keep(k, false)
			want--
		}
	}
	if want != 0 {
		t.Fatalf("%d tasks more are revived than have come to pending lists", want)
	}
}

// lists are the pending lists of a queue.
func (m *machine) lists(db shard.DB, queue string) (map[modelList][]string, error) {
	lists := map[modelList][]string{}
	for priority := range supplier.MaxPriority + 1 {
		for home := range modelShards {
			l := modelList{queue: queue, priority: priority}
			was := db.Widen()
			if m.spread {
				db.Narrow(home)
				l.home = home
			}
			ids, err := pendingIDs(db, queue, priority)
			if db.NarrowTo(was); err != nil {
				return nil, err
			}
			lists[l] = ids
			if !m.spread {
				break
			}
		}
	}
	return lists, nil
}

// Purge removes tasks of one place, all or the first ones. What is elsewhere stays, though a pending list may have an entry of it.
func (m *machine) Purge(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	name := drawQueue(t)
	queue, at := name.String(), rapid.SampledFrom([]string{atPending, atDelayed, atInProgress, atDLQ}).Draw(t, "at")
	place := map[string]Place{atPending: supplier.Pending, atDelayed: supplier.Delayed, atInProgress: supplier.InProgress, atDLQ: supplier.DLQ}[at]
	count := rapid.SampledFrom([]int64{1, 2, math.MaxInt64}).Draw(t, "count")
	there := 0
	for _, k := range m.tasks {
		if k.queue == queue && k.at == at {
			there++
		}
	}
	m.change(t, false, func(db shard.DB) error {
		n, err := m.tx.Purge(name, place, count)
		if want := min(count, int64(there)); err == nil && n != want {
			t.Fatalf("%d tasks are purged, want %d", n, want)
		}
		if err == nil && at == atPending {
			err = m.purgedPending(t, db, queue)
		}
		return errors.Join(err, m.forgetPurged(db, queue, at))
	})
}

// purgedPending takes over what a purge has left in the pending lists of a queue: it takes what would be claimed first.
func (m *machine) purgedPending(t *rapid.T, db shard.DB, queue string) error {
	lists, err := m.lists(db, queue)
	lowest, highest := supplier.MaxPriority, -1 // of the lists that something was taken from, and of those that have something
	for l, ids := range lists {
		taken := len(m.pending[l]) - len(ids)
		if taken < 0 || !slices.Equal(m.pending[l][taken:], ids) {
			t.Fatalf("%+v: %v are left of %v", l, ids, m.pending[l])
		}
		for _, id := range m.pending[l][:taken] {
			if k := m.tasks[id]; k != nil && k.queue == queue && k.at == atPending {
				k.purged = true
			}
		}
		if taken > 0 {
			lowest = min(lowest, l.priority)
		}
		if m.pending[l] = ids; len(ids) > 0 {
			highest = max(highest, l.priority)
		}
	}
	if highest > lowest {
		t.Fatalf("tasks of priority %d are purged, and %d is left", lowest, highest)
	}
	return err
}

// forgetPurged forgets the tasks of a queue's place that are no longer stored: of a set any may have been the first ones.
func (m *machine) forgetPurged(db shard.DB, queue, at string) error {
	tasks, err := db.Hash([]byte(tasksKey))
	if err != nil {
		return err
	}
	for id, k := range m.tasks {
		if k.queue != queue || k.at != at {
			continue
		}
		_, found, err := tasks.Get([]byte(id))
		if err != nil {
			return err
		}
		if !found {
			m.remove(id)
		} else if k.purged {
			return fmt.Errorf("%s is out of its list, and there", id)
		}
	}
	return nil
}
