"""Worker threads: they share one model, and cannot be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from partway.container.limits import ITEMS_HELD
from partway.container.threads import deferred, post
from partway.container.workers.job_execution import Gate, Outcome, perform
from partway.container.workers.jobs import Iteration, Job
from partway.container.workers.pool import Pool
from partway.container.workers.settings import Loadable

_Mailbox = SimpleQueue[Callable[[], None] | None]


class ThreadWorker:
    """One thread, which makes calls until :meth:`end`.

    It is a daemon: a call that hangs does not keep the process from ending.
    """

    def __init__(self, name: str, pool: Pool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._mailbox: _Mailbox = SimpleQueue()
        self._gate = Gate(0)
        self._given_up_at: float | None = None
        threading.Thread(target=_serve, args=(self._mailbox,), name=name, daemon=True).start()

    @property
    def given_up_for(self) -> float:
        """Seconds since its job was abandoned, while it still runs the job; else 0."""
        if self._given_up_at is None:
            return 0.0
        return self._loop.time() - self._given_up_at

    async def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the thread, and pass its exception on."""
        future, make = deferred(function, *args)
        self._mailbox.put(make)
        await future

    def begin(self, job: Job) -> None:
        self._gate = Gate(ITEMS_HELD)
        self._mailbox.put(partial(self._compute, job, self._gate))

    def grant(self, items: int) -> None:
        self._gate.grant(items)

    def give_up(self) -> None:
        self._given_up_at = self._loop.time()
        self._gate.close()

    def end(self) -> None:
        """Let the thread end, after its current call."""
        self._mailbox.put(None)

    def _compute(self, job: Job, gate: Gate) -> None:
        emit = job.emit if isinstance(job, Iteration) else None
        post(self._loop, self._finished, job, perform(job.compute, gate, emit))

    def _finished(self, job: Job, outcome: Outcome) -> None:
        self._given_up_at = None
        self._pool.finished(job, outcome)
        self._pool.free(self)


def _serve(mailbox: _Mailbox) -> None:
    while (call := mailbox.get()) is not None:
        call()
        del call  # an idle thread holds nothing of its last job


class ThreadCrew:
    """The worker threads of one model.

    Args:
        model: the model, which is loaded on the first thread and used on all.
        hung_after: seconds from the moment when a thread's job was abandoned; a thread that still
            runs the job then counts as hung.
    """

    def __init__(self, model: Loadable, count: int, pool: Pool, hung_after: float) -> None:
        self._model = model
        self._count = count
        self._pool = pool
        self._hung_after = hung_after
        self._workers: list[ThreadWorker] = []

    def check(self, method: Callable[..., Any]) -> None:
        """Refuse nothing: a thread can call any callable."""

    async def start(self, model_dir: Path) -> None:
        """Load the model on the first thread, so that jobs there find its thread-local data."""
        self._workers = [
            ThreadWorker(f"partway-worker-{number}", self._pool) for number in range(self._count)
        ]
        await self._workers[0].call(self._model.load, model_dir)
        for worker in reversed(self._workers):  # the last free worker begins first
            self._pool.free(worker)

    def trouble(self) -> str | None:
        """Why the threads cannot serve; None if they can."""
        if self._workers and all(
            worker.given_up_for > self._hung_after for worker in self._workers
        ):
            return (
                f"every worker has been busy for more than {self._hung_after:g} s "
                "with an abandoned job"
            )
        return None

    def end(self) -> None:
        """Let each thread end, after its current call."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    async def ended(self) -> None:
        """Return at once: threads are not waited for, since they may hang."""
