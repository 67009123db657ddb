"""One HTTP/2 stream's bodies on a carrier that does nothing by itself (clauses 2.3-6, 2.6)."""

from __future__ import annotations

import asyncio

import pytest
from h2.errors import ErrorCodes

from partway.gateway.http.duplex import Parting
from partway.gateway.http.http2.stream import Http2Stream
from partway.gateway.limits import HTTP2_OPENING_WINDOW, HTTP2_STREAM_WINDOW
from partway.protocol.limits import HTTP2_MAX_FRAME, LINGER_TIMEOUT
from tests.gateway.streams.fakes import FakeClock


class FakeCarrier:
    """Writes down what a stream has it do; has the window that a test gives it.

    It stands for the sender and for the table of streams.
    """

    uncut = 0

    def __init__(self, window: int = 1 << 20, held_back: int = 1024) -> None:
        self.free = window
        self.held_back = held_back
        self.sent: list[tuple[bytes, bool]] = []
        self.heads: list[list[tuple[str, str]]] = []
        #: Those that ended the response.
        self.last_heads: list[list[tuple[str, str]]] = []
        self.credit = 0
        self.resets: list[ErrorCodes] = []
        #: Ends of the request that are waited for: credit owed, and whether its body has not begun.
        self.awaited: list[tuple[int, bool]] = []
        self.over: list[Http2Stream] = []
        self.pings: list[bytes] = []

    def send_head(self, stream_id, headers, *, end=False):
        (self.last_heads if end else self.heads).append(headers)

    def send_data(self, stream_id, data, *, end):
        self.free -= len(data)
        self.sent.append((data, end))

    def stream_ready(self, stream):
        while stream.wants_to_send and stream.send_frame():
            pass

    def window(self, stream_id, *, whole):
        return self.free - (0 if whole else self.held_back)

    def give_credit(self, stream_id, size):
        self.credit += size

    def reset(self, stream_id, code):
        self.resets.append(code)

    def await_end(self, stream_id, owed, *, unbegun):
        self.awaited.append((owed, unbegun))

    def stream_over(self, stream):
        self.over.append(stream)

    def ping(self, payload):
        self.pings.append(payload)
        return 5

    def flushed(self, position):
        return position <= 5

    @property
    def body(self) -> bytes:
        return b"".join(data for data, _ in self.sent)


class Owner:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.told: list[object] = []

    def data_received(self, data):
        self.received += data

    def input_ended(self):
        self.told.append("end")

    def pong_received(self, payload):
        self.told.append(payload)

    def writing_paused(self):
        self.told.append("paused")

    def writing_resumed(self):
        self.told.append("resumed")

    def connection_lost(self, how):
        self.told.append(("lost", how))


class Started:
    def __init__(self, high_water=1000, low_water=100, **carrier) -> None:
        self.clock = FakeClock()
        self.carrier = FakeCarrier(**carrier)
        self.owner = Owner()
        self.stream = Http2Stream(self.carrier, self.carrier, 5)
        self.stream.start(
            self.owner,
            high_water=high_water,
            low_water=low_water,
            call_later=self.clock.call_later,
        )


@pytest.fixture
async def started():
    """Made inside the loop."""
    return Started


# --- The request's body --------------------------------------------------------------------------


@pytest.mark.clause("2.6-2", "2.6-3")
async def test_all_that_is_received_is_credited_while_it_is_read(started):
    on = started()
    on.stream.resume_reading()
    for _ in range(64):  # 1 MiB of one event, on a window of 256 KiB
        on.stream.data_received(bytes(16_384), 16_384)
    owed = 64 * 16_384 + HTTP2_STREAM_WINDOW - HTTP2_OPENING_WINDOW
    assert owed - on.carrier.credit < HTTP2_OPENING_WINDOW
    assert len(on.owner.received) == 64 * 16_384


@pytest.mark.clause("2.6-1", "2.6-2")
async def test_nothing_is_credited_while_reading_is_paused(started):
    on = started()
    on.stream.resume_reading()
    on.stream.data_received(bytes(60_000), 60_000)
    before = on.carrier.credit
    on.stream.pause_reading()
    for _ in range(10):
        on.stream.data_received(bytes(20_000), 20_000)
    assert on.carrier.credit == before
    assert on.stream.buffered_bytes == 200_000
    on.stream.resume_reading()
    assert len(on.owner.received) == 260_000
    assert on.carrier.credit >= before + 200_000
    assert on.stream.buffered_bytes == 0


async def test_padding_is_credited_too(started):
    on = started()
    on.stream.resume_reading()
    on.stream.data_received(b"x", 60_000)
    assert on.carrier.credit >= 60_000


async def test_the_end_is_told_after_all_that_came_before_it(started):
    on = started()
    on.stream.data_received(b"held", 4)
    on.stream.request_ended()
    assert on.owner.told == []
    on.stream.resume_reading()
    assert (on.owner.received, on.owner.told) == (b"held", ["end"])


async def test_the_end_is_told_once(started):
    on = started()
    on.stream.resume_reading()
    on.stream.request_ended()
    on.stream.pause_reading()
    on.stream.resume_reading()
    assert on.owner.told == ["end"]


# --- The response's ------------------------------------------------------------------------------


async def test_events_are_joined_and_cut_to_frames(started):
    on = started()
    on.carrier.free = 0
    on.stream.write(b"a" * 10)
    on.stream.write(b"b" * 20_000)
    on.carrier.free = 1 << 20
    on.carrier.stream_ready(on.stream)
    assert [len(data) for data, _ in on.carrier.sent] == [HTTP2_MAX_FRAME, 20_010 - HTTP2_MAX_FRAME]
    assert on.carrier.body == b"a" * 10 + b"b" * 20_000
    assert on.stream.taken_bytes == 20_010


async def test_marks(started):
    on = started(window=1024)
    on.stream.write(bytes(1000))
    assert on.owner.told == []
    on.stream.write(bytes(1))
    assert on.owner.told == ["paused"]
    on.carrier.free += 900
    on.carrier.stream_ready(on.stream)
    assert on.owner.told == ["paused"]
    on.carrier.free += 1
    on.carrier.stream_ready(on.stream)
    assert on.owner.told == ["paused", "resumed"]


@pytest.mark.clause("2.3-6")
async def test_the_last_event_uses_what_was_held_back_for_it(started):
    on = started(window=2024)
    on.stream.write(bytes(1000))
    assert on.carrier.free == 1024
    on.stream.finish(b"e" * 1024, b"")
    assert on.carrier.sent[-1] == (b"e" * 1024, True)
    assert on.carrier.resets == []
    assert len(on.carrier.awaited) == 1


@pytest.mark.clause("2.3-6")
async def test_no_reset_for_who_has_ended(started):
    on = started()
    on.stream.request_ended()
    on.stream.finish(b"", b"")
    assert on.carrier.sent == [(b"", True)]
    assert on.carrier.resets == []
    await asyncio.sleep(0)
    assert on.owner.told == [("lost", Parting.LOST)]
    assert on.carrier.over == [on.stream]


@pytest.mark.clause("2.3-6")
async def test_who_takes_nothing_gets_the_other_last_event_in_place_of_the_rest(started):
    on = started(window=1024)
    on.stream.write(bytes(500))
    on.stream.finish(b"", b"otherwise")
    on.clock.advance(LINGER_TIMEOUT - 0.1)
    assert on.carrier.sent == []
    on.clock.advance(0.2)
    assert on.carrier.sent == [(b"otherwise", True)]
    assert on.carrier.resets == []
    assert len(on.carrier.awaited) == 1


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize(
    ("window", "otherwise"), [(1500, b"otherwise"), (5, b"otherwise"), (1024, b"")],
    ids=["an event has begun", "no room", "nothing to say"],
)  # fmt: skip
async def test_what_cannot_be_said_is_a_reset(started, window, otherwise):
    on = started(window=window)
    on.stream.write(bytes(2000))
    on.stream.finish(b"", otherwise)
    on.clock.advance(LINGER_TIMEOUT + 0.1)
    assert on.carrier.resets == [ErrorCodes.INTERNAL_ERROR]
    assert not any(end for _, end in on.carrier.sent)


@pytest.mark.clause("1.5-13")
async def test_who_takes_something_has_more_time(started):
    on = started(window=1024)
    on.stream.write(bytes(500))
    on.stream.finish(b"last", b"otherwise")
    for _ in range(5):
        on.carrier.free += 100
        on.carrier.stream_ready(on.stream)
        on.clock.advance(LINGER_TIMEOUT)
    assert on.carrier.body == bytes(500) + b"last"


async def test_nothing_is_delivered_or_written_after_the_end(started):
    on = started()
    on.stream.resume_reading()
    on.stream.finish(b"", b"")
    on.stream.write(b"late")
    on.stream.data_received(b"late", 4)
    assert on.owner.received == b""
    assert on.carrier.body == b""


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("sent", [0, 10], ids=["nothing", "something"])
async def test_who_was_answered_in_whole_before_its_body_began(started, sent):
    carrier = FakeCarrier()
    stream = Http2Stream(carrier, carrier, 5)
    if sent:
        stream.data_received(bytes(sent), sent)
    stream.send_whole(b"no")
    assert carrier.awaited == [(sent, not sent)]


@pytest.mark.clause("2.3-6")
async def test_what_comes_during_the_last_event_is_dropped_and_its_credit_owed(started):
    on = started(window=0)
    on.stream.resume_reading()
    on.stream.data_received(bytes(10), 10)
    on.stream.finish(b"last", b"")
    on.stream.data_received(bytes(20), 25)
    assert on.owner.received == bytes(10)
    on.carrier.free = 100
    on.carrier.stream_ready(on.stream)
    assert on.carrier.awaited == [(35, False)]


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", Parting)
async def test_a_client_that_leaves(started, how):
    on = started()
    on.stream.lost(how)
    on.stream.lost()
    await asyncio.sleep(0)
    assert on.owner.told == [("lost", how)]
    assert on.carrier.resets == []


@pytest.mark.parametrize("how", Parting)
async def test_a_client_that_left_before_there_was_an_owner(started, how):
    on = started()
    stream = Http2Stream(on.carrier, on.carrier, 7)
    stream.lost(how)
    owner = Owner()
    stream.start(owner, high_water=1, low_water=1, call_later=on.clock.call_later)
    await asyncio.sleep(0)
    assert owner.told == [("lost", how)]


async def test_who_waits_for_an_answer_is_cancelled_when_the_client_leaves(started):
    on = started()
    stream = Http2Stream(on.carrier, on.carrier, 7)
    stream.task = asyncio.create_task(asyncio.Event().wait())
    stream.lost(Parting.CANCELLED)
    with pytest.raises(asyncio.CancelledError):
        await stream.task


async def test_abort(started):
    on = started()
    on.stream.abort()
    assert on.carrier.resets == [ErrorCodes.CANCEL]


@pytest.mark.clause("1.4-4")
async def test_pings_of_one_connection_are_told_apart_by_their_stream(started):
    on = started()
    assert on.stream.flushed(on.stream.ping((3).to_bytes(8, "big")))
    assert on.carrier.pings == [(5).to_bytes(4, "big") + (3).to_bytes(4, "big")]
    on.stream.pong_received(on.carrier.pings[0])
    assert on.owner.told == [(3).to_bytes(8, "big")]
