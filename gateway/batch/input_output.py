"""A job's input and output, wherever they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from partway.gateway.storage.places.place import FoundFile, StorageFailed


@dataclass(frozen=True, slots=True)
class TransformInput:
    """One file of a job.

    Attributes:
        name: its path relative to what the job names; its output has the same and ``.out``.
        size: bytes, as it lies there.
        file: itself.
    """

    name: str
    size: int
    file: FoundFile


class InputPlace(Protocol):
    """Has the files of a job."""

    async def files(self) -> list[TransformInput]:
        """All of them, by their names.

        Raises:
            StorageFailed: there is none, there are too many, or they cannot be looked up.
        """

    def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one, as they come; to be closed (:func:`contextlib.aclosing`).

        Raises:
            StorageFailed: it cannot be read, or is another one now.
        """


class OutputFile(Protocol):
    """One output on its way: it is there once it is finished, and until then nobody sees it."""

    async def write(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            StorageFailed: it cannot be written.
        """

    async def restart(self) -> None:
        """Drop what was written.

        Raises:
            StorageFailed: it cannot be.
        """

    async def finish(self) -> None:
        """Have it appear, whole.

        Raises:
            StorageFailed: it is not there.
        """


class OutputPlace(Protocol):
    """Takes the output of a job."""

    async def present(self, names: Collection[str]) -> set[str]:
        """Which of these outputs are there already.

        Raises:
            StorageFailed: they cannot be looked up.
        """

    def output(self, name: str) -> AbstractAsyncContextManager[OutputFile]:
        """One output, to be finished in the block; else nothing of it is left behind that.

        Raises:
            StorageFailed: it cannot be begun.
        """


def output_name(name: str) -> str:
    """What the output of a file is called."""
    return f"{name}.out"


def checked_name(name: str, location: str) -> str:
    """A file's name, if an output can have it.

    Args:
        name: relative to what the job names.
        location: where the file is, for the message.

    Raises:
        StorageFailed: it would lead elsewhere.
    """
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise StorageFailed(
            f"{location}: no part of a path may be empty, . or .. where output is named by it; "
            "rename it, or copy it elsewhere"
        )
    return name
