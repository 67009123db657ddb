"""What becomes of a client's frames, and of what streams send, at times of the test's choice."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
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

from partway.gateway.http.http2.connection import Http2FrameReader
from partway.gateway.http.http2.library import server_library
from partway.gateway.http.http2.sending import Http2Sender
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.http.http2.streams import Http2Streams
from partway.gateway.limits import (
    HTTP2_CONNECTION_WINDOW,
    HTTP2_ENCODER_TABLE,
    HTTP2_HELD_BACK,
    HTTP2_HOLD_BACK_FROM,
    HTTP2_IDLE_TIMEOUT,
    HTTP2_LATE_QUIET,
    HTTP2_LATE_QUIET_AT_CLOSE,
)
from partway.protocol import limits
from partway.protocol.http2.flood_gate import FrameGate
from tests.gateway.http.http2.connection_parts import (
    OPENING,
    PEER,
    Operation,
    Parts,
    head,
    whole,
)
from tests.wire.http2_streams import Code

QUARTER = HTTP2_CONNECTION_WINDOW // 4
WINDOW = 65_535


class PatientSender(Http2Sender):
    """One that sends when it is flushed, and not before."""

    def soon(self) -> None:
        pass


class On(Parts):
    """Streams whose frames come from the test, and are sent when it looks."""

    def __init__(self, *opening: Frame, **parts) -> None:
        super().__init__(**parts)
        self.library = server_library()
        open_streams: dict[int, Http2Stream] = {}
        self.sender = PatientSender(self.out, self.library, open_streams, lambda: None)
        self.streams = Http2Streams(
            *(self.library, self.gate, self.out, self.sender, self.lifetime, self.siblings),
            open_streams=open_streams,
            clock=self.clock,
        )
        self.reader = Http2FrameReader(self.gate, self.library, self.streams, self.out)
        self.receive(OPENING, *opening)
        self.sent()

    def receive(self, *frames: Frame | bytes) -> None:
        """All in one turn."""
        for frame in frames:
            self.reader.feed(frame if isinstance(frame, bytes) else frame.serialize())
        self.reader.take_turn(self.clock.time())

    def on_closing(self) -> None:
        self.streams.late.close_soon()

    def flush(self) -> None:
        self.sender.flush()

    def answer_all(self) -> None:
        """End the responses of all streams that are open."""
        for stream in list(self.streams.open.values()):
            stream.finish(b"", b"")
        self.flush()

    def resets(self) -> list[tuple[int, Code]]:
        """RST_STREAMs sent since the last time."""
        return [
            (frame.stream_id, Code(frame.error_code))
            for frame in self.sent()
            if isinstance(frame, RstStreamFrame)
        ]

    def credit(self) -> list[tuple[int, int]]:
        """WINDOW_UPDATEs sent since the last time."""
        return [
            (frame.stream_id, frame.window_increment)
            for frame in self.sent()
            if isinstance(frame, WindowUpdateFrame)
        ]


@pytest.fixture
async def made():
    """Made inside the loop; what it has open ends with the test."""
    those: list[On] = []

    def make(*opening, **parts) -> On:
        those.append(On(*opening, **parts))
        return those[-1]

    yield make
    for on in those:
        on.out.lost()
        on.streams.lost()
    await turns()


async def turns() -> None:
    """Tasks that wait for nothing come to their end."""
    for _ in range(4):
        await asyncio.sleep(0)


async def opened(made, *stream_ids: int, **parts) -> On:
    """Streams whose responses have begun."""
    on = made(*(head(stream_id) for stream_id in stream_ids), **parts)
    await turns()
    on.sent()
    return on


# --- Requests ------------------------------------------------------------------------------------


async def test_a_request_becomes_an_exchange_and_its_answer_frames(made):
    on = made(operation=Operation(b"hi"))
    on.receive(whole(1))
    await turns()
    (exchange,) = on.operation.asked
    assert (exchange.method, exchange.path, exchange.peer) == ("POST", "/", PEER)
    answer, body = on.sent()
    assert isinstance(answer, HeadersFrame)
    assert (body.data, body.flags) == (b"hi", {"END_STREAM"})
    assert on.streams.open == {}
    assert on.clock.armed[0].due == on.clock.time() + HTTP2_IDLE_TIMEOUT


async def test_one_stream_too_many_is_refused_by_itself(made):
    on = made(head(1), head(3), max_streams=2)
    on.receive(head(5))
    assert on.resets() == [(5, Code.REFUSED_STREAM)]
    assert list(on.streams.open) == [1, 3]
    await turns()
    assert len(on.operation.asked) == 2


async def test_an_exchange_that_nobody_answers_is_reset(made):
    async def silent(exchange):
        pass

    on = made(operation=silent)
    on.receive(head(1))
    (stream,) = on.streams.open.values()
    assert stream.task is not None
    await turns()
    assert on.resets() == [(1, Code.CANCEL)]
    assert on.streams.open == {}
    assert stream.task is None


async def test_frames_before_the_preface_are_a_fault(made):
    on = made()
    reader = Http2FrameReader(on.gate, server_library(), on.streams, on.out)
    reader.feed(PingFrame(0, bytes(8)).serialize() * 2)
    with pytest.raises(ProtocolError):
        reader.take_turn(0.0)


async def test_data_whose_delivery_has_failed_is_not_delivered_again(made, monkeypatch):
    on = await opened(made, 1)
    delivered = []

    def fail(data, size):
        delivered.append(data)
        raise ZeroDivisionError

    monkeypatch.setattr(on.streams.open[1], "data_received", fail)
    with pytest.raises(ZeroDivisionError):
        on.receive(DataFrame(1, b"once"))
    assert not on.reader.waiting
    on.reader.take_turn(0.0)
    assert delivered == [b"once"]


async def test_headers_count_as_what_they_decode_to(made, monkeypatch):
    """One byte on the wire may have been thousands of them."""
    on = made()
    decoded = []
    monkeypatch.setattr(on.gate, "headers_decoded", lambda *of: decoded.append(of))
    on.receive(head(1))
    assert decoded == [(4, len(":methodPOST:schemehttp:authoritya:path/"), 1e3)]


# --- Credit --------------------------------------------------------------------------------------


@pytest.mark.clause("2.6-2")
@pytest.mark.parametrize("padding", [0, 100], ids=["plain", "padded"])
async def test_the_connection_s_credit_comes_back_whoever_reads(made, padding):
    """Nobody reads the streams, so theirs does not."""
    on = await opened(made, *range(1, 200, 2), max_streams=100)
    frame = {"flags": ["PADDED"], "pad_length": padding - 1} if padding else {}
    size = given = 0
    for stream_id in range(1, 200, 2):
        for _ in range(3):
            data = DataFrame(stream_id, bytes(16_000), **frame)
            assert data.flow_controlled_length == 16_000 + padding
            on.receive(data)
            size += data.flow_controlled_length
        on.reader.give_credit()
        credit = on.credit()
        assert {stream for stream, _ in credit} <= {0}
        given += sum(increment for _, increment in credit)
        assert 0 <= size - given < QUARTER
    assert given


async def test_so_does_that_of_data_which_the_gate_has_dropped(made):
    on = made()
    on.gate.owed_credit = QUARTER - 1
    on.reader.give_credit()
    assert on.credit() == []
    on.gate.owed_credit += 1
    on.reader.give_credit()
    assert on.credit() == [(0, QUARTER)]
    assert on.gate.owed_credit == 0


async def test_credit_for_a_stream_that_h2_has_forgotten_is_none(made):
    on = await opened(made, 1)
    on.sender.give_credit(1, 10)
    on.sender.give_credit(7, 10)
    assert on.credit() == [(1, 10)]


# --- Windows -------------------------------------------------------------------------------------


@pytest.mark.clause("2.3-6")
async def test_of_each_window_a_little_is_held_back(made):
    on = await opened(made, 1)
    assert on.sender.window(1, whole=True) == WINDOW
    assert on.sender.window(1, whole=False) == WINDOW - HTTP2_HELD_BACK
    assert on.sender.window(3, whole=True) == 0
    on.out.lost()
    assert on.sender.window(1, whole=True) == 0


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("before", [False, True], ids=["while it is open", "before it opens"])
async def test_of_a_small_window_nothing_is_held_back(made, before):
    initial = HTTP2_HOLD_BACK_FROM
    on = await opened(made, *([] if before else [1]))
    for size, held_back in ((initial, HTTP2_HELD_BACK), (initial - 1, 0)):
        on.receive(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: size}))
        if before:
            on.receive(head(1))
            before = False
        stream = on.streams.open[1]
        assert on.sender.window(1, whole=False) == size - held_back
        assert on.sender.uncut == (size // 4 if held_back else 0)
        stream.write(b"x")  # what can be followed by a last event leaves room for it
        assert on.sender.own_window(stream) == size - held_back
    assert on.sender.shared_window() == WINDOW


async def test_a_window_that_opens_lets_the_stream_send(made):
    on = await opened(made, 1)
    on.receive(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 0}))
    stream = on.streams.open[1]
    stream.write(b"event")
    assert [type(frame) for frame in on.sent()] == [SettingsFrame]
    on.receive(WindowUpdateFrame(1, 3))
    assert [frame.data for frame in on.sent()] == [b"eve"]
    on.receive(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 10}))
    assert [frame.data for frame in on.sent() if isinstance(frame, DataFrame)] == [b"nt"]


async def test_the_encoder_s_table_is_ours_to_bound(made):
    on = made()
    for size in (0, HTTP2_ENCODER_TABLE, 1 << 20):
        on.receive(SettingsFrame(0, settings={SettingsFrame.HEADER_TABLE_SIZE: size}))
        table = on.library.encoder.header_table_size
        assert table == min(size, HTTP2_ENCODER_TABLE)


# --- Ends of streams -----------------------------------------------------------------------------


class Left:
    """A handler that notes how its client left, and what it was told before."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def data_received(self, data):
        self.told.append(data)

    def input_ended(self):
        self.told.append("end")

    def pong_received(self, payload):
        self.told.append(payload)

    def connection_lost(self, how):
        self.told.append(how.value)


def handled(on: On, stream_id: int) -> Left:
    """Start a stream that is read."""
    left = Left()
    stream = on.streams.open[stream_id]
    stream.start(left, high_water=100, low_water=10, call_later=on.clock.call_later)
    stream.resume_reading()
    return left


async def test_data_and_its_end_reach_their_stream_and_no_other(made):
    on = await opened(made, 1, 3)
    first, other = handled(on, 1), handled(on, 3)
    on.receive(DataFrame(1, b"a"), DataFrame(1, b"b", flags=["END_STREAM"]))
    assert (first.told, other.told) == ([b"a", b"b", "end"], [])


@pytest.mark.parametrize(
    ("code", "told"),
    [(Code.NO_ERROR, "in order"), (Code.CANCEL, "cancelled"), (Code.INTERNAL_ERROR, "lost")],
)
async def test_a_client_that_resets(made, code, told):
    on = await opened(made, 1, 3)
    left, other = handled(on, 1), handled(on, 3)
    on.receive(RstStreamFrame(1, code))
    await turns()
    assert (left.told, other.told) == ([told], [])
    assert list(on.streams.open) == [3]
    assert on.resets() == []


@pytest.fixture
def provoked(monkeypatch) -> list[float]:
    """When frames of the client's counted as resets, since we or h2 had to answer with one."""
    moments: list[float] = []
    monkeypatch.setattr(FrameGate, "reset_provoked", lambda _, now: moments.append(now))
    return moments


@pytest.mark.parametrize("age", [0.5, 1.5])
async def test_how_old_a_stream_was_is_told(made, monkeypatch, age):
    on = await opened(made, 1)
    ages = []
    monkeypatch.setattr(on.lifetime, "stream_reset", ages.append)
    on.clock.advance(age)
    on.receive(RstStreamFrame(1, Code.CANCEL))
    assert ages == [age]


async def test_a_reset_that_a_frame_provokes_counts_as_the_client_s(made, provoked):
    """Here a window that is made too large (RFC 9113 §6.9.1)."""
    on = await opened(made, 1)
    left = handled(on, 1)
    on.receive(WindowUpdateFrame(1, 2**31 - 1))
    await turns()
    assert left.told == ["lost"]
    assert on.resets() == [(1, Code.FLOW_CONTROL_ERROR)]
    on.receive(DataFrame(1, b"late"))  # sent before the client could see that
    assert on.gate.owed_credit == 4
    assert provoked == [on.clock.time()]


@pytest.mark.clause("2.3-6")
async def test_who_does_not_end_a_stream_that_is_over_is_told_to_after_a_while(made):
    on = await opened(made, 1)
    on.answer_all()
    on.clock.advance(HTTP2_LATE_QUIET - 0.1)
    assert on.resets() == []
    on.clock.advance(0.2)
    assert on.resets() == [(1, Code.NO_ERROR)]
    on.clock.advance(HTTP2_LATE_QUIET)
    assert on.resets() == []


@pytest.mark.clause("2.3-6", "2.6-2")
async def test_what_comes_behind_a_response_is_dropped_with_credit(made):
    """A client may have more to send than its window before it can end the stream."""
    on = await opened(made, 1)
    on.answer_all()
    on.sent()
    for _ in range(5):
        on.clock.advance(HTTP2_LATE_QUIET - 1)
        on.receive(*[DataFrame(1, bytes(16_000))] * 3)
        on.flush()
        update = b"\x00\x00\x04\x08\x00\x00\x00\x00\x01" + (48_000).to_bytes(4, "big")
        assert bytes(on.transport.written[on._read :]) == update
        assert on.credit() == [(1, 48_000)]
    on.receive(DataFrame(1, b"", flags=["END_STREAM"]))
    on.clock.advance(HTTP2_LATE_QUIET)
    assert on.resets() == []


@pytest.mark.parametrize(
    "end", [DataFrame(1, b"", flags=["END_STREAM"]), RstStreamFrame(1, Code.NO_ERROR)],
    ids=["END_STREAM", "RST_STREAM"],
)  # fmt: skip
async def test_who_ends_it_in_time_is_told_nothing(made, end):
    on = await opened(made, 1, max_streams=1)
    on.answer_all()
    assert on.lifetime.takes_a_stream()
    assert 1 in on.streams.late
    on.receive(end)
    assert 1 not in on.streams.late
    assert len(on.clock.armed) == 1  # for an idle connection
    on.clock.advance(HTTP2_LATE_QUIET * 2)
    on.receive(DataFrame(1, b"behind its end"))  # h2 would answer with a reset
    assert on.resets() == []


@pytest.mark.clause("2.1-4")
async def test_who_has_said_goaway_is_not_told_to_end_it(made, provoked):
    on = await opened(made, 1)
    on.receive(GoAwayFrame(0))
    on.answer_all()
    on.clock.advance(HTTP2_LATE_QUIET)
    assert on.resets() == []
    assert on.library.open_inbound_streams == 0
    assert on.library.streams == {}, "each that h2 kept would make the next one dearer"
    on.receive(DataFrame(1, b"late"))
    assert on.gate.owed_credit == 4
    assert provoked == []


async def test_a_connection_that_closes_waits_for_that_and_no_longer(made):
    on = await opened(made, 1)
    on.receive(GoAwayFrame(0))
    on.lifetime.close_when_idle()
    on.answer_all()
    await turns()
    assert not on.transport.eof_written
    on.clock.advance(HTTP2_LATE_QUIET_AT_CLOSE)
    assert on.transport.eof_written
    assert on.resets() == [(1, Code.NO_ERROR)]


async def test_a_close_hastens_streams_that_are_waited_for(made):
    """A process that stops does not wait for half a minute."""
    on = await opened(made, 1)
    on.answer_all()
    on.clock.advance(5)
    on.lifetime.close_when_idle()
    assert not on.transport.eof_written
    on.clock.advance(HTTP2_LATE_QUIET_AT_CLOSE)
    assert on.resets() == [(1, Code.NO_ERROR)]
    assert on.transport.eof_written


async def test_streams_of_tiny_frames_are_reset(made):
    on = await opened(made, 1, 3, 5)
    on.streams.open[5].finish(b"", b"")  # over, but for its client's end of it
    on.sent()
    left, other = handled(on, 1), handled(on, 3)
    on.gate.overdoing = {1, 5, 7}
    on.streams.reset_offending()
    await turns()
    assert sorted(on.resets()) == [(1, Code.ENHANCE_YOUR_CALM), (5, Code.NO_ERROR)]
    assert (left.told, other.told) == (["lost"], [])
    assert on.gate.overdoing == set()
    on.clock.advance(HTTP2_LATE_QUIET)
    assert on.resets() == []


async def test_what_is_sent_on_a_stream_that_its_client_has_reset_is_dropped(made):
    on = await opened(made, 1)
    stream = on.streams.open[1]
    on.library.receive_data(RstStreamFrame(1, Code.CANCEL).serialize())  # its event is to come
    on.sender.send_head(1, [(":status", "200")])
    on.sender.send_data(1, b"late", end=False)
    on.sender.send_data(1, b"late", end=True)
    on.streams.reset(1, ErrorCodes.CANCEL)
    assert on.sent() == []
    assert on.streams.open == {1: stream}
    on.receive(DataFrame(1, b"behind its reset"))
    assert on.gate.closed_streams == [1], "to the gate it is over"


@pytest.mark.parametrize("lose", ["lose_all", "lost"])
async def test_all_streams_are_lost_at_once(made, lose):
    on = await opened(made, 1, 3)
    left = [handled(on, 1), handled(on, 3)]
    getattr(on.streams, lose)()
    await turns()
    assert [each.told for each in left] == [["lost"], ["lost"]]
    assert on.streams.open == {}
    assert on.siblings.streams == 0
    assert on.resets() == []


async def test_nothing_keeps_a_stream_that_is_over(made):
    """Not even the turns, where it waits for a window that never opens."""
    on = await opened(made, 1)
    on.receive(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 0}))
    on.streams.open[1].write(b"event")
    on.sent()
    stream = weakref.ref(on.streams.open[1])
    on.operation.asked.clear()
    on.receive(RstStreamFrame(1, Code.CANCEL))
    await turns()
    gc.collect()
    assert stream() is None


async def test_no_timer_outlives_the_transport(made):
    on = await opened(made, 1)
    on.answer_all()
    on.lifetime.lost()
    assert len(on.clock.armed) == 1
    on.out.lost()
    on.streams.lost()
    assert on.clock.armed == []


# --- Pings ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-4")
async def test_a_pong_reaches_the_stream_that_has_pinged(made):
    on = await opened(made, 1, 3)
    first, other = handled(on, 1), handled(on, 3)
    position = on.streams.open[3].ping((9).to_bytes(8, "big"))
    (ping,) = [frame for frame in on.sent() if isinstance(frame, PingFrame)]
    assert on.sender.flushed(position)
    assert not on.sender.flushed(position + 1)
    on.receive(PingFrame(0, ping.opaque_data, flags=["ACK"]))
    assert (first.told, other.told) == ([], [(9).to_bytes(8, "big")])


async def test_a_ping_that_the_socket_has_not_taken_is_not_flushed(made):
    on = await opened(made, 1)
    on.transport.set_protocol(None)
    on.transport.stuck = True
    position = on.streams.ping(bytes(8))
    assert not on.sender.flushed(position)
    on.transport.take(on.transport.unsent)
    assert on.sender.flushed(position)


async def test_pongs_that_were_asked_for_are_no_flood(made):
    on = await opened(made, 1)
    for _ in range(limits.HTTP2_CONTROL_BURST + 10):
        on.streams.ping(bytes(8))
        on.receive(PingFrame(0, bytes(8), flags=["ACK"]))
    assert on.gate.overdone is None


async def test_nothing_is_pinged_on_a_connection_that_is_closed(made):
    """It would be a fault to h2, where that has sent a GOAWAY."""
    on = await opened(made, 1)
    with pytest.raises(ProtocolError):
        on.receive(DataFrame(9, b"of no stream"))
    on.sent()
    on.out.close()
    on.streams.ping(bytes(8))
    assert on.sent() == []
