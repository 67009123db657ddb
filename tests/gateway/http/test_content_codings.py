"""Content codings: what is unpacked, within which bounds, and who gets a packed response."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.http.content_codings import asked_for, packed, unpacked
from partway.protocol.errors import InputValidationError, RequestTooLarge, UnsupportedCoding

_PACK = {"gzip": gzip.compress, "X-Gzip": gzip.compress, " deflate ": zlib.compress}
_NAMES = st.sampled_from([*_PACK])


@given(st.binary(max_size=200), _NAMES)
def test_a_body_is_unpacked(body, coding):
    assert unpacked(_PACK[coding](body), coding, 200) == body
    assert unpacked(body, "", 0) == unpacked(body, "identity", 0) == body


@pytest.mark.parametrize("coding", [*_PACK])
def test_what_is_unpacked_has_a_bound(coding):
    body = _PACK[coding](b"\0" * 1000)
    assert len(unpacked(body, coding, 1000)) == 1000
    with pytest.raises(RequestTooLarge, match="over 999 bytes when unpacked"):
        unpacked(body, coding, 999)


def test_gzip_may_have_several_members_but_not_any_number():
    assert unpacked(gzip.compress(b"a") + gzip.compress(b"b"), "gzip", 9) == b"ab"
    with pytest.raises(InputValidationError, match="one complete gzip body"):
        unpacked(gzip.compress(b"") * 10_001, "gzip", 9)


@given(st.sampled_from(["gzip", "deflate"]), st.data())
def test_what_is_not_whole_is_refused(coding, data):
    whole = _PACK.get(coding, zlib.compress)(b"some bytes of a body")
    cut = data.draw(st.integers(1, len(whole) - 1))
    for body in (whole[:cut], b"not packed at all", b""):
        if coding == "gzip" and not body:
            continue  # no member is no bytes
        with pytest.raises(InputValidationError, match="must be one complete"):
            unpacked(body, coding, 1000)
    if coding == "deflate":
        with pytest.raises(InputValidationError, match="must be one complete"):
            unpacked(whole + b"more", coding, 1000)


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "zstd", "compress", "aws-chunked"])
def test_others_are_refused(coding):
    with pytest.raises(UnsupportedCoding, match="it must be gzip or deflate") as refused:
        unpacked(b"", coding, 1)
    assert (refused.value.status, refused.value.headers) == (
        415, {"Accept-Encoding": "gzip, deflate"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        ("gzip", "gzip"), ("Deflate", "deflate"), ("x-gzip", "x-gzip"), ("", ""), ("identity", ""),
        ("br", ""), ("gzip, deflate", ""), ("gzip, deflate, br", ""), ("gzip;q=0", ""), ("*", ""),
    ],
)  # fmt: skip
def test_who_names_one_alone_wants_it(accept_encoding, coding):
    assert asked_for(accept_encoding) == coding


def test_a_response_is_packed_as_it_is_asked_for():
    body = b"0.5," * 1000
    assert gzip.decompress(packed(body, "gzip")) == body
    assert zlib.decompress(packed(body, "deflate")) == body
    assert len(packed(body, "gzip")) < 100
    assert packed(body, "") is None
    assert packed(b"x" * 1023, "gzip") is None
