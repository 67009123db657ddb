"""Where inputs are and where answers belong: ``s3://bucket/key``, or a path of this machine.

Every touch of a path is on threads of its own, and every one has an end.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from partway.gateway.asynchronous.limits import (
    FILE_TIMEOUT,
    FOLDER_THREADS,
    INPUT_BYTES,
    KNOWN_BUCKETS,
    PUT_BYTES_PER_SECOND,
)
from partway.gateway.asynchronous.requests import AsyncAnswer
from partway.gateway.clock import Clock
from partway.gateway.storage.file_turns import FileTurns, NoTurn
from partway.gateway.storage.places import local_place
from partway.gateway.storage.places.local_place import LocalFile
from partway.gateway.storage.places.local_roots import LocalRoots, is_local, plain_path
from partway.gateway.storage.places.s3_place import (
    SCHEME,
    ObjectFile,
    ObjectFiles,
    ObjectFilesError,
    split_url,
)

#: Errors of the system's that stay as they are until somebody changes something.
_LASTING = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.EROFS,
)


class LocationFailed(Exception):
    """What is at a location cannot be had, or nothing be put there; says which, and why.

    Args:
        reason: what it says.
        passing: whether trying again may help.
        has_waited: whether nothing was tried yet: all that may work on the folder is at work.
    """

    def __init__(self, reason: str, *, passing: bool = False, has_waited: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing
        self.has_waited = has_waited


def in_iams_words(location: str) -> str:
    """The ARN by which leave is asked for what is at a location.

    S3's for what is there; a path of this machine, which AWS has no name for, is
    ``arn:partway:files:::`` and the path.

    Raises:
        ValueError: a path is written in another way than the one that leave is asked for.
    """
    return arn_of_location(location if location.startswith(SCHEME) else plain_path(location))


def arn_of_location(location: str) -> str:
    """The same of ``s3://bucket/key``, or of a path that is plain already."""
    if location.startswith(SCHEME):
        return f"arn:aws:s3:::{location.removeprefix(SCHEME)}"
    return f"arn:partway:files:::{location}"


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input as it was when it was looked up.

    Attributes:
        location: where it is.
        size: its bytes.
        file: in which bucket, or on this machine, it is.
    """

    location: str
    size: int
    file: ObjectFile | LocalFile


class Locations:
    """Reads inputs and puts answers away.

    Args:
        clock: measures the times.
        roots: below which inputs of this machine may be, by the settings of the moment.
        results: below which answers may be put on this machine.
    """

    def __init__(self, clock: Clock, roots: Callable[[], LocalRoots], results: LocalRoots) -> None:
        self._clock = clock
        self._roots = roots
        self._results = results
        # Of the folders in the settings, whose number is the operator's.
        self._reads: dict[Path | None, FileTurns] = {}
        self._puts: dict[Path | None, FileTurns] = {}
        self._buckets: dict[str, ObjectFiles] = {}

    async def look(self, location: str) -> InputFile:
        """Look an input up.

        Raises:
            LocationFailed: there is none, it is too large, or may not be read.
        """
        found: ObjectFile | LocalFile
        try:
            if is_local(location):
                roots = self._roots()
                work = partial(local_place.looked_up, roots, location)
                found = await self._reading(location).run(FILE_TIMEOUT, work)
            else:
                bucket, key = split_url(location)
                found = await self._bucket(bucket).look(key)
        except (OSError, ValueError, ObjectFilesError) as error:
            raise _failed(location, error) from error
        if found.size > INPUT_BYTES:
            raise LocationFailed(
                f"{location} has {found.size} bytes; an input must have at most {INPUT_BYTES}"
            )
        return InputFile(location, found.size, found)

    async def pieces(self, source: InputFile) -> AsyncGenerator[bytes, None]:
        """The pieces of an input, as it was looked up.

        Raises:
            LocationFailed: it is another one now, or cannot be read to its end.
        """
        try:
            if isinstance(source.file, LocalFile):
                at = 0
                while at < source.size:
                    work = partial(local_place.piece, source.file, at)
                    piece = await self._reading(source.location).run(FILE_TIMEOUT, work)
                    at += len(piece)
                    yield piece
                return
            bucket, _ = split_url(source.location)
            async with aclosing(self._bucket(bucket).pieces(source.file)) as pieces:
                async for piece in pieces:
                    yield piece
        except (OSError, ValueError, ObjectFilesError) as error:
            raise _failed(source.location, error) from error

    async def put(self, location: str, answer: AsyncAnswer) -> None:
        """Put an answer where it belongs, whole or not at all; in the place of what is there.

        Raises:
            LocationFailed: it is not there, or not in time.
        """
        try:
            if is_local(location):
                work = partial(local_place.put, self._results, location, answer.content)
                seconds = FILE_TIMEOUT + answer.size / PUT_BYTES_PER_SECOND
                root = self._results.root_as_written(location)
                await self._turns(self._puts, root).run(seconds, work)
            else:
                bucket, key = split_url(location)
                await self._bucket(bucket).put(
                    key, answer.content, answer.size, answer.content_type, answer.coding
                )
        except (OSError, ValueError, ObjectFilesError) as error:
            raise _failed(location, error) from error

    def _reading(self, location: str) -> FileTurns:
        return self._turns(self._reads, self._roots().root_as_written(location))

    def _turns(self, turns: dict[Path | None, FileTurns], root: Path | None) -> FileTurns:
        """Those of a folder alone: a mount that is dead takes no other's."""
        if root not in turns:
            turns[root] = FileTurns(self._clock, FOLDER_THREADS)
        return turns[root]

    def _bucket(self, name: str) -> ObjectFiles:
        found = self._buckets.pop(name, None) or ObjectFiles(name, self._clock)
        self._buckets[name] = found  # the last that was asked for is the last to go
        if len(self._buckets) > KNOWN_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return found


def _failed(location: str, error: Exception) -> LocationFailed:
    match error:
        case ObjectFilesError():
            return LocationFailed(str(error), passing=error.passing)
        case OSError():
            words = error.strerror or str(error)
            passing, has_waited = error.errno not in _LASTING, isinstance(error, NoTurn)
            return LocationFailed(f"{location}: {words}", passing=passing, has_waited=has_waited)
        case _:
            return LocationFailed(str(error))
