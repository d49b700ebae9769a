package e2e

import (
	"testing"
	"time"
)

// ruby is a driver in Ruby; what it needs is installed by "make clients".
func ruby(t *testing.T, name, library string, env ...string) driver {
	t.Helper()
	return script{
		dir:     "ruby",
		command: []string{"ruby", name},
		probe:   []string{"ruby", "-e", "require '" + library + "'"},
		env:     env,
	}.forTest(t)
}

// sidekiqLeaves are the keys that Sidekiq keeps: its counters, the dead, and what tells of a process for a minute.
var sidekiqLeaves = []string{"queues", "dead", "stat:*", "processes", "*:[0-9]*:[0-9a-f]*", "reliable-fetcher-*"}

func TestSidekiq(t *testing.T) {
	test(t, client{
		drive: ruby(t, "sidekiq_load.rb", "sidekiq"), tasks: 500, brief: 150, limit: 5 * time.Minute,
		repeats: "redis-rb sends again what it got no reply to",
		left:    keysBut(sidekiqLeaves...),
	})
}

func TestSidekiqReliableFetch(t *testing.T) {
	test(t, client{
		drive: ruby(t, "sidekiq_load.rb", "sidekiq-reliable-fetch", "E2E_RELIABLE=1"),
		tasks: 500, brief: 150, limit: 5 * time.Minute,
		repeats: "a job whose acknowledgement was lost is given out again when its process is replaced",
		left:    keysBut(sidekiqLeaves...),
	})
}

func TestSidekiqFeatures(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute, most of it the start of worker processes")
	}
	test(t, features(ruby(t, "sidekiq_features.rb", "sidekiq-cron")))
}

func TestRedisRbFeatures(t *testing.T) {
	test(t, features(ruby(t, "redisrb_features.rb", "redis")))
}
