"""The workers of a model, as its handlers use them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from partway.container.limits import GIVE_UP_GRACE, HUNG_AFTER, RESTART_DELAY
from partway.container.workers.jobs import Call, Items, Iteration
from partway.container.workers.pool import JobFigures, Pool
from partway.container.workers.process_workers import ProcessCrew
from partway.container.workers.settings import Loadable, Processes, Threads
from partway.container.workers.thread_workers import ThreadCrew

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Workers:
    """Runs a model's methods on its workers; each worker runs one at a time.

    An abandoned job is one that still runs although nobody waits for its result.

    Args:
        model: the model; its ``runs_on`` names the workers. If ``runs_on`` is None, the model has
            one thread as its worker.
        grace: seconds for which a worker process may go on with an abandoned job.
        hung_after: seconds from the moment when a thread's job was abandoned; a thread that still
            runs the job then counts as hung.
        restart_delay: seconds before a process that did not come up is replaced.

    Raises:
        TypeError: worker processes cannot create a model of that class.
    """

    def __init__(
        self,
        model: Loadable,
        *,
        grace: float = GIVE_UP_GRACE,
        hung_after: float = HUNG_AFTER,
        restart_delay: float = RESTART_DELAY,
    ) -> None:
        settings = model.runs_on or Threads()
        self._pool = Pool(settings.queue, settings.deadline)
        self._crew: ThreadCrew | ProcessCrew
        if isinstance(settings, Processes):
            self._crew = ProcessCrew(model, settings.count, self._pool, grace, restart_delay)
        else:
            self._crew = ThreadCrew(model, settings.count, self._pool, hung_after)

    async def start(self, model_dir: Path) -> None:
        """Load the model; called once. It waits as long as ``load`` takes.

        Raises:
            WorkerDied: the process that was loading the model has died.
            Exception: any exception of ``load``.
        """
        try:
            await self._crew.start(model_dir)
        except BaseException:
            self._end()
            raise
        self._pool.open()

    def trouble(self) -> str | None:
        """Why the workers cannot serve; None if they can."""
        return self._crew.trouble()

    @property
    def figures(self) -> JobFigures:
        """The numbers of running, waiting and refused jobs; any thread may read them."""
        return self._pool.figures

    async def stop(self) -> None:
        """End the workers and every job: clients that wait for a job get 503, or Close 1001.

        Threads that still compute are abandoned; processes are killed.
        """
        self._end()
        await self._crew.ended()

    async def run(self, method: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a method of the model on a worker, and return its result.

        Cancelling gives the job up: it leaves the queue, or its worker process is killed. A thread
        still completes the method, and the result is dropped.

        Args:
            method: plain ``def``. With :class:`Processes` it must be a method of the model, and its
                arguments and result are pickled.
            args: the method's arguments.
            kwargs: its keyword arguments.

        Raises:
            Busy: too many jobs wait already, or no worker was free before the deadline.
            TooSlow: the deadline passed while the method computed.
            WorkerDied: the worker process has died.
            TypeError: a worker cannot call that method, or take these arguments.
            Exception: any exception of the method.
        """
        self._check(method)
        if inspect.isgeneratorfunction(method):
            raise TypeError(f"{method.__qualname__} is a generator: it must be called by iterate()")
        job: Call[_T] = Call(method, args, kwargs)
        self._pool.submit(job)
        try:
            return await job.result
        finally:
            self._pool.give_up(job)
            del job.result  # breaks the cycle of exception, frame and job

    def iterate(
        self, method: Callable[_P, Iterable[_T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Items[_T]:
        """Run a generator of the model on a worker, and iterate over its items.

        ::

            async for token in self.workers.iterate(self.generate, prompt):
                await stream.send(token)

        The generator begins at once. Each item arrives when it is yielded, and the generator runs
        ahead of its client by 64 items at most. Leaving the loop, for any reason, closes the
        generator at its next item, on its worker.

        Raises:
            Busy: too many jobs wait already. The other exceptions of :meth:`run` are raised while
                iterating.
            TypeError: a worker cannot call that method.
        """
        self._check(method)
        job: Iteration[_T] = Iteration(method, args, kwargs)
        self._pool.submit(job)
        return Items(job, self._pool.give_up)

    def _check(self, method: Callable[..., object]) -> None:
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise TypeError(
                f"{method.__qualname__} is async: await it here, or make it a plain def"
            )
        self._crew.check(method)

    def _end(self) -> None:
        self._pool.close()
        self._crew.end()
