"""Checks on a server's HTTP/2 frames before the HTTP/2 library sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partway.protocol.http2.frames import GOAWAY, HEAD_BYTES, SETTINGS, STREAM_ID
from partway.protocol.limits import HTTP2_MAX_FRAME
from partway.protocol.websocket.handshake import TLS_ALERT

#: Bytes of GOAWAY's two numbers; the debug data after them is ignored.
_GOAWAY_NUMBERS = 8


class BadFrames(Exception):
    """The server's bytes are not HTTP/2, or not allowed from a server; the message says why."""


class Goaway(NamedTuple):
    """A server's GOAWAY.

    Attributes:
        last_stream_id: the last stream that the server has processed.
        error_code: 0 for an orderly end.
    """

    last_stream_id: int
    error_code: int


class ServerFrames:
    """One connection's frames, on their way to h2.

    Rules:
        1. A server's first frame is SETTINGS (RFC 9113 §3.4). Another beginning has an error of its
        own, since it may well come from a server of HTTP/1.1.
        2. GOAWAY is kept from h2, which would send and take nothing more after it. Open streams go
        on (RFC 9113 §6.8): a gateway sends it when its drain begins, and lets them finish.
        3. A frame is at most 16 KiB (RFC 9113 §4.2), and is refused by its head. h2 would first
        wait for all of it, up to 16 MiB.

    Attributes:
        begun: whether a first frame has come.
        speaks_tls: whether an alert of TLS, shorter than a frame's head, has come instead.
        goaway: the last GOAWAY that came, if any.
    """

    def __init__(self) -> None:
        self.begun = False
        self.goaway: Goaway | None = None
        self._head = b""
        self._left = 0  # payload bytes of the current frame to pass on
        self._goaway_left = 0  # bytes of the current GOAWAY
        self._numbers = b""

    @property
    def speaks_tls(self) -> bool:
        return not self.begun and self._head.startswith(TLS_ALERT)

    def take(self, data: bytes) -> Iterator[bytes]:
        """Take bytes from the server; yield those that are for h2.

        Each piece has the end of at most one frame: if the last frame given to h2 at once is wrong,
        h2 loses the events of all others.

        Raises:
            BadFrames: the first frame is not SETTINGS, or a frame is too large.
        """
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                yield piece
            elif self._goaway_left:
                piece = data[at : at + self._goaway_left]
                self._goaway_received(piece)
            else:
                piece = data[at : at + HEAD_BYTES - len(self._head)]
                self._head += piece
                if len(self._head) == HEAD_BYTES:
                    yield self._head_received()
            at += len(piece)

    def _head_received(self) -> bytes:
        head, self._head = self._head, b""
        if not self.begun:  # rule 1
            if head.startswith(b"HTTP/1"):
                raise BadFrames("the server speaks HTTP/1.1, not HTTP/2")
            if head[3] != SETTINGS:
                raise BadFrames("the server's first bytes are not HTTP/2")
            self.begun = True
        length, stream_id = int.from_bytes(head[:3], "big"), int.from_bytes(head[5:], "big")
        if length > HTTP2_MAX_FRAME:  # rule 3
            raise BadFrames("bad HTTP/2 from the gateway: a frame is too large")
        if head[3] == GOAWAY and length >= _GOAWAY_NUMBERS and not stream_id & STREAM_ID:
            self._goaway_left, self._numbers = length, b""  # rule 2
            return b""
        self._left = length
        return head

    def _goaway_received(self, piece: bytes) -> None:
        self._goaway_left -= len(piece)
        self._numbers += piece[: _GOAWAY_NUMBERS - len(self._numbers)]
        if not self._goaway_left:
            last, code = self._numbers[:4], self._numbers[4:]
            self.goaway = Goaway(
                int.from_bytes(last, "big") & STREAM_ID, int.from_bytes(code, "big")
            )
