"""Output into a folder of this machine: written beside its path, and hidden until it is whole."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from partway.gateway.batch.input_output import output_name
from partway.gateway.batch.output_spool import write_all
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.files import replacing_alone
from partway.gateway.storage.places.folder_threads import FolderThreads


class LocalOutputs:
    """An output folder, which is made if it is missing."""

    def __init__(self, folder: Path, threads: FolderThreads) -> None:
        self._folder = folder
        self._threads = threads

    async def present(self, names: Collection[str]) -> set[str]:
        def look(wanted: Wanted) -> set[str]:
            found = set()
            for name in names:
                wanted.check()
                if os.path.lexists(self._folder / output_name(name)):
                    found.add(name)
            return found

        return await self._threads.run(self._folder, look)

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[LocalOutput]:
        path = self._folder / output_name(name)
        output = LocalOutput(path, self._threads)
        await output.begin()
        try:
            yield output
        finally:
            output.leave()


class LocalOutput:
    """An unfinished output file; see :func:`~partway.gateway.storage.files.replacing_alone`."""

    def __init__(self, path: Path, threads: FolderThreads) -> None:
        self._path = path
        self._threads = threads
        self._writing = replacing_alone(path)
        self._descriptor = -1

    async def begin(self) -> None:
        """Open the file, empty.

        Raises:
            StorageFailed: it cannot be opened, or another process writes it.
        """
        file = await self._threads.run(self._path, lambda _: self._writing.__enter__())
        self._descriptor = file.fileno()

    async def write(self, data: bytes) -> None:
        await self._threads.run(self._path, partial(write_all, self._descriptor, data))

    async def restart(self) -> None:
        def drop(_: Wanted) -> None:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.ftruncate(self._descriptor, 0)

        await self._threads.run(self._path, drop)

    async def finish(self) -> None:
        def appear(wanted: Wanted) -> None:
            os.fsync(self._descriptor)
            wanted.check()
            self._writing.__exit__(None, None, None)

        await self._threads.run(self._path, appear)

    def leave(self) -> None:
        # A thread that hangs during the rename ends the generator itself.
        with suppress(ValueError):
            self._writing.__exit__(_Left, _Left(), None)


class _Left(Exception):
    """Raised to give up an output that was not published."""
