"""The spool: disk space of requests' bodies and answers, below the data directory, under a quota.

Bodies are in the store, and only counted here. Large answers are files here until they are
delivered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from partway.gateway.apis.asynchronous.limits import FILE_TIMEOUT, SPOOL_THREADS
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.apis.asynchronous.spool_quota import SpoolFull, SpoolQuota, SpoolShare
from partway.gateway.storage.file_threads import BoundedThreads, Wanted
from partway.gateway.storage.files import free_and_reserved
from partway.gateway.timing.clock import Clock

_T = TypeVar("_T")

#: Suffixes to a request's id: of its body, which is only counted, and of its answer's file.
_BODY: Final = ".body"
_ANSWER: Final = ".answer"


@dataclass(slots=True)
class _Kept:
    share: SpoolShare
    size: int = 0


class Spool:
    """Counts bodies and holds the files of answers, by the ids of requests.

    Args:
        folder: the folder of the files, on the store's disk, for the spool alone.
        quota: the limit of all bodies and answers in bytes.
    """

    def __init__(self, folder: Path, quota: int, clock: Clock) -> None:
        self._folder = folder
        self._room = SpoolQuota(quota)
        self._threads = BoundedThreads(clock, SPOOL_THREADS)
        self._kept: dict[str, _Kept] = {}

    @property
    def used(self) -> int:
        """Bytes of all bodies and answers."""
        return self._room.used

    async def take_over(self, found: Collection[AsyncRequest]) -> None:
        """Count the bodies that an earlier gateway accepted, and remove its answers.

        Raises:
            OSError: the folder cannot be read, or a file cannot be removed.
        """
        await self._run(lambda _: _clear(self._folder))
        for request in found:
            if request.is_inline:
                name = request.id + _BODY
                self._count(name, _share(request, name), request.length)

    async def take_room(self, request: AsyncRequest) -> None:
        """Count a body before it is written to the store; it counts until :meth:`drop`.

        Raises:
            SpoolFull: there is no room.
            OSError: the file system gives no answer.
        """
        self._take(request.id + _BODY, request, request.length)
        await self._run(lambda _: _leave_reserve(self._folder, request.length))

    async def append_answer(self, request: AsyncRequest, piece: bytes) -> Path:
        """Write more of an answer.

        Returns:
            The path of the answer's file.

        Raises:
            SpoolFull: there is no room.
            OSError: the disk refuses.
        """
        name = request.id + _ANSWER
        self._take(name, request, len(piece))
        path = self._folder / name
        await self._run(partial(_appended, path, piece))
        return path

    async def drop_answer(self, whose: str) -> None:
        """Remove an answer, complete or not, if there is one.

        Raises:
            OSError: the answer cannot be removed; it still counts.
        """
        name = whose + _ANSWER
        if name in self._kept:
            await self._run(lambda _: (self._folder / name).unlink(missing_ok=True))
            self._give_back(name)

    async def drop(self, whose: str) -> None:
        """Stop counting a request's body, and remove its answer.

        Raises:
            OSError: the answer cannot be removed; it still counts.
        """
        self._give_back(whose + _BODY)
        await self.drop_answer(whose)

    async def _run(self, work: Callable[[Wanted], _T]) -> _T:
        return await self._threads.run(FILE_TIMEOUT, work)

    def _take(self, name: str, request: AsyncRequest, size: int) -> None:
        share = _share(request, name)
        self._room.check(share, size)
        self._count(name, share, size)

    def _count(self, name: str, share: SpoolShare, size: int) -> None:
        self._kept.setdefault(name, _Kept(share)).size += size
        self._room.count(share, size)

    def _give_back(self, name: str) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._room.count(kept.share, -kept.size)


def _share(request: AsyncRequest, name: str) -> SpoolShare:
    return SpoolShare(request.endpoint, request.sender, is_answer=name.endswith(_ANSWER))


def _leave_reserve(folder: Path, size: int) -> None:
    """Return if the file system has room for more bytes beside the reserve.

    Raises:
        SpoolFull: there is no room.
        OSError: the file system gives no answer.
    """
    free, reserve = free_and_reserved(folder)
    if free - size < reserve:
        raise SpoolFull(
            f"the gateway's disk has {free} bytes free, and {reserve} of them are reserved; "
            "make room on the disk, or try again when some requests are done"
        )


def _clear(folder: Path) -> None:
    for entry in os.scandir(folder):
        Path(entry.path).unlink()


def _appended(path: Path, piece: bytes, wanted: Wanted) -> None:
    wanted.check()
    _leave_reserve(path.parent, len(piece))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(piece)
