"""partway.gateway.aiohttp_app.client_connection: clients that take nothing; what is aiohttp's."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from partway.protocol.limits import MIB
from tests.gateway.aiohttp_app.served import PREFIX
from tests.gateway.containers.containers import ScriptedContainer
from tests.wire.peers import ENDPOINT, eventually

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INVOKE = f"{PREFIX}/endpoints/{ENDPOINT}/invocations"
ASK = f"POST {INVOKE} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".encode()

#: More than the buffers of both sockets.
LONG = 20 * MIB


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("partway.gateway.aiohttp_app.client_connection.RESPONSE_TAKEN_TIMEOUT", 0.2)


def container_of(framing: bytes, piece: bytes) -> ScriptedContainer:
    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\n", framing, b"\r\n\r\n")
        while True:
            call.say(piece)
            await call.writer.drain()

    return ScriptedContainer(script)


@pytest.mark.parametrize(
    ("framing", "piece"),
    [
        pytest.param(b"Content-Length: %d" % LONG, b"x" * LONG, id="stated"),
        pytest.param(
            b"Transfer-Encoding: chunked", b"10000\r\n%b\r\n" % (b"x" * 65_536), id="chunks"
        ),
    ],
)
async def test_a_client_that_takes_nothing_is_given_up(application_for, impatient, framing, piece):
    async with container_of(framing, piece) as container:
        served = await application_for(container_port=container.port)
        client = await served.wire.connect(receive_buffer=4096)
        client.writer.transport.pause_reading()
        client.send(ASK)
        await eventually(lambda: served.runner.server.requests_count)
        await eventually(lambda: not served.runner.server.connections)


async def test_a_whole_answer_that_is_not_taken_is_given_up(application_for, impatient):
    served = await application_for()
    served.gateway.status._page, served.gateway.status._page_made_at = b"x" * LONG, float("inf")
    client = await served.wire.connect(receive_buffer=4096)
    client.writer.transport.pause_reading()
    client.send(f"GET {PREFIX}/metrics HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    await eventually(lambda: served.runner.server.requests_count)
    await eventually(lambda: not served.runner.server.connections)


async def test_behind_the_gateways_answer_the_connection_is_aiohttps_alone(
    application_for, impatient
):
    """An answer of the application's own is waited for as long as the application likes."""
    going_on = asyncio.Event()

    async def own(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(LONG // 65_536):
            await response.write(b"x" * 65_536)
        return response

    app = web.Application()
    app.router.add_get("/own", own)
    served = await application_for(app)
    client = await served.wire.connect(receive_buffer=4096)
    client.send(f"GET {PREFIX}/healthz HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (await client.response()).status == 200
    client.writer.transport.pause_reading()
    client.send(b"GET /own HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    await eventually(lambda: served.runner.server.requests_count == 2)
    asyncio.get_running_loop().call_later(0.6, going_on.set)  # three times what a client has
    await going_on.wait()
    client.writer.transport.resume_reading()
    assert len(await client.eof()) > LONG
