#!/usr/bin/python3
"""Celery's and kombu's features, each as their documentation shows it; one check is one task."""

import contextlib
import datetime
import queue
import sys
import threading

import redis
from celery import chain, chord, group, states
from celery.exceptions import ChordError, MaxRetriesExceededError, TaskRevokedError, TimeLimitExceeded
from celery.exceptions import TimeoutError as ResultTimeout
from celery.exceptions import WorkerLostError
from kombu import Connection, Exchange, Queue

import celery_app as tasks
import ledger
from celery_app import app
from ledger import check

WAIT = ledger.PATIENCE_SECONDS
KOMBU_DATABASE = 1


def client(database):
    return redis.Redis(ledger.HOST, ledger.PORT, db=database)


def worker(*options, name="worker"):
    """Starts a worker and returns when it answers."""
    process = ledger.start(sys.executable, "-m", "celery", "--app", "celery_app", "worker", "--loglevel", "INFO",
                           "--hostname", f"{name}@e2e", *options)
    ledger.wait_for(lambda: app.control.inspect([f"{name}@e2e"], timeout=0.5).ping(), "the worker answers")
    return process


def raises(error, call):
    try:
        call()
    except error as raised:
        return raised
    raise AssertionError(f"no {error} was raised")


@check
def canvas():
    worker("--concurrency", "2")
    assert tasks.add.delay(1, 2).get(timeout=WAIT) == 3
    assert chain(tasks.add.s(1, 2), tasks.add.s(10), tasks.add.s(100))().get(timeout=WAIT) == 113
    several = group(tasks.add.s(number, number) for number in range(20))()
    assert several.get(timeout=WAIT) == [2 * number for number in range(20)] and several.completed_count() == 20
    several.save()
    assert app.GroupResult.restore(several.id).results == several.results
    joined = chord((tasks.add.s(number, 1) for number in range(30)), tasks.total.s())()
    assert joined.get(timeout=WAIT) == sum(range(1, 31))
    nested = chain(group(tasks.add.s(1, 1), tasks.add.s(2, 2)), tasks.total.s(), tasks.add.s(100))()
    assert nested.get(timeout=WAIT) == 106
    deep = chord([chord([tasks.add.s(1, 1), tasks.add.s(2, 2)], tasks.total.s()), tasks.add.s(3, 3)], tasks.total.s())()
    assert deep.get(timeout=WAIT) == 12
    parts = tasks.add.chunks([(number, number) for number in range(10)], 3).apply_async()
    assert parts.get(timeout=WAIT) == [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18]]
    assert tasks.add.starmap([(1, 2), (3, 4)]).delay().get(timeout=WAIT) == [3, 7]


@check
def failures():
    worker("--concurrency", "2")
    assert "as told" in str(raises(ValueError, lambda: tasks.fail.delay("as told").get(timeout=WAIT)))
    assert tasks.fail_twice.delay().get(timeout=WAIT) == 2
    exhausted = tasks.fail_always.delay()
    raises((MaxRetriesExceededError, RuntimeError), lambda: exhausted.get(timeout=WAIT))
    noted = tasks.fail.apply_async(["noted"], link_error=tasks.note_failure.s())
    raises(ValueError, lambda: noted.get(timeout=WAIT))
    results = client(tasks.RESULT_DATABASE)
    ledger.wait_for(lambda: results.sismember("errbacks", noted.id), "the error is noted")
    broken = chord([tasks.add.s(1, 1), tasks.fail.s("in the header")], tasks.total.s())()
    raises((ChordError, ValueError), lambda: broken.get(timeout=WAIT))
    kept = tasks.add.delay(1, 1)
    assert kept.get(timeout=WAIT) == 2 and kept.state == states.SUCCESS and kept.worker == "worker@e2e"
    assert 0 < results.ttl(f"celery-task-meta-{kept.id}") <= 86400
    kept.forget()
    assert not results.exists(f"celery-task-meta-{kept.id}")
    ignored = tasks.add.apply_async([1, 1], ignore_result=True)
    raises(ResultTimeout, lambda: app.AsyncResult(ignored.id).get(timeout=0.5))


@check
def moments():
    """Countdown, ETA and expiry; a task that waits for its moment can be seen and revoked."""
    worker("--concurrency", "2")
    now = datetime.datetime.now(datetime.timezone.utc)
    later = tasks.add.apply_async([1, 2], countdown=1)
    at = tasks.add.apply_async([3, 4], eta=now + datetime.timedelta(seconds=1))
    never = tasks.add.apply_async([5, 6], countdown=3600)
    late = tasks.add.apply_async([7, 8], expires=now - datetime.timedelta(seconds=1))
    assert later.get(timeout=WAIT) == 3 and at.get(timeout=WAIT) == 7
    raises(TaskRevokedError, lambda: late.get(timeout=WAIT))
    inspect = app.control.inspect()
    scheduled = ledger.wait_for(lambda: (inspect.scheduled() or {}).get("worker@e2e"), "the task is scheduled")
    assert [entry["request"]["id"] for entry in scheduled] == [never.id]
    broker = client(tasks.BROKER_DATABASE)
    assert broker.hlen("unacked") == broker.zcard("unacked_index") == 1
    app.control.revoke(never.id)
    ledger.wait_for(lambda: never.id in inspect.revoked()["worker@e2e"], "the task is revoked")


@check
def remote_control():
    worker("--concurrency", "2", name="first")
    worker("--concurrency", "1", "--pool", "solo", name="second")
    names = {"first@e2e", "second@e2e"}
    assert {name for reply in app.control.ping(timeout=1) for name in reply} == names
    inspect = app.control.inspect(timeout=1)
    assert set(inspect.registered()) == names and "celery_app.add" in inspect.registered()["first@e2e"]
    assert inspect.stats()["first@e2e"]["pool"]["max-concurrency"] == 2
    assert inspect.active_queues()["second@e2e"][0]["name"] == "celery"
    app.control.rate_limit("celery_app.add", "100/s", reply=True, timeout=1)
    app.control.add_consumer("extra", reply=True, timeout=1)
    assert tasks.add.apply_async([1, 1], queue="extra").get(timeout=WAIT) == 2
    app.control.cancel_consumer("extra", reply=True, timeout=1)
    app.control.pool_grow(1, destination=["first@e2e"], reply=True)
    ledger.wait_for(lambda: len(inspect.stats()["first@e2e"]["pool"]["processes"]) == 3, "the pool has grown")
    app.control.shutdown(destination=["second@e2e"])
    ledger.wait_for(lambda: set(inspect.ping() or {}) == {"first@e2e"}, "the second worker has gone")
    running = tasks.sleep.delay(600)
    ledger.wait_for(lambda: running.state == states.STARTED, "the task runs")
    app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    raises(TaskRevokedError, lambda: running.get(timeout=WAIT))


@check
def events():
    """What workers publish arrives, in order, at who listens."""
    seen = queue.Queue()
    ready = threading.Event()

    def listen():
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": seen.put})
            with receiver.consumer_context(limit=None, timeout=None, wakeup=True):
                ready.set()
                for _ in receiver.consume(limit=None, timeout=WAIT):
                    pass

    threading.Thread(target=listen, daemon=True).start()
    assert ready.wait(WAIT)
    worker("--concurrency", "1")
    result = tasks.add.delay(1, 1)
    kinds = []
    while kinds[-1:] != ["task-succeeded"]:
        event = seen.get(timeout=WAIT)
        if event.get("uuid") == result.id:
            kinds.append(event["type"])
    assert [kind for kind in kinds if kind != "task-sent"] == ["task-received", "task-started", "task-succeeded"], kinds


@check
def states_on_the_way():
    """A result's states are published to whoever waits for it."""
    worker("--concurrency", "1")
    running = tasks.progress.delay()
    ledger.wait_for(lambda: running.state == "HALFWAY", "the task is halfway")
    assert running.info == {"percent": 50}
    messages = []
    results = client(tasks.RESULT_DATABASE)
    value = running.get(timeout=WAIT, on_message=messages.append, on_interval=lambda: results.set("go on", 1))
    assert value == "through"
    assert messages[-1]["status"] == states.SUCCESS
    assert [value for _, value in group(tasks.add.s(1, 1), tasks.add.s(2, 2))().iter_native()]


@check
def priorities_and_routes():
    """A worker takes what is urgent first, and only from its queues."""
    results = client(tasks.RESULT_DATABASE)
    for priority in (9, 6, 3, 0, 9, 0):  # with Redis as the broker, 0 comes first
        tasks.append.apply_async(["order", priority], priority=priority)
    elsewhere = tasks.add.apply_async([1, 1], queue="elsewhere")
    process = worker("--concurrency", "1", "--pool", "solo", "--queues", "celery")
    ledger.wait_for(lambda: results.llen("order") == 6, "all have run")
    assert results.lrange("order", 0, -1) == [b"0", b"0", b"3", b"6", b"9", b"9"], results.lrange("order", 0, -1)
    assert client(tasks.BROKER_DATABASE).llen("elsewhere\x06\x163") == 1
    process.terminate()
    assert process.wait(timeout=WAIT) == 0
    worker("--concurrency", "1", "--queues", "elsewhere")
    assert elsewhere.get(timeout=WAIT) == 2
    tasks.add.apply_async([1, 1], queue="celery")
    assert app.control.purge() == 1


@check
def limits_and_deaths():
    """A task that takes too long is stopped; one whose process dies is given to another."""
    worker("--concurrency", "2")
    assert tasks.softly_limited.delay().get(timeout=WAIT) == "cleaned up"
    raises(TimeLimitExceeded, lambda: tasks.limited.delay().get(timeout=WAIT))
    lost = tasks.die_once.delay()
    ledger.wait_for(lambda: lost.state in (states.SUCCESS, states.FAILURE), "the task has ended")
    try:
        assert lost.get(timeout=WAIT) == "survived"
    except WorkerLostError:  # what the dying process had, of which the next one knows nothing
        ledger.wait_for(lambda: lost.state == states.SUCCESS, "the task is done by another process")


@check
def visibility_timeout():
    """What a worker had when it was killed comes back to the queue."""
    process = worker("--concurrency", "1")
    held = tasks.sleep.delay(600)
    ledger.wait_for(lambda: held.state == states.STARTED, "the task runs")
    ledger.kill(process)
    broker = client(tasks.BROKER_DATABASE)
    assert broker.hlen("unacked") == 1
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        channel.qos.restore_visible(interval=1)
        assert broker.hlen("unacked") == 1  # its time has not come
        channel.qos.visibility_timeout = -1
        channel.qos.restore_visible(interval=1)
    assert broker.hlen("unacked") == broker.zcard("unacked_index") == 0
    assert app.control.purge() == 1


@check
def kombu_simple_queue():
    with kombu_connection() as connection:
        simple = connection.SimpleQueue("simple")
        for number in range(10):
            simple.put({"number": number}, compression="zlib")
        assert len(simple) == 10
        for number in range(10):
            message = simple.get(timeout=WAIT)
            assert message.payload == {"number": number}
            message.ack()
        simple.put("again")
        simple.get(timeout=WAIT).requeue()
        message = simple.get(timeout=WAIT)
        assert message.payload == "again" and message.headers is not None
        message.reject()
        raises(queue.Empty, lambda: simple.get(block=False))
        simple.close()


@check
def kombu_exchanges():
    direct, topic, fanout = (Exchange(kind, type=kind) for kind in ("direct", "topic", "fanout"))
    got = []

    def listen(connection, *queues):
        for each in queues:
            connection.Consumer(each, no_ack=True, on_message=lambda message, name=each.name: (
                got.append((name, message.payload)))).consume()

    def drain(connection, count):
        def more():
            with contextlib.suppress(TimeoutError, OSError):
                connection.drain_events(timeout=0.2)
            return len(got) >= count

        ledger.wait_for(more, f"{count} messages came", pause=0)

    with kombu_connection() as here, kombu_connection() as there:
        listen(here, Queue("logs", direct, routing_key="log"), Queue("eu", topic, routing_key="order.eu.#"),
               Queue("paid", topic, routing_key="order.*.paid"), Queue("one", fanout))
        listen(there, Queue("two", fanout))
        producer = here.Producer()
        producer.publish("log line", exchange=direct, routing_key="log")
        producer.publish("paid in the EU", exchange=topic, routing_key="order.eu.paid")
        producer.publish("sent to the US", exchange=topic, routing_key="order.us.sent")
        drain(here, 3)

        def listeners():
            return [entry for entry in client(KOMBU_DATABASE).client_list()
                    if entry["db"] == str(KOMBU_DATABASE) and entry["psub"] != "0"]

        with contextlib.suppress(TimeoutError, OSError):
            there.drain_events(timeout=0.2)  # subscribes
        ledger.wait_for(lambda: len(listeners()) == 2, "both listen")
        producer.publish("to all", exchange=fanout, routing_key="")
        drain(here, 4)
        drain(there, 5)
        assert sorted(got) == [("eu", "paid in the EU"), ("logs", "log line"), ("one", "to all"),
                               ("paid", "paid in the EU"), ("two", "to all")], got


def kombu_connection():
    return Connection(f"redis://{ledger.HOST}:{ledger.PORT}/{KOMBU_DATABASE}")


def empty_databases():
    for database in (KOMBU_DATABASE, tasks.BROKER_DATABASE, tasks.RESULT_DATABASE):
        client(database).flushdb()


if __name__ == "__main__":
    ledger.run_checks(clean=empty_databases)
