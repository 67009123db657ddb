"""SigV4 claims: a request's statements about its own signature, in a header or a presigned URL.

This module only parses them; it verifies nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from partway.protocol.errors import IncompleteSignature, MissingAuthenticationToken
from partway.protocol.limits import MAX_HEADERS, MAX_PRESIGN_EXPIRES
from partway.protocol.signatures.canonical_form import (
    ALGORITHM,
    DATE_HEADER,
    SIGNATURE_PARAMETER,
    TERMINATOR,
    TOKEN_HEADER,
    Scope,
)
from partway.protocol.signatures.signed_request import SignableRequest

_TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_NAME: Final = re.compile(r":?[0-9a-z!#$%&'*+\-.^_`|~]+")

#: A URL with any of these parameters is presigned.
_PRESIGNED: Final = frozenset({b"X-Amz-Algorithm", b"X-Amz-Credential", SIGNATURE_PARAMETER})


# Not frozen: one is made for each request, and a frozen one takes three times as long.
@dataclass(slots=True)
class Claim:
    """A request's statements about its own signature; none of them is verified yet.

    Attributes:
        signed_headers: names in lower case, sorted.
        signature: 64 hex digits.
        timestamp: epoch seconds.
        session_token: the token of a temporary key; None if the request has none.
        expires: seconds that a presigned URL is valid; None for a signed request.
    """

    access_key_id: str
    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str = field(repr=False)
    timestamp: int
    session_token: str | None = field(repr=False)
    expires: int | None


class _Signer(NamedTuple):
    """The members that an Authorization header and a presigned URL both state."""

    access_key_id: str
    scope: Scope
    signed_headers: tuple[str, ...]


def read_claim(request: SignableRequest, most_expires: int = MAX_PRESIGN_EXPIRES) -> Claim:
    """Read a request's claim, from its Authorization header or its presigned query.

    Args:
        request: the request.
        most_expires: seconds that a presigned URL may be valid.

    Raises:
        MissingAuthenticationToken: the request has neither.
        IncompleteSignature: the request has both, or a malformed one.
    """
    parameters = _presigned_parameters(request) if request.query else None
    authorization = request.only("authorization")
    if parameters is not None:
        if authorization is not None:
            raise IncompleteSignature(
                "the request is signed twice: by its Authorization header and by its query; "
                "send one of them"
            )
        return _presigned_claim(request, parameters, most_expires)
    if authorization is None:
        raise MissingAuthenticationToken("Missing Authentication Token")
    return _header_claim(request, authorization)


def _header_claim(request: SignableRequest, authorization: str) -> Claim:  # clause 2.1-2
    signer, signature = _read_authorization(authorization)
    date = request.only(DATE_HEADER)
    if date is None:
        raise IncompleteSignature(
            "the x-amz-date header is missing; a Date header cannot take its place"
        )
    timestamp = epoch_seconds(date.strip())
    token = request.only(TOKEN_HEADER)
    return Claim(*signer, signature, timestamp, token, None)


def _read_authorization(authorization: str) -> tuple[_Signer, str]:
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
    signature = members["Signature"]
    return _signer(members["Credential"], members["SignedHeaders"], signature), signature


_AUTHORIZATION_FORM: Final = (
    "the Authorization header must read AWS4-HMAC-SHA256 "
    "Credential=…, SignedHeaders=…, Signature=…, each of them once"
)


def _presigned_claim(
    request: SignableRequest, parameters: Mapping[str, str], most_expires: int
) -> Claim:
    for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"):
        if f"X-Amz-{name}" not in parameters:
            raise IncompleteSignature(f"the presigned URL has no X-Amz-{name}")
    _check_algorithm(parameters["X-Amz-Algorithm"])
    text = parameters["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= most_expires:
        raise IncompleteSignature(f"X-Amz-Expires must be 1 to {most_expires} seconds")
    tokens = [*request.values(TOKEN_HEADER)]
    if "X-Amz-Security-Token" in parameters:
        tokens.append(parameters["X-Amz-Security-Token"])
    if len(tokens) > 1:
        raise IncompleteSignature("the request has more than one security token")
    token = tokens[0] if tokens else None
    signature = parameters["X-Amz-Signature"]
    signer = _signer(parameters["X-Amz-Credential"], parameters["X-Amz-SignedHeaders"], signature)
    timestamp = epoch_seconds(parameters["X-Amz-Date"])
    return Claim(*signer, signature, timestamp, token, int(text))


def _presigned_parameters(request: SignableRequest) -> dict[str, str] | None:
    """Return the query's ``X-Amz-*`` parameters, or None if the URL is not presigned."""
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


def _signer(credential: str, signed_headers: str, signature: str) -> _Signer:
    """Parse the members of a claim, and check the form of each, the signature's included."""
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
    return _Signer(parts[0], Scope(parts[1], parts[2], parts[3]), names)


def _check_algorithm(algorithm: str) -> None:
    if algorithm != ALGORITHM:
        raise IncompleteSignature(f"the algorithm of a signature must be {ALGORITHM}")


def epoch_seconds(text: str) -> int:
    """Parse ``YYYYMMDDTHHMMSSZ`` to epoch seconds.

    Raises:
        IncompleteSignature: the text has another form, or is not a valid date.
    """
    if _TIMESTAMP.fullmatch(text):
        try:
            return int(datetime.fromisoformat(text).timestamp())
        except ValueError:
            pass
    raise IncompleteSignature("the request's date must read YYYYMMDDTHHMMSSZ")
