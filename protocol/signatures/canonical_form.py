"""SigV4 canonical form of a request, and its signing key.

AWS General Reference, "Signature Version 4". Verifier and signer share this module. It decides
nothing: it only defines the text that both sides hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from partway.protocol.limits import REMEMBERED_HEADS
from partway.protocol.signatures.signed_request import SignableRequest, to_bytes

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "sagemaker"
TERMINATOR: Final = "aws4_request"
EMPTY_SHA256: Final = hashlib.sha256().hexdigest()
#: Replaces the payload hash when a body is signed event by event (clause 2.1-1).
STREAMING_EVENTS: Final = "STREAMING-AWS4-HMAC-SHA256-EVENTS"

CONTENT_SHA256_HEADER: Final = "x-amz-content-sha256"
DATE_HEADER: Final = "x-amz-date"
TOKEN_HEADER: Final = "x-amz-security-token"  # noqa: S105 a header's name

#: Clause 2.4-3: unsigned, these could be added or changed to change the meaning of the request.
ALWAYS_SIGNED: Final = ("x-amz-", "x-amzn-sagemaker-")

#: Number of cached signing keys: each takes four HMACs, and is good for a day.
_REMEMBERED_KEYS: Final = 256

#: A path that is already in canonical form, as nearly all are.
_UNRESERVED_PATH: Final = re.compile(r"[A-Za-z0-9_.~/-]*")

#: Excluded from the query that a presigned URL signs (clause 3-5).
SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key to sign with.

    Attributes:
        session_token: the token of a temporary key; None for a permanent one.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Scope(NamedTuple):
    """The validity of a signing key: one day, region and service.

    Attributes:
        date: ``YYYYMMDD``.
        region: such as ``eu-west-1``.
        service: the signing name.
    """

    date: str
    region: str
    service: str = SERVICE

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


def timestamp_text(seconds: int) -> str:
    """Format epoch seconds as ``YYYYMMDDTHHMMSSZ``."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat()  # 2015-08-30T12:36:00+00:00
    return text.partition("+")[0].replace("-", "").replace(":", "") + "Z"


@lru_cache(maxsize=_REMEMBERED_KEYS)
def derived_key(secret_access_key: str, scope: Scope) -> bytes:
    """Derive the signing key of one scope from the secret; recent keys are cached.

    A verifier looks its secret up and checks the scope first, so the cache alone authorises
    nothing.
    """
    key = b"AWS4" + to_bytes(secret_access_key)
    for part in (*scope, TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def signature_of(
    secret_access_key: str, scope: Scope, timestamp: int, canonical_request: bytes
) -> str:
    """Compute the signature of a request, in hex."""
    canonical_hash = hashlib.sha256(canonical_request).hexdigest()
    string_to_sign = f"{ALGORITHM}\n{timestamp_text(timestamp)}\n{scope}\n{canonical_hash}"
    key = derived_key(secret_access_key, scope)
    return hmac.digest(key, string_to_sign.encode(), "sha256").hex()


def canonical_request(
    request: SignableRequest, query: bytes, signed_headers: tuple[str, ...], payload_hash: str
) -> bytes:
    """Build the canonical request (clause 2.4-2), with one of :func:`canonical_queries`.

    The request must have every header of ``signed_headers``.
    """
    lines = [to_bytes(request.method), canonical_path(request.path), query]
    for name in signed_headers:
        # Whitespace is folded; bytes.split only knows ASCII whitespace.
        folded = [b" ".join(to_bytes(value).split()) for value in request.signed_values(name)]
        lines.append(name.encode() + b":" + b",".join(folded))
    lines += [b"", ";".join(signed_headers).encode(), to_bytes(payload_hash)]
    return b"\n".join(lines)


def canonical_path(path: str) -> bytes:
    return _encoded(to_bytes(path), safe="/")


def canonical_requests(
    request: SignableRequest, signed_headers: tuple[str, ...], payload_hash: str
) -> tuple[bytes, ...]:
    """Return the canonical requests to accept, one for each of :func:`canonical_queries`.

    Most heads are already in canonical form. For others, the result is cached for the most recent
    heads: it is most of the cost of checking a wrong signature. Over HTTP/2 a client can repeat a
    head with a few bytes.
    """
    if not request.query and _UNRESERVED_PATH.fullmatch(request.path):
        text = request.in_canonical_form(signed_headers, payload_hash)
        if text is not None:
            return (to_bytes(text),)
    return _remembered_requests(request, signed_headers, payload_hash)


@lru_cache(maxsize=REMEMBERED_HEADS)
def _remembered_requests(
    request: SignableRequest, signed_headers: tuple[str, ...], payload_hash: str
) -> tuple[bytes, ...]:
    return tuple(
        canonical_request(request, query, signed_headers, payload_hash)
        for query in canonical_queries(request)
    )


def canonical_queries(request: SignableRequest) -> list[bytes]:
    """Return the forms of the query that a signer may have signed: normalised, or as it stands.

    By the rule, names and values are percent-encoded anew. botocore signs a URL's query with its
    pairs sorted but otherwise unchanged, so that form is accepted where it differs. It lets no
    other meaning pass: a signature over another query's normalised form only matches equal text.
    ``+`` is kept in both forms. Only the two ends of a request can agree whether it means a space,
    so no other spelling may replace it.
    """
    raw = to_bytes(request.query)
    pairs = (pair.partition(b"=") for pair in raw.split(b"&")) if raw else ()
    as_it_stands = sorted(
        (name, value) for name, _, value in pairs if unquote_to_bytes(name) != SIGNATURE_PARAMETER
    )
    normalised = sorted(
        (_normalised(name), _normalised(value)) for name, value in as_it_stands if name or value
    )
    queries = [normalised] if normalised == as_it_stands else [normalised, as_it_stands]
    return [b"&".join(name + b"=" + value for name, value in query) for query in queries]


def _normalised(raw: bytes) -> bytes:
    return b"+".join(_encoded(unquote_to_bytes(piece), safe="") for piece in raw.split(b"+"))


def _encoded(raw: bytes, safe: str) -> bytes:
    # SigV4 leaves letters, digits and -._~ as they are.
    return quote_from_bytes(raw, safe).encode()
