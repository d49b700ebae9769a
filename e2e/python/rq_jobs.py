"""The jobs that the RQ drivers enqueue. Workers import them by name."""

import os
import signal
import time

import rq

import ledger


def work(task, failures=0):
    """Fails so many times, which the job's retries must allow for, and is done after that."""
    if failures:
        job = rq.get_current_job()
        attempt = job.meta["retries"] - job.retries_left + 1
        if attempt <= failures:
            ledger.failed(task, attempt)
            raise RuntimeError(f"attempt {attempt} of {task} is meant to fail")
    ledger.done(task)
    return f"result of {task}"


def fail(reason):
    raise ValueError(reason)


def add(a, b):
    return a + b


def sleep(seconds):
    time.sleep(seconds)


def append(key, value):
    """Writes down, in the order of execution, which job ran."""
    rq.get_current_connection().rpush(key, value)


def die():
    """Ends the process that works on it, as a crash of the interpreter would."""
    os.kill(os.getpid(), signal.SIGKILL)


def succeeded(job, connection, result):
    connection.hset("callbacks", job.id, f"success {result}")


def has_failed(job, connection, kind, error, traceback):
    connection.hset("callbacks", job.id, f"failure {kind.__name__}")
