"""Peers that die, freeze, lie or leave: the documented end, and nothing left behind.

Each test runs inside :func:`unharmed`: when its fault is over, the gateway has no session, no
connection, no socket, no task and no buffer more than before it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakSet

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol.connections.websocket import FrameConnection
from partway.protocol.limits import KIB, MIB
from tests.conftest import open_sockets
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, TEXT, close, frame
from tests.processes import ready_url
from tests.wire.dialects import CLEAN, End, MsgpackDialect, Part
from tests.wire.peers import (
    MSGPACK,
    RAW,
    RawContainer,
    RunningGateway,
    eventually,
    upgrade_request,
)

pytestmark = pytest.mark.usefixtures("short_linger")

#: What a raw client sees of a container that is gone.
LOST = End(None, 4424, "1006 Abnormal Closure: the container's connection ended without a Close")


# --- Nothing left --------------------------------------------------------------------------------


class Watched:
    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.sessions: WeakSet[Session] = WeakSet()
        self.connections: WeakSet[FrameConnection] = WeakSet()
        self._started = gateway.gateway.streams.started
        gateway.gateway.streams.started = self._note

    def _note(self, session: Session, *whose: Any) -> None:
        self.sessions.add(session)
        self.connections.add(session.client._connection)
        self.connections.add(session.container._connection)
        self._started(session, *whose)

    @property
    def session(self) -> Session:
        """The one session. Not to be kept: it is to be gone after the fault."""
        (session,) = self.sessions
        return session

    def nothing_remains(self) -> bool:
        """Whether sessions and connections are gone with all that they held."""
        gc.collect()
        return not self.sessions and not self.connections

    async def ends(self, cause: str, streams: int = 1) -> None:
        """All streams end with this cause, and their legs go, whatever the peers hold open."""
        await eventually(lambda: self.gateway.causes() == {cause: streams})
        assert not self.gateway.gateway.streams.sessions
        await eventually(lambda: not any(session._legs_open for session in self.sessions))


@pytest.fixture(scope="module", autouse=True)
def _quick_collection() -> None:
    """What is there before these tests need not be looked through by each of them."""
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def unharmed(gateway: RunningGateway) -> AsyncIterator[Watched]:
    """The gateway is left as it was found, and still answers."""
    sockets, tasks = open_sockets(), asyncio.all_tasks()
    watched = Watched(gateway)
    gc.disable()  # a forgotten socket is not to be closed by chance
    try:
        yield watched
        await nothing_is_left(gateway, sockets, tasks)
    finally:
        gc.enable()
    await eventually(watched.nothing_remains)
    assert (await gateway.request(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).status == 200


async def nothing_is_left(
    gateway: RunningGateway, sockets: set[str], tasks: set[asyncio.Task[object]]
) -> None:
    """The peers end their side; the gateway then has what it had, and no more."""
    for client in gateway.clients:
        client.abort()
    for connection in gateway.container.connections:
        connection.abort()
    await eventually(lambda: open_sockets() <= sockets)
    await eventually(lambda: asyncio.all_tasks() <= tasks | {asyncio.current_task()})
    # A socket is closed some turns of the loop before its connection hears that it is lost.
    await eventually(lambda: gateway.gateway.ports.http1.open_connections == 0)
    await eventually(lambda: gateway.gateway.ports.http2.open_connections == 0)
    assert gateway.gateway.streams.idle
    gateway.clients.clear()
    gateway.container.connections.clear()


# --- A container that is a process ---------------------------------------------------------------


@pytest.fixture
def echo() -> Iterator[tuple[subprocess.Popen[bytes], Address]]:
    """An echo container that can be killed, and that is at the end."""
    command = [
        sys.executable,
        "-m",
        "partway.container",
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process, Address("127.0.0.1", int(ready_url(process).rpartition(":")[2]))
    finally:
        process.kill()
        process.communicate()


async def echoed(gateway: RunningGateway, subprotocol: str = RAW):
    """A client of the echo container's that has had its first echo."""
    client = await gateway.connect()
    await client.upgrade(upgrade_request(subprotocols=subprotocol))
    if subprotocol == RAW:
        client.send_frame(TEXT, b"hello")
    else:
        client.send(MsgpackDialect().part(Part(b"hello")))
    assert b"hello" in (await client.frame()).payload
    return client


@pytest.mark.clause("1.5-3")
async def test_killed(gateway_for, echo):
    process, address = echo
    gateway = await gateway_for(address=address)
    async with unharmed(gateway) as fault:
        raw, enveloped = await echoed(gateway), await echoed(gateway, MSGPACK)
        process.kill()
        assert (await raw.frame()).payload[2:].decode() == LOST.reason
        dialect = MsgpackDialect()
        end = await dialect.read_end(enveloped)
        assert end.event["ModelStreamError"]["ErrorCode"] == "1006"
        assert end.code == 4424
        await fault.ends("container_lost", 2)


@pytest.mark.clause("1.5-3")
async def test_killed_while_parts_are_on_their_way(gateway_for, echo):
    """Its kernel answers what it has not read with RST."""
    process, address = echo
    gateway = await gateway_for(address=address)
    async with unharmed(gateway) as fault:
        client = await echoed(gateway)
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(20):
            client.send_frame(BINARY, bytes(64 * KIB))
        await eventually(lambda: fault.session.from_client.bytes > MIB)
        process.kill()
        assert (await client.frame()).payload[2:].decode() == LOST.reason
        await fault.ends("container_lost")


@pytest.mark.clause("1.5-3", "1.5-12")
async def test_killed_while_it_is_to_close(gateway_for, echo):
    process, address = echo
    gateway = await gateway_for(address=address)
    async with unharmed(gateway) as fault:
        client = await echoed(gateway, MSGPACK)
        os.kill(process.pid, signal.SIGSTOP)
        dialect = MsgpackDialect()
        client.send(dialect.end())
        await eventually(lambda: fault.session.state is SessionState.CLOSING)
        process.kill()
        assert (await dialect.read_end(client)).event["ModelStreamError"]["ErrorCode"] == "1006"
        await fault.ends("container_lost")


@pytest.mark.clause("1.4-1", "1.5-8")
async def test_frozen(gateway_for, echo):
    process, address = echo
    policy = StreamPolicy(ping_interval=0.05)
    gateway = await gateway_for(address=address, policy=policy)
    async with unharmed(gateway) as fault:
        client = await echoed(gateway)
        os.kill(process.pid, signal.SIGSTOP)
        seen = await client.frame()
        assert seen.payload[2:] == (b"InternalStreamFailure the container answered none of 5 pings")
        await fault.ends("container_unresponsive")


@pytest.mark.clause("1.4-1")
async def test_frozen_for_a_while_it_lives_on(gateway_for, echo):
    process, address = echo
    gateway = await gateway_for(address=address, policy=StreamPolicy(ping_interval=0.2))
    async with unharmed(gateway) as fault:
        client = await echoed(gateway)
        os.kill(process.pid, signal.SIGSTOP)
        client.send_frame(TEXT, b"late")
        await eventually(lambda: fault.session.container._pings._liveness.unanswered >= 2)
        os.kill(process.pid, signal.SIGCONT)
        assert (await client.frame()).payload == b"late"
        client.send_close(1000)
        await fault.ends("client_finished")


@pytest.mark.clause("4-6")
async def test_frozen_before_the_handshake(gateway_for, echo):
    """Its kernel accepts, nobody answers."""
    process, address = echo
    os.kill(process.pid, signal.SIGSTOP)
    gateway = await gateway_for(address=address, policy=StreamPolicy(handshake_timeout=0.2))
    async with unharmed(gateway):
        answer = await gateway.request(upgrade_request())
        assert (answer.status, answer.json["OriginalStatusCode"]) == (424, 0)
        assert "no answer to the upgrade within 0.2 s" in answer.json["Message"]


# --- A container that cannot be reached ----------------------------------------------------------


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose queue of connections is full: the next one is not accepted."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        try:
            for _ in range(4):
                sock = socket.socket()
                waiting.append(sock)
                sock.settimeout(0.05)
                try:
                    sock.connect(server.getsockname())
                except TimeoutError:
                    yield server.getsockname()[1]
                    return
            raise AssertionError("the queue takes more than it should")
        finally:
            for sock in waiting:
                sock.close()


@pytest.mark.clause("4-6")
async def test_refusing(gateway_for):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gateway = await gateway_for(address=Address("127.0.0.1", port))
    async with unharmed(gateway):
        answer = await gateway.request(upgrade_request())
        assert (answer.status, answer.json["OriginalStatusCode"]) == (424, 0)
        assert "refused" in answer.json["Message"]


@pytest.mark.clause("4-6")
async def test_not_accepting_in_250_ms(gateway_for):
    with full_backlog() as port:
        gateway = await gateway_for(StreamPolicy(), address=Address("127.0.0.1", port))
        async with unharmed(gateway):
            before = time.monotonic()
            answer = await gateway.request(upgrade_request())
            assert time.monotonic() - before >= 0.25
            assert (answer.status, answer.json["OriginalStatusCode"]) == (424, 0)
            assert "no connection was accepted within 250 ms" in answer.json["Message"]


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 101 Swit",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        frame(TEXT, b"no handshake at all"),
        b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 20_000,
    ],
)
@pytest.mark.parametrize("leaves", ["end", "reset"])
async def test_no_handshake(gateway_for, container, answer, leaves):
    container.answer = lambda request: answer
    gateway = await gateway_for()
    async with unharmed(gateway):
        client = await gateway.connect()
        client.send(upgrade_request())
        stream = await container.stream()
        await stream.flush()
        getattr(stream, leaves)()
        refusal = await client.response()
        assert (refusal.status, refusal.json["OriginalStatusCode"]) == (424, 0)
        if leaves == "end":
            assert await stream.eof() == b""


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 20_000],
)
async def test_no_handshake_and_no_end_of_it(gateway_for, container, answer):
    """It is the gateway that leaves, and lets no socket lie about."""
    container.answer = lambda request: answer
    gateway = await gateway_for()
    async with unharmed(gateway):
        refusal = await gateway.request(upgrade_request())
        assert (refusal.status, refusal.json["OriginalStatusCode"]) == (424, 0)
        assert await (await container.stream()).eof() == b""


# --- A container that breaks off, or the rules ---------------------------------------------------

HALF_FRAMES = {
    "half a header": frame(BINARY, bytes(1000))[:1],
    "half a length": frame(BINARY, bytes(100_000))[:5],
    "half a payload": frame(BINARY, bytes(100_000))[:50_000],
    "half a message": frame(TEXT, b"half", fin=False),
    "half a ping": frame(PING, b"12345678")[:5],
}


@pytest.mark.clause("1.5-3")
@pytest.mark.parametrize("sent", HALF_FRAMES.values(), ids=HALF_FRAMES)
@pytest.mark.parametrize("leaves", ["end", "reset"])
async def test_dropping_in_the_middle(gateway_for, sent, leaves):
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open()
        model.send(frame(TEXT, b"whole"), sent)
        assert (await client.frame()).payload == b"whole"
        if sent == HALF_FRAMES["half a message"]:
            assert (await client.frame()).fin is False
        getattr(model, leaves)()
        assert (await client.frame()).payload[2:].decode() == LOST.reason
        await fault.ends("container_lost")


@pytest.mark.clause("1.5-3")
async def test_a_container_that_half_closes_is_lost_at_once(gateway_for):
    """Though it does not take what is on its way to it, and never would."""
    async with RawContainer(receive_buffer=4 * KIB) as container:
        gateway = await gateway_for(container=container, policy=StreamPolicy(high_water=16 * MIB))
        async with unharmed(gateway) as fault:
            client, model = await gateway.open()
            sent = 0
            while not fault.session.buffered_bytes:
                client.send_frame(BINARY, bytes(MIB))
                sent += 1
                await eventually(lambda: fault.session.from_client.parts == sent)  # noqa: B023 (called in its own round only)
            model.end()
            assert (await client.frame()).payload[2:].decode() == LOST.reason
            await fault.ends("container_lost")


ENDLESS = frame(BINARY, b"x" * 64 * KIB)

BREACHES = {
    "RSV bits": (frame(BINARY, b"x", rsv=4), 1002, "container_protocol_error"),
    "continues nothing": (frame(CONTINUATION, b"x"), 1002, "container_protocol_error"),
    "a message in a message": (
        frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"),
        1002,
        "container_protocol_error",
    ),
    "masked": (frame(BINARY, b"x", mask=KEY), 1002, "container_protocol_error"),
    "2^40 bytes": (
        frame(BINARY, announced=1 << 40, length_form=64),
        1009,
        "container_oversize",
    ),
    "2^63 bytes": (
        frame(BINARY, announced=1 << 63, length_form=64),
        1002,
        "container_protocol_error",
    ),
}


@pytest.mark.clause("1.5-4", "1.5-6")
@pytest.mark.parametrize("endless", [False, True], ids=["then silent", "then endless"])
@pytest.mark.parametrize(("sent", "code", "cause"), BREACHES.values(), ids=BREACHES)
async def test_breaking_the_rules(gateway_for, sent, code, cause, endless):
    """It is told, and then not listened to for ever."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open()
        # Read as it comes: behind it the gateway cuts, and what nobody has read by then is lost.
        told = asyncio.create_task(model.frame())
        model.send(sent)
        if endless:
            writing = asyncio.create_task(write_until_it_fails(model))
        seen = (await client.until_close())[-1]
        assert (seen.close_code, seen.close_reason[:4]) == (4424, str(code))
        assert (await told).close_code == code
        await fault.ends(cause)
        if endless:
            await asyncio.wait_for(writing, 5)


async def write_until_it_fails(model) -> None:
    try:
        while True:
            model.send(ENDLESS)
            await model.flush()
            await asyncio.sleep(0)  # drain() alone need not let others run
    except ConnectionError:
        pass


@pytest.mark.clause("1.3-3")
async def test_an_announced_giant_is_refused_from_its_header(gateway_for):
    """Nothing is allocated for it, and nothing waited for."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open()
        model.send(frame(BINARY, b"", announced=(16 << 20) + 1, length_form=64))
        assert (await client.frame()).close_reason.startswith("1009 ")
        await fault.ends("container_oversize")


async def test_what_came_before_the_fault_arrives(gateway_for):
    """Thousands of small parts in one read, more than one turn delivers, and then the end."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open()
        model.send(*(frame(BINARY, number.to_bytes(2, "big")) for number in range(5000)))
        model.end()
        frames = await client.until_close()
        assert [int.from_bytes(seen.payload, "big") for seen in frames[:-1]] == list(range(5000))
        assert frames[-1].close_reason == LOST.reason
        await fault.ends("container_lost")


async def test_many_streams_lose_their_container_at_once(gateway_for, container):
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        clients = [(await gateway.open())[0] for _ in range(50)]
        for connection in container.connections:
            connection.reset()
        for client in clients:
            assert (await client.frame()).payload[2:].decode() == LOST.reason
        await fault.ends("container_lost", 50)


# --- A client that vanishes ----------------------------------------------------------------------


@pytest.mark.clause("1.5-9", "1.5-13")
@pytest.mark.parametrize("sent", [b"", *HALF_FRAMES.values()], ids=["nothing", *HALF_FRAMES])
@pytest.mark.parametrize("leaves", ["end", "abort", "reset"])
@pytest.mark.parametrize("subprotocol", [RAW, MSGPACK])
async def test_a_client_that_vanishes(gateway_for, leaves, sent, subprotocol):
    """FIN with its socket still open, close(), and RST: all without a Close."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open(subprotocol)
        if sent:
            client.send(b"\x82\xff", MIB.to_bytes(8, "big"), KEY, sent)  # never whole
            await client.flush()
        getattr(client, leaves)()
        seen = await model.frame()
        assert (seen.opcode, seen.close_code) == (CLOSE, 1001)
        assert seen.close_reason == "client lost"
        await fault.ends("client_lost")


async def test_a_client_that_vanishes_under_a_burst(gateway_for):
    """While the container sends and is held back."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client, model = await gateway.open(receive_buffer=4 * KIB)
        writing = asyncio.create_task(write_until_it_fails(model))
        await eventually(lambda: not fault.session.container._connection.reading)
        client.reset()
        await fault.ends("client_lost")
        await asyncio.wait_for(writing, 5)


@pytest.mark.clause("1.4-4")
async def test_a_client_that_is_silently_gone(gateway_for):
    """No FIN, no RST, no Pong: a laptop that was shut."""
    policy = StreamPolicy(client_ping_interval=0.05)
    gateway = await gateway_for(policy=policy)
    async with unharmed(gateway) as fault:
        client, model = await gateway.open()
        seen = await model.frame()
        assert (seen.close_code, seen.close_reason) == (1001, "client unresponsive")
        await fault.ends("client_unresponsive")
        assert [seen.opcode for seen in await client.until_close()] == [PING, PING, CLOSE]


@pytest.mark.parametrize("leaves", ["end", "abort", "reset"])
async def test_a_client_that_leaves_during_the_handshake(gateway_for, container, leaves, caplog):
    """The container is let go at once, not in the 60 s it has; and nothing of ours has failed."""
    container.answer = lambda request: None
    gateway = await gateway_for()
    async with unharmed(gateway):
        client = await gateway.connect()
        client.send(upgrade_request())
        stream = await container.stream()
        getattr(client, leaves)()
        assert await stream.eof() == b""
        assert gateway.causes() == {}
    assert [record.levelname for record in caplog.records if record.levelno > 30] == []


@pytest.mark.parametrize("last", ["reset", "end"])
async def test_a_client_whose_last_words_come_with_its_request(gateway_for, last):
    """Frames behind the upgrade request are early; the end may be too."""
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        client = await gateway.connect()
        client.send(
            upgrade_request(subprotocols=RAW),
            frame(TEXT, b"early", mask=KEY),
            close(1000, mask=KEY),
        )
        model = await gateway.container.stream()
        assert (await model.frame()).payload == b"early"
        assert (await model.frame()).close_code == 1001
        getattr(client, last)()
        model.send(close(1001))
        await fault.ends("client_finished")


# --- Garbage at the port -------------------------------------------------------------------------

GARBAGE = {
    "nothing": b"",
    "zeroes": bytes(1000),
    "0xff": b"\xff" * 1000,
    "frames": frame(TEXT, b"hello", mask=KEY),
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(100),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"),
    "half of HTTP/2": b"PRI * HTTP/2.0\r\n",
    "HTTP/0.9": b"GET /\r\n",
    "half a request": upgrade_request()[:60],
    "an endless header": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
    "an endless line": b"G" * 100_000,
    "thousands of headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000,
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("leaves", ["end", "reset"])
async def test_garbage_at_the_port(gateway_for, sent, leaves, caplog):
    gateway = await gateway_for()
    async with unharmed(gateway):
        client = await gateway.connect()
        await eventually(lambda: gateway.gateway.ports.listener.opening)
        client.send(sent)
        if len(sent) < 10_000:
            await client.flush()
        getattr(client, leaves)()
        if leaves == "end":
            await client.eof()
        assert gateway.causes() == {}
    assert [record for record in caplog.records if record.levelno > 30] == []


# --- Peers that come back ------------------------------------------------------------------------


async def test_after_the_fault_the_next_stream_works(gateway_for):
    gateway = await gateway_for()
    async with unharmed(gateway) as fault:
        _, model = await gateway.open()
        model.reset()
        await fault.ends("container_lost")
        client, model = await gateway.open(MSGPACK)
        dialect = MsgpackDialect()
        client.send(dialect.part(Part(b"again")), dialect.end())
        assert (await model.frame()).payload == b"again"
        assert (await model.frame()).close_code == 1000
        model.send(close(1000))
        assert await dialect.read_end(client) == CLEAN
        client.send_close(1000)
        assert await client.eof() == b""
