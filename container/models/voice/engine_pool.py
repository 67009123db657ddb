"""An engine with a crew of worker threads of its own.

Each engine has its own crew: a long transcription holds no speaking up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Final, Generic, ParamSpec, TypeVar

from partway.container.errors import Busy, ModelError, TooSlow
from partway.container.threads import post
from partway.container.workers import JobFigures, Processes, Threads, Workers

_E = TypeVar("_E")
_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_JOBS: Final = JobFigures(0, 0, 0)


class EnginePool(Generic[_E]):
    """Runs the methods of a loaded engine on its threads.

    Args:
        engine: the engine; it is loaded already.
        name: the engine's word in errors, such as ``hearing``.
        threads: the number of threads, and the bounds of their queue.

    Attributes:
        engine: as given.
        name: as given.
    """

    def __init__(self, engine: _E, name: str, threads: Threads) -> None:
        self.engine = engine
        self.name = name
        self._crew = _Crew(threads)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[Workers] | None = None
        self._workers: Workers | None = None

    async def run(self, method: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a method of the engine on a thread, and return its result.

        Cancelling gives the job up.

        Raises:
            Busy: too many jobs wait already, or no thread was free in time; the reason names the
                engine.
            TooSlow: the engine has not finished in time; likewise.
            Exception: any exception of the method.
        """
        workers = self._workers or await self._start()
        try:
            return await workers.run(method, *args, **kwargs)
        except (Busy, TooSlow) as error:
            raise self._named(error) from None

    async def iterate(
        self, method: Callable[_P, Iterable[_T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> AsyncGenerator[_T]:
        """Run a generator of the engine on a thread, and yield its items.

        Closing this generator closes the engine's at its next item.

        Raises:
            Exception: as :meth:`run`.
        """
        workers = self._workers or await self._start()
        try:
            async with aclosing(workers.iterate(method, *args, **kwargs)) as items:
                async for item in items:
                    yield item
        except (Busy, TooSlow) as error:
            raise self._named(error) from None

    @property
    def figures(self) -> JobFigures:
        """The numbers of running, waiting and refused jobs; any thread may read them."""
        return _NO_JOBS if self._workers is None else self._workers.figures

    def trouble(self) -> str | None:
        """Why the threads cannot serve, for ``/ping``; None if they can."""
        reason = None if self._workers is None else self._workers.trouble()
        return None if reason is None else f"the {self.name} engine: {reason}"

    def close(self) -> None:
        """End every job and thread; on any thread."""
        if self._loop is not None and self._workers is not None:
            post(self._loop, self._stop, self._workers)

    # --- Inside ----------------------------------------------------------------------------------

    async def _start(self) -> Workers:
        """Start the threads; they belong to the loop that uses them first."""
        if self._starting is None:
            self._loop = asyncio.get_running_loop()
            self._starting = self._loop.create_task(self._started())
        return await asyncio.shield(self._starting)

    async def _started(self) -> Workers:
        workers = Workers(self._crew)
        await workers.start(Path())
        self._workers = workers
        return workers

    def _stop(self, workers: Workers) -> None:
        self._starting = asyncio.get_running_loop().create_task(self._stopped(workers))

    async def _stopped(self, workers: Workers) -> Workers:
        await workers.stop()
        return workers

    def _named(self, error: ModelError) -> ModelError:
        if isinstance(error, Busy):
            return Busy(f"the {self.name} engine is busy: {error.reason}")
        return TooSlow(f"the {self.name} engine is too slow: {error.reason}")


class _Crew:
    """Threads for an engine that is loaded already."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    @property
    def runs_on(self) -> Threads | Processes | None:
        return self._threads

    def load(self, model_dir: Path) -> None:
        """Load nothing."""
