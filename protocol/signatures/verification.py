"""AWS Signature Version 4 verification (clauses 2.4-1 to 2.4-6, 3-5).

A verifier reads the claim, finds the key that it names, and verifies the claim with that key::

    claim = read_claim(request)
    verify(request, claim, credentials, payload_hash=…, region="eu-west-1", now=time.time())

A client signs with :func:`sign_request` or :func:`presign`. ``canonical_form`` defines the signed
text, and ``claims`` parses claims. ``payload_hashes`` hashes bodies, ``signing`` is the client's
side, and ``event_chain`` verifies the events of a stream.
"""

from __future__ import annotations

import hmac

from partway.protocol.errors import InvalidSignature, UnrecognizedClient
from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.signatures.canonical_form import (
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
from partway.protocol.signatures.claims import Claim, read_claim
from partway.protocol.signatures.event_chain import EventChain, EventSignatureInvalid, EventSigner
from partway.protocol.signatures.signed_request import SignableRequest, to_bytes
from partway.protocol.signatures.signing import SignedRequest, presign, sign_request

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
    "presign",
    "read_claim",
    "sign_request",
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
    """Verify that the holder of the key signed this request, for this region and time.

    :func:`read_claim` returns the claim, and the claim names the credentials. The payload hash is
    the one that the request signs: see ``payload_hashes``. ``now`` is in epoch seconds.

    Raises:
        InvalidSignature: a header that must be signed is not, or scope, date or signature do not
            match. The message says which.
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
    """Do the first part of :func:`verify`: all checks that need no body.

    Raises:
        InvalidSignature: a header that must be signed is not, or scope or date do not match.
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
    """Do the second part of :func:`verify`: check the signature.

    Raises:
        InvalidSignature: the holder of the key has not signed this request.
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
        raise InvalidSignature("the Host header must be signed")
    for lower in names:
        if lower.startswith(ALWAYS_SIGNED) and lower not in signed:
            raise InvalidSignature(f"the header {lower!r} must be signed")
    if not names >= signed:
        for name in claim.signed_headers:
            if not request.signed_values(name):
                raise InvalidSignature(f"the request lacks the signed header {name!r}")


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
