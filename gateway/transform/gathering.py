"""Outputs on their way to where they appear at once: gathered on disk, and bounded there.

Each is in a file without a name, so that nothing of it is left however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from partway.gateway.files import free_and_reserved, temporary_folder
from partway.gateway.fleet.file_work import Wanted
from partway.gateway.limits import SHARE_OF_ONE
from partway.gateway.transform.limits import READ_BYTES
from partway.gateway.transform.local_storage import FileThreads, write_all
from partway.gateway.transform.storage import StorageFailed


class GatheringRoom:
    """Counts what jobs of the API gather, and refuses bytes that are too many.

    Args:
        quota: bytes of all jobs at a time; those of one sender have a share of them.
    """

    def __init__(self, quota: int) -> None:
        self._quota = quota
        self._used = 0
        self._of_senders: Counter[str] = Counter()

    def take(self, sender: str, size: int) -> None:
        """Have more bytes on disk.

        Args:
            sender: who has made the job; empty where nobody is asked who they are.
            size: bytes.

        Raises:
            StorageFailed: there is no room; the message says of what there is too much.
        """
        limits = [("transform jobs have", self._used, self._quota, "")]
        if sender:
            of_one = self._quota // SHARE_OF_ONE
            whose = f"transform jobs of {sender!r} have"
            limits.append((whose, self._of_senders[sender], of_one, "a part of "))
        for whose, used, most, part in limits:
            if used + size > most:
                raise StorageFailed(
                    f"outputs of {whose} {used} bytes on disk on their way, and {most} at most "
                    f"({part}transform_quota); cut the input into smaller files, or try again when "
                    "others are done"
                )
        self._used += size
        self._of_senders[sender] += size

    def give_back(self, sender: str, size: int) -> None:
        """Have fewer bytes on disk again."""
        self._used -= size
        self._of_senders[sender] -= size
        if not self._of_senders[sender]:
            del self._of_senders[sender]


@dataclass(frozen=True, slots=True)
class Gathering:
    """Where outputs are gathered.

    Attributes:
        threads: by which they are written.
        folder: on whose file system they lie; None for the system's folder for temporary files.
        room: how much of it they may have; None for all but what is reserved.
        sender: in whose share of the room they count; empty for nobody's.
    """

    threads: FileThreads
    folder: Path | None = None
    room: GatheringRoom | None = None
    sender: str = ""

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
        self._room = gathering.room
        self._sender = gathering.sender

    async def write(self, data: bytes) -> None:
        """Add bytes; see :class:`~.storage.OutputFile`."""
        if self._room is not None:
            self._room.take(self._sender, len(data))
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
        """Drop what was written; see :class:`~.storage.OutputFile`."""

        def drop(_: Wanted) -> None:
            self._opened.seek(0)
            self._opened.truncate()

        await self._threads.run(self._folder, drop)
        self._give_back()

    def whole(self) -> IO[bytes]:
        """All of it, to be read from its beginning."""
        self._opened.seek(0)
        return self._opened

    def blocks(self) -> Iterator[bytes]:
        """All of it, read on the thread that asks."""
        at = 0
        # By its descriptor: a thread that hangs holds no lock that close() would wait for.
        while block := os.pread(self._opened.fileno(), READ_BYTES, at):
            at += len(block)
            yield block

    def close(self) -> None:
        """Have it gone."""
        self._opened.close()
        self._give_back()

    def _give_back(self) -> None:
        if self._room is not None:
            self._room.give_back(self._sender, self.size)
        self.size = 0
