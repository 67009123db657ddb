"""Peers that do not take what they are sent: bounded memory, no one else held up, a named end."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol.limits import KIB, MAX_PART_BYTES, MIB, WRITE_HIGH_WATER
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, TEXT, frame
from tests.processes import ready_url
from tests.wire.peers import (
    ENDPOINT,
    MAX_SOCKET_READ,
    MSGPACK,
    RAW,
    RawClient,
    RawContainer,
    RunningGateway,
    Wire,
    eventually,
    soon,
    upgrade_request,
)

#: Socket buffers of those who do not read, so that the kernel takes little.
SMALL = 64 * KIB

#: What each stream is offered, and in parts of which size.
OFFERED = 64 * MIB
PART = MIB
STREAMS = 20

#: The most that the gateway holds for one stream that is stuck in one direction: the unsent bytes
#: at which it stops reading, the part with which it went over them, and what the last read of the
#: socket brought besides. A frame's header has 14 bytes.
BOUND = WRITE_HIGH_WATER + PART + 14 + MAX_SOCKET_READ

#: How much the process may grow for ``STREAMS`` of them. Twice as much again for the copies of a
#: part on its way through (as read, cut out, unmasked, masked), which an allocator keeps.
RSS_BOUND = 3 * STREAMS * BOUND

PART_UP = frame(BINARY, bytes(PART), mask=KEY)
PART_DOWN = frame(BINARY, bytes(PART))


async def offer(wire: Wire, part: bytes, total: int = OFFERED) -> None:
    """Write as fast as the other side takes it."""
    with suppress(ConnectionError):
        for _ in range(total // PART):
            wire.send(part)
            await wire.flush()
            await asyncio.sleep(0)  # drain() returns at once while there is room


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


def the_session(gateway: RunningGateway) -> Session:
    (session,) = gateway.gateway.streams.sessions
    return session


def stuck(session: Session) -> bool:
    """Whether one side is no longer read because the other does not take."""
    legs = (session.client, session.container)
    return not all(leg._connection.reading for leg in legs)


# --- Bounds, in this process, on both loops ------------------------------------------------------


@pytest.fixture
async def slow_container(anyio_backend: object) -> AsyncIterator[RawContainer]:
    """One whose sockets take little, and that reads only when the test does."""
    async with RawContainer(receive_buffer=SMALL) as container:
        yield container


def blocked_offers(gateway: RunningGateway, side: str, streams: list[tuple[Wire, Wire]]):
    """Offers to the side that does not read."""
    if side == "container":
        return [offer(client, PART_UP) for client, _ in streams]
    return [offer(model, PART_DOWN) for _, model in streams]


@pytest.mark.parametrize("side", ["container", "client"])
async def test_what_is_held_for_the_stalled_is_bounded(gateway_for, slow_container, side):
    gateway = await gateway_for(container=slow_container)
    streams = [await gateway.open(receive_buffer=SMALL) for _ in range(STREAMS)]
    sessions = gateway.gateway.streams.sessions
    most = 0

    def all_stuck() -> bool:
        nonlocal most
        most = max(most, *(session.buffered_bytes for session in sessions))
        return all(stuck(session) for session in sessions)

    async with background(*blocked_offers(gateway, side, streams)):
        await eventually(all_stuck)
    assert len(sessions) == STREAMS
    assert WRITE_HIGH_WATER < most <= BOUND
    taken = [session.from_client.bytes + session.from_container.bytes for session in sessions]
    assert max(taken) < OFFERED / 4


@pytest.mark.parametrize("side", ["container", "client"])
async def test_what_was_held_back_arrives_whole_and_in_order(gateway_for, slow_container, side):
    """More than all the buffers hold, in parts of uneven sizes."""
    gateway = await gateway_for(container=slow_container)
    client, model = await gateway.open(receive_buffer=SMALL)
    sender, receiver = (client, model) if side == "container" else (model, client)
    mask = KEY if side == "container" else None
    parts = [bytes([number]) * (number * 7919 % (200 * KIB)) for number in range(100)]

    async def send_all() -> None:
        for part in parts:
            sender.send(frame(BINARY, part, mask=mask))
            await sender.flush()
            await asyncio.sleep(0)

    async with background(send_all()):
        await eventually(lambda: stuck(the_session(gateway)))
        for part in parts:
            assert (await receiver.frame()).payload == part
    await eventually(lambda: not stuck(the_session(gateway)))
    assert the_session(gateway).buffered_bytes == 0


@pytest.mark.clause("1.3-3")
@pytest.mark.parametrize("side", ["container", "client"])
async def test_the_largest_part_reaches_a_slow_reader_whole(gateway_for, slow_container, side):
    gateway = await gateway_for(container=slow_container)
    client, model = await gateway.open(receive_buffer=SMALL)
    sender, receiver = (client, model) if side == "container" else (model, client)
    part = os.urandom(MIB) * (MAX_PART_BYTES // MIB)
    sender.send(frame(BINARY, part, mask=bytes(4) if side == "container" else None))
    await eventually(lambda: stuck(the_session(gateway)))
    held = the_session(gateway).buffered_bytes
    assert held <= WRITE_HIGH_WATER + MAX_PART_BYTES + 14 + MAX_SOCKET_READ
    seen = await receiver.frame()
    assert (seen.fin, seen.opcode) == (True, BINARY)
    assert hashlib.sha256(seen.payload).digest() == hashlib.sha256(part).digest()
    assert the_session(gateway).buffered_bytes == 0


@pytest.mark.parametrize("subprotocol", [RAW, MSGPACK])
async def test_both_sides_stuck_at_once_come_loose_again(gateway_for, slow_container, subprotocol):
    """A client that sends everything before it reads, and a container that does the same."""
    gateway = await gateway_for(container=slow_container)
    client, model = await gateway.open(subprotocol, receive_buffer=SMALL)
    up = PART_UP
    if subprotocol == MSGPACK:
        bin_16k = b"\xc5\x40\x00" + bytes(16 * KIB)
        message = b"\x81\xabPayloadPart\x81\xa5Bytes" + bin_16k
        up = frame(BINARY, message, mask=KEY) * 64
    total = 16 * MIB

    async with background(offer(client, up, total), offer(model, PART_DOWN, total)):
        session = the_session(gateway)
        await eventually(
            lambda: (
                not session.client._connection.reading and not session.container._connection.reading
            )
        )
        assert session.buffered_bytes <= 2 * BOUND
        count = 0
        while count < total // PART:
            count += (await client.frame()).opcode == BINARY
        received = 0
        while received < total:
            received += len((await model.frame()).payload)
        assert received == total
    assert session.state is SessionState.RELAYING


async def test_what_a_lost_container_had_said_still_comes(gateway_for):
    """It said it and left while the client was slow."""
    gateway = await gateway_for()
    client, model = await gateway.open(receive_buffer=SMALL)
    async with background(offer(model, PART_DOWN, 8 * MIB)):
        await eventually(lambda: stuck(the_session(gateway)))
        for _ in range(4):
            assert len((await client.frame()).payload) == PART
        while len(client.seen) < 8:
            await client.frame()
        model.end()
    seen = await client.frame()
    assert seen.close_reason.startswith("1006 ")


# --- Stalled, in time ----------------------------------------------------------------------------


@pytest.mark.clause("1.4-2", "1.5-8")
async def test_a_container_that_takes_nothing_is_named(gateway_for, slow_container, short_linger):
    gateway = await gateway_for(container=slow_container, policy=StreamPolicy(stall_timeout=0.3))
    client, model = await gateway.open()
    async with background(offer(client, PART_UP)):
        seen = (await client.until_close())[-1]
    assert seen.close_reason == "InternalStreamFailure the container took no byte for 0.3 s"
    assert gateway.causes() == {"container_stalled": 1}
    model.abort()


@pytest.mark.clause("1.4-2", "1.5-8")
async def test_a_client_that_takes_nothing_is_named(gateway_for, short_linger):
    gateway = await gateway_for(policy=StreamPolicy(stall_timeout=0.3))
    client, model = await gateway.open(receive_buffer=SMALL)
    async with background(offer(model, PART_DOWN)):
        seen = await model.frame()
    assert (seen.opcode, seen.close_code) == (CLOSE, 1011)
    assert seen.close_reason == "the client stalled"
    assert gateway.causes() == {"client_stalled": 1}
    client.abort()


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("side", ["container", "client"])
async def test_slow_is_not_stalled(gateway_for, slow_container, clock, side):
    """A little every four minutes, for hours."""
    policy = StreamPolicy(lifetime=1e6, ping_interval=1e6, client_ping_interval=1e6)
    gateway = await gateway_for(container=slow_container, policy=policy)
    client, model = await gateway.open(receive_buffer=SMALL)
    reader = model if side == "container" else client
    async with background(*blocked_offers(gateway, side, [(client, model)])):
        session = the_session(gateway)
        await eventually(lambda: stuck(session))
        leg = session.container if side == "container" else session.client
        for _ in range(10):
            taken = leg.taken_bytes()
            while leg.taken_bytes() == taken:
                assert await soon(reader.reader.read(64 * KIB))
                await asyncio.sleep(0)
            clock.advance(240.0)
        assert session.state is SessionState.RELAYING
        await eventually(lambda: stuck(session))
        clock.advance(700.0)
        assert session.ending.cause == f"{side}_stalled"


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("side", ["container", "client"])
async def test_liveness_kills_nobody_who_only_waits(gateway_for, slow_container, clock, side):
    """No pong comes from either peer, for none can: hours pass, and the stream goes on."""
    policy = StreamPolicy(lifetime=1e6, stall_timeout=1e6, ping_interval=1, client_ping_interval=1)
    gateway = await gateway_for(container=slow_container, policy=policy)
    client, model = await gateway.open(receive_buffer=SMALL)
    async with background(*blocked_offers(gateway, side, [(client, model)])):
        session = the_session(gateway)
        await eventually(lambda: stuck(session))
        # The side that does not take: its ping waits behind data. The other one is not read.
        clock.advance(10_000.0)
        assert session.state is SessionState.RELAYING


@pytest.mark.clause("1.4-2")
async def test_liveness_counts_again_once_data_flows(gateway_for, slow_container, clock):
    """From zero, and from when the ping was seen to have gone out behind the data."""
    policy = StreamPolicy(lifetime=1e6, stall_timeout=1e6, client_ping_interval=1e6)
    gateway = await gateway_for(container=slow_container, policy=policy)
    client, model = await gateway.open(receive_buffer=SMALL)
    session = the_session(gateway)
    async with background(offer(client, PART_UP, 8 * MIB)):
        await eventually(lambda: stuck(session))
        clock.advance(10_000.0)
        seen = [(await model.frame()).opcode for _ in range(9)]
    assert sorted(seen) == [BINARY] * 8 + [PING]
    await eventually(lambda: not stuck(session) and not session.buffered_bytes)
    clock.advance(1.0)
    clock.advance(359.9)
    assert session.state is SessionState.RELAYING
    assert [(await model.frame()).opcode for _ in range(5)] == [PING] * 5
    clock.advance(0.1)
    assert session.ending.cause == "container_unresponsive"


# --- A gateway of its own ------------------------------------------------------------------------


class GatewayProcess:
    """``partway serve`` with one endpoint."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def rss(self) -> int:
        """Its resident memory in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    async def metric(self, name: str) -> float:
        """The sum over a metric's labels."""
        client = await RawClient.connect(self.port)
        try:
            client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            page = (await client.response()).body.decode()
        finally:
            client.abort()
        return sum(
            float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        )


#: The command, but that each page of metrics says how things are, and not how they were a second
#: ago.
COMMAND = """
import sys
from partway.gateway.cli.main import main
from partway.gateway import status_routes as status
status.METRICS_AGE = 0
sys.exit(main())
"""
#: The same on asyncio's own loop, as where uvloop is not installed.
WITHOUT_UVLOOP = f"import sys; sys.modules['uvloop'] = None\n{COMMAND}"


@contextmanager
def gateway_process(
    container: RawContainer, config: Path, *, uvloop: bool
) -> Iterator[GatewayProcess]:
    config.write_text(
        f"""
        port = 0
        log_level = "error"
        [endpoints.{ENDPOINT}]
        url = "http://127.0.0.1:{container.port}"
        connect_timeout = 10.0  # 250 ms are short on a machine that has other work
        """
    )
    command = COMMAND if uvloop else WITHOUT_UVLOOP
    process = subprocess.Popen(
        [sys.executable, "-c", command, "serve", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield GatewayProcess(process, int(ready_url(process).rpartition(":")[2]))
        assert process.poll() is None, "it died"
    finally:
        process.kill()
        _, errors = process.communicate()
    assert errors == b"", errors.decode()


class Crowd:
    """Streams through a gateway in a process of its own; all peers are here."""

    def __init__(self, gateway: GatewayProcess, container: RawContainer) -> None:
        self.gateway = gateway
        self.container = container
        self.wires: list[Wire] = []

    async def open(self, receive_buffer: int | None = SMALL, subprotocol: str = RAW):
        client = await RawClient.connect(self.gateway.port, receive_buffer=receive_buffer)
        self.wires.append(client)
        await client.upgrade(upgrade_request(subprotocols=subprotocol))
        model = await self.container.stream()
        self.wires.append(model)
        return client, model

    async def pace(self, rounds: int = 100) -> float:
        """Median seconds of an echo's round trip, on a stream of its own."""
        client, model = await self.open()
        times = []
        for number in range(rounds):
            word = b"%d" % number
            began = time.perf_counter()
            client.send_frame(TEXT, word)
            assert (await model.frame()).payload == word
            model.send(frame(TEXT, word))
            assert (await client.frame()).payload == word
            times.append(time.perf_counter() - began)
        return statistics.median(times)


@pytest.fixture
async def crowd(
    slow_container: RawContainer, tmp_path: Path, anyio_backend: tuple[str, dict[str, bool]]
) -> AsyncIterator[Crowd]:
    uvloop = anyio_backend[1]["use_uvloop"]
    with gateway_process(slow_container, tmp_path / "gateway.toml", uvloop=uvloop) as gateway:
        crowd = Crowd(gateway, slow_container)
        yield crowd
        for wire in crowd.wires:
            wire.abort()


def keeps_its_pace(busy: float, idle: float) -> bool:
    """Generous, for machines with other work: what starves a stream takes seconds."""
    return busy <= 20 * idle + 0.2


async def quiet(value: Callable[[], Awaitable[float]]) -> float:
    """Wait until a number no longer changes; the number."""

    async def look() -> float:
        before, now = None, await value()
        while now != before:
            await asyncio.sleep(0.25)
            before, now = now, await value()
        return now

    return await soon(look(), "a number that stays")


@pytest.mark.parametrize("side", ["container", "client"])
async def test_memory_stays_flat_and_the_neighbour_keeps_its_pace(crowd, side):
    gateway = crowd.gateway
    idle = await crowd.pace()
    streams = [await crowd.open() for _ in range(STREAMS)]
    before = gateway.rss()
    async with background(*blocked_offers(gateway, side, streams)):
        busy = await crowd.pace()
        while await gateway.metric("partway_buffered_bytes") <= STREAMS * WRITE_HIGH_WATER:
            pass  # not all of them are stuck
        relayed = await quiet(lambda: gateway.metric("partway_part_bytes_total"))
        calm = await crowd.pace()
        held = await gateway.metric("partway_buffered_bytes")
        grown = gateway.rss() - before
    print(f"{side}: idle {idle * 1e3:.2f} ms, busy {busy * 1e3:.2f} ms, calm {calm * 1e3:.2f} ms")
    print(f"{side}: relayed {relayed / MIB:.1f} MiB, held {held / MIB:.1f}, RSS +{grown / MIB:.1f}")
    assert STREAMS * WRITE_HIGH_WATER < held <= STREAMS * BOUND
    assert relayed < STREAMS * OFFERED / 4
    assert grown <= RSS_BOUND
    assert keeps_its_pace(busy, idle)
    assert keeps_its_pace(calm, idle)


async def test_a_large_part_leaves_nothing_behind(crowd):
    """Streams that have each sent one, and then are idle, cost what idle streams cost."""
    before = crowd.gateway.rss()
    part = frame(BINARY, bytes(8 * MIB), mask=bytes(4))
    for _ in range(10):
        client, model = await crowd.open(receive_buffer=None)
        client.send(part)
        assert len((await model.frame()).payload) == 8 * MIB
    assert await crowd.gateway.metric("partway_buffered_bytes") == 0
    grown = crowd.gateway.rss() - before
    print(f"RSS +{grown / MIB:.1f} MiB after ten parts of 8 MiB")
    assert grown < 40 * MIB


async def discard(wire: Wire) -> None:
    while await wire.reader.read(MIB):
        pass


@pytest.mark.pairwise
@pytest.mark.parametrize("fragment", [b"", b"x"], ids=["empty", "one byte"])
@pytest.mark.parametrize("side", ["client", "container"])
async def test_a_flood_of_fragments_leaves_the_neighbour_its_pace(crowd, side, fragment):
    """Each is a part of its own, so they are relayed, and bounded by turns, not by a count."""
    idle = await crowd.pace()
    client, model = await crowd.open(receive_buffer=None)
    sender, reader = (client, model) if side == "client" else (model, client)
    mask = KEY if side == "client" else None
    sender.send(frame(BINARY, fragment, fin=False, mask=mask))
    flood = frame(CONTINUATION, fragment, fin=False, mask=mask) * 4096

    async def send_flood() -> None:
        with suppress(ConnectionError):
            while True:
                sender.send(flood)
                await sender.flush()
                await asyncio.sleep(0)

    async with background(send_flood(), discard(reader)):
        while await crowd.gateway.metric("partway_parts_total") < 20_000:
            pass
        busy = await crowd.pace()
    print(f"{side}, {fragment!r}: idle {idle * 1e3:.2f} ms, flooded {busy * 1e3:.2f} ms")
    assert await crowd.gateway.metric("partway_streams_open") == 3
    assert await crowd.gateway.metric("partway_buffered_bytes") <= 2 * BOUND
    assert keeps_its_pace(busy, idle)
