package e2e

import (
	"testing"
	"time"
)

// node is a driver for Node.js; what it needs is installed by "make clients".
func node(t *testing.T, command ...string) driver {
	t.Helper()
	return script{
		dir:     "node",
		command: append([]string{"node"}, command...),
		probe:   []string{"node", "-e", "require('bullmq'); process.exit(process.versions.node.split('.')[0] < 20 ? 1 : 0)"}, // what the clients ask for
	}.forTest(t)
}

// nodeLoad is a client that works on tasks of every kind while its server may be killed.
func nodeLoad(t *testing.T, command ...string) client {
	t.Helper()
	return client{
		drive: node(t, command...), tasks: 2000, brief: 400, limit: 3 * time.Minute, left: keysBut(),
		repeats: "a job whose worker cannot tell the server of its end before its lock runs out is given out again",
	}
}

func TestBeeQueue(t *testing.T) { test(t, nodeLoad(t, "bee_queue.js")) }

func TestBeeQueueFeatures(t *testing.T) { test(t, features(node(t, "bee_queue_features.js"))) }

func TestBull(t *testing.T) {
	c := nodeLoad(t, "bull.js")
	c.noRedisKill = "Redis says LOADING to a client that comes back before it has read its data, after which jobs may stay where they are"
	test(t, c)
}

func TestBullFeatures(t *testing.T) { test(t, features(node(t, "bull_features.js"))) }

func TestBullMQ(t *testing.T) { test(t, nodeLoad(t, "bullmq.js")) }

func TestBullMQFeatures(t *testing.T) { test(t, features(node(t, "bullmq_features.js"))) }

func TestBullMQ5(t *testing.T) { test(t, nodeLoad(t, "bullmq5.js")) }

func TestBullMQ5Features(t *testing.T) { test(t, features(node(t, "bullmq5_features.js"))) }

func TestBullMQOverNodeRedis(t *testing.T) { test(t, nodeLoad(t, "bullmq_noderedis.js")) }

func TestBullMQOverNodeRedisFeatures(t *testing.T) {
	test(t, features(node(t, "bullmq_noderedis.js", "features")))
}

func TestIORedisFeatures(t *testing.T) { test(t, features(node(t, "ioredis_features.js"))) }

func TestNodeRedisFeatures(t *testing.T) { test(t, features(node(t, "noderedis_features.js"))) }

func TestResque(t *testing.T) {
	c := nodeLoad(t, "resque.js")
	c.left = keysBut("resque:queues", "resque:stat:*", "resque:connection_test_key", "resque:resque-retry:*", "resque:failure-resque-retry:*")
	c.repeats = "an enqueue whose reply was lost is sent again, and so is a job that a worker had on its way"
	test(t, c)
}

func TestResqueFeatures(t *testing.T) { test(t, features(node(t, "resque_features.js"))) }
