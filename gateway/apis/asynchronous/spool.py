"""Bodies and answers of asynchronous requests on disk, below the data directory, under a quota."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from partway.gateway.apis.asynchronous.limits import (
    FILE_TIMEOUT,
    PIECE_BYTES,
    SPOOL_THREADS,
)
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.apis.asynchronous.spool_room import SpoolFull, SpoolRoom, SpoolShare
from partway.gateway.storage.file_threads import BoundedThreads, Wanted, WorkStopped
from partway.gateway.storage.files import free_and_reserved
from partway.gateway.timing.clock import Clock

_T = TypeVar("_T")

#: Behind a request's id: its body, and the answer to it.
_BODY: Final = ".body"
_ANSWER: Final = ".answer"


@dataclass(slots=True)
class _File:
    share: SpoolShare
    size: int = 0


class Spool:
    """Files of requests; whose they are is said by the requests' ids.

    Args:
        folder: where they lie; nobody else's.
        quota: bytes of all of them.
        clock: measures how long the disk takes.
    """

    def __init__(self, folder: Path, quota: int, clock: Clock) -> None:
        self._folder = folder
        self._room = SpoolRoom(quota)
        self._threads = BoundedThreads(clock, SPOOL_THREADS)
        self._files: dict[str, _File] = {}

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return self._room.used

    async def take_over(self, wanted: Collection[AsyncRequest]) -> None:
        """Know the bodies that another gateway has left, and remove all else.

        Args:
            wanted: the requests whose bodies are to stay.

        Raises:
            OSError: the folder cannot be read, or something in it not be removed.
        """
        requests = {each.id + _BODY: each for each in wanted}
        for name, size in await self._run(lambda _: _sorted_out(self._folder, requests.keys())):
            self._count(name, _share(requests[name], name), size)

    async def keep_body(self, request: AsyncRequest, body: bytes) -> None:
        """Write a body, which is on disk when this returns.

        Whoever is told that it is not, or is cancelled, has it dropped; it counts until then, since
        a disk that hangs may have it there yet.

        Raises:
            SpoolFull: there is no room.
            OSError: the disk does not take it.
        """
        name = request.id + _BODY
        self._take(name, request, len(body))
        await self._run(partial(_written, self._folder / name, body))

    def body_size(self, whose: str) -> int | None:
        """Bytes of a body; None if there is none."""
        file = self._files.get(whose + _BODY)
        return None if file is None else file.size

    async def body(self, whose: str) -> AsyncGenerator[bytes, None]:
        """The pieces of a body.

        Raises:
            OSError: it cannot be read.
        """
        path, at = self._folder / (whose + _BODY), 0
        while piece := await self._run(partial(_piece, path, at)):
            at += len(piece)
            yield piece

    async def append_answer(self, request: AsyncRequest, piece: bytes) -> Path:
        """Write more of an answer.

        Returns:
            The file that it is in.

        Raises:
            SpoolFull: there is no room.
            OSError: the disk does not take it.
        """
        name = request.id + _ANSWER
        self._take(name, request, len(piece))
        path = self._folder / name
        await self._run(partial(_appended, path, piece))
        return path

    async def drop_answer(self, whose: str) -> None:
        """Remove an answer, whole or not, if there is one.

        Raises:
            OSError: it cannot be removed; it is counted on.
        """
        await self._drop(whose + _ANSWER)

    async def drop(self, whose: str) -> None:
        """Remove all files of a request.

        Raises:
            OSError: they cannot be removed; they are counted on.
        """
        await self._drop(whose + _BODY)
        await self._drop(whose + _ANSWER)

    async def _drop(self, name: str) -> None:
        if name in self._files:
            await self._run(lambda _: (self._folder / name).unlink(missing_ok=True))
            self._give_back(name)

    async def _run(self, work: Callable[[Wanted], _T]) -> _T:
        return await self._threads.run(FILE_TIMEOUT, work)

    def _take(self, name: str, request: AsyncRequest, size: int) -> None:
        share = _share(request, name)
        self._room.check(share, size)
        self._count(name, share, size)

    def _count(self, name: str, share: SpoolShare, size: int) -> None:
        self._files.setdefault(name, _File(share)).size += size
        self._room.count(share, size)

    def _give_back(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            self._room.count(file.share, -file.size)


def _share(request: AsyncRequest, name: str) -> SpoolShare:
    return SpoolShare(request.endpoint, request.sender, is_answer=name.endswith(_ANSWER))


def _leave_reserve(folder: Path, size: int) -> None:
    """Go on if the file system has room for more bytes beside what is kept for all else.

    Raises:
        SpoolFull: it has not.
        OSError: it does not say.
    """
    free, reserve = free_and_reserved(folder)
    if free - size < reserve:
        raise SpoolFull(
            f"the gateway's disk has {free} bytes free, and {reserve} of them are not for "
            "bodies and answers; make room on it, or try again when some requests are done"
        )


def _sorted_out(folder: Path, wanted: Collection[str]) -> list[tuple[str, int]]:
    found = []
    for entry in os.scandir(folder):
        if entry.name in wanted and entry.is_file(follow_symlinks=False):
            found.append((entry.name, entry.stat(follow_symlinks=False).st_size))
        else:
            Path(entry.path).unlink()
    return found


def _written(path: Path, body: bytes, wanted: Wanted) -> None:
    """Write a file that is there behind a loss of power too: its bytes, and its name."""
    wanted.check()
    _leave_reserve(path.parent, len(body))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            wanted.check()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        wanted.check()
    except (OSError, WorkStopped):
        path.unlink(missing_ok=True)
        raise


def _appended(path: Path, piece: bytes, wanted: Wanted) -> None:
    wanted.check()
    _leave_reserve(path.parent, len(piece))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(piece)


def _piece(path: Path, at: int, _: Wanted) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        file.seek(at)
        return file.read(PIECE_BYTES)
