package e2e

import (
	"testing"
	"time"
)

// python is a driver in Python; what it needs is installed by "make clients", for Debian's own interpreter.
func python(t *testing.T, name, module string) driver {
	t.Helper()
	return script{
		dir:     "python",
		command: []string{"/usr/bin/python3", name},
		probe:   []string{"/usr/bin/python3", "-c", "import " + module},
	}.forTest(t)
}

func TestRQ(t *testing.T) {
	test(t, client{
		drive: python(t, "rq_load.py", "rq"), tasks: 150, brief: 60, limit: 5 * time.Minute,
		repeats: "a job whose success could not be noted fails, and is requeued",
		left: keysBut("rq:queues", "rq:job:*", "rq:results:*", "rq:finished:*", "rq:failed:*", "rq:clean_registries:*",
			"rq:worker:*", "rq:workers", "rq:workers:*"),
	})
}

func TestRQFeatures(t *testing.T) {
	test(t, features(python(t, "rq_features.py", "rq")))
}

func TestCelery(t *testing.T) {
	test(t, client{
		drive: python(t, "celery_load.py", "celery"), tasks: 150, brief: 60, limit: 5 * time.Minute,
		repeats: "a task whose acknowledgement was lost comes back when its visibility timeout is over",
		left:    keysBut("_kombu.binding.*", "celery-task-meta-*"),
	})
}

func TestCeleryFeatures(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute, most of it the start of worker processes")
	}
	test(t, features(python(t, "celery_features.py", "celery")))
}

func TestRedisPyFeatures(t *testing.T) {
	test(t, features(python(t, "redispy_features.py", "redis")))
}
