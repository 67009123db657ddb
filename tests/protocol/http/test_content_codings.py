"""Content codings, undone whole and piece by piece."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.protocol.http.content_codings import (
    MAX_PACKED_MEMBERS,
    BodyDecoder,
    CodingFault,
    DecodedTooLarge,
    UnknownCoding,
    check_known,
    coding_of,
    decoded,
)

_PACK = {"gzip": gzip.compress, "X-Gzip": gzip.compress, " deflate ": zlib.compress}


@given(st.binary(max_size=300), st.sampled_from([*_PACK]), st.integers(1, 40), st.integers(1, 40))
def test_a_body_in_pieces_is_the_same(body: bytes, coding: str, fed: int, most: int) -> None:
    decoder = BodyDecoder(coding, 300)
    found = []
    packed = _PACK[coding](body)
    for at in range(0, len(packed), fed):
        decoder.feed(packed[at : at + fed])
        while piece := decoder.piece(most):
            assert len(piece) <= most
            found.append(piece)
    decoder.end()
    assert b"".join(found) == body


@pytest.mark.parametrize(
    "headers",
    [{}, {"Content-Type": "a/b"}, {"content-encoding": "gzip"}, {"Content-Encoding": "br"}],
)
def test_the_coding_that_headers_name(headers: dict[str, str]) -> None:
    expected = next((value for name, value in headers.items() if "encoding" in name.lower()), "")
    assert coding_of(CIMultiDict(headers)) == expected


def test_several_lines_are_one_list() -> None:
    lines = CIMultiDict([("Content-Encoding", "gzip"), ("content-encoding", "br")])
    assert coding_of(lines) == "gzip, br"
    with pytest.raises(UnknownCoding, match="'gzip, br'; it must be gzip or deflate"):
        check_known(coding_of(lines))


def test_a_name_is_shown_cut_and_printable() -> None:
    with pytest.raises(UnknownCoding) as raised:
        check_known("\x1b[2J" + "é" * 1000)
    assert str(raised.value).isascii()
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("spoil", [lambda packed: packed[:-1], lambda packed: packed + b"more"])
def test_what_is_not_whole(coding: str, spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CodingFault, match=f"one complete {coding} body"):
        decoded(spoil(_PACK.get(coding, zlib.compress)(b"x" * 100)), coding, 1000)


def test_no_more_is_unpacked_than_the_limit() -> None:
    decoder = BodyDecoder("gzip", 1000)
    decoder.feed(gzip.compress(bytes(1_000_000)))
    assert decoder.piece(600) == bytes(600)
    with pytest.raises(DecodedTooLarge, match="over 1000 bytes when unpacked"):
        decoder.piece(600)


def test_members_are_counted() -> None:
    with pytest.raises(CodingFault):
        decoded(gzip.compress(b"") * (MAX_PACKED_MEMBERS + 1), "gzip", 1000)
