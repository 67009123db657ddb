from __future__ import annotations

import asyncio
from typing import cast

from partway.container.stillness import Stillness
from tests.gateway.streams.fakes import FakeClock


class Watched:
    """A number that moves by hand, and all looks at it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.moved = 0
        self.looks: list[float] = []
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.stillness = Stillness(loop, lambda: self.moved, self.looks.append)


def test_each_look_says_since_when_nothing_has_moved() -> None:
    watched = Watched()
    watched.stillness.watch(2.0)
    watched.clock.advance(5.0)
    watched.moved = 1
    watched.clock.advance(6.0)
    assert watched.looks == [2.0, 4.0, 0.0, 2.0, 4.0]


def test_what_is_watched_anew_counts_from_there() -> None:
    watched = Watched()
    watched.stillness.watch(2.0)
    watched.clock.advance(3.0)
    watched.stillness.watch(1.0)
    watched.clock.advance(1.0)
    assert watched.looks == [2.0, 1.0]
    assert len(watched.clock.armed) == 1


def test_it_can_be_stopped_by_what_it_says() -> None:
    watched = Watched()
    loop = cast("asyncio.AbstractEventLoop", watched.clock)
    stillness = Stillness(loop, lambda: 0, lambda _: stillness.stop())
    stillness.stop()  # nothing is watched yet
    stillness.watch(1.0)
    watched.clock.advance(5.0)
    assert watched.clock.armed == []
