"""Attacks over HTTP/2, each beside a good stream on the same connection and one on another."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.limits import HTTP2_ENCODER_TABLE, HTTP2_MAX_UNSENT, METRICS_AGE
from partway.gateway.settings.settings import Settings
from partway.protocol import limits
from partway.protocol.limits import KIB, MIB
from partway.protocol.token_buckets import TokenBucket
from tests.frame_factory import BINARY, close, frame
from tests.gateway.tls.peers import careless, write_pair
from tests.wire.event_messages import END, part_event
from tests.wire.floods import FLOODS, INITIAL_WINDOW, Attacker, raw
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import Code, RawHttp2Stream, bidirectional_request
from tests.wire.peers import (
    STREAM_PATH,
    ModelStream,
    RawClient,
    RunningGateway,
    eventually,
    soon,
)

FRAMES = 20_000
#: What the whole process may grow by, the attacker's own frames included.
GROWTH = 64 * MIB
#: A part goes to and fro on another connection meanwhile: so much of this process's work, in
#: seconds, may come in between. It is 50 ms; how busy the machine is with others does not count.
OTHERS_WAIT = 2.0

GET = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/healthz")]
METRICS = [*GET[:3], (":path", "/metrics")]

UVLOOP = importlib.util.find_spec("uvloop") is not None
#: Those that take long are not repeated on the other loop.
one_loop = pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"use_uvloop": UVLOOP})], ids=["one loop"], scope="module"
)


class Attack(RawHttp2Client):
    """A client with a good stream; answers to anything else are counted and forgotten."""

    others: Counter[str]
    highest = 0

    def _handle(self, frame: Frame) -> None:
        if self._block is not None or frame.stream_id in {0, *self.streams}:
            super()._handle(frame)
            return
        self.seen.pop()
        self.highest = max(self.highest, frame.stream_id)
        self.others[type(frame).__name__] += 1
        if isinstance(frame, HeadersFrame):
            self._decoder.decode(frame.data)
        elif isinstance(frame, DataFrame) and frame.flow_controlled_length:
            self.give_credit(frame.flow_controlled_length)


class Good:
    """A stream whose parts go both ways."""

    def __init__(self, client: Attack, stream: RawHttp2Stream, model: ModelStream) -> None:
        self.client, self.stream, self.model = client, stream, model
        self.count = 0
        self.slowest = 0.0
        self.quiet = False

    async def round_trip(self) -> None:
        """A part up, and one down, both whole."""
        began = time.process_time()
        self.count += 1
        payload = b"%d," % self.count * 50
        self.stream.send(part_event(payload))
        assert (await self.model.frame()).payload == payload
        await self.part_down()
        self.slowest = max(self.slowest, time.process_time() - began)

    async def part_down(self) -> None:
        """One from the container alone."""
        payload = b"%d;" % self.count * 50
        self.model.send(frame(BINARY, payload))
        event = await self.stream.event()
        assert event is not END
        assert event.payload == payload

    async def chat(self, *, up: bool = True) -> None:
        """Parts, as fast as they come, until :attr:`quiet`."""
        while not self.quiet:
            await (self.round_trip() if up else self.part_down())
            await asyncio.sleep(0.005)

    async def ends(self) -> None:
        """It comes to its end in order."""
        self.stream.end()
        assert (await self.model.frame()).close_code == 1000
        self.model.send(close(1000))
        assert await self.stream.event() is END
        assert "RST_STREAM" not in "".join(await self.stream.ended())


async def attack_on(gateway: RunningGateway, window: int = 65_535) -> tuple[Good, Attacker]:
    """A connection with a good stream, and who is going to flood it."""
    client = await Attack.connect(gateway.port, settings={INITIAL_WINDOW: window})
    client.others = Counter()
    client.start_reading()
    gateway.clients.append(client)
    stream = client.request(bidirectional_request())
    stream.give_credit(MIB)
    client.give_credit(MIB)
    model = await gateway.container.stream()
    await stream.head()
    attacker = Attacker(STREAM_PATH)
    attacker.encoder, attacker.last_id = client.encoder, stream.stream_id
    return Good(client, stream, model), attacker


@asynccontextmanager
async def chatting(good: Good, *, up: bool = True) -> AsyncIterator[None]:
    """Parts go to and fro meanwhile, and all of them arrive."""
    task = asyncio.create_task(good.chat(up=up))
    try:
        yield
        good.quiet = True
        await soon(task, "parts beside a flood")
    finally:
        task.cancel()


def resident() -> int:
    """Bytes of this process; 0 where there is no /proc."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4 * KIB
    return 0


def lifetimes(gateway: RunningGateway):
    """Of the connections that are open."""
    return gateway.gateway.ports.http2._connections.open


# --- Floods of frames ----------------------------------------------------------------------------

TOLD = f"GOAWAY({Code.ENHANCE_YOUR_CALM.name})"
#: What the attacker is told; floods that are not here end in TOLD.
TOLD_OTHERWISE = {
    "GOAWAY": None,
    "DATA, padding": None,
    "DATA, tiny events": None,
    "WINDOW_UPDATE, stream": None,
    "WINDOW_UPDATE, shared": None,
    "dribbled header": None,
    "DATA, empty": "a reset",
    "DATA, 1 byte": "a reset",
}
#: Their cost is that of their bytes, and 20,000 of them are too many for a test.
FEWER = {
    "headers of 15 KiB": 1000,
    "headers of 60 KiB": 500,
    "headers of 2 bytes": 1000,
    "table sizes": 500,
    "indexed, small": 1000,
    "indexed, 60 KiB": 300,
    "CONTINUATION, 16 KiB": 2000,
    "CONTINUATION, ending": 500,
    "DATA, padding": 5000,
    "DATA, tiny events": 100,
    "WINDOW_UPDATE, shared": 2000,
    "dribbled header": 2000,
    "GET /metrics": 5000,
    "GET /metrics, no window": 5000,
}


@pytest.fixture
def nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's buckets stand as if no time passed during a flood.

    What a flood is, its number of frames decides then, and not whether this machine sends them
    faster than the buckets get something back.
    """

    class Bucket(TokenBucket):
        def take(self, now: float) -> bool:
            return super().take(self._seen)

    monkeypatch.setattr("partway.protocol.http2.flood_gate.TokenBucket", Bucket)


@pytest.fixture
def refusals_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded is the flood, and not the CPU time that its requests take."""
    monkeypatch.setattr("partway.gateway.http.unauthenticated_clients.STRANGER_BURST", 1e6)


@pytest.fixture
def page_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made anew once a second, as everywhere but in the tests of the wire."""
    monkeypatch.setattr("partway.gateway.status_routes.METRICS_AGE", METRICS_AGE)


async def spend(stream: RawHttp2Stream, size: int) -> bool:
    """Wait for credit, and use it; False if the stream has ended."""
    with suppress(EOFError):
        await stream.client.until(lambda: stream.credit >= size or stream.ends, "credit")
    stream.credit -= size
    return not stream.ends


async def flood_it(good: Good, attacker: Attacker, name: str) -> None:
    """Send all of it, within the windows."""
    flood, client = FLOODS[name], good.client
    for piece in flood.pieces(attacker, FEWER.get(name, FRAMES)):
        if flood.spends and not await spend(client.streams[attacker.last_id], len(piece)):
            return
        client.send_bytes(piece)
        await client.flush()
        await asyncio.sleep(0.0005 if flood.paced else 0)


@one_loop
@pytest.mark.parametrize("name", [name for name in FLOODS if name != "indexed, a bomb"])
async def test_a_good_stream_outlives_a_flood(
    gateway_for, name, nothing_comes_back, page_of_metrics, refusals_are_free
):
    flood = FLOODS[name]
    gateway = await gateway_for()
    other, _ = await attack_on(gateway)
    good, attacker = await attack_on(gateway, flood.window)
    client = good.client
    await good.round_trip()
    if flood.before is not None:
        said = flood.before(attacker)
        id, credit = attacker.last_id, client.settings[INITIAL_WINDOW]
        if name.startswith("DATA,"):
            client.streams[id] = RawHttp2Stream(client, id, credit - len(said), flood.window)
        client.send_bytes(said)
        await client.settled()
    before = resident()
    client.auto_window = not flood.mute
    async with chatting(other), chatting(good, up=not flood.mute):
        await flood_it(good, attacker, name)
    client.auto_window = True
    told = TOLD_OTHERWISE.get(name, TOLD)
    if told == TOLD:
        assert await client.gone() == TOLD
        last = client.goaway.last_stream_id
        assert good.stream.stream_id <= last <= attacker.last_id
        assert client.highest <= last, "a stream was answered of which GOAWAY says that it was not"
    # What the flood's last frames had cut in two is over; all is as before.
    for _ in range(3):
        await soon(good.round_trip())
    await soon(other.round_trip())
    await good.ends()
    assert resident() - before < GROWTH
    assert other.slowest < OTHERS_WAIT
    if told == "a reset":
        assert client.streams[attacker.last_id].ends == ["RST_STREAM(ENHANCE_YOUR_CALM)"]
    if told != TOLD:
        assert client.goaway is None


@one_loop
async def test_an_hpack_bomb_ends_its_connection_alone(gateway_for):
    """What HPACK could not finish, it cannot go on from (RFC 9113 §4.3)."""
    gateway = await gateway_for()
    other, _ = await attack_on(gateway)
    good, attacker = await attack_on(gateway)
    before = resident()
    async with chatting(other):
        for piece in FLOODS["indexed, a bomb"].pieces(attacker, 10):
            good.client.send_bytes(piece)
        assert await good.client.gone() == TOLD
        assert await good.client.eof() in ("EOF", "ABORT")
    assert resident() - before < GROWTH
    await other.round_trip()
    await other.ends()


async def test_an_oversized_frame_is_refused_by_its_header(gateway_for):
    gateway = await gateway_for()
    good, _ = await attack_on(gateway)
    good.client.send_bytes(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
    assert await good.client.gone() == "GOAWAY(FRAME_SIZE_ERROR)"
    assert await good.client.eof() in ("EOF", "ABORT")


# --- Windows -------------------------------------------------------------------------------------


@one_loop
async def test_a_large_part_through_a_window_of_one_byte(gateway_for):
    """What is left of the part is not copied for each byte."""
    gateway = await gateway_for()
    client = await Attack.connect(gateway.port, settings={INITIAL_WINDOW: 0})
    client.start_reading()
    gateway.clients.append(client)
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    await stream.head()
    model.send(frame(BINARY, bytes(16 * MIB)))
    (session,) = gateway.gateway.streams.sessions
    await eventually(lambda: session.buffered_bytes > 15 * MIB)
    began = time.process_time()
    stream.window = 3000
    for _ in range(3000):
        client.send_bytes(raw(WindowUpdateFrame(stream.stream_id, 1)))
        await asyncio.sleep(0)
    await client.until(lambda: stream.window == 0, "3,000 bytes")
    # Copying the rest takes 5 ms, and 3,000 times that 15 s; all else takes less than one.
    assert time.process_time() - began < 5.0


@one_loop
async def test_a_byte_for_the_connection_does_not_wake_a_thousand_streams(gateway_for, monkeypatch):
    gateway = await gateway_for()
    good, attacker = await attack_on(gateway, window=0)
    client, turns = good.client, 0
    client.send_bytes(b"".join(attacker.get() for _ in range(500)))
    await client.settled()
    send_frame = Http2Stream.send_frame

    def counted(stream: Http2Stream) -> int:
        nonlocal turns
        turns += 1
        return send_frame(stream)

    monkeypatch.setattr(Http2Stream, "send_frame", counted)
    for _ in range(50):
        client.send_frame(WindowUpdateFrame(0, window_increment=1))
        await client.ping()
    assert turns < 50
    monkeypatch.undo()
    await good.round_trip()


@pytest.fixture
def large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """/metrics has 16 KiB."""
    page = bytes(16 * KIB)
    monkeypatch.setattr("partway.gateway.status_routes.generate_latest", lambda _: page)


async def test_streams_share_a_window_that_opens_by_bytes(gateway_for, large_pages):
    """Whoever waits for the connection's window gets its turn, whatever the others wait for."""
    gateway = await gateway_for()
    client = await Attack.connect(gateway.port, auto_window=False)
    client.start_reading()
    gateway.clients.append(client)
    streams = [client.request(METRICS, end_stream=True) for _ in range(10)]
    await client.until(lambda: client.window == 0, "the window's end")
    streams += [client.request(GET, end_stream=True) for _ in range(10)]
    while not all(each.ends for each in streams):
        client.give_credit(1 * KIB)
        await client.ping()
    assert {tuple(each.ends) for each in streams} == {("END_STREAM",)}
    assert client.window < 1 * KIB


# --- Clients that take nothing, or say nothing ---------------------------------------------------


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of a tenth of a second."""
    monkeypatch.setattr("partway.gateway.http.http2.lifetime.HTTP2_IDLE_TIMEOUT", 0.1)
    monkeypatch.setattr(limits, "LINGER_TIMEOUT", 0.1)


async def test_a_client_that_takes_none_of_its_responses_is_cut(
    gateway_for, short_limits, large_pages
):
    gateway = await gateway_for()
    wire = await gateway.connect(receive_buffer=4 * KIB)
    attacker = Attacker(STREAM_PATH)
    wire.send(attacker.opening({INITIAL_WINDOW: 2**31 - 1}), raw(WindowUpdateFrame(0, 2**30)))
    most = 0

    def looks() -> bool:
        nonlocal most
        for lifetime in lifetimes(gateway):
            most = max(most, lifetime._out.unsent)
        return bool(most) and not lifetimes(gateway)

    for _ in range(10):
        wire.send(*(attacker.get("/metrics") for _ in range(100)))
        wire.send(raw(PingFrame(0, b"12345678")) * 50)
        await asyncio.sleep(0.01)
        looks()
    await eventually(looks)
    assert limits.WRITE_HIGH_WATER < most < limits.WRITE_HIGH_WATER + HTTP2_MAX_UNSENT


async def test_streams_that_are_opened_and_left_end_by_themselves(gateway_for):
    gateway = await gateway_for(policy=StreamPolicy(lifetime=0.3))
    good, _ = await attack_on(gateway)
    streams = [good.client.request(bidirectional_request()) for _ in range(20)]
    for stream in streams:
        ends = await stream.ended()
        assert ends == ("END_STREAM", "RST_STREAM(NO_ERROR)")
    assert good.client.goaway is None


async def test_streams_of_all_connections_together_are_bounded(gateway_for, monkeypatch):
    monkeypatch.setattr("partway.gateway.http.http2.connections.HTTP2_MAX_STREAMS_IN_ALL", 3)
    gateway = await gateway_for(trusted_proxies={"127.0.0.1"})  # it may have all of them
    good, _ = await attack_on(gateway)
    other, _ = await attack_on(gateway)
    third = good.client.request(bidirectional_request())
    assert (await third.head())[0] == 200
    refused = other.client.request(bidirectional_request())
    assert await refused.ended() == ("RST_STREAM(REFUSED_STREAM)",)
    await gateway.container.stream()
    third.reset()
    await eventually(lambda: gateway.gateway.ports.http2._connections.streams == 2)
    assert (await other.client.request(bidirectional_request()).head())[0] == 200
    for each in (good, other):
        each.client.abort()
    await eventually(lambda: gateway.gateway.ports.http2._connections.streams == 0)


async def test_a_tls_handshake_that_dribbles_is_cut(monkeypatch, tmp_path):
    monkeypatch.setattr("partway.gateway.http.tls_port.TLS_HANDSHAKE_TIMEOUT", 0.3)
    files = write_pair(tmp_path, "floods")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    gateway = Gateway(Settings(port=0, tls_port=0), context)
    listening = await gateway.start()
    out = ssl.MemoryBIO()
    hello = careless().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    first = out.read()
    client = await RawClient.connect(listening.tls_port)
    ended = asyncio.create_task(client.eof())
    began = asyncio.get_running_loop().time()
    for at in range(len(first) - 1):
        client.send(first[at : at + 1])
        await asyncio.sleep(0.01)
        if ended.done():
            break
    assert await ended == b""
    assert asyncio.get_running_loop().time() - began < 4.0, "all of it takes five seconds"
    client.abort()
    await gateway.drain()


# --- Requests that are none ----------------------------------------------------------------------

NO = "GOAWAY(PROTOCOL_ERROR)"
#: What is added or changed, and what becomes of it.
SMUGGLED = {
    "te": ([("te", "gzip")], {}, NO),
    "transfer-encoding": ([("transfer-encoding", "chunked")], {}, NO),
    "connection": ([("connection", "keep-alive")], {}, NO),
    "keep-alive": ([("keep-alive", "timeout=5")], {}, NO),
    "upgrade": ([("upgrade", "websocket")], {}, NO),
    "proxy-connection": ([("proxy-connection", "close")], {}, NO),
    "an uppercase name": ([("X-Upper", "1")], {}, NO),
    "a name with a space": ([("x y", "1")], {}, NO),
    "a name with a colon": ([("x:y", "1")], {}, NO),
    "an empty name": ([("", "1")], {}, NO),
    "CRLF in a name": ([("x\r\ny", "1")], {}, NO),
    "CRLF in a value": ([("x", "1\r\nHost: evil")], {}, NO),
    "LF in a value": ([("x", "1\ny: 2")], {}, NO),
    "NUL in a value": ([("x", "1\0")], {}, NO),
    "space round a value": ([("x", " 1")], {}, NO),
    "two paths": ([(":path", STREAM_PATH)], {}, NO),
    "a pseudo-header behind others": ([(":method", "GET")], {}, NO),
    "an unknown pseudo-header": ([(":x", "1")], {}, NO),
    "a response's pseudo-header": ([(":status", "200")], {}, NO),
    "no path": ([], {"path": None}, NO),
    "an empty path": ([], {"path": ""}, NO),
    "no method": ([], {"method": None}, NO),
    "no scheme": ([], {"scheme": None}, NO),
    "another host": ([("host", "evil.example")], {}, NO),
    "CONNECT": ([], {"method": "CONNECT"}, NO),
    "a method in lower case": ([], {"method": "post"}, 404),
    "an absolute path": ([], {"path": "http://evil.example" + STREAM_PATH}, 404),
    "a path without a slash": ([], {"path": STREAM_PATH[1:]}, 404),
    "a path with a space": ([], {"path": STREAM_PATH + " HTTP/1.1"}, 404),
    "CRLF in the path": ([], {"path": STREAM_PATH + "\r\nx: y"}, NO),
    "two lengths": ([("content-length", "1"), ("content-length", "2")], {}, NO),
    "a length that is none": ([("content-length", "+1")], {}, NO),
    "a way out of the container's tree": (
        [("x-amzn-sagemaker-model-invocation-path", "a/../../b")], {}, 400,
    ),
    "another path by a query": ([("x-amzn-sagemaker-model-query-string", "a=1 HTTP/1.1")], {}, 400),
}  # fmt: skip


@pytest.mark.parametrize(("more", "changes", "answer"), SMUGGLED.values(), ids=SMUGGLED)
async def test_nothing_of_a_request_that_is_none_reaches_the_container(
    gateway_for, more, changes, answer
):
    gateway = await gateway_for()
    client = await Attack.connect(gateway.port)
    client.start_reading()
    gateway.clients.append(client)
    changes = dict(changes)
    path = changes.pop("path", STREAM_PATH)
    headers = bidirectional_request(more, "", **changes)
    headers = [(n, path if n == ":path" and v == "" else v) for n, v in headers]
    stream = client.request([(n, v) for n, v in headers if v is not None])
    await client.until(lambda: stream.heads or client.goaway, "an answer")
    found = (await stream.head())[0] if stream.heads else await client.gone()
    assert found == answer
    assert gateway.container.connections == []


async def test_a_client_has_no_say_in_how_large_our_header_table_is(gateway_for):
    """hpack looks through all of it for each header that it encodes."""
    gateway = await gateway_for()
    settings = {SettingsFrame.HEADER_TABLE_SIZE: 2**32 - 1}
    async with await RawHttp2Client.connect(gateway.port, settings=settings) as client:
        decoder = client._decoder
        decoder.max_allowed_table_size = settings[SettingsFrame.HEADER_TABLE_SIZE]
        client.start_reading()
        await client.settled()
        await client.request(GET, end_stream=True).ended()
        assert decoder.header_table_size == HTTP2_ENCODER_TABLE  # as its headers say


async def test_a_method_of_any_characters_stays_out_of_the_log(gateway_for, caplog):
    caplog.set_level(logging.DEBUG)
    gateway = await gateway_for()
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        for method in ("\x1b[2JFAKE", "G\u202eET", "x" * 3000):
            head = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "a")]
            with suppress(EOFError):
                await client.request(head, end_stream=True).head()
    assert "FAKE" not in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert max(len(record.getMessage()) for record in caplog.records) < 600
