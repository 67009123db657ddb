from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast

from partway.container.stream_watch import ProgressWatch, is_over
from tests.gateway.streams.fakes import FakeClock

# --- Is the client there -------------------------------------------------------------------------


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return listener.accept()[0], client


def test_a_reset_is_seen_ahead_of_what_is_unread() -> None:
    ours, client = pair()
    client.sendall(bytes(1000))
    assert not is_over(ours)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert is_over(ours)
    ours.close()


def test_a_client_that_says_no_more_still_listens() -> None:
    ours, client = pair()
    client.shutdown(socket.SHUT_WR)
    assert not is_over(ours)
    ours.close()
    client.close()


def test_what_is_no_connection_of_tcp_is_not_known_to_be_over() -> None:
    assert not is_over(None)
    closed, client = pair()
    closed.close()
    client.close()
    assert not is_over(closed)
    one, other = socket.socketpair()
    assert not is_over(one)
    one.close()
    other.close()


# --- Does anything move --------------------------------------------------------------------------


class Watched:
    """A number that moves by hand, and all looks at it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.moved = 0
        self.looks: list[float] = []
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.progress = ProgressWatch(loop, lambda: self.moved, self.looks.append)


def test_each_look_says_since_when_nothing_has_moved() -> None:
    watched = Watched()
    watched.progress.watch(2.0)
    watched.clock.advance(5.0)
    watched.moved = 1
    watched.clock.advance(6.0)
    assert watched.looks == [2.0, 4.0, 0.0, 2.0, 4.0]


def test_what_is_watched_anew_counts_from_there() -> None:
    watched = Watched()
    watched.progress.watch(2.0)
    watched.clock.advance(3.0)
    watched.progress.watch(1.0)
    watched.clock.advance(1.0)
    assert watched.looks == [2.0, 1.0]
    assert len(watched.clock.armed) == 1


def test_it_can_be_stopped_by_what_it_says() -> None:
    watched = Watched()
    loop = cast("asyncio.AbstractEventLoop", watched.clock)
    progress = ProgressWatch(loop, lambda: 0, lambda _: progress.stop())
    progress.stop()  # nothing is watched yet
    progress.watch(1.0)
    watched.clock.advance(5.0)
    assert watched.clock.armed == []
