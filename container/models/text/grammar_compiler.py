"""Compilation of grammars on a thread of its own, so that no other request waits for a schema."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar, Final

from partway.container.errors import Busy, TooSlow
from partway.container.models.text.grammars import Grammars
from partway.container.models.text.output_constraints import Constraint
from partway.container.workers import Processes, Threads, Workers

#: Seconds for the thread to be told of its end.
_STOP_TIMEOUT: Final = 1.0


class GrammarCompiler:
    """Compiles the constraints of requests, one at a time.

    The thread starts with the first constraint. :meth:`close` ends it.
    """

    #: A waiting schema holds its text alone. Most compile in milliseconds: a burst finds its turn.
    runs_on: ClassVar[Threads | Processes | None] = Threads(count=1, queue=64, deadline=5.0)

    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars
        self._workers = Workers(self)
        self._starting: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self, model_dir: Path) -> None:
        """Load nothing: the grammars were made with the model."""

    async def compiled(self, constraint: Constraint) -> Any:
        """Return a new matcher.

        Raises:
            Busy: too many constraints wait, or the thread was not free before the deadline.
            TooSlow: the deadline passed during the compilation.
            Refused: as :meth:`Grammars.compiled`.
        """
        if self._starting is None:
            self._loop = asyncio.get_running_loop()
            self._starting = asyncio.create_task(self._workers.start(Path()))
        await asyncio.shield(self._starting)  # other requests wait for the start too
        try:
            return await self._workers.run(self._grammars.compiled, constraint)
        except Busy:
            raise Busy(
                f"{constraint.member}: too many schemas wait to be compiled; send the request "
                "again later"
            ) from None
        except TooSlow:
            raise TooSlow(
                f"{constraint.member}: takes too long to compile; send a simpler schema"
            ) from None

    def close(self) -> None:
        """End the thread; called on another thread than the loop's, which still runs."""
        if self._loop is not None:
            stopping = asyncio.run_coroutine_threadsafe(self._workers.stop(), self._loop)
            stopping.result(_STOP_TIMEOUT)
