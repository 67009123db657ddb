"""The rules of every place; each place's tests run them.

::

    class TestLocalPlace(PlaceContract):
        @pytest.fixture
        async def held(self, tmp_path): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from partway.gateway.storage.places.place import FilePlace, FoundFile, StorageFailed
from partway.protocol.limits import MIB


class Files(Protocol):
    """The files of a place, seen from outside: by their paths below its top."""

    def write(self, files: Mapping[str, bytes]) -> None:
        """Make files, or others in their place."""

    def read(self) -> dict[str, bytes]: ...


@dataclass(frozen=True)
class Held:
    """A place, and its files.

    Attributes:
        place: itself.
        top: the key of its top, with a slash at its end where it is not empty.
        files: its files.
    """

    place: FilePlace
    top: str
    files: Files


async def content(place: FilePlace, file: FoundFile) -> bytes:
    async with aclosing(place.pieces(file)) as pieces:
        return b"".join([piece async for piece in pieces])


class PlaceContract:
    # --- Reading ---------------------------------------------------------------------------------

    async def test_a_file_is_looked_up_and_read(self, held: Held) -> None:
        held.files.write({"a/b.csv": b"hello"})
        file = await held.place.look(f"{held.top}a/b.csv")
        assert (file.name, file.size) == ("b.csv", 5)
        assert await content(held.place, file) == b"hello"

    @pytest.mark.parametrize("size", [0, 1, 2 * MIB + 1])
    async def test_all_of_a_file_is_read(self, held: Held, size: int) -> None:
        data = bytes(each % 251 for each in range(size))
        held.files.write({"f": data})
        assert await content(held.place, await held.place.look(f"{held.top}f")) == data

    async def test_a_file_must_be_there(self, held: Held) -> None:
        with pytest.raises(StorageFailed, match=r"none: ") as failed:
            await held.place.look(f"{held.top}none")
        assert not failed.value.passing

    async def test_another_content_is_not_read(self, held: Held) -> None:
        held.files.write({"f": b"hello"})
        file = await held.place.look(f"{held.top}f")
        held.files.write({"f": b"world"})
        with pytest.raises(StorageFailed, match="it has changed while it was read"):
            await content(held.place, file)

    async def test_a_file_that_has_gone_is_not_read(self, held: Held) -> None:
        held.files.write({"f": b"hello"})
        file = await held.place.look(f"{held.top}f")
        with pytest.raises(StorageFailed):
            await content(held.place, FoundFile(f"{file.key}2", "f2", file.size, file.tag))

    # --- Listing ---------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("prefix", "names"),
        [
            ("in/", ["a.csv", "b.csv", "b/c.csv"]),
            ("in/b", ["b.csv", "b/c.csv"]),
            ("in/a.csv", ["a.csv"]),
            ("in/b/", ["c.csv"]),
            ("in/none", []),
        ],
    )
    async def test_the_files_whose_keys_begin_alike(
        self, held: Held, prefix: str, names: list[str]
    ) -> None:
        files = {"in/b/c.csv": b"c", "in/b.csv": b"b", "in/a.csv": b"a", "other/a": b"o"}
        held.files.write(files)
        # A local path that is a folder's means the folder: it has no files that begin alike.
        if prefix == "in/b" and held.top.startswith("/"):
            names = ["c.csv"]
        found = await held.place.listing(held.top + prefix, 10)
        assert [each.name for each in found] == names
        assert [await content(held.place, each) for each in found] == [
            files[each.key.removeprefix(held.top)] for each in found
        ]

    async def test_a_listing_has_a_bound(self, held: Held) -> None:
        held.files.write({"in/a": b"", "in/b": b""})
        assert len(await held.place.listing(f"{held.top}in/", 2)) == 2
        with pytest.raises(StorageFailed, match=r"has more than 1 files; name a \w+ with fewer"):
            await held.place.listing(f"{held.top}in/", 1)

    # --- Writing ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("form", ["bytes", "path", "file"])
    async def test_a_file_is_put_whole_in_the_place_of_another(
        self, held: Held, tmp_path_factory: pytest.TempPathFactory, form: str
    ) -> None:
        kept = tmp_path_factory.mktemp("kept") / "content"
        for data in (b"first", b"", b"and now the second"):
            kept.write_bytes(data)
            with kept.open("rb") as opened:
                forms = {"bytes": data, "path": kept, "file": opened}
                await held.place.put(f"{held.top}new/deep/f", forms[form], len(data), "text/csv")
            assert held.files.read() == {"new/deep/f": data}

    async def test_a_large_file_is_put(self, held: Held) -> None:
        data = bytes(range(256)) * (12 << 12)
        await held.place.put(f"{held.top}large", data, len(data))
        assert held.files.read() == {"large": data}

    async def test_a_content_that_cannot_be_read_is_not_put(
        self, held: Held, tmp_path: Path
    ) -> None:
        held.files.write({"f": b"old"})
        with pytest.raises(StorageFailed):
            await held.place.put(f"{held.top}f", tmp_path / "none" / "content", 5)
        assert held.files.read() == {"f": b"old"}

    async def test_files_are_put_side_by_side(self, held: Held) -> None:
        put = (held.place.put(f"{held.top}d/{n}", b"%d" % n, 1) for n in range(8))
        await asyncio.gather(*put)
        assert held.files.read() == {f"d/{n}": b"%d" % n for n in range(8)}

    # --- Keys ------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", ["a//b", "a/../f", "./f"])
    async def test_a_key_that_is_another_files_is_refused(self, held: Held, key: str) -> None:
        held.files.write({"f": b"of another"})
        with pytest.raises(StorageFailed, match=r"no part of .* empty, \. or \.\."):
            await held.place.look(held.top + key)
        with pytest.raises(StorageFailed, match=r"no part of .* empty, \. or \.\."):
            await held.place.put(held.top + key, b"mine", 4)
        assert held.files.read() == {"f": b"of another"}
