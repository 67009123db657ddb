"""The messages of the HTTP/2 load, and the expected replies, for each kind of server.

This module shares no code with the product, so that no cost or mistake hides on both sides. The
exception is the signature of a request's head, which is made once for each stream.
"""

from __future__ import annotations

import hmac
import struct
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256

from benchmarks.load import Messages
from partway.protocol.signatures.verification import (
    STREAMING_EVENTS,
    Credentials,
    SignableRequest,
    sign_request,
)

Headers = list[tuple[str, str]]

EVENTS = "events"
SIGNED = "signed"
WEBSOCKET = "websocket"
BYTES = "bytes"

REGION = "us-east-1"
CREDENTIALS = Credentials("AKIDBENCHMARKS", "a secret that is as long as those that AWS makes")

#: Of an event stream message (clause 2.3): both lengths, their checksum.
_PRELUDE = struct.Struct("!II")
_FRAMING = 16


class Wire:
    """One stream's bytes."""

    method = "POST"

    def __init__(self, messages: Messages, authority: str, scheme: str, path: str) -> None:
        self._messages = messages
        self._authority = authority
        self._scheme = scheme
        self._path = path

    def head(self) -> Headers:
        return [
            (":method", self.method),
            (":scheme", self._scheme),
            (":authority", self._authority),
            (":path", self._path),
        ]

    def message(self, number: int) -> tuple[bytes, bytes]:
        """Make a message, and the reply that must come back."""
        payload = self._messages.message(number)
        return payload, payload


class WebSocketWire(Wire):
    """WebSocket frames in a tunnel (RFC 8441), masked with zeros, a valid mask."""

    method = "CONNECT"

    def head(self) -> Headers:
        return [
            *super().head(),
            (":protocol", "websocket"),
            ("sec-websocket-version", "13"),
            # RFC 8441 has no use for a key; the server behind the tunnel speaks HTTP/1.1.
            ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ("sec-websocket-protocol", "payloadpart.v1.raw"),
        ]

    def message(self, number: int) -> tuple[bytes, bytes]:
        payload = self._messages.message(number)
        size = len(payload)
        sent = _frame_head(size, 0x80) + bytes(4) + payload
        return sent, _frame_head(size, 0) + payload


def _frame_head(size: int, masked: int) -> bytes:
    """FIN and BINARY, and the length (RFC 6455 §5.2)."""
    if size < 126:
        return bytes((0x82, masked | size))
    if size < 0x1_0000:
        return struct.pack("!BBH", 0x82, masked | 126, size)
    return struct.pack("!BBQ", 0x82, masked | 127, size)


def _string(name: str, value: str) -> bytes:
    return (
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", 7, len(value))
        + (value.encode())
    )


#: The same for messages and replies, in the order in which the gateway writes them.
_PART_HEADERS = b"".join(
    (
        _string(":message-type", "event"),
        _string(":event-type", "PayloadPart"),
        _string(":content-type", "application/octet-stream"),
        _string("DataType", "BINARY"),
        _string("CompletionState", "COMPLETE"),
    )
)


def _event(headers: bytes, payload: bytes) -> bytes:
    prelude = _PRELUDE.pack(len(headers) + len(payload) + _FRAMING, len(headers))
    checked = b"".join((prelude, zlib.crc32(prelude).to_bytes(4, "big"), headers, payload))
    return checked + zlib.crc32(checked).to_bytes(4, "big")


class EventsWire(Wire):
    """Bare events (clause 2.3-1); they come back to the byte."""

    def head(self) -> Headers:
        return [*super().head(), ("content-type", "application/vnd.amazon.eventstream")]

    def message(self, number: int) -> tuple[bytes, bytes]:
        event = _event(_PART_HEADERS, self._messages.message(number))
        return event, event


class SignedWire(EventsWire):
    """Events in signed ones, as the SDKs send them (clauses 2.3-1, 2.4-4)."""

    def __init__(self, messages: Messages, authority: str, scheme: str, path: str) -> None:
        super().__init__(messages, authority, scheme, path)
        self._prior = ""
        self._second = -1
        self._string_to_sign = ""
        self._key = b""

    def head(self) -> Headers:
        headers = super().head()
        request = SignableRequest(
            self.method, self._path, "", tuple(pair for pair in headers if _is_signable(pair[0]))
        )
        signed = sign_request(
            request,
            CREDENTIALS,
            region=REGION,
            payload_hash=STREAMING_EVENTS,
            now=time.time(),
            send_payload_hash=True,
        )
        self._prior = signed.signature
        return [*headers, *signed.headers]

    def message(self, number: int) -> tuple[bytes, bytes]:
        _, reply = super().message(number)
        date_ms = time.time_ns() // 1_000_000
        if date_ms // 1000 != self._second:
            self._turn_to(date_ms // 1000)
        date = b"\x05:date\x08" + date_ms.to_bytes(8, "big")
        hashes = f"{self._prior}\n{sha256(date).hexdigest()}\n{sha256(reply).hexdigest()}"
        signature = hmac.digest(self._key, (self._string_to_sign + hashes).encode(), "sha256")
        self._prior = signature.hex()
        return _event(date + b"\x10:chunk-signature\x06\x00\x20" + signature, reply), reply

    def _turn_to(self, second: int) -> None:
        self._second = second
        at = datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = (at[:8], REGION, "sagemaker", "aws4_request")
        self._string_to_sign = f"AWS4-HMAC-SHA256-PAYLOAD\n{at}\n{'/'.join(scope)}\n"
        self._key = b"AWS4" + CREDENTIALS.secret_access_key.encode()
        for step in scope:
            self._key = hmac.digest(self._key, step.encode(), "sha256")


def _is_signable(name: str) -> bool:
    return name == ":authority" or not name.startswith(":")


WIRES: dict[str, Callable[[Messages, str, str, str], Wire]] = {
    EVENTS: EventsWire,
    SIGNED: SignedWire,
    WEBSOCKET: WebSocketWire,
    BYTES: Wire,
}
