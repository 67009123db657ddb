"""partway.gateway.client.http2: how streams begin, and why they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hyperframe.frame import DataFrame

from partway.gateway.client import (
    CompletionState,
    DataType,
    GatewayUnreachable,
    PayloadPart,
    connect,
)
from partway.protocol import limits
from tests.event_factory import part
from tests.gateway.client.http2_server import AtGateway, RawGateway, opened
from tests.gateway.client.peers import all_parts, refused_by
from tests.wire.peers import ENDPOINT, soon


async def answer_with(server: RawGateway, action: Callable[[AtGateway], object]) -> None:
    action(await server.stream())


@pytest.mark.clause("4-1")
@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (403, {"x_amzn_errortype": "AccessDenied"}, b'{"Message":"no"}', ("AccessDenied", "no")),
        (502, {}, b"upstream", ("HTTP error", "upstream")),
        (200, {"content_type": "text/html"}, b"<html>", ("HTTP error", "<html>")),
        (429, {}, b"", ("HTTP error", "")),
        (500, {}, bytes(1000) * 40, ("HTTP error", "\0" * limits.ERROR_BODY_BYTES)),
    ],
)
async def test_refused(status, headers, body, expected):
    def answer(at: AtGateway) -> None:
        at.send(at.head(status, **headers))
        at.data(body, end=True)
        at.rst(0)

    async with RawGateway(grants=False) as server:
        answering = asyncio.create_task(answer_with(server, answer))
        refusal = await refused_by(server.url, transport="http2")
        await answering
    assert (refusal.status, refusal.error, refusal.message) == (status, *expected)


@pytest.mark.parametrize("then", [None, lambda at: at.rst(0), lambda at: at.writer.close()])
async def test_a_refusal_that_is_not_whole(then):
    def answer(at: AtGateway) -> None:
        at.send(at.head(503))
        at.data(b"half")
        if then is not None:
            then(at)

    async with RawGateway(grants=False) as server:
        answering = asyncio.create_task(answer_with(server, answer))
        refusal = await refused_by(server.url, transport="http2", open_timeout=0.3)
        await answering
    assert (refusal.status, refusal.message, refusal.reconnect) == (503, "half", True)


@pytest.mark.parametrize(
    ("answer", "why", "reconnect"),
    [
        (lambda at: None, r"no answer to the request within 0\.3 s", True),
        (lambda at: at.rst(7), "reset the stream with REFUSED_STREAM", True),
        (lambda at: at.goaway(0), "takes no more streams on this connection", True),
        (lambda at: at.writer.close(), "ended before the stream did", True),
        (lambda at: at.send(b"\xff" * 100), "bad HTTP/2", False),
    ],
)
async def test_no_answer_that_is_one(answer, why, reconnect):
    async with RawGateway(grants=False) as server:
        answering = asyncio.create_task(answer_with(server, answer))
        with pytest.raises(GatewayUnreachable, match=why) as caught:
            async with opened(server, open_timeout=0.3):
                pytest.fail("a stream opened")
        await answering
    assert server.url in str(caught.value)
    assert caught.value.reconnect is reconnect


@pytest.mark.parametrize("says", ["auto", "drain", "close", ""])
async def test_what_the_gateway_does_at_the_end_of_input(says):
    async with RawGateway(grants=False) as server:
        opening = asyncio.create_task(soon(opened(server).__aenter__()))
        at_gateway = await server.stream()
        at_gateway.send(at_gateway.head(**({"x_partway_input_end": says} if says else {})))
        stream = await opening
        assert stream.input_end == says
        at_gateway.send(DataFrame(1, b"", flags=["END_STREAM"]))
        await soon(stream.close())


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            "the server speaks HTTP/1.1, not HTTP/2",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the server's first bytes are not HTTP/2"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "the server speaks TLS on this port"),
        (b"", "before the server sent any HTTP/2"),
    ],
)
async def test_a_server_of_something_else(says, why):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(GatewayUnreachable, match=why) as caught:
            async with connect(f"http://127.0.0.1:{port}", ENDPOINT, transport="http2"):
                pytest.fail("a stream opened")
    assert caught.value.reconnect == (not says)


async def test_events_may_come_with_the_head_and_in_pieces():
    async with RawGateway(grants=False) as server:
        opening = asyncio.create_task(soon(opened(server).__aenter__()))
        at_gateway = await server.stream()
        events = part(b"one") + part(b"two", "UTF8", "PARTIAL")
        frames = b"".join(
            DataFrame(1, events[at : at + 1]).serialize() for at in range(len(events))
        )
        end = DataFrame(1, b"", flags=["END_STREAM"]).serialize()
        at_gateway.send(at_gateway.head(103), at_gateway.head() + frames + end)
        stream = await opening
        assert await soon(all_parts(stream)) == [
            PayloadPart(b"one"),
            PayloadPart(b"two", DataType.UTF8, CompletionState.PARTIAL),
        ]
        await soon(stream.close())
