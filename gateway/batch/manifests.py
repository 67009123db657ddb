"""Manifest files (ManifestFile): a JSON array of a common prefix and the entries."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from partway.gateway.batch.input_output import InputPlace, TransformInput, checked_name
from partway.gateway.batch.inputs import May, check_leave
from partway.gateway.batch.limits import (
    FILES_AT_ONCE,
    FILES_PER_TURN,
    MANIFEST_BYTES,
    MAX_FILES,
)
from partway.gateway.storage.places.locations import SCHEME, is_local
from partway.gateway.storage.places.place import FilePlace, StorageFailed
from partway.gateway.timing.deadlines import in_turns, side_by_side


class ManifestError(ValueError):
    """A file that is not a valid manifest; the message says why."""


def read_manifest(data: bytes) -> tuple[str, list[str]]:
    """Return the prefix of a manifest's entries, and the entries.

    Raises:
        ManifestError: the file is not a valid manifest.
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
        # Otherwise an entry could extend the bucket's name: permission is checked for the joined
        # text.
        raise ManifestError(f"its prefix is {prefix!r}; it must have a / after the bucket's name")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, str):
            raise ManifestError(f"{must_be}; its element {number} is not a string")
    if len(entries) > MAX_FILES:
        raise ManifestError(f"it must have at most {MAX_FILES} entries")
    ((most, times),) = Counter(entries).most_common(1) or [("", 1)]
    if times > 1:
        raise ManifestError(
            f"the entry {most!r} occurs {times} times; it must occur once, because each entry has "
            "one output"
        )
    return prefix, entries


class ManifestInputs:
    """The files that a manifest names, in the order of its entries.

    Args:
        location: the location of the manifest, for messages.
        at: returns the place and the key of a location.
        may: whether the caller has a permission; None for the operator, who may read all files.
    """

    def __init__(
        self,
        location: str,
        manifest: InputPlace,
        at: Callable[[str], tuple[FilePlace, str]],
        may: May | None = None,
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._at = at
        self._may = may
        self._place: FilePlace | None = None

    async def files(self) -> list[TransformInput]:
        try:
            data = await self._whole()
            prefix, entries = await asyncio.to_thread(read_manifest, data)
        except ManifestError as error:
            raise StorageFailed(f"{self._location}: {error}") from None
        async for each in in_turns(entries, FILES_PER_TURN):
            checked_name(each, f"{self._location}: {each}")
            if self._may is not None:
                _check_allowed(prefix + each, self._may)
        place, key = self._at(prefix)
        self._place = place
        found: dict[str, TransformInput] = {}
        left = iter(entries)

        async def look() -> None:
            for entry in left:
                file = await place.look(key + entry)
                found[entry] = TransformInput(entry, file.size, file)

        try:
            await side_by_side(FILES_AT_ONCE, look)
        except StorageFailed as error:
            raise StorageFailed(f"{self._location}: {error}") from None
        return [found[each] for each in entries]

    def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        assert self._place is not None, "it was looked up there"
        return self._place.pieces(file.file)

    async def _whole(self) -> bytes:
        files = await self._manifest.files()
        if len(files) != 1 or files[0].size > MANIFEST_BYTES:
            raise ManifestError(f"it must be one file of at most {MANIFEST_BYTES} bytes")
        async with aclosing(self._manifest.pieces(files[0])) as pieces:
            return b"".join([piece async for piece in pieces])


def _check_allowed(location: str, may: May) -> None:
    """Raise StorageFailed if it is no location, or the caller may not read the file there."""
    if not is_local(location) and not location.startswith(SCHEME):
        raise StorageFailed(f"{location}: a manifest must name s3://BUCKET/PREFIX, or a path")
    check_leave(location, may)
