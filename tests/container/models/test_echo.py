"""echo, byte for byte."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from websockets.asyncio.client import connect

from tests.container.wire import STREAM, raw_client, raw_stream, serving
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, frame

pytestmark = pytest.mark.usefixtures("no_leaks")

FRAMES = [
    pytest.param([(TEXT, b"whole", True)], id="text"),
    pytest.param([(BINARY, b"\x00\xff", True)], id="binary"),
    pytest.param([(TEXT, b"", True), (BINARY, b"", True)], id="empty"),
    pytest.param(
        [(TEXT, b"a", False), (CONTINUATION, b"b", False), (CONTINUATION, b"c", True)],
        id="fragments",
    ),
    pytest.param(
        [(BINARY, b"", False), (CONTINUATION, b"", False), (CONTINUATION, b"", True)],
        id="empty fragments",
    ),
    pytest.param(
        [(TEXT, b"\xe2\x82", False), (CONTINUATION, b"\xac", True)], id="a split code point"
    ),
    pytest.param([(BINARY, b"x" * size, True) for size in (125, 126, 65535, 65536)], id="lengths"),
    pytest.param(
        [(BINARY, b"x" * 70_000, False), (CONTINUATION, b"y" * 300_000, True)], id="long fragments"
    ),
]


@pytest.mark.parametrize("frames", FRAMES)
async def test_each_frame_comes_back_as_it_came(frames: list[tuple[int, bytes, bool]]) -> None:
    async with serving() as (_, port), raw_stream(port) as client:
        for opcode, payload, fin in frames:
            client.send_frame(opcode, payload, fin=fin)
        assert await client.frames(len(frames)) == frames


async def test_a_message_that_comes_byte_by_byte() -> None:
    data = frame(TEXT, "été".encode(), fin=False, mask=KEY) + frame(CONTINUATION, b"", mask=KEY)
    async with serving() as (_, port), raw_stream(port) as client:
        for byte in data:
            client.send(bytes((byte,)))
            await asyncio.sleep(0)  # the server's turn
        assert await client.frames(2) == [
            (TEXT, "été".encode(), False),
            (CONTINUATION, b"", True),
        ]


@pytest.mark.clause("1.1-4")
async def test_a_ping_inside_a_fragmented_message_is_answered() -> None:
    async with serving() as (_, port), raw_stream(port) as client:
        client.send_frame(TEXT, b"he", fin=False)
        assert await client.frames(1) == [(TEXT, b"he", False)]
        client.send_frame(PING, b"12345678")
        assert await client.frames(1) == [(PONG, b"12345678", True)]
        client.send_frame(CONTINUATION, b"llo")
        assert await client.frames(1) == [(CONTINUATION, b"llo", True)]


async def test_a_library_s_client() -> None:
    async with (
        serving() as (_, port),
        connect(f"ws://127.0.0.1:{port}{STREAM}", max_size=None) as client,
    ):
        assert "Sec-WebSocket-Extensions" not in client.response.headers
        await client.send("hello")
        assert await client.recv() == "hello"
        await client.send([b"a", b"", b"c"])
        assert b"".join([part async for part in client.recv_streaming()]) == b"ac"
        large = bytes(16 << 20)
        await client.send(large)
        assert await client.recv() == large
    assert client.close_code == 1000


async def test_a_frame_that_is_too_large_is_refused_from_its_header() -> None:
    async with serving() as (_, port), raw_stream(port) as client:
        client.send(frame(BINARY, b"", mask=KEY, length_form=64, announced=(16 << 20) + 1))
        closed = await client.frame()
        assert (closed.opcode, closed.close_code) == (CLOSE, 1009)


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("body", [b"", b"hello", bytes(1 << 20)], ids=["empty", "short", "long"])
async def test_a_body_with_a_length_comes_back_with_it(body: bytes) -> None:
    async with serving() as (_, port), raw_client(port) as client:
        client.send(
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Type: text/csv; header=present\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        head = (await client.head()).lower()
        assert head.startswith(b"http/1.1 200 ")
        assert b"\r\ncontent-type: text/csv; header=present\r\n" in head
        assert b"\r\ncontent-length: %d\r\n" % len(body) in head
        assert await client.reader.readexactly(len(body)) == body


@pytest.mark.clause("1.1-5")
async def test_chunks_come_back_as_they_come() -> None:
    async with serving() as (_, port), raw_client(port) as client:
        client.send(
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Type: text/plain\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
        )
        head = (await client.head()).lower()
        assert b"\r\ntransfer-encoding: chunked\r\n" in head
        assert b"content-length" not in head
        assert await client.reader.readexactly(10) == b"5\r\nfirst\r\n"
        client.send(b"1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n")
        assert await client.reader.readuntil(b"0\r\n\r\n") == b"1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n"


async def test_a_coded_body_is_answered_without_its_coding() -> None:
    packed = gzip.compress(b"echoed")
    async with serving() as (_, port), raw_client(port) as client:
        client.send(
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(packed), packed)
        )
        head = (await client.head()).lower()
        assert b"content-encoding" not in head
        assert await client.reader.readexactly(11) == b"6\r\nechoed\r\n"
