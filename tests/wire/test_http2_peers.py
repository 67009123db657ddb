"""The raw client of HTTP/2 against h2, so that what it says of the gateway can be believed."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from botocore.eventstream import ChecksumMismatch
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    RequestReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

from tests.event_factory import exception, message, part, string
from tests.gateway.tls.peers import careless, write_pair
from tests.wire.dialects import pattern
from tests.wire.event_messages import END
from tests.wire.http2_peers import PREFACE, RawHttp2Client
from tests.wire.http2_streams import Code, bidirectional_request
from tests.wire.peers import eventually, soon

REQUEST = bidirectional_request()
OK = [(":status", "200"), ("content-type", "text/plain")]
WINDOW = SettingsFrame.INITIAL_WINDOW_SIZE


class H2Peer(asyncio.Protocol):
    """h2's end of a connection: answers 200, and echoes as far as the client's windows allow.

    Args:
        settings: of the server.
        react: what else to do about an event; True if the rest is not to be done.
        credit: give credit back at once.
    """

    def __init__(self, settings, react, credit) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.settings = settings
        self.react = react
        self.credit = credit
        self.events: list[Event] = []
        self.received: dict[int, bytearray] = defaultdict(bytearray)
        self.unsent: dict[int, bytearray] = defaultdict(bytearray)
        self.ended: set[int] = set()

    def of_kind(self, kind: type[Event]) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.h2.local_settings = Settings(client=False, initial_values=self.settings)
        self.h2.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.h2.receive_data(data):
                self.events.append(event)
                if not (self.react and self.react(self, event)):
                    self.handle(event)
            self.pump()
        except ProtocolError:
            self.flush()
            self.transport.close()

    def handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=id):
                self.h2.send_headers(id, OK)
            case DataReceived(stream_id=id, data=data, flow_controlled_length=size):
                self.received[id] += data
                self.unsent[id] += data
                if self.credit:
                    self.h2.acknowledge_received_data(size, id)
            case StreamEnded(stream_id=id):
                self.ended.add(id)

    def pump(self) -> None:
        for id in list(self.unsent.keys() | self.ended):
            while size := min(len(self.unsent[id]), self.h2.local_flow_control_window(id), 16_384):
                self.h2.send_data(id, bytes(self.unsent[id][:size]))
                del self.unsent[id][:size]
            if id in self.ended and not self.unsent[id]:
                self.h2.end_stream(id)
                self.ended.discard(id)
                del self.unsent[id]
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


class Server:
    """Where the last connection is ``peer``."""

    port: int
    peer: H2Peer


@asynccontextmanager
async def h2_server(
    react: Callable[[H2Peer, Event], object] | None = None,
    settings: dict[int, int] | None = None,
    *,
    credit: bool = True,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Server]:
    here = Server()

    def connected() -> H2Peer:
        here.peer = H2Peer(settings or {}, react, credit)
        return here.peer

    server = await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0, ssl=tls)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        if hasattr(here, "peer"):
            here.peer.transport.abort()


@asynccontextmanager
async def script(*answers: bytes | Frame, then: str = "wait") -> AsyncIterator[int]:
    """A server that has read the first request's head, and says what it is told; its port."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readexactly(len(PREFACE) + 9)
        for answer in answers:
            writer.write(answer if isinstance(answer, bytes) else answer.serialize())
        if then == "eof":
            writer.write_eof()
        elif then == "abort":
            await writer.drain()
            writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


def head_frame(*flags: str) -> HeadersFrame:
    return HeadersFrame(1, b"\x88", flags=["END_HEADERS", *flags])  # :status 200, RFC 7541


@pytest.fixture(params=[False, True], ids=["when asked", "in the background"])
def reading(request):
    def start(client: RawHttp2Client) -> RawHttp2Client:
        if request.param:
            client.start_reading()
        return client

    return start


# --- Settings, heads, bodies ---------------------------------------------------------------------


async def test_a_request_and_its_echo(reading):
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        reading(client)
        stream = client.request(bidirectional_request([("x-more", "1")], authority="a:1"))
        await stream.send_data(pattern(1000))
        stream.end()
        assert await stream.head() == (200, {"content-type": "text/plain"})
        assert await stream.body() == pattern(1000)
        assert await stream.ended() == ("END_STREAM",)
        (seen,) = server.peer.of_kind(RequestReceived)
    assert seen.headers == [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a:1"),
        (":path", "/endpoints/model/invocations-bidirectional-stream"),
        ("content-type", "application/vnd.amazon.eventstream"),
        ("x-more", "1"),
    ]


def test_headers_of_a_request_can_be_changed_and_left_out():
    headers = bidirectional_request(path="/?", content_type=None, method="GET", x_amz_date="d")
    assert headers == [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "gateway.example"),
        (":path", "/?"),
        ("x-amz-date", "d"),
    ]


async def test_settings_of_both_sides(reading):
    async with (
        h2_server(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1000}) as server,
        await RawHttp2Client.connect(server.port, settings={WINDOW: 2000}) as client,
    ):
        reading(client)
        before = client.request(REQUEST)
        assert before.credit == 65_535
        await client.ready()
        assert client.settings[WINDOW] == 1000
        assert before.credit == client.request(REQUEST).credit == 1000
        assert before.window == 2000
        await client.settled()
        assert server.peer.h2.remote_settings.initial_window_size == 2000
        assert client.settings_acks == 1
        assert len(server.peer.of_kind(SettingsAcknowledged)) == 1


async def test_what_it_does_by_itself_can_be_switched_off():
    quiet = {"auto_settings_ack": False, "auto_ping_ack": False, "auto_window": False}
    async with (
        h2_server() as server,
        await RawHttp2Client.connect(server.port, **quiet) as client,
    ):
        stream = client.request(REQUEST)
        stream.send(bytes(5000))
        stream.end()
        server.peer.h2.ping(b"12345678")
        assert await stream.body() == bytes(5000)
        await client.settled()
        assert any(isinstance(each, PingFrame) and not each.flags for each in client.seen)
        assert server.peer.of_kind(SettingsAcknowledged) == []
        assert server.peer.of_kind(PingAckReceived) == []
        assert (client.window, stream.window) == (65_535 - 5000, 65_535 - 5000)


async def test_pings_are_answered_and_show_that_all_was_seen(reading):
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        reading(client)
        await client.ready()
        server.peer.h2.ping(b"12345678")
        server.peer.flush()
        stream = client.request(REQUEST)
        await client.settled()
        assert stream.heads == [OK]
        await eventually(lambda: bool(server.peer.of_kind(PingAckReceived)))


async def test_nothing_is_said_without_the_preface():
    said = asyncio.get_running_loop().create_future()

    async def serve(reader, writer):
        said.set_result(await reader.readexactly(5))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with await RawHttp2Client.connect(port, preface=False) as client:
        client.send_bytes(b"other")
        assert await soon(said) == b"other"
        assert await client.eof() == "EOF"
    server.close()


async def test_headers_in_many_frames_and_trailers():
    def trail(peer, event):
        if isinstance(event, StreamEnded):
            peer.h2.send_headers(event.stream_id, [("last", "words")], end_stream=True)
            return True
        return False

    async with h2_server(trail) as server, await RawHttp2Client.connect(server.port) as client:
        stream = client.request(REQUEST, fragment=3)
        client.send_headers(stream, [("x", "y")], end_stream=True)
        assert await stream.body() == b""
        assert await stream.ended() == ("END_STREAM",)
        assert stream.heads == [OK, [("last", "words")]]
        assert server.peer.of_kind(TrailersReceived)[0].headers == [("x", "y")]


async def test_heads_of_interim_responses_do_not_count():
    interim = HeadersFrame(1, b"\x08\x03103", flags=["END_HEADERS"])
    async with (
        script(interim, head_frame("END_STREAM")) as port,
        await RawHttp2Client.connect(port) as client,
    ):
        stream = client.request(REQUEST)
        assert await stream.head() == (200, {})
        assert stream.heads == [[(":status", "103")], [(":status", "200")]]


@pytest.mark.parametrize("alpn", [["h2"], ["http/1.1", "h2"], None])
async def test_tls_with_and_without_alpn(reading, tmp_path, alpn):
    files = write_pair(tmp_path, "peers")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.certificate, files.key)
    tls.set_alpn_protocols(["h2"])
    async with (
        h2_server(tls=tls) as server,
        await RawHttp2Client.connect(server.port, tls=careless(), alpn=alpn) as client,
    ):
        reading(client)
        assert client.alpn == ("h2" if alpn else None)
        stream = client.request(REQUEST)
        stream.send(pattern(300_000))
        stream.end()
        assert await stream.body() == pattern(300_000)


# --- Flow control --------------------------------------------------------------------------------


async def test_it_stays_within_the_servers_windows(reading):
    async with (
        h2_server(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1000}, credit=False) as server,
        await RawHttp2Client.connect(server.port) as client,
    ):
        reading(client)
        await client.ready()
        stream = client.request(REQUEST)
        stream.send(pattern(2500))
        stream.end()
        await client.settled()
        assert server.peer.received[1] == pattern(2500)[:1000]
        assert (stream.credit, stream.unsent, client.credit) == (0, 1500, 64_535)
        server.peer.h2.increment_flow_control_window(700, 1)
        server.peer.flush()
        await eventually_read(client, lambda: stream.unsent == 800)
        server.peer.h2.increment_flow_control_window(800, 1)
        server.peer.flush()
        assert await stream.body() == pattern(2500)
        assert stream.credit == 0


async def eventually_read(client, condition):
    await client.until(condition, "that")


async def test_it_stays_within_the_connections_window():
    async with (
        h2_server(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20}, credit=False) as server,
        await RawHttp2Client.connect(server.port) as client,
    ):
        await client.ready()
        first, second = client.request(REQUEST), client.request(REQUEST)
        first.send(bytes(60_000))
        second.send(bytes(60_000))
        await client.settled()
        assert [len(server.peer.received[id]) for id in (1, 3)] == [60_000, 5_535]
        assert client.credit == 0
        server.peer.h2.increment_flow_control_window(54_465)
        server.peer.flush()
        await second.send_data(b"")
        assert second.unsent == 0


async def test_data_waits_for_settings_that_enlarge_the_windows():
    async with (
        h2_server(settings={SettingCodes.INITIAL_WINDOW_SIZE: 0}) as server,
        await RawHttp2Client.connect(server.port) as client,
    ):
        await client.ready()
        stream = client.request(REQUEST)
        stream.send(b"abc")
        await client.settled()
        assert server.peer.received == {}
        server.peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2})
        server.peer.flush()
        await eventually_read(client, lambda: stream.unsent == 1)
        assert stream.credit == 0


async def test_windows_can_be_overrun():
    async with (
        h2_server(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1000}) as server,
        await RawHttp2Client.connect(server.port) as client,
    ):
        await client.ready()
        await client.settled()  # the server knows that its settings are known
        stream = client.request(REQUEST)
        stream.overrun(bytes(1001))
        assert stream.credit == -1
        assert await stream.ended() == ("GOAWAY(FLOW_CONTROL_ERROR)", "EOF")
        assert await client.gone() == "GOAWAY(FLOW_CONTROL_ERROR)"


async def test_sending_ends_when_the_server_resets_the_stream(reading):
    def refuse(peer, event):
        if isinstance(event, DataReceived):
            peer.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return True
        return False

    async with (
        h2_server(refuse, {SettingCodes.INITIAL_WINDOW_SIZE: 10}) as server,
        await RawHttp2Client.connect(server.port) as client,
    ):
        reading(client)
        await client.ready()
        stream = client.request(REQUEST)
        with pytest.raises(EOFError, match="REFUSED_STREAM"):
            await stream.send_data(bytes(100))
        assert await stream.ended() == ("RST_STREAM(REFUSED_STREAM)",)


async def test_what_is_not_read_is_given_no_credit_and_holds_back_no_other_stream(reading):
    async with (
        h2_server() as server,
        await RawHttp2Client.connect(server.port, settings={WINDOW: 40_000}) as client,
    ):
        reading(client)
        slow, quick = client.request(REQUEST), client.request(REQUEST)
        for stream in (slow, quick):
            stream.send(pattern(60_000))
            stream.end()
        assert await quick.body() == pattern(60_000)
        await client.settled()
        assert (slow.window, len(server.peer.unsent[1])) == (0, 20_000)
        assert client.window == 65_535
        assert await slow.body() == pattern(60_000)


async def test_reading_only_when_asked_fills_the_socket():
    async with (
        h2_server() as server,
        await RawHttp2Client.connect(
            server.port, settings={WINDOW: (1 << 31) - 1}, receive_buffer=4096
        ) as client,
    ):
        client.give_credit(1 << 30)
        stream = client.request(REQUEST)
        stream.send(bytes(1))
        await stream.head()
        server.peer.unsent[1] += bytes(32 << 20)
        server.peer.pump()
        await asyncio.sleep(0.2)
        assert server.peer.transport.get_write_buffer_size() > 1 << 20


@pytest.mark.parametrize("where", ["stream", "connection"])
async def test_the_server_is_held_to_our_windows(reading, where):
    size = 1001 if where == "stream" else 5 * 16_384
    frames = [DataFrame(1, bytes(min(size, 16_384)))] * (1 if where == "stream" else 5)
    settings = {WINDOW: 1000 if where == "stream" else 1 << 20}
    async with (
        script(head_frame(), *frames) as port,
        await RawHttp2Client.connect(port, settings=settings, auto_window=False) as client,
    ):
        reading(client)
        stream = client.request(REQUEST)
        with pytest.raises(AssertionError, match=r"over .* window"):
            await stream.body()


# --- Ends ----------------------------------------------------------------------------------------


def goaway(code: int, last: int) -> GoAwayFrame:
    return GoAwayFrame(0, last_stream_id=last, error_code=code)


PONG = b"".join(PingFrame(0, b"seen000%d" % n, flags=["ACK"]).serialize() for n in (1, 2))
NO_ERROR = RstStreamFrame(1, error_code=0)
ENDS = {
    "reset": ([RstStreamFrame(1, error_code=8)], "wait", ("RST_STREAM(CANCEL)",)),
    "unknown code": ([RstStreamFrame(1, error_code=99)], "wait", ("RST_STREAM(0x63)",)),
    "end": ([head_frame("END_STREAM"), PONG], "wait", ("END_STREAM",)),
    "both": (
        [head_frame(), DataFrame(1, b"x", flags=["END_STREAM"]), NO_ERROR, PONG],
        "wait",
        ("END_STREAM", "RST_STREAM(NO_ERROR)"),
    ),
    "both and EOF": (
        [head_frame("END_STREAM"), NO_ERROR],
        "eof",
        ("END_STREAM", "RST_STREAM(NO_ERROR)"),
    ),
    "refused": ([goaway(0, 0)], "wait", ("GOAWAY(NO_ERROR)",)),
    "goaway and end": (
        [goaway(0, 1), head_frame("END_STREAM"), PONG],
        "wait",
        ("GOAWAY(NO_ERROR)", "END_STREAM"),
    ),
    "error": ([goaway(1, 1)], "eof", ("GOAWAY(PROTOCOL_ERROR)", "EOF")),
    "EOF": ([head_frame()], "eof", ("EOF",)),
    "cut": ([head_frame().serialize()[:-1]], "eof", ("CUT",)),
    "abort": ([head_frame()], "abort", ("ABORT",)),
}  # fmt: skip


@pytest.mark.parametrize(("frames", "then", "expected"), ENDS.values(), ids=ENDS)
async def test_ends_are_told_in_order(reading, frames, then, expected):
    settings = SettingsFrame(0)
    async with (
        script(settings, *frames, then=then) as port,
        await RawHttp2Client.connect(port) as client,
    ):
        reading(client)
        stream = client.request(REQUEST)
        stream.end()  # else a reset might follow, which is waited for
        assert await stream.ended() == expected
        if then != "wait":
            assert await client.eof() == {"eof": "EOF", "abort": "ABORT"}[then] or "CUT" in expected


async def test_our_own_resets_and_goaways_are_seen():
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        stream, other = client.request(REQUEST), client.request(REQUEST)
        await other.head()
        stream.reset()
        stream.send(b"never sent")
        other.send(b"sent")
        await client.settled()
        (reset,) = server.peer.of_kind(StreamReset)
        assert (reset.stream_id, reset.error_code) == (1, Code.CANCEL)
        assert server.peer.received == {3: b"sent"}
        client.send_goaway(Code.ENHANCE_YOUR_CALM)
        await eventually(lambda: bool(server.peer.of_kind(ConnectionTerminated)))
        assert server.peer.of_kind(ConnectionTerminated)[0].error_code == Code.ENHANCE_YOUR_CALM


async def test_data_behind_the_end_is_the_servers_fault(reading):
    async with (
        script(head_frame("END_STREAM"), DataFrame(1, b"late")) as port,
        await RawHttp2Client.connect(port) as client,
    ):
        reading(client)
        stream = client.request(REQUEST)
        with pytest.raises(AssertionError, match="DATA behind"):
            await client.settled()
        assert stream.ends == ["END_STREAM"]


async def test_a_wait_that_is_given_up_loses_nothing():
    body = DataFrame(1, b"whole", flags=["END_STREAM"]).serialize()
    more = asyncio.Event()

    async def serve(reader, writer):
        await reader.readexactly(len(PREFACE) + 9)
        writer.write(head_frame().serialize() + body[:11])
        await more.wait()
        writer.write(body[11:])
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with await RawHttp2Client.connect(server.sockets[0].getsockname()[1]) as client:
        stream = client.request(REQUEST)
        await stream.head()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.body(), 0.02)
        more.set()
        assert await stream.body() == b"whole"
    server.close()


async def test_two_may_wait_at_once():
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        streams = [client.request(REQUEST, stream_id=id) for id in (1, 5)]
        bodies = [asyncio.create_task(stream.body()) for stream in streams]
        await asyncio.sleep(0)
        for number, stream in enumerate(reversed(streams)):
            stream.send(b"%d" % number)
            stream.end()
        assert await soon(asyncio.gather(*bodies)) == [b"1", b"0"]


# --- Events --------------------------------------------------------------------------------------

MESSAGES = [
    part(b"Hello", "UTF8", "PARTIAL"),
    part(b"", None, None),
    message(),
    part(pattern(40_000)),
    exception("ModelStreamError", b'{"ErrorCode": "1011", "Message": "x"}'),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("size", [1, 7, 16, 999, 16_384])
async def test_events_are_put_together_wherever_they_are_cut(reading, size):
    sent = b"".join(MESSAGES) if size > 1 else b"".join(MESSAGES[:3])

    def cut(peer, event):
        if isinstance(event, RequestReceived):
            peer.h2.send_headers(1, OK)
            for at in range(0, len(sent), size):
                peer.h2.send_data(1, sent[at : at + size])
            peer.ended.add(1)
            return True
        return False

    async with h2_server(cut) as server, await RawHttp2Client.connect(server.port) as client:
        reading(client)
        stream = client.request(REQUEST)
        stream.end()  # else a reset might follow, which is waited for
        seen = [await stream.event() for _ in MESSAGES[: 3 if size == 1 else 5]]
        assert await stream.event() is END
        assert await stream.ended() == ("END_STREAM",)
    assert [each.payload for each in seen][:3] == [b"Hello", b"", b""]
    assert seen[0].headers == {
        ":message-type": "event",
        ":event-type": "PayloadPart",
        "DataType": "UTF8",
        "CompletionState": "PARTIAL",
        ":content-type": "application/octet-stream",
    }
    assert seen[2].headers == {}
    if size > 1:
        assert seen[3].payload == pattern(40_000)
        assert seen[4].json == {"ErrorCode": "1011", "Message": "x"}
    assert stream.events.seen == seen


async def test_an_event_of_16_mib_is_read_through_small_windows():
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        client.start_reading()
        stream = client.request(REQUEST)
        stream.send(part(pattern(16 << 20)))
        seen = await stream.event()
        assert seen.payload == pattern(16 << 20)


FLAWS = {
    "cut": (MESSAGES[0][:-1], EOFError),
    "cut in the lengths": (MESSAGES[0][:5], EOFError),
    "checksum": (message(string("a", "b"), b"x", crc=0), ChecksumMismatch),
    "checksum of the lengths": (message(b"", b"x", total=1 << 24, prelude_crc=0), ValueError),
}


@pytest.mark.parametrize(("sent", "error"), FLAWS.values(), ids=FLAWS)
async def test_events_that_are_none_are_errors(sent, error):
    async with h2_server() as server, await RawHttp2Client.connect(server.port) as client:
        stream = client.request(REQUEST)
        stream.send(MESSAGES[0] + sent)
        stream.end()
        assert (await stream.event()).payload == b"Hello"
        with pytest.raises(error):
            await stream.event()


async def test_an_end_out_of_order_is_no_end_of_events():
    data = DataFrame(1, MESSAGES[0])
    async with (
        script(head_frame(), data, RstStreamFrame(1, error_code=2)) as port,
        await RawHttp2Client.connect(port) as client,
    ):
        stream = client.request(REQUEST)
        assert (await stream.event()).payload == b"Hello"
        with pytest.raises(EOFError, match="INTERNAL_ERROR"):
            await stream.event()
