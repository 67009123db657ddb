"""partway.gateway.fleet.kept_instances: the next process goes on with an ended one's instances."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Image,
    InstanceTimes,
    OneContainer,
    Program,
    Variant,
)
from partway.gateway.fleet.kept_instances import KeptInstance, made_of
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.network.dialling import Address
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.tls.trust import Trust
from tests.gateway.fleet.fakes import FakeFleet, endpoint, variant
from tests.gateway.kept_in_memory import KeptInMemory


class Processes:
    """Gateway processes, one after the other, whose supervisor is the test."""

    def __init__(self) -> None:
        self.kept = KeptInMemory()
        self.fleets: list[FakeFleet] = []

    def next(self) -> FakeFleet:
        """End a process as SIGKILL does, and begin the next one."""
        self.kept = self.kept.next_process()
        self.fleets.append(FakeFleet(self.kept))
        return self.fleets[-1]


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    for each in processes.fleets:
        each.fleet.hasten()
        await each.fleet.stop()
    processes.kept.close()


def ids(of: FakeFleet, name: str = "echo") -> list[str]:
    """The ids of an endpoint's instances in rotation, in the order of their starts."""
    return [each.id for variant in of.router.variants(name) for each in variant.instances]


async def test_the_next_process_goes_on_with_the_same_ids(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(instances=3)))
    await first.apply(endpoint("other", variant(instances=2)))
    second = processes.next()
    await second.apply(endpoint("other", variant(instances=2)))
    await second.apply(endpoint("echo", variant(instances=3)))
    for name in ("echo", "other"):
        assert ids(second, name) == ids(first, name)
    third = processes.next()
    await third.apply(endpoint("echo", variant(instances=3)))
    assert ids(third) == ids(first)


async def test_each_attached_container_keeps_its_own_id(processes):
    source = Attached((Address("h", 1), Address("h", 2)))
    both = endpoint("echo", Variant(source=source, instances=2))
    first = processes.next()
    await first.apply(both)
    before = ids(first)
    second = processes.next()
    await second.apply(both)
    assert ids(second) == before
    processes.kept.forget(f"instance/{before[0]}")
    third = processes.next()
    await third.apply(both)
    assert ids(third)[0] not in before
    assert ids(third)[1] == before[1]


async def test_an_instance_of_something_else_has_a_new_id(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(environment=(("A", "1"),))))
    second = processes.next()
    await second.apply(endpoint("echo", variant(environment=(("A", "2"),))))
    await second.apply(endpoint("other", variant(environment=(("A", "1"),))))
    await second.apply(endpoint("third", variant(name="B", environment=(("A", "1"),))))
    assert not {*ids(first)} & {*ids(second), *ids(second, "other"), *ids(second, "third")}


async def test_the_number_and_the_weight_make_no_other_instance(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(instances=2, weight=1.0)))
    second = processes.next()
    await second.apply(endpoint("echo", variant(instances=3, weight=0.5)))
    assert ids(second)[:2] == ids(first)
    assert len({*ids(second)}) == 3


async def test_an_instance_that_leaves_is_taken_by_none(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(instances=2)))
    stays, leaves = ids(first)
    with first.router.lease("echo"), first.router.lease("echo"):  # one on each
        await first.apply(endpoint("echo", variant(instances=1)))
        assert first.states() == ["Draining", "InService"]
        second = processes.next()
        await second.apply(endpoint("echo", variant(instances=2)))
        assert stays in ids(second)
        assert leaves not in ids(second)


async def test_an_ended_instance_is_forgotten(processes):
    first = processes.next()
    await first.apply(endpoint())
    first.launcher.containers[0].end()
    await first.advance(0.25)
    assert processes.kept.names == {"fleet"}
    await first.advance(0.5)
    assert processes.kept.names == {"fleet", f"instance/{ids(first)[0]}"}


async def test_one_with_another_number_is_taken_rather_than_none(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(instances=3)))
    first.launcher.containers[0].end()
    await first.advance(0.25)
    of_one, of_two = ids(first)
    second = processes.next()
    await second.apply(endpoint("echo", variant(instances=2)))
    assert ids(second) == [of_two, of_one]


async def test_the_version_that_serves_is_preferred_to_the_one_that_comes(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(instances=2)))
    first.launcher.troubles.extend(["it loads"] * 2)
    first.fleet.apply(endpoint("echo", variant(instances=2)), anew=True)
    await first.advance(1)
    coming = [each.order.instance for each in first.launcher.containers[2:]]
    first.launcher.containers[0].end()
    await first.advance(1)
    serving = ids(first)
    assert not {*coming} & {*serving}
    second = processes.next()
    await second.apply(endpoint("echo", variant(instances=2)))
    assert {*ids(second)} == {*serving}
    second.fleet.apply(endpoint("echo", variant(instances=2)), anew=True)
    await second.advance(1)
    assert ids(second) == coming


async def test_nothing_is_taken_once_the_unclaimed_are_given_up(processes):
    first = processes.next()
    await first.apply(endpoint("echo", variant(times=InstanceTimes(drain_timeout=7.0))))
    (one,) = ids(first)
    second = processes.next()
    unclaimed = second.kept_instances.unclaimed()
    assert (unclaimed[one].endpoint, unclaimed[one].drain) == ("echo", 7.0)
    await second.apply(endpoint("echo", variant(times=InstanceTimes(drain_timeout=7.0))))
    assert one not in ids(second)
    assert f"instance/{one}" in processes.kept.names
    second.kept_instances.forget([one])
    assert f"instance/{one}" not in processes.kept.names


# --- The digest -----------------------------------------------------------------------------------

BASE = Variant(source=Program(("serve",)))
TWO = Containers(
    (
        OneContainer(hostname="a", source=Image("one")),
        OneContainer(hostname="b", source=Attached((Address("h", 1),))),
    )
)
CHANGES: list[Callable[[Variant], Variant]] = [
    lambda each: replace(each, source=Program(("serve", "-v"))),
    lambda each: replace(each, source=Program(("serve",), Path("/srv"))),
    lambda each: replace(each, source=Image("serve")),
    lambda each: replace(each, source=Image("serve", "never")),
    lambda each: replace(each, source=Attached((Address("h", 1),))),
    lambda each: replace(each, source=Attached((Address("h", 1),), Trust())),
    lambda each: replace(each, source=Attached((Address("h", 1),), Trust(Path("/ca")))),
    lambda each: replace(each, source=TWO),
    lambda each: replace(each, source=replace(TWO, execution="direct")),
    lambda each: replace(each, source=replace(TWO, each=TWO.each[::-1])),
    lambda each: replace(each, name="other"),
    lambda each: replace(each, model_data="/models/a"),
    lambda each: replace(each, pinned=PinnedPath(Path("/models/a"), (1, 2))),
    lambda each: replace(each, pinned=PinnedPath(Path("/models/a"), (1, 3))),
    lambda each: replace(each, environment=(("A", "1"),)),
    lambda each: replace(each, environment=(("A", "1"), ("B", ""))),
    lambda each: replace(each, gpus=1),
    lambda each: replace(each, cpus=1.0),
    lambda each: replace(each, times=InstanceTimes(stop_timeout=1.0)),
    lambda each: replace(each, vertex=VertexContainer()),
    lambda each: replace(each, vertex=VertexContainer(port=80)),
]


def test_each_difference_makes_another_digest():
    digests = {made_of(each(BASE)) for each in CHANGES} | {made_of(BASE)}
    assert len(digests) == len(CHANGES) + 1
    for change in CHANGES:
        one = change(BASE)
        assert made_of(replace(one, instances=5, weight=0.5)) == made_of(one)


def test_a_record_of_another_version_is_read():
    record = KeptInstance("echo", "A", 1, "digest", 2.0, 3.0, 4.0, is_leaving=True)
    later = record.written().replace(b"{", b'{"more": [1], ', 1)
    assert KeptInstance.read(record.written()) == KeptInstance.read(later) == record
    earlier = record.written().replace(b', "has_served": false', b"")
    assert KeptInstance.read(earlier) == record
