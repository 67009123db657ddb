"""How long a client may take over what it has been sent."""

from __future__ import annotations

import pytest

from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.gateway.serving.taking import TakingWatch
from tests.gateway.streams.fakes import FakeClock


class Transport:
    """A transport with unsent bytes."""

    def __init__(self, unsent):
        self.unsent = unsent
        self.aborted = False

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.aborted = True


@pytest.fixture
def clock():
    return FakeClock()


def test_a_client_that_takes_a_byte_between_two_looks_is_waited_for(clock):
    transport = Transport(100)
    TakingWatch(transport, clock.call_later)
    for _ in range(100):
        transport.unsent -= 1
        clock.advance(RESPONSE_TAKEN_TIMEOUT)
        assert not transport.aborted


def test_a_client_that_has_stopped_taking_is_cut_at_the_next_look(clock):
    transport = Transport(100)
    TakingWatch(transport, clock.call_later)
    transport.unsent = 99
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert not transport.aborted
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    assert transport.aborted
    assert clock.armed == []


def test_a_watch_that_is_cancelled_cuts_nobody(clock):
    transport = Transport(100)
    watch = TakingWatch(transport, clock.call_later)
    transport.unsent = 50
    clock.advance(RESPONSE_TAKEN_TIMEOUT)
    watch.cancel()
    assert clock.armed == []
    clock.advance(10 * RESPONSE_TAKEN_TIMEOUT)
    assert not transport.aborted
