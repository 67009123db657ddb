"""WebSocket opening handshake, both sides, sans-IO (RFC 6455 §4).

The server's side takes a head that an HTTP parser has already read. The client's side reads the
response itself, with h11; clause 4-6 says how a refusal is passed on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import h11

from partway.protocol.limits import HANDSHAKE_HEAD_BYTES, MAX_INTERIM_RESPONSES, REFUSAL_BODY_BYTES

#: A container's 101 says in this header when it answers a Close. The one defined value means: after
#: it has finished its answer (clause 1.5-12).
CLOSE_HEADER: Final = "X-Partway-Close"
AFTER_ANSWER: Final = "after-answer"

#: The gateway's answer to a client says in this header, over HTTP/2 too, what the end of the input
#: means: ``close`` if the container is told at once, otherwise the setting's value.
INPUT_END_HEADER: Final = "x-partway-input-end"

#: The first byte of a TLS server's answer to a client that speaks in clear: the type of an alert
#: record (RFC 8446 §5.1). No version of HTTP begins with it.
TLS_ALERT: Final = b"\x15"

#: The message about such a server.
SPEAKS_TLS: Final = "the server speaks TLS on this port: the URL must begin with https://"

#: HTTP versions of an answer that is not a 101; h11 accepts any digits.
_VERSIONS: Final = frozenset({b"1.0", b"1.1"})

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3


def accept_key(key: str) -> str:
    """Compute ``Sec-WebSocket-Accept`` for a ``Sec-WebSocket-Key`` (RFC 6455 §4.2.2)."""
    return base64.b64encode(
        hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    ).decode()


def finishes_before_close(headers: Mapping[str, str]) -> bool:
    """Whether a 101 says that its server finishes its answer before it answers a Close (1.5-12).

    Args:
        headers: the headers of the 101, names in lower case.
    """
    return headers.get(CLOSE_HEADER.lower(), "").strip().lower() == AFTER_ANSWER


# --- Server --------------------------------------------------------------------------------------


class UpgradeError(Exception):
    """A request for a WebSocket that cannot be granted.

    Attributes:
        status: the HTTP status to answer with.
        headers: further headers of the answer (RFC 6455 §4.4 asks for the version on 426).
    """

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def tokens(value: str) -> list[str]:
    """Return the members of a comma-separated header, in order, as written."""
    return [token.strip() for token in value.split(",") if token.strip()]


def is_upgrade(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for a WebSocket; ``headers`` is case-insensitive."""
    return headers.get("Upgrade", "").lower() == "websocket"


def check_upgrade(method: str, headers: Mapping[str, str]) -> str:
    """Check a request by RFC 6455 §4.2.1, and return its key.

    Raises:
        UpgradeError: the request breaks one of those rules; the error has the status to answer
            with.
    """
    if method != "GET":
        raise UpgradeError(405, "a WebSocket must be opened with GET", {"Allow": "GET"})
    if headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers:
        # An HTTP parser would still expect the body when its bytes are taken for frames.
        raise UpgradeError(400, "a request for an upgrade must not have a body")
    if "upgrade" not in (token.lower() for token in tokens(headers.get("Connection", ""))):
        raise UpgradeError(400, "the Connection header must name Upgrade")
    if headers.get("Sec-WebSocket-Version", "").strip() != "13":
        raise UpgradeError(426, "Sec-WebSocket-Version must be 13", {"Sec-WebSocket-Version": "13"})
    key = headers.get("Sec-WebSocket-Key", "").strip()
    try:
        whole = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        whole = False
    if not whole:
        raise UpgradeError(400, "Sec-WebSocket-Key must be 16 bytes in base64")
    return key


def upgrade_headers(key: str, subprotocol: str | None = None) -> dict[str, str]:
    """Make the headers of the 101 (RFC 6455 §4.2.2), without any extension (clause 1.2-6)."""
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept_key(key),
    }
    if subprotocol is not None:
        headers["Sec-WebSocket-Protocol"] = subprotocol
    return headers


# --- Client --------------------------------------------------------------------------------------


class HandshakeRefused(Exception):
    """The server answered with another status than 101.

    Attributes:
        headers: the response's headers, names in lower case.
        body: the beginning of the response's body, as much as was asked for.
    """

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(f"the server answered the upgrade with status {status}")
        self.status = status
        self.headers = headers
        self.body = body


class HandshakeBroken(Exception):
    """The server's answer to the upgrade is not valid; the message says why."""


class HandshakeCut(HandshakeBroken):
    """The connection ended before the server's answer was complete."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A completed handshake.

    Attributes:
        headers: the headers of the 101, names in lower case.
        subprotocol: the one that the server chose; None if it chose no subprotocol.
        trailing: bytes that came after the head: the beginning of the frames.
    """

    headers: dict[str, str]
    subprotocol: str | None
    trailing: bytes

    @property
    def finishes_before_close(self) -> bool:
        return finishes_before_close(self.headers)


class ClientHandshake:
    """One upgrade request and its answer.

    Send :attr:`request`, pass everything received to :meth:`receive` until it returns an
    :class:`Accepted`, and b"" once the connection ends.

    Args:
        target: path and query, percent-encoded.
        subprotocols: the subprotocols to offer, in order of preference.
        refusal_bytes: how many bytes of a refusal's body are read.
    """

    def __init__(
        self,
        host: str,
        target: str,
        headers: Iterable[tuple[str, str]] = (),
        subprotocols: Sequence[str] = (),
        *,
        refusal_bytes: int = REFUSAL_BODY_BYTES,
    ) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._accept = accept_key(key)
        self._subprotocols = subprotocols
        self._refusal_bytes = refusal_bytes
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HANDSHAKE_HEAD_BYTES)
        self._refusal: tuple[int, dict[str, str]] | None = None
        self._body = b""
        self._begins = b""
        self._interim_left = MAX_INTERIM_RESPONSES
        fields = [
            ("Host", host),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Version", "13"),
            *headers,
        ]
        if subprotocols:
            fields.append(("Sec-WebSocket-Protocol", ", ".join(subprotocols)))
        #: The request, as bytes to send.
        self.request = b"".join(
            part
            for event in (
                h11.Request(method="GET", target=target, headers=fields),
                h11.EndOfMessage(),
            )
            if (part := self._http.send(event))
        )

    def receive(self, data: bytes) -> Accepted | None:
        """Take in bytes that the server has sent; b"" means that the connection has ended.

        Raises:
            HandshakeRefused: the server answered with another status than 101.
            HandshakeCut: the connection ended before the answer was complete.
            HandshakeBroken: the answer is not HTTP, has the wrong accept key or accepts something
                that was not offered.
        """
        self._begins = self._begins or data[:1]
        try:
            self._http.receive_data(data)
            return self._events()
        except h11.RemoteProtocolError as error:
            if self._refusal is not None:  # the refusal's head was complete: its status says more
                raise self._refused() from None
            if not data:
                raise HandshakeCut("the connection ended before the upgrade was answered") from None
            if self._begins == TLS_ALERT:  # an alert is shorter than a line of HTTP
                raise HandshakeBroken(SPEAKS_TLS) from None
            # After the colon h11 quotes the input, which must not be logged.
            about = str(error).partition(":")[0]
            raise HandshakeBroken(f"the answer to the upgrade is not HTTP: {about}") from None

    def _events(self) -> Accepted | None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                if event.http_version != b"1.1":
                    raise HandshakeBroken("the 101 must be HTTP/1.1 (RFC 6455 §4.1)")
                return self._accepted(_fields(event), bytes(self._http.trailing_data[0]))
            if isinstance(event, h11.Response):
                if event.http_version not in _VERSIONS:
                    version = event.http_version.decode("ascii")
                    raise HandshakeBroken(
                        f"the answer to the upgrade is of HTTP/{version}; it must be of HTTP/1.1"
                    )
                self._refusal = (event.status_code, _fields(event))
            elif isinstance(event, h11.Data):
                self._body += event.data[: self._refusal_bytes - len(self._body)]
                if len(self._body) == self._refusal_bytes:
                    raise self._refused()
            elif isinstance(event, h11.EndOfMessage):
                raise self._refused()
            elif isinstance(event, h11.InformationalResponse):
                self._interim_left -= 1
                if not self._interim_left:
                    raise HandshakeBroken(
                        f"{MAX_INTERIM_RESPONSES} interim responses came, "
                        "and no answer to the upgrade"
                    )
            else:  # NEED_DATA
                return None

    def _refused(self) -> HandshakeRefused:
        assert self._refusal is not None, "the response's head has come"
        return HandshakeRefused(*self._refusal, self._body)

    def _accepted(self, headers: dict[str, str], trailing: bytes) -> Accepted:
        """Check the 101 as RFC 6455 §4.1 demands."""
        if headers.get("upgrade", "").lower() != "websocket":
            raise HandshakeBroken("the Upgrade header of the 101 must be websocket")
        if "upgrade" not in tokens(headers.get("connection", "").lower()):
            raise HandshakeBroken("the Connection header of the 101 must name Upgrade")
        if headers.get("sec-websocket-accept", "") != self._accept:
            raise HandshakeBroken("Sec-WebSocket-Accept does not match the key")
        if headers.get("sec-websocket-extensions"):
            raise HandshakeBroken("the server chose an extension that was not offered")
        subprotocol = headers.get("sec-websocket-protocol")
        if subprotocol is not None and subprotocol not in self._subprotocols:
            raise HandshakeBroken("the server chose a subprotocol that was not offered")
        return Accepted(headers, subprotocol, trailing)


def _fields(event: h11.Response | h11.InformationalResponse) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in event.headers:
        key, text = name.decode("ascii"), value.decode("latin-1")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    return fields
