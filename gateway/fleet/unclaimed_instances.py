"""Instances of an ended gateway process with which no instance of this one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from partway.gateway.fleet.container_ids import hostname_of, instance_of
from partway.gateway.fleet.endpoint import Endpoint, InstanceTimes, Place, Program, Variant
from partway.gateway.fleet.instance import Instance
from partway.gateway.fleet.instance_context import CapturedOutput, InstanceContext, Making
from partway.gateway.fleet.kept_instances import KeptInstance, KeptInstances
from partway.gateway.fleet.launch_orders import ContainerOutputs, pass_outputs
from partway.gateway.fleet.launchers.containers import RunningContainers
from partway.gateway.fleet.launchers.launcher import RunningContainer
from partway.gateway.fleet.limits import LEFTOVERS_TIMEOUT
from partway.gateway.fleet.routing.router import InstanceLoad
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.timing.deadlines import pause

#: Stands for the source of a container that runs already.
_RUNS: Final = Program(())


@dataclass(frozen=True, slots=True)
class UnclaimedContainer:
    """A running container that the caller must end.

    Attributes:
        id: as in :mod:`.container_ids`.
    """

    id: str
    endpoint: str
    running: RunningContainer
    output: CapturedOutput


class EarlierContainers(Protocol):
    """The containers of an earlier process."""

    async def unclaimed(self, is_awaited: Callable[[str], bool]) -> Iterable[UnclaimedContainer]:
        """Hand out those that no order has taken, unless an order for an instance may come."""

    @property
    def has_unclaimed(self) -> bool:
        """Whether there are some that no order has taken."""

    def release_leftovers_data(self) -> None:
        """Release model data that they have used."""


class UnclaimedInstances:
    """Ends instances as a fleet ends an instance that is told to stop.

    Each drains first: an earlier version, or an instance that was being removed. An instance of
    which nothing is known has nothing open, such as one of a job.

    Args:
        kept: nothing takes an instance of an earlier process from now on.
        load: returns the load of an instance.
        containers: has the containers of an earlier process.
    """

    def __init__(
        self,
        kept: KeptInstances,
        load: Callable[[str], InstanceLoad],
        around: InstanceContext,
        containers: EarlierContainers,
    ) -> None:
        self._kept = kept
        self._load = load
        self._around = around
        self._containers = containers
        self._records = dict(kept.unclaimed())
        self._leaving: list[Instance] = []

    async def end(self) -> None:
        """End the instances, and forget those without containers; return when all are gone.

        Containers of living instances are left alone, since their orders may still come, as after a
        slow download. They are looked at again later, since such an instance may fail before.
        """
        is_awaited = self._kept.awaited.__contains__
        while True:
            self._end_all(await self._containers.unclaimed(is_awaited))
            await self.gone()
            if not self._containers.has_unclaimed:
                break
            await pause(self._around.clock, LEFTOVERS_TIMEOUT)
        self._containers.release_leftovers_data()

    def _end_all(self, found: Iterable[UnclaimedContainer]) -> None:
        ordered = sorted(found, key=lambda each: each.id)
        for instance, group in groupby(ordered, key=lambda each: instance_of(each.id)):
            self._end_one(instance, tuple(group), self._records.pop(instance, None))
        self._kept.forget(self._records)
        self._records.clear()

    def hasten(self) -> None:
        """Cut what still drains."""
        for each in self._leaving:
            each.hasten()

    async def gone(self) -> None:
        """Wait until all have ended."""
        await asyncio.gather(*(each.over.wait() for each in self._leaving))

    def _end_one(
        self,
        instance: str,
        containers: tuple[UnclaimedContainer, ...],
        record: KeptInstance | None,
    ) -> None:
        endpoint = Endpoint(containers[0].endpoint, StreamPolicy(), (_variant(record),))
        number = 0 if record is None else record.number
        ending = Instance(
            *(instance, endpoint.name, endpoint.variants[0], number),
            _making(endpoint, containers, self._load(instance)),
            self._around,
            self._changed,
        )
        self._leaving.append(ending)
        ending.begin()

    def _changed(self, instance: Instance) -> None:
        if instance.state is InstanceState.STARTING:
            instance.stop()
        elif instance.over.is_set():
            self._leaving.remove(instance)
            self._kept.forget([instance.id])


def _variant(record: KeptInstance | None) -> Variant:
    if record is None:
        return Variant(source=_RUNS)
    times = InstanceTimes(drain_timeout=record.drain, stop_timeout=record.stop)
    return Variant(source=_RUNS, name=record.variant, times=times)


def _making(
    endpoint: Endpoint,
    containers: tuple[UnclaimedContainer, ...],
    load: InstanceLoad,
) -> Making:
    outputs = {hostname_of(each.id): each.output for each in containers}
    running = {hostname_of(each.id): each.running for each in containers}

    async def launch() -> RunningContainer:
        """Launch nothing: the containers run."""
        return RunningContainers(running) if len(running) > 1 else containers[0].running

    return Making(
        launch,
        lambda running: Place.of(endpoint, endpoint.variants[0], running.address),
        ContainerOutputs(outputs) if len(outputs) > 1 else containers[0].output,
        load,
        pass_output=lambda running: pass_outputs(running, outputs),
    )
