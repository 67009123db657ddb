"""The interfaces to a job's input and output, wherever they are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from partway.gateway.storage.places.place import FoundFile, StorageFailed


@dataclass(frozen=True, slots=True)
class TransformInput:
    """One input file of a job.

    Attributes:
        name: the path relative to the job's input location; the output adds ``.out``.
        size: the stored size in bytes.
    """

    name: str
    size: int
    file: FoundFile


class InputPlace(Protocol):
    async def files(self) -> list[TransformInput]:
        """Return all files, sorted by name.

        Raises:
            StorageFailed: there is no file, there are too many, or they cannot be looked up.
        """

    def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file; close the generator (:func:`contextlib.aclosing`).

        Raises:
            StorageFailed: the file cannot be read, or has changed.
        """


class OutputFile(Protocol):
    """An unfinished output; it becomes visible when it is finished, and not before."""

    async def write(self, data: bytes) -> None:
        """Add bytes; raise StorageFailed if it cannot be written."""

    async def restart(self) -> None:
        """Discard the written bytes; raise StorageFailed if they cannot be discarded."""

    async def finish(self) -> None:
        """Publish the whole output; raise StorageFailed if it could not be published."""


class OutputPlace(Protocol):
    async def present(self, names: Collection[str]) -> set[str]:
        """Return those of the named outputs that exist already.

        Raises:
            StorageFailed: they cannot be looked up.
        """

    def output(self, name: str) -> AbstractAsyncContextManager[OutputFile]:
        """Begin one output; it is removed at the block's end unless it is finished.

        Raises:
            StorageFailed: the output cannot be begun.
        """


def output_name(name: str) -> str:
    return f"{name}.out"


def checked_name(name: str, location: str) -> str:
    """Return a file's name if an output can have it.

    Args:
        name: relative to the job's input location.
        location: where the file is, for the message.

    Raises:
        StorageFailed: the name would lead outside the output location.
    """
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise StorageFailed(
            f"{location}: the output is named after this path, so no part of it may be empty, "
            ". or ..; rename the file, or copy it elsewhere"
        )
    return name
