"""SigV4 signing of requests and URLs, for a client (clauses 2.4-1 to 2.4-4, 3-5)."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from partway.protocol.limits import MAX_PRESIGN_EXPIRES
from partway.protocol.signatures.canonical_form import (
    ALGORITHM,
    ALWAYS_SIGNED,
    CONTENT_SHA256_HEADER,
    DATE_HEADER,
    EMPTY_SHA256,
    TOKEN_HEADER,
    Credentials,
    Scope,
    canonical_queries,
    canonical_request,
    signature_of,
    timestamp_text,
)
from partway.protocol.signatures.signed_request import SignableRequest


class SignedRequest(NamedTuple):
    """The result of signing a request.

    Attributes:
        headers: headers to add to the request.
        signature: in hex; the signature chain of a stream's events begins with it.
    """

    headers: list[tuple[str, str]]
    signature: str


def sign_request(
    request: SignableRequest,
    credentials: Credentials,
    *,
    region: str,
    payload_hash: str,
    now: float,
    send_payload_hash: bool = False,
) -> SignedRequest:
    """Sign a request, as it will be sent without the headers that signing adds.

    The host, ``content-type`` and the headers that :func:`verify` demands are signed. Proxies may
    change all other headers. The payload hash is the hash of the body, or :data:`STREAMING_EVENTS`.
    With ``send_payload_hash``, ``x-amz-content-sha256`` is added. ``now`` is in epoch seconds.
    """
    timestamp = int(now)
    added = [(DATE_HEADER, timestamp_text(timestamp))]
    if send_payload_hash:
        added.append((CONTENT_SHA256_HEADER, payload_hash))
    if credentials.session_token is not None:
        added.append((TOKEN_HEADER, credentials.session_token))
    request = request.but(headers=(*request.headers, *added))
    names = _names_to_sign(request)
    scope = Scope(timestamp_text(timestamp)[:8], region)
    signature = _signature(request, credentials, names, payload_hash, scope, timestamp)
    authorization = (
        f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return SignedRequest([*added, ("authorization", authorization)], signature)


def presign(
    request: SignableRequest,
    credentials: Credentials,
    *,
    region: str,
    now: float,
    expires: int = MAX_PRESIGN_EXPIRES,
) -> str:
    """Return the query, without its question mark, that presigns a request's URL.

    The request is a GET with the host and headers that will be sent. Of a browser's headers, only
    the host can be signed. ``now`` is in epoch seconds. ``expires`` is 1 to 300 seconds.
    """
    timestamp = int(now)
    scope = Scope(timestamp_text(timestamp)[:8], region)
    names = _names_to_sign(request)
    parameters = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": timestamp_text(timestamp),
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": ";".join(names),
    }
    if credentials.session_token is not None:
        parameters["X-Amz-Security-Token"] = credentials.session_token
    added = (f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    query = "&".join([*([request.query] if request.query else []), *added])
    request = request.but(query=query)
    signature = _signature(request, credentials, names, EMPTY_SHA256, scope, timestamp)
    return f"{query}&X-Amz-Signature={signature}"


def _names_to_sign(request: SignableRequest) -> tuple[str, ...]:
    names = {name.lower() for name, _ in request.headers}
    plain = names & {"host", ":authority", "content-type"}
    return tuple(sorted(plain | {name for name in names if name.startswith(ALWAYS_SIGNED)}))


def _signature(
    request: SignableRequest,
    credentials: Credentials,
    names: tuple[str, ...],
    payload_hash: str,
    scope: Scope,
    timestamp: int,
) -> str:
    query = canonical_queries(request)[0]
    canonical = canonical_request(request, query, names, payload_hash)
    return signature_of(credentials.secret_access_key, scope, timestamp, canonical)
