"""partway.gateway.client.http2: its bytes, its windows, and how streams end, against raw frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from partway.gateway.client import (
    ClientStream,
    CompletionState,
    ConnectionLost,
    Credentials,
    DataType,
    ModelStreamFailed,
    PartwayError,
    PayloadPart,
    PlatformStreamFailed,
    StreamEnded,
    connect,
)
from partway.gateway.limits import (
    CLIENT_RECEIVE_HIGH_WATER,
    GATEWAY_PING_INTERVAL,
    HTTP2_CONNECTION_WINDOW,
    HTTP2_STREAM_WINDOW,
)
from partway.protocol import limits
from partway.protocol.limits import KIB, MIB, PART_OVERHEAD, WRITE_HIGH_WATER
from tests.event_factory import exception, message, part, part_headers, string
from tests.gateway.client.http2_server import PREFACE, WINDOW, AtGateway, RawGateway, opened
from tests.gateway.client.peers import all_parts, settled, until, url_of
from tests.wire.event_signing import KEY_ID, SECRET, STREAMING, EventSigning, now_ms
from tests.wire.peers import ENDPOINT, soon

PATH = f"/endpoints/{ENDPOINT}/invocations-bidirectional-stream"
INITIAL_WINDOW = SettingsFrame.INITIAL_WINDOW_SIZE
MODEL_FAILED = exception("ModelStreamError", b'{"Message":"m","ErrorCode":"4000"}')
PLATFORM_FAILED = exception("InternalStreamFailure", b'{"Message":"drained"}')
KEY = Credentials(KEY_ID, SECRET)

#: A PayloadPart of text that ends its message, as bytes.
TEXT_HEADERS = b"".join(
    string(*pair)
    for pair in (
        (":message-type", "event"),
        (":event-type", "PayloadPart"),
        (":content-type", "application/octet-stream"),
        ("DataType", "UTF8"),
        ("CompletionState", "COMPLETE"),
    )
)


@asynccontextmanager
async def stream_and_gateway(**server) -> AsyncIterator[tuple[ClientStream, AtGateway]]:
    async with RawGateway(**server) as gateway, opened(gateway) as stream:
        yield stream, await gateway.stream()


# --- The request ----------------------------------------------------------------------------------


@pytest.mark.clause("2.1-1", "2.1-3")
async def test_the_first_bytes():
    """Preface, settings, the connection's window, and the request, in one piece."""
    async with (
        RawGateway() as server,
        opened(server, path="v1/listen", query="a=%20", variant="blue", container="pre"),
    ):
        at_gateway = await server.stream()
        settings, update, request = at_gateway.seen[:2] + [
            each for each in at_gateway.seen if isinstance(each, HeadersFrame)
        ]
    pairs = [
        (1, 4096),
        (2, 0),
        (4, 256 * KIB),
        (5, 16_384),
        (8, 0),
        (6, limits.HTTP2_MAX_HEADER_LIST),
    ]
    payload = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs)
    expected = (
        PREFACE
        + len(payload).to_bytes(3, "big")
        + b"\x04\x00"
        + bytes(4)
        + payload
        + b"\x00\x00\x04\x08\x00"
        + bytes(4)
        + (16 * MIB - 65_535).to_bytes(4, "big")
    )
    assert at_gateway.raw[: len(expected)] == expected
    assert isinstance(settings, SettingsFrame)
    assert isinstance(update, WindowUpdateFrame)
    assert request.flags == {"END_HEADERS"}
    assert at_gateway.headers == [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", server.url.removeprefix("http://")),
        (":path", PATH),
        ("content-type", "application/vnd.amazon.eventstream"),
        ("x-amzn-sagemaker-model-invocation-path", "v1/listen"),
        ("x-amzn-sagemaker-model-query-string", "a=%20"),
        ("x-amzn-sagemaker-target-variant", "blue"),
        ("x-amzn-sagemaker-target-container-hostname", "pre"),
    ]


@pytest.mark.clause("2.3-1", "2.3-2")
async def test_without_credentials_events_are_bare():
    async with stream_and_gateway() as (stream, at_gateway):
        await stream.send_text("Grüße")
        await stream.send(PayloadPart(b"", DataType.BINARY, CompletionState.PARTIAL))
        await stream.end_input()
        await at_gateway.until(lambda: at_gateway.ended, "END_STREAM")
    headers = TEXT_HEADERS.replace(
        string("DataType", "UTF8"), string("DataType", "BINARY")
    ).replace(string("CompletionState", "COMPLETE"), string("CompletionState", "PARTIAL"))
    assert at_gateway.body == message(TEXT_HEADERS, "Grüße".encode()) + message(headers)


@pytest.mark.clause("2.1-1", "2.1-2", "2.3-1", "2.3-2", "2.4-3", "2.4-4")
@pytest.mark.parametrize("token", [None, "the/session+token=="])
async def test_with_credentials_request_and_events_are_signed(token):
    """As another implementation of the same rules signs them."""
    async with (
        RawGateway() as server,
        opened(
            server,
            path="v1",
            credentials=Credentials(KEY_ID, SECRET, token),
            region="eu-west-1",
        ) as stream,
    ):
        at_gateway = await server.stream()
        await stream.send_text("one")
        await stream.send_bytes(bytes(100_000))
        await stream.end_input()
        at_gateway.give_credit(MIB, 0)
        at_gateway.give_credit(MIB, 1)
        found = [await at_gateway.event() for _ in range(3)]
        assert at_gateway.ended, "END_STREAM comes with the last event"
    sent = dict(at_gateway.headers)
    added = {"x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "authorization"}
    bare = [pair for pair in at_gateway.headers if pair[0] not in added]
    signed_at = datetime.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs(signed_at.timestamp() * 1000 - now_ms()) < 10_000
    signing = EventSigning(
        region="eu-west-1", token=token, clock=lambda: int(signed_at.timestamp() * 1000)
    )
    assert dict(signing.request(bare)) == sent
    assert sent["x-amz-content-sha256"] == STREAMING
    dates = [each.headers[":date"] for each in found]
    expected = [signing.event(each.payload, date) for each, date in zip(found, dates, strict=True)]
    assert at_gateway.body == b"".join(expected)
    assert found[0].payload == message(TEXT_HEADERS, b"one")
    assert found[2].payload == b"", "the end of a signed input"
    assert all(abs(date - now_ms()) < 10_000 for date in dates)


async def test_no_secret_is_shown_or_logged(caplog):
    caplog.set_level("DEBUG")
    key = Credentials("AKIDSHOWN", "hidden-secret", "hidden-token")
    async with RawGateway(grants=False) as server:
        opening = asyncio.create_task(soon(opened(server, credentials=key).__aenter__()))
        at_gateway = await server.stream()
        at_gateway.send(at_gateway.head(403, end=True))
        with pytest.raises(PartwayError) as caught:
            await opening
    shown = repr(key) + repr(caught.value) + str(caught.value) + caplog.text
    assert "hidden" not in shown
    assert dict(at_gateway.headers)["authorization"].rpartition("=")[2] not in caplog.text


# --- Windows --------------------------------------------------------------------------------------


@pytest.mark.clause("2.6-1")
async def test_the_gateways_window_holds_the_sender_up():
    async with stream_and_gateway() as (stream, at_gateway):
        pieces = [bytes([number]) * (100 * KIB) for number in range(20)]
        sending = [asyncio.create_task(stream.send_bytes(piece)) for piece in pieces]
        assert await settled(lambda: at_gateway.body_bytes) == WINDOW, "to the last byte"
        assert stream._wire.buffered_bytes <= WRITE_HIGH_WATER + 101 * KIB
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.send_text("given up"), 0.05)
        at_gateway.give_credit(4 * MIB, 0)
        for step in (1, 16_383, 3 * MIB):
            before = at_gateway.body_bytes
            at_gateway.give_credit(step, 1)
            if step < MIB:
                assert await settled(lambda: at_gateway.body_bytes, 0.1) == before + step
        await soon(asyncio.gather(*sending))
        await soon(stream.end_input())
        assert [(await at_gateway.event()).payload for _ in pieces] == pieces
        await at_gateway.until(lambda: at_gateway.ended, "END_STREAM")
        assert at_gateway.events.next() is None, "what was given up was not sent"


async def test_the_connections_window_counts_too():
    async with stream_and_gateway(settings={INITIAL_WINDOW: 1 << 24}) as (stream, at_gateway):
        await stream.send_bytes(bytes(MIB))
        assert await settled(lambda: at_gateway.body_bytes) == WINDOW
        at_gateway.give_credit(2 * MIB, 0)
        assert len((await at_gateway.event()).payload) == MIB
        assert (
            max(each.body_len for each in at_gateway.seen if isinstance(each, DataFrame)) <= 16_384
        )


async def test_settings_that_shrink_and_grow_the_window():
    async with stream_and_gateway() as (stream, at_gateway):
        at_gateway.send(SettingsFrame(0, settings={INITIAL_WINDOW: 10}))
        await at_gateway.until(
            lambda: sum("ACK" in each.flags for each in at_gateway.seen) == 2, "an ACK"
        )
        await stream.send_bytes(bytes(KIB))
        assert await settled(lambda: at_gateway.body_bytes, 0.1) == 10
        at_gateway.send(SettingsFrame(0, settings={INITIAL_WINDOW: 100_000}))
        assert len((await at_gateway.event()).payload) == KIB


@pytest.mark.clause("2.6-2", "2.6-3")
async def test_who_does_not_iterate_withholds_the_streams_credit_alone():
    piece = 16_000
    async with stream_and_gateway() as (stream, at_gateway):
        granted = {0: HTTP2_CONNECTION_WINDOW, 1: HTTP2_STREAM_WINDOW}
        sent = counted = 0

        def window(stream_id: int) -> int:
            nonlocal counted
            updates = [each for each in at_gateway.seen if isinstance(each, WindowUpdateFrame)]
            for each in updates[1:][counted:]:
                granted[each.stream_id] += each.window_increment
                counted += 1
            return granted[stream_id] - sent

        number = 0
        while window(1) > 20_000:
            event = part(number.to_bytes(4, "big") + bytes(piece - 4))
            at_gateway.data(event)
            sent += len(event)
            number += 1
            await at_gateway.writer.drain()
            if window(1) <= 20_000:
                await settled(lambda: window(1), 0.2)
        await settled(lambda: window(0), 0.2)
        assert window(0) >= HTTP2_CONNECTION_WINDOW - 128 * KIB, "given back on receipt"
        assert sent > CLIENT_RECEIVE_HIGH_WATER, "credit while it has room"
        assert sent <= CLIENT_RECEIVE_HIGH_WATER + HTTP2_STREAM_WINDOW + 2 * piece
        assert stream._held <= CLIENT_RECEIVE_HIGH_WATER + piece + PART_OVERHEAD
        for expected in range(number):
            got = await soon(stream.receive())
            assert got is not None
            assert got.payload[:4] == expected.to_bytes(4, "big")
        await settled(lambda: window(1), 0.1)
        assert window(1) >= HTTP2_STREAM_WINDOW // 2, "credit again"
        assert stream._held == 0


async def test_parts_without_bytes_count_too():
    async with stream_and_gateway() as (stream, at_gateway):
        for _ in range(60):
            at_gateway.data(
                part() * 200
            )  # beyond our window on purpose would be the server's fault
            await asyncio.sleep(0.002)
            if not stream._wire.reading:
                break
        await until(lambda: not stream._wire.reading, "the client to stop")
        assert len(stream._parts) <= CLIENT_RECEIVE_HIGH_WATER // PART_OVERHEAD + 1


async def test_a_gateway_beyond_our_window_is_cut_off():
    async with stream_and_gateway() as (stream, at_gateway):
        while stream._wire.reading:
            at_gateway.data(part(bytes(16_000)))
            await asyncio.sleep(0.001)
        at_gateway.data(part(bytes(16_000)) * 40)
        await until(lambda: stream._ended, "the end, which nobody has to read for")
        with pytest.raises(ConnectionLost, match="bad HTTP/2 from the gateway: FlowControlError"):
            await soon(all_parts(stream))


# --- Ends -----------------------------------------------------------------------------------------


@pytest.mark.clause("2.3-5", "2.3-6")
@pytest.mark.parametrize("behind", ["END_STREAM", "NO_ERROR", "nothing"])
async def test_an_exception_event_says_how_it_ended(behind):
    for last, error in ((MODEL_FAILED, ModelStreamFailed), (PLATFORM_FAILED, PlatformStreamFailed)):
        async with stream_and_gateway() as (stream, at_gateway):
            at_gateway.data(part(b"hi") + last, end=behind != "nothing")
            if behind == "NO_ERROR":
                at_gateway.rst(0)
            assert (await soon(stream.receive())) == PayloadPart(b"hi")
            for _ in range(2):
                with pytest.raises(error):
                    await soon(stream.receive())
            with pytest.raises(error):
                await stream.send_text("too late")


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize("reset", [True, False])
async def test_the_end_of_the_response_is_a_clean_end(reset):
    async with stream_and_gateway() as (stream, at_gateway):
        at_gateway.data(part(b"last"), end=True)
        if reset:
            at_gateway.rst(0)
        assert [each.payload for each in await soon(all_parts(stream))] == [b"last"]
        with pytest.raises(StreamEnded, match="the stream has ended"):
            await stream.send_text("too late")
        await soon(stream.close())
        assert not any(isinstance(each, RstStreamFrame) for each in at_gateway.seen)


@pytest.mark.clause("2.3-2", "2.3-6")
@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (lambda at: at.rst(8), "the gateway reset the stream with CANCEL"),
        (lambda at: at.rst(0), "the gateway reset the stream with NO_ERROR"),
        (lambda at: at.rst(0x77), "the gateway reset the stream with error 119"),
        (lambda at: at.writer.close(), "ended before the stream did"),
        (lambda at: at.tcp_reset(), "ended before the stream did"),
        (lambda at: at.data(part(b"cut")[:-1], end=True), "in the middle of an event"),
        (lambda at: at.data(b"\0" * 16), "not an event"),
        (lambda at: at.data(part(b"x", event_type="Another")), "not an event"),
        (lambda at: at.data(exception("AnotherError", b"{}")), "not an event"),
        (lambda at: at.data(message(part_headers(), b"x", crc=1)), "not an event"),
        (lambda at: at.data(part()[:8] + b"\xff\xff\xff\xff"), "not an event"),
        (lambda at: at.send(b"SSH-2.0-OpenSSH_9.6\r\n"), "a frame is too large"),
        (lambda at: at.send(b"\0\x40\x01\0\0" + bytes(4)), "a frame is too large"),
        (lambda at: at.send(b"\0\0\1\0\0" + bytes(5)), "bad HTTP/2"),
        (lambda at: at.send(DataFrame(3, b"x")), "bad HTTP/2"),
        (lambda at: at.goaway(0), "takes no more streams on this connection"),
        (lambda at: (at.goaway(1, 11), at.writer.close()), "with GOAWAY.ENHANCE_YOUR_CALM"),
    ],
)
async def test_the_connection_breaks(ending, why):
    async with stream_and_gateway() as (stream, at_gateway):
        # Left unread, it would make TCP end in RST, which may erase what is said last.
        await at_gateway.until(at_gateway.settings_answered, "the answer to its settings")
        assert stream.request_id == "abc"
        at_gateway.data(part(b"before"))
        ending(at_gateway)
        assert await soon(stream.receive()) == PayloadPart(b"before")
        with pytest.raises(ConnectionLost, match=why) as caught:
            await soon(stream.receive())
    assert caught.value.reconnect


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (lambda at: at.data(MODEL_FAILED, end=True), ModelStreamFailed),
        (lambda at: at.rst(8), ConnectionLost),
    ],
)
async def test_who_waits_to_send_is_told_though_nobody_reads(ending, error):
    async with stream_and_gateway() as (stream, at_gateway):
        while stream._writable.is_set():
            await soon(stream.send_bytes(bytes(64 * KIB)))
        waiting = [asyncio.create_task(stream.send_text("x")) for _ in range(2)]
        waiting.append(asyncio.create_task(stream.end_input()))
        while stream._wire.reading:
            at_gateway.data(part(bytes(16_000)))
            await asyncio.sleep(0.001)
        ending(at_gateway)
        for sending in waiting:
            with pytest.raises(error):
                await soon(sending)


@pytest.mark.clause("2.1-4")
async def test_after_goaway_the_stream_goes_on_both_ways():
    async with stream_and_gateway() as (stream, at_gateway):
        at_gateway.goaway(2**31 - 1)
        at_gateway.goaway(1)
        at_gateway.data(part(b"down"))
        assert await soon(stream.receive()) == PayloadPart(b"down")
        await stream.send_text("up")
        assert (await at_gateway.event()).payload == b"up"
        at_gateway.data(b"", end=True)
        assert await soon(stream.receive()) is None


async def test_a_gateway_that_drains_lets_its_stream_finish(gateway_for, container, short_linger):
    gateway = await gateway_for(shutdown_grace=5.0)
    async with connect(url_of(gateway), ENDPOINT, transport="http2") as stream:
        model = await container.stream()
        draining = asyncio.create_task(gateway.gateway.drain())
        await until(lambda: stream._wire._frames.goaway is not None, "GOAWAY")
        await stream.send_text("up")
        assert (await model.frame()).payload == b"up"
        await stream.end_input()
        assert (await model.frame()).payload == (1000).to_bytes(2, "big")
        model.send(b"\x81\x04last", b"\x88\x02\x03\xe8")
        assert [each.payload for each in await soon(all_parts(stream))] == [b"last"]
    await soon(draining)
    assert gateway.causes() == {"completed": 1}


# --- Leaving --------------------------------------------------------------------------------------


@pytest.mark.clause("2.1-4")
@pytest.mark.parametrize(
    ("unsent", "error", "code"),
    [(0, None, 0), (0, ZeroDivisionError, 8), (2 * WINDOW, None, 8)],
    ids=["in good order", "by an exception", "with a part that is cut"],
)
async def test_leaving_early_resets_and_says_goodbye(unsent, error, code):
    async with RawGateway() as server:
        with nullcontext() if error is None else pytest.raises(error):
            async with opened(server) as stream:
                at_gateway = await server.stream()
                await stream.send_bytes(bytes(unsent))
                if error is not None:
                    raise error
        reset = await at_gateway.frame(RstStreamFrame)
        assert isinstance(reset, RstStreamFrame)
        assert reset.error_code == code
        assert not at_gateway.ended, "the input's end would have the model finish its answer"
        await at_gateway.frame(PingFrame)
        goaway = await at_gateway.frame(GoAwayFrame)
        assert isinstance(goaway, GoAwayFrame)
        assert (goaway.error_code, goaway.last_stream_id) == (0, 0)
        await at_gateway.eof()


@pytest.mark.clause("1.5-13")
async def test_a_gateway_that_does_not_answer_the_goodbye_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(limits, "LINGER_TIMEOUT", 0.1)
    async with RawGateway(pongs=False, receive_buffer=4 * KIB) as server:
        async with opened(server) as stream:
            at_gateway = await server.stream()
            await stream.send_bytes(bytes(MIB))
            closing = asyncio.create_task(stream.close())
            await soon(stream.close())
            await soon(closing)
        await at_gateway.eof()


# --- Liveness -------------------------------------------------------------------------------------


def pings_at(at_gateway: AtGateway) -> list[PingFrame]:
    return [each for each in at_gateway.seen if isinstance(each, PingFrame)]


async def test_a_gateway_that_answers_no_ping_is_lost(clock):
    async with stream_and_gateway(pongs=False) as (stream, at_gateway):
        for number in range(1, 7):
            clock.advance(GATEWAY_PING_INTERVAL)
            await until(lambda: len(pings_at(at_gateway)) == number, "a ping")  # noqa: B023 (called in its own round only)
        assert not stream._ended
        clock.advance(GATEWAY_PING_INTERVAL)
        with pytest.raises(ConnectionLost, match="answered none of 6 pings"):
            await soon(stream.receive())
        assert [each.opaque_data for each in pings_at(at_gateway)] == [
            n.to_bytes(8, "big") for n in range(1, 7)
        ]


async def test_pings_go_on_while_nobody_reads(clock):
    """Unlike a WebSocket's they do not wait behind what is not read."""
    async with stream_and_gateway() as (stream, at_gateway):
        while stream._wire.reading:
            at_gateway.data(part(bytes(16_000)))
            await asyncio.sleep(0.001)
        for number in range(1, 11):
            clock.advance(GATEWAY_PING_INTERVAL)
            await until(lambda: not stream._pings._liveness.unanswered, "a pong")
            assert len(pings_at(at_gateway)) == number
        assert not stream._ended
