"""A client of HTTP/1.1 that sends chunks and reads chunks at the same time (section 2.7).

::

    client = await RawChunkedClient.connect(port)
    client.request(bidirectional_request())
    assert (await client.head())[0] == 200
    client.send_chunk(part_event(b"hi", "UTF8"))
    assert (await client.event()).payload == b"hi"
    client.end_input()
    assert await client.ended() == ("LAST_CHUNK", "EOF")
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from tests.wire.event_messages import END, EndOfEvents, EventBuffer, EventMessage
from tests.wire.peers import RawClient, soon


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """One chunk; an empty one would be the last.

    Args:
        data: its bytes.
        extension: behind its size, with the semicolon.
    """
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def chunked_head(
    headers: Iterable[tuple[str, str]], version: str = "1.1", framing: str = "chunked"
) -> bytes:
    """A request's head from HTTP/2's headers, pseudo-headers included.

    Args:
        headers: as of :func:`tests.wire.http2_streams.bidirectional_request`.
        version: of HTTP.
        framing: the value of Transfer-Encoding.
    """
    fields = list(headers)
    pseudo = {name: value for name, value in fields if name.startswith(":")}
    lines = [f"{pseudo[':method']} {pseudo[':path']} HTTP/{version}"]
    if ":authority" in pseudo:
        lines.append(f"Host: {pseudo[':authority']}")
    lines.append(f"Transfer-Encoding: {framing}")
    lines += [f"{name}: {value}" for name, value in fields if not name.startswith(":")]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class RawChunkedClient(RawClient):
    """A client on a socket, one request at a time.

    Attributes:
        chunks: every chunk of the response so far, without its framing.
        trailers: what came between the last chunk and the empty line.
        ends: what ended the response, in order: ``LAST_CHUNK``, then ``EOF``; or, where the last
            chunk is missing, ``EOF``, ``CUT`` (inside a chunk) or ``ABORT``.
        input_ended: the last chunk has been sent.
        events: puts the response's messages together.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.chunks: list[bytes] = []
        self.trailers = b""
        self.ends: list[str] = []
        self.input_ended = False
        self.events = EventBuffer()
        self._head: tuple[int, dict[str, str]] | None = None
        self._size: int | None = None

    # --- Out -------------------------------------------------------------------------------------

    def request(self, headers: Iterable[tuple[str, str]]) -> None:
        """Send a request's head."""
        self.send(chunked_head(headers))

    def send_chunk(self, *pieces: bytes, extension: bytes = b"") -> None:
        """Send bytes as one chunk; none at all if there are none."""
        if data := b"".join(pieces):
            self.send(chunk(data, extension))

    def end_input(self, trailers: bytes = b"") -> None:
        """The last chunk, with trailer lines as they are."""
        self.input_ended = True
        self.send(b"0\r\n", trailers, b"\r\n")

    # --- In --------------------------------------------------------------------------------------

    async def head(self) -> tuple[int, dict[str, str]]:  # type: ignore[override]
        """Status and headers of a chunked response, 1xx not counted.

        Raises:
            EOFError: the connection ended first.
        """
        while self._head is None:
            try:
                status_line, *lines = (await self.read_head()).decode("latin-1").split("\r\n")[:-2]
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise EOFError(f"no head: {error}") from None
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            status = int(status_line.split(" ")[1])
            if status >= 200:
                assert headers.get("transfer-encoding") == "chunked", headers
                assert "content-length" not in headers, headers
                self._head = status, headers
        return self._head

    async def data(self) -> bytes | None:
        """The next chunk, or None behind the last.

        Raises:
            EOFError: there was no last one.
        """
        await self.head()
        if not self.ends:
            found = await soon(
                self._next_chunk(), lambda: f"a chunk; seen so far: {self.chunks[-3:]}"
            )
            if found is not None:
                self.chunks.append(found)
                return found
        if self.ends[0] != "LAST_CHUNK":
            raise EOFError(f"no last chunk: {self.ends}")
        return None

    async def event(self) -> EventMessage | EndOfEvents:
        """The next message of the response, or END behind the last one.

        Raises:
            EOFError: the end is not in order, or inside a message.
        """
        found = await self.events.read(self.data)
        if found is END and len(self.events):
            raise EOFError(f"{len(self.events)} bytes of a message, then {self.ends}")
        return found

    async def body(self) -> bytes:
        """The rest of the response.

        Raises:
            EOFError: there was no last chunk.
        """
        pieces = []
        while (data := await self.data()) is not None:
            pieces.append(data)
        return b"".join(pieces)

    async def ended(self) -> tuple[str, ...]:
        """How the response ended, once it has; what is unread of it is read.

        Behind the last chunk it waits for the connection's end where the head announces it.
        """
        _, headers = await self.head()
        while not self.ends:
            await soon(self._next_chunk(), "the end of the response")
        closes = headers.get("connection", "").lower() == "close"
        if self.ends == ["LAST_CHUNK"] and closes:
            behind = await self.eof()
            assert behind == b"", behind
            self.ends.append("EOF")
        return tuple(self.ends)

    async def _next_chunk(self) -> bytes | None:
        """A chunk, or None and an entry in ``ends``; cancelled, it loses nothing."""
        try:
            if self._size is None:
                line = await self.reader.readuntil(b"\r\n")
                self._size = int(line.split(b";")[0], 16)
            if self._size > 0:
                data = await self.reader.readexactly(self._size + 2)
                assert data.endswith(b"\r\n"), data[-9:]
                self._size = None
                return data[:-2]
            while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
                self.trailers += line
            self.ends.append("LAST_CHUNK")
        except asyncio.IncompleteReadError as error:
            self.ends.append("CUT" if error.partial or self._size is not None else "EOF")
        except ConnectionError:
            self.ends.append("ABORT")
        return None
