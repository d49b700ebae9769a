#!/usr/bin/python3
"""RQ's features, each as its documentation shows it; one check is one task."""

import datetime
import json
import signal
import zlib

import redis
from rq import Queue, Retry, Worker
from rq.command import send_kill_horse_command, send_shutdown_command, send_stop_job_command
from rq.job import Dependency, Job, JobStatus
from rq.registry import clean_registries
from rq.results import Result
from rq.suspension import is_suspended, resume, suspend
from rq.worker import WorkerStatus
from rq.worker_registration import clean_worker_registry

import ledger
import rq_jobs
from ledger import check


DATABASES = range(4, 16)


def client(database):
    return redis.Redis(ledger.HOST, ledger.PORT, db=database)


def empty_databases():
    for database in DATABASES:
        client(database).flushdb()


def worker(connection, *arguments):
    """Starts `rq worker` on the database of a client."""
    database = connection.connection_pool.connection_kwargs["db"]
    url = f"redis://{ledger.HOST}:{ledger.PORT}/{database}"
    return ledger.start("/usr/bin/rq", "worker", "--url", url, "--path", ledger.FOLDER, *arguments)


def burst(connection, *arguments):
    """Has a worker do all that waits."""
    code = worker(connection, "--burst", *arguments).wait(timeout=ledger.PATIENCE_SECONDS)
    assert code == 0, f"the worker ended with {code}"


def status_becomes(job, status):
    ledger.wait_for(lambda: job.get_status() == status, f"{job.id} is {status}")


@check
def every_database():
    """Databases 4 to 15 are strangers to each other."""
    queues = [Queue("default", connection=client(database)) for database in DATABASES]
    jobs = [queue.enqueue(rq_jobs.add, number, 1, job_id="same") for number, queue in enumerate(queues)]
    for queue in queues:
        assert queue.job_ids == ["same"]
    for number, (queue, job) in enumerate(zip(queues, jobs)):
        burst(queue.connection)
        assert Job.fetch("same", connection=queue.connection).return_value() == number + 1
        assert all(other.count == 1 for other in queues[number + 1:])


@check
def results_and_callbacks():
    connection = client(4)
    queue = Queue(connection=connection)
    good = queue.enqueue(rq_jobs.add, 2, 3, on_success=rq_jobs.succeeded)
    bad = queue.enqueue(rq_jobs.fail, "as it should", on_failure=rq_jobs.has_failed)
    brief = queue.enqueue(rq_jobs.add, 1, 1, result_ttl=0)
    kept = queue.enqueue(rq_jobs.add, 1, 2, result_ttl=100)
    burst(connection)
    assert good.return_value() == 5 and good.latest_result().type == Result.Type.SUCCESSFUL
    assert bad.latest_result().type == Result.Type.FAILED and "as it should" in bad.latest_result().exc_string
    assert not Job.exists(brief.id, connection=connection) and 0 < connection.ttl(kept.key) <= 100
    assert connection.hget("callbacks", good.id) == b"success 5"
    assert connection.hget("callbacks", bad.id) == b"failure ValueError"
    kept.meta["progress"] = 50
    kept.save_meta()
    assert Job.fetch(kept.id, connection=connection).get_meta() == {"progress": 50}
    assert len(good.results()) == 1


@check
def priorities():
    """A worker takes from the first queue that has a job; a job may be put in front."""
    connection = client(5)
    queues = [Queue(name, connection=connection) for name in ("high", "default", "low")]
    for queue in reversed(queues):
        for number in range(3):
            queue.enqueue(rq_jobs.append, "order", f"{queue.name}-{number}")
    queues[2].enqueue(rq_jobs.append, "order", "low-front", at_front=True)
    assert queues[2].get_job_position(queues[2].job_ids[3]) == 3
    burst(connection, "high", "default", "low")
    expected = [f"{name}-{number}" for name in ("high", "default") for number in range(3)]
    expected += ["low-front", "low-0", "low-1", "low-2"]
    assert [value.decode() for value in connection.lrange("order", 0, -1)] == expected
    assert {queue.name for queue in Queue.all(connection=connection)} == {"high", "default", "low"}


@check
def many_at_once():
    connection = client(6)
    queue = Queue(connection=connection)
    with connection.pipeline() as pipe:
        jobs = queue.enqueue_many(
            [Queue.prepare_data(rq_jobs.add, (number, number), job_id=f"many-{number}") for number in range(50)],
            pipeline=pipe)
        pipe.execute()
    assert queue.count == 50 and queue.get_job_ids(10, 2) == ["many-10", "many-11"]
    queue.remove("many-49")
    burst(connection)
    assert [job.return_value() for job in jobs] == [2 * number for number in range(49)] + [None]


@check
def retries_with_intervals():
    connection = client(7)
    queue = Queue(connection=connection)
    again = queue.enqueue(rq_jobs.fail, "at once", retry=Retry(max=2))
    later = queue.enqueue(rq_jobs.fail, "later", retry=Retry(max=2, interval=[3600, 7200]))
    burst(connection)
    assert again.get_status() == JobStatus.FAILED and len(again.results()) == 1
    assert later.get_status() == JobStatus.SCHEDULED and later in queue.scheduled_job_registry
    ahead = queue.scheduled_job_registry.get_scheduled_time(later) - datetime.datetime.now(datetime.timezone.utc)
    assert 3000 < ahead.total_seconds() <= 3600, ahead
    assert again in queue.failed_job_registry


@check
def scheduler_in_the_worker():
    connection = client(8)
    queue = Queue(connection=connection)
    process = worker(connection, "--with-scheduler")
    soon = queue.enqueue_in(datetime.timedelta(seconds=1), rq_jobs.add, 1, 2)
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    at = queue.enqueue_at(moment, rq_jobs.add, 3, 4)
    never = queue.enqueue_in(datetime.timedelta(days=1), rq_jobs.add, 5, 6)
    assert queue.scheduled_job_registry.count == 3
    for job, result in ((soon, 3), (at, 7)):
        status_becomes(job, JobStatus.FINISHED)
        assert job.return_value() == result
    assert queue.scheduled_job_registry.get_job_ids() == [never.id]
    assert connection.ttl("rq:scheduler-lock:default") > 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=ledger.PATIENCE_SECONDS) == 0
    assert not connection.exists("rq:scheduler-lock:default")
    never.delete()
    assert queue.scheduled_job_registry.count == 0


@check
def dependencies():
    connection = client(9)
    queue = Queue(connection=connection)
    first = queue.enqueue(rq_jobs.append, "order", "first")
    bad = queue.enqueue(rq_jobs.fail, "so that others wait")
    both = queue.enqueue(rq_jobs.append, "order", "both", depends_on=[first, bad])
    anyway = queue.enqueue(rq_jobs.append, "order", "anyway",
                           depends_on=Dependency(jobs=[first, bad], allow_failure=True))
    last = queue.enqueue(rq_jobs.append, "order", "last", depends_on=anyway)
    assert queue.deferred_job_registry.count == 3 and both.get_status() == JobStatus.DEFERRED
    burst(connection)
    assert connection.lrange("order", 0, -1) == [b"first", b"anyway", b"last"]
    assert last.is_finished and both.get_status() == JobStatus.DEFERRED
    assert queue.deferred_job_registry.get_job_ids() == [both.id]
    after = queue.enqueue(rq_jobs.append, "order", "after", depends_on=last)  # which has finished
    assert after.get_status() == JobStatus.QUEUED


@check
def cancel_and_requeue():
    connection = client(10)
    queue = Queue(connection=connection)
    job = queue.enqueue(rq_jobs.append, "order", "canceled")
    dependent = queue.enqueue(rq_jobs.append, "order", "dependent", depends_on=job)
    job.cancel(enqueue_dependents=True)
    assert queue.job_ids == [dependent.id] and queue.canceled_job_registry.get_job_ids() == [job.id]
    queue.canceled_job_registry.requeue(job)
    burst(connection)
    assert connection.lrange("order", 0, -1) == [b"dependent", b"canceled"]
    failing = [queue.enqueue(rq_jobs.fail, str(number)) for number in range(3)]
    burst(connection)
    assert set(queue.failed_job_registry.get_job_ids()) == {job.id for job in failing}
    queue.failed_job_registry.requeue(failing[0])
    assert queue.job_ids == [failing[0].id] and queue.failed_job_registry.count == 2
    queue.failed_job_registry.remove(failing[1], delete_job=True)
    assert not Job.exists(failing[1].id, connection=connection) and queue.failed_job_registry.count == 1
    assert queue.empty() == 1 and queue.is_empty()  # with a script
    queue.delete(delete_jobs=True)
    assert not Queue.all(connection=connection)


@check
def timeouts():
    connection = client(11)
    queue = Queue(connection=connection, default_timeout=1)
    slow = queue.enqueue(rq_jobs.sleep, 60)
    burst(connection)
    assert slow.get_status() == JobStatus.FAILED and "JobTimeoutException" in slow.latest_result().exc_string
    forgotten = queue.enqueue(rq_jobs.add, 1, 1, ttl=1)
    ledger.wait_for(lambda: not Job.exists(forgotten.id, connection=connection), "the job's time to live is over")
    burst(connection)
    assert queue.is_empty()


@check
def commands_to_workers():
    """Workers listen to a channel of their own."""
    connection = client(12)
    queue = Queue(connection=connection)
    process = worker(connection, "--name", "listener")
    mine = ledger.wait_for(lambda: Worker.find_by_key("rq:worker:listener", connection=connection), "the worker came")

    def state():
        mine.refresh()
        return mine.get_state()

    for stop, status in ((lambda job: send_stop_job_command(connection, job.id), JobStatus.STOPPED),
                         (lambda job: send_kill_horse_command(connection, "listener"), JobStatus.FAILED)):
        job = queue.enqueue(rq_jobs.sleep, 60)
        status_becomes(job, JobStatus.STARTED)
        ledger.wait_for(lambda: mine.get_current_job_id() == job.id, "the worker is at it")
        assert state() == WorkerStatus.BUSY and job in queue.started_job_registry
        stop(job)
        status_becomes(job, status)
    died = queue.enqueue(rq_jobs.die)
    status_becomes(died, JobStatus.FAILED)
    assert "Work-horse terminated unexpectedly" in died.latest_result().exc_string
    suspend(connection, ttl=600)
    assert is_suspended(connection)
    waiting = queue.enqueue(rq_jobs.add, 1, 2)
    ledger.wait_for(lambda: state() in (WorkerStatus.SUSPENDED, WorkerStatus.IDLE), "the worker rests")
    resume(connection)
    status_becomes(waiting, JobStatus.FINISHED)
    send_shutdown_command(connection, "listener")
    assert process.wait(timeout=ledger.PATIENCE_SECONDS) == 0
    assert Worker.count(connection=connection) == 0


@check
def dead_workers():
    """A worker that is killed leaves its registration and its job; both are cleaned up."""
    connection = client(13)
    queue = Queue(connection=connection)
    process = worker(connection, "--name", "doomed")
    other = queue.enqueue(rq_jobs.sleep, 60, retry=Retry(max=1))
    status_becomes(other, JobStatus.STARTED)
    assert Worker.count(queue=queue) == 1
    mine = Worker.find_by_key("rq:worker:doomed", connection=connection)
    ledger.kill(process)
    assert mine.get_current_job_id() == other.id and other in queue.started_job_registry
    connection.delete("rq:worker:doomed")  # as its time to live would, after minutes
    clean_worker_registry(queue)
    assert Worker.count(connection=connection) == 0 and not connection.exists("rq:workers:default")
    clean_registries(queue)
    assert other in queue.started_job_registry  # its time has not come
    queue.started_job_registry.cleanup(timestamp=2 ** 40)
    assert queue.job_ids == [other.id] and not queue.started_job_registry.get_job_ids()
    assert Job.fetch(other.id, connection=connection).retries_left == 0


@check
def command_line():
    connection = client(14)
    url = f"redis://{ledger.HOST}:{ledger.PORT}/14"
    for arguments in (("enqueue", "--path", ledger.FOLDER, "rq_jobs.add", ":4", ":5", "--job-id", "typed"),
                      ("enqueue", "--path", ledger.FOLDER, "rq_jobs.fail", "why"), ("info",)):
        command, *rest = arguments
        assert ledger.start("/usr/bin/rq", command, "--url", url, *rest).wait(timeout=ledger.PATIENCE_SECONDS) == 0
    burst(connection, "--serializer", "rq.serializers.DefaultSerializer")
    assert Job.fetch("typed", connection=connection).return_value() == 9
    queue = Queue(connection=connection)
    assert queue.failed_job_registry.count == 1
    for command in (("requeue", "--queue", "default", "--all"), ("empty", "default")):
        ended = ledger.start("/usr/bin/rq", command[0], "--url", url, *command[1:])
        assert ended.wait(timeout=ledger.PATIENCE_SECONDS) == 0
    assert queue.is_empty() and queue.failed_job_registry.count == 0


@check
def json_serializer():
    connection = client(15)
    queue = Queue(connection=connection, serializer="rq.serializers.JSONSerializer")
    job = queue.enqueue(rq_jobs.add, "a", "b")
    assert json.loads(zlib.decompress(connection.hget(job.key, "data"))) == ["rq_jobs.add", None, ["a", "b"], {}]
    burst(connection, "--serializer", "rq.serializers.JSONSerializer")
    assert job.return_value() == "ab"


if __name__ == "__main__":
    ledger.run_checks(clean=empty_databases)
