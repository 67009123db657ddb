"""protocol.signatures.payload_hashes: the hashes that a signature covers in the place of a body."""

from __future__ import annotations

from hashlib import sha256

import pytest

from partway.protocol.errors import IncompleteSignature, InvalidSignature
from partway.protocol.signatures.payload_hashes import payload_hash_of_body, payload_hash_of_stream

STREAMING = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
EMPTY = sha256(b"").hexdigest()


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    ("values", "expected"), [([], EMPTY), ([EMPTY], EMPTY), ([STREAMING], STREAMING)]
)
def test_payload_hash_of_a_stream(values, expected):
    headers = tuple(("X-Amz-Content-Sha256", value) for value in values)
    assert payload_hash_of_stream(headers) == expected


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    "value", ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "", "0" * 64]
)
def test_a_stream_is_checked_whatever_it_says(value):
    with pytest.raises(InvalidSignature, match="STREAMING-AWS4-HMAC-SHA256-EVENTS"):
        payload_hash_of_stream((("x-amz-content-sha256", value),))


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize("body", [b"", b"hello", b"\x00" * 100_000])
def test_payload_hash_of_a_body(body):
    digest = sha256(body).hexdigest()
    assert payload_hash_of_body((), body) == digest
    assert payload_hash_of_body((("x-amz-content-sha256", digest),), body) == digest


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    "value", ["UNSIGNED-PAYLOAD", STREAMING, "", EMPTY, sha256(b"hellp").hexdigest()]
)
def test_a_body_is_checked_whatever_the_header_says(value):
    with pytest.raises(InvalidSignature, match="must be the SHA-256 of the body"):
        payload_hash_of_body((("x-amz-content-sha256", value),), b"hello")


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    "function", [payload_hash_of_stream, lambda h: payload_hash_of_body(h, b"")]
)
def test_two_hashes_are_none(function):
    with pytest.raises(IncompleteSignature):
        function((("x-amz-content-sha256", EMPTY), ("X-Amz-Content-SHA256", EMPTY)))
