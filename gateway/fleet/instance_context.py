"""The parts an instance is made of, and what all instances of a fleet share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from partway.gateway.fleet.endpoint import Place, Variant
from partway.gateway.fleet.launchers.launcher import Launcher, RunningContainer
from partway.gateway.fleet.routing.router import InstanceLoad
from partway.gateway.timing.clock import Clock

if TYPE_CHECKING:
    from partway.gateway.fleet.health.slow_start import SlowStart

#: Asks a container's ``/ping`` and allows so many seconds for the answer. Returns None for status
#: 200, else what was wrong. Raises OutOfDescriptors if the container could not be asked.
Pinger = Callable[[Place, float], Awaitable[str | None]]


class SaidLast(Protocol):
    def last_lines(self) -> tuple[str, ...]: ...

    def close(self) -> None: ...


class CapturedOutput(SaidLast, Protocol):
    def feed(self, data: bytes) -> None: ...


class _NoOutput:
    def last_lines(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


#: For instances whose output goes elsewhere.
NO_OUTPUT: Final[SaidLast] = _NoOutput()


@dataclass(frozen=True, slots=True)
class InstanceContext:
    """The services that all instances of a fleet share.

    Attributes:
        wall_clock: returns epoch seconds, for people.
        launched: called after each start with endpoint, variant and the seconds it took.
    """

    ping: Pinger
    clock: Clock
    wall_clock: Callable[[], float]
    launched: Callable[[str, str, float], object]


@dataclass(frozen=True, slots=True)
class Means:
    """The services with which a fleet makes its instances.

    Attributes:
        output: opens the receiver of a container's output, by container id and endpoint name.
    """

    launcher: Callable[[Variant], Launcher]
    output: Callable[[str, str], CapturedOutput]
    around: InstanceContext


@dataclass(frozen=True, slots=True)
class Making:
    """The parts of one instance.

    Attributes:
        launch: launches its containers; may raise LaunchError.
        start: makes the wait for readiness, from a clock and a function that is called on a slow
            start; None for an attached instance, which is in service at once.
        pass_output: has the output of its containers passed to their receivers.
    """

    launch: Callable[[], Coroutine[Any, Any, RunningContainer]]
    place_of: Callable[[RunningContainer], Place]
    output: SaidLast
    load: InstanceLoad
    start: Callable[[Clock, Callable[[float, str], object]], SlowStart] | None = None
    pass_output: Callable[[RunningContainer], object] = lambda _: None
