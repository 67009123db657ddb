"""AWS Signature Version 4: who sent a request, and was it this one (clauses 2.4-1 to 2.4-6, 3-5).

A verifier reads the claim, finds the key that it names, and checks the one against the other::

    claim = read_claim(request)
    verify(request, claim, credentials, payload_hash=…, region="eu-west-1", now=time.time())

A client signs with :func:`sign_request` or :func:`presign`. The pieces have modules of their own:
``sigv4_canonical`` for values and the canonical form, ``sigv4_claims`` for what is read,
``sigv4_signing`` for the client's side, ``sigv4_events`` for the chain through a stream's events.
"""

from __future__ import annotations

import hashlib
import hmac

from partway.protocol.errors import IncompleteSignature, InvalidSignature, UnrecognizedClient
from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.sigv4_canonical import (
    ALWAYS_SIGNED,
    CONTENT_SHA256_HEADER,
    EMPTY_SHA256,
    SERVICE,
    STREAMING_EVENTS,
    Credentials,
    Scope,
    canonical_requests,
    signature_of,
    timestamp_text,
)
from partway.protocol.sigv4_claims import Claim, read_claim
from partway.protocol.sigv4_events import EventChain, EventSignatureInvalid, EventSigner
from partway.protocol.sigv4_request import SignableRequest, to_bytes
from partway.protocol.sigv4_signing import SignedRequest, presign, sign_request

__all__ = [
    "CONTENT_SHA256_HEADER",
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
    is_its = claim.access_key_id == credentials.access_key_id
    if not is_its or not _same_token(claim.session_token, credentials.session_token):
        raise UnrecognizedClient


def check_signature(
    request: SignableRequest, claim: Claim, credentials: Credentials, payload_hash: str
) -> None:
    """The second part of :func:`verify`: the signature itself.

    Raises:
        InvalidSignature: the holder of the key has not signed this.
    """
    secret = credentials.secret_access_key
    for canonical in canonical_requests(request, claim.signed_headers, payload_hash):
        expected = signature_of(secret, claim.scope, claim.timestamp, canonical)
        if hmac.compare_digest(expected, claim.signature):
            return
    raise InvalidSignature(
        "The request signature we calculated does not match the signature you provided. "
        "Check your AWS Secret Access Key and signing method."
    )


def _check_signed_headers(request: SignableRequest, claim: Claim) -> None:
    signed, names = frozenset(claim.signed_headers), request.names
    if "host" not in signed and ":authority" not in signed:
        raise InvalidSignature("the host is not signed; it must be")
    for lower in names:
        if lower.startswith(ALWAYS_SIGNED) and lower not in signed:
            raise InvalidSignature(f"the header {lower!r} is not signed; it must be")
    if not names >= signed:
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
    stated = stated_payload_hash(headers) if headers else None
    if stated is not None and stated != actual:
        raise InvalidSignature(f"{CONTENT_SHA256_HEADER} must be the SHA-256 of the body")
    return actual


def stated_payload_hash(headers: tuple[tuple[str, str], ...]) -> str | None:
    """The payload hash that a request states in a header, be it right or wrong; None without it.

    Raises:
        IncompleteSignature: it states more than one.
    """
    values = [value.strip() for name, value in headers if name.lower() == CONTENT_SHA256_HEADER]
    if len(values) > 1:
        raise IncompleteSignature(f"the request has more than one {CONTENT_SHA256_HEADER} header")
    return values[0] if values else None
