"""A connection's way out on a transport and a clock that are the test's (clause 1.5-13)."""

from __future__ import annotations

import pytest

from partway.gateway.limits import HTTP2_MAX_UNSENT
from partway.gateway.serving.http2.outlet import Outlet
from partway.protocol.limits import FINISH_TIMEOUT, LINGER_TIMEOUT, WRITE_HIGH_WATER
from tests.gateway.streams.fakes import FakeClock, FakeTransport


class On:
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
    on = On()
    on.outlet.write(b"one")
    on.outlet.write(b"two")
    assert bytes(on.transport.written) == b"onetwo"
    assert on.outlet.written == 6


def test_who_takes_nothing_of_what_it_provokes_is_cut():
    on = On()
    on.transport.stuck = True
    on.transport.set_write_buffer_limits(high=1 << 40, low=0)
    on.outlet.write(bytes(WRITE_HIGH_WATER + HTTP2_MAX_UNSENT))
    assert not on.transport.aborted
    on.outlet.write(b"x")
    assert on.transport.aborted


@pytest.mark.parametrize("gently", [False, True])
def test_nothing_is_written_once_it_is_closed(gently):
    on = On()
    on.outlet.close(gently=gently)
    assert on.outlet.closed
    on.outlet.write(b"late")
    assert (on.transport.written, on.outlet.written) == (b"", 0)


def test_closing_ends_the_transport():
    on = On()
    on.outlet.close()
    assert on.transport.closing
    assert not on.transport.eof_written


@pytest.mark.clause("2.3-6", "2.7-1")
def test_closing_gently_ends_our_side_and_reads_on():
    """What is unread would make TCP send RST, which erases the last events."""
    on = On()
    on.transport.pause_reading()
    on.outlet.close(gently=True)
    assert on.transport.eof_written
    assert not on.transport.closing
    assert not on.transport.paused
    assert not on.look(0)  # a client that has not ended its side by then has had its time


def test_where_our_side_cannot_be_ended_alone_closing_gently_closes():
    on = On(encrypted=True)
    on.outlet.close(gently=True)
    assert on.transport.closing
    assert not on.transport.eof_written


@pytest.mark.clause("1.5-13")
@pytest.mark.parametrize("gently", [False, True])
def test_a_close_lives_while_its_unsent_bytes_shrink(gently):
    on = On()
    on.close_over(1000, gently=gently)
    assert on.look(999)
    assert on.look(10)
    assert not on.look(10)


@pytest.mark.clause("1.5-13")
def test_however_steadily_they_shrink_a_close_ends():
    on = On()
    on.close_over(1 << 20)
    looks = round(FINISH_TIMEOUT / LINGER_TIMEOUT)
    assert all(on.look((1 << 20) - look) for look in range(1, looks))
    assert not on.look(1)


def test_over_tls_what_has_gone_down_is_left_to_the_transport_below():
    """It has a time of its own, and nobody else can see whether its bytes shrink."""
    on = On(encrypted=True)
    on.close_over(1000)
    assert on.look(500)
    assert on.look(0)
    assert on.clock.armed == []


def test_over_tls_what_has_not_gone_down_has_to_shrink():
    on = On(encrypted=True)
    on.close_over(1000)
    assert not on.look(1000)


def test_closing_twice_is_closing_once():
    on = On()
    on.outlet.close(gently=True)
    on.outlet.close()
    assert not on.transport.closing
    assert len(on.clock.armed) == 1


def test_a_transport_that_is_gone_is_waited_for_no_longer():
    on = On()
    on.close_over(1000)
    on.outlet.lost()
    assert on.clock.armed == []
    assert (on.outlet.closed, on.outlet.unsent) == (True, 0)
    on.outlet.abort()
    assert not on.transport.aborted
