"""What an instance is made of, and what all instances of a fleet live by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from partway.gateway.fleet.endpoint import Place, Source
from partway.gateway.fleet.launchers.launcher import Launcher, Order, RunningContainer
from partway.gateway.fleet.routing.router import InstanceLoad
from partway.gateway.timing.clock import Clock

if TYPE_CHECKING:
    from partway.gateway.fleet.health.slow_start import SlowStart
    from partway.gateway.storage.model_data.model_data import HeldData
    from partway.gateway.storage.places.pinned_path import PinnedPath

#: Asks a container's ``/ping``, with so many seconds for the answer; None if that was 200, else
#: what was wrong. Raises OutOfDescriptors where it could not be asked.
Pinger = Callable[[Place, float], Awaitable[str | None]]


class SaidLast(Protocol):
    """Knows what an instance has printed last."""

    def last_lines(self) -> tuple[str, ...]:
        """What it has printed last."""

    def close(self) -> None:
        """Take no more."""


class CapturedOutput(SaidLast, Protocol):
    """Takes what a container prints."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""


class _NoOutput:
    def last_lines(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


#: Of instances whose output goes elsewhere.
NO_OUTPUT: Final[SaidLast] = _NoOutput()


@dataclass(frozen=True, slots=True)
class InstanceContext:
    """What every instance of a fleet lives by.

    Attributes:
        ping: asks a container's ``/ping``.
        clock: measures all times.
        wall_clock: returns epoch seconds, for people.
        launched: told endpoint, variant and the seconds that a start took.
    """

    ping: Pinger
    clock: Clock
    wall_clock: Callable[[], float]
    launched: Callable[[str, str, float], object]


@dataclass(frozen=True, slots=True)
class Means:
    """By what a fleet has its instances.

    Attributes:
        launcher: the launcher of a source.
        output: opens what takes a container's output, by its id and its endpoint's name.
        model_data: has model data on disk, by what names it, the principal whose leave is asked
            for, and the pinned path (see :class:`~.endpoint.Variant`); raises ModelDataError.
        around: what all instances live by.
    """

    launcher: Callable[[Source], Launcher]
    output: Callable[[str, str], CapturedOutput]
    model_data: Callable[[str, str | None, PinnedPath | None], Awaitable[HeldData]]
    around: InstanceContext


@dataclass(frozen=True, slots=True)
class Making:
    """What one instance is made of.

    Attributes:
        launcher: starts its container.
        order: makes the order, once what that needs is there; may raise LaunchError.
        place_of: makes its place of its container.
        output: takes what that prints.
        load: what is open on it.
        start: makes what waits until a launched one is ready, of a clock and what is told of a slow
            start; None for an attached one, which is in service at once.
    """

    launcher: Launcher
    order: Callable[[], Awaitable[Order]]
    place_of: Callable[[RunningContainer], Place]
    output: SaidLast
    load: InstanceLoad
    start: Callable[[Clock, Callable[[float, str], object]], SlowStart] | None = None
