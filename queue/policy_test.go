package queue

import (
	"fmt"
	"math"
	"testing"
)

// TestPoliciesAreBounded: whoever asks for ever more queues makes nothing grow, and gets what is set for each.
func TestPoliciesAreBounded(t *testing.T) {
	p := NewPolicies(func(n Name) Policy { return Policy{MaxPending: int64(len(n.Tenant))} })
	for i := range 3 * mostPolicies {
		tenant := fmt.Append(nil, i)
		if got := p.of(Name{[]byte("a"), tenant}).MaxPending; got != int64(len(tenant)) {
			t.Fatalf("the policy of %s is of a tenant with %d bytes", tenant, got)
		}
	}
	known := 0
	p.known.Range(func(any, any) bool { known++; return true })
	if known > mostPolicies {
		t.Errorf("%d policies are remembered", known)
	}
}

// TestBackoff: what each kind of backoff delays by, with the least and the greatest draw, up to its maximum.
func TestBackoff(t *testing.T) {
	const longest = 900
	for _, test := range []struct {
		kind     Backoff
		attempts int64
		least    int64
		most     int64
	}{
		{Fixed, 1, 100, 100}, {Fixed, 9, 100, 100},
		{Linear, 0, 100, 100}, {Linear, 1, 100, 100}, {Linear, 3, 300, 300}, {Linear, 50, longest, longest}, {Linear, math.MaxInt64, longest, longest},
		{Exponential, 0, 100, 100}, {Exponential, 1, 100, 100}, {Exponential, 3, 400, 400}, {Exponential, 5, longest, longest}, {Exponential, 1 << 40, longest, longest},
		{ExpFullJitter, 1, 0, 100}, {ExpFullJitter, 2, 0, 200}, {ExpFullJitter, 99, 0, longest},
		{ExpEqualJitter, 1, 50, 100}, {ExpEqualJitter, 2, 100, 200}, {ExpEqualJitter, 99, longest / 2, longest},
	} {
		p := Policy{Backoff: test.kind, BaseMs: 100, MaxMs: longest}
		least, most := int64(math.MaxInt64), int64(0)
		for draw := range uint64(2 * longest) { // every remainder
			delay := p.delayMs(test.attempts, func() uint64 { return draw })
			least, most = min(least, delay), max(most, delay)
		}
		if least != test.least || most != test.most {
			t.Errorf("%s after %d attempts: %d to %d ms, want %d to %d", test.kind, test.attempts, least, most, test.least, test.most)
		}
	}
	p := Policy{Backoff: Linear, BaseMs: math.MaxInt64 / 2, MaxMs: math.MaxInt64}
	if got := p.delayMs(3, nil); got != math.MaxInt64 {
		t.Errorf("the greatest delay is %d", got)
	}
}

// TestPoliciesAreKept: a queue's policy is found once.
func TestPoliciesAreKept(t *testing.T) {
	asked := 0
	policies := NewPolicies(func(name Name) Policy {
		asked++
		return Policy{LeaseMs: int64(len(name.Command))}
	})
	for range 2 {
		if a, b := policies.of(Name{Command: []byte("a")}), policies.of(Name{Command: []byte("bb")}); a.LeaseMs != 1 || b.LeaseMs != 2 {
			t.Error(fmt.Sprint(a, b))
		}
	}
	if asked != 2 {
		t.Errorf("the policies of two queues were asked for %d times", asked)
	}
}
