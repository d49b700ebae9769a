#!/usr/bin/python3
"""RQ under load: forking workers on three queues, retries, scheduled jobs, dependencies, jobs that fail for good.

RQ takes a job off its list before it notes it as started, so a crash of the server between the two leaves a job that
is on no list; and a job whose success could not be noted is run again by whoever requeues it. So RQ promises neither
at most once nor at least once over a crash. This driver does what an operator does then: it lets the started jobs
that nobody works on time out, requeues what failed for that reason, and enqueues again what was lost on its way,
which may be one job for each worker.
"""

import datetime
import itertools
import sys
import time

import redis
from rq import Queue, Retry
from rq.job import Job, JobStatus
from rq.scheduler import RQScheduler

import ledger
import rq_jobs

DATABASE = 4 + ledger.SEED % 12
QUEUES = ("high", "default", "low")
WORKERS = 2
RETRIES = 8
STALL_SECONDS = 8  # without progress after a crash, after which the operator steps in
STEPS = 5  # that the operator takes at most while nothing moves
DOWN = (redis.ConnectionError, redis.TimeoutError)


class Load:
    """The jobs that were enqueued and what became of them, by what RQ tells."""

    def __init__(self, connection):
        self.connection = connection
        self.queues = [Queue(name, connection=connection) for name in QUEUES]
        self.expected = {}  # the status that each job must come to

    def enqueue_all(self):
        random = ledger.randomness()
        previous = None
        for number in range(ledger.TASKS):
            task = f"rq-{number}"
            queue = random.choice(self.queues)
            kind = random.choices(("plain", "retried", "scheduled", "dependent", "dies"), (55, 15, 10, 10, 10))[0]
            if kind == "dependent" and previous:
                self.enqueue(queue, task, depends_on=previous)
            elif kind == "retried":
                self.enqueue(queue, task, failures=random.randint(1, 2), interval=[0, 1])
            elif kind == "scheduled":
                self.enqueue(queue, task, delay=random.choice((0, 1, 2)))
            elif kind == "dies":
                self.enqueue(queue, task, failures=RETRIES + 1)
            else:
                self.enqueue(queue, task)
                previous = task

    def enqueue(self, queue, task, failures=0, interval=0, delay=None, depends_on=None):
        options = dict(job_id=task, retry=Retry(max=RETRIES, interval=interval), meta={"retries": RETRIES},
                       result_ttl=-1, failure_ttl=-1, depends_on=depends_on)

        def once():
            if Job.exists(task, connection=self.connection):
                return  # the call before went through, and only its reply was lost
            if delay is None:
                queue.enqueue(rq_jobs.work, task, failures, **options)
            else:
                queue.enqueue_in(datetime.timedelta(seconds=delay), rq_jobs.work, task, failures, **options)

        dies = failures > RETRIES
        ledger.persistently(DOWN, once)
        self.expected[task] = JobStatus.FAILED if dies else JobStatus.FINISHED
        # A crash may take an attempt before it says so: it is counted by RQ, and not by us.
        ledger.enqueued(task, dies=dies, fails=None if ledger.KILL else min(failures, RETRIES + 1))

    def outstanding(self):
        """The jobs that have not come to the status that they must come to, and those that will be worked on again."""
        tasks = list(self.expected)
        jobs = Job.fetch_many(tasks, connection=self.connection)
        waiting = self.waiting() | set(itertools.chain.from_iterable(
            queue.started_job_registry.get_job_ids() for queue in self.queues))
        return {task: job for task, job in zip(tasks, jobs)
                if job is None or job.get_status(refresh=False) != self.expected[task] or task in waiting}

    def waiting(self):
        """The jobs on any list that a worker or the scheduler looks at."""
        places = [queue.job_ids for queue in self.queues]
        places += [queue.scheduled_job_registry.get_job_ids() for queue in self.queues]
        return set(itertools.chain.from_iterable(places))

    def await_end(self):
        """Waits until nothing is outstanding. After a crash it recovers what RQ left lying when nothing moves."""
        before, since, steps = None, time.monotonic(), 0
        while left := ledger.persistently(DOWN, self.outstanding):
            now = {task: job and (job.get_status(refresh=False), job.retries_left) for task, job in left.items()}
            if now != before:
                before, since, steps = now, time.monotonic(), 0
            elif time.monotonic() - since > ledger.PATIENCE_SECONDS:
                raise RuntimeError(f"nothing moves, and these are left: {left}")
            elif ledger.KILL and steps < STEPS and time.monotonic() - since > STALL_SECONDS * (steps + 1):
                ledger.persistently(DOWN, lambda: self.recover(left))
                steps += 1
            time.sleep(0.1)

    def recover(self, left):
        waiting = self.waiting()
        for queue in self.queues:
            queue.started_job_registry.cleanup(timestamp=2 ** 40)  # requeues or fails all of them
            for task in queue.failed_job_registry.get_job_ids():
                if task in left:
                    ledger.note(f"requeued {task}, which failed in the crash")
                    queue.failed_job_registry.requeue(task)
        lost = [job for task, job in left.items()
                if task not in waiting and job and job.get_status() == JobStatus.QUEUED
                and task not in Queue(job.origin, connection=self.connection).job_ids]
        if len(lost) > WORKERS:
            raise RuntimeError(f"{len(lost)} jobs were lost on their way to {WORKERS} workers: {lost}")
        for job in lost:
            ledger.note(f"enqueued {job.id} again, which was on its way to a worker")
            Queue(job.origin, connection=self.connection).enqueue_job(job)

    def check_end(self):
        """What RQ shows agrees with the outcome."""
        dead = {task for task, status in self.expected.items() if status == JobStatus.FAILED}
        failed, finished = set(), set()
        for queue in self.queues:
            failed |= set(queue.failed_job_registry.get_job_ids())
            finished |= set(queue.finished_job_registry.get_job_ids())
            for place in (queue, queue.started_job_registry, queue.scheduled_job_registry, queue.deferred_job_registry):
                assert place.count == 0, f"{place} is not empty"
        assert failed == dead, f"failed jobs are {failed}, not {dead}"
        assert finished == set(self.expected) - dead, f"finished jobs are {finished}"
        for task in finished:
            result = Job.fetch(task, connection=self.connection).latest_result()
            assert result.return_value == f"result of {task}", f"the result of {task} is {result.return_value}"
        for task in dead:
            ledger.dead(task)


def worker():
    url = f"redis://{ledger.HOST}:{ledger.PORT}/{DATABASE}"
    return ledger.start("/usr/bin/rq", "worker", "--url", url, "--path", ledger.FOLDER, *QUEUES)


def schedule():
    """Runs RQ's scheduler, which gives up when it loses its server and leaves its locks behind."""
    connection = redis.Redis(ledger.HOST, ledger.PORT, db=DATABASE)
    scheduler = RQScheduler(QUEUES, connection=connection)
    ledger.persistently(DOWN, scheduler.release_locks)
    scheduler.acquire_locks()
    scheduler.work()


def main():
    load = Load(redis.Redis(ledger.HOST, ledger.PORT, db=DATABASE))
    scheduler = (sys.executable, "-c", "import rq_load; rq_load.schedule()")
    workers = ledger.Supervisor(*[worker] * WORKERS, lambda: ledger.start(*scheduler))
    load.enqueue_all()
    load.await_end()
    workers.stop()
    load.check_end()
    ledger.end()


if __name__ == "__main__":
    main()
