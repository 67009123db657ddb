"""The group of a variant's instances: their number, and new starts after failures."""

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

#: How many starts may fail in this way while a caller waits and no instance ever served.
_TRIES: Final = {
    StartFailure.NOT_LAUNCHED: STARTS_IN_VAIN,
    StartFailure.NO_ENGINE: ENGINES_IN_VAIN,
    StartFailure.ENDED: ENDS_IN_VAIN,
    StartFailure.NOT_READY: TIMEOUTS_IN_VAIN,
}


class MakeInstance(Protocol):
    """Makes instances of a variant, such as :class:`~.instance_factory.InstanceMaker`."""

    def __call__(
        self, variant: Variant, number: int, on_change: Callable[[Instance], object]
    ) -> Instance:
        """Make the instance with a number; ``on_change`` is called when it has changed."""

    def close(self) -> None:
        """Release what the instances have shared; all of them must have ended."""


class Group:
    """The instances of one variant.

    1. The group keeps the desired number of instances and replaces those that end or are unhealthy.
    2. After a failure the next start waits, each time twice as long, up to a maximum. The waits
       begin anew when an instance fails that was in service for long enough.
    3. The group gives up after a number of starts in a row that bring nothing into service, or
       after a failure that does not pass by itself. The number is smaller where a caller waits, no
       instance ever served, and containers end, are not ready in time, or lack an engine. An
       instance that served and failed is always started again: a client that can make a container
       fail must not be able to end an endpoint. Instances that start together and fail count as one
       failure.
    4. Of too many instances, those not in service stop first, then those with the least open work.
    5. The number of unhealthy instances that drain is at most the desired number. Beyond it, the
       one that has drained longest is cut, so that failures do not pile up.

    Args:
        awaited: whether a caller has just asked for the change and waits for the outcome; false
            when the gateway's start brings the endpoint back.

    Attributes:
        variant: the variant of the instances, with the number that is desired now.
        instances: those that live, and the last one that failed.
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
        self._in_vain = Fraction(0)  # the used share of the starts that may fail in a row
        self._is_new = awaited  # a caller waits, and no instance ever served
        self._counted = 0  # failures counted in all
        self._told_of: set[Instance] = set()  # failed instances that are not over
        self._lost: set[int] = set()  # numbers of failed instances without a successor
        self._waiting: Timer | None = None
        self._stopping = False

    # --- Reading its state ------------------------------------------------------------------------

    @property
    def in_rotation(self) -> int:
        """How many instances take streams."""
        return sum(each.in_rotation for each in self.instances)

    @property
    def is_gone(self) -> bool:
        return all(each.over.is_set() for each in self.instances)

    @property
    def containers(self) -> int:
        """How many containers are launched and not gone, or will be launched."""
        ending = sum(not (each.is_wanted or each.over.is_set()) for each in self.instances)
        return self.staying_containers + ending * self.variant.launched

    @property
    def staying_containers(self) -> int:
        """How many of :attr:`containers` belong to instances that are not ending."""
        wanted = sum(each.is_wanted for each in self.instances)
        desired = 0 if self._stopping else self.variant.instances
        return max(wanted, desired) * self.variant.launched

    def routed(self, policy: StreamPolicy) -> RoutedVariant:
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
        elif any(each.state is InstanceState.UNREACHABLE for each in self.instances):
            trouble = "its instances cannot be reached"
        elif any(each.state is InstanceState.IN_SERVICE for each in self.instances):
            trouble = "its instances do not answer their pings (the gateway's log says why)"
        else:
            trouble = "its instances are being started"
        return RoutedVariant(self.variant.name, self.variant.weight, (), trouble)

    def status(self) -> VariantStatus:
        return VariantStatus(
            self.variant.name,
            self.variant.weight,
            self.variant.instances,
            self.in_rotation,
            self.restarts,
            self.trouble,
            tuple(each.status(self._version) for each in self.instances),
        )

    # --- Changes ----------------------------------------------------------------------------------

    def become(self, variant: Variant) -> None:
        """Set another number of instances or another weight; the rest must be as it was."""
        self.variant = variant
        self.tend()

    def stop(self) -> None:
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
        """Start missing instances and stop surplus ones (rules 1 and 4)."""
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
        elif is_first:  # the first failure of its batch
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
        return _TRIES[failure] if self._is_new else STARTS_IN_VAIN

    def _waited(self) -> None:
        self._waiting = None
        self.tend()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _ended(self, instance: Instance) -> None:
        """Forget ended instances, but keep a failed one while there is nothing else to show."""
        self._forget_ended()
        if not self.instances and instance.state is InstanceState.FAILED:
            self.instances.append(instance)

    def _forget_ended(self) -> None:
        self.instances = [each for each in self.instances if not each.over.is_set()]


def _least_missed(instance: Instance) -> tuple[bool, int, int]:
    """Sort by who is missed least (rule 4); among equals, the newest first."""
    return instance.in_rotation, instance.open, -instance.number
