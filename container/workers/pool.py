"""The job queue: assignment of jobs to workers, waiting and deadlines."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import NamedTuple

from partway.container.activity import STOPPING
from partway.container.errors import Busy, ModelError, TooSlow, log_failure
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Job, Worker
from partway.protocol.websocket.close_codes import GOING_AWAY

_log = logging.getLogger("partway.container.workers")


class JobFigures(NamedTuple):
    """Counts of a model's jobs.

    Attributes:
        running: number of jobs that workers compute.
        waiting: number of jobs that wait for a worker.
        refused: number of jobs so far for which no worker was free.
    """

    running: int
    waiting: int
    refused: int


class Pool:
    """The queue in front of the workers. All calls are made on the loop.

    Rules:
        1. Jobs begin in the order of their submission.
        2. A job waits only while no worker is free, and ``queue`` jobs wait at most.
        3. A job has ``deadline`` seconds from its submission, waiting included.
        4. A job that is over leaves the queue at once, and its worker is told. That worker is free
           only when it says so.
    """

    def __init__(self, queue: int, deadline: float) -> None:
        self._queue = queue
        self._deadline = deadline
        self._refusal: str | None = "the model is loading"
        self._stopped = False
        self._jobs: set[Job] = set()  # jobs that are not over
        self._waiting: OrderedDict[Job, None] = OrderedDict()
        self._idle: list[Worker] = []
        self._refused = 0

    @property
    def figures(self) -> JobFigures:
        """The counts now; any thread may read them."""
        waiting = len(self._waiting)
        return JobFigures(len(self._jobs) - waiting, waiting, self._refused)

    # --- Clients ---------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Take a job.

        Raises:
            Busy: the queue is full, or the workers have not started or have ended.
        """
        if self._refusal is not None:
            raise Busy(self._refusal)
        if not self._idle and len(self._waiting) >= self._queue:
            waiting = len(self._waiting)
            self._refused += 1
            raise Busy(
                f"every worker is busy, and {waiting} jobs wait already"
                if waiting
                else "every worker is busy, and no job may wait"
            )
        self._jobs.add(job)
        job.timer = asyncio.get_running_loop().call_later(self._deadline, self._expire, job)
        if self._idle:
            self._assign(job, self._idle.pop())
        else:
            self._waiting[job] = None

    def give_up(self, job: Job) -> None:
        """Note that the client of a job has left."""
        self._end(job, Outcome())

    def _expire(self, job: Job) -> None:
        error: ModelError
        if job in self._waiting:
            self._refused += 1
            error = Busy(f"no worker was free within {self._deadline:g} s")
        else:
            error = TooSlow(f"the model has not finished within {self._deadline:g} s")
        self._end(job, Outcome(error=error))

    # --- Workers ---------------------------------------------------------------------------------

    def free(self, worker: Worker) -> None:
        """Give a worker the next job, or note that it is free."""
        if self._waiting:
            job, _ = self._waiting.popitem(last=False)
            self._assign(job, worker)
        else:
            self._idle.append(worker)

    def lost(self, worker: Worker) -> None:
        """Give a worker no more jobs, until it is free again."""
        if worker in self._idle:
            self._idle.remove(worker)

    def finished(self, job: Job, outcome: Outcome) -> None:
        """End a worker's job; the worker itself says when it is free."""
        job.worker = None
        if not job.over:
            self._end(job, outcome)
        elif outcome.error is not None:
            log_failure(_log, "abandoned job", outcome.error)

    def unbegun(self, job: Job) -> None:
        """Give a job that a lost worker had not begun to the next free worker."""
        job.worker = None
        if job.over:
            return
        if self._idle:
            self._assign(job, self._idle.pop())
        else:
            self._waiting[job] = None
            self._waiting.move_to_end(job, last=False)

    # --- All of it -------------------------------------------------------------------------------

    def open(self) -> None:
        """Accept jobs from now on, unless the pool was closed before."""
        if not self._stopped:
            self._refusal = None

    def close(self) -> None:
        """End every job, and accept no more."""
        self._stopped = True
        self._refusal = STOPPING
        for job in list(self._jobs):
            error = ModelError(self._refusal, code=GOING_AWAY, status=503)
            self._end(job, Outcome(error=error))

    def _assign(self, job: Job, worker: Worker) -> None:
        job.worker = worker
        worker.begin(job)

    def _end(self, job: Job, outcome: Outcome) -> None:
        """End a job; every end passes through here, and only the first one counts."""
        if job.over:
            return
        job.over = True
        self._jobs.discard(job)
        self._waiting.pop(job, None)
        if job.timer is not None:
            job.timer.cancel()
        job.settle(outcome)  # first, whatever happens to the worker
        if job.worker is not None:
            job.worker.give_up()
