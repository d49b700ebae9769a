package commands

import (
	"bytes"
	"slices"
	"sync"

	"codeq/config"
	"codeq/queue"
)

// queuePolicies yields what the configuration sets for queues.
func queuePolicies(store *config.Store) func() *queue.Policies {
	var mu sync.Mutex // guards what follows
	var rules []config.QueueRule
	policies := queue.NewPolicies(func(queue.Name) queue.Policy { return queue.DefaultPolicy() })
	return func() *queue.Policies {
		mu.Lock()
		defer mu.Unlock()
		if now := store.Current().Queues; !sameRules(now, rules) {
			rules = now
			policies = queue.NewPolicies(func(name queue.Name) queue.Policy { return policyOf(name, now) })
		}
		return policies
	}
}

// sameRules tells whether two configurations set the same for queues. As a rule they share the memory.
func sameRules(a, b []config.QueueRule) bool {
	if len(a) != len(b) || len(a) == 0 || &a[0] == &b[0] {
		return len(a) == len(b)
	}
	return slices.EqualFunc(a, b, func(x, y config.QueueRule) bool {
		return x.Command == y.Command && x.Tenant == y.Tenant && slices.Equal(x.Values, y.Values)
	})
}

// policyOf is what the rules set for a queue. Later rules go first, so that those before them have the last word.
func policyOf(name queue.Name, rules []config.QueueRule) queue.Policy {
	p := queue.DefaultPolicy()
	command := bytes.ToLower(name.Command)
	for _, rule := range slices.Backward(rules) {
		// To Redis a star does not match what is empty.
		if !globMatch([]byte(rule.Command), command) || rule.Tenant != "*" && !globMatch([]byte(rule.Tenant), name.Tenant) {
			continue
		}
		for _, v := range rule.Values {
			setPolicy(&p, v)
		}
	}
	return p
}

func setPolicy(p *queue.Policy, v config.QueueValue) {
	switch v.Name {
	case config.QueueLease:
		p.LeaseMs = v.Number
	case config.QueueAttempts:
		p.MaxAttempts = v.Number
	case config.QueueBackoff:
		p.Backoff = queue.Backoff(v.Word)
	case config.QueueBackoffBase:
		p.BaseMs = v.Number
	case config.QueueBackoffMax:
		p.MaxMs = v.Number
	case config.QueueRetention:
		p.RetentionMs = v.Number
	case config.QueuePaused:
		p.Paused = v.Number == 1
	case config.QueueMaxPending:
		p.MaxPending = v.Number
	case config.QueueMaxPayload:
		p.MaxPayload = v.Number
	case config.QueueMaxRate:
		p.MaxRate = v.Number
	case config.QueueSlotDigits:
		p.SlotDigits = int(v.Number)
	}
}
