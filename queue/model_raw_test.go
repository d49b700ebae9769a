package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"codeq/shard"
	"codeq/supplier"
)

// What codeQ's client does in the model, see model_test.go. Its steps come one right after the other, but those of a repair, which meets
// the timers.

// RawEnqueue is what codeQ's client sends.
func (m *machine) RawEnqueue(t *rapid.T) {
	name, delay := drawQueue(t), rapid.Int64Range(0, 5).Draw(t, "seconds")
	m.made++
	id := fmt.Sprintf("raw-%d", m.made)
	due, at := (m.clk.NowMs()/1000+delay)*1000, atPending
	if delay > 0 {
		at = atDelayed
	}
	json := fmt.Sprintf(`{"id":%q,"command":%q,"payload":"p","status":"PENDING","lastKnownLocation":%q,"maxAttempts":2,"tenantId":%q,"x":[1]}`,
		id, name.Command, at, name.Tenant)
	m.change(t, true, func(db shard.DB) error {
		_, err := m.tx.tasks.Set([]byte(id), []byte(json))
		if err == nil {
			_, err = m.tx.ttl.Set([]byte(id), float64(m.clk.NowMs()/1000+rawRetention))
		}
		if err == nil && delay > 0 {
			var delayed shard.ZSet
			if delayed, err = db.ZSet([]byte("codeq:q:" + name.String() + ":delayed")); err == nil {
				_, err = delayed.Set([]byte(id), float64(due/1000))
			}
			return err
		}
		list, err := db.List([]byte("codeq:q:" + name.String() + ":pending:0"))
		if err == nil {
			err = list.Push(shard.Head, []byte(id))
		}
		return err
	})
	if delay == 0 {
		due = 0
	}
	m.add(id, name, 0, 2, due)
	m.tasks[id].ttl = m.clk.NowMs()/1000 + rawRetention
}

// RawPush puts a task into its pending list that may be elsewhere, or there already, as a client does that works in steps.
func (m *machine) RawPush(t *rapid.T) {
	k := m.drawTask(t)
	m.change(t, true, func(db shard.DB) error {
		list, err := db.List(fmt.Appendf(nil, "codeq:q:%s:pending:%d", k.queue, k.priority))
		if err == nil {
			err = list.Push(shard.Head, []byte(k.id))
		}
		return err
	})
	l := m.listOf(k)
	m.pending[l] = append(m.pending[l], k.id)
}

// rawSave writes a task as a client does that decodes and encodes it, with some fields changed; nil removes one.
func (m *machine) rawSave(id string, fields map[string]any) error {
	text, _, err := m.tx.tasks.Get([]byte(id))
	if err != nil {
		return err
	}
	task := map[string]any{}
	if err := json.Unmarshal(text, &task); err != nil {
		return err
	}
	for name, value := range fields {
		if task[name] = value; value == nil {
			delete(task, name)
		}
	}
	if text, err = json.Marshal(task); err != nil {
		return err
	}
	if _, err := m.tx.tasks.Set([]byte(id), text); err != nil {
		return err
	}
	_, err = m.tx.ttl.Set([]byte(id), float64(m.clk.NowMs()/1000+rawRetention))
	return err
}

// rawKept notes that a client has saved the task.
func (m *machine) rawKept(k *modelTask) { k.ttl = m.clk.NowMs()/1000 + rawRetention }

// RawClaim is the claim script with what follows it, where the next entry of each list is not stale: the script would take it all the same.
func (m *machine) RawClaim(t *rapid.T) {
	queue, worker, seconds := drawQueue(t).String(), drawWorker(t), rapid.Int64Range(1, 4).Draw(t, "lease")
	heads := map[string]modelList{}
	for priority := supplier.MaxPriority; priority >= 0 && len(heads) == 0; priority-- {
		for l, ids := range m.pending {
			if l.queue != queue || l.priority != priority || len(ids) == 0 {
				continue
			}
			if k := m.tasks[ids[0]]; k == nil || k.at != atPending {
				return
			}
			heads[ids[0]] = l
		}
	}
	if len(heads) == 0 {
		return
	}
	until := m.clk.NowMs() + 1000*seconds
	var id string
	m.change(t, true, func(db shard.DB) error {
		for priority := supplier.MaxPriority; priority >= 0; priority-- {
			list, err := db.List(fmt.Appendf(nil, "codeq:q:%s:pending:%d", queue, priority))
			if err != nil {
				return err
			}
			popped, ok, err := list.Pop(shard.Tail)
			if err != nil {
				return err
			}
			if ok {
				id = string(popped)
				break
			}
		}
		if _, is := heads[id]; !is {
			t.Fatalf("popped %q, want one of %v", id, heads)
		}
		inProgress, err := db.SetOf([]byte("codeq:q:" + queue + ":inprog"))
		if err != nil {
			return err
		}
		if added, err := inProgress.Add([]byte(id)); err != nil || !added {
			t.Fatalf("%s: added is %v, %v", id, added, err)
		}
		if err := db.Set([]byte(leasePrefix+id), worker, until); err != nil {
			return err
		}
		return m.rawSave(id, map[string]any{"status": statusInProgress, "lastKnownLocation": atInProgress, "workerId": string(worker),
			"leaseUntil": time.UnixMilli(until).UTC().Format(time.RFC3339), "attempts": m.tasks[id].attempts + 1})
	})
	k, l := m.tasks[id], heads[id]
	m.pending[l] = m.pending[l][1:]
	k.status, k.at, k.worker, k.until, k.late = statusInProgress, atInProgress, string(worker), until, false
	k.attempts++
	m.rawKept(k)
}

// RawFinish is a submit, a nack or an abandon of who holds a task.
func (m *machine) RawFinish(t *rapid.T) {
	k, worker := m.drawHeld(t)
	if k.status != statusInProgress || k.worker != string(worker) {
		return
	}
	verb := rapid.SampledFrom([]string{"submit", "nack", "abandon"}).Draw(t, "verb")
	m.change(t, true, func(db shard.DB) error {
		inProgress, err := db.SetOf([]byte("codeq:q:" + k.queue + ":inprog"))
		if err == nil {
			_, err = inProgress.Remove([]byte(k.id))
		}
		if err == nil {
			_, err = db.Delete([]byte(leasePrefix + k.id))
		}
		if err != nil {
			return err
		}
		switch verb {
		case "submit":
			if _, err := m.tx.results.Set([]byte(k.id), fmt.Appendf(nil, `{"taskId":%q,"status":"COMPLETED"}`, k.id)); err != nil {
				return err
			}
			k.status, k.at, k.late, k.result = statusCompleted, atNowhere, false, true
			m.rawKept(k)
			return m.rawSave(k.id, map[string]any{"status": k.status, "lastKnownLocation": k.at, "leaseUntil": nil, "resultKey": k.id})
		case "abandon":
			list, err := db.List(fmt.Appendf(nil, "codeq:q:%s:pending:%d", k.queue, k.priority))
			if err == nil {
				err = list.Push(shard.Head, []byte(k.id))
			}
			if err != nil {
				return err
			}
			m.push(k, false)
			k.worker, k.late = "", false
			m.rawKept(k)
			return m.rawSave(k.id, map[string]any{"status": k.status, "lastKnownLocation": k.at, "leaseUntil": nil, "workerId": nil})
		}
		return m.rawGiveBack(db, k, rapid.Int64Range(1, 3).Draw(t, "seconds"))
	})
}

// rawGiveBack is what nack and repair end with.
func (m *machine) rawGiveBack(db shard.DB, k *modelTask, seconds int64) error {
	k.worker, k.late = "", false
	m.rawKept(k)
	if k.attempts >= k.maxAttempts {
		k.status, k.at = statusFailed, atDLQ
		dlq, err := db.SetOf([]byte("codeq:q:" + k.queue + ":dlq"))
		if err == nil {
			_, err = dlq.Add([]byte(k.id))
		}
		if err != nil {
			return err
		}
	} else {
		k.status, k.at, k.due = statusPending, atDelayed, (m.clk.NowMs()/1000+seconds)*1000
		delayed, err := db.ZSet([]byte("codeq:q:" + k.queue + ":delayed"))
		if err == nil {
			_, err = delayed.Set([]byte(k.id), float64(k.due/1000))
		}
		if err != nil {
			return err
		}
	}
	return m.rawSave(k.id, map[string]any{"status": k.status, "lastKnownLocation": k.at, "leaseUntil": nil, "workerId": nil, "error": "lease expired"})
}

// RawRepair looks which tasks are claimed, some time later at their leases, which has the server give back those that have run out, and then gives
// them back once more.
func (m *machine) RawRepair(t *rapid.T) {
	queue := drawQueue(t).String()
	var claimed, expired []string
	m.change(t, true, func(db shard.DB) error {
		inProgress, err := db.SetOf([]byte("codeq:q:" + queue + ":inprog"))
		if err != nil {
			return err
		}
		return inProgress.Each(func(id []byte) bool { claimed = append(claimed, string(id)); return true })
	})
	m.Advance(t)
	m.timers()
	m.change(t, true, func(db shard.DB) error {
		for _, id := range claimed {
			held, err := db.Exists([]byte(leasePrefix + id))
			if err != nil {
				return err
			}
			if !held {
				expired = append(expired, id)
			}
		}
		return nil
	})
	m.change(t, true, func(db shard.DB) error {
		for _, id := range expired {
			k := m.tasks[id]
			if k.status == statusInProgress || !slices.Contains(m.ids, id) {
				t.Fatalf("%+v has no lease", *k)
			}
			if k.at != atDelayed {
				continue // it has ended, or has come to its list meanwhile
			}
			if err := m.rawGiveBack(db, k, 2); err != nil {
				return err
			}
		}
		return nil
	})
}
