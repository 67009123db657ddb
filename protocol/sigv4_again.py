"""Signatures of who has signed before: what was checked of one request is not checked again.

A client that signs each request anew names the same key, day, region and headers for a whole day;
and most of its requests of one second have the same date. What is left is whether the signature is
right.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from partway.protocol.errors import IncompleteSignature
from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.sigv4_canonical import (
    ALGORITHM,
    DATE_HEADER,
    Credentials,
    SigningKey,
    canonical_request,
    signing_key,
    timestamp_text,
)
from partway.protocol.sigv4_claims import Claim, epoch_seconds
from partway.protocol.sigv4_request import SignableRequest

#: Where an Authorization header's signature is among what a request says anew, under a name that no
#: header has: what is in front of it is said by all that are alike.
SIGNATURE: Final = "authorization signature"

#: Stands in a canonical request for what another has of its own there: no header has it.
_PLACE: Final = "\0"


class SignerAgain:
    """A signer, of whose requests one was found to be right: verifies others that are like it.

    These have the same method and headers, but for what they say anew: each says that in
    headers of the same names, in values that are signed as they stand. Whatever else is not as it
    was is left to who verifies from the start, and so is each error.

    Args:
        claim: what that request says of its signature.
        credentials: the key that signed it.
        names: of what it says anew, that is signed.
        form: the canonical request, with ``%b`` for the path, for these, and for the hash of the
            payload.
    """

    __slots__ = ("_credentials", "_date", "_form", "_key", "_names", "_scope", "_time")

    def __init__(
        self, claim: Claim, credentials: Credentials, names: tuple[str, ...], form: bytes
    ) -> None:
        self._scope = claim.scope
        self._credentials = credentials
        self._names = names
        self._form = form
        self._date = b""
        self._time = 0
        self._key: SigningKey

    def is_current(self, anew: Mapping[str, bytes], now: float) -> bool:
        """Whether a request like that one is of the signer's day, and of about this moment.

        Args:
            anew: by names in lower case, what it says anew.
            now: epoch seconds.
        """
        date = anew[DATE_HEADER]
        if date != self._date and not self._is_of_its_day(date):
            return False
        return -MAX_CLOCK_SKEW <= now - self._time <= MAX_CLOCK_SKEW

    def is_right(self, path: bytes, anew: Mapping[str, bytes], payload_hash: str) -> bool:
        """Whether a request has the signature that this signer would make for it.

        Args:
            path: the request's, as it is signed.
            anew: what :meth:`is_current` was asked about last.
            payload_hash: what has to be signed of the body.
        """
        said = map(anew.__getitem__, self._names)
        canonical = self._form % (path, *said, payload_hash.encode())
        expected = self._key.sign(hexlify(sha256(canonical).digest()))
        return compare_digest(hexlify(expected), anew[SIGNATURE])

    def _is_of_its_day(self, date: bytes) -> bool:
        """Whether a date can be read and is of the scope's day; then it is that of the moment."""
        try:
            timestamp = epoch_seconds(date.decode())
        except (IncompleteSignature, UnicodeDecodeError):
            return False
        if timestamp_text(timestamp)[:8] != self._scope.date:
            return False
        self._date, self._time = date, timestamp
        secret = self._credentials.secret_access_key
        self._key = signing_key(ALGORITHM, secret, self._scope, timestamp)
        return True


def signer_again(
    request: SignableRequest, claim: Claim, credentials: Credentials, anew: Mapping[str, bytes]
) -> SignerAgain | None:
    """The signer of a request that was found to be right.

    None where others may be signed otherwise: the URL is presigned, or one of them may differ in
    what is not said anew.

    Args:
        request: as it came.
        claim: what it says of its signature.
        credentials: the key that signed it.
        anew: by names in lower case, what requests that are like it say anew.
    """
    if request.query or DATE_HEADER not in anew or "authorization" in claim.signed_headers:
        return None
    if anew.get(SIGNATURE) != claim.signature.encode():
        return None
    names = tuple(name for name in claim.signed_headers if name in anew)
    headers = [(name, _PLACE if name.lower() in anew else value) for name, value in request.headers]
    with_places = request.but(headers=tuple(headers))
    text = canonical_request(with_places, b"", claim.signed_headers, _PLACE)
    method, _, rest = text.replace(b"%", b"%%").split(b"\n", 2)
    pieces = rest.split(_PLACE.encode())
    if len(pieces) != len(names) + 2:
        return None
    return SignerAgain(claim, credentials, names, b"%b\n%%b\n%b" % (method, b"%b".join(pieces)))
