"""Where inputs are and where answers belong: ``s3://bucket/key``, or a path of this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from partway.gateway.apis.asynchronous.limits import FILE_TIMEOUT, FOLDER_THREADS, INPUT_BYTES
from partway.gateway.apis.asynchronous.requests import AsyncAnswer
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.place import FilePlace, FoundFile, StorageFailed
from partway.gateway.storage.places.places import Places
from partway.gateway.timing.clock import Clock


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input as it was when it was looked up.

    Attributes:
        file: itself.
        place: has it.
    """

    file: FoundFile
    place: FilePlace

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.file.size


class Locations:
    """Reads inputs and puts answers away.

    Args:
        clock: measures the times.
        roots: below which inputs of this machine may be, by the settings of the moment.
        results: below which answers may be put on this machine.
    """

    def __init__(self, clock: Clock, roots: Callable[[], LocalRoots], results: LocalRoots) -> None:
        self._inputs = Places(clock, roots, FOLDER_THREADS, FILE_TIMEOUT)
        self._results = Places(clock, lambda: results, FOLDER_THREADS, FILE_TIMEOUT)

    async def look(self, location: str) -> InputFile:
        """Look an input up.

        Raises:
            StorageFailed: there is none, it is too large, or may not be read.
        """
        place, key = self._inputs.at(location)
        found = await place.look(key)
        if found.size > INPUT_BYTES:
            raise StorageFailed(
                f"{location} has {found.size} bytes; an input must have at most {INPUT_BYTES}"
            )
        return InputFile(found, place)

    def pieces(self, source: InputFile) -> AsyncGenerator[bytes, None]:
        """The pieces of an input as it was looked up; to be closed.

        Raises:
            StorageFailed: it is another one now, or cannot be read to its end.
        """
        return source.place.pieces(source.file)

    async def put(self, location: str, answer: AsyncAnswer) -> None:
        """Put an answer where it belongs, whole or not at all; in the place of what is there.

        Raises:
            StorageFailed: it is not there, or not in time.
        """
        place, key = self._results.at(location)
        await place.put(key, answer.content, answer.size, answer.content_type, answer.coding)
