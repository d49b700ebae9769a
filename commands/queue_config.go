package commands

import (
	"codeq/config"
	"codeq/queue"
)

// queuePolicies yields what the configuration sets for queues.
func queuePolicies(*config.Store) func() *queue.Policies {
	policies := queue.NewPolicies()
	return func() *queue.Policies { return policies }
}
