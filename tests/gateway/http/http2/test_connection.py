"""Bytes in, bytes out: one connection's protocol on a transport that is the test's."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.http2.connection import Http2Connection
from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.unauthenticated_clients import Account
from partway.gateway.limits import HTTP2_CONNECTION_WINDOW, HTTP2_OPENING_WINDOW
from partway.protocol import limits
from partway.protocol.connections.batched_writes import batched_writes
from tests.gateway.http.http2.connection_parts import (
    OPENING,
    PEER,
    Operation,
    frames_in,
    head,
    whole,
)
from tests.gateway.streams.fakes import FakeTransport
from tests.wire.floods import PREFACE, raw
from tests.wire.http2_streams import Code


class CountingTransport(FakeTransport):
    writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        super().write(data)


class On:
    """A connection whose client is the test."""

    def __init__(
        self,
        operation: Operation,
        max_streams: int,
        account: Account | None = None,
    ) -> None:
        self.operation = operation
        self.told: list[str] = []
        self.siblings = Connections(operation, self.told.append, max_streams)
        self.connection = Http2Connection(self.siblings, uncounted(account))
        self.transport = CountingTransport()
        self.transport.set_protocol(self.connection)
        self.connection.connection_made(self.transport)

    def receive(self, *frames: Frame | bytes) -> None:
        """All in one read."""
        pieces = [frame if isinstance(frame, bytes) else frame.serialize() for frame in frames]
        self.transport.deliver(b"".join(pieces))

    def sent(self) -> list[Frame]:
        """Frames that were written since the last time."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        return frames_in(data)

    async def opened(self, *stream_ids: int) -> None:
        """Streams whose responses have begun."""
        self.receive(OPENING, *map(head, stream_ids))
        await self.read_all()
        self.sent()

    async def read_all(self) -> None:
        """Let it take as many turns as it needs for what it has been sent."""
        await turns()
        while self.transport.paused:
            await turns()

    @property
    def streams(self) -> dict[int, object]:
        return self.connection._streams.open


async def turns(count: int = 6) -> None:
    """Turns of the loop, for what is called soon."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def made():
    """Made inside the loop; its transport is gone at the test's end."""
    those: list[On] = []

    def make(operation: Operation | None = None, *, max_streams: int = 100) -> On:
        those.append(On(operation or Operation(), max_streams))
        return those[-1]

    yield make
    for on in those:
        if on.siblings.open:  # the test may have lost it
            on.transport.lose()
    await turns()


def of_kind(kind: type[Frame], frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if isinstance(frame, kind)]


# --- The beginning -------------------------------------------------------------------------------


async def test_it_says_its_settings_and_its_window_at_once(made):
    on = made(max_streams=7)
    settings, window = on.sent()
    assert settings.settings == {
        SettingsFrame.INITIAL_WINDOW_SIZE: HTTP2_OPENING_WINDOW,
        SettingsFrame.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
        SettingsFrame.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
        SettingsFrame.ENABLE_PUSH: 0,
        SettingsFrame.MAX_CONCURRENT_STREAMS: 7,
    }
    assert window.stream_id == 0
    assert window.window_increment == HTTP2_CONNECTION_WINDOW - HTTP2_OPENING_WINDOW
    assert len(on.siblings.open) == 1


TALK = OPENING + raw(head(1), DataFrame(1, b"x"), whole(3), PingFrame(0, bytes(8)))


def plainly(frame: Frame) -> object:
    """A frame without what differs from one response to the next: date and request id."""
    kind = type(frame).__name__
    return kind if isinstance(frame, HeadersFrame) else (kind, frame.serialize())


async def test_it_answers_the_same_wherever_a_read_ends(made):
    answers = []
    for cut in range(len(TALK) + 1):
        on = made(Operation(b"hi"))
        on.receive(TALK[:cut])
        on.receive(TALK[cut:])
        await turns()
        assert [exchange.peer for exchange in on.operation.asked] == [PEER, PEER]
        answers.append(sorted(map(repr, map(plainly, on.sent()))))
    assert all(answer == answers[0] for answer in answers)
    assert sum("DataFrame" in line for line in answers[0]) == 2


# --- Writing -------------------------------------------------------------------------------------


async def test_what_one_read_brings_is_answered_in_one_write(made):
    on = made()
    await on.opened(1)
    before = on.transport.writes
    on.receive(*(PingFrame(0, bytes(7) + bytes([number])) for number in range(9)))
    assert len(of_kind(PingFrame, on.sent())) == 9
    assert on.transport.writes == before + 1


async def test_so_is_what_others_send_on_several_streams_meanwhile(made):
    on = made()
    await on.opened(1, 3, 5)
    before = on.transport.writes
    assert batched_writes.begin()
    for stream in on.streams.values():
        stream.write(b"event")
    batched_writes.end()
    assert on.transport.writes == before
    await turns(1)
    assert [frame.data for frame in on.sent()] == [b"event"] * 3
    assert on.transport.writes == before + 1


async def test_what_a_lone_stream_sends_leaves_with_the_read_that_caused_it(made):
    on = made()
    await on.opened(1)
    (stream,) = on.streams.values()
    before = on.transport.writes
    assert batched_writes.begin()
    stream.write(b"a")
    stream.write(b"b")
    assert on.transport.writes == before
    batched_writes.end()
    assert [frame.data for frame in on.sent()] == [b"ab"]
    assert on.transport.writes == before + 1


async def test_a_full_socket_holds_data_back_and_nothing_else(made):
    on = made()
    await on.opened(1)
    (stream,) = on.streams.values()
    on.connection.pause_writing()
    stream.write(b"event")
    on.receive(PingFrame(0, bytes(8)))
    assert [type(frame) for frame in on.sent()] == [PingFrame]
    on.connection.resume_writing()
    assert [frame.data for frame in on.sent()] == [b"event"]


async def test_streams_that_end_while_they_send_are_told_in_the_same_write(made):
    """What sending causes is sent too: here the window's last bytes, and then a reset."""
    on = made()
    await on.opened(1)
    (stream,) = on.streams.values()
    before = on.transport.writes
    assert batched_writes.begin()
    stream.write(b"event")
    stream.abort()
    batched_writes.end()
    assert [type(frame) for frame in on.sent()] == [RstStreamFrame]
    assert on.transport.writes == before + 1


# --- Reading in turns ----------------------------------------------------------------------------


async def test_a_read_of_many_frames_lets_others_go_first(made):
    on = made()
    await on.opened(1)
    on.receive(*(PingFrame(0, number.to_bytes(8, "big")) for number in range(150)))
    done = [len(of_kind(PingFrame, on.sent()))]
    assert on.transport.paused
    while on.transport.paused:
        await turns(1)
        done.append(len(of_kind(PingFrame, on.sent())))
    assert done == [64, 64, 22]


async def test_what_comes_while_it_waits_for_its_turn_is_behind_it(made):
    """The transport is paused, but what TLS has decrypted by then is delivered still."""
    on = made()
    await on.opened(1)
    numbers = [number.to_bytes(8, "big") for number in range(100)]
    on.receive(*(PingFrame(0, number) for number in numbers[:90]))
    on.connection.data_received(raw(*(PingFrame(0, number) for number in numbers[90:])))
    first = of_kind(PingFrame, on.sent())
    assert len(first) == limits.HTTP2_FRAMES_PER_TURN
    await turns()
    rest = of_kind(PingFrame, on.sent())
    assert [frame.opaque_data for frame in first + rest] == numbers
    assert not on.transport.paused


async def test_a_turn_that_waits_when_the_transport_goes_is_not_taken(made):
    on = made()
    await on.opened(1)
    on.receive(*(PingFrame(0, bytes(8)) for _ in range(150)))
    on.sent()
    on.transport.lose()
    await turns()
    assert on.sent() == []


# --- Too much ------------------------------------------------------------------------------------


async def test_who_does_too_much_is_closed_to_new_streams_and_told_once(made):
    on = made()
    await on.opened(1)
    for _ in range(20):
        on.receive(*(PingFrame(0, bytes(8)) for _ in range(60)))
    on.receive(whole(3))
    await turns()
    (goaway,) = of_kind(GoAwayFrame, on.sent())
    assert (goaway.last_stream_id, goaway.error_code) == (1, Code.ENHANCE_YOUR_CALM)
    assert on.told == ["control frames"]
    assert list(on.streams) == [1]


async def test_a_stream_of_tiny_frames_is_reset(made, monkeypatch):
    monkeypatch.setattr(limits, "HTTP2_TINY_BURST", 20)
    monkeypatch.setattr(limits, "HTTP2_TINY_RATE", 1)
    on = made()
    await on.opened(1, 3)
    for _ in range(3):
        on.receive(*[DataFrame(1, b"x")] * 60)
        await on.read_all()
    (reset,) = of_kind(RstStreamFrame, on.sent())
    assert (reset.stream_id, reset.error_code) == (1, Code.ENHANCE_YOUR_CALM)
    assert list(on.streams) == [3]


async def test_credit_of_the_connection_comes_back(made):
    on = made()
    await on.opened(*range(1, 160, 2))
    for stream_id in range(1, 160, 2):
        on.receive(*[DataFrame(stream_id, bytes(16_000))] * 4)
    await on.read_all()
    updates = of_kind(WindowUpdateFrame, on.sent())
    assert [frame.stream_id for frame in updates] == [0]
    assert updates[0].window_increment >= HTTP2_CONNECTION_WINDOW // 4


# --- Faults and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "last", "code"),
    [
        (DataFrame(9, b"of no stream").serialize(), 1, Code.PROTOCOL_ERROR),
        (b"\x00\x40\x01\x00\x00\x00\x00\x00\x01", 1, Code.FRAME_SIZE_ERROR),
    ],
    ids=["a frame that RFC 9113 forbids", "a frame that is too large, by its head"],
)
async def test_who_breaks_rfc_9113_is_told_and_loses_the_connection(made, fault, last, code):
    on = made()
    await on.opened(1)
    on.receive(PingFrame(0, bytes(8)), fault)
    await turns()
    pong, goaway = on.sent()
    assert isinstance(pong, PingFrame)
    assert (goaway.last_stream_id, goaway.error_code) == (last, code)
    assert on.transport.closing
    assert on.streams == {}
    on.receive(whole(3))
    assert on.sent() == []


@pytest.mark.parametrize("opened", [(), (1,)], ids=["first", "beside others"])
async def test_a_proxy_that_opens_websockets_over_http2_is_spoken_of_in_the_log(
    made, caplog, opened
):
    """HAProxy resets the stream on which it would have asked, and asks nothing."""
    on = made()
    await on.opened(*opened)
    on.receive(RstStreamFrame(3, Code.CANCEL))
    await turns()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("a reset of a stream that was never opened peer=")
    assert "WebSocket over HTTP/2 (RFC 8441)" in line
    assert "`ws h1`" in line
    on.receive(RstStreamFrame(1, Code.CANCEL))
    await turns()
    assert len(caplog.records) == 1  # a stream that was opened, or a connection that has ended


async def test_no_preface_no_connection(made):
    on = made()
    on.sent()
    on.receive(PREFACE[:-1] + b"x", SettingsFrame(0))
    assert on.sent() == []  # who speaks something else would not understand a GOAWAY
    assert on.transport.closing


async def test_a_client_that_ends_its_side_has_left(made):
    on = made()
    await on.opened(1)
    assert on.connection.eof_received() is False
    assert on.transport.closing
    on.receive(PingFrame(0, bytes(8)))
    assert on.sent() == []
    assert not on.connection._reader.waiting  # nor is it kept


async def test_a_transport_that_is_lost_takes_everything_with_it(made):
    on = made()
    await on.opened(1, 3)
    on.siblings.closed.clear()
    on.transport.lose()
    assert on.streams == {}
    assert on.siblings.open == set()
    assert on.siblings.streams == 0
    assert on.siblings.closed.is_set()
    on.connection._sender.flush()
    assert on.sent() == []


async def test_nothing_keeps_a_connection_that_is_lost(made):
    """No timer that waits for it to be idle, for one."""
    connection = Http2Connection(Connections(Operation(), [].append, 1))
    connection.connection_made(FakeTransport())
    connection.connection_lost(None)
    gone = weakref.ref(connection)
    del connection
    gc.collect()
    assert gone() is None


async def test_the_server_closes_it_when_its_last_stream_is_over(made):
    on = made()
    await on.opened(1)
    (lifetime,) = on.siblings.open
    lifetime.close_when_idle()
    assert [type(frame) for frame in on.sent()] == [GoAwayFrame]
    on.receive(DataFrame(1, b"", flags=["END_STREAM"]))
    (stream,) = on.streams.values()
    stream.finish(b"last", b"")
    await turns()
    assert [frame.data for frame in on.sent()] == [b"last"]
    assert on.transport.eof_written


# --- Strangers -----------------------------------------------------------------------------------


async def test_strangers_who_ask_in_the_same_moment_have_their_turns_in_rounds(monkeypatch):
    """However short what they ask; who is known is read at once."""
    monkeypatch.setattr(
        "partway.protocol.connections.fair_turns.ROUND_SECONDS", 0.0
    )  # one turn is a round
    accounts = [Account() for _ in range(4)]
    operation = Operation()
    those = [On(operation, 100, account) for account in accounts]
    accounts[-1].known = True
    for on in those:
        on.receive(OPENING, head(1))
    opened = []
    for _ in range(4):
        opened.append([len(on.streams) for on in those])
        await asyncio.sleep(0)
    assert opened == [[0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]]
    for on in those:
        on.transport.lose()
    await turns()
