"""The Celery application and the tasks of the Celery drivers. Workers import it by name."""

import os
import signal
import time

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

import ledger

BROKER_DATABASE = 2
RESULT_DATABASE = 3
VISIBILITY_SECONDS = 3600  # Celery's default, in which no task is handed out twice
if ledger.KILL:
    VISIBILITY_SECONDS = 5

app = Celery("celery_app")
app.conf.update(
    broker_url=f"redis://{ledger.HOST}:{ledger.PORT}/{BROKER_DATABASE}",
    result_backend=f"redis://{ledger.HOST}:{ledger.PORT}/{RESULT_DATABASE}",
    broker_transport_options={
        "visibility_timeout": VISIBILITY_SECONDS,
        "priority_steps": [0, 3, 6, 9],
        "queue_order_strategy": "priority",
    },
    broker_connection_max_retries=None,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    task_send_sent_event=True,
    result_extended=True,
    task_default_priority=3,
)


@app.task(bind=True)
def work(self, task, failures=0, retries=0):
    """Fails so many times and is retried so often at most; otherwise it is done."""
    attempt = self.request.retries + 1
    if attempt <= failures:
        ledger.failed(task, attempt)
        raise self.retry(exc=RuntimeError(f"attempt {attempt} of {task}"), countdown=0, max_retries=retries)
    ledger.done(task)
    return f"result of {task}"


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail(reason):
    raise ValueError(reason)


@app.task(autoretry_for=(ValueError,), max_retries=2, retry_backoff=False, default_retry_delay=0, bind=True)
def fail_twice(self):
    if self.request.retries < 2:
        raise ValueError("not yet")
    return self.request.retries


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def fail_always(self):
    raise self.retry()


@app.task(bind=True)
def append(self, key, value):
    """Writes down, in the order of execution, which task ran."""
    self.backend.client.rpush(key, value)
    return value


@app.task
def sleep(seconds):
    time.sleep(seconds)


@app.task(bind=True)
def progress(self):
    self.update_state(state="HALFWAY", meta={"percent": 50})
    while not self.backend.client.exists("go on"):
        time.sleep(0.02)
    return "through"


@app.task(bind=True)
def die_once(self):
    """Ends the process that works on it, the first time."""
    if self.backend.client.incr(f"died:{self.request.id}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task(soft_time_limit=1)
def softly_limited():
    try:
        time.sleep(60)
    except SoftTimeLimitExceeded:
        return "cleaned up"
    return "slept"


@app.task(time_limit=1)
def limited():
    time.sleep(60)


@app.task(bind=True)
def note_failure(self, task_id):
    self.backend.client.sadd("errbacks", task_id)
