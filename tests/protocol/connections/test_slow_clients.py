"""How long a client may take: over the head of a request, and over what it is sent."""

from __future__ import annotations

import fcntl
import socket
import termios

import pytest

from partway.protocol.connections.slow_clients import HeadWait, StalledWrites
from tests.gateway.streams.fakes import FakeClock


class Transport:
    def __init__(self, unsent, connection=None):
        self.unsent = unsent
        self.connection = connection
        self.aborted = False

    def get_write_buffer_size(self):
        return self.unsent

    def get_extra_info(self, name):
        return {"socket": self.connection}[name]

    def abort(self):
        self.aborted = True


@pytest.fixture
def clock():
    return FakeClock()


def test_a_client_that_takes_a_byte_between_two_looks_is_waited_for(clock):
    transport = Transport(100)
    StalledWrites(transport, clock.call_later, 60.0)
    for _ in range(100):
        transport.unsent -= 1
        clock.advance(60.0)
        assert not transport.aborted


def test_a_client_that_has_stopped_taking_is_cut_at_the_next_look(clock):
    transport = Transport(100)
    StalledWrites(transport, clock.call_later, 60.0)
    is_cut_at_the_look_after_it_took_some(transport, clock)
    assert clock.armed == []


def test_a_watch_that_is_cancelled_cuts_nobody(clock):
    transport = Transport(100)
    watch = StalledWrites(transport, clock.call_later, 60.0)
    transport.unsent = 50
    clock.advance(60.0)
    watch.cancel()
    assert clock.armed == []
    clock.advance(10 * 60.0)
    assert not transport.aborted


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells what is acknowledged")
def test_a_client_is_waited_for_that_takes_what_the_system_has(clock):
    """The system's buffer has megabytes, and asks for more when many of them are gone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    transport = Transport(100, ours)
    with client, ours:
        StalledWrites(transport, clock.call_later, 60.0)
        for _ in range(3):
            ours.sendall(b"x")
            assert client.recv(1) == b"x"
            acknowledged(ours)
            clock.advance(60.0)
            assert not transport.aborted
        clock.advance(60.0)
        assert transport.aborted


@pytest.mark.parametrize("kind", ["a socket of Unix's", "a closed one"])
def test_where_the_system_tells_nothing_the_transport_does(clock, kind):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if kind == "a closed one":
            ours.close()
        transport = Transport(100, ours)
        StalledWrites(transport, clock.call_later, 60.0)
        is_cut_at_the_look_after_it_took_some(transport, clock)


def is_cut_at_the_look_after_it_took_some(transport, clock):
    transport.unsent = 99
    clock.advance(60.0)
    assert not transport.aborted
    clock.advance(60.0)
    assert transport.aborted


def acknowledged(connection):
    """Wait until all that was sent is acknowledged: some systems wait 40 ms with that."""
    while any(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))):
        pass


# --- Over the head of a request ------------------------------------------------------------------

SECONDS = 15.0


@pytest.fixture
def told():
    return []


@pytest.fixture
def wait(clock, told):
    return HeadWait(SECONDS, lambda: told.append(clock.now), clock.call_later, clock.time)


def test_a_head_that_has_not_come_in_time_is_told(clock, wait, told):
    wait.begin()
    clock.advance(SECONDS - 0.1)
    assert not told
    clock.advance(0.1)
    assert told == [clock.now]
    assert not clock.armed


def test_many_waits_for_heads_have_one_timer_and_the_last_ones_time(clock, wait, told):
    began = clock.now
    for _ in range(10):
        wait.begin()
        clock.advance(1)
        assert len(clock.armed) == 1
    clock.advance(SECONDS)
    assert told == [began + 9 + SECONDS]


def test_the_next_head_is_waited_for_too(clock, wait, told):
    for count in (1, 2):
        wait.begin()
        clock.advance(SECONDS)
        assert len(told) == count


@pytest.mark.parametrize("begun", [True, False])
def test_after_the_end_of_a_wait_nobody_is_told_or_held(clock, wait, told, begun):
    if begun:
        wait.begin()
    wait.cancel()
    assert not clock.armed
    clock.advance(2 * SECONDS)
    assert not told
