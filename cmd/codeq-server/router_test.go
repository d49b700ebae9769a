package main

import (
	"slices"
	"strings"
	"testing"

	"codeq/config"
)

// TestQueueLibrariesByDefault checks that the keys of one queue are on one shard for those libraries that need no more for it than a
// pattern, and that their queues are spread.
func TestQueueLibrariesByDefault(t *testing.T) {
	r, err := newRouter(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, queueKeys := range [][]string{
		{"bull:#:wait", "bull:#:active", "bull:#:meta", "bull:#:17", "bull:#:17:lock", "bull:#:repeat:0123:99", "bull:#:metrics:completed:data"},
		{"bq:#:waiting", "bq:#:jobs", "bq:#:id", "bq:#:stalling", "bq:#:stallBlock"},
		{"asynq:{#}:pending", "asynq:{#}:t:0123", "asynq:{#}:unique:x:{a}"},
	} {
		var used []int
		for _, queue := range []string{"mail", "image-resize", "Größe", "7", "billing", "reports"} {
			var shards []int
			for _, key := range queueKeys {
				before, after, _ := strings.Cut(key, "#")
				shards = append(shards, r.Route(0, []byte(before+queue+after)).Shard)
			}
			if slices.Max(shards) != slices.Min(shards) {
				t.Errorf("%s: the keys %q are on the shards %v", queue, queueKeys, shards)
			}
			used = append(used, shards[0])
		}
		if slices.Max(used) == slices.Min(used) {
			t.Errorf("all queues with keys such as %q are on shard %d", queueKeys[0], used[0])
		}
	}
}
