"""Clients that go on while a gateway changes: streams that exchange parts, and requests at a pace.

::

    async with PacedLoad(port) as load:
        await load.open_streams(200)
        ...  # change the gateway
        load.check()
        print(load.figures())

Nothing is asked again after a failure. A client follows what the protocols say about ends alone: it
makes another connection after GOAWAY, and after ``Connection: close``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

import aiohttp
from botocore.eventstream import EventStreamBuffer
from websockets.asyncio.client import ClientConnection, connect

from tests.gateway.workers.lean_http2 import GivenBack, LeanClient, LeanStream, head_of
from tests.wire.event_messages import part_event
from tests.wire.http2_streams import bidirectional_request

ENDPOINT = "echo"
STREAM = f"/endpoints/{ENDPOINT}/invocations-bidirectional-stream"
INVOCATIONS = f"/endpoints/{ENDPOINT}/invocations"

STREAM_HEAD = head_of(bidirectional_request(path=STREAM))
REQUEST_HEAD = head_of(
    bidirectional_request(path=INVOCATIONS, content_type="application/octet-stream")
)

#: Requests per second: one half over HTTP/1.1, one over HTTP/2.
REQUESTS_PER_SECOND = 500

#: Connections that each half keeps, and HTTP/2 connections that share the event streams.
KEPT_CONNECTIONS = 20
KEPT_HTTP2_CONNECTIONS = 4
STREAM_CONNECTIONS = 10

#: Seconds for which a client keeps an HTTP/1.1 connection that it does not use.
KEPT_FOR = 10.0

#: Seconds between two parts of a stream.
PART_PAUSE = 0.5

#: Seconds for a reply, on a machine that does much else.
PATIENCE = 30.0

#: Requests under way at a time; on a machine that has no time for more, the pace is lower.
MAX_UNDER_WAY = 512


class OpenStream(Protocol):
    """A stream of an echo container, by whichever client."""

    async def echo(self, text: bytes) -> bytes:
        """Send a part; return the payload of the next one that comes."""

    async def finish(self) -> None:
        """End the stream in order."""


class WebSocketStream:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def echo(self, text: bytes) -> bytes:
        await self._connection.send(text)
        received = await self._connection.recv()
        assert isinstance(received, bytes)
        return received

    async def finish(self) -> None:
        await self._connection.close()
        assert self._connection.close_code == 1000, self._connection.close_reason


class EventStream:
    """Bare events on an HTTP/2 stream, which botocore reads."""

    def __init__(self, stream: LeanStream) -> None:
        self._stream = stream
        self._events = EventStreamBuffer()

    async def echo(self, text: bytes) -> bytes:
        self._stream.send(part_event(text, "BINARY", "COMPLETE"))
        while (event := next(self._events, None)) is None:
            self._events.add_data(await self._stream.read())
        payload: bytes = event.payload
        return payload

    async def finish(self) -> None:
        self._stream.send(b"", end=True)
        assert await self._stream.rest() == b""


class Http2Pool:
    """HTTP/2 connections in turn; one that says GOAWAY takes no further request."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._turns = itertools.cycle(range(size))
        self._places: list[LeanClient | None] = [None] * size
        self._locks = [asyncio.Lock() for _ in range(size)]
        self._all: list[LeanClient] = []
        #: Connections that were made; requests that GOAWAY gave back unanswered.
        self.made = 0
        self.given_back = 0

    async def open(self) -> LeanClient:
        """Return a connection that takes requests."""
        place = next(self._turns)
        async with self._locks[place]:
            client = self._places[place]
            if client is None or client.leaving:
                client = self._places[place] = await LeanClient.connect(self._port)
                self._all.append(client)
                self.made += 1
        return client

    async def ask(self, body: bytes) -> bytes:
        while True:
            stream = (await self.open()).request(REQUEST_HEAD)
            stream.send(body, end=True)
            try:
                status, answer = await stream.head(), await stream.rest()
            except GivenBack:
                self.given_back += 1
                continue
            assert status == 200, (status, answer)
            return answer

    def close_idle(self) -> None:
        """Close the connections that were told to go, and whose streams are over."""
        for client in [each for each in self._all if each.leaving and not each.open]:
            client.close()
            self._all.remove(client)

    def close(self) -> None:
        for client in self._all:
            client.close()


class PacedLoad:
    """Attributes:
    cut: what has gone wrong with streams.
    failed: what has gone wrong with requests.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._exchanging: list[tuple[OpenStream, asyncio.Task[None], asyncio.Event]] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._http2 = Http2Pool(port, KEPT_HTTP2_CONNECTIONS)
        self._events = Http2Pool(port, STREAM_CONNECTIONS)
        self.cut: list[str] = []
        self.failed: list[str] = []
        self.late: dict[str, list[float]] = {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=KEPT_CONNECTIONS, keepalive_timeout=KEPT_FOR)
        self._session = aiohttp.ClientSession(
            f"http://127.0.0.1:{self._port}",
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=PATIENCE),
        )
        self._pace = asyncio.create_task(self._ask_on())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pace.cancel()
        streams = [task for _, task, _ in self._exchanging]
        for task in (*streams, *self._asking):
            task.cancel()
        await asyncio.wait([self._pace, *streams, *self._asking])
        await self._session.close()
        for pool in (self._http2, self._events):
            pool.close()

    # --- Streams ---------------------------------------------------------------------------------

    async def open_streams(self, number: int) -> None:
        """Open streams that exchange parts from now on: half of them WebSockets, half events."""
        for each in range(number):
            async with asyncio.timeout(PATIENCE):
                made = await (self._event_stream() if each % 2 else self._websocket())
            await self.add(made)

    async def add(self, stream: OpenStream) -> None:
        over = asyncio.Event()
        task = asyncio.create_task(self._exchange(stream, over))
        self._exchanging.append((stream, task, over))

    async def finish_streams(self) -> int:
        """End all streams that are open, in order; return their number."""
        streams, self._exchanging = self._exchanging, []
        for _, _, over in streams:
            over.set()
        await asyncio.gather(*(task for _, task, _ in streams))
        self._http2.close_idle()
        self._events.close_idle()
        return len(streams)

    async def _websocket(self) -> OpenStream:
        where = f"ws://127.0.0.1:{self._port}{STREAM}"
        made = connect(where, subprotocols=["payloadpart.v1.raw"], compression=None)
        return WebSocketStream(await made)

    async def _event_stream(self) -> OpenStream:
        stream = (await self._events.open()).request(STREAM_HEAD)
        assert await stream.head() == 200
        return EventStream(stream)

    async def _exchange(self, stream: OpenStream, over: asyncio.Event) -> None:
        name = type(stream).__name__
        try:
            for number in itertools.count():
                text = b"%s %d" % (name.encode(), number)
                async with asyncio.timeout(PATIENCE):
                    answer = await self._timed(name, lambda text=text: stream.echo(text))
                assert answer == text, answer
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), random.uniform(0.5, 1.5) * PART_PAUSE)
                    break
            async with asyncio.timeout(PATIENCE):
                await stream.finish()
        except Exception as error:  # counted, with its reason
            self.cut.append(f"{name}: {error!r}")

    # --- Requests --------------------------------------------------------------------------------

    async def _ask_on(self) -> None:
        """Begin each request at its time, whatever has become of the others."""
        now = asyncio.get_running_loop().time
        began = now()
        for number in itertools.count():
            due = began + number / REQUESTS_PER_SECOND
            await asyncio.sleep(max(0.0, due - now()))
            if len(self._asking) >= MAX_UNDER_WAY:
                await asyncio.wait(self._asking, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._ask(number, due))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, number: int, due: float) -> None:
        name, ask = ("HTTP/2", self._http2.ask) if number % 2 else ("HTTP/1.1", self._ask_http1)
        text = b"request %d" % number
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._timed(name, lambda: ask(text), due)
            assert answer == text, answer
        except Exception as error:  # counted, with its reason
            self.failed.append(f"{name}: {error!r}")

    async def _ask_http1(self, body: bytes) -> bytes:
        async with self._session.post(INVOCATIONS, data=body) as response:
            answer = await response.read()
            assert response.status == 200, (response.status, answer)
            return answer

    # --- Figures ---------------------------------------------------------------------------------

    async def _timed(
        self, name: str, work: Callable[[], Awaitable[Any]], began: float | None = None
    ) -> Any:
        now = asyncio.get_running_loop().time
        began = now() if began is None else began
        result = await work()
        self.late.setdefault(name, []).append(now() - began)
        return result

    def figures(self) -> str:
        """Say how long replies have taken since the last call: by kind, how many and how long."""
        late, self.late = self.late, {}
        return "; ".join(
            f"{name}: {len(each)}, p50 {_quantile(each, 0.5):.0f} ms, "
            f"p99 {_quantile(each, 0.99):.0f} ms, longest {_quantile(each, 1.0):.0f} ms"
            for name, each in sorted(late.items())
        )

    def check(self) -> None:
        """Fail if a stream was cut or a request has failed."""
        assert not self._pace.done(), "it asks on"
        assert (self.cut, self.failed) == ([], [])

    @property
    def given_back(self) -> int:
        """Requests that GOAWAY gave back unanswered, and that went out again."""
        return self._http2.given_back

    @property
    def connections_made(self) -> int:
        """HTTP/2 connections for requests."""
        return self._http2.made


def _quantile(values: list[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]
