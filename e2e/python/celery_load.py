#!/usr/bin/python3
"""Celery under load: a prefork and a threaded worker, late acknowledgement, retries, countdowns, chains, priorities.

A worker takes a message off its list and notes it as unacknowledged a moment later, so a crash of the server between
the two loses it, at most one for each worker. What is noted comes back when its visibility timeout is over; Celery's
workers look for that every 100 seconds, so this driver does it for them. A message comes twice if the crash took only
the server's reply. So over a crash a task is done at least once, if what was lost on its way is sent again.
"""

import json
import sys
import time

import redis
from celery import chain, states
from kombu.exceptions import OperationalError

import celery_app
import ledger
from celery_app import app, work

WORKERS = 2
RETRIES = 8
STALL_SECONDS = 8  # without progress after a crash, after which the operator steps in
STEPS = 5  # that the operator takes at most while nothing moves
DOWN = (OperationalError, redis.ConnectionError, redis.TimeoutError)


class Load:
    """The tasks that were sent and what became of them, by what Celery tells."""

    def __init__(self):
        self.expected = {}  # the state that each task must come to
        self.signatures = {}

    def send_all(self):
        random = ledger.randomness()
        while len(self.expected) < ledger.TASKS:
            kind = random.choices(("plain", "retried", "delayed", "chain", "dies"), (55, 15, 10, 10, 10))[0]
            options = {"priority": random.choice((0, 3, 6, 9))}
            if kind == "retried":
                self.send(self.signature(failures=random.randint(1, 3), **options))
            elif kind == "delayed":
                self.send(self.signature(countdown=random.uniform(0.1, 1.5), **options))
            elif kind == "chain":
                self.send(self.signature(**options), self.signature(**options))
            elif kind == "dies":
                self.send(self.signature(failures=RETRIES + 1, **options))
            else:
                self.send(self.signature(**options))

    def signature(self, failures=0, **options):
        task = f"celery-{len(self.signatures)}"
        signature = work.si(task, failures, RETRIES).set(task_id=task, **options)
        self.signatures[task] = signature
        return signature

    def send(self, *signatures):
        ledger.persistently(DOWN, lambda: chain(*signatures).apply_async() if signatures[1:] else
                            signatures[0].apply_async())
        for signature in signatures:
            task, failures, _ = signature.args
            dies = failures > RETRIES
            self.expected[task] = states.FAILURE if dies else states.SUCCESS
            # A crash may take an attempt before it says so: it is counted by Celery, and not by us.
            ledger.enqueued(task, dies=dies, fails=None if ledger.KILL else failures)

    def outstanding(self):
        """What Celery has noted of tasks that have not come to their state, or that have a message left."""
        metas = app.backend.client.mget([app.backend.get_key_for_task(task) for task in self.expected])
        left = {task: meta for task, meta in zip(self.expected, metas)
                if meta is None or json.loads(meta)["status"] != self.expected[task]}
        return {**dict.fromkeys(messages()), **left}

    def await_end(self):
        """Waits until nothing is outstanding. After a crash it recovers what Celery left lying when nothing moves."""
        before, since, steps = None, time.monotonic(), 0
        while left := ledger.persistently(DOWN, self.outstanding):
            if left != before:
                before, since, steps = left, time.monotonic(), 0
            elif time.monotonic() - since > ledger.PATIENCE_SECONDS:
                raise RuntimeError(f"nothing moves, and these are left: {left}")
            elif ledger.KILL and steps < STEPS and time.monotonic() - since > STALL_SECONDS * (steps + 1):
                ledger.persistently(DOWN, lambda: self.recover(left))
                steps += 1
            time.sleep(0.1)

    def recover(self, left):
        with app.connection_for_read() as connection:
            connection.default_channel.qos.restore_visible(interval=1)
        # What follows in a chain is sent when what it follows is done.
        lost = sorted(set(left) - messages())
        if len(lost) > WORKERS + 1:
            raise RuntimeError(f"{lost} are nowhere; at most {WORKERS} can have been on their way")
        for task in lost[:WORKERS]:
            ledger.note(f"sent {task} again, which was on its way to a worker")
            self.signatures[task].apply_async()

    def check_end(self):
        for task, state in self.expected.items():
            result = app.AsyncResult(task)
            assert result.state == state, f"{task} is {result.state}"
            if state == states.FAILURE:
                ledger.dead(task)
            else:
                assert result.get() == f"result of {task}"


def messages():
    """The ids of the messages in all lists of the queue, one for each priority, and of those that a worker has."""
    client = redis.Redis(ledger.HOST, ledger.PORT, db=celery_app.BROKER_DATABASE)
    found = [json.loads(text)[0] for text in client.hvals("unacked")]
    for key in client.scan_iter("celery*", _type="list"):
        found += map(json.loads, client.lrange(key, 0, -1))
    return {message["headers"]["id"] for message in found}


def worker(*pool):
    return ledger.start(sys.executable, "-m", "celery", "--app", "celery_app", "worker", "--loglevel", "INFO",
                        "--without-gossip", "--without-mingle", "--hostname", f"{pool[1]}@localhost", *pool)


def main():
    load = Load()
    workers = ledger.Supervisor(lambda: worker("--pool", "prefork", "--concurrency", "2"),
                                lambda: worker("--pool", "threads", "--concurrency", "2"))
    load.send_all()
    load.await_end()
    workers.stop()
    load.check_end()
    assert not messages(), f"messages are left: {messages()}"
    ledger.end()


if __name__ == "__main__":
    main()
