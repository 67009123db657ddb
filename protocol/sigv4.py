"""AWS Signature Version 4: who sent a request, and was it this one (clauses 2.4-1 to 2.4-6, 3-5).

A verifier reads the claim, finds the key that it names, and checks the one against the other::

    claim = read_claim(request)
    verify(request, claim, credentials, payload_hash=…, region="eu-west-1", now=time.time())

A client signs with :func:`sign_request` or :func:`presign`. The pieces have modules of their own:
``sigv4_canonical`` for values and the canonical form, ``sigv4_signing`` for the client's side,
``sigv4_events`` for the chain through a stream's events.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from partway.protocol.errors import (
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from partway.protocol.limits import MAX_CLOCK_SKEW, MAX_HEADERS, MAX_PRESIGN_EXPIRES
from partway.protocol.sigv4_canonical import (
    ALGORITHM,
    ALWAYS_SIGNED,
    CONTENT_SHA256_HEADER,
    DATE_HEADER,
    EMPTY_SHA256,
    REMEMBERED_TIMES,
    SERVICE,
    SIGNATURE_PARAMETER,
    STREAMING_EVENTS,
    TERMINATOR,
    TOKEN_HEADER,
    Credentials,
    Scope,
    SignableRequest,
    canonical_requests,
    signature_of,
    signing_key,
    timestamp_text,
    to_bytes,
)
from partway.protocol.sigv4_events import EventChain, EventSignatureInvalid, EventSigner
from partway.protocol.sigv4_signing import SignedRequest, presign, sign_request

__all__ = [
    "EMPTY_SHA256",
    "SERVICE",
    "STREAMING_EVENTS",
    "Claim",
    "Credentials",
    "EventChain",
    "EventSignatureInvalid",
    "EventSigner",
    "Scope",
    "SignableRequest",
    "SignedRequest",
    "check_claim",
    "check_signature",
    "payload_hash_of_body",
    "payload_hash_of_stream",
    "presign",
    "read_claim",
    "sign_request",
    "stated_payload_hash",
    "verify",
]

_TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_NAME: Final = re.compile(r":?[0-9a-z!#$%&'*+\-.^_`|~]+")

#: Any of these says that a URL is presigned.
_PRESIGNED: Final = frozenset({b"X-Amz-Algorithm", b"X-Amz-Credential", SIGNATURE_PARAMETER})


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request says about its own signature; nothing of it is checked yet.

    Attributes:
        access_key_id: the name of the key that signed the request.
        scope: what that key is good for.
        signed_headers: names in lower case, sorted.
        signature: 64 hex digits.
        timestamp: epoch seconds.
        session_token: of a temporary key; None where the request has no token.
        expires: seconds that a presigned URL is good for; None for a signed request.
    """

    access_key_id: str
    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str = field(repr=False)
    timestamp: int
    session_token: str | None = field(repr=False)
    expires: int | None


def read_claim(request: SignableRequest) -> Claim:
    """The claim of a request, from its Authorization header or its presigned query.

    Raises:
        MissingAuthenticationToken: the request has neither.
        IncompleteSignature: the request has both, or the one it has cannot be read.
    """
    parameters = _presigned_parameters(request)
    authorization = _only(request.values("authorization"), "Authorization header")
    if parameters is not None:
        if authorization is not None:
            raise IncompleteSignature(
                "the request is signed twice: by its Authorization header and by its query; "
                "send one of them"
            )
        return _presigned_claim(request, parameters)
    if authorization is None:
        raise MissingAuthenticationToken("Missing Authentication Token")
    return _header_claim(request, authorization)


def _header_claim(request: SignableRequest, authorization: str) -> Claim:  # clause 2.1-2
    algorithm, _, rest = authorization.strip().partition(" ")
    _check_algorithm(algorithm)
    members: dict[str, str] = {}
    for member in rest.split(","):
        name, equals, value = member.strip().partition("=")
        if not equals or name in members:
            raise IncompleteSignature(_AUTHORIZATION_FORM)
        members[name] = value
    if members.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise IncompleteSignature(_AUTHORIZATION_FORM)
    date = _only(request.values(DATE_HEADER), "x-amz-date header")
    if date is None:
        raise IncompleteSignature(
            "the x-amz-date header is missing; a Date header cannot take its place"
        )
    return _claim(
        members["Credential"],
        members["SignedHeaders"],
        members["Signature"],
        date.strip(),
        _only(request.values(TOKEN_HEADER), "x-amz-security-token header"),
        None,
    )


_AUTHORIZATION_FORM: Final = (
    "the Authorization header must read AWS4-HMAC-SHA256 "
    "Credential=…, SignedHeaders=…, Signature=…, each of them once"
)


def _presigned_claim(request: SignableRequest, parameters: Mapping[str, str]) -> Claim:
    for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"):
        if f"X-Amz-{name}" not in parameters:
            raise IncompleteSignature(f"the presigned URL has no X-Amz-{name}")
    _check_algorithm(parameters["X-Amz-Algorithm"])
    text = parameters["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= MAX_PRESIGN_EXPIRES:
        raise IncompleteSignature(f"X-Amz-Expires must be 1 to {MAX_PRESIGN_EXPIRES} seconds")
    tokens = request.values(TOKEN_HEADER)
    if "X-Amz-Security-Token" in parameters:
        tokens.append(parameters["X-Amz-Security-Token"])
    return _claim(
        parameters["X-Amz-Credential"],
        parameters["X-Amz-SignedHeaders"],
        parameters["X-Amz-Signature"],
        parameters["X-Amz-Date"],
        _only(tokens, "security token"),
        int(text),
    )


def _presigned_parameters(request: SignableRequest) -> dict[str, str] | None:
    """The query's ``X-Amz-*``, or None if the URL is not presigned."""
    found: dict[str, str] = {}
    presigned = False
    for name, value in request.parameters():
        if name.startswith(b"X-Amz-"):
            key = name.decode("utf-8", "replace")
            if key in found:
                raise IncompleteSignature("an X-Amz- parameter appears twice in the query")
            found[key] = value.decode("utf-8", "surrogateescape")
            presigned = presigned or name in _PRESIGNED
    return found if presigned else None


def _claim(
    credential: str,
    signed_headers: str,
    signature: str,
    date: str,
    token: str | None,
    expires: int | None,
) -> Claim:
    parts = credential.split("/")
    if len(parts) != 5 or not all(parts) or parts[4] != TERMINATOR:
        raise IncompleteSignature(f"Credential must read KEY/YYYYMMDD/REGION/SERVICE/{TERMINATOR}")
    names = tuple(signed_headers.split(";"))
    if list(names) != sorted(set(names)) or not all(map(_HEADER_NAME.fullmatch, names)):
        raise IncompleteSignature(
            "SignedHeaders must be a list of names in lower case, sorted, joined by semicolons"
        )
    if len(names) > MAX_HEADERS:
        raise IncompleteSignature(f"SignedHeaders must name at most {MAX_HEADERS} headers")
    if not _SIGNATURE.fullmatch(signature):
        raise IncompleteSignature("Signature must be 64 hexadecimal digits in lower case")
    return Claim(
        parts[0],
        Scope(parts[1], parts[2], parts[3]),
        names,
        signature,
        _epoch_seconds(date),
        token,
        expires,
    )


def _check_algorithm(algorithm: str) -> None:
    if algorithm != ALGORITHM:
        raise IncompleteSignature(f"the algorithm of a signature must be {ALGORITHM}")


@lru_cache(maxsize=REMEMBERED_TIMES)
def _epoch_seconds(text: str) -> int:
    if _TIMESTAMP.fullmatch(text):
        try:
            return int(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
        except ValueError:
            pass
    raise IncompleteSignature("the request's date must read YYYYMMDDTHHMMSSZ")


def _only(values: list[str], what: str) -> str | None:
    if len(values) > 1:
        raise IncompleteSignature(f"the request has more than one {what}")
    return values[0] if values else None


def verify(
    request: SignableRequest,
    claim: Claim,
    credentials: Credentials,
    *,
    payload_hash: str,
    region: str,
    now: float,
    service: str = SERVICE,
) -> None:
    """Check that the request is what the holder of the key signed, here and now.

    Args:
        request: as it came.
        claim: :func:`read_claim` of it.
        credentials: the key that the claim names.
        payload_hash: :func:`payload_hash_of_stream` or :func:`payload_hash_of_body`.
        region: the one that this gateway answers for.
        now: epoch seconds.
        service: whose operation the request asks for.

    Raises:
        InvalidSignature: something that has to be signed is not; scope, date or signature do not
            fit. The message says which.
        UnrecognizedClient: the request names another key, or another session token.
    """
    check_claim(request, claim, credentials, region=region, now=now, service=service)
    check_signature(request, claim, credentials, payload_hash)


def check_claim(
    request: SignableRequest,
    claim: Claim,
    credentials: Credentials,
    *,
    region: str,
    now: float,
    service: str = SERVICE,
) -> None:
    """The first part of :func:`verify`: all that a request's body has no part in.

    Args:
        request: as it came.
        claim: :func:`read_claim` of it.
        credentials: the key that the claim names.
        region: the one that this gateway answers for.
        now: epoch seconds.
        service: whose operation the request asks for.

    Raises:
        InvalidSignature: something that has to be signed is not, or scope or date do not fit.
        UnrecognizedClient: the request names another key, or another session token.
    """
    _check_signed_headers(request, claim)
    _check_scope(claim, region, service)
    _check_date(claim, now)
    if claim.access_key_id != credentials.access_key_id or not _same_token(
        claim.session_token, credentials.session_token
    ):
        raise UnrecognizedClient


def check_signature(
    request: SignableRequest, claim: Claim, credentials: Credentials, payload_hash: str
) -> None:
    """The second part of :func:`verify`: the signature itself.

    Raises:
        InvalidSignature: the holder of the key has not signed this.
    """
    key = signing_key(credentials.secret_access_key, claim.scope)
    for canonical in canonical_requests(request, claim.signed_headers, payload_hash):
        expected = signature_of(key, claim.timestamp, claim.scope, canonical)
        if hmac.compare_digest(expected, claim.signature):
            return
    raise InvalidSignature(
        "The request signature we calculated does not match the signature you provided. "
        "Check your AWS Secret Access Key and signing method."
    )


def _check_signed_headers(request: SignableRequest, claim: Claim) -> None:
    signed = frozenset(claim.signed_headers)
    if not signed & {"host", ":authority"}:
        raise InvalidSignature("the host is not signed; it must be")
    for lower in request.names:
        if lower.startswith(ALWAYS_SIGNED) and lower not in signed:
            raise InvalidSignature(f"the header {lower!r} is not signed; it must be")
    for name in claim.signed_headers:
        if not request.signed_values(name):
            raise InvalidSignature(f"the header {name!r} was signed and is not in the request")


def _check_scope(claim: Claim, region: str, service: str) -> None:
    scope = claim.scope
    if scope.date != timestamp_text(claim.timestamp)[:8]:
        raise InvalidSignature("Credential should be scoped to the day of the request's date")
    if scope.region != region:
        raise InvalidSignature(f"Credential should be scoped to the region {region!r}")
    if scope.service != service:
        raise InvalidSignature(f"Credential should be scoped to the service {service!r}")


def _check_date(claim: Claim, now: float) -> None:
    if claim.timestamp > now + MAX_CLOCK_SKEW:
        raise InvalidSignature(
            f"Signature not yet current: {timestamp_text(claim.timestamp)} is more than "
            f"5 minutes ahead of the gateway's clock, {timestamp_text(int(now))}"
        )
    if claim.timestamp + (claim.expires or MAX_CLOCK_SKEW) < now:
        good_for = "5 minutes" if claim.expires is None else f"{claim.expires} seconds"
        raise InvalidSignature(
            f"Signature expired: {timestamp_text(claim.timestamp)} is more than "
            f"{good_for} behind the gateway's clock, {timestamp_text(int(now))}"
        )


def _same_token(claimed: str | None, known: str | None) -> bool:
    if claimed is None or known is None:
        return claimed is known
    return hmac.compare_digest(to_bytes(claimed), to_bytes(known))


def payload_hash_of_stream(headers: tuple[tuple[str, str], ...]) -> str:
    """The payload hash that a bidirectional stream's request signs (clauses 2.1-1, 2.4-1).

    Raises:
        InvalidSignature: the header states any other hash: events are checked whatever it states,
            so there is nothing else for it to state.
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
    """The payload hash that a request with a whole body signs (clause 2.4-1; 2.5-5: boto3's).

    ``UNSIGNED-PAYLOAD``, which is S3's, is refused, presigned or not: whoever holds the connection,
    or the URL, could change the body. No client of these operations sends it of itself; a presigned
    URL is good for the body whose hash it signs, the empty one unless a header states another.

    Raises:
        InvalidSignature: the hash that the header states is not the body's.
    """
    actual = hashlib.sha256(body).hexdigest()
    stated = stated_payload_hash(headers)
    if stated is not None and stated != actual:
        raise InvalidSignature(f"{CONTENT_SHA256_HEADER} must be the SHA-256 of the body")
    return actual


def stated_payload_hash(headers: tuple[tuple[str, str], ...]) -> str | None:
    """The payload hash that a request states in a header, be it right or wrong; None without it.

    Raises:
        IncompleteSignature: it states more than one.
    """
    values = [value.strip() for name, value in headers if name.lower() == CONTENT_SHA256_HEADER]
    return _only(values, f"{CONTENT_SHA256_HEADER} header")
