"""HTTP/2's flow control: bounds hold, the live never wait, ends are named (clauses 2.3-6, 2.6)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

import pytest
from hyperframe.frame import DataFrame, SettingsFrame, WindowUpdateFrame

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol import limits
from partway.protocol.limits import KIB, LINGER_TIMEOUT, MAX_PART_BYTES, MIB
from tests.frame_factory import BINARY, CLOSE, close, frame
from tests.wire.event_dialect import as_event
from tests.wire.event_messages import END, EventMessage, part_event
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import RawHttp2Stream, bidirectional_request
from tests.wire.peers import MAX_SOCKET_READ, ModelStream, RawContainer, RunningGateway, eventually

NOBODY = 1e9  # a time that never comes
SMALL = 64 * KIB
#: What HTTP/2 gives a stream, and what the gateway gives one that is open.
OPENING = 65_535
WINDOW = 256 * KIB
CONNECTION = 16 * MIB
#: Connection credit comes back in steps of this size.
STEP = CONNECTION // 4
#: An event's headers and framing, at most.
AROUND = 256

INITIAL_WINDOW = SettingsFrame.INITIAL_WINDOW_SIZE
POLICY = StreamPolicy(ping_interval=NOBODY, http2_ping_interval=NOBODY)


async def connect(gateway: RunningGateway, window: int = OPENING, **options) -> RawHttp2Client:
    """A connection whose streams have this window, and that itself has a large one."""
    client = await RawHttp2Client.connect(
        gateway.port, settings={INITIAL_WINDOW: window}, **options
    )
    gateway.clients.append(client)
    client.start_reading()
    await client.ready()
    client.give_credit(2**30)
    return client


async def open_on(
    gateway: RunningGateway, client: RawHttp2Client
) -> tuple[RawHttp2Stream, ModelStream]:
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    await client.settled()  # its whole window has come
    return stream, model


async def opened(
    gateway: RunningGateway, window: int = OPENING, **options
) -> tuple[RawHttp2Stream, ModelStream, Session]:
    stream, model = await open_on(gateway, await connect(gateway, window, **options))
    (session,) = gateway.gateway.streams.sessions
    return stream, model, session


@pytest.fixture
async def slow_container(anyio_backend: object) -> AsyncIterator[RawContainer]:
    """One whose sockets take little, and that reads only when the test does."""
    async with RawContainer(receive_buffer=SMALL) as container:
        yield container


@pytest.fixture
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response that does not move is given up soon."""
    monkeypatch.setattr(limits, "LINGER_TIMEOUT", 0.1)


def updates(client: RawHttp2Client, stream_id: int) -> list[int]:
    """Credit that the gateway has given so far, each WINDOW_UPDATE by itself."""
    return [
        each.window_increment
        for each in client.seen
        if isinstance(each, WindowUpdateFrame) and each.stream_id == stream_id
    ]


@asynccontextmanager
async def background(*awaitables: Awaitable[object]) -> AsyncIterator[None]:
    """Run them meanwhile; whatever they are at then, end them."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def offer(model: ModelStream, part: bytes, total: int) -> None:
    """Frames from the container, as fast as they are taken."""
    with suppress(ConnectionError):
        for _ in range(total // len(part)):
            model.send(frame(BINARY, part))
            await model.flush()
            await asyncio.sleep(0)


async def echo(model: ModelStream) -> None:
    """Send each frame back, and read no further before it is taken; answer a Close."""
    with suppress(ConnectionError, EOFError):
        while True:
            found = await model._read_frame()  # without a limit of time
            if found.opcode == CLOSE:
                model.send(close(1000))
                return
            model.send(frame(found.opcode, found.payload))
            await model.flush()


@contextmanager
def watched(gateway: RunningGateway) -> Iterator[Callable[[], int]]:
    """The most that any one stream has held so far, looked at all the time."""
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            for session in gateway.gateway.streams.sessions:
                most = max(most, session.buffered_bytes)
            await asyncio.sleep(0)

    looking = asyncio.ensure_future(look())
    try:
        yield lambda: most
    finally:
        looking.cancel()


def bound(event: int, policy: StreamPolicy = POLICY) -> int:
    """The most that is held for one stream in one direction."""
    return policy.high_water + event + AROUND + WINDOW + MAX_SOCKET_READ


async def until_stuck(stream: RawHttp2Stream) -> None:
    """The client has used its credit up, and no more comes."""
    while True:
        await eventually(lambda: stream.credit == 0)
        given = len(updates(stream.client, stream.stream_id))
        await stream.client.settled()
        await asyncio.sleep(0.02)
        if given == len(updates(stream.client, stream.stream_id)):
            return


# --- Credit for what the client sends ------------------------------------------------------------


@pytest.mark.clause("2.6-2")
async def test_before_the_head_a_stream_has_the_window_of_the_rfc(gateway_for):
    """All of 80 together have brought more than the connection's credit is given back for."""
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await connect(gateway)
        streams = [client.request(bidirectional_request()) for _ in range(80)]
        for stream in streams:
            stream.send(bytes(MIB))
        await client.settled()
        assert [stream.unsent for stream in streams] == [MIB - OPENING] * 80
        assert [updates(client, stream.stream_id) for stream in streams] == [[]] * 80
        # The first is for the connection's own window, which is larger than the RFC's.
        first, *given = updates(client, 0)
        assert first == CONNECTION - OPENING
        assert 80 * OPENING - STEP < sum(given) <= 80 * OPENING
        await eventually(lambda: len(container.connections) == 80)


@pytest.mark.clause("2.6-1", "2.6-2")
async def test_only_stream_credit_is_withheld_while_the_container_takes_nothing(
    gateway_for, slow_container
):
    gateway = await gateway_for(POLICY, container=slow_container)
    stream, model, session = await opened(gateway)
    client = stream.client
    assert updates(client, 1) == [WINDOW - OPENING]
    event = part_event(os.urandom(30_000))
    with watched(gateway) as most:
        stream.send(event * 400)  # 12 MB: more than the sockets hold
        await until_stuck(stream)
        assert 0 < most() <= bound(30_000)
    given, sent = sum(updates(client, 1)), 400 * len(event) - stream.unsent
    assert sent == OPENING + given  # used up to the last byte
    first, *returned = updates(client, 0)
    assert first + sum(returned) > CONNECTION - OPENING + sent - STEP  # the connection's is not
    await client.settled()
    for _ in range(400):
        assert len((await model.frame()).payload) == 30_000
    await client.until(lambda: stream.unsent == 0, "credit")
    assert session.buffered_bytes == 0
    assert session.state is SessionState.RELAYING


@pytest.mark.clause("2.6-2")
async def test_credit_comes_in_steps(gateway_for):
    """A WINDOW_UPDATE for each read would be as many frames as the client sends."""
    gateway = await gateway_for(POLICY)
    stream, model, _ = await opened(gateway)
    event = part_event(bytes(SMALL))
    for _ in range(100):
        stream.send(event)
        assert len((await model.frame()).payload) == SMALL
    await stream.client.settled()
    given, sent = updates(stream.client, 1), 100 * len(event)
    assert OPENING + sum(given) > sent + WINDOW - OPENING
    assert min(given) >= OPENING // 2
    assert len(updates(stream.client, 0)) <= 1 + sent // STEP


@pytest.mark.clause("2.6-2")
@pytest.mark.parametrize("how", ["refused", "ended"])
async def test_discarded_data_gives_the_connection_its_credit_back(gateway_for, how):
    """Of streams that the gateway has ended; the client had not heard of it."""
    gateway = await gateway_for(max_streams_per_connection=1)
    client = await connect(gateway)
    stream, model = await open_on(gateway, client)
    before = client.credit
    if how == "refused":
        streams = [client.request(bidirectional_request()) for _ in range(80)]
        for each in streams:
            each.overrun(bytes(OPENING))
        sent = 80 * OPENING
        for each in streams:
            assert await each.ended() == ("RST_STREAM(REFUSED_STREAM)",)
    else:
        model.send(close(4000))
        assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
        sent = 320 * 16_384
        client.send_frame(*[DataFrame(1, bytes(16_384))] * 320)
        client.credit -= sent
    await client.settled()
    assert before - STEP < client.credit <= before
    assert client.goaway is None


@pytest.mark.clause("2.6-2")
async def test_padding_counts(gateway_for):
    gateway = await gateway_for(POLICY)
    stream, model, _ = await opened(gateway)
    event = part_event(b"x" * 100)
    for _ in range(1000):
        stream.client.send_frame(DataFrame(1, event, pad_length=255, flags=["PADDED"]))
        assert len((await model.frame()).payload) == 100
    await stream.client.settled()
    sent = 1000 * (len(event) + 256)
    assert OPENING + sum(updates(stream.client, 1)) - sent > WINDOW - OPENING


@pytest.mark.clause("2.6-3")
@pytest.mark.parametrize("reads", [True, False], ids=["a quick container", "a slow one"])
async def test_an_event_larger_than_any_window_goes_up(gateway_for, slow_container, reads):
    gateway = await gateway_for(POLICY, container=slow_container)
    stream, model, session = await opened(gateway)
    payload = os.urandom(MIB) * (MAX_PART_BYTES // MIB)
    with watched(gateway) as most:
        stream.send(part_event(payload), part_event(b"next"))
        if not reads:
            await eventually(lambda: session.from_client.parts > 0)
        seen = await model.frame()
        assert hashlib.sha256(seen.payload).digest() == hashlib.sha256(payload).digest()
        assert (await model.frame()).payload == b"next"
        assert most() <= bound(MAX_PART_BYTES)
    assert session.buffered_bytes == 0


# --- Windows of the client -----------------------------------------------------------------------


@pytest.mark.clause("2.6-1", "2.6-3")
async def test_an_event_larger_than_the_clients_window_comes_down(gateway_for):
    """16 MiB on 64 KiB: a thousand frames, none of which costs what the whole does."""
    gateway = await gateway_for(POLICY)
    stream, model, session = await opened(gateway)
    mebibyte = os.urandom(MIB)

    async def cost(*parts: bytes) -> float:
        """CPU time that they take on their way."""
        began = time.process_time()
        model.send(*[frame(BINARY, part) for part in parts])
        for part in parts:
            payload = (await stream.event()).payload
            assert hashlib.sha256(payload).digest() == hashlib.sha256(part).digest()
        return time.process_time() - began

    small = await cost(*[mebibyte] * 16)
    with watched(gateway) as most:
        large = await cost(mebibyte * 16)
        assert most() <= bound(MAX_PART_BYTES)
    assert large < 2 * small + 0.1
    assert session.buffered_bytes == 0


async def test_windows_are_used_up_and_never_overrun(gateway_for):
    """The client's own count objects otherwise."""
    gateway = await gateway_for(POLICY)
    stream, model, session = await opened(gateway, 20_000, auto_window=False)
    async with background(offer(model, bytes(30_000), 4 * MIB)):
        await eventually(lambda: stream.window == 1024)
        stream.give_credit(5000)
        await eventually(lambda: stream.window == 1024)
        # A change of the initial window changes every stream's (RFC 9113 §6.9.2).
        stream.client.send_frame(SettingsFrame(0, settings={INITIAL_WINDOW: 100_000}))
        stream.window += 80_000
        await eventually(lambda: stream.window == 1024)
        stream.client.send_frame(SettingsFrame(0, settings={INITIAL_WINDOW: 50_000}))
        await stream.client.settled()
        stream.window -= 50_000  # below zero now
        await stream.client.settled()
        assert stream.window == 1024 - 50_000
        stream.window += 49_976  # as much as to be at a thousand again
        stream.client.send_frame(WindowUpdateFrame(1, window_increment=49_976))
        await stream.client.settled()
        assert stream.window == 1000
    assert session.buffered_bytes <= bound(30_000)


async def test_the_connections_window_is_shared_in_turns(gateway_for):
    gateway = await gateway_for(POLICY)
    client = await RawHttp2Client.connect(
        gateway.port, settings={INITIAL_WINDOW: 2**31 - 1}, auto_window=False
    )
    gateway.clients.append(client)
    client.start_reading()
    pairs = [await open_on(gateway, client) for _ in range(4)]
    async with background(*(offer(model, bytes(30_000), 4 * MIB) for _, model in pairs)):
        for _ in range(3):
            await eventually(lambda: client.window == 0)
            client.give_credit(4 * 65_536)
        await eventually(lambda: client.window == 0)
    taken = [2**31 - 1 - stream.window for stream, _ in pairs]
    assert sum(taken) == OPENING + 3 * 4 * 65_536
    # The first had the window to itself at the beginning.
    assert min(taken) >= 3 * 65_536 - 2 * 16_384


# --- Held back for the exception -----------------------------------------------------------------


async def rest_of(stream: RawHttp2Stream) -> list[EventMessage]:
    """What came, without giving credit for it."""
    events = []
    while (event := await stream.event()) is not END:
        events.append(event)
    return events


async def stalled(
    gateway: RunningGateway, window: int, part: int
) -> tuple[RawHttp2Stream, ModelStream]:
    """A stream whose client gives no credit, with more to send than its window has."""
    stream, model, session = await opened(gateway, window, auto_window=False)
    for _ in range(400_000 // (part + 100) + 1 + window // (part + 100)):
        model.send(frame(BINARY, bytes(part)))
    await eventually(lambda: not session.container._connection.reading)
    await stream.client.settled()
    return stream, model


@pytest.mark.clause("2.3-6", "1.5-8")
@pytest.mark.parametrize("ended", [False, True], ids=["input open", "input ended"])
@pytest.mark.parametrize(
    ("window", "part"),
    [(16_384, 0), (16_384, 1000), (16_384, 3900), (65_535, 160), (65_535, 16_000), (MIB, 50_000)],
)
async def test_the_exception_fits_a_window_that_is_used_up(gateway_for, clock, window, part, ended):
    """Whole events, then the exception, whole too: an event is not begun that would not fit."""
    gateway = await gateway_for(replace(POLICY, input_end="drain"))
    stream, model = await stalled(gateway, window, part)
    if ended:
        stream.end()
        await stream.client.settled()
    assert 1024 <= stream.window < 1024 + part + AROUND
    clock.advance(330.0)
    assert gateway.causes() == {"client_stalled": 1}
    clock.advance(LINGER_TIMEOUT)
    *parts, last = [as_event(each) for each in await rest_of(stream)]
    assert last == {"InternalStreamFailure": {"Message": "the client took no byte for 300 s"}}
    assert {len(each["PayloadPart"]["Bytes"]) for each in parts} == {part}
    told = () if ended else ("RST_STREAM(NO_ERROR)",)
    assert await stream.ended() == ("END_STREAM", *told)
    model.abort()


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("window", [0, 1, 100, 16_383])
async def test_of_a_small_window_nothing_is_held_back(gateway_for, clock, window):
    """The exception finds no place, and the end says that the response is not whole."""
    gateway = await gateway_for(POLICY)
    stream, model = await stalled(gateway, window, 1000)
    assert stream.window == 0
    clock.advance(330.0)
    assert gateway.causes() == {"client_stalled": 1}
    clock.advance(LINGER_TIMEOUT)
    assert await stream.ended() == ("RST_STREAM(INTERNAL_ERROR)",)
    model.abort()


@pytest.mark.clause("2.3-6")
async def test_no_exception_follows_half_an_event(gateway_for, clock):
    """One larger than a quarter of the window is begun, or it might wait for ever."""
    gateway = await gateway_for(POLICY)
    stream, model = await stalled(gateway, OPENING, 17_000)
    assert stream.window == 1024
    clock.advance(330.0)
    clock.advance(LINGER_TIMEOUT)
    assert await stream.ended() == ("RST_STREAM(INTERNAL_ERROR)",)
    model.abort()


@pytest.mark.clause("2.3-6", "1.5-3")
async def test_the_models_own_error_takes_the_place_of_what_is_not_taken(gateway_for, clock):
    gateway = await gateway_for(replace(POLICY, high_water=64 * MIB))
    stream, model, session = await opened(gateway, auto_window=False)
    model.send(*[frame(BINARY, bytes(1000))] * 200)
    await eventually(lambda: session.from_container.parts == 200)
    await stream.client.settled()
    before = stream.window
    model.abort()
    await eventually(lambda: gateway.causes() == {"container_lost": 1})
    await stream.client.settled()
    assert stream.window == before  # parts come first
    clock.advance(LINGER_TIMEOUT)
    last = as_event((await rest_of(stream))[-1])
    assert last["ModelStreamError"]["ErrorCode"] == "1006"
    assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")


@pytest.mark.clause("2.3-6", "1.5-13")
async def test_a_clean_end_that_is_not_taken_is_none(gateway_for, clock):
    gateway = await gateway_for(replace(POLICY, normal_close="end", high_water=64 * MIB))
    stream, model, session = await opened(gateway, auto_window=False)
    model.send(*[frame(BINARY, bytes(1000))] * 200, close(1000))
    await eventually(lambda: gateway.causes() == {"model_closed": 1})
    clock.advance(LINGER_TIMEOUT)
    *parts, last = [as_event(each) for each in await rest_of(stream)]
    message = "the client took no byte for 5 s after the end; parts are missing"
    assert last == {"InternalStreamFailure": {"Message": message}}
    assert 0 < len(parts) < 200
    assert session.buffered_bytes == 0


@pytest.mark.clause("1.5-13", "2.3-6")
async def test_who_takes_the_rest_slowly_gets_all_of_it(gateway_for, clock):
    gateway = await gateway_for(POLICY)
    stream, model = await stalled(gateway, OPENING, 1000)
    model.abort()
    while not stream.answered:
        stream.give_credit(20_000)
        await stream.client.settled()
        clock.advance(LINGER_TIMEOUT)
    *parts, last = [as_event(each) for each in await rest_of(stream)]
    assert last["ModelStreamError"]["ErrorCode"] == "1006"
    assert {len(each["PayloadPart"]["Bytes"]) for each in parts} == {1000}


# --- Clients that do not read --------------------------------------------------------------------


@pytest.mark.clause("2.6-1", "1.4-2", "1.5-8")
@pytest.mark.parametrize("window", [0, OPENING, MIB])
async def test_a_window_that_never_opens(gateway_for, short_linger, window):
    gateway = await gateway_for(StreamPolicy(stall_timeout=0.3))
    stream, model, session = await opened(gateway, window, auto_window=False)
    with watched(gateway) as most:
        async with background(offer(model, bytes(SMALL), 64 * MIB)):
            last = await model.frame()
        assert (last.opcode, last.close_code) == (CLOSE, 1011)
        assert last.close_reason == "the client stalled"
        assert most() <= bound(SMALL)
    assert gateway.causes() == {"client_stalled": 1}
    # Where a part is a small one beside the window none is begun in vain, and the exception fits.
    fits = ("END_STREAM", "RST_STREAM(NO_ERROR)")
    assert await stream.ended() == (fits if window == MIB else ("RST_STREAM(INTERNAL_ERROR)",))
    assert session.from_container.bytes < 16 * MIB


@pytest.mark.clause("2.6-4", "1.4-2", "1.5-8")
@pytest.mark.parametrize("part", [1000, SMALL])
async def test_64_mib_sent_before_anything_is_read(gateway_for, short_linger, part):
    """The container sends back what it gets, so in the end nobody can move: that is named."""
    gateway = await gateway_for(StreamPolicy(stall_timeout=0.3))
    stream, model, _ = await opened(gateway, auto_window=False)
    event = part_event(os.urandom(part))
    with watched(gateway) as most:
        async with background(echo(model)):
            stream.send(event * (64 * MIB // len(event)))
            ends = await stream.ended()
        assert most() <= 2 * bound(part)
    (cause,) = gateway.causes()
    assert cause in ("client_stalled", "container_stalled")
    assert stream.unsent > 32 * MIB
    if part == SMALL:
        assert ends == ("RST_STREAM(INTERNAL_ERROR)",)
    else:
        assert ends == ("END_STREAM", "RST_STREAM(NO_ERROR)")
        (message,) = as_event((await rest_of(stream))[-1])["InternalStreamFailure"].values()
        assert message.endswith(" took no byte for 0.3 s")
    assert not gateway.gateway.streams.sessions


@pytest.mark.clause("2.6-4")
async def test_everything_sent_before_anything_is_read_where_the_container_holds_it(
    gateway_for, anyio_backend
):
    """32 MiB up, then 32 MiB down (8 where the loop is uvloop, to save the time)."""
    size = 8 if anyio_backend[1]["use_uvloop"] else 32
    gateway = await gateway_for(POLICY)
    stream, model, session = await opened(gateway)
    event = part_event(os.urandom(MIB))
    with watched(gateway) as most:
        sending = asyncio.ensure_future(stream.send_data(event * size))
        held = [(await model.frame()).payload for _ in range(size)]
        await sending
        stream.end()
        assert (await model.frame()).close_code == 1000
        async with background(offer_all(model, held)):
            for payload in held:
                assert (await stream.event()).payload == payload
            assert await stream.event() is END
        assert most() <= 2 * bound(MIB)
    assert await stream.ended() == ("END_STREAM",)
    assert gateway.causes() == {"completed": 1}
    assert session.buffered_bytes == 0


async def offer_all(model: ModelStream, payloads: list[bytes]) -> None:
    """Frames, then a Close."""
    for payload in payloads:
        model.send(frame(BINARY, payload))
        await model.flush()
    model.send(close(1000))


# --- One beside the others -----------------------------------------------------------------------

LIVE = 20


async def pace(pairs: list[tuple[RawHttp2Stream, ModelStream]], rounds: int) -> list[float]:
    """Round trips through all of them in turn, in seconds of this process's work."""
    times = []
    for number in range(rounds):
        for stream, model in pairs:
            word = b"%d" % number
            began = time.process_time()
            stream.send(part_event(word))
            assert (await model.frame()).payload == word
            model.send(frame(BINARY, word))
            assert (await stream.event()).payload == word
            times.append(time.process_time() - began)
    return times


@pytest.mark.clause("2.6-2", "1.4-2")
@pytest.mark.parametrize("side", ["container", "client"])
async def test_a_stalled_stream_beside_20_live_ones(
    gateway_for, slow_container, short_linger, clock, side
):
    """On one connection: what is held for it is bounded, they keep their pace, its end is named."""
    gateway = await gateway_for(StreamPolicy(stall_timeout=0.6), container=slow_container)
    client = await connect(gateway)
    live = [await open_on(gateway, client) for _ in range(LIVE)]
    alone = await pace(live, 10)
    stuck, model = await open_on(gateway, client)
    (session,) = (
        each for each in gateway.gateway.streams.sessions if each.request_id == id_of(model)
    )
    with watched(gateway) as most:
        offering = []
        if side == "container":
            stuck.send(part_event(bytes(SMALL)) * 1000)
            await eventually(lambda: not session.client._reading)
        else:
            # Nobody reads this stream's events, so it gets no credit.
            offering = [offer(model, bytes(SMALL), 64 * MIB)]
        async with background(*offering):
            beside = await pace(live, 10)
            while session.state is SessionState.RELAYING:
                clock.advance(0.1)
                beside += await pace(live, 1)
        assert most() <= bound(SMALL)
    assert statistics.median(beside) < 10 * statistics.median(alone) + 0.005
    assert max(beside) < 0.5
    assert gateway.causes() == {f"{side}_stalled": 1}
    assert session.ending is not None
    message = f"the {side} took no byte for 0.6 s"
    assert session.ending.error is not None
    assert session.ending.error.message == message
    await pace(live, 2)
    clock.advance(LINGER_TIMEOUT)  # that of its last words, which nobody takes either
    assert await stuck.ended() in (
        ("END_STREAM", "RST_STREAM(NO_ERROR)"),
        ("RST_STREAM(INTERNAL_ERROR)",),
    )
    model.abort()


def id_of(model: ModelStream) -> str | None:
    """The stream's request id."""
    return model.header("x-amzn-sagemaker-request-id")
