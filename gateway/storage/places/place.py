"""The interface of a place, which stores files and hides where they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

#: The whole content of a file: bytes, a path, or an open file.
Content = bytes | Path | IO[bytes]


class StorageFailed(Exception):
    """A file cannot be read or written; the message names the file, the reason and the remedy.

    Args:
        passing: whether a retry may help.
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
        key: the name of the file in its place, with all links followed.
        name: the path below the listed folder; the last part of the key if the file was looked up
            by key.
        size: the size in bytes.
        tag: changes with the content, or with the file; empty if the place has none.
    """

    key: str
    name: str
    size: int
    tag: str


class FilePlace(Protocol):
    """Stores files by key: in a bucket, or in folders of this machine."""

    async def look(self, key: str) -> FoundFile:
        """Look up a file.

        Raises:
            StorageFailed: there is no such file, or it is not available.
        """

    async def listing(self, prefix: str, most: int) -> list[FoundFile]:
        """Return all files whose keys begin with a prefix, sorted by name.

        Args:
            prefix: a prefix; one that ends in ``/`` stands for the whole content of a folder.
            most: the largest number of files.

        Raises:
            StorageFailed: there are more files, or they cannot be looked up.
        """

    def pieces(self, file: FoundFile) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a looked-up file; close the generator (:func:`contextlib.aclosing`).

        Raises:
            StorageFailed: the file has changed, or cannot be read to its end.
        """

    async def put(
        self, key: str, content: Content, size: int, content_type: str = "", coding: str = ""
    ) -> None:
        """Store a file, whole or not at all; it replaces the file that has its key.

        Args:
            size: the size in bytes, which determines the time limit.
            content_type: the media type; empty if unknown. A folder does not keep it.
            coding: the ``Content-Encoding``; empty for none. A folder does not keep it.

        Raises:
            StorageFailed: the file is not stored, or this is unknown at the time limit.
        """

    def location(self, key: str) -> str:
        """Return the location of a key: ``s3://BUCKET/KEY``, or an absolute path."""
