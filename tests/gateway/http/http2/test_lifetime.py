"""Which streams a connection takes, and when it closes; time and transport are the test's."""

from __future__ import annotations

import asyncio

import pytest
from hyperframe.frame import GoAwayFrame

from partway.gateway.limits import (
    HTTP2_IDLE_TIMEOUT,
    HTTP2_PREMATURE_AFTER,
    HTTP2_PREMATURE_SECONDS,
    HTTP2_PREMATURE_SHARE,
)
from partway.protocol import limits
from tests.gateway.http.http2.connection_parts import OPENING, Parts, whole
from tests.wire.floods import raw
from tests.wire.http2_streams import Code

EVERY_STREAM = 2**31 - 1


class On(Parts):
    """A lifetime whose connection's streams are numbers."""

    def __init__(self, **parts) -> None:
        self.flushes = self.told_closing = 0
        super().__init__(**parts)

    def flush(self) -> None:
        self.flushes += 1

    def on_closing(self) -> None:
        self.told_closing += 1

    def begin(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.lifetime.takes_a_stream()
            self.lifetime.stream_began()

    def streams_go(self, count: int, *, reset_at: float | None = None) -> None:
        """One after the other: each begins, is reset if that is said, and is over."""
        for _ in range(count):
            self.begin()
            if reset_at is not None:
                self.lifetime.stream_reset(reset_at)
            self.lifetime.stream_over()

    def goaways(self) -> list[tuple[int, Code]]:
        """Those since the last time, with their last stream; nothing else is sent."""
        sent = self.sent()
        assert all(isinstance(frame, GoAwayFrame) for frame in sent)
        return [(frame.last_stream_id, Code(frame.error_code)) for frame in sent]

    @property
    def closed(self) -> bool:
        """Our side is ended, and theirs read on (clause 2.3-6)."""
        assert not self.transport.closing
        return self.transport.eof_written


@pytest.fixture
async def on():
    """Made inside the loop."""
    return On()


# --- Rule 1: which streams it takes --------------------------------------------------------------


async def test_streams_of_a_connection_are_bounded(on):
    on.begin(10)
    assert not on.lifetime.takes_a_stream()
    on.lifetime.stream_over()
    assert on.lifetime.takes_a_stream()


async def test_a_stream_that_is_over_takes_no_place_until_its_client_ends_it(on):
    on.begin(10)
    on.lifetime.stream_unended()
    on.lifetime.stream_over()
    assert on.lifetime.takes_a_stream()
    on.begin()
    assert not on.lifetime.takes_a_stream()


async def test_streams_of_all_connections_are_bounded_together(on, monkeypatch):
    monkeypatch.setattr("partway.gateway.http.http2.connections.HTTP2_MAX_STREAMS_IN_ALL", 5)
    on.siblings.streams = 4
    on.begin()
    assert on.siblings.streams == 5
    assert not on.lifetime.takes_a_stream()
    on.lifetime.stream_over()
    assert on.siblings.streams == 4
    assert on.lifetime.takes_a_stream()


# --- Rule 2: without a stream --------------------------------------------------------------------


def idle_for(on: On, seconds: float) -> None:
    """It closes after so long, in order, and not before."""
    on.clock.advance(seconds - 0.1)
    assert on.goaways() == []
    on.clock.advance(0.2)
    assert on.goaways() == [(0, Code.NO_ERROR)]
    assert on.closed


async def test_a_connection_without_a_request_closes(on):
    idle_for(on, limits.REQUEST_HEAD_TIMEOUT)


async def test_with_a_stream_it_is_not_idle(on):
    on.begin(2)
    on.lifetime.stream_over()
    assert on.clock.armed == []
    on.clock.advance(HTTP2_IDLE_TIMEOUT * 3)
    assert on.goaways() == []


async def test_idle_since_the_last_stream(on):
    on.streams_go(1)
    on.clock.advance(HTTP2_IDLE_TIMEOUT - 1)
    on.streams_go(1)
    idle_for(on, HTTP2_IDLE_TIMEOUT)


@pytest.mark.clause("2.1-4")
async def test_who_has_said_goaway_is_waited_for_less_long(on):
    on.gate.feed(OPENING + raw(GoAwayFrame(0)))
    on.gate.take(on.clock.time())
    on.streams_go(1)
    idle_for(on, limits.REQUEST_HEAD_TIMEOUT)


# --- Rule 3: too much of what costs --------------------------------------------------------------


async def test_what_the_gate_has_found_closes_it_to_new_streams(on):
    on.gate.feed(OPENING + raw(whole(1), whole(3)))
    on.gate.take(on.clock.time())
    on.begin()
    on.gate.overdone = "resets"
    on.lifetime.review()
    on.lifetime.review()
    assert on.goaways() == [(3, Code.ENHANCE_YOUR_CALM)]
    assert on.told == ["resets"]
    on.gate.feed(raw(whole(5)))
    assert on.gate.take(on.clock.time()) == b""
    assert not on.closed


SHARE = round(HTTP2_PREMATURE_SHARE * HTTP2_PREMATURE_AFTER)
EARLY = HTTP2_PREMATURE_SECONDS - 0.1


@pytest.mark.parametrize(
    ("early", "others", "closes"),
    [
        (SHARE + 1, HTTP2_PREMATURE_AFTER - SHARE - 1, True),
        (SHARE, HTTP2_PREMATURE_AFTER - SHARE, False),
        (HTTP2_PREMATURE_AFTER - 1, 0, False),
    ],
    ids=["more than the share", "the share", "too few to tell"],
)
async def test_premature_resets(on, early, others, closes):
    on.streams_go(early, reset_at=EARLY)
    on.streams_go(others)
    on.lifetime.review()
    assert on.told == (["premature resets"] if closes else [])
    assert on.lifetime.closing is closes


async def test_streams_that_are_reset_later_are_not_premature(on):
    on.streams_go(HTTP2_PREMATURE_AFTER, reset_at=HTTP2_PREMATURE_SECONDS)
    on.lifetime.review()
    assert on.told == []


# --- Rules 4 and 5: the end ----------------------------------------------------------------------


@pytest.mark.clause("4-6")
async def test_an_end_that_is_announced_takes_every_stream(on):
    on.lifetime.announce_end()
    assert on.goaways() == [(EVERY_STREAM, Code.NO_ERROR)]
    on.begin()
    assert not on.lifetime.closing


async def test_the_last_stream_is_never_raised(on):
    on.begin()
    on.lifetime.close_when_idle()
    on.lifetime.announce_end()
    on.lifetime.close_when_idle()
    assert on.goaways() == [(0, Code.NO_ERROR)]
    assert on.told_closing == 1


async def test_what_is_idle_closes_at_once_when_everything_is_written(on):
    on.lifetime.close_when_idle()
    assert on.closed
    assert on.flushes == 1


async def test_it_closes_behind_what_the_last_stream_sends(on):
    on.begin(2)
    on.lifetime.close_when_idle()
    on.lifetime.stream_over()
    on.lifetime.stream_over()
    assert not on.closed  # whoever ended it has not sent all of it yet
    await asyncio.sleep(0)
    assert on.closed
    assert on.flushes == 1


async def test_it_waits_for_the_client_s_end_of_the_last_stream(on):
    on.begin()
    on.lifetime.close_when_idle()
    on.lifetime.stream_unended()
    on.lifetime.stream_over()
    await asyncio.sleep(0)
    assert not on.closed
    on.lifetime.client_ended()
    on.lifetime.close_if_done()
    assert on.closed


async def test_nothing_closes_that_was_not_to(on):
    on.lifetime.close_if_done()
    assert on.flushes == 0
    assert not on.closed


@pytest.mark.parametrize("closing", [False, True])
async def test_once_the_transport_is_gone_nothing_is_left_to_do(on, closing):
    on.begin(2)
    on.lifetime.stream_over()
    if closing:
        on.lifetime.close_when_idle()
    on.out.lost()
    on.lifetime.lost()
    on.lifetime.stream_over()
    await asyncio.sleep(0)
    assert on.clock.armed == []
    assert on.flushes == 0
    assert on.siblings.streams == 0


async def test_a_connection_that_is_lost_while_it_is_idle_is_waited_for_no_longer(on):
    on.out.lost()
    on.lifetime.lost()
    assert on.clock.armed == []


async def test_abort(on):
    on.lifetime.abort()
    assert on.transport.aborted
