"""partway.gateway.batch.unpacking: gzip as it comes, in bounded pieces."""

from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace

import pytest

from partway.gateway.batch.limits import READ_BYTES
from partway.gateway.batch.unpacking import unpacked
from partway.protocol.formats.faults import Malformed
from tests.gateway.batch.jobs import packed

pytestmark = pytest.mark.usefixtures("anyio_backend")

DATA = b"one line\n" * 500


async def comes(data, size):
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def whole(data, size=10_000):
    return b"".join([piece async for piece in unpacked(comes(data, size))])


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_however_it_comes(size):
    for data in (packed(DATA), packed(DATA) + bytes(600), gzip.compress(b""), b""):
        assert await whole(data, size) == (DATA if len(data) > 40 else b"")


async def test_what_is_small_and_unpacks_to_much_comes_in_pieces():
    data = gzip.compress(bytes(5 * READ_BYTES + 1))
    sizes = [len(piece) async for piece in unpacked(comes(data, len(data)))]
    assert sum(sizes) == 5 * READ_BYTES + 1
    assert max(sizes) <= READ_BYTES


class Counted:
    """zlib's reader, and how many bytes all of them were given."""

    given = 0

    def __init__(self, window):
        self._reads = zlib.decompressobj(window)

    def __getattr__(self, name):
        return getattr(self._reads, name)

    def decompress(self, data, most):
        Counted.given += len(data)
        return self._reads.decompress(data, most)


async def test_members_of_nothing_take_time_by_their_number(monkeypatch):
    """zlib copies what is behind a member: a file of nothing but ends was copied again for each."""
    members = 5_000
    monkeypatch.setattr(Counted, "given", 0)
    monkeypatch.setattr(
        "partway.gateway.batch.unpacking.zlib",
        SimpleNamespace(decompressobj=Counted, error=zlib.error),
    )
    data = gzip.compress(b"") * members + bytes(100_000) + gzip.compress(DATA)
    assert await whole(data, len(data)) == DATA
    assert 0 < Counted.given <= (members + 1) * 8192


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DATA, "the file must be gzip"),
        (bytes(100), "the file must be gzip"),
        (packed(DATA) + b"more", "the rest of the file must be gzip"),
        (packed(DATA)[:-1], "the file is cut"),
        (packed(DATA)[:30] + b"\xff\xff" + packed(DATA)[32:], "the gzip data is damaged"),
        (gzip.compress(DATA, mtime=0)[:-8] + bytes(8), "the gzip data is damaged"),
    ],
)
async def test_what_is_not_whole(data, said, size):
    with pytest.raises(Malformed, match=f"^{said}"):
        await whole(data, size)
