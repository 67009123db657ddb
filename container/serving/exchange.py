"""A request and its answer, which is sent whole or in pieces."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy

from partway.container.limits import HEAD_JOINED_UP_TO
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.http1.request import Http1Request
from partway.protocol.http1.response import BODILESS, CHUNKED, LAST_CHUNK, response_head

#: The server's name in responses.
SERVER: Final = "partway-container"

#: The media type of text answers.
TEXT: Final = "text/plain; charset=utf-8"

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class RuntimeExchange:
    """One request of a connection, and its answer.

    Attributes:
        path: the target, unchanged, up to the question mark.
        query: the target after the question mark, unchanged.
        version: the version of HTTP, ``1.0`` or ``1.1``.
        length: the body's length in bytes, 0 for no body; None if it is chunked.
        begun: whether the response's head has left.
        closes: whether the connection ends after the response.
        head_size: bytes of the request's target and headers, as RFC 9113 §6.5.2 counts them.
    """

    __slots__ = (
        *("_chunks", "_headers", "_held_back", "_request", "_unsent_head", "begun", "closes"),
        *("connection", "head_size", "length", "method", "path", "query", "version"),
    )

    def __init__(self, connection: RequestConnection, request: Http1Request) -> None:
        head = request.head
        self.connection = connection
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.version = head.version
        self.length = head.length
        self.begun = False
        self.closes = not head.keeps
        self.head_size: int | None = head.size
        self._request = request
        self._headers: CIMultiDictProxy[str] | None = None
        #: Whether the client waits for 100 Continue before it sends the body (RFC 9110 §10.1.1).
        self._held_back = self.headers.get("Expect", "").lower() == "100-continue"
        self._chunks = False
        self._unsent_head = b""

    # --- The request -----------------------------------------------------------------------------

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The request's headers, by names in any case."""
        if self._headers is None:
            head = self._request.head
            by_name = head.headers
            if by_name is None:
                by_name = CIMultiDict(head.raw_headers)
            self._headers = CIMultiDictProxy(by_name)
        return self._headers

    @property
    def raw_headers(self) -> Sequence[tuple[str, str]]:
        """The request's headers in order."""
        return self._request.head.raw_headers

    @property
    def left(self) -> bool:
        """Whether the client has left, or was given up."""
        transport = self.connection.transport
        return transport is None or transport.is_closing()

    def taken(self) -> bytes | None:
        """Return received bytes of the body; empty after its end, None if more must come."""
        return self.connection.reader.taken(self._request)

    def taken_whole(self) -> bytes | None:
        """Return the whole body, of which nothing was taken; None if more must come."""
        return self.connection.reader.taken(self._request) if self._request.complete else None

    def read_whole(self) -> Coroutine[Any, Any, bytes]:
        """Wait for the whole of a body with a stated length; nothing of it was taken before.

        Raises:
            BodyBroken: the body is incomplete.
            ClientLeft: the client has left.
        """
        return self.connection.reader.read_whole(self._request)

    def read(self) -> Coroutine[Any, Any, bytes]:
        """Wait for more of the body; the result is empty after its end.

        Raises:
            BodyBroken: the rest is not valid HTTP.
            ClientLeft: the client has left.
        """
        return self.connection.reader.read(self._request)

    def ask_for_body(self) -> None:
        """Send 100 Continue, if the client waits for it."""
        if self._held_back:
            self._held_back = False
            if self.version == "1.1":
                self.connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- The response ----------------------------------------------------------------------------

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Send a whole response; the body is left out in answer to HEAD.

        Raises:
            ValueError: a header has a line break.
        """
        # A 204 has no length (RFC 9110 §8.6).
        framing = "" if status == 204 else f"Content-Length: {len(body)}\r\n"
        head = self._head(status, headers, framing)
        self.begun = True
        if self.method == "HEAD" or status in BODILESS:
            body = b""
        if len(body) <= HEAD_JOINED_UP_TO:
            self.connection.write(head + body)
        else:
            self.connection.write(head)
            self.connection.write(body)

    def refuse(self, status: int, reason: str, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        """Refuse the request; ``reason`` is a line of text without its end."""
        self.respond(status, f"{reason}\n".encode(), {"Content-Type": TEXT, **headers})

    def refuse_unread(self, status: int, reason: str) -> None:
        """Refuse the request, leave its body unread, and end the connection."""
        self.closes = True
        self.refuse(status, reason)

    def begin(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        """Begin a response whose body comes in pieces; the head is sent with the first piece.

        Without a length each piece is a chunk. For an HTTP/1.0 client the body then ends with the
        connection (RFC 9112 §6.3).

        Raises:
            ValueError: a header has a line break.
        """
        framing = ""
        if length is not None:
            framing = f"Content-Length: {length}\r\n"
        elif self.version == "1.1":
            self._chunks, framing = True, CHUNKED
        else:
            self.closes = True
        self._unsent_head = self._head(status, headers, framing)

    async def send(self, piece: bytes) -> None:
        """Send a piece of a body; return when there is room for another.

        Raises:
            ClientLeft: the client has left. The answering task is cancelled too.
        """
        head, self._unsent_head = self._unsent_head, b""
        self.begun = True
        if len(piece) > HEAD_JOINED_UP_TO:  # a long piece is not copied
            before, behind = head, b""
            if self._chunks:
                before, behind = b"%b%x\r\n" % (head, len(piece)), b"\r\n"
            for data in filter(None, (before, piece, behind)):
                self.connection.write(data)
        elif self._chunks and piece:
            self.connection.write(b"%b%x\r\n%b\r\n" % (head, len(piece), piece))
        elif head or piece:
            self.connection.write(head + piece)
        await self.room()

    async def end(self) -> None:
        """End a body sent in pieces.

        Raises:
            ClientLeft: the client has left.
        """
        head, self._unsent_head = self._unsent_head, b""
        self.begun = True
        if last := head + (LAST_CHUNK if self._chunks else b""):
            self.connection.write(last)
        await self.room()

    def room(self) -> Coroutine[Any, Any, None]:
        """Wait until the client has room for more; a client that takes nothing is given up.

        Raises:
            ClientLeft: the client has left. The answering task is cancelled too.
        """
        return self.connection.room()

    def switch(self, headers: Mapping[str, str]) -> None:
        """Send the 101, after which the connection belongs to another protocol."""
        self.connection.write(self._head(101, headers, ""))
        self.begun = self.closes = True

    def _head(self, status: int, headers: Mapping[str, str], framing: str) -> bytes:
        request = self._request
        if request.broken or (self._held_back and not request.complete):
            # The client's next bytes may be a request, and must not be read as that body.
            self.closes = True
        own = f"Server: {SERVER}\r\n{framing}"
        return response_head(
            *(self.version, status, headers, own), keeps=not self.closes, now=time.time()
        )

    # --- The end ---------------------------------------------------------------------------------

    def cut(self) -> None:
        """Abort the connection under an unfinished response: a clean end would look complete."""
        self.closes = True
        self.connection.abort()
