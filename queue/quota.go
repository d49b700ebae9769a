package queue

import (
	"math"
	"strconv"

	"codeq/shard"
	"codeq/supplier"
)

// checkQuota refuses tasks that exceed what is set for the queue that t works on, and counts those that don't against its rate.
// It is the last check before the tasks are made. Those that an idempotency key has made before don't count.
func (t *Tx) checkQuota(p *enqueuing, payloads [][]byte) error {
	policy, queue, n := p.policy, p.Queue, 0
	for i, payload := range payloads {
		if len(p.firsts) > 0 && p.firsts[i] != nil {
			continue
		}
		n++
		if policy.MaxPayload > 0 && int64(len(payload)) > policy.MaxPayload {
			return failed(Quota, "the payload has %d bytes, the queue %s takes %d: keep it elsewhere and enqueue where it is",
				len(payload), queue, policy.MaxPayload)
		}
	}
	if n == 0 {
		return nil
	}
	if policy.MaxPending > 0 {
		waiting, err := t.waiting()
		if err != nil {
			return err
		}
		if waiting+int64(n) > policy.MaxPending {
			return failed(Quota, "%d tasks wait in the queue %s, which takes %d: try again when some are done", waiting, queue, policy.MaxPending)
		}
	}
	if policy.MaxRate > 0 {
		return t.checkRate(queue, policy.MaxRate, n)
	}
	return nil
}

// waiting counts the tasks of the queue that t works on that are ready or delayed.
func (t *Tx) waiting() (sum int64, err error) {
	for priority := range supplier.MaxPriority + 1 {
		list, err := t.db.List(t.pending(priority))
		if err := addLen(&sum, list.Len, err); err != nil {
			return 0, err
		}
	}
	delayed, err := t.db.ZSet(t.place(supplier.Delayed))
	return sum, addLen(&sum, delayed.Len, err)
}

// rateBurstMs is how much of the rate may come at once: a task at least, since a rate is no less than one a second.
const rateBurstMs = 1000

// checkRate counts n tasks against the rate of the queue that t works on. The key holds one number, the unix ms until which the
// tasks so far would take if they came evenly: the generic cell rate algorithm (ITU-T I.371, Annex A). A time further ahead than the
// burst is from before the clock was set back.
func (t *Tx) checkRate(queue Name, rate int64, n int) error {
	key := t.place(supplier.Rate)
	text, _, err := t.db.Get(key)
	if err == shard.ErrWrongType {
		text, err = nil, nil
	}
	if err != nil {
		return err
	}
	now := float64(t.db.Now())
	until, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(until) || until < now || until > now+rateBurstMs {
		until = now
	}
	until += float64(n) * 1000 / float64(rate)
	if late := until - now - rateBurstMs; late > 0 {
		return failed(Quota, "the queue %s takes %d tasks a second: try again in %d ms, with no more than that at once", queue, rate, int64(math.Ceil(late)))
	}
	return t.db.Set(key, strconv.AppendFloat(nil, until, 'f', -1, 64), int64(math.Ceil(until)))
}
