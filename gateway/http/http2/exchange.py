"""An exchange over HTTP/2."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from partway.gateway.http.body_chunks import AwaitedBodies
from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import NO_HEADERS, TrailingExchange
from partway.gateway.http.http2.sending import Http2Sender
from partway.gateway.http.http2.stream import Http2Stream
from partway.protocol.errors import ClientLeft
from partway.protocol.http_date import http_date


class Http2Exchange(TrailingExchange):
    def __init__(
        self,
        stream: Http2Stream,
        sender: Http2Sender,
        raw_headers: Sequence[tuple[str, str]],
        peer: str,
        *,
        visitor: Visitor | None = None,
        encrypted: bool = False,
    ) -> None:
        pseudo = {name: value for name, value in raw_headers if name.startswith(":")}
        path, _, query = pseudo.get(":path", "").partition("?")
        fields = [pair for pair in raw_headers if pair[0] == ":authority" or pair[0][:1] != ":"]
        super().__init__(
            *(pseudo.get(":method", ""), path, query, fields, "2", peer),
            visitor=visitor,
            encrypted=encrypted,
        )
        self._stream = stream
        self._sender = sender
        self._awaited: AwaitedBodies | None = None

    # --- The request's body ----------------------------------------------------------------------

    async def _read(self) -> bytes:
        return await self._bodies().read()

    def _say_continue(self) -> None:
        self._send_head([(":status", "100")])

    # --- The response ----------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        return self._stream.answered

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        # A 204 has no length (RFC 9110 §8.6).
        sized = headers if status == 204 else {"content-length": str(len(body)), **headers}
        content = body if self._may_have_body(status) else b""
        self._respond(self._head(status, sized), content)

    def respond_with_trailers(
        self, body: bytes, headers: Mapping[str, str], trailers: Mapping[str, str]
    ) -> None:
        self._respond(self._head(200, headers), body, _fields(trailers))

    @property
    def unsent_bytes(self) -> int:
        return self._stream.buffered_bytes

    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        bodies = self._bodies()
        if bodies.left:
            raise ClientLeft
        self._stream.answered = True
        self._send_head(self._head(status, headers))
        if first:
            bodies.send(first)

    async def _write(self, piece: bytes) -> None:
        await self._bodies().write(piece)

    async def _end(self, last: bytes, otherwise: bytes) -> None:
        if self._bodies().left:
            raise ClientLeft
        self._stop_awaiting()
        self._stream.finish(last, otherwise)

    async def _end_with_trailers(self, trailers: Mapping[str, str]) -> None:
        if self._bodies().left:
            raise ClientLeft
        self._stop_awaiting()
        self._stream.finish_with_trailers(_fields(trailers))

    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        self._stream.answered = True
        self._send_head(self._head(status, headers))
        return self._stream

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        self._stop_awaiting()
        if self._unended:
            self._stream.break_off()
        else:
            self._stream.abort()

    # --- Internals -------------------------------------------------------------------------------

    def _bodies(self) -> AwaitedBodies:
        """Return the stream's bodies, which an operation owns from the first call on."""
        if self._awaited is None:
            self._awaited = AwaitedBodies(self._stream, self._cancel_operation)
        return self._awaited

    def _stop_awaiting(self) -> None:
        if self._awaited is not None:
            self._awaited.stop()

    def _cancel_operation(self) -> None:
        if self._stream.task is not None:
            self._stream.task.cancel()

    def _respond(
        self,
        head: list[tuple[str, str]],
        body: bytes,
        trailers: list[tuple[str, str]] | None = None,
    ) -> None:
        self._stream.answered = True
        self._stop_awaiting()
        if body or trailers is not None:
            self._sender.send_head(self._stream.stream_id, head)
            self._stream.send_whole(body, trailers)
        else:
            self._stream.send_only_head(head)

    def _send_head(self, headers: list[tuple[str, str]]) -> None:
        """Send a head now, without waiting for what follows it."""
        self._sender.send_head(self._stream.stream_id, headers)
        self._sender.stream_ready(self._stream)

    def _head(self, status: int, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        return [
            (":status", str(status)),
            ("date", http_date(time.time())),
            ("server", "partway"),
            ("x-amzn-requestid", self.request_id),
            *_fields(headers),
        ]


def _fields(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return headers or trailers in HTTP/2's form: names in lower case (RFC 9113 §8.2.1)."""
    return [(name.lower(), value) for name, value in headers.items()]
