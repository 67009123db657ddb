"""Event streams as a client speaks them, over HTTP/2 and over HTTP/1.1 (sections 2.3, 2.7).

Both are dialects like those of :mod:`tests.wire.dialects`, so that one test serves them all; an end
that they have in common with a WebSocket is told with that end's Close. Their clients have what
such a test asks of a :class:`~tests.wire.peers.RawClient`: ``send``, ``flush``, ``end``, ``abort``,
``reset``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

from tests.event_factory import signed
from tests.wire.chunked_peers import RawChunkedClient
from tests.wire.dialects import CLEAN, End, EnvelopeDialect, Part
from tests.wire.event_messages import (
    END,
    EndOfEvents,
    EventMessage,
    Signer,
    event_of,
)
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import (
    EVENT_STREAM,
    Headers,
    RawHttp2Stream,
    bidirectional_request,
)
from tests.wire.peers import STREAM_PATH, RawClient

# --- Clients -------------------------------------------------------------------------------------


class EventClient:
    """One stream on a connection of its own; what its two kinds share."""

    #: Status and headers of the response.
    head: tuple[int, dict[str, str]]
    #: Whichever carries the stream.
    stream: RawHttp2Stream | RawChunkedClient
    wire: RawClient

    #: Makes what ``__init__`` takes.
    connect: Callable[..., Awaitable[Any]]

    def __init__(self, client: Any, headers: Headers) -> None:
        raise NotImplementedError

    @classmethod
    async def open(
        cls,
        port: int,
        path: str = STREAM_PATH,
        *,
        receive_buffer: int | None = None,
        sign: Callable[[Headers], Headers] = list,
    ) -> Self:
        """Ask for a stream that will be granted.

        Args:
            port: of this machine.
            path: path and query.
            receive_buffer: SO_RCVBUF.
            sign: makes the request's headers what is sent, as :meth:`EventSigning.request` does.
        """
        client = await cls.connect(port, receive_buffer=receive_buffer)
        try:
            self = cls(client, sign(bidirectional_request(path=path)))
            self.head = status, headers = await self.stream.head()
            assert (status, headers.get("content-type")) == (200, EVENT_STREAM), self.head
        except BaseException:
            client.abort()
            raise
        return self

    @property
    def input_ended(self) -> bool:
        """The end of input is said in the transport's words, not by an empty message alone."""
        return self.stream.input_ended

    def send(self, *pieces: bytes) -> None:
        raise NotImplementedError

    def end_input(self) -> None:
        """END_STREAM, or the last chunk."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Wait until the socket has nearly everything that may be sent now."""
        await self.wire.flush()

    def end(self) -> None:
        """FIN of the connection in mid-stream: a cut."""
        self.wire.end()

    def abort(self) -> None:
        """Drop the connection; unsent bytes are lost."""
        self.wire.abort()

    def reset(self) -> None:
        """Drop the connection with RST."""
        self.wire.reset()

    async def event(self) -> EventMessage | EndOfEvents:
        """The next message of the response, or END."""
        return await self.stream.event()

    async def ended(self) -> tuple[str, ...]:
        """How the response ended; see the stream's ``ends``."""
        return await self.stream.ended()

    async def leave(self) -> None:
        """Go, once the response has ended and nothing has come behind it."""
        await self.ended()
        self.abort()


class Http2EventClient(EventClient):
    """A stream of HTTP/2, read in the background.

    Its credit goes back only as events are read, so a test that does not read holds it back.
    """

    stream: RawHttp2Stream

    connect = RawHttp2Client.connect

    def __init__(self, client: RawHttp2Client, headers: Headers) -> None:
        client.start_reading()
        self.client = client
        self.wire = client.wire
        self.stream = client.request(headers)

    def send(self, *pieces: bytes) -> None:
        self.stream.send(*pieces)

    def end_input(self) -> None:
        self.stream.end()

    def abort(self) -> None:
        self.client.abort()

    async def caught_up(self) -> None:
        """Wait until the gateway has dealt with what was sent so far."""
        await self.client.settled()


class Http1EventClient(EventClient):
    """A request of HTTP/1.1; each ``send`` makes one chunk."""

    stream: RawChunkedClient

    connect = RawChunkedClient.connect

    def __init__(self, client: RawChunkedClient, headers: Headers) -> None:
        client.request(headers)
        self.stream = self.wire = client

    def send(self, *pieces: bytes) -> None:
        self.stream.send_chunk(*pieces)

    def end_input(self) -> None:
        self.stream.end_input()

    async def caught_up(self) -> None:
        """Wait until the gateway, which runs in this loop, has dealt with what was sent so far.

        HTTP/1.1 has no ping: what is sent is there after a few of the loop's turns.
        """
        await self.flush()
        for _ in range(10):
            await asyncio.sleep(0.002)


# --- Dialects ------------------------------------------------------------------------------------


class EventStreamDialect(EnvelopeDialect):
    """Events in messages of their own (clause 2.3-1).

    Args:
        signed_by: wraps each event, as :meth:`EventSigning.event` does; without it events are bare
            and only the end of input, an empty message, is a signed one, with no valid signature.
    """

    client: type[Http2EventClient | Http1EventClient]

    def __init__(self, signed_by: Signer | None = None) -> None:
        super().__init__()
        self._signed_by = signed_by

    def event(self, event: dict[str, Any]) -> bytes:
        ((name, members),) = event.items()
        if name == "InputEnd":
            return self._signed_by(b"") if self._signed_by else signed(b"")
        payload = members.get("Bytes", b"")
        strings = {key: value for key, value in members.items() if key != "Bytes"}
        bare = event_of(name, strings, payload)
        return self._signed_by(bare) if self._signed_by else bare

    async def read_event(self, client: EventClient) -> dict[str, Any]:  # type: ignore[override]
        found = await client.event()
        assert isinstance(found, EventMessage), f"no event but the end: {await client.ended()}"
        return as_event(found)

    async def read(self, client: EventClient) -> Part | End:  # type: ignore[override]
        found = await client.event()
        if not isinstance(found, EventMessage):
            self.assert_orderly(await client.ended(), client)
            return CLEAN
        event = as_event(found)
        if "PayloadPart" in event:
            members = event["PayloadPart"]
            return Part(members["Bytes"], members["DataType"], members["CompletionState"])
        behind = await client.event()
        assert behind is END, behind
        self.assert_orderly(await client.ended(), client)
        return End(event, 4424 if "ModelStreamError" in event else 4500)

    def assert_orderly(self, ends: tuple[str, ...], client: EventClient) -> None:
        """This is how a response ends, after an error too."""
        raise NotImplementedError


class Http2Dialect(EventStreamDialect):
    name = "http2"
    client = Http2EventClient

    def assert_orderly(self, ends: tuple[str, ...], client: EventClient) -> None:
        # Clause 2.3-6: a client that has not ended its side is told that nobody listens. That the
        # connection takes no further streams is nothing to this one.
        told = () if client.input_ended else ("RST_STREAM(NO_ERROR)",)
        own = tuple(end for end in ends if end != "GOAWAY(NO_ERROR)")
        assert own == ("END_STREAM", *told), ends


class Http1Dialect(EventStreamDialect):
    """HTTP/1.1 with chunks both ways."""

    name = "http1"
    client = Http1EventClient

    def assert_orderly(self, ends: tuple[str, ...], client: EventClient) -> None:
        # Clause 2.7-1: the connection ends too, unless the request is over and it could go on.
        assert ends == ("LAST_CHUNK", "EOF") or (ends == ("LAST_CHUNK",) and client.input_ended)


def as_event(found: EventMessage) -> dict[str, Any]:
    """A response's message as the event that it is, every header accounted for (2.3-3 to 2.3-5)."""
    headers = dict(found.headers)
    match headers.pop(":message-type"), headers:
        case "event", {":event-type": "PayloadPart", ":content-type": "application/octet-stream"}:
            members = {name: headers[name] for name in ("DataType", "CompletionState")}
            assert len(headers) == 4, headers
            return {"PayloadPart": {"Bytes": found.payload, **members}}
        case "exception", {":exception-type": str(name), ":content-type": "application/json"}:
            assert len(headers) == 2, headers
            assert sorted(found.json) == ERRORS[name], found
            return {name: found.json}
    raise AssertionError(f"no event of a response: {found}")


#: Members of each error.
ERRORS = {"ModelStreamError": ["ErrorCode", "Message"], "InternalStreamFailure": ["Message"]}
EVENT_STREAMS = {dialect.name: dialect for dialect in (Http2Dialect, Http1Dialect)}
EVENT_CLIENTS = {name: dialect.client.open for name, dialect in EVENT_STREAMS.items()}
