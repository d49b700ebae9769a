package queue

import (
	"math"
	"sync"
	"sync/atomic"
)

// Backoff is how the delay before a task's next attempt grows with its attempts.
type Backoff string

// The kinds of backoff, as the configuration names them. With jitter the delay is drawn: from all up to the exponential
// one (full), or from its upper half (equal).
const (
	Fixed           Backoff = "fixed"
	Linear          Backoff = "linear"
	Exponential     Backoff = "exponential"
	ExpFullJitter   Backoff = "exp_full_jitter"
	ExpEqualJitter  Backoff = "exp_equal_jitter"
	maxBackoffShift         = 40 // doublings after which every delay has reached its maximum
)

// Policy is what is set for a queue.
type Policy struct {
	LeaseMs     int64 // of a claim that names none
	MaxAttempts int64 // of a task that names none
	Backoff     Backoff
	BaseMs      int64 // of the backoff
	MaxMs       int64
	RetentionMs int64 // for which a task is kept after its last change
	Paused      bool
	MaxPending  int64 // tasks that may wait, ready or delayed; 0: no limit
	MaxPayload  int64 // bytes of one task's payload; 0: no limit
	MaxRate     int64 // tasks that may be enqueued a second; 0: no limit
	SlotDigits  int   // hexadecimal digits by which the queue is cut into slots, 1 to 4
}

// DefaultPolicy is that of a queue for which nothing is set.
func DefaultPolicy() Policy {
	return Policy{
		LeaseMs: 300_000, MaxAttempts: 5, Backoff: ExpFullJitter, BaseMs: 5_000, MaxMs: 900_000, RetentionMs: 24 * 3600 * 1000,
		SlotDigits: 2,
	}
}

// delayMs is the delay after a number of attempts. random yields numbers as rand.Source does.
func (p *Policy) delayMs(attempts int64, random func() uint64) int64 {
	n := max(attempts, 1)
	full := p.BaseMs
	switch p.Backoff {
	case Linear:
		full = capped(p.BaseMs, n)
	case Exponential, ExpFullJitter, ExpEqualJitter:
		full = capped(p.BaseMs, 1<<min(n-1, maxBackoffShift))
	case Fixed:
	}
	full = min(full, p.MaxMs)
	switch p.Backoff {
	case ExpFullJitter:
		return draw(full, random)
	case ExpEqualJitter:
		return full - draw(full/2, random)
	case Fixed, Linear, Exponential:
	}
	return full
}

// capped is a product, or the greatest number if it is greater.
func capped(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// draw is a random number from 0 to n.
func draw(n int64, random func() uint64) int64 {
	return int64(random() % uint64(n+1)) // n is hours at most, so what the remainder prefers is nothing
}

// Policies is what is set for all queues. It does not change, and is safe for concurrent use.
type Policies struct {
	resolve func(Name) Policy
	known   sync.Map     // by Name.String, *Policy
	count   atomic.Int64 // of what was put there
}

// mostPolicies is how many policies are remembered, at ten megabytes or so: clients may ask for any number of queues, there or not.
const mostPolicies = 1 << 14

// NewPolicies returns the policies that resolve finds.
func NewPolicies(resolve func(Name) Policy) *Policies { return &Policies{resolve: resolve} }

// of is the policy of a queue.
func (p *Policies) of(name Name) *Policy {
	key := name.String()
	if found, ok := p.known.Load(key); ok {
		return found.(*Policy)
	}
	policy := p.resolve(name)
	if p.count.Add(1)%mostPolicies == 0 {
		p.known.Clear()
	}
	p.known.Store(key, &policy)
	return &policy
}
