"""A place: it alone knows where files are, and it reads and writes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

#: All bytes of a file: themselves, or a file that has them, by its path or opened.
Content = bytes | Path | IO[bytes]


class StorageFailed(Exception):
    """A file cannot be read or written; the message says which, why, and what to do.

    Args:
        reason: the message.
        passing: whether trying again may help.
        has_waited: whether nothing was tried, since every thread of the place was taken.
    """

    def __init__(self, reason: str, *, passing: bool = False, has_waited: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing
        self.has_waited = has_waited


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was when it was looked up.

    Attributes:
        key: names it in its place, with every link on the way followed.
        name: its path below the folder that was listed; of a file that was asked for by its key,
            the last part of that.
        size: bytes.
        tag: changes with the content, or with the file; empty if the place does not say.
    """

    key: str
    name: str
    size: int
    tag: str


class FilePlace(Protocol):
    """Has files, each with a key: those of a bucket, or of this machine's folders."""

    async def look(self, key: str) -> FoundFile:
        """Look a file up.

        Raises:
            StorageFailed: there is none, or it cannot be had.
        """

    async def listing(self, prefix: str, most: int) -> list[FoundFile]:
        """All files whose keys begin with a prefix, in the order of their names.

        Args:
            prefix: with ``/`` at its end, for all that is in a folder.
            most: how many there may be.

        Raises:
            StorageFailed: there are more, or they cannot be looked up.
        """

    def pieces(self, file: FoundFile) -> AsyncGenerator[bytes, None]:
        """The bytes of a file as it was looked up; to be closed (:func:`contextlib.aclosing`).

        Raises:
            StorageFailed: it is another one now, or cannot be read to its end.
        """

    async def put(
        self, key: str, content: Content, size: int, content_type: str = "", coding: str = ""
    ) -> None:
        """Put a file there, whole or not at all, in the place of the one that has its key.

        Args:
            key: its key.
            content: all of it.
            size: its bytes, by which it has its time.
            content_type: empty if it is not known. A folder does not keep it.
            coding: its ``Content-Encoding``; empty if it has none. A folder does not keep it.

        Raises:
            StorageFailed: it is not there, or that is not known in time.
        """

    def location(self, key: str) -> str:
        """The location of a key: ``s3://BUCKET/KEY``, or an absolute path."""
