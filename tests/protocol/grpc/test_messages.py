"""Messages behind their prefixes; the bytes are struct's and zlib's own."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.errors import ApiError, InputValidationError, RequestTooLarge
from partway.protocol.grpc.messages import check_encoding, first_message, framed, only_message

MOST = 100


def prefixed(message, flag=0, size=None):
    return struct.pack(">BI", flag, len(message) if size is None else size) + message


@given(st.lists(st.binary(max_size=MOST), max_size=5), st.data())
def test_messages_are_found_wherever_the_body_is_cut(messages, data):
    body = b"".join(map(framed, messages))
    assert body == b"".join(map(prefixed, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    found, held = [], bytearray()
    for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        held += body[begin:end]
        while (first := first_message(held, "", MOST)) is not None:
            found.append(first[0])
            del held[: first[1]]
    assert (found, held) == (messages, b"")


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_messages(encoding, compress):
    whole = bytes(MOST)
    assert only_message(prefixed(compress(whole), 1), encoding, MOST) == whole
    assert only_message(prefixed(whole), encoding, MOST) == whole, "each says it of itself"
    with pytest.raises(RequestTooLarge, match="over 100 bytes"):
        only_message(prefixed(compress(bytes(MOST + 1)), 1), encoding, MOST)
    bomb = compress(bytes(1 << 16))
    assert len(bomb) <= MOST
    with pytest.raises(RequestTooLarge):
        only_message(prefixed(bomb, 1), encoding, MOST)
    for broken in (compress(whole)[:-1], compress(whole) + b"x", b"", b"plain"):
        with pytest.raises(InputValidationError, match=encoding) as refused:
            only_message(prefixed(broken, 1), encoding, MOST)
        assert refused.value.members["ErrorCode"] == "MalformedMessage"


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", "MessageCount", "no message"),
        (prefixed(b"a") + prefixed(b"b"), "MessageCount", "more than one"),
        (prefixed(b"a") + b"\0", "MessageCount", "more than one"),
        (b"\0\0", "MalformedMessage", "ends after 2 bytes"),
        (prefixed(b"ab", size=3), "MalformedMessage", "ends after 7 bytes"),
        (prefixed(b"a", flag=2), "MalformedMessage", "first byte is 2"),
        (prefixed(b"a", flag=1), "MalformedMessage", "grpc-encoding must name"),
        (prefixed(b"", size=MOST + 1), None, "over 100 bytes"),
        (prefixed(b"", size=2**32 - 1), None, "over 100 bytes"),
    ],
)
def test_what_is_not_one_message(body, code, said):
    with pytest.raises(ApiError, match=said) as refused:
        only_message(body, "", MOST)
    assert refused.value.members.get("ErrorCode") == code


@given(st.binary(max_size=300), st.sampled_from(["", "identity", "gzip", "deflate"]))
def test_any_bytes_are_a_message_or_refused(body, encoding):
    try:
        found = only_message(body, encoding, MOST)
    except ApiError:
        return
    assert len(found) <= MOST


def test_encodings_that_are_known():
    for known in ("", "identity", "gzip", "deflate"):
        check_encoding(known)
    with pytest.raises(InputValidationError, match=r"'snappy' was given.*identity, gzip, deflate"):
        check_encoding("snappy")
