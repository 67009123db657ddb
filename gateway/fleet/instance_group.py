"""The instances of one variant: as many as there are to be, started anew when they fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from typing import Final, Protocol

from partway.gateway.fleet.endpoint import Variant
from partway.gateway.fleet.instance import Instance
from partway.gateway.fleet.limits import (
    ENDS_IN_VAIN,
    ENGINES_IN_VAIN,
    PROVEN_AFTER,
    RESTART_LONGEST,
    RESTART_SHORTEST,
    STARTS_IN_VAIN,
    TIMEOUTS_IN_VAIN,
)
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant
from partway.gateway.fleet.states import InstanceState, StartFailure
from partway.gateway.fleet.status import VariantStatus
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")

#: How many starts that all fail so are tried where none was ever in service, and somebody waits.
_TRIES: Final = {
    StartFailure.NOT_LAUNCHED: STARTS_IN_VAIN,
    StartFailure.NO_ENGINE: ENGINES_IN_VAIN,
    StartFailure.ENDED: ENDS_IN_VAIN,
    StartFailure.NOT_READY: TIMEOUTS_IN_VAIN,
}


class MakeInstance(Protocol):
    """Makes instances of a variant; :class:`~.instance_factory.InstanceMaker` says how."""

    def __call__(
        self, variant: Variant, number: int, on_change: Callable[[Instance], object]
    ) -> Instance:
        """Make one with a number; ``on_change`` is told when it has changed."""

    def close(self) -> None:
        """Give back what the instances have shared; none of them lives any more."""


class Group:
    """Instances that are all alike.

    1. There are as many as are desired; what is over or unhealthy is replaced.
    2. After a failure the next start waits: twice as long each time, up to a longest. If one fails
       that was in service for long enough before, it all begins anew.
    3. After so many starts in a row that bring none into service, or a failure that does not pass
       by itself, no more are started. Fewer are enough where somebody waits to hear of it, none
       was ever in service, and containers end by themselves, are not ready in time, or have no
       engine that could launch them. What comes into service and fails is started again for ever:
       whoever can make a container fail is not to end an endpoint. Those that fail of what was
       started at one time are one failure, however many they are.
    4. Of too many, those go first that are not in service, then those with least open on them.
    5. Of those that drain since they are unhealthy no more are there than there are to be in all:
       the one that has drained for longest is cut, or failures could pile up.

    Args:
        endpoint: the name of their endpoint.
        variant: what they are instances of.
        version: of their endpoint.
        make: makes an instance.
        clock: measures the waits.
        on_change: called when any of it has changed.
        awaited: whether somebody waits to hear whether it works: it is a change that has just been
            asked for, and not what the gateway's start is to bring back.

    Attributes:
        variant: what they are instances of; its instances' number is what is desired now.
        instances: those that live, and the last one that failed.
        given_up: whether no more are started.
        trouble: why the last one failed; empty once another has come into service.
    """

    def __init__(
        self,
        endpoint: str,
        variant: Variant,
        version: int,
        make: MakeInstance,
        clock: Clock,
        on_change: Callable[[], object],
        *,
        awaited: bool = True,
    ) -> None:
        self.variant = variant
        self.instances: list[Instance] = []
        self.given_up = False
        self.trouble = ""
        self.restarts = 0
        self._endpoint = endpoint
        self._version = version
        self._make = make
        self._clock = clock
        self._on_change = on_change
        self._failures = 0  # in a row
        self._in_vain = Fraction(0)  # of what is tried in a row that brings none into service
        self._is_new = awaited  # what somebody waits for, and none has come into service of
        self._counted = 0  # failures in all that were counted
        self._told_of: set[Instance] = set()  # that failed, and are not over
        self._lost: set[int] = set()  # numbers of those that failed and have no successor yet
        self._waiting: Timer | None = None
        self._stopping = False

    # --- What there is ---------------------------------------------------------------------------

    @property
    def in_rotation(self) -> int:
        """How many take streams and requests."""
        return sum(each.in_rotation for each in self.instances)

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is left."""
        return all(each.over.is_set() for each in self.instances)

    @property
    def containers(self) -> int:
        """How many containers were launched for it and are not gone, or are yet to be launched."""
        ending = sum(not (each.is_wanted or each.over.is_set()) for each in self.instances)
        return self.staying_containers + ending * self.variant.launched

    @property
    def staying_containers(self) -> int:
        """Those of :attr:`containers` that are no instance's that is on its way to its end."""
        wanted = sum(each.is_wanted for each in self.instances)
        desired = 0 if self._stopping else self.variant.instances
        return max(wanted, desired) * self.variant.launched

    def routed(self, policy: StreamPolicy) -> RoutedVariant:
        """The variant as streams and requests find it, with what an endpoint's streams may do."""
        instances = tuple(
            RoutedInstance(each.id, each.place.with_policy(policy))
            for each in self.instances
            if each.in_rotation and each.place is not None
        )
        if instances:
            return RoutedVariant(self.variant.name, self.variant.weight, instances)
        if self.given_up:
            trouble = "its instances do not start"
        elif self.trouble:
            trouble = "its instances have failed, and are being started again"
        elif any(each.state is InstanceState.IN_SERVICE for each in self.instances):
            trouble = "its instances do not answer their pings"
        else:
            trouble = "its instances are being started"
        return RoutedVariant(self.variant.name, self.variant.weight, (), trouble)

    def status(self) -> VariantStatus:
        """How it is, as a value."""
        return VariantStatus(
            self.variant.name,
            self.variant.weight,
            self.variant.instances,
            self.in_rotation,
            self.restarts,
            self.trouble,
            tuple(each.status(self._version) for each in self.instances),
        )

    # --- What there is to be ---------------------------------------------------------------------

    def become(self, variant: Variant) -> None:
        """Have another number of instances, or another weight; the rest must be as it was."""
        self.variant = variant
        self.tend()

    def stop(self) -> None:
        """Stop all instances, for good."""
        self._stopping = True
        self._stop_waiting()
        for each in self.instances:
            each.stop()
        self._close_if_gone()

    def hasten(self) -> None:
        """Stop all instances at once: what is open on them is cut."""
        self.stop()
        for each in self.instances:
            each.hasten()

    def tend(self) -> None:
        """Start what is missing, stop what is too much (rules 1 and 4)."""
        if self._stopping:
            return
        wanted = [each for each in self.instances if each.is_wanted]
        surplus = len(wanted) - self.variant.instances
        if surplus > 0:
            for each in sorted(wanted, key=_least_missed)[:surplus]:
                each.stop()
        failing = [each for each in self.instances if each.drains_by_itself]
        for each in failing[: -max(1, self.variant.instances)]:
            each.hasten()  # rule 5
        if self._waiting is None and not self.given_up:
            numbers = {each.number for each in wanted}
            for number in range(self.variant.instances):
                if number not in numbers and len(wanted) < self.variant.instances:
                    wanted.append(self._start(number))

    def _close_if_gone(self) -> None:
        if self._stopping and self.is_gone:
            self._make.close()

    def _start(self, number: int) -> Instance:
        counted = self._counted
        instance = self._make(self.variant, number, lambda each: self._changed(each, counted))
        self.instances.append(instance)
        if number in self._lost:
            self._lost.remove(number)
            self.restarts += 1
        instance.begin()
        return instance

    def _changed(self, instance: Instance, counted_before: int) -> None:
        if instance.has_failed and instance not in self._told_of:
            self._told_of.add(instance)
            self._failed(instance, is_first=counted_before == self._counted)
        elif instance.in_rotation:
            self._is_new = False
            self.trouble = ""
            self._forget_ended()
        if instance.over.is_set():
            self._told_of.discard(instance)
            self._ended(instance)
            self._close_if_gone()
        self.tend()
        self._on_change()

    def _failed(self, instance: Instance, *, is_first: bool) -> None:
        """Wait before the next start, or give up (rules 2 and 3)."""
        self.trouble = instance.reason
        self._lost.add(instance.number)
        if self._stopping:
            return
        if instance.has_served:
            self._in_vain = Fraction(0)
        if instance.served_for() >= PROVEN_AFTER:
            self._failures = 1
            self.given_up = False
            self._counted += 1
        elif is_first:  # of those that were started at its time
            self._failures += 1
            if not (instance.has_served or instance.waits):
                self._in_vain += Fraction(1, self._tries(instance.start_failure))
            self._counted += 1
        if self.given_up:
            return
        if not instance.passing or self._in_vain >= 1:
            self.given_up = True
            self._stop_waiting()
            log.error(
                LogLine(
                    "instances are not started any more",
                    endpoint=self._endpoint,
                    variant=self.variant.name,
                    failures=self._failures,
                    reason=TextLines(self.trouble),
                )
            )
        elif self._waiting is None:
            seconds = min(RESTART_SHORTEST * 2 ** (self._failures - 1), RESTART_LONGEST)
            self._waiting = self._clock.call_later(seconds, self._waited)

    def _tries(self, failure: StartFailure) -> int:
        """How many starts that all fail so are tried."""
        return _TRIES[failure] if self._is_new else STARTS_IN_VAIN

    def _waited(self) -> None:
        self._waiting = None
        self.tend()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _ended(self, instance: Instance) -> None:
        """Forget what is over, but for the last that failed while there is nothing else to show."""
        self._forget_ended()
        if not self.instances and instance.state is InstanceState.FAILED:
            self.instances.append(instance)

    def _forget_ended(self) -> None:
        self.instances = [each for each in self.instances if not each.over.is_set()]


def _least_missed(instance: Instance) -> tuple[bool, int, int]:
    """Sorts by who is missed least (rule 4); of the same, who came last."""
    return instance.in_rotation, instance.open, -instance.number
