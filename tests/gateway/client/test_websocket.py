"""partway.gateway.client.websocket, mostly against servers that are no gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from partway.gateway.client import (
    ClientStream,
    ConnectionLost,
    GatewayUnreachable,
    ModelStreamFailed,
    PayloadPart,
    StreamEnded,
    connect,
)
from partway.gateway.limits import CLIENT_RECEIVE_HIGH_WATER, GATEWAY_PING_INTERVAL
from partway.protocol.limits import (
    KIB,
    MAX_ENVELOPE_BYTES,
    MAX_ENVELOPE_FRAGMENTS,
    MIB,
    PART_OVERHEAD,
    WRITE_HIGH_WATER,
)
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, close, frame
from tests.gateway.client.peers import (
    all_parts,
    grant,
    http,
    refused_by,
    replying,
    settled,
    until,
    url_of,
)
from tests.wire.peers import ENDPOINT, MSGPACK, ModelStream, RawContainer, soon, switching

EMPTY_PART = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x00"
MODEL_FAILED = b"\x81\xb0ModelStreamError\x82\xa7Message\xa1m\xa9ErrorCode\xa44000"

# --- The wire -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "prefix"),
    [
        ("", ""),
        ("/", ""),
        ("/base", "/base"),
        ("/base/", "/base"),
        ("/a b/ü", "/a%20b/%C3%BC"),
        ("/a%20b", "/a%20b"),
    ],
)
async def test_a_base_path_stands_in_front(base, prefix):
    async with replying(grant) as server, connect(url_of(server) + base, "a/b c"):
        asked = await server.stream()
        asked.abort()
    expected = f"{prefix}/endpoints/a%2Fb%20c/invocations-bidirectional-stream"
    assert asked.target == expected


@pytest.mark.parametrize("says", ["auto", "drain", "close", ""])
async def test_what_the_gateway_does_at_the_end_of_input(says):
    more = [f"X-Partway-Input-End: {says}"] if says else []

    def answer(request: bytes) -> bytes:
        return switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", *more)

    async with replying(answer) as server, connect(url_of(server), ENDPOINT) as stream:
        assert stream.input_end == says
        (await server.stream()).abort()


@asynccontextmanager
async def held_up() -> AsyncIterator[tuple[ClientStream, ModelStream, int]]:
    """A stream to a gateway that takes nothing, and how many parts of 64 KiB it has been sent."""
    async with (
        RawContainer(grant, receive_buffer=64 * KIB) as server,
        connect(url_of(server), ENDPOINT) as stream,
    ):
        at_gateway = await server.stream()
        sent = 0
        try:
            while stream._writable.is_set():
                await soon(stream.send_bytes(bytes(64 * KIB)), "a send that nothing held up")
                sent += 1
                if not stream._writable.is_set():
                    await settled(lambda: stream._wire._connection.taken_bytes, 0.2)
            yield stream, at_gateway, sent
        finally:
            at_gateway.abort()


async def test_tasks_that_send_at_once_queue_nothing_past_the_mark():
    async with held_up() as (stream, at_gateway, sent):
        pieces = [bytes([number]) * MIB for number in range(20)]
        sending = [asyncio.create_task(stream.send_bytes(piece)) for piece in pieces]
        await asyncio.sleep(0.05)
        most = stream._wire._connection.unsent_bytes
        for _ in range(sent):
            await at_gateway.frame()
        for piece in pieces:
            assert piece in (await at_gateway.frame()).payload
            most = max(most, stream._wire._connection.unsent_bytes)
        await soon(asyncio.gather(*sending))
        assert most <= WRITE_HIGH_WATER + MIB + KIB


async def test_a_send_that_is_given_up_has_sent_nothing():
    """So that trying again sends it once; the same for the end of the input."""
    async with held_up() as (stream, at_gateway, sent):
        for give_up in (stream.send_text("once"), stream.end_input()):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(give_up, 0.05)
        again = asyncio.create_task(stream.send_text("once"))
        for _ in range(sent):
            assert len((await at_gateway.frame()).payload) > 64 * KIB
        await soon(again)
        await soon(stream.end_input())
        assert b"once" in (await at_gateway.frame()).payload
        assert b"InputEnd" in (await at_gateway.frame()).payload
        with pytest.raises(StreamEnded):
            await stream.send_text("more")


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (frame(BINARY, MODEL_FAILED), ModelStreamFailed),
        (close(1000), StreamEnded),
        (close(1011), ConnectionLost),
        (b"", ConnectionLost),
    ],
    ids=["ModelStreamError", "1000", "1011", "RST"],
)
async def test_a_sender_that_waits_is_told_how_the_stream_ended(ending, error):
    async with held_up() as (stream, at_gateway, _):
        waiting = [asyncio.create_task(stream.send_text("x")) for _ in range(2)]
        waiting.append(asyncio.create_task(stream.end_input()))
        await asyncio.sleep(0)
        at_gateway.send(ending)
        if not ending:
            at_gateway.reset()
        for sending in waiting:
            with pytest.raises(error):
                await soon(sending)


async def test_parts_without_bytes_count_too():
    count = 30_000
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, EMPTY_PART) * count, close(1000))
        await until(lambda: not stream._wire.reading, "the client to stop reading")
        await asyncio.sleep(0.05)
        assert len(stream._parts) <= CLIENT_RECEIVE_HIGH_WATER // PART_OVERHEAD + 1
        received = await soon(all_parts(stream))
        assert received == [PayloadPart(b"")] * count
        assert stream._held == 0
        at_gateway.abort()


async def test_a_gateway_that_answers_no_ping_is_lost(clock):
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        clock.advance(6 * GATEWAY_PING_INTERVAL)
        assert not stream._ended
        clock.advance(GATEWAY_PING_INTERVAL)
        with pytest.raises(ConnectionLost, match="answered none of 6 pings") as caught:
            await soon(stream.receive())
        with pytest.raises(ConnectionLost):
            await stream.send_text("too late")
        assert [(await at_gateway.frame()).opcode for _ in range(6)] == [PING] * 6
        assert await at_gateway.eof() == b"", "no Close is waited for"
        at_gateway.abort()
    assert caught.value.reconnect


async def test_a_pong_answers_and_data_does_not(clock):
    interval = GATEWAY_PING_INTERVAL
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        for _ in range(10):
            clock.advance(interval)
            at_gateway.send(frame(PONG, (await at_gateway.frame()).payload))
            at_gateway.send(frame(BINARY, EMPTY_PART))  # so that the pong has come
            await soon(stream.receive())
        for _ in range(6):
            clock.advance(interval)
            assert (await at_gateway.frame()).opcode == PING
            at_gateway.send(frame(BINARY, EMPTY_PART))
            await soon(stream.receive())
        assert not stream._ended
        clock.advance(interval)
        with pytest.raises(ConnectionLost, match="answered none"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_who_reads_again_pings_again(clock):
    interval = GATEWAY_PING_INTERVAL
    full = CLIENT_RECEIVE_HIGH_WATER // PART_OVERHEAD + 1
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, EMPTY_PART) * full)
        await until(lambda: not stream._wire.reading, "the client to stop reading")
        clock.advance(100 * interval)
        assert not stream._ended
        for _ in range(full):
            await soon(stream.receive())
        assert stream._wire.reading
        clock.advance(6 * interval)
        assert not stream._ended, "the clock started again from zero"
        clock.advance(interval)
        with pytest.raises(ConnectionLost, match="answered none"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_no_ping_follows_the_end(clock):
    def answer(request: bytes) -> bytes:
        return grant(request) + frame(BINARY, MODEL_FAILED)

    async with replying(answer) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        with pytest.raises(ModelStreamFailed, match="4000: m"):
            await soon(stream.receive())
        clock.advance(5 * GATEWAY_PING_INTERVAL)
        closing = asyncio.create_task(stream.close())
        assert (await at_gateway.frame()).opcode == CLOSE
        at_gateway.abort()
        await soon(closing)


async def test_closing_twice_and_then_leaving(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        await soon(stream.close())
        await soon(stream.close())
        assert await soon(stream.receive()) is None


async def test_closing_frees_a_task_that_receives(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        await container.stream()
        receiving = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        await stream.close()
        assert await soon(receiving) is None


@pytest.mark.parametrize(
    ("answer", "status", "error", "message", "reconnect"),
    [
        (http("404 Not Found", b"<html>no", "text/html"), 404, "HTTP error", "<html>no", False),
        (http("502 Bad Gateway", b"upstream"), 502, "HTTP error", "upstream", True),
        (http("429 Slow Down", b"[1]"), 429, "HTTP error", "[1]", True),
        (
            http("403 No", b'{"Message": 1, "OriginalStatusCode": "x"}'),
            403,
            "HTTP error",
            "",
            False,
        ),
        (http("200 OK", b"hello"), 200, "HTTP error", "hello", False),
        (http("500 Oops", b""), 500, "HTTP error", "", True),
    ],
)
async def test_refused_by_what_is_no_gateway(answer, status, error, message, reconnect):
    async with replying(lambda request: answer) as server:
        refusal = await refused_by(url_of(server))
    assert (refusal.status, refusal.error, refusal.reconnect) == (status, error, reconnect)
    assert message in refusal.message


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: b"SSH-2.0-OpenSSH_9.6\r\n", "no answer to the upgrade within 0.5 s"),
        (lambda request: b"220 mail ready\r\n\r\n", "is not HTTP"),
        (lambda request: b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS on this port"),
        (lambda request: switching(request), "not the subprotocol payloadpart.v1.msgpack"),
        (
            lambda request: switching(request, f"Sec-WebSocket-Protocol: {MSGPACK}", accept="no"),
            "does not match the key",
        ),
        (
            lambda request: switching(request, "Sec-WebSocket-Protocol: mqtt"),
            "the server chose a subprotocol that was not offered",
        ),
    ],
    ids=["ssh", "mail", "tls", "no subprotocol", "wrong key", "another subprotocol"],
)
async def test_no_gateway_there(answer, why):
    """What answers as none does now will do so again; only silence may be over the next time."""
    async with replying(answer) as server:
        with pytest.raises(GatewayUnreachable) as caught:
            async with connect(url_of(server), ENDPOINT, open_timeout=0.5):
                pytest.fail("a stream opened")
    assert why in str(caught.value)
    assert url_of(server) in str(caught.value), "it says where"
    assert caught.value.reconnect == why.startswith("no answer")


async def test_a_server_that_hangs_up():
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(
            GatewayUnreachable, match="ended before the upgrade was answered"
        ) as caught:
            async with connect(f"http://127.0.0.1:{port}", ENDPOINT):
                pytest.fail("a stream opened")
    assert caught.value.reconnect


async def test_a_server_that_does_not_answer():
    async with replying(lambda request: None) as server:
        with pytest.raises(GatewayUnreachable, match=r"no answer to the upgrade within 0\.1 s"):
            async with connect(url_of(server), ENDPOINT, open_timeout=0.1):
                pytest.fail("a stream opened")


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (lambda gateway: gateway.reset(), "ended without a Close"),
        (lambda gateway: gateway.writer.close(), "ended without a Close"),
        (lambda gateway: gateway.send(close(1011, b"oops")), "closed with 1011 oops"),
        (lambda gateway: gateway.send(close()), "closed with None"),
        (lambda gateway: gateway.send(frame(BINARY, b"x", mask=KEY)), "bad frames"),
        (lambda gateway: gateway.send(frame(0x3, b"")), "bad frames"),
        (lambda gateway: gateway.send(frame(BINARY, b"\xc1")), "not an event"),
        (lambda gateway: gateway.send(frame(BINARY, b"\x80")), "not an event"),
    ],
    ids=["RST", "FIN", "1011", "no code", "masked", "opcode", "no msgpack", "no event"],
)
async def test_the_connection_breaks(ending, why):
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        assert stream.request_id == "abc"
        at_gateway = await server.stream()
        ending(at_gateway)
        with pytest.raises(ConnectionLost) as caught:
            await soon(stream.receive())
        at_gateway.abort()
    assert why in str(caught.value)
    assert caught.value.reconnect


async def test_a_message_without_end_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway: ModelStream = await server.stream()
        at_gateway.send(frame(BINARY, bytes(MIB), fin=False))
        for _ in range(MAX_ENVELOPE_BYTES // MIB):
            at_gateway.send(frame(CONTINUATION, bytes(MIB), fin=False))
        with pytest.raises(ConnectionLost, match=f"at most {MAX_ENVELOPE_BYTES} bytes"):
            await soon(stream.receive())


async def test_a_message_in_endless_fragments_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, fin=False))
        at_gateway.send(frame(CONTINUATION, fin=False) * (MAX_ENVELOPE_FRAGMENTS - 2))
        at_gateway.send(frame(CONTINUATION, EMPTY_PART))
        assert await soon(stream.receive()) == PayloadPart(b""), "as many as may be"
        at_gateway.send(frame(BINARY, fin=False))
        at_gateway.send(frame(CONTINUATION, fin=False) * MAX_ENVELOPE_FRAGMENTS)
        with pytest.raises(ConnectionLost, match=f"at most {MAX_ENVELOPE_FRAGMENTS} fragments"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_a_frame_over_the_limit_is_not_gathered():
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, announced=MAX_ENVELOPE_BYTES + 1))
        with pytest.raises(ConnectionLost, match="bad frames"):
            await soon(stream.receive())
        at_gateway.abort()


async def test_an_event_may_come_in_fragments():
    event = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x02hi"
    async with replying(grant) as server, connect(url_of(server), ENDPOINT) as stream:
        at_gateway = await server.stream()
        at_gateway.send(frame(BINARY, event[:5], fin=False), frame(CONTINUATION, event[5:]))
        assert await soon(stream.receive()) == PayloadPart(b"hi")
        at_gateway.abort()


async def test_frames_may_come_with_the_answer_to_the_upgrade():
    event = b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x02hi"

    def answer(request: bytes) -> bytes:
        return grant(request) + frame(BINARY, event) + close(1000)

    async with replying(answer) as server, connect(url_of(server), ENDPOINT) as stream:
        assert await soon(stream.receive()) == PayloadPart(b"hi")
        assert await soon(stream.receive()) is None
        server.stop()
