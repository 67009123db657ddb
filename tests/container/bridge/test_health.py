"""A bridge's look at the upstream's health, at upstreams that answer wrong or never to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from partway.container.bridge.health import is_healthy
from partway.container.bridge.settings import HTTP, HealthCheck, ServerUrl
from partway.container.errors import ModelError
from partway.container.threads import in_thread
from tests.wire.peers import soon

pytestmark = pytest.mark.usefixtures("no_leaks")

Upstream = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@asynccontextmanager
async def listening(answer: Upstream) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(reader, writer)
        except ConnectionError:
            pass  # the bridge has left
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def saying(data: bytes) -> Upstream:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await reader.read()  # until the bridge leaves

    return answer


def repeating(data: bytes) -> Upstream:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0)

    return answer


async def asked(port: int, scheme: str = "http", timeout: float = 30.0) -> bool:
    """Ask by the bridge's own way; most upstreams here must be judged long before ``timeout``."""
    url = ServerUrl.parse(f"{scheme}://127.0.0.1:{port}/ready?deep=1", "--health", HTTP)
    check = HealthCheck(url, by_success=True)
    return await soon(in_thread(is_healthy, check, timeout, name="health"), "the answer")


@pytest.mark.parametrize(
    "data", [OK, EARLY * 16 + OK, OK.replace(b"1.1", b"1.0"), b"HTTP/1.1 204 No\r\n\r\n"]
)
async def test_the_head_is_enough(data: bytes) -> None:
    async with listening(saying(data)) as port:
        assert await asked(port)


async def test_the_bytes_of_a_request() -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await asked(port)
    lines = f"GET /ready?deep=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    assert heard == [lines.encode()]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (repeating(b"HTTP/1.1 100 Continue\r\n\r\n"), "more than 16 interim responses came"),
        (repeating(b"HTTP/1.1 102 Processing\r\n\r\n"), "more than 16 interim responses came"),
        (repeating(EARLY), "more than 16 interim responses came"),
        (saying(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "Received server"),
        (saying(b"SSH-2.0-x\r\n\r\n"), "illegal status line"),
        (saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (20 << 10)), "Receive buffer too long"),
    ],
)
async def test_an_answer_that_is_not_http(answer: Upstream, why: str) -> None:
    async with listening(answer) as port:
        with pytest.raises(ModelError, match=rf"/ready is not HTTP/1\.1: {why}"):
            await asked(port)


async def test_a_connection_without_an_answer() -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(leave) as port:
        with pytest.raises(
            ModelError, match=r"/ready is not HTTP/1\.1: the connection ended before it$"
        ):
            await asked(port)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_answer_that_drips_is_waited_for_once(scheme: str) -> None:
    """Each byte comes in time, and the whole does not."""
    left = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"\x16\x03\x03\x40\x00\x02" if scheme == "https" else b"HTTP/1.1 200 OK\r\nX: "
        writer.write(head)
        try:
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass
        finally:
            writer.close()
            left.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ModelError, match=r"/ready: no answer within 0\.3 s$"):
            await asked(port, scheme, timeout=0.3)
        await soon(left.wait(), "the end of the connection")
