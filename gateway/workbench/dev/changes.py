"""Changes of a project's Python files, as ``watchfiles`` sees them."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from pathlib import Path
from types import TracebackType
from typing import Self

#: The extra that installs ``watchfiles``, which the gateway itself does not need.
EXTRA = "partway[dev]"


class WatchFailed(Exception):
    """The files cannot be watched; the message says why."""


class Changes:
    """The ``*.py`` files that change in a directory and below, inside an ``async with`` block.

    Hidden folders, ``__pycache__``, ``node_modules`` and the like are passed over.

    Attributes:
        some: set while there are changes that were not taken, or when watching has failed.

    Raises:
        WatchFailed: the package ``watchfiles`` is not installed.
    """

    def __init__(self, directory: Path) -> None:
        if importlib.util.find_spec("watchfiles") is None:
            raise WatchFailed(f"--reload needs the package watchfiles: pip install '{EXTRA}'")
        self.some = asyncio.Event()
        self._directory = directory.resolve()
        self._names: set[str] = set()
        self._stop = asyncio.Event()
        self._watching: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch(), name="changes")
        self._watching.add_done_callback(lambda _: self.some.set())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()  # its thread looks every 50 ms; a cancelled one would take 5 s
        await asyncio.wait((self._watching,))

    def take(self) -> list[str]:
        """Return the changed files, relative to the directory, and forget them.

        Raises:
            WatchFailed: watching the directory has failed.
        """
        if self._watching.done():
            error = self._watching.exception()
            raise WatchFailed(f"{self._directory} cannot be watched: {error}") from error
        self.some.clear()
        names = sorted(self._names)
        self._names.clear()
        return names

    async def _watch(self) -> None:
        import watchfiles

        # the supervisor says which files changed
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        async for batch in watchfiles.awatch(
            self._directory,
            watch_filter=watchfiles.PythonFilter(),
            stop_event=self._stop,
        ):
            self._names |= {str(Path(path).relative_to(self._directory)) for _, path in batch}
            self.some.set()
