"""Output in a folder of this machine: written beside its place, and hidden until it is whole."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from partway.gateway.batch.input_output import output_name
from partway.gateway.batch.output_spool import write_all
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.files import locked
from partway.gateway.storage.places.folder_threads import FolderThreads


class LocalOutputs:
    """A folder, made if it is missing.

    Args:
        folder: which.
        threads: by which it is written.
    """

    def __init__(self, folder: Path, threads: FolderThreads) -> None:
        self._folder = folder
        self._threads = threads

    async def present(self, names: Collection[str]) -> set[str]:
        """Which outputs are there; see :class:`~.storage.OutputPlace`."""

        def look(wanted: Wanted) -> set[str]:
            found = set()
            for name in names:
                wanted.check()
                if os.path.lexists(self._folder / output_name(name)):
                    found.add(name)
            return found

        return await self._threads.run(self._folder, look)

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[PartFile]:
        """One output; see :class:`~.storage.OutputPlace`."""
        path = self._folder / output_name(name)
        part = await self._threads.run(path, lambda _: PartFile(path, self._threads))
        try:
            yield part
        finally:
            part.leave()


class PartFile:
    """A file on its way: beside its place, hidden, and locked against others that write it.

    What a process that was killed has left is taken over, since its lock is free.

    Args:
        path: where it is to appear; the folders are made that it is in.
        threads: by which it is written.

    Raises:
        OSError: it cannot be begun, or another process writes it.
    """

    def __init__(self, path: Path, threads: FolderThreads) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._threads = threads
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = _locked_part(self._part)
        os.ftruncate(self._descriptor, 0)

    async def write(self, data: bytes) -> None:
        """Add bytes; see :class:`~.storage.OutputFile`."""
        await self._threads.run(self._path, partial(write_all, self._descriptor, data))

    async def restart(self) -> None:
        """Drop what was written; see :class:`~.storage.OutputFile`."""

        def drop(_: Wanted) -> None:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.ftruncate(self._descriptor, 0)

        await self._threads.run(self._path, drop)

    async def finish(self) -> None:
        """Have it appear; see :class:`~.storage.OutputFile`."""

        def appear(wanted: Wanted) -> None:
            os.fsync(self._descriptor)
            wanted.check()
            self._part.rename(self._path)

        await self._threads.run(self._path, appear)

    def leave(self) -> None:
        """Leave nothing but what has appeared."""
        with suppress(OSError):
            if self._part.lstat().st_ino == os.fstat(self._descriptor).st_ino:
                self._part.unlink()
        os.close(self._descriptor)


def _locked_part(part: Path) -> int:
    """Open and lock a file that is where its name says: not one that has just been renamed.

    Raises:
        OSError: another process writes it, or it cannot be opened.
    """
    while True:
        try:
            descriptor = locked(part, 0o666)
        except BlockingIOError as error:
            error.strerror = "another process writes this output; wait for its end"
            raise
        with suppress(FileNotFoundError):
            found, opened = part.lstat(), os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino):
                return descriptor
        os.close(descriptor)
