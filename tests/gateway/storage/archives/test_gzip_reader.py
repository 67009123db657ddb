"""partway.gateway.storage.archives.gzip_reader: what gzip has packed, however it was."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.storage.archives.gzip_reader import GzipReader
from partway.protocol.http.content_codings import MAX_PACKED_MEMBERS, PackedTooMuch


def inflated(packed: bytes, step: int = 1000) -> bytes:
    source = GzipReader(io.BytesIO(packed))
    return b"".join(iter(lambda: source.read(step), b""))


@given(st.lists(st.binary(max_size=300), min_size=1), st.integers(1, 400), st.integers(0, 50))
def test_as_the_standard_library_does(members: list[bytes], step: int, zeros: int) -> None:
    packed = b"\0" * zeros
    packed = packed.join(map(gzip.compress, members)) + packed
    assert inflated(packed, step) == gzip.decompress(packed) == b"".join(members)


def test_large_ones_in_pieces() -> None:
    data = bytes(range(256)) * 4000
    assert inflated(gzip.compress(data), 70_000) == data
    assert inflated(gzip.compress(bytes(1 << 22)), 1 << 20) == bytes(1 << 22)


@pytest.mark.parametrize("left", [1, 5, 12, 18, 25])
def test_what_is_cut(left: int) -> None:
    packed = gzip.compress(b"hello " * 100)
    with pytest.raises(EOFError):
        inflated(packed[:left])


@pytest.mark.parametrize(
    "packed",
    [b"PK\x03\x04", gzip.compress(b"a") + b"rubbish", b"\0" + gzip.compress(b"a")],
    ids=["zip", "rubbish behind", "zeros before"],
)
def test_what_is_damaged(packed: bytes) -> None:
    with pytest.raises(zlib.error):
        inflated(packed)


def test_its_end_is_looked_at() -> None:
    packed = bytearray(gzip.compress(b"a"))
    packed[-5] ^= 1
    with pytest.raises(zlib.error):
        inflated(bytes(packed))


def test_members_without_end() -> None:
    with pytest.raises(PackedTooMuch, match="more than 10000 files packed one after another"):
        inflated(gzip.compress(b"") * (MAX_PACKED_MEMBERS + 1))


@pytest.mark.parametrize("behind", [b"\0", b"x"], ids=["zeros", "a name"])
def test_bytes_that_hold_nothing(behind: bytes) -> None:
    head = gzip.compress(b"") if behind == b"\0" else b"\x1f\x8b\x08\x08" + bytes(6)
    source = GzipReader(io.BytesIO(head + behind * (2 << 20)), most=1 << 20)
    with pytest.raises(PackedTooMuch, match="more than 1048576 bytes before it is unpacked"):
        source.read(1000), source.read(1000)
