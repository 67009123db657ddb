"""A caller's request for a stream: checks, and its head in either HTTP (sections 2.1, 2.4, 3)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from partway.gateway.network.dialling import Address, client_tls
from partway.protocol import limits
from partway.protocol.event_stream.writer import CONTENT_TYPE
from partway.protocol.signatures.verification import (
    EMPTY_SHA256,
    STREAMING_EVENTS,
    Credentials,
    EventSigner,
    SignableRequest,
    sign_request,
)

Headers = list[tuple[str, str]]

#: Headers of HTTP/2 for the query parameters of a WebSocket's upgrade (clauses 2.1-3, 3-3).
_HEADERS: Final = {
    "path": "x-amzn-sagemaker-model-invocation-path",
    "query": "x-amzn-sagemaker-model-query-string",
    "variant": "x-amzn-sagemaker-target-variant",
    "container": "x-amzn-sagemaker-target-container-hostname",
}

_DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_TLS: Final = frozenset({"https", "wss"})

#: A token: the characters of RFC 6750 §2.1, and all others that a header can carry.
_TOKEN: Final = re.compile(r"[!-~]+")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")


def credentials_from_environment(environment: Mapping[str, str]) -> Credentials:
    """Read the key in ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``.

    No other source is used: no file, no profile, no metadata service.

    Args:
        environment: usually ``os.environ``.

    Raises:
        ValueError: one of the first two variables is missing, or empty.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        if not environment.get(name):
            raise ValueError(
                f"{name} is not set, or is empty; requests cannot be signed without it"
            )
    return Credentials(
        environment["AWS_ACCESS_KEY_ID"],
        environment["AWS_SECRET_ACCESS_KEY"],
        environment.get("AWS_SESSION_TOKEN") or None,
    )


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request to open a stream.

    Attributes:
        url: the gateway's URL, for messages; without a user's name and password.
        authority: value of ``Host`` and of ``:authority``.
        target: path of the operation, percent-encoded.
        asked: those of ``path``, ``query``, ``variant`` and ``container`` that were given.
        ca: PEM file of the roots to trust for TLS; None for the system's.
        credentials: key to sign with; None to sign nothing.
        region: region that signatures name.
        token: a WebSocket's bearer token.
    """

    url: str
    address: Address
    authority: str
    target: str
    asked: Mapping[str, str]
    tls: bool
    ca: Path | None = None
    credentials: Credentials | None = field(default=None, repr=False)
    region: str = "us-east-1"
    token: str | None = field(default=None, repr=False)

    def context(self, protocol: str) -> ssl.SSLContext | None:
        """Make the client's side of TLS, with one protocol in ALPN; None for cleartext.

        Without ``ca`` the roots to trust are OpenSSL's own, or those of ``SSL_CERT_FILE``.

        Raises:
            ValueError: the file ``ca`` cannot be read, or holds no certificate in PEM.
        """
        if not self.tls:
            return None
        try:
            return client_tls(protocol, self.ca)
        except OSError as error:  # ssl.SSLError is one, and names neither file nor fault
            known = None if isinstance(error, ssl.SSLError) else error.strerror
            known = known or "the file must hold certificates in PEM"
            raise ValueError(f"ca: {self.ca}: {known}") from None

    def upgrade(self, now: float) -> tuple[str, Headers]:
        """Make the target and further headers of a WebSocket's upgrade (clauses 3-3, 3-5).

        Args:
            now: the time in epoch seconds.
        """
        query = urlencode(self.asked, quote_via=quote, safe="")
        headers: Headers = []
        if self.credentials is not None:
            unsigned = SignableRequest("GET", self.target, query, (("host", self.authority),))
            headers = sign_request(
                unsigned,
                self.credentials,
                region=self.region,
                payload_hash=EMPTY_SHA256,
                now=now,
            ).headers
        elif self.token is not None:
            headers = [("authorization", f"Bearer {self.token}")]
        return (f"{self.target}?{query}" if query else self.target), headers

    def post(self, now: float) -> tuple[Headers, EventSigner | None]:
        """Make an HTTP/2 request's head, and its events' signer (clauses 2.1-1 to 2.1-3).

        Args:
            now: the time in epoch seconds.
        """
        pseudo = [
            (":method", "POST"),
            (":scheme", "https" if self.tls else "http"),
            (":authority", self.authority),
            (":path", self.target),
        ]
        headers = [("content-type", CONTENT_TYPE)]
        headers += [(_HEADERS[name], value) for name, value in self.asked.items()]
        if self.credentials is None:
            return pseudo + headers, None
        signed = sign_request(
            # Signed as host, which is not sent as a header, like AWS's SDK (clause 2.4-3).
            SignableRequest("POST", self.target, "", (("host", self.authority), *headers)),
            self.credentials,
            region=self.region,
            payload_hash=STREAMING_EVENTS,
            now=now,
            send_payload_hash=True,
        )
        signer = EventSigner(self.credentials, self.region, signed.signature)
        return pseudo + headers + signed.headers, signer


def request_for(
    url: str,
    endpoint: str,
    asked: Mapping[str, str | None],
    *,
    ca: str | Path | None,
    credentials: Credentials | None,
    region: str,
    token: str | None,
) -> StreamRequest:
    """Check the arguments of :func:`~partway.gateway.client.connect`, and make a request from them.

    Raises:
        ValueError: an argument cannot be used; the message says which, and what it must be.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(
            f"url: {url!r} was given; it must be a gateway's URL, as in http://127.0.0.1:8090"
        )
    tls = parts.scheme in _TLS
    if ca is not None and not tls:
        raise ValueError(f"ca: a file was given for {parts.scheme}://; the URL must be https://")
    if credentials is not None and token is not None:
        raise ValueError("credentials and a token were given; it must be one of the two")
    headers = {"token": token}
    if credentials is not None:
        headers["access_key_id"] = credentials.access_key_id
        headers["session_token"] = credentials.session_token
    for name, text in headers.items():
        if text is not None and not _TOKEN.fullmatch(text):  # it may end in a line break
            raise ValueError(f"{name}: it must be one or more visible ASCII characters")
    if limits.REGION.fullmatch(region) is None:
        raise ValueError(f"region: {region!r} was given; it must be a region, as in us-east-1")
    given = {name: value for name, value in asked.items() if value}
    for name, value in given.items():
        if found := _CONTROLS.search(value):
            raise ValueError(f"{name} has {found[0]!r}; it must not have control characters")
    base = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    authority = parts.netloc.rpartition("@")[2]
    return StreamRequest(
        url=f"{parts.scheme}://{authority}{parts.path}",
        address=Address(parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]),
        authority=authority,
        target=f"{base}/endpoints/{quote(endpoint, safe='')}/invocations-bidirectional-stream",
        asked=given,
        tls=tls,
        ca=None if ca is None else Path(ca),
        credentials=credentials,
        region=region,
        token=token,
    )
