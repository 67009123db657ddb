"""A stream's ends, its queue, its back-pressure; on a bare socket, without a handshake."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import socket
import struct
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from partway.container.errors import Busy, ModelError
from partway.container.limits import RECEIVE_HIGH_WATER
from partway.container.models.echo import Echo
from partway.container.stream import Stream, StreamClosed
from partway.container.websocket_stream import WebSocketStream
from partway.protocol.limits import PART_OVERHEAD, WRITE_HIGH_WATER
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from tests.container.wire import PATIENCE, RawClient, opening, raw_client, until
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, TEXT, frame
from tests.wire.peers import MAX_SOCKET_READ

pytestmark = pytest.mark.usefixtures("no_leaks")

Handler = Callable[[Stream], Awaitable[None]]

#: A stream whose handler has no time to finish, and what its client is told then.
HASTY: dict[str, Any] = {"finish_timeout": 0.05, "handler_grace": 0.05}
SILENT = "the model was silent for 0.05 s after its input's end (--finish-timeout)"


class BareHttp(asyncio.Protocol):
    """Stands where an HTTP server's protocol does: its handshake is always done."""

    transport: asyncio.Transport | None = None

    def __init__(self, arrived: Callable[[BareHttp], None]) -> None:
        self._arrived = arrived
        self._read = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._arrived(self)

    def data_received(self, data: bytes) -> None:
        self._read += data

    def set_parser(self, parser: Any) -> None:
        parser.feed_data(self._read)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport = None


@asynccontextmanager
async def streaming(
    handler: Handler,
    *,
    receive_buffer: int | None = None,
    send_buffer: int | None = None,
    **options: Any,
) -> AsyncIterator[tuple[WebSocketStream, RawClient, asyncio.Task[None]]]:
    """A stream that runs ``handler``, a client at its other end, and the task of its run."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[BareHttp] = loop.create_future()
    listener = await loop.create_server(lambda: BareHttp(arrived.set_result), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        async with raw_client(port, receive_buffer=receive_buffer) as client:
            http = await arrived
            assert http.transport is not None
            if send_buffer is not None:
                sock = http.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            stream = WebSocketStream(opening(), **options)
            run = asyncio.create_task(stream.run(http, handler))
            yield stream, client, run
            await client.close()
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait((run,))
    finally:
        listener.close()
        await listener.wait_closed()


def closing(seen: list[object]) -> Handler:
    """A handler that notes what it gets and how it ended."""

    async def handler(stream: Stream) -> None:
        try:
            async for part in stream.fragments():
                seen.append(part)
            seen.append("ended")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    return handler


# --- Parts ---------------------------------------------------------------------------------------


async def test_fragments_have_type_completion_and_bytes() -> None:
    seen: list[object] = []
    async with streaming(closing(seen)) as (_, client, run):
        client.send_frame(TEXT, b"a", fin=False)
        client.send_frame(CONTINUATION, b"")
        client.send_frame(BINARY, b"b")
        client.send_close(1000)
        await run
    assert seen == [
        PayloadPart(b"a", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(b"", DataType.UTF8, CompletionState.COMPLETE),
        PayloadPart(b"b", DataType.BINARY, CompletionState.COMPLETE),
        "ended",
    ]


async def test_what_a_handler_sends_is_frames() -> None:
    async def handler(stream: Stream) -> None:
        await stream.send_part(PayloadPart(b"a", DataType.UTF8, CompletionState.PARTIAL))
        await stream.send_part(PayloadPart(b"b", DataType.BINARY))  # continues the text (1.2-4)
        await stream.send_part(PayloadPart(b""))

    async with streaming(handler) as (_, client, _run):
        assert await client.frames(3) == [
            (TEXT, b"a", False),
            (CONTINUATION, b"b", True),
            (BINARY, b"", True),
        ]


async def test_fragments_have_one_reader_at_a_time() -> None:
    async def handler(stream: Stream) -> None:
        async def take() -> None:
            await anext(stream.fragments())

        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            group.create_task(take())

    async with streaming(handler) as (_, client, _run):
        assert (await client.frame()).close_code == 1011


async def test_a_reader_may_stop_and_go_on() -> None:
    async def handler(stream: Stream) -> None:
        async for part in stream.fragments():
            await stream.send_part(part)
            break
        async for part in stream.fragments():
            await stream.send_part(PayloadPart(part.payload.upper()))

    async with streaming(handler) as (_, client, _run):
        for payload in (b"a", b"b"):
            client.send_frame(BINARY, payload)
        assert await client.frames(2) == [(BINARY, b"a", True), (BINARY, b"B", True)]


# --- Ends ----------------------------------------------------------------------------------------


async def end_of(client: RawClient) -> tuple[int | None, str]:
    closed = await client.frame()
    assert closed.opcode == CLOSE
    return closed.close_code, closed.close_reason


async def test_a_handler_that_returns_closes_with_1000() -> None:
    async def handler(stream: Stream) -> None:
        pass

    async with streaming(handler) as (_, client, run):
        assert await end_of(client) == (1000, "")
        client.send_close(1000)
        assert await client.eof() == b""
        await run


async def test_a_handler_that_raises_closes_with_1011_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(stream: Stream) -> None:
        raise LookupError("a payload's secret")

    async with streaming(handler) as (_, client, _run):
        assert await end_of(client) == (1011, "the model failed: LookupError")
    (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


async def test_a_model_s_own_error_has_its_code_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(stream: Stream) -> None:
        async with stream.message(text=True) as out:
            await out.send("half")
            raise ModelError("no such voice: 'x'", code=4404)

    with caplog.at_level(logging.INFO, "partway.container.stream"):
        async with streaming(handler) as (_, client, run):
            assert await client.frames(1) == [(TEXT, b"half", False)]
            assert await end_of(client) == (4404, "no such voice: 'x'")
            client.send_close(4404)
            await run
    line = "the model reported an error what=stream request_id=test reason=\"no such voice: 'x'\""
    assert line in caplog.messages
    assert "code=4404 reason=\"no such voice: 'x'\"" in caplog.text
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (SystemExit(3), (1011, "the model failed: RuntimeError")),
        (KeyboardInterrupt(), (1011, "the model failed: RuntimeError")),
        (ExceptionGroup("", [ModelError("no", code=4001)]), (4001, "no")),
        (ExceptionGroup("", [ExceptionGroup("", [Busy("full")])]), (1013, "full")),
        (ExceptionGroup("", [Busy("a"), Busy("b")]), (1011, "the model failed: ExceptionGroup")),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_what_else_a_handler_may_raise(error: BaseException, end: tuple[int, str]) -> None:
    """Nothing of it ends the loop, and tasks that a handler has made speak for it."""

    async def handler(stream: Stream) -> None:
        raise error

    async with streaming(handler) as (_, client, _run):
        assert await end_of(client) == end


async def test_tasks_of_a_handler_may_let_the_end_pass(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(stream: Stream) -> None:
        stream.close(4000, "enough")
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(stream.send("too late"))

    async with streaming(handler) as (_, client, run):
        assert await end_of(client) == (4000, "enough")
        client.send_close(4000)
        await run
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_handler_that_only_sends_lets_others_have_the_loop() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def handler(stream: Stream) -> None:
        counting = asyncio.create_task(count())
        for _ in range(1000):
            await stream.send("")
        counting.cancel()

    async with streaming(handler) as (_, client, _run):
        await client.frames(1000)
        assert turns > 10


async def test_a_handler_that_ignores_its_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """Its client has its Close all the same, and the log a line."""
    go_on = asyncio.Event()

    async def handler(stream: Stream) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(PATIENCE), streaming(handler, **HASTY) as (_, client, run):
        client.send_close(1000)
        assert await end_of(client) == (1011, SILENT)
        await until(lambda: "ignores its cancellation" in caplog.text)
        go_on.set()
        await run


async def test_a_client_that_vanishes_behind_a_full_inbox() -> None:
    """A socket that is not read does not show its end."""

    async def handler(stream: Stream) -> None:
        await asyncio.Event().wait()

    options: dict[str, Any] = {"high_water": 1000, "low_water": 500, "stall_timeout": 0.1}
    async with (
        asyncio.timeout(PATIENCE),
        streaming(handler, handler_grace=0.1, **options) as (_, client, run),
    ):
        for _ in range(100):
            client.send_frame(BINARY, bytes(1000))
        assert await end_of(client) == (1011, "the model read no input for too long")
        await client.close()
        await run


@pytest.mark.clause("1.5-9")
async def test_a_client_that_is_cut_behind_a_full_inbox_is_missed() -> None:
    """The model is behind, so nobody reads, and the reset waits behind what is unread."""
    seen: list[object] = []
    at_work = asyncio.Event()

    async def handler(stream: Stream) -> None:
        try:
            at_work.set()
            await asyncio.Event().wait()
        finally:
            seen.append(stream.client_gone)

    options: dict[str, Any] = {"high_water": 1000, "low_water": 500}
    async with asyncio.timeout(30), streaming(handler, **options) as (stream, client, run):
        await at_work.wait()
        for _ in range(100):
            client.send_frame(BINARY, bytes(1000))
        await until(lambda: not stream._connection.reading)
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.writer.transport.abort()
        await run
    assert seen == [True]


async def test_a_handler_that_takes_its_time_is_not_stuck() -> None:
    taken = 0

    async def handler(stream: Stream) -> None:
        nonlocal taken
        async for _ in stream.messages():
            taken += 1
            await asyncio.sleep(0.1)  # this handler is slow

    options: dict[str, Any] = {"high_water": 300, "low_water": 1, "stall_timeout": 0.6}
    async with asyncio.timeout(PATIENCE), streaming(handler, **options) as (_, client, run):
        for _ in range(8):
            client.send_frame(BINARY, b"x")
        client.send_close(1000)
        assert await end_of(client) == (1000, "")
        await run
    assert taken == 8


async def test_a_reason_that_is_too_long_is_cut_on_a_code_point() -> None:
    async def handler(stream: Stream) -> None:
        raise ModelError("é" * 100)

    async with streaming(handler) as (_, client, _run):
        assert await end_of(client) == (1011, "é" * 61)


async def test_messages_and_fragmented_replies() -> None:
    async def handler(stream: Stream) -> None:
        async for message in stream.messages():
            async with stream.message(text=True) as out:
                for word in message.split():  # type: ignore[union-attr]
                    await out.send(word)  # type: ignore[arg-type]

    async with streaming(handler) as (_, client, _run):
        client.send_frame(TEXT, "zé ".encode(), fin=False)
        client.send_frame(CONTINUATION, b"Bo")
        assert await client.frames(2) == [
            (TEXT, "zé".encode(), False),
            (CONTINUATION, b"Bo", True),
        ]


async def test_messages_that_came_together_are_answered_in_one_write() -> None:
    async def handler(stream: Stream) -> None:
        async for message in stream.messages():
            await stream.send(message)

    async with streaming(handler) as (stream, client, _run):
        client.send_frame(TEXT, b"first")
        await client.frame()
        writes = 0
        data = b"".join(frame(TEXT, b"%d" % each, mask=b"abcd") for each in range(10))
        transport = stream._connection._transport
        assert transport is not None

        class Counting:
            def __getattr__(self, name: str) -> Any:
                nonlocal writes
                writes += name in ("write", "writelines")
                return getattr(transport, name)

        stream._connection._transport = Counting()  # type: ignore[assignment]
        client.send(data)
        expected = [(TEXT, b"%d" % each, True) for each in range(10)]
        assert await client.frames(10) == expected
        assert writes == 1
        stream._connection._transport = transport


async def test_the_end_is_logged_with_its_counts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "partway.container.stream"):
        async with streaming(Echo().stream) as (_, client, run):
            client.send_frame(TEXT, b"abc")
            await client.frame()
            client.send_close(1000, b"bye")
            await client.eof()
            await run
    (record,) = caplog.records
    assert re.sub(r"duration=\d\.\d{1,3}", "duration=#", record.getMessage()) == (
        "stream ended request_id=test path=x duration=# parts_in=1 bytes_in=3 parts_out=1 "
        "bytes_out=3 code=1000 reason=bye"
    )


async def test_a_handler_that_cancels_itself_closes_with_1011() -> None:
    async def handler(stream: Stream) -> None:
        raise asyncio.CancelledError

    async with streaming(handler) as (_, client, _run):
        assert await end_of(client) == (1011, "the model's handler was cancelled")


async def test_a_handler_s_own_close_counts_once() -> None:
    seen: list[object] = []

    async def handler(stream: Stream) -> None:
        with pytest.raises(ValueError, match="1005"):
            stream.close(1005)
        await stream.send_part(PayloadPart(b"last"))
        stream.close(4000, "enough")
        stream.close(4001, "too late")
        with pytest.raises(StreamClosed) as raised:
            await stream.send_part(PayloadPart(b"too late"))
        seen.append((raised.value.code, raised.value.reason))
        seen.extend([part async for part in stream.fragments()])

    async with streaming(handler) as (_, client, run):
        client.send_frame(BINARY, b"unread")
        assert await client.frames(1) == [(BINARY, b"last", True)]
        assert await end_of(client) == (4000, "enough")
        client.send_close(4000)
        assert await client.eof() == b""
        await run
    assert seen == [(4000, "enough")]


@pytest.mark.parametrize("code", [None, 1000, 3000, 4321])
async def test_a_client_s_close_comes_back_after_what_was_sent(code: int | None) -> None:
    seen: list[object] = []
    async with streaming(closing(seen)) as (_, client, run):
        client.send_frame(BINARY, b"x")
        client.send_close(code)
        assert (await end_of(client))[0] == code
        assert await client.eof() == b""
        await run
    assert seen == [PayloadPart(b"x"), "ended"]


async def test_what_is_left_to_say_after_the_client_s_close_still_goes_out() -> None:
    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            pass
        await stream.send_part(PayloadPart(b"tail"))

    async with streaming(handler) as (_, client, run):
        client.send_close(1000, b"bye")
        assert await client.frames(1) == [(BINARY, b"tail", True)]
        assert await end_of(client) == (1000, "bye")
        assert await client.eof() == b""
        await run


@pytest.mark.clause("1.5-9", "1.5-12")
@pytest.mark.parametrize("code", [1001, 1008, 1009, 1011, 1014])
async def test_a_close_of_another_code_says_that_the_client_has_gone(code: int) -> None:
    """A model that is at work for minutes stops at once: nobody takes what it says."""
    seen: list[object] = []
    at_work = asyncio.Event()

    async def handler(stream: Stream) -> None:
        try:
            at_work.set()
            await asyncio.Event().wait()  # it computes, and listens to nothing
        finally:
            seen.append(stream.client_gone)

    async with streaming(handler) as (stream, client, run):
        await at_work.wait()
        client.send_close(code, b"gone")
        assert await end_of(client) == (code, "gone")
        assert await client.eof() == b""
        await run
    assert seen == [True]
    assert stream.client_gone


async def test_what_a_cancelled_handler_kept_is_freed_without_the_collector() -> None:
    class State:
        """Kept for one stream."""

    kept: list[weakref.ref[State]] = []
    at_work = asyncio.Event()

    async def handler(stream: Stream) -> None:
        state = State()
        kept.append(weakref.ref(state))
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            at_work.set()

    gc.collect()
    gc.disable()
    try:
        async with streaming(handler) as (_, client, run):
            await at_work.wait()
            client.send_close(1001)
            await run
            await until(lambda: kept[0]() is None)
    finally:
        gc.enable()


@pytest.mark.clause("1.5-12")
async def test_a_client_whose_input_is_over_has_not_gone() -> None:
    seen: list[object] = []

    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            pass
        seen.append(stream.client_gone)

    async with streaming(handler) as (_, client, run):
        client.send_close(1000)
        assert await end_of(client) == (1000, "")
        await run
    assert seen == [False]


@pytest.mark.clause("1.5-12")
async def test_the_time_to_finish_runs_from_the_last_sign_of_progress() -> None:
    """A model that speaks for many times its limit is not cut, and one that takes is not."""
    words = 40

    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            await asyncio.sleep(0.02)
        for _ in range(words):
            await asyncio.sleep(0.02)
            await stream.send_part(PayloadPart(b"word"))

    async with streaming(handler, finish_timeout=0.4) as (_, client, run):
        for _ in range(words):
            client.send_frame(BINARY, b"x")
        client.send_close(1000)
        assert await client.frames(words) == [(BINARY, b"word", True)] * words
        assert await end_of(client) == (1000, "")
        await run


@pytest.mark.clause("1.5-12")
async def test_a_slow_client_does_not_use_up_the_model_s_time() -> None:
    """What waits for the client is the client's to be given up for, by the stall timeout."""

    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            pass
        for _ in range(64):
            await stream.send(bytes(65536))

    async with streaming(handler, finish_timeout=0.02, receive_buffer=10_000) as (_, client, run):
        client.send_close(1000)
        await asyncio.sleep(0.2)  # ten times the limit, in which the client takes nothing
        assert await client.frames(64) == [(BINARY, bytes(65536), True)] * 64
        assert await end_of(client) == (1000, "")
        await run


async def test_a_handler_that_fails_on_its_tail_says_so() -> None:
    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            pass
        raise LookupError

    async with streaming(handler) as (_, client, _run):
        client.send_close(1000)
        assert await end_of(client) == (1011, "the model failed: LookupError")


@pytest.mark.parametrize("ours", [False, True], ids=["the client's Close", "its own Close"])
async def test_a_handler_that_does_not_end_is_cancelled(ours: bool) -> None:
    seen: list[str] = []

    async def handler(stream: Stream) -> None:
        if ours:
            stream.close()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with streaming(handler, **HASTY) as (_, client, run):
        client.send_close(1000)
        assert await end_of(client) == ((1000, "") if ours else (1011, SILENT))
        await run
    assert seen == ["cancelled"]


async def test_a_handler_may_let_the_end_pass(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(stream: Stream) -> None:
        stream.close()
        await stream.send_part(PayloadPart(b"too late"))

    async with streaming(handler) as (_, client, _run):
        assert await end_of(client) == (1000, "")
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_client_that_leaves_after_its_close_is_lost() -> None:
    seen: list[str] = []

    async def handler(stream: Stream) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with asyncio.timeout(PATIENCE), streaming(handler) as (_, client, run):
        client.send_close(1000)
        await client.close()
        await run
    assert seen == ["cancelled"]


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_lost_client_cancels_the_handler(how: str) -> None:
    seen: list[object] = []
    async with streaming(closing(seen)) as (_, client, run):
        if how == "rst":
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await client.close()
        await run
    assert seen == ["cancelled"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(frame(TEXT, b"\xff", mask=b"abcd"), 1007, id="not UTF-8"),
        pytest.param(
            frame(TEXT, b"ok", fin=False, mask=b"abcd")
            + frame(CONTINUATION, b"\xc3", mask=b"abcd"),
            1007,
            id="UTF-8 that does not end",
        ),
        pytest.param(frame(TEXT, b"x"), 1002, id="unmasked"),
        pytest.param(frame(CONTINUATION, b"x", mask=b"abcd"), 1002, id="continues nothing"),
        pytest.param(frame(TEXT, b"x", rsv=4, mask=b"abcd"), 1002, id="RSV1"),
        pytest.param(frame(0x3, b"x", mask=b"abcd"), 1002, id="opcode"),
    ],
)
@pytest.mark.clause("1.1-8")
async def test_a_client_that_breaks_the_protocol(data: bytes, code: int) -> None:
    async def handler(stream: Stream) -> None:
        async for _ in stream.fragments():
            pass

    async with streaming(handler) as (_, client, run):
        client.send(data)
        assert (await end_of(client))[0] == code
        assert await client.eof() == b""
        await client.close()
        await run


async def test_binary_is_not_checked_for_utf_8() -> None:
    async with streaming(Echo().stream) as (_, client, _run):
        client.send_frame(BINARY, b"\xff")
        assert await client.frames(1) == [(BINARY, b"\xff", True)]


async def test_cancelling_a_run_takes_everything_down() -> None:
    seen: list[object] = []
    async with streaming(closing(seen)) as (_, client, run):
        client.send_frame(BINARY, b"x")
        await until(lambda: seen)
        run.cancel()
        assert await client.eof() == b""
        with pytest.raises(asyncio.CancelledError):
            await run
    assert seen == [PayloadPart(b"x"), "cancelled"]


async def test_a_client_that_left_during_the_handshake() -> None:
    http = BareHttp(lambda _: None)
    seen: list[object] = []
    await WebSocketStream(opening()).run(http, closing(seen))
    assert seen == ["cancelled"]


# --- Back-pressure -------------------------------------------------------------------------------


async def stalled(task: asyncio.Task[Any]) -> bool:
    """Whether a task that moves bytes has stopped doing so. A wait, for want of an event."""
    await asyncio.wait((task,), timeout=0.5)
    return not task.done()


@pytest.mark.parametrize("payload", [b"", b"x", bytes(10_000)], ids=["empty", "tiny", "10 kB"])
async def test_a_handler_that_takes_nothing_stops_the_client(payload: bytes) -> None:
    go_on = asyncio.Event()
    high, count = 20_000, 1_000_000 // (len(payload) + 8)
    taken = 0

    async def handler(stream: Stream) -> None:
        nonlocal taken
        await go_on.wait()
        async for part in stream.fragments():
            assert part.payload == payload
            taken += 1

    async with streaming(handler, high_water=high, low_water=5_000) as (stream, client, run):
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
        data = frame(BINARY, payload, mask=b"abcd") * count

        async def write() -> None:
            client.send(data)
            await client.writer.drain()

        sending = asyncio.create_task(write())
        # Of nothing, the kernel's buffers may hold it all.
        assert await stalled(sending) or not payload
        one = len(payload) + PART_OVERHEAD
        assert stream.buffered_bytes <= high + one + MAX_SOCKET_READ + len(payload) + 14
        go_on.set()
        await sending
        client.send_close(1000)
        await run
    assert taken == count


async def test_a_client_that_reads_nothing_stops_the_handler_and_loses_nothing() -> None:
    # Three times what the kernel may take: 6 MiB at the server, 4 MiB at the client.
    payload, count = bytes(range(256)) * 160, 800
    data = frame(BINARY, payload, mask=b"abcd")
    limit = WRITE_HIGH_WATER + RECEIVE_HIGH_WATER + MAX_SOCKET_READ + 3 * len(data)
    async with streaming(Echo().stream, receive_buffer=10_000) as (stream, client, run):

        async def write() -> None:
            for _ in range(count):
                client.send(data)
                await client.writer.drain()

        client.reader._transport.pause_reading()
        sending = asyncio.create_task(write())
        assert await stalled(sending)
        assert stream.buffered_bytes <= limit
        client.reader._transport.resume_reading()
        for _ in range(count):
            assert (await client.frame()).payload == payload
        await sending
        client.send_close(1000)
        await run


async def test_a_client_that_takes_nothing_for_too_long_is_given_up() -> None:
    seen: list[str] = []

    async def handler(stream: Stream) -> None:
        try:
            while True:
                await stream.send_part(PayloadPart(bytes(100_000)))
        except StreamClosed as closed:
            seen.append(closed.reason)
            raise

    options = {"receive_buffer": 10_000, "stall_timeout": 0.1}
    async with streaming(handler, **options) as (stream, client, run):
        client.reader._transport.pause_reading()
        await run
        assert stream.buffered_bytes == 0
    assert seen == ["the client read nothing for too long"]


async def test_a_slow_client_is_not_given_up() -> None:
    sizes = (200_000, 500_000, 100_000)  # the third one waits until most of the rest is taken
    waited = 0.0

    async def handler(stream: Stream) -> None:
        nonlocal waited
        began = time.monotonic()
        for size in sizes:
            await stream.send_part(PayloadPart(bytes(size)))
        waited = time.monotonic() - began

    timeout = 0.5
    options = {"receive_buffer": 32_000, "send_buffer": 32_000, "stall_timeout": timeout}
    async with streaming(handler, **options) as (_, client, run):
        for _ in range(sum(sizes) // 20_000):
            await asyncio.sleep(timeout / 10)  # this client is slow
            await client.reader.readexactly(20_000)
        client.send_close(1000)
        assert (await client.rest()).endswith(struct.pack("!BBH", 0x88, 2, 1000))
        await run
    assert waited > timeout  # so it did wait, across one look at its progress at least


async def test_a_waiting_sender_hears_of_the_end() -> None:
    raised: list[StreamClosed] = []

    async def handler(stream: Stream) -> None:
        try:
            while True:
                await stream.send_part(PayloadPart(bytes(100_000)))
        except StreamClosed as closed:
            raised.append(closed)

    async with streaming(handler, receive_buffer=10_000) as (stream, client, run):
        client.reader._transport.pause_reading()
        await stalled(run)
        stream.close(1001, "the container is stopping")
        await until(lambda: raised)
        stream.abort()
        await run
    assert raised[0].code == 1001
