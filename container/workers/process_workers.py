"""Worker processes: each has its own model, and is replaced when it dies."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from partway.container.errors import WorkerDied, reason_of
from partway.container.limits import REAP_TIMEOUT, RESTART_DELAY_LIMIT
from partway.container.workers.child import Origin
from partway.container.workers.child_process import ChildProcess
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Job
from partway.container.workers.pool import Pool
from partway.container.workers.settings import Configurable, Loadable
from partway.log_lines import LogLine, format_of_log

_log = logging.getLogger("partway.container.workers")


class ProcessWorker:
    """A place that holds one worker process after the other.

    Rules:
        1. When a process dies, only the job that it had begun fails. A job that was still being
           sent to it goes to another worker next.
        2. The process is replaced: at once if it had begun a job, else after a delay, since its
           successor may fail in the same way. The delay doubles each time.
        3. If the first process does not come up, it is not replaced: the model cannot be loaded.

    Args:
        grace: seconds for a job that is no longer wanted; then the process is killed.
        restart_delay: seconds before a process is replaced, the first time.

    Attributes:
        first: set when the first process has come up, or failed to.
        down: why no process takes jobs; None while one does.
    """

    def __init__(
        self, name: str, origin: Origin, pool: Pool, grace: float, restart_delay: float
    ) -> None:
        self._name = name
        self._origin = origin
        self._pool = pool
        self._grace = grace
        self._restart_delay = self._delay = restart_delay
        self._loop = asyncio.get_running_loop()
        self.first: asyncio.Future[None] = self._loop.create_future()
        self.down: str | None = "the model is loading"
        self._process: ChildProcess | None = None
        self._job: Job | None = None
        self._began = False  # whether this process has begun a job
        self._dismissed = False  # whether we have killed it
        self._ending = False
        self._timer: asyncio.TimerHandle | None = None  # until the process is killed, or replaced

    # --- What the pool says ----------------------------------------------------------------------

    def begin(self, job: Job) -> None:
        assert self._process is not None, "only a worker that is up is free"
        self._job = job
        self._process.begin(job)

    def grant(self, items: int) -> None:
        if self._process is not None:
            self._process.grant(items)

    def give_up(self) -> None:
        if self._process is not None:
            self._process.give_up()
            self._timer = self._loop.call_later(self._grace, self._dismiss)

    def _dismiss(self) -> None:
        assert self._process is not None, "its end stops the timer"
        late = "a worker is still busy with an abandoned job: its process is killed"
        _log.warning(LogLine(late, worker=str(self)))
        self.down = "the process is being replaced"
        self._dismissed = True
        self._process.kill()

    # --- What the process says -------------------------------------------------------------------

    def came_up(self) -> None:
        self.down = None
        if self.first.done():
            _log.info(LogLine("a worker is up", worker=str(self)))
        else:
            self.first.set_result(None)
        self._pool.free(self)

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._stop_timer()
        self._began = True
        self._job = None
        self._pool.finished(job, outcome)
        if not self._dismissed:
            self._pool.free(self)

    def ended(self, job: Job | None, error: Exception) -> None:
        self._stop_timer()
        self._pool.lost(self)
        if not self._dismissed:
            self.down = reason_of(error)
            if self.first.done() and not self._ending:
                trace = None if isinstance(error, WorkerDied) else error
                _log.error(
                    LogLine("a worker ended", worker=str(self), reason=self.down), exc_info=trace
                )
        self._process = None
        lost, self._job = self._job, None
        if lost is not None and lost is not job:
            self._pool.unbegun(lost)
        elif lost is not None:
            self._began = True
            self._pool.finished(lost, Outcome() if lost.over else Outcome(error=error))
        if not self.first.done():
            self.first.set_exception(error)
        elif not self._ending:
            self._replace()

    # --- One after the other ---------------------------------------------------------------------

    def start(self) -> None:
        self._timer = None
        self._began = self._dismissed = False
        process = ChildProcess(self._name, self._origin, self)
        try:
            process.start()
        except (OSError, RuntimeError) as error:
            self.ended(None, error)
        else:
            self._process = process

    def _replace(self) -> None:
        if self._began:
            self._delay = self._restart_delay
            self.start()
        else:
            self._timer = self._loop.call_later(self._delay, self.start)
            self._delay = min(2 * self._delay, RESTART_DELAY_LIMIT)

    def end(self) -> asyncio.Future[None] | None:
        """Kill the process and start no other; return a future that is done when it is gone."""
        self._ending = True
        self._stop_timer()
        if self._process is None:
            return None
        self._process.kill()
        return self._process.ended

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __str__(self) -> str:
        pid = self._process.pid if self._process is not None else None
        return f"{self._name} (process {pid})"


class ProcessCrew:
    """The worker processes of one model.

    Args:
        model: a model of the class that each process creates; this object is not loaded itself.
        grace: seconds for a job that is no longer wanted; then its process is killed.
        restart_delay: seconds before a process is replaced, the first time.

    Raises:
        TypeError: the model's class cannot be imported by its name.
    """

    def __init__(
        self, model: Loadable, count: int, pool: Pool, grace: float, restart_delay: float
    ) -> None:
        _check_importable(type(model))
        self._model = model
        self._count = count
        self._pool = pool
        self._grace = grace
        self._restart_delay = restart_delay
        self._workers: list[ProcessWorker] = []
        self._going: list[asyncio.Future[None]] = []

    def check(self, method: Callable[..., Any]) -> None:
        """Refuse a method that cannot be called in another process.

        Raises:
            TypeError: the callable is not a method of the model.
        """
        name = getattr(method, "__name__", "")
        if getattr(self._model, name, None) != method:
            raise TypeError(
                f"{method!r} cannot be called in a worker process; it must be a method of the "
                "model, such as self.some_method"
            )

    async def start(self, model_dir: Path) -> None:
        """Start the processes; each loads the model."""
        kind = type(self._model)
        model, settings = self._model, None
        # A model without settings may have such an attribute for itself.
        if isinstance(model, Configurable) and model.settings_type is not None:
            settings = model.settings
        level = logging.getLogger().getEffectiveLevel()
        origin = Origin(
            *(kind.__module__, kind.__qualname__, model_dir, level, format_of_log()),
            pickle.dumps(settings),
        )
        self._workers = [
            ProcessWorker(
                f"partway-worker-{number}", origin, self._pool, self._grace, self._restart_delay
            )
            for number in range(self._count)
        ]
        for worker in self._workers:
            worker.start()
        await asyncio.gather(*(worker.first for worker in self._workers))

    def trouble(self) -> str | None:
        """Why the processes cannot serve; None if they can."""
        reasons = [worker.down for worker in self._workers if worker.down is not None]
        if reasons and len(reasons) == len(self._workers):
            return f"no worker process is up: {reasons[0]}"
        return None

    def end(self) -> None:
        self._going += [ended for worker in self._workers if (ended := worker.end()) is not None]
        self._workers = []

    async def ended(self) -> None:
        """Wait until the processes are gone; one that cannot be killed is left to the system."""
        if self._going:
            await asyncio.wait(self._going, timeout=2 * REAP_TIMEOUT)


def _check_importable(kind: type[Loadable]) -> None:
    found: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not kind:
        raise TypeError(
            f"{kind.__qualname__} runs on Processes, which import it by its name: "
            "define it at the top level of a module"
        )
