"""Outputs on their way to where they appear at once: gathered on disk, and bounded there.

Each is in a file without a name, so that nothing of it is left however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from partway.gateway.limits import SHARE_OF_ONE
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.files import free_and_reserved, temporary_folder
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.place import StorageFailed


def outputs_quota(size: int) -> Quota:
    """The quota of what jobs of the API gather: so many bytes, of which one sender has a share."""
    return Quota(QuotaLimits(size, size // SHARE_OF_ONE))


@dataclass(frozen=True, slots=True)
class Gathering:
    """Where outputs are gathered.

    Attributes:
        threads: by which they are written.
        folder: on whose file system they lie; None for the system's folder for temporary files.
        quota: bounds their bytes; None where only the disk's free space does.
        sender: whose share of the quota they count in; ``NOBODY`` for none.
    """

    threads: FolderThreads
    folder: Path | None = None
    quota: Quota | None = None
    sender: str = NOBODY

    @asynccontextmanager
    async def file(self) -> AsyncIterator[GatheredFile]:
        """A file for one output, which is gone behind the block.

        Raises:
            StorageFailed: it cannot be made.
        """
        folder = _temporary_folder() if self.folder is None else self.folder
        opened = await self.threads.run(folder, lambda _: _nameless(folder))
        gathered = GatheredFile(opened, folder, self)
        try:
            yield gathered
        finally:
            gathered.close()


def _temporary_folder() -> Path:
    try:
        return temporary_folder()
    except OSError as error:
        raise StorageFailed(f"outputs cannot be gathered: {error.strerror}") from None


def _nameless(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(buffering=0, dir=folder)


class GatheredFile:
    """One output on its way.

    Attributes:
        size: bytes that it has.

    Args:
        opened: the file, without a buffer and without a name.
        folder: where it lies, for messages.
        gathering: what it counts in.
    """

    def __init__(self, opened: IO[bytes], folder: Path, gathering: Gathering) -> None:
        self.size = 0
        self._opened = opened
        self._folder = folder
        self._threads = gathering.threads
        self._quota = gathering.quota
        self._sender = gathering.sender

    async def write(self, data: bytes) -> None:
        """Add bytes; see :class:`~.input_output.OutputFile`."""
        if self._quota is not None:
            try:
                self._quota.take(len(data), self._sender)
            except QuotaFull as full:
                raise _full(full) from None
        self.size += len(data)
        await self._threads.run(self._folder, partial(self._write, data))

    def _write(self, data: bytes, wanted: Wanted) -> None:
        descriptor = self._opened.fileno()
        free, reserve = free_and_reserved(descriptor)
        if free - len(data) < reserve:
            raise StorageFailed(
                f"{self._folder}: its disk has {free} bytes free, and {reserve} of them are not "
                "for outputs on their way; make room on it"
            )
        write_all(descriptor, data, wanted)

    async def restart(self) -> None:
        """Drop what was written; see :class:`~.input_output.OutputFile`."""

        def drop(_: Wanted) -> None:
            self._opened.seek(0)
            self._opened.truncate()

        await self._threads.run(self._folder, drop)
        self._give_back()

    def whole(self) -> IO[bytes]:
        """All of it, to be read from its beginning."""
        self._opened.seek(0)
        return self._opened

    def close(self) -> None:
        """Have it gone."""
        self._opened.close()
        self._give_back()

    def _give_back(self) -> None:
        if self._quota is not None:
            self._quota.give_back(self.size, self._sender)
        self.size = 0


def write_all(descriptor: int, data: bytes, wanted: Wanted) -> None:
    """Write all of some bytes behind what is written, on a thread.

    Raises:
        OSError: the file system does not take them.
    """
    left = memoryview(data)
    while left:
        wanted.check()
        left = left[os.write(descriptor, left) :]


def _full(full: QuotaFull) -> StorageFailed:
    whose, part = "", ""
    if full.owner != NOBODY:
        whose, part = f" of {full.owner!r}", "a part of "
    return StorageFailed(
        f"outputs of transform jobs{whose} have {full.used} bytes on disk on their way, and "
        f"{full.most} at most ({part}transform_quota); cut the input into smaller files, or try "
        "again when others are done"
    )
