"""partway.gateway.fleet.unclaimed_instances: containers whose orders may still come."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from partway.gateway.fleet.instance_context import InstanceContext
from partway.gateway.fleet.kept_instances import KeptInstances
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.limits import LEFTOVERS_TIMEOUT
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.unclaimed_instances import UnclaimedContainer, UnclaimedInstances
from tests.gateway.fleet.fakes import FakeContainer, FakeOutput, turns, variant
from tests.gateway.fleet.waiting import soon
from tests.gateway.kept_in_memory import KeptInMemory
from tests.gateway.streams.fakes import FakeClock


class OneContainerLeft:
    """A container of an earlier process; it is the instance's."""

    def __init__(self, instance: str) -> None:
        self.container = FakeContainer(Order(instance, "echo", variant(), 0), 1, stubborn=False)
        self.has_unclaimed = True
        self.released = False

    async def unclaimed(self, is_awaited):
        instance = self.container.order.instance
        if not self.has_unclaimed or is_awaited(instance):
            return []
        self.has_unclaimed = False
        return [UnclaimedContainer(instance, "echo", self.container, FakeOutput())]

    def release_leftovers_data(self) -> None:
        self.released = True


async def test_a_living_instances_container_is_left_until_the_instance_has_failed(no_leaks):
    """Its order may come late, as after a slow download."""
    before = KeptInMemory()
    KeptInstances(before).id_for("one", "echo", variant(), 0)
    kept, clock = before.next_process(), FakeClock()
    instances = KeptInstances(kept)
    assert instances.id_for("new", "echo", variant(), 0) == "one"
    left = OneContainerLeft("one")
    around = InstanceContext(lambda *_: None, clock, lambda: 0.0, lambda *_: None)
    unclaimed = UnclaimedInstances(instances, Router().load, around, left)
    ending = asyncio.create_task(unclaimed.end())
    await turns()
    clock.advance(LEFTOVERS_TIMEOUT)
    await turns()
    assert (left.container.signals, left.released, ending.done()) == ([], False, False)
    over = asyncio.Event()
    over.set()
    instances.changed(SimpleNamespace(id="one", over=over))
    clock.advance(LEFTOVERS_TIMEOUT)
    await soon(ending)
    assert (left.container.signals, left.released) == (["TERM"], True)
    assert kept.names == {"fleet"}
