"""Unfinished outputs, gathered on disk within a quota before they are published whole.

Each lies in an unnamed file, so that nothing is left however the process ends.
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
    """Return the quota in bytes of outputs that API jobs gather; each sender has a share."""
    return Quota(QuotaLimits(size, size // SHARE_OF_ONE))


@dataclass(frozen=True, slots=True)
class Gathering:
    """The settings of the folder where outputs are gathered.

    Attributes:
        folder: a folder on the file system of the files; None for the system's temporary folder.
        quota: bounds the bytes; None where only the disk's free space does.
        sender: the sender whose share of the quota is used; ``NOBODY`` for none.
    """

    threads: FolderThreads
    folder: Path | None = None
    quota: Quota | None = None
    sender: str = NOBODY

    @asynccontextmanager
    async def file(self) -> AsyncIterator[GatheredFile]:
        """Open the file of one output; the file is gone at the block's end.

        Raises:
            StorageFailed: the file cannot be made.
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
        raise StorageFailed(f"there is no temporary folder for outputs: {error.strerror}") from None


def _nameless(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(buffering=0, dir=folder)


class GatheredFile:
    """One unfinished output.

    Attributes:
        size: the number of bytes in the file.

    Args:
        opened: the file, unbuffered and unnamed.
    """

    def __init__(self, opened: IO[bytes], folder: Path, gathering: Gathering) -> None:
        self.size = 0
        self._opened = opened
        self._folder = folder
        self._threads = gathering.threads
        self._quota = gathering.quota
        self._sender = gathering.sender

    async def write(self, data: bytes) -> None:
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
                f"{self._folder}: its disk has {free} bytes free, and {reserve} of them are "
                "reserved; make room on the disk"
            )
        write_all(descriptor, data, wanted)

    async def restart(self) -> None:
        def drop(_: Wanted) -> None:
            self._opened.seek(0)
            self._opened.truncate()

        await self._threads.run(self._folder, drop)
        self._give_back()

    def whole(self) -> IO[bytes]:
        """Return the whole file, at its beginning."""
        self._opened.seek(0)
        return self._opened

    def close(self) -> None:
        self._opened.close()
        self._give_back()

    def _give_back(self) -> None:
        if self._quota is not None:
            self._quota.give_back(self.size, self._sender)
        self.size = 0


def write_all(descriptor: int, data: bytes, wanted: Wanted) -> None:
    """Write all bytes at the file's position, on a thread.

    Raises:
        OSError: the file system refuses them.
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
        f"unfinished outputs of transform jobs{whose} have {full.used} bytes on disk; they may "
        f"have at most {full.most} ({part}transform_quota); cut the input into smaller files, "
        "or try again when other outputs are done"
    )
