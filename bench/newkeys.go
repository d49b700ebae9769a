package main

import (
	"context"
	"fmt"

	"codeq/internal/peer"
)

const (
	newKeyParts = 8             // runs that the keys are made in
	newKeyDepth = 16            // redis-benchmark -P
	newKeyRange = 1_000_000_000 // redis-benchmark -r, so large that nearly all keys are new
)

// newKeys makes ever more keys, more than codeq's cache holds, and prints what each part of them takes. None is read again.
func newKeys(ctx context.Context, s settings, servers []*peer.Server) error {
	tool, err := peer.Tool("redis-benchmark")
	if err != nil {
		return err
	}
	keys := s.count(4_000_000)
	b := benchmark{name: "set", random: newKeyRange}
	fmt.Printf("redis-benchmark -t set -c %d -d %d -P %d -r %d, requests per second.\n\n| keys before |", clients, payload, newKeyDepth, b.random)
	for _, server := range servers {
		if err := emptied(server); err != nil {
			return fmt.Errorf("%s: %w", server.Kind(), err)
		}
		fmt.Printf(" %s | µs |", server.Kind())
	}
	fmt.Print("\n|---|")
	for range servers {
		fmt.Print("---|---|")
	}
	fmt.Println()
	for part := range newKeyParts {
		fmt.Printf("| %d |", keys/newKeyParts*part)
		for _, server := range servers {
			m, err := measureNow(ctx, tool, servers, server, b, newKeyDepth, keys/newKeyParts)
			if err != nil {
				return fmt.Errorf("%s: %w", server.Kind(), err)
			}
			fmt.Printf(" %.0f | %.1f |", m.rate, m.micros)
		}
		fmt.Println()
	}
	return nil
}
