package e2e

import (
	"testing"
	"time"
)

// node is a driver for Node.js; what it needs is installed by "make clients".
func node(t *testing.T, name string) driver {
	t.Helper()
	return script{
		dir:     "node",
		command: []string{"node", name},
		probe:   []string{"node", "-e", "require('bullmq')"},
	}.forTest(t)
}

// load is a client of Node.js that works on tasks of every kind while its server may be killed.
func load(t *testing.T, name, repeats string) {
	t.Helper()
	test(t, client{
		drive: node(t, name), tasks: 2000, brief: 400, limit: 3 * time.Minute, repeats: repeats, left: keysBut(),
	})
}

// features is a client of Node.js that plays scenes, each of which counts as a task.
func features(t *testing.T, name string) {
	t.Helper()
	test(t, client{
		drive: node(t, name), tasks: 1, brief: 1, limit: 5 * time.Minute, left: keysBut(),
		noKill: "a scene looks at each step, and a crash takes what its client had under way",
	})
}

const stalledAgain = "a job whose worker cannot tell the server of its end before the lock runs out is given out again"

func TestBeeQueue(t *testing.T) {
	load(t, "bee_queue.js", stalledAgain)
}

func TestBeeQueueFeatures(t *testing.T) {
	features(t, "bee_queue_features.js")
}

func TestBull(t *testing.T) {
	load(t, "bull.js", stalledAgain)
}

func TestBullFeatures(t *testing.T) {
	features(t, "bull_features.js")
}

func TestBullMQ(t *testing.T) {
	load(t, "bullmq.js", stalledAgain)
}

func TestBullMQ5(t *testing.T) {
	load(t, "bullmq5.js", stalledAgain)
}

func TestBullMQFeatures(t *testing.T) {
	features(t, "bullmq_features.js")
}

func TestBullMQ5Features(t *testing.T) {
	features(t, "bullmq5_features.js")
}
