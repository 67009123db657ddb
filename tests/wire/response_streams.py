"""Both ends of a response stream: a container that says what a test says, and clients of each HTTP.

::

    async with AnsweringContainer() as container:
        gateway = await gateway_for(container=container)
        client = await StreamClient.ask(VERSIONS["http2"], gateway, b"prompt")
        invocation = await container.invocation()
        invocation.send(HEAD, chunk(b"Hello"))
        assert await client.part() == b"Hello"
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from tests.wire.chunked_peers import chunk
from tests.wire.event_messages import END, EndOfEvents, EventBuffer, EventMessage
from tests.wire.peers import ENDPOINT, ModelStream, RawContainer, RunningGateway, soon
from tests.wire.plain_requests import Client

PATH = f"/endpoints/{ENDPOINT}/invocations-response-stream"

#: The head of an answer in chunks.
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class AnsweringContainer(RawContainer):
    """A container that answers its pings; what it says to an invocation is the test's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self._pong, **options)

    @staticmethod
    def _pong(request: bytes) -> bytes | None:
        return PONG if request.startswith(b"GET /ping ") else None

    async def invocation(self) -> ModelStream:
        """The next connection that has brought an invocation's head."""
        while (found := await self.stream()).request.startswith(b"GET /ping "):
            pass
        return found


async def body_of(invocation: ModelStream) -> bytes:
    """An invocation's body, as it is on the wire."""
    if invocation.header("transfer-encoding") == "chunked":
        return await soon(invocation.reader.readuntil(LAST_CHUNK), "the end of a body")
    size = int(invocation.header("content-length") or 0)
    return await soon(invocation.reader.readexactly(size), "a body")


async def left(invocation: ModelStream) -> None:
    """Wait until the gateway has broken an invocation off."""
    try:
        while await soon(invocation.reader.read(65_536), "the end of an invocation"):
            pass
    except ConnectionError:
        pass


class StreamClient:
    """One response stream's client, of either version of HTTP."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.events = EventBuffer()
        self.raw: list[bytes] = []

    @classmethod
    async def ask(
        cls,
        form: type[Client],
        gateway: RunningGateway,
        body: bytes = b"",
        more: Iterable[tuple[str, str]] = (),
        path: str = PATH,
        **options: Any,
    ) -> Self:
        """Connect, and send a whole request."""
        client = await form.connect(gateway, **options)
        client.ask(path, body, more, content_type="application/json")
        return cls(client)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the response."""
        return await soon(self.client.head(), "a response's head")

    async def event(self) -> EventMessage | EndOfEvents:
        """The next event; END behind the last, where the response has ended in good order."""
        found = await soon(self.events.read(self._data), "an event")
        assert found is not END or not len(self.events), "the response ended inside an event"
        return found

    async def part(self) -> bytes:
        """The next event's bytes; it must be a part."""
        event = await self.event()
        assert isinstance(event, EventMessage), "the response has ended"
        assert event.headers == PART_HEADERS, event
        return event.payload

    async def parts(self) -> list[bytes]:
        """All parts up to an orderly end."""
        found = []
        while (event := await self.event()) is not END:
            assert isinstance(event, EventMessage)
            assert event.headers == PART_HEADERS, event
            found.append(event.payload)
        return found

    async def exception(self) -> tuple[str, dict[str, str]]:
        """The type and the members of the exception that comes next, and last."""
        event = await self.event()
        assert isinstance(event, EventMessage), "the response has ended"
        assert event.headers[":message-type"] == "exception", event
        assert event.headers[":content-type"] == "application/json"
        assert await self.event() is END, "nothing follows an exception"
        return event.headers[":exception-type"], event.json

    async def _data(self) -> bytes | None:
        piece = await self.client.data()
        if piece is not None:
            self.raw.append(piece)
        return piece


PART_HEADERS = {
    ":message-type": "event",
    ":event-type": "PayloadPart",
    ":content-type": "application/octet-stream",
}


def tokens(count: int = 200) -> list[bytes]:
    """What a language model answers with, a chunk for each."""
    return [f" token{number}".encode() for number in range(count)]


def chunked(pieces: Iterable[bytes]) -> bytes:
    """An answer's body in chunks, to its end."""
    return b"".join([*map(chunk, pieces), LAST_CHUNK])
