"""The outside of a worker process, and the thread that talks to it."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Protocol

from partway.container.errors import WorkerDied
from partway.container.limits import REAP_TIMEOUT
from partway.container.threads import ordinary, post
from partway.container.workers.child import Origin, main
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Iteration, Job
from partway.container.workers.pipe_messages import (
    CALL,
    ERROR,
    FAILED,
    GIVE_UP,
    GRANT,
    ITEM,
    ITERATE,
    LOADED,
    pack,
    unpack,
    unpack_error,
)

# A fork would copy locks that other threads hold.
_spawning = multiprocessing.get_context("spawn")


class Owner(Protocol):
    """The owner of a process, as told of events on the loop."""

    def came_up(self) -> None:
        """Note that the model is loaded: jobs may be sent."""

    def finished(self, job: Job, outcome: Outcome) -> None:
        """Note that the process has finished a job and can take the next."""

    def ended(self, job: Job | None, error: Exception) -> None:
        """Note that the process is gone; ``job`` is None if it was idle."""


class ChildProcess:
    """One worker process, from its start to its end.

    A dedicated thread starts the process, talks to it and waits for its end. So neither a large job
    nor an unresponsive process blocks the loop.

    Args:
        name: for the process and its thread.

    Attributes:
        ended: set when the process is gone and its thread has finished.
    """

    def __init__(self, name: str, origin: Origin, owner: Owner) -> None:
        self._name = name
        self._origin = origin
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._process: SpawnProcess | None = None
        self._killed = False
        #: Calls for the thread to make with the pipe, and the bell that wakes the thread.
        self._errands: deque[Callable[[Connection], None]] = deque()
        self._bell_lock = threading.Lock()
        self._bell: Connection | None = None
        #: The process's job, its load error and an item's error; only the thread uses these.
        self._job: Job | None = None
        self._load_error: Exception | None = None
        self._item_error: Exception | None = None

    @property
    def pid(self) -> int | None:
        """The process's id; None before it has been started."""
        return self._process.pid if self._process is not None else None

    # --- On the loop -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process and its thread.

        Raises:
            OSError, RuntimeError: the system has no more pipes or threads.
        """
        ears, self._bell = _spawning.Pipe(duplex=False)
        thread = threading.Thread(target=self._run, args=(ears,), name=self._name, daemon=True)
        thread.start()

    def begin(self, job: Job) -> None:
        self._send(lambda pipe: self._send_job(pipe, job))

    def grant(self, items: int) -> None:
        message = GRANT + str(items).encode()
        self._send(lambda pipe: pipe.send_bytes(message))

    def give_up(self) -> None:
        self._send(lambda pipe: pipe.send_bytes(GIVE_UP))

    def kill(self) -> None:
        """Kill the process. Any thread may call this, any number of times."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def _send(self, errand: Callable[[Connection], None]) -> None:
        with self._bell_lock:
            if self._bell is not None:
                self._errands.append(errand)
                self._bell.send_bytes(b"")  # only a few per job, so that it never blocks

    def _conclude(self, error: Exception) -> None:
        self._owner.ended(self._job, error)
        if not self.ended.done():
            self.ended.set_result(None)

    # --- On the thread ---------------------------------------------------------------------------

    def _run(self, ears: Connection) -> None:
        try:
            pipe, its_end = _spawning.Pipe()
            with pipe:
                with its_end:
                    self._launch(its_end)
                error = self._attend(pipe, ears)
        except BaseException as failure:  # no more pipes, processes or memory
            error = ordinary(failure)
        with self._bell_lock, ears:
            if self._bell is not None:
                self._bell.close()
            self._bell = None
        post(self._loop, self._conclude, error)

    def _launch(self, its_end: Connection) -> None:
        process = _spawning.Process(target=main, args=(its_end, self._origin), name=self._name)
        process.start()
        self._process = process
        _living.add(self)
        if self._killed:
            process.kill()

    def _attend(self, pipe: Connection, ears: Connection) -> Exception:
        """Talk to the process until it is gone; return the reason."""
        try:
            self._talk(pipe, ears)
        finally:
            status = self._reap()
        return self._load_error or WorkerDied(f"the worker process {_how_it_ended(status)}")

    def _talk(self, pipe: Connection, ears: Connection) -> None:
        while True:
            # Listen first: a process that is known to be dead must not get a job.
            if pipe in wait((pipe, ears)):
                try:
                    message = pipe.recv_bytes()
                except (EOFError, OSError):
                    return
                self._hear(message)
                del message  # an idle process holds nothing of its last job
            else:
                ears.recv_bytes()
                while self._errands:
                    with suppress(OSError):  # it is dying, as the pipe will report
                        self._errands.popleft()(pipe)

    def _send_job(self, pipe: Connection, job: Job) -> None:
        name = job.method.__name__
        kind = ITERATE if isinstance(job, Iteration) else CALL
        call = (name, job.args, job.kwargs)
        try:
            message = pack(kind, call, f"an argument of {name}()")
        except TypeError as error:
            post(self._loop, self._owner.finished, job, Outcome(error=error))
            return
        # The job counts as begun even if sending fails: the next process would fail too.
        self._job = job
        self._item_error = None
        pipe.send_bytes(message)

    def _hear(self, message: bytes) -> None:
        kind = message[:1]
        if kind == LOADED:
            post(self._loop, self._owner.came_up)
        elif kind == FAILED:
            self._load_error = unpack_error(message)
        elif kind == ITEM:
            self._hear_item(message)
        else:
            self._hear_end(kind, message)

    def _hear_item(self, message: bytes) -> None:
        job = self._job
        assert isinstance(job, Iteration), "only a generator yields"
        if job.over or self._item_error is not None:
            return
        try:
            job.emit(unpack(message, f"an item of {job.method.__name__}()"))
        except TypeError as error:
            self._item_error = error  # the job ends with this error, once the process has stopped
            self.give_up()

    def _hear_end(self, kind: bytes, message: bytes) -> None:
        job, self._job = self._job, None
        assert job is not None, "what ends has begun"
        if kind == ERROR:
            outcome = Outcome(error=unpack_error(message))
        elif self._item_error is not None:
            outcome = Outcome(error=self._item_error)
        else:
            outcome = _result(message, f"the result of {job.method.__name__}()")
        post(self._loop, self._owner.finished, job, outcome)

    def _reap(self) -> int | None:
        """Wait for the end of a process whose pipe has ended; return its status."""
        process = self._process
        assert process is not None, "it has been started"
        process.join(REAP_TIMEOUT)
        if process.exitcode is None:  # the process has closed the pipe, but still runs
            process.kill()
            process.join(REAP_TIMEOUT)
        _living.discard(self)
        return process.exitcode


def _result(message: bytes, what: str) -> Outcome:
    try:
        return Outcome(unpack(message, what))
    except TypeError as error:
        return Outcome(error=error)


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "has closed its pipe"
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


#: Processes to kill at exit if nobody has stopped them; multiprocessing would wait for each.
_living: set[ChildProcess] = set()
os.register_at_fork(after_in_child=_living.clear)  # a forked process has none


@atexit.register
def _kill_the_living() -> None:
    for process in list(_living):
        process.kill()
