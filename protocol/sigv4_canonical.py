"""What SigV4 signs: the canonical form of a request, and the key it is signed with.

AWS General Reference, "Signature Version 4". Verifier and signer share this module, so it decides
nothing: it says what a request reads like when everyone writes it the same way.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import KeysView
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from partway.protocol.errors import IncompleteSignature
from partway.protocol.limits import MAX_QUERY_PARAMETERS, REMEMBERED_HEADS

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

#: Points in time that are remembered, as numbers and as texts: a second's requests share one.
REMEMBERED_TIMES: Final = 64

#: Signing keys that are remembered: each is four HMACs, and good for a day.
_REMEMBERED_KEYS: Final = 256

#: Left out of the query that a presigned URL signs (clause 3-5).
SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"

#: HTTP/2 and HTTP/1.1 name the same thing differently, and a proxy may change which (clause 2.4-3).
_TWINS: Final = {"host": ":authority", ":authority": "host"}


@dataclass(frozen=True, slots=True)
class SignableRequest:
    """A request's head as it is on the wire (clause 2.4-2).

    Attributes:
        method: as sent.
        path: raw, still percent-encoded, without the query.
        query: raw, without the question mark; empty for a bare one.
        headers: names and values in wire order, names repeated where they were; with ``host``,
            ``:authority`` or both.
    """

    method: str
    path: str
    # Neither is shown: there are tokens and signatures in both.
    query: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    _by_name: dict[str, list[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name, value in self.headers:
            self._by_name.setdefault(name.lower(), []).append(value)

    @property
    def names(self) -> KeysView[str]:
        """The names of the headers, in lower case, each once."""
        return self._by_name.keys()

    def values(self, name: str) -> list[str]:
        """The values of the headers of one name, in lower case."""
        return list(self._by_name.get(name, ()))

    def signed_values(self, name: str) -> list[str]:
        """The values that a signed header name stands for (clause 2.4-3)."""
        return self.values(name) or self.values(_TWINS.get(name, name))

    def parameters(self) -> tuple[tuple[bytes, bytes], ...]:
        """Names and values of the query, percent-decoded, in wire order; ``+`` is a plus.

        Raises:
            IncompleteSignature: the query has too many parameters to look at.
        """
        if self.query.count("&") >= MAX_QUERY_PARAMETERS:
            raise IncompleteSignature(
                f"the query must have at most {MAX_QUERY_PARAMETERS} parameters"
            )
        return _parameters(self.query)


@lru_cache(maxsize=REMEMBERED_HEADS)
def _parameters(query: str) -> tuple[tuple[bytes, bytes], ...]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return tuple(
        (unquote_to_bytes(to_bytes(name)), unquote_to_bytes(to_bytes(value)))
        for name, _, value in pairs
    )


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


@dataclass(frozen=True, slots=True)
class Scope:
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


def to_bytes(text: str) -> bytes:
    """A piece of a request as it was on the wire."""
    return text.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=REMEMBERED_TIMES)
def timestamp_text(seconds: int) -> str:
    """Epoch seconds as ``YYYYMMDDTHHMMSSZ``."""
    moment = datetime.fromtimestamp(seconds, UTC)
    # strftime does not pad the year on every platform.
    return f"{moment.year:04}{moment:%m%dT%H%M%SZ}"


@lru_cache(maxsize=_REMEMBERED_KEYS)
def signing_key(secret_access_key: str, scope: Scope) -> bytes:
    """The key for one scope, derived from the secret; those of late are remembered.

    Who verifies looks its secret up and checks the scope first, so nothing stands by this alone.
    """
    key = b"AWS4" + to_bytes(secret_access_key)
    for part in (scope.date, scope.region, scope.service, TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def signature_of(key: bytes, timestamp: int, scope: Scope, canonical_request: bytes) -> str:
    """The signature of a request, in hex."""
    digest = hashlib.sha256(canonical_request).hexdigest()
    string_to_sign = f"{ALGORITHM}\n{timestamp_text(timestamp)}\n{scope}\n{digest}"
    return hmac.digest(key, string_to_sign.encode(), "sha256").hex()


def canonical_request(
    request: SignableRequest, query: bytes, signed_headers: tuple[str, ...], payload_hash: str
) -> bytes:
    """The canonical request, with one of :func:`canonical_queries`.

    The request must have every header of ``signed_headers``.
    """
    lines = [to_bytes(request.method), _encoded(to_bytes(request.path), safe="/"), query]
    for name in signed_headers:
        # Whitespace folded; bytes.split knows ASCII's alone.
        folded = [b" ".join(to_bytes(value).split()) for value in request.signed_values(name)]
        lines.append(name.encode() + b":" + b",".join(folded))
    lines += [b"", ";".join(signed_headers).encode(), payload_hash.encode()]
    return b"\n".join(lines)


@lru_cache(maxsize=REMEMBERED_HEADS)
def canonical_requests(
    request: SignableRequest, signed_headers: tuple[str, ...], payload_hash: str
) -> tuple[bytes, ...]:
    """What a signer may have signed, one for each of :func:`canonical_queries`.

    Those of the heads that came last are remembered: it is most of what a wrong signature costs,
    and over HTTP/2 a head that was sent before is sent again in a few bytes.
    """
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
