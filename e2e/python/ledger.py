"""What every Python driver shares: its environment, the events on standard output, and named checks.

A driver tells the harness what it did, one JSON object per line. A line is written with one write(2), so that the
lines of worker processes do not mix with the driver's. The workers' own standard output is the log, standard error,
since some of them talk there; they find the events' file descriptor in E2E_EVENTS.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

HOST = os.environ["CODEQ_HOST"]
PORT = int(os.environ["CODEQ_PORT"])
TASKS = int(os.environ.get("E2E_TASKS", "100"))
SEED = int(os.environ.get("E2E_SEED", "1"))
KILL = os.environ.get("E2E_KILL") == "1"
EVENTS = int(os.environ.get("E2E_EVENTS") or os.dup(1))

PROCESSES = []  # all that start() has started
FOLDER = os.path.dirname(os.path.abspath(__file__))

PATIENCE_SECONDS = 90  # within which a killed server is back, or a condition holds


def _emit(**event):
    os.write(EVENTS, (json.dumps(event) + "\n").encode())


def enqueued(task, dies=False, fails=None):
    """The server has acknowledged a task, which is meant to die, or to fail some times before it is done."""
    _emit(event="enqueued", id=task, dies=dies, **({} if fails is None else {"fails": fails}))


def done(task):
    _emit(event="done", id=task)


def failed(task, attempt):
    _emit(event="failed", id=task, attempt=attempt)


def dead(task):
    _emit(event="dead", id=task)


def note(text):
    _emit(event="note", text=text)


def end():
    _emit(event="end")


def log(text):
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def randomness():
    return random.Random(SEED)


def wait_for(condition, what, seconds=PATIENCE_SECONDS, pause=0.05):
    """Polls a condition that nothing tells of, and returns its first true value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise TimeoutError(f"gave up after {seconds} s waiting until {what}")


def persistently(errors, call):
    """Repeats a call that may meet a server that is being restarted. Only for calls that may be made twice."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except errors as error:
            if time.monotonic() > deadline:
                raise
            log(f"again: {error!r}")
            time.sleep(0.1)


def start(*command):
    """Starts a worker process, which finds the modules beside this one and may report events."""
    process = subprocess.Popen(
        [str(argument) for argument in command],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        pass_fds=[EVENTS],
        env={**os.environ, "E2E_EVENTS": str(EVENTS), "PYTHONPATH": FOLDER},
    )
    PROCESSES.append(process)
    return process


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
        return [int(child) for child in listed.read().split()]


def kill(process):
    """Ends a process and those that it has forked, as if the machine had gone."""
    forked = children(process.pid)
    process.kill()
    process.wait()
    for pid in forked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_processes():
    """Ends what was started and still runs."""
    for process in PROCESSES:
        if process.poll() is None:
            kill(process)
    PROCESSES.clear()


class Supervisor:
    """Keeps worker processes alive, as systemd would: one that ends by itself is started again after a moment.

    Each of starts gives a new process. The thread ends with stop().
    """

    def __init__(self, *starts):
        self._workers = [(start, start()) for start in starts]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._stopping.wait(0.2):
            for i, (start, process) in enumerate(self._workers):
                if process.poll() is not None:
                    log(f"worker {process.pid} ended with {process.returncode}; starting another")
                    self._workers[i] = (start, start())

    def processes(self):
        return [process for _, process in self._workers]

    def stop(self, signum=signal.SIGTERM):
        """Asks all workers to finish what they do, and waits for them."""
        self._stopping.set()
        self._thread.join()
        for process in self.processes():
            if process.poll() is None:
                process.send_signal(signum)
        for process in self.processes():
            process.wait(timeout=PATIENCE_SECONDS)


CHECKS = []


def check(function):
    """Registers a check of a feature driver; it is one task of the ledger, done if it returns."""
    CHECKS.append(function)
    return function


def run_checks(clean, **context):
    """Runs all checks, or those named on the command line, and exits with 1 if one failed.

    clean is called before each of them and behind the last one.
    """
    wanted = sys.argv[1:]
    broken = 0
    for function in CHECKS:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        enqueued(name)
        began = time.monotonic()
        clean()
        try:
            function(**context)
        except Exception:
            log(f"--- {name}\n{traceback.format_exc()}")
            broken += 1
        else:
            done(name)
            log(f"--- {name}: {time.monotonic() - began:.1f} s")
        finally:
            kill_processes()
    clean()
    end()
    sys.exit(1 if broken else 0)
