"""What tests of the client share: servers, and ways to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from partway.gateway.client import ClientStream, PayloadPart, StreamRefused, connect
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.wire.peers import ENDPOINT, MSGPACK, RawContainer, RunningGateway, soon, switching


def url_of(server: RunningGateway | RawContainer) -> str:
    return f"http://127.0.0.1:{server.port}"


#: For streams to the container below whose client has read all its echoes before it ends its input:
#: the container does not say that it finishes first, so its silence is waited for (clause 1.5-12).
ALL_IS_SAID = StreamPolicy(drain_timeout=0.05)


@asynccontextmanager
async def echo_container() -> AsyncIterator[int]:
    """Gives back each message; another implementation of RFC 6455 than ours."""

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async with serve(echo, "127.0.0.1", 0, max_size=None, compression=None) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def replying(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[RawContainer]:
    """Something at a gateway's place that answers an upgrade with these bytes."""
    async with RawContainer(answer) as server:
        yield server


def grant(request: bytes) -> bytes:
    """What a gateway says to our client's upgrade."""
    return switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", "x-amzn-requestid: abc")


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something of which nobody tells."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.002)

    await soon(poll(), what)


async def settled(value: Callable[[], int], quiet: float = 0.3) -> int:
    """The value once it has not changed for a while."""
    last, since = value(), asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - since < quiet:
        await asyncio.sleep(0.01)
        if value() != last:
            last, since = value(), asyncio.get_running_loop().time()
    return last


async def all_parts(stream: ClientStream) -> list[PayloadPart]:
    return [part async for part in stream]


async def iterate(stream: ClientStream, received: list[PayloadPart]) -> None:
    async for part in stream:
        received.append(part)


def http(status: str, body: bytes, content_type: str = "text/plain") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def refused_by(url: str, **arguments: Any) -> StreamRefused:
    with pytest.raises(StreamRefused) as caught:
        async with connect(url, arguments.pop("endpoint", ENDPOINT), **arguments):
            pytest.fail("a stream opened")
    return caught.value
