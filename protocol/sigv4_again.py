"""Signatures of who has signed before: what was checked of one request is not checked again.

A client that signs each request anew names the same key, day, region and headers for a whole day;
and most of its requests of one second have the same date. What is left is whether the signature is
right.
"""

from __future__ import annotations

import hashlib
import hmac

from partway.protocol.errors import IncompleteSignature
from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.sigv4_canonical import (
    ALGORITHM,
    DATE_HEADER,
    Credentials,
    SigningKey,
    canonical_requests,
    signing_key,
    timestamp_text,
)
from partway.protocol.sigv4_claims import SIGNATURE_MEMBER, Claim, epoch_seconds
from partway.protocol.sigv4_request import SignableRequest


class SignerAgain:
    """A signer, of whose requests one was found to be right: verifies others that are like it.

    Whatever is not as it was is left to who verifies from the start, and so is each error.

    Args:
        said: all that the request's ``Authorization`` header says in front of its signature.
        claim: what it says of its signature.
        credentials: the key that signed it.
    """

    __slots__ = ("_credentials", "_date", "_key", "_said", "_scope", "_signed_headers", "_time")

    def __init__(self, said: str, claim: Claim, credentials: Credentials) -> None:
        self._said = said
        self._scope = claim.scope
        self._signed_headers = claim.signed_headers
        self._credentials = credentials
        self._date: str | None = None
        self._time = 0
        self._key: SigningKey

    def signature(self, request: SignableRequest, now: float) -> str | None:
        """The signature of a request that is like that one, if it is this signer's, here and now.

        None where anything is other than it was, and may be wrong.

        Args:
            request: has the same :class:`Alike`.
            now: epoch seconds.
        """
        authorization = request.only("authorization")
        date = request.only(DATE_HEADER)
        said = self._said
        if authorization is None or date is None or not authorization.startswith(said):
            return None
        if date != self._date and not self._is_of_its_day(date):
            return None
        if not -MAX_CLOCK_SKEW <= now - self._time <= MAX_CLOCK_SKEW:
            return None
        return authorization[len(said) :]

    def is_right(self, request: SignableRequest, signature: str, payload_hash: str) -> bool:
        """Whether a request has the signature that this signer would make for it.

        Args:
            request: what :meth:`signature` was asked about last.
            signature: what it returned.
            payload_hash: what has to be signed of the body.
        """
        canonical = canonical_requests(request, self._signed_headers, payload_hash)[0]
        signed = hashlib.sha256(canonical).hexdigest()
        expected = self._key.sign(signed.encode()).hex()
        return signature.isascii() and hmac.compare_digest(expected, signature)

    def _is_of_its_day(self, date: str) -> bool:
        """Whether a date can be read and is of the scope's day; then it is that of the moment."""
        try:
            timestamp = epoch_seconds(date)
        except IncompleteSignature:
            return False
        if timestamp_text(timestamp)[:8] != self._scope.date:
            return False
        self._date, self._time = date, timestamp
        secret = self._credentials.secret_access_key
        self._key = signing_key(ALGORITHM, secret, self._scope, timestamp)
        return True


def signer_again(
    request: SignableRequest, claim: Claim, credentials: Credentials
) -> SignerAgain | None:
    """The signer of a request that was found to be right.

    None where others may be signed otherwise: the URL is presigned, or the signature is not the
    last that its header says.

    Args:
        request: as it came.
        claim: what it says of its signature.
        credentials: the key that signed it.
    """
    said, member, signature = (request.only("authorization") or "").rpartition(SIGNATURE_MEMBER)
    if request.query or not member or signature != claim.signature:
        return None
    return SignerAgain(said + member, claim, credentials)
