"""An intermediary without faults: nothing that passes is changed, and observers are told of it."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.intermediary.connection_side import Watch
from partway.gateway.workbench.intermediary.faults import CloseEarly, Rule
from partway.gateway.workbench.intermediary.observer import Sender, UpgradeRequest
from partway.gateway.workbench.intermediary.relay import Intermediary
from partway.protocol.limits import KIB, MIB
from tests.conftest import open_sockets, running_tasks
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, close, frame
from tests.gateway.workbench.intermediary.conftest import Seen
from tests.wire.peers import (
    ENDPOINT,
    RawClient,
    RawContainer,
    eventually,
    soon,
    switching,
    upgrade_request,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

PARTS = [
    frame(TEXT, "héllo".encode()),
    frame(BINARY, bytes(range(256))),
    frame(TEXT),
    frame(TEXT, b"\xc3", fin=False),
    frame(CONTINUATION, fin=False),
    frame(CONTINUATION, b"\xa9"),
    frame(BINARY, b"x" * MIB),
]


@pytest.fixture
async def straight(container, anyio_backend):
    """Connections through an intermediary alone, where a test is the gateway itself."""
    intermediary = Intermediary("model", Address("127.0.0.1", container.port))
    address = await intermediary.start()
    clients = []

    async def connect(**options) -> RawClient:
        clients.append(await RawClient.connect(address.port, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.abort()
    await intermediary.aclose()


async def opened(straight, container):
    """A stream without a gateway: its two ends."""
    client = await straight()
    await client.upgrade(upgrade_request("/invocations-bidirectional-stream"))
    return client, await container.stream()


# --- What passes ---------------------------------------------------------------------------------


async def test_parts_pass_both_ways_through_a_gateway(between):
    client, model = await between.open()
    for part in PARTS:
        model.send(part)
        assert await client.frame() == (await _as_read(part))
    for opcode, payload, fin in [(TEXT, b"hi", False), (CONTINUATION, b"", False)]:
        client.send_frame(opcode, payload, fin=fin)
        got = await model.frame()
        assert (got.fin, got.opcode, got.masked, got.payload) == (fin, opcode, True, payload)
    client.send_frame(CONTINUATION, b"y" * MIB)
    assert (await model.frame()).payload == b"y" * MIB


async def _as_read(data: bytes):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    return await RawClient(reader, None).frame()


async def test_bytes_are_not_touched_in_either_direction(straight, container):
    """Masking keys, lengths in odd forms, and what is no frame at all."""
    client, model = await opened(straight, container)
    down = b"".join(
        [*PARTS, frame(PING, b"p"), frame(TEXT, b"long", length_form=64), b"\xffnonsense"]
    )
    up = b"".join(frame(BINARY, bytes([n]) * n, mask=KEY) for n in range(200)) + b"\x00nonsense"
    model.send(down)
    client.send(up)
    assert await soon(client.reader.readexactly(len(down))) == down
    assert await soon(model.reader.readexactly(len(up))) == up


async def test_the_container_is_asked_what_the_gateway_asks(between, container):
    await between.open(headers=["X-Amzn-SageMaker-Model-Query-String: a=1"])
    model = container.connections[0]
    assert model.target == "/invocations-bidirectional-stream?a=1"
    assert model.header("host") == f"127.0.0.1:{container.port}"
    assert model.header("sec-websocket-version") == "13"
    assert model.header("x-amzn-sagemaker-request-id") is not None


async def test_pings_of_both_sides_are_answered(between_for):
    between = await between_for(policy=StreamPolicy(connect_timeout=5, ping_interval=0.05))
    _, model = await between.open()
    model.send(frame(PING, b"you there?"))
    kinds = {}
    while len(kinds) < 2:
        got = await model.frame()
        kinds[got.opcode] = got.payload
        if got.opcode == PING:
            model.send(frame(PONG, got.payload))
    assert kinds[PONG] == b"you there?"
    assert len(kinds[PING]) == 8


@pytest.mark.parametrize(("code", "told"), [(1000, 1000), (1011, 4424), (4999, 4424)])
async def test_a_close_of_the_containers(between, code, told):
    client, model = await between.open()
    model.send(close(code, b"why"))
    assert (await client.frame()).close_code == told
    assert (await model.frame()).payload == code.to_bytes(2, "big") + b"why"


async def test_the_clients_end_is_a_close_that_the_container_answers(between):
    client, model = await between.open()
    client.send_close(1000)
    assert (await model.frame()).close_code == 1001
    model.send(close(1001))
    model.end()
    assert (await client.frame()).close_code == 1000
    assert await model.eof() == b""


# --- Ends of TCP ---------------------------------------------------------------------------------


async def test_a_half_closed_side_still_hears_the_other(straight, container):
    client, model = await opened(straight, container)
    client.end()
    assert await model.eof() == b""
    model.send(b"late")
    model.end()
    assert await client.eof() == b"late"


@pytest.mark.parametrize("which", ["client", "model"])
async def test_a_reset_is_passed_on_as_one(straight, container, which):
    client, model = await opened(straight, container)
    one, other = (client, model) if which == "client" else (model, client)
    one.reset()
    with pytest.raises(ConnectionResetError):
        await soon(other.reader.read())


async def test_a_container_that_is_cut_off_in_a_frame(between):
    client, model = await between.open()
    model.send(PARTS[0], PARTS[1][:9])
    model.end()
    assert (await client.frame()).payload == "héllo".encode()
    assert (await client.frame()).close_code == 4424
    await eventually(lambda: between.seen[0].told[-1:] == [("closed",)])
    assert ("ended", "container", "in the middle of a frame") in between.seen[0].told


async def test_a_container_that_is_not_there(between_for):
    async with RawContainer() as gone:
        port = gone.port
    between = await between_for(where=Address("127.0.0.1", port))
    response = await between.gateway.request(upgrade_request())
    assert (response.status, response.json["OriginalStatusCode"]) == (424, 0)
    (seen,) = between.seen
    assert seen.told == [("ended", "container", "Connection refused"), ("closed",)]


async def test_a_container_that_says_no(between, container):
    container.answer = lambda _: (
        b"HTTP/1.1 429 Slow down\r\nX-Why: Load\r\nContent-Length: 4\r\n\r\nbusy"
    )
    response = await between.gateway.request(upgrade_request())
    assert (response.status, response.json["OriginalStatusCode"]) == (424, 429)
    answer = between.seen[0].told[0][1]
    assert (answer.status, answer.reason, answer.body) == (429, "Slow down", b"busy")
    assert ("X-Why", "Load") in answer.headers


@pytest.mark.parametrize(("announced", "sent"), [(5000, 5000), (5000, 3000), (10, 4)])
async def test_a_refusal_that_is_long_or_never_whole(between_for, container, announced, sent):
    head = f"HTTP/1.1 503 Busy\r\nContent-Length: {announced}\r\n\r\n".encode()
    container.answer = lambda _: head + b"x" * sent
    impatient = StreamPolicy(connect_timeout=5, handshake_timeout=0.5)
    between = await between_for(policy=impatient)
    response = await between.gateway.request(upgrade_request())
    assert response.json["OriginalStatusCode"] == 503
    container.connections[0].abort()
    (seen,) = between.seen
    await eventually(lambda: seen.told[-1:] == [("closed",)])
    answers = [told[1] for told in seen.told if told[0] == "answered"]
    assert [(answer.status, len(answer.body)) for answer in answers] == [(503, min(sent, 2048))]


async def test_a_refusal_that_nobody_waits_for(container, anyio_backend):
    container.answer = lambda _: b"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\nsome"
    seen = Seen("model", UpgradeRequest("/", ()))
    where = Address("127.0.0.1", container.port)
    intermediary = Intermediary("model", where, observe=lambda *_: seen)
    client = await RawClient.connect((await intermediary.start()).port)
    client.send(upgrade_request("/x"))
    assert await soon(client.reader.readuntil(b"some"))
    client.reset()
    await eventually(lambda: ("closed",) in seen.told)
    told = {what: about for what, *about in seen.told}
    assert list(told) == ["ended", "answered", "closed"]
    (answer,) = told["answered"]
    assert (answer.status, answer.body) == (503, b"some")
    assert told["ended"][0] == "gateway"
    await intermediary.aclose()


async def test_a_container_that_speaks_at_once(between, container):
    """Its first frames may come in one read with its 101."""
    container.answer = lambda request: switching(request) + frame(TEXT, b"hi") + frame(TEXT, b"ho")
    client, _ = await between.open()
    assert [got.payload for got in await client.frames(2)] == [b"hi", b"ho"]
    between.rules.replace([Rule((CloseEarly(after=1),))])
    client, _ = await between.open()
    hi, end = await client.frames(2)
    assert (hi.payload, end.close_code) == (b"hi", 4424)


async def test_a_container_that_speaks_no_http(between, container):
    container.answer = lambda _: b"SSH-2.0-x\r\n\r\n"
    response = await between.gateway.request(upgrade_request())
    assert (response.status, response.json["OriginalStatusCode"]) == (424, 0)
    assert "not HTTP" in response.json["message" if "message" in response.json else "Message"]


# --- Other HTTP ----------------------------------------------------------------------------------


async def test_other_requests_pass_as_bytes_one_behind_the_other(straight, container):
    container.answer = lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
    client = await straight()
    client.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.response()).body == b"pong"
    model = await container.stream()
    assert model.request.startswith(b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1:")
    second = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
    client.send(second)
    assert await soon(model.reader.readexactly(len(second))) == second


@pytest.mark.parametrize(
    "said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000]
)
async def test_what_is_no_request_passes_too(said, anyio_backend):
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read(-1))
        writer.close()

    async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        intermediary = Intermediary("model", Address("127.0.0.1", port))
        client = await RawClient.connect((await intermediary.start()).port)
        client.send(said)
        client.end()
        assert await client.eof() == b""
        client.abort()
        if said:  # nobody is bothered for a connection that says nothing
            assert await soon(received) == said
        assert received.done() is bool(said)
        await intermediary.aclose()


# --- The observer --------------------------------------------------------------------------------


async def test_what_an_observer_is_told(between):
    client, model = await between.open()
    client.send_frame(TEXT, b"h", fin=False)
    await model.frame()
    model.send(frame(PING, b"p"), frame(BINARY, b"ho"))
    await client.frame()
    assert (await model.frame()).opcode == PONG
    model.send(close(1011, b"why"))
    await client.frame()
    await model.frame()
    model.end()
    (seen,) = between.seen
    await eventually(lambda: seen.told[-1:] == [("closed",)])
    assert seen.endpoint == ENDPOINT
    assert seen.request.target == "/invocations-bidirectional-stream"
    assert ("Upgrade", "websocket") in seen.request.headers
    (_, answer), *frames = seen.told
    assert (answer.status, answer.reason) == (101, "Switching Protocols")
    assert ("Connection", "Upgrade") in answer.headers
    said = close(1011, b"why")[2:]
    assert frames == [
        ("gateway", TEXT, b"h", False),
        ("container", PING, b"p", True),
        ("container", BINARY, b"ho", True),
        ("gateway", PONG, b"p", True),
        ("container", CLOSE, said, True),
        ("gateway", CLOSE, said, True),
        ("ended", "container", ""),
        ("ended", "gateway", ""),
        ("closed",),
    ]


async def test_an_observer_hears_of_a_fault_in_the_frames(between):
    client, model = await between.open()
    model.send(frame(TEXT, b"wrong", rsv=4))
    assert (await client.frame()).close_code == 4424
    assert (await model.frame()).payload[:2] == (1002).to_bytes(2, "big")
    model.end()
    (seen,) = between.seen
    await eventually(lambda: seen.told[-1:] == [("closed",)])
    (error,) = [told[2] for told in seen.told if told[:2] == ("ended", Sender.CONTAINER)]
    assert "RSV" in error


# --- Back-pressure, and the end ------------------------------------------------------------------


@pytest.mark.parametrize("side", ["client", "container"])
async def test_a_side_that_does_not_read_stops_the_other(container, straight, side):
    client = await straight(receive_buffer=64 * KIB)
    await client.upgrade(upgrade_request("/x"))
    model = await container.stream()
    sender = model if side == "client" else client
    sent = 0

    async def offer() -> None:
        nonlocal sent
        while True:
            sender.send(bytes(MIB))
            await sender.flush()
            sent += MIB
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(offer(), 0.5)
    # What the kernel takes; without a bound it is all that can be written in that time.
    assert sent < 32 * MIB


async def test_the_end_drops_what_is_open(container, anyio_backend):
    before = len(open_sockets())
    intermediary = Intermediary("model", Address("127.0.0.1", container.port))
    address = await intermediary.start()
    asking, silent = await RawClient.connect(address.port), await RawClient.connect(address.port)
    await asking.upgrade(upgrade_request("/x"))
    model = await container.stream()
    await intermediary.aclose()
    for wire in (asking, silent, model):
        assert await wire.eof() == b""
        wire.abort()
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(address.port)
    await eventually(lambda: len(open_sockets()) <= before)


# asyncio forgets what it has accepted for a server that is closed; from 3.13 on such a transport
# stumbles over that server when it is deleted (a TypeError of Server._wakeup's).
@pytest.mark.filterwarnings("ignore:.*_SelectorTransport.__del__")
@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_comes_with_the_end_is_not_taken(anyio_backend, turns):
    before = running_tasks()
    intermediary = Intermediary("model", Address("127.0.0.1", 9))
    address = await intermediary.start()
    with socket.create_connection((address.host, address.port), 5):
        for _ in range(turns):
            await asyncio.sleep(0)
        await intermediary.aclose()
        for _ in range(5):
            await asyncio.sleep(0)
        assert running_tasks() == before
    gc.collect()  # so that it is this test's warning


async def test_a_flood_of_frames_that_is_watched_leaves_others_their_turn():
    told = []

    class Counting:
        def frame(self, sender, frame):
            told.append(frame)

    flood = asyncio.ensure_future(Watch(Counting(), Sender.CONTAINER).feed(b"\x82\x00" * 6400))
    turns = 0
    while not flood.done():
        turns += 1
        await asyncio.sleep(0)
    await flood
    assert (len(told), turns > 6400 / 64) == (6400, True)
