"""Payload hashes in signed requests: of a stream, and of a whole body."""

from __future__ import annotations

import hashlib

from partway.protocol.errors import IncompleteSignature, InvalidSignature
from partway.protocol.signatures.canonical_form import (
    CONTENT_SHA256_HEADER,
    EMPTY_SHA256,
    STREAMING_EVENTS,
)


def payload_hash_of_stream(headers: tuple[tuple[str, str], ...]) -> str:
    """Return the payload hash that a bidirectional stream's request signs (clauses 2.1-1, 2.4-1).

    Raises:
        InvalidSignature: the header states another hash. No other value is valid, since the events
            are always verified.
    """
    stated = stated_payload_hash(headers)
    if stated is None or stated == EMPTY_SHA256:
        return EMPTY_SHA256
    if stated == STREAMING_EVENTS:
        return STREAMING_EVENTS
    raise InvalidSignature(
        f"{CONTENT_SHA256_HEADER} must be {STREAMING_EVENTS} on a stream, or absent"
    )


def payload_hash_of_body(headers: tuple[tuple[str, str], ...], body: bytes) -> str:
    """Check the stated payload hash of a request with a whole body (clause 2.4-1; 2.5-5: boto3's).

    S3's ``UNSIGNED-PAYLOAD`` is refused, presigned or not: anyone on the connection, or with the
    URL, could change the body. No client of these operations sends it by default. A presigned URL
    is valid for the body whose hash it signs: the empty body, unless a header states another hash.

    Returns:
        The hash of the body.

    Raises:
        InvalidSignature: the stated hash is not the hash of the body.
    """
    actual = hashlib.sha256(body).hexdigest()
    stated = stated_payload_hash(headers) if headers else None
    if stated is not None and stated != actual:
        raise InvalidSignature(f"{CONTENT_SHA256_HEADER} must be the SHA-256 of the body")
    return actual


def stated_payload_hash(headers: tuple[tuple[str, str], ...]) -> str | None:
    """Return the payload hash stated in a request's header, unchecked; None if there is none.

    Raises:
        IncompleteSignature: the request states more than one.
    """
    values = [value.strip() for name, value in headers if name.lower() == CONTENT_SHA256_HEADER]
    if len(values) > 1:
        raise IncompleteSignature(f"the request has more than one {CONTENT_SHA256_HEADER} header")
    return values[0] if values else None
