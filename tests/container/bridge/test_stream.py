"""Frames through a bridge, and each end of a stream, as bytes on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.bridge.stream import StreamTimes
from partway.protocol.connections.websocket import FrameConnection
from partway.protocol.limits import KIB, MIB, WRITE_HIGH_WATER
from tests.container.bridge.bridging import bridging
from tests.container.wire import PATIENCE
from tests.frame_factory import (
    BINARY,
    CLOSE,
    CONTINUATION,
    KEY,
    PING,
    PONG,
    TEXT,
    RawFrame,
    close,
    frame,
    read_frames,
)
from tests.wire.peers import MAX_SOCKET_READ, ModelStream, RawClient, RawContainer, eventually

pytestmark = pytest.mark.usefixtures("no_leaks")

#: Times after which a test that waits for something else fails first.
LONG = 500.0


def plain(frames: list[RawFrame]) -> list[tuple[int, bytes, bool]]:
    return [(each.opcode, each.payload, each.fin) for each in frames]


async def ended(client: RawClient) -> tuple[int | None, str]:
    """The Close that a client gets, which it answers; then TCP ends."""
    *_, said = await client.until_close()
    client.send_close(said.close_code)
    assert await client.eof() == b""
    return said.close_code, said.close_reason


# --- Frames --------------------------------------------------------------------------------------

#: Messages as lists of fragments' payloads; the first frame has the type.
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([TEXT, BINARY]),
        st.lists(st.sampled_from(["", "a", "ä" * 70, "x" * 70_000]), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


def fragments(messages: list[tuple[int, list[str]]]) -> list[tuple[int, bytes, bool]]:
    return [
        (CONTINUATION if at else opcode, payload.encode(), at == len(payloads) - 1)
        for opcode, payloads in messages
        for at, payload in enumerate(payloads)
    ]


@pytest.mark.clause("1.2-1", "1.2-3", "1.3-1")
async def test_frames_pass_one_for_one() -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()

        @given(MESSAGES, MESSAGES)
        def each_way(up: list[tuple[int, list[str]]], down: list[tuple[int, list[str]]]) -> None:
            sent.append((fragments(up), fragments(down)))

        sent: list[tuple[list[tuple[int, bytes, bool]], list[tuple[int, bytes, bool]]]] = []
        each_way()
        for up, down in sent:
            for opcode, payload, fin in up:
                client.send_frame(opcode, payload, fin=fin)
            model.send(*(frame(opcode, payload, fin=fin) for opcode, payload, fin in down))
            assert plain(await model.frames(len(up))) == up
            assert plain(await client.frames(len(down))) == down
        assert all(each.masked for each in model.seen)
        assert not any(each.masked for each in client.seen)


async def test_a_byte_at_a_time_makes_the_same_frames() -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        for byte in frame(TEXT, b"hello", fin=False, mask=KEY) + frame(0, b"!", mask=KEY):
            client.send(bytes([byte]))
            await client.flush()
        assert plain(await model.frames(2)) == [(TEXT, b"hello", False), (0, b"!", True)]


async def test_frames_that_come_with_the_upgrade_are_not_lost() -> None:
    async with bridging() as bridge:
        answer = bridge.upstream.answer
        bridge.upstream.answer = lambda request: (answer(request) or b"") + frame(TEXT, b"first")
        client, _ = await bridge.open()
        assert plain(await client.frames(1)) == [(TEXT, b"first", True)]


@pytest.mark.clause("1.1-4", "1.4-3")
async def test_each_side_s_pings_are_answered_by_the_bridge() -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        client.send_frame(TEXT, b"a", fin=False)
        client.send_frame(PING, b"platform")
        client.send_frame(PONG, b"unasked")
        client.send_frame(CONTINUATION, b"b")
        model.send(frame(PING, b"upstream"), frame(PONG, b"unasked"), frame(BINARY, b"c"))
        assert plain(await client.frames(2)) in (
            [(PONG, b"platform", True), (BINARY, b"c", True)],
            [(BINARY, b"c", True), (PONG, b"platform", True)],
        )
        seen = plain(await model.frames(3))
        assert (PONG, b"upstream", True) in seen
        seen.remove((PONG, b"upstream", True))
        assert seen == [(TEXT, b"a", False), (CONTINUATION, b"b", True)]


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.clause("1.5-1", "1.5-2", "1.5-7")
@pytest.mark.parametrize("inside", [False, True], ids=["between messages", "inside a message"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [(1000, "bye"), (1001, ""), (None, ""), (1011, "out of memory"), (4321, "ä" * 61)],
)
async def test_the_upstream_s_close_passes(code: int | None, reason: str, inside: bool) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        if inside:
            model.send(frame(TEXT, b"begun", fin=False))
            assert plain(await client.frames(1)) == [(TEXT, b"begun", False)]
        said = close(code, reason.encode())
        model.send(said)
        assert plain(await client.frames(1)) == plain(read_frames(said)[0])
        client.send_close(code)
        assert await client.eof() == b""
        assert plain(await model.frames(1)) == plain(read_frames(close(code, reason.encode()))[0])
        model.end()
        assert await model.eof() == b""


@pytest.mark.clause("1.5-11", "1.5-12")
@pytest.mark.parametrize("code", [1000, None, 4000])
async def test_the_end_of_input_goes_to_the_upstream_whose_answers_still_come(
    code: int | None,
) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        client.send_frame(TEXT, b"question")
        client.send_close(code, b"" if code is None else b"that is all")
        reason = "" if code is None else "that is all"
        question, said = await model.frames(2)
        assert question.payload == b"question"
        assert (said.opcode, said.close_code, said.close_reason) == (CLOSE, code, reason)
        model.send(frame(TEXT, b"an", fin=False), frame(CONTINUATION, b"swer"), close(1000, b"."))
        model.end()
        *answer, said = await client.until_close()
        assert plain(answer) == [(TEXT, b"an", False), (CONTINUATION, b"swer", True)]
        assert (said.close_code, said.close_reason) == (1000, ".")
        assert await client.eof() == b""


@pytest.mark.clause("1.5-8", "1.5-9")
@pytest.mark.parametrize("code", [1001, 1008, 1011])
async def test_a_client_that_has_gone_is_answered_at_once(code: int) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        client.send_close(code, b"why")
        assert (await client.frame()).close_code == code
        assert await client.eof() == b""
        said = await model.frame()
        assert (said.close_code, said.close_reason) == (code, "why")
        model.send(frame(TEXT, b"too late"), close(code))
        model.end()
        assert await model.eof() == b""


def ends(model: ModelStream) -> None:
    model.end()


def resets(model: ModelStream) -> None:
    model.reset()


def cuts_a_frame(model: ModelStream) -> None:
    model.send(frame(BINARY, bytes(100))[:50])
    model.end()


def cuts_a_message(model: ModelStream) -> None:
    model.send(frame(TEXT, b"begun", fin=False))
    model.end()


LOST = "the upstream's connection ended, without a Close"


@pytest.mark.clause("1.5-3", "1.5-4", "1.5-6")
@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (ends, LOST),
        (resets, LOST),
        (cuts_a_frame, LOST),
        (
            cuts_a_message,
            "the upstream's connection ended in the middle of a message, without a Close",
        ),
        (lambda model: model.send(frame(3)), "the upstream broke RFC 6455: unknown opcode 0x3"),
        (lambda model: model.send(close(1005)), "the upstream broke RFC 6455: close code 1005"),
        (
            lambda model: model.send(frame(BINARY, announced=16 * MIB + 1)),
            "the upstream broke RFC 6455: a frame has 16777217 bytes",
        ),
    ],
    ids=["EOF", "RST", "cut frame", "cut message", "opcode", "Close code", "frame too big"],
)
async def test_an_upstream_that_fails_ends_its_own_stream_only(
    fails: Callable[[ModelStream], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open(headers=["X-Amzn-SageMaker-Request-Id: r-1"])
        other, others_model = await bridge.open()
        fails(model)
        code, said = await ended(client)
        assert code == 1011
        assert said.startswith(reason), said
        assert f'the upstream failed request_id=r-1 reason="{reason}' in caplog.text
        model.abort()
        other.send_frame(TEXT, b"still here")
        assert (await others_model.frame()).payload == b"still here"


@pytest.mark.clause("1.1-8", "1.5-9")
@pytest.mark.parametrize(
    ("leaves", "code"),
    [
        (lambda client: client.end(), None),
        (lambda client: client.reset(), None),
        (lambda client: client.send(frame(TEXT, b"unmasked")), 1002),
        (lambda client: client.send_frame(TEXT, b"\xff"), 1007),
    ],
    ids=["EOF", "RST", "no mask", "not UTF-8"],
)
async def test_the_upstream_hears_of_a_client_that_is_lost(
    leaves: Callable[[RawClient], None], code: int | None
) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        leaves(client)
        assert (await model.frame()).close_code == 1001
        if code is not None:
            assert (await client.frame()).close_code == code


async def test_a_client_that_leaves_after_its_input_leaves_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An upstream that is waited for, instead of cut, fails the test.
    monkeypatch.setitem(FrameConnection.__init__.__kwdefaults__, "linger", LONG)
    async with bridging() as bridge:
        client, model = await bridge.open()
        client.send_close(1000)
        assert (await model.frame()).close_code == 1000
        client.reset()
        assert await model.eof() == b"", "a second Close cannot be sent"


# --- Times ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-1")
async def test_an_upstream_that_answers_no_ping_is_dead() -> None:
    times = StreamTimes(ping_interval=0.01, stall=LONG, finish=LONG)
    async with bridging(stream_times=times) as bridge:
        client, model = await bridge.open()
        assert await ended(client) == (1011, "the upstream did not answer 5 pings")
        pings = [each.payload for each in await model.until_close() if each.opcode == PING]
        assert pings == [number.to_bytes(8, "big") for number in range(1, 6)]


async def test_an_upstream_that_is_silent_after_the_end_of_input() -> None:
    times = StreamTimes(ping_interval=LONG, stall=LONG, finish=0.05)
    async with bridging(stream_times=times) as bridge:
        client, model = await bridge.open()
        client.send_close(1000)
        assert (await model.frame()).close_code == 1000
        code, reason = await ended(client)
        assert code == 1011
        assert reason.startswith("the upstream was silent for 0.05 s after its input's end")
        assert await model.eof() == b""


@pytest.mark.clause("1.4-2")
async def test_an_upstream_that_takes_nothing() -> None:
    times = StreamTimes(ping_interval=LONG, stall=0.3, finish=LONG)
    slow = RawContainer(receive_buffer=4 * KIB)
    async with bridging(upstream=slow, stream_times=times) as bridge:
        client, model = await bridge.open()
        model.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(32):
            client.send_frame(BINARY, bytes(MIB))
        assert await ended(client) == (1011, "the upstream took nothing for 0.3 s")


@pytest.mark.clause("1.4-2")
async def test_a_client_that_takes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    times = StreamTimes(ping_interval=LONG, stall=0.3, finish=LONG)
    async with bridging(stream_times=times) as bridge:
        client, model = await bridge.open(receive_buffer=4 * KIB)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        model.send(frame(BINARY, bytes(MIB)) * 32)
        assert (await model.frame()).close_code == 1001
        client.abort()
        model.end()  # or both connections linger
        await eventually(lambda: "the client took nothing for 0.3 s" in caplog.text)


# --- Back-pressure -------------------------------------------------------------------------------

#: High-water mark, one frame and one read, on the way to the side that does not read.
BOUND = WRITE_HIGH_WATER + 64 * KIB + MAX_SOCKET_READ


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("reader", ["upstream", "client"])
async def test_a_side_that_does_not_read_holds_the_other_back(reader: str) -> None:
    async with bridging(upstream=RawContainer(receive_buffer=8 * KIB)) as bridge:
        client, model = await bridge.open(receive_buffer=8 * KIB)
        slow, fast = (model, client) if reader == "upstream" else (client, model)
        mask = KEY if reader == "upstream" else None
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        (stream,) = bridge.streams
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, stream.buffered_bytes)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        piece = frame(BINARY, bytes(64 * KIB), mask=mask)
        count = 400  # 25 MiB: more than the sockets' buffers take
        fast.send(piece * count)
        leg = stream._upstream if reader == "upstream" else stream._platform
        await eventually(lambda: leg.is_blocked and not leg.other.connection.reading)
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            frames = await slow.frames(count)
        watching.cancel()
        assert {len(each.payload) for each in frames} == {64 * KIB}
        assert WRITE_HIGH_WATER < most <= BOUND
