"""The gateway acknowledges at once what it reads, so that a peer with Nagle's algorithm goes on.

Each test sends something small that is not answered, and looks into the kernel's ``TCP_INFO`` of
the sender: how soon is nothing unacknowledged? A delayed acknowledgement takes 40 ms at least, each
time. One attempt in less than that shows that it was not delayed, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.frame_factory import BINARY, frame
from tests.wire.dialects import BIN, PARTIAL, Part
from tests.wire.peers import RAW, ModelStream, Wire, soon
from tests.wire.response_streams import AnsweringContainer, body_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is Linux's")

#: Seconds, less than the 0.04 of Linux's TCP_DELACK_MIN.
DELAYED = 0.03
#: The first read of 16 segments is acknowledged at once in any case (tcp_enter_quickack_mode).
WARM = 20
#: Chances that a busy machine gets.
ATTEMPTS = 40

#: Of struct tcp_info, tcpi_unacked: segments sent and not acknowledged.
INFO_SIZE, UNACKED = 104, slice(24, 28)


def unacknowledged(wire: Wire) -> int:
    """Segments that a socket has sent, and its peer has not acknowledged."""
    sock = wire.writer.get_extra_info("socket")
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE)
    return int.from_bytes(info[UNACKED], sys.byteorder)


async def until_acknowledged(wire: Wire) -> None:
    """Wait as a kernel with Nagle's algorithm does before it sends the next small segment."""

    async def look() -> None:
        while unacknowledged(wire):  # noqa: ASYNC110 (the kernel sets no event)
            await asyncio.sleep(0.001)

    await soon(look(), "an acknowledgement")


async def shortest(
    answered: Callable[[], Awaitable[object]],
    unanswered: Callable[[], Awaitable[object]],
    wire: Wire,
) -> float:
    """The shortest time until something unanswered is acknowledged.

    Args:
        answered: sends something and awaits the answer, so that the kernel hopes for another one.
        unanswered: sends something, and waits until the gateway has read it.
        wire: what both send by.
    """
    for _ in range(WARM):
        await answered()
    times = []
    for _ in range(ATTEMPTS):
        await answered()
        began = time.monotonic()
        await unanswered()
        await until_acknowledged(wire)
        times.append(time.monotonic() - began)
        if times[-1] < DELAYED:
            break
    return min(times)


async def test_parts_of_a_client(gateway_for, dialect):
    """Over each wire: a part's fragment, to which the container says nothing."""
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    wire = getattr(client, "wire", client)

    async def answered() -> None:
        client.send(dialect.part(Part(b"whole", BIN)))
        await model.frame()
        model.send(frame(BINARY, b"answer"))
        await dialect.read(client)

    async def unanswered() -> None:
        client.send(dialect.part(Part(b"begun", BIN, PARTIAL)))
        await model.frame()
        await until_acknowledged(wire)
        client.send(dialect.part(Part(b", ended", BIN)))
        await model.frame()

    assert await shortest(answered, unanswered, wire) < DELAYED


async def test_frames_of_a_container(gateway_for):
    """A model speaks unasked, and only its client hears of it."""
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)

    async def answered() -> None:
        client.send_frame(BINARY, b"question")
        await model.frame()
        model.send(frame(BINARY, b"answer"))
        await client.frame()
        client.send_frame(BINARY, b"thanks")
        await model.frame()

    async def unanswered() -> None:
        model.send(frame(BINARY, b"token"))
        await client.frame()

    assert await shortest(answered, unanswered, model) < DELAYED


async def test_the_head_of_a_request_whose_body_follows(gateway_for):
    """A client that writes head and body by two calls, on a connection that it has used."""
    gateway = await gateway_for()
    client = await gateway.connect()

    async def answered() -> None:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.response()).status == 200

    head = b"POST /endpoints/none/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"

    async def unanswered() -> None:
        client.send(head)
        await until_acknowledged(client)
        client.send(b"\r\n")
        await until_acknowledged(client)
        client.send(b"{}")
        await client.response()

    assert await shortest(answered, unanswered, client) < DELAYED


async def test_the_head_of_an_answer_whose_body_follows(gateway_for):
    """A container that writes head and body by two calls, on a connection that is kept."""
    async with AnsweringContainer() as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        invocation: ModelStream | None = None

        async def asked() -> ModelStream:
            client.send(
                b"POST /endpoints/model/invocations HTTP/1.1\r\nHost: a\r\n"
                b"Content-Length: 2\r\n\r\n{}"
            )
            if invocation is None:
                return await container.invocation()
            invocation.request = await invocation.read_head()
            return invocation

        async def answered() -> None:
            nonlocal invocation
            invocation = await asked()
            await body_of(invocation)
            invocation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            assert (await client.response()).body == b"{}"

        async def unanswered() -> None:
            assert invocation is not None
            await asked()
            await body_of(invocation)
            invocation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            await until_acknowledged(invocation)
            invocation.send(b"{}")
            assert (await client.response()).body == b"{}"

        await answered()
        assert invocation is not None
        assert await shortest(answered, unanswered, invocation) < DELAYED
