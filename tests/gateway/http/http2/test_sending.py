"""When bytes leave: turns between streams, and the transport's writing side (clause 1.5-13)."""

from __future__ import annotations

import pytest

from partway.gateway.http.http2.sending import FairScheduler, Outlet
from partway.gateway.limits import HTTP2_MAX_UNSENT
from partway.protocol.limits import FINISH_TIMEOUT, LINGER_TIMEOUT, WRITE_HIGH_WATER
from tests.gateway.streams.fakes import FakeClock, FakeTransport

FRAME = 10


# --- Turns ---------------------------------------------------------------------------------------


class Stream:
    """One with so many bytes to send, and a window of its own."""

    def __init__(self, on: Windows, name: str, size: int, window: int) -> None:
        self.name, self.size, self.window = name, size, window
        self._on = on

    def send_frame(self) -> int:
        sent = min(self.size, self.window, self._on.shared, FRAME)
        self.size -= sent
        self.window -= sent
        self._on.shared -= sent
        self._on.asked.append((self.name, sent))
        return sent

    @property
    def wants_to_send(self) -> bool:
        return self.size > 0


class Windows:
    """The windows, and the streams in the order of their turns, with what each of them sent."""

    def __init__(self, shared: int = 10_000) -> None:
        self.shared = shared
        self.asked: list[tuple[str, int]] = []
        self.turns = FairScheduler(self)

    def own_window(self, stream: Stream) -> int:
        return stream.window

    def shared_window(self) -> int:
        return self.shared

    def stream(self, name: str, size: int, window: int = 10_000) -> Stream:
        stream = Stream(self, name, size, window)
        self.turns.add(stream)
        return stream

    def send(self, size: int = 10_000) -> list[tuple[str, int]]:
        """Turns until so much is sent."""
        self.asked.clear()
        self.turns.send(size)
        return list(self.asked)


def test_streams_take_turns_by_frames():
    on = Windows()
    on.stream("a", 25)
    on.stream("b", 10)
    assert on.send() == [("a", 10), ("b", 10), ("a", 10), ("a", 5)]
    assert on.send() == []


def test_no_more_than_was_asked_for_but_to_a_frame_s_end():
    on = Windows()
    on.stream("a", 100)
    on.stream("b", 100)
    assert on.send(15) == [("a", 10), ("b", 10)]
    assert on.send(1) == [("a", 10)]
    assert on.send(1) == [("b", 10)]


def test_a_stream_waits_for_its_own_window():
    on = Windows()
    a = on.stream("a", 10, window=4)
    assert on.send() == [("a", 4), ("a", 0)]
    on.turns.add(a)  # it has more to send, and still no window
    assert on.send() == []
    a.window = 100
    on.turns.window_opened(a)
    assert on.send() == [("a", 6)]


def test_settings_may_open_every_window():
    on = Windows()
    a, b = on.stream("a", 5, window=0), on.stream("b", 5, window=0)
    assert on.send() == [("a", 0), ("b", 0)]
    a.window = b.window = 5
    on.turns.every_window_changed()
    assert on.send() == [("a", 5), ("b", 5)]


def test_streams_wait_for_the_shared_window_in_their_order():
    on = Windows(shared=0)
    for name in "abc":
        on.stream(name, 20)
    assert on.send() == [("a", 0), ("b", 0), ("c", 0)]
    assert on.send() == []
    on.shared = 15
    assert on.send() == [("a", 10), ("b", 5), ("a", 0), ("b", 0)]
    on.shared = 5
    assert on.send()[0] == ("c", 5)


def test_a_byte_of_it_does_not_wake_all_that_wait():
    """Each finds that its last event does not fit: more than a few are not even asked."""
    on = Windows(shared=0)

    class Unfitting(Stream):
        def send_frame(self) -> int:
            self._on.asked.append((self.name, 0))
            return 0

    for number in range(1000):
        on.turns.add(Unfitting(on, str(number), 5, 10))
    assert len(on.send()) == 1000
    on.shared = 1
    assert len(on.send()) == 8
    assert on.send()[0] == ("8", 0)


def test_a_stream_that_is_over_has_no_turn():
    on = Windows()
    ready, own = on.stream("ready", 5), on.stream("own", 5, window=0)
    on.send(0)
    on.turns.remove(ready)
    assert on.send() == [("own", 0)]
    on.turns.remove(own)
    own.window = 5
    on.turns.window_opened(own)
    on.turns.every_window_changed()
    on.shared = 0
    shared = on.stream("shared", 5)
    on.send()
    on.turns.remove(shared)
    on.shared = 100
    assert on.send() == []


# --- The transport -------------------------------------------------------------------------------


class OnTransport:
    """An outlet, its transport, and its clock."""

    def __init__(self, **transport) -> None:
        self.clock = FakeClock()
        self.transport = FakeTransport(**transport)
        self.outlet = Outlet(self.transport, "192.0.2.1", self.clock.call_later)

    def close_over(self, unsent: int, *, gently: bool = False) -> None:
        """Close with so many bytes unsent."""
        self.transport.unsent = unsent
        self.outlet.close(gently=gently)

    def look(self, unsent: int) -> bool:
        """Whether the transport outlives the next look, which finds so many bytes unsent."""
        self.transport.unsent = unsent
        self.clock.advance(LINGER_TIMEOUT)
        return not self.transport.aborted


def test_what_is_written_is_counted():
    on = OnTransport()
    on.outlet.write(b"one")
    on.outlet.write(b"two")
    assert bytes(on.transport.written) == b"onetwo"
    assert on.outlet.written == 6


def test_who_takes_nothing_of_what_it_provokes_is_cut():
    on = OnTransport()
    on.transport.stuck = True
    on.transport.set_write_buffer_limits(high=1 << 40, low=0)
    on.outlet.write(bytes(WRITE_HIGH_WATER + HTTP2_MAX_UNSENT))
    assert not on.transport.aborted
    on.outlet.write(b"x")
    assert on.transport.aborted


@pytest.mark.parametrize("gently", [False, True])
def test_nothing_is_written_once_it_is_closed(gently):
    on = OnTransport()
    on.outlet.close(gently=gently)
    assert on.outlet.closed
    on.outlet.write(b"late")
    assert (on.transport.written, on.outlet.written) == (b"", 0)


def test_closing_ends_the_transport():
    on = OnTransport()
    on.outlet.close()
    assert on.transport.closing
    assert not on.transport.eof_written


@pytest.mark.clause("2.3-6", "2.7-1")
def test_closing_gently_ends_our_side_and_reads_on():
    """What is unread would make TCP send RST, which erases the last events."""
    on = OnTransport()
    on.transport.pause_reading()
    on.outlet.close(gently=True)
    assert on.transport.eof_written
    assert not on.transport.closing
    assert not on.transport.paused
    assert not on.look(0)  # a client that has not ended its side by then has had its time


def test_where_our_side_cannot_be_ended_alone_closing_gently_closes():
    on = OnTransport(encrypted=True)
    on.outlet.close(gently=True)
    assert on.transport.closing
    assert not on.transport.eof_written


@pytest.mark.clause("1.5-13")
@pytest.mark.parametrize("gently", [False, True])
def test_a_close_lives_while_its_unsent_bytes_shrink(gently):
    on = OnTransport()
    on.close_over(1000, gently=gently)
    assert on.look(999)
    assert on.look(10)
    assert not on.look(10)


@pytest.mark.clause("1.5-13")
def test_however_steadily_they_shrink_a_close_ends():
    on = OnTransport()
    on.close_over(1 << 20)
    looks = round(FINISH_TIMEOUT / LINGER_TIMEOUT)
    assert all(on.look((1 << 20) - look) for look in range(1, looks))
    assert not on.look(1)


def test_over_tls_what_has_gone_down_is_left_to_the_transport_below():
    """It has a time of its own, and nobody else can see whether its bytes shrink."""
    on = OnTransport(encrypted=True)
    on.close_over(1000)
    assert on.look(500)
    assert on.look(0)
    assert on.clock.armed == []


def test_over_tls_what_has_not_gone_down_has_to_shrink():
    on = OnTransport(encrypted=True)
    on.close_over(1000)
    assert not on.look(1000)


def test_closing_twice_is_closing_once():
    on = OnTransport()
    on.outlet.close(gently=True)
    on.outlet.close()
    assert not on.transport.closing
    assert len(on.clock.armed) == 1


def test_a_transport_that_is_gone_is_waited_for_no_longer():
    on = OnTransport()
    on.close_over(1000)
    on.outlet.lost()
    assert on.clock.armed == []
    assert (on.outlet.closed, on.outlet.unsent) == (True, 0)
    on.outlet.abort()
    assert not on.transport.aborted
