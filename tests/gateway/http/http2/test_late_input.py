"""What becomes of what clients send behind their responses; time is the test's (clause 2.3-6)."""

from __future__ import annotations

import pytest

from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.http2.late_input import LateInput
from partway.gateway.limits import (
    HTTP2_LATE_BYTES,
    HTTP2_LATE_QUIET,
    HTTP2_LATE_QUIET_AT_CLOSE,
    HTTP2_LATE_QUIET_UNBEGUN,
    HTTP2_LATE_STREAMS,
    HTTP2_LATE_STREAMS_IN_ALL,
    HTTP2_LATE_TIMEOUT,
    HTTP2_OPENING_WINDOW,
)
from tests.gateway.http.http2.connection_parts import Operation
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.clause("2.3-6")
STEP = HTTP2_OPENING_WINDOW // 2


class On(LateInput):
    """One whose connection is the test."""

    def __init__(self, siblings: Connections) -> None:
        self.clock = FakeClock()
        self.credit: list[tuple[int, int]] = []
        self.resets: list[int] = []
        super().__init__(
            siblings,
            self.clock,
            give_credit=lambda stream_id, size: self.credit.append((stream_id, size)),
            tell=self.resets.append,
        )

    def begins(self, *stream_ids: int, owed: int = 0, unbegun: bool = False) -> None:
        for stream_id in stream_ids:
            self.begin(stream_id, owed, unbegun=unbegun)

    def reset_at(self, seconds: float, *stream_ids: int) -> None:
        """So many seconds from now, and not before."""
        before = list(self.resets)
        self.clock.advance(seconds - 0.01)
        assert self.resets == before
        self.clock.advance(0.02)
        assert self.resets == [*before, *stream_ids]


@pytest.fixture
async def siblings():
    """Those of a server."""
    return Connections(Operation(), [].append, 1000)


@pytest.fixture
async def on(siblings):
    """Made inside the loop."""
    return On(siblings)


async def test_a_silent_client_is_told_after_half_a_minute(on, siblings):
    on.begins(1)
    assert 1 in on
    on.reset_at(HTTP2_LATE_QUIET, 1)
    assert 1 not in on
    assert siblings.late == 0
    assert on.clock.armed == []


async def test_whatever_comes_is_waited_behind(on):
    on.begins(1, 3)
    for _ in range(3):
        on.clock.advance(HTTP2_LATE_QUIET - 1)
        on.received(1, 10)
        on.received(3, 0)  # an empty frame is something too
    on.reset_at(HTTP2_LATE_QUIET, 1, 3)


async def test_it_is_dropped_with_credit(on):
    on.begins(1, owed=10)
    on.received(1, STEP - 1)
    assert on.credit == [(1, 10)]
    on.received(1, 1)
    on.received(1, 3 * STEP)
    assert on.credit == [(1, 10), (1, STEP), (1, 3 * STEP)]
    on.received(3, STEP)
    assert len(on.credit) == 3, "nobody knows that stream"


async def test_who_ends_it_is_not_told(on, siblings):
    on.begins(1)
    assert on.ended(1)
    assert not on.ended(1)
    on.clock.advance(HTTP2_LATE_TIMEOUT)
    assert on.resets == []
    assert siblings.late == 0


async def test_bytes_are_bounded(on):
    on.begins(1)
    for _ in range(HTTP2_LATE_BYTES // 16_384):
        on.received(1, 16_384)
    assert on.resets == []
    on.received(1, 1)
    assert on.resets == [1]


async def test_time_is_bounded(on):
    on.begins(1)
    for _ in range(int(HTTP2_LATE_TIMEOUT // 10) - 1):
        on.clock.advance(10)
        on.received(1, 10)
    on.reset_at(10, 1)


async def test_who_was_answered_before_its_body_began_is_told_soon(on):
    on.begins(1, 3, unbegun=True)
    on.clock.advance(HTTP2_LATE_QUIET_UNBEGUN / 2)
    on.received(3, 10)
    on.reset_at(HTTP2_LATE_QUIET_UNBEGUN / 2, 1)
    on.reset_at(HTTP2_LATE_QUIET - HTTP2_LATE_QUIET_UNBEGUN / 2 - 0.01, 3)


async def test_streams_of_a_connection_are_bounded(on):
    on.begins(*range(HTTP2_LATE_STREAMS))
    assert on.resets == []
    on.begins(1000, 1001)
    assert on.resets == [0, 1]
    assert len(on) == HTTP2_LATE_STREAMS


@pytest.mark.parametrize(("max_streams", "at_most"), [(1, 1), (3, 1), (10, 5)])
async def test_they_are_at_most_half_of_what_a_client_may_have_open(max_streams, at_most):
    on = On(Connections(Operation(), [].append, max_streams))
    on.begins(*range(at_most))
    assert on.resets == []
    on.begins(1000)
    assert on.resets == [0]


async def test_streams_of_all_connections_are_bounded(on, siblings):
    """Who leaves many takes the time from itself, and not from whoever comes then."""
    many = On(siblings)
    many.begins(1, 3)
    siblings.late = HTTP2_LATE_STREAMS_IN_ALL
    on.begins(1)
    assert (many.resets, on.resets) == ([1], [])
    assert siblings.late == HTTP2_LATE_STREAMS_IN_ALL
    many.ended(3)
    on.begins(3)
    many.begins(5)
    assert (many.resets, on.resets) == ([1], [1])
    assert siblings.late == HTTP2_LATE_STREAMS_IN_ALL


async def test_a_server_forgets_connections_without_such_streams(on, siblings):
    other = On(siblings)
    on.begins(1, 3)
    other.begins(1, 3)
    on.ended(1)
    assert siblings.unended.top() is other
    on.ended(3)
    other.lost()
    assert siblings.unended.top() is None


async def test_a_connection_that_closes_waits_for_what_still_comes(on):
    """A reset between two parts of what a client says would hang the SDK of Python's."""
    on.begins(1, 3)
    on.close_soon()
    for _ in range(20):
        on.clock.advance(HTTP2_LATE_QUIET_AT_CLOSE / 4)
        on.received(1, 640)
    assert on.resets == [3]
    on.reset_at(HTTP2_LATE_QUIET_AT_CLOSE, 1)


async def test_a_connection_that_closes_waits_for_nobody_who_is_silent(on):
    on.begins(1)
    on.clock.advance(5)
    on.close_soon()
    on.clock.advance(HTTP2_LATE_QUIET_AT_CLOSE / 2)
    on.begins(3)
    on.reset_at(HTTP2_LATE_QUIET_AT_CLOSE / 2, 1)
    on.reset_at(HTTP2_LATE_QUIET_AT_CLOSE / 2 - 0.01, 3)


async def test_no_timer_outlives_the_transport(on, siblings):
    on.begins(1, 3)
    on.lost()
    assert on.clock.armed == []
    assert siblings.late == 0
    assert on.resets == []
