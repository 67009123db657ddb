"""Locations of inputs and answers: ``s3://bucket/key``, or a path of this machine."""

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
    file: FoundFile
    place: FilePlace

    @property
    def size(self) -> int:
        return self.file.size


class Locations:
    """Reads inputs and stores answers.

    Args:
        roots: returns the folders that may hold inputs on this machine, from the current settings.
        results: the folders that may hold answers on this machine.
    """

    def __init__(self, clock: Clock, roots: Callable[[], LocalRoots], results: LocalRoots) -> None:
        self._inputs = Places(clock, roots, FOLDER_THREADS, FILE_TIMEOUT)
        self._results = Places(clock, lambda: results, FOLDER_THREADS, FILE_TIMEOUT)

    async def look(self, location: str) -> InputFile:
        """Look up an input.

        Raises:
            StorageFailed: there is no such file, it is too large, or it may not be read.
        """
        place, key = self._inputs.at(location)
        found = await place.look(key)
        if found.size > INPUT_BYTES:
            raise StorageFailed(
                f"{location} has {found.size} bytes; an input must have at most {INPUT_BYTES}"
            )
        return InputFile(found, place)

    def pieces(self, source: InputFile) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a looked-up input; close the generator.

        Raises:
            StorageFailed: the file has changed, or cannot be read to its end.
        """
        return source.place.pieces(source.file)

    async def put(self, location: str, answer: AsyncAnswer) -> None:
        """Store an answer, whole or not at all; it replaces an existing file.

        Raises:
            StorageFailed: the answer is not stored, or not in time.
        """
        place, key = self._results.at(location)
        await place.put(key, answer.content, answer.size, answer.content_type, answer.coding)
