"""What SigV4 signs: the canonical form of a request, and the key it is signed with.

AWS General Reference, "Signature Version 4". Verifier and signer share this module, so it decides
nothing: it says what a request reads like when everyone writes it the same way.
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
#: Stands for the hash of a body that is signed event by event (clause 2.1-1).
STREAMING_EVENTS: Final = "STREAMING-AWS4-HMAC-SHA256-EVENTS"

CONTENT_SHA256_HEADER: Final = "x-amz-content-sha256"
DATE_HEADER: Final = "x-amz-date"
TOKEN_HEADER: Final = "x-amz-security-token"  # noqa: S105 a header's name

#: Clause 2.4-3: whoever could add or change one of these would change what the request asks for.
ALWAYS_SIGNED: Final = ("x-amz-", "x-amzn-sagemaker-")

#: Signing keys that are remembered: each is four HMACs, and good for a day.
_REMEMBERED_KEYS: Final = 256

#: A path that is its own canonical form, as nearly all are.
_UNRESERVED_PATH: Final = re.compile(r"[A-Za-z0-9_.~/-]*")

#: Left out of the query that a presigned URL signs (clause 3-5).
SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key to sign with.

    Attributes:
        access_key_id: the key's name.
        secret_access_key: the secret that signs.
        session_token: of a temporary key; None for a permanent one.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Scope(NamedTuple):
    """What a signing key is good for: one day, region and service.

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
    """Epoch seconds as ``YYYYMMDDTHHMMSSZ``."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat()  # 2015-08-30T12:36:00+00:00
    return text.partition("+")[0].replace("-", "").replace(":", "") + "Z"


@lru_cache(maxsize=_REMEMBERED_KEYS)
def derived_key(secret_access_key: str, scope: Scope) -> bytes:
    """The key for one scope, derived from the secret; those of late are remembered.

    Who verifies looks its secret up and checks the scope first, so nothing stands by this alone.
    """
    key = b"AWS4" + to_bytes(secret_access_key)
    for part in (*scope, TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def signature_of(
    secret_access_key: str, scope: Scope, timestamp: int, canonical_request: bytes
) -> str:
    """The signature of a request, in hex."""
    canonical_hash = hashlib.sha256(canonical_request).hexdigest()
    string_to_sign = f"{ALGORITHM}\n{timestamp_text(timestamp)}\n{scope}\n{canonical_hash}"
    key = derived_key(secret_access_key, scope)
    return hmac.digest(key, string_to_sign.encode(), "sha256").hex()


def canonical_request(
    request: SignableRequest, query: bytes, signed_headers: tuple[str, ...], payload_hash: str
) -> bytes:
    """The canonical request (clause 2.4-2), with one of :func:`canonical_queries`.

    The request must have every header of ``signed_headers``.
    """
    lines = [to_bytes(request.method), canonical_path(request.path), query]
    for name in signed_headers:
        # Whitespace folded; bytes.split knows ASCII's alone.
        folded = [b" ".join(to_bytes(value).split()) for value in request.signed_values(name)]
        lines.append(name.encode() + b":" + b",".join(folded))
    lines += [b"", ";".join(signed_headers).encode(), to_bytes(payload_hash)]
    return b"\n".join(lines)


def canonical_path(path: str) -> bytes:
    """A path as it is signed."""
    return _encoded(to_bytes(path), safe="/")


def canonical_requests(
    request: SignableRequest, signed_headers: tuple[str, ...], payload_hash: str
) -> tuple[bytes, ...]:
    """What a signer may have signed, one for each of :func:`canonical_queries`.

    Most heads are in their canonical form as they stand. What took more work is remembered, of the
    heads that came last: it is most of what a wrong signature costs, and over HTTP/2 a head that
    was sent before is sent again in a few bytes.
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
    """What a signer may have signed for this query: normalised, or as it stands.

    The rule is to percent-encode names and values anew; botocore signs a URL's query with its pairs
    sorted but otherwise as they stand. The second is tried where it differs; it accepts no other
    meaning, since it is a normalised one that it would have to equal. ``+`` stays what it is in
    both: whether it is a space is for those to agree on who write it, so no other spelling may
    stand for it.
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
    # Letters, digits and -._~ are always left as they are, as SigV4 wants it.
    return quote_from_bytes(raw, safe).encode()
