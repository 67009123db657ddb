"""A ManifestFile: a JSON array of what its entries begin with, and of the entries."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path

from partway.gateway.clock import Clock
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.places.s3_place import (
    SCHEME,
    ObjectFile,
    ObjectFiles,
    ObjectFilesError,
)
from partway.gateway.transform.limits import (
    FILES_AT_ONCE,
    FILES_PER_TURN,
    MANIFEST_BYTES,
    MAX_FILES,
)
from partway.gateway.transform.local_storage import FileThreads, local_input, local_pieces
from partway.gateway.transform.object_storage import bucket_and_key
from partway.gateway.transform.storage import (
    InputPlace,
    LocalInput,
    StorageFailed,
    TransformInput,
    checked_name,
)
from partway.gateway.waiting import in_turns, side_by_side


class ManifestError(ValueError):
    """What is to be a manifest is none; the message says what is wrong with it."""


def read_manifest(data: bytes) -> tuple[str, list[str]]:
    """What the entries of a manifest begin with, and the entries.

    Raises:
        ManifestError: it is none.
    """
    must_be = 'it must be [{"prefix": "s3://BUCKET/PREFIX"}, "KEY", …], in JSON'
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{must_be} ({error})") from None
    if not isinstance(found, list) or not found:
        raise ManifestError(must_be)
    head, *entries = found
    if not isinstance(head, dict) or not isinstance(head.get("prefix"), str):
        raise ManifestError(f"{must_be}; its first element has no prefix")
    prefix = head["prefix"]
    if prefix.startswith(SCHEME) and "/" not in prefix.removeprefix(SCHEME):
        # Else entries would go on with the bucket's name: leave is asked for what both make.
        raise ManifestError(f"its prefix is {prefix!r}; it must have a / behind the bucket's name")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, str):
            raise ManifestError(f"{must_be}; its element {number} is no string")
    if len(entries) > MAX_FILES:
        raise ManifestError(f"it must have {MAX_FILES} entries at most")
    ((most, times),) = Counter(entries).most_common(1) or [("", 1)]
    if times > 1:
        raise ManifestError(f"{most!r} is there {times} times; each entry has one output")
    return prefix, entries


class ManifestInputs:
    """The files that a manifest names, each by its entry.

    Args:
        location: of the manifest, for messages.
        manifest: has the manifest as its one file.
        threads: by which files of this machine are read.
        clock: measures the times.
    """

    def __init__(
        self, location: str, manifest: InputPlace, threads: FileThreads, clock: Clock
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._threads = threads
        self._clock = clock
        self._bucket: ObjectFiles | None = None

    async def files(self) -> list[TransformInput]:
        """All of them, in the manifest's order; see :class:`~.storage.InputPlace`."""
        try:
            data = await self._whole()
            prefix, entries = await asyncio.to_thread(read_manifest, data)
        except ManifestError as error:
            raise StorageFailed(f"{self._location}: {error}") from None
        async for each in in_turns(entries, FILES_PER_TURN):
            checked_name(each, f"{self._location}: {each}")
        await self.check(prefix + each for each in entries)
        if not prefix.startswith(SCHEME):
            return await self._threads.run(
                Path(prefix),
                lambda wanted: [self.looked_up(prefix + each, each, wanted) for each in entries],
            )
        name, key = bucket_and_key(prefix)
        bucket = self._bucket = ObjectFiles(name, self._clock)
        found: dict[str, TransformInput] = {}
        left = iter(entries)

        async def look() -> None:
            for entry in left:
                file = await bucket.look(key + entry)
                found[entry] = TransformInput(entry, file.size, file)

        try:
            await side_by_side(FILES_AT_ONCE, look)
        except ObjectFilesError as error:
            raise StorageFailed(f"{self._location}: {error}") from None
        return [found[each] for each in entries]

    async def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.storage.InputPlace`."""
        if isinstance(file.file, LocalInput):
            async with aclosing(local_pieces(file.file, self._threads)) as local:
                async for piece in local:
                    yield piece
            return
        assert isinstance(file.file, ObjectFile), "it is the one or the other"
        assert self._bucket is not None, "it was looked up there"
        try:
            async with aclosing(self._bucket.pieces(file.file)) as pieces:
                async for piece in pieces:
                    yield piece
        except ObjectFilesError as error:
            raise StorageFailed(str(error)) from None

    async def check(self, locations: Iterable[str]) -> None:
        """Go on if all files that a manifest names may be read.

        Raises:
            StorageFailed: one may not.
        """

    def looked_up(self, path: str, name: str, wanted: Wanted) -> TransformInput:
        """Look a file of this machine up, on a thread.

        Raises:
            OSError: it is not there.
            StorageFailed: it may not be read.
        """
        return local_input(Path(path), name)

    async def _whole(self) -> bytes:
        """The manifest."""
        files = await self._manifest.files()
        if len(files) != 1 or files[0].size > MANIFEST_BYTES:
            raise ManifestError(f"it must be one file of {MANIFEST_BYTES} bytes at most")
        async with aclosing(self._manifest.pieces(files[0])) as pieces:
            return b"".join([piece async for piece in pieces])
