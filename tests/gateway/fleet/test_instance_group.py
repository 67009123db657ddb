"""gateway.fleet.instance_group: as many instances as there are to be, and an end to trying."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.endpoint import InstanceTimes
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.limits import (
    ENDS_IN_VAIN,
    ENGINES_IN_VAIN,
    PROVEN_AFTER,
    STARTS_IN_VAIN,
    TIMEOUTS_IN_VAIN,
)
from partway.gateway.fleet.states import StartFailure
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.fleet.fakes import endpoint, turns


async def test_what_cannot_be_launched_fails_with_its_reason(of):
    of.launcher.lasting("there is no program 'serv'")
    of.fleet.start([endpoint()])
    assert await of.fleet.settled(30)
    status = of.status()
    assert (status.state, status.reason) == ("Failed", "there is no program 'serv'")
    with pytest.raises(ServiceUnavailable, match="its instances do not start"):
        of.router.lease("echo")


async def test_what_fails_is_started_again_with_growing_waits(of):
    of.launcher.passing(4)
    await of.apply(endpoint())
    began = of.clock.now
    starts = []
    while not of.launcher.containers:
        await of.advance(0.25)
        if not of.launcher.errors and not starts:
            starts.append(of.clock.now - began)
    assert of.clock.now - began == pytest.approx(0.5 + 1 + 2 + 4)
    assert of.status().variants[0].restarts == 4
    assert of.status().state == "InService"


async def test_trying_has_an_end_and_can_be_asked_for_anew(of):
    of.launcher.passing(12)
    await of.apply(endpoint())
    await of.advance(320)
    assert not of.launcher.errors
    assert (of.status().state, of.status().reason) == ("Failed", "the engine is away")
    assert of.clock.armed == []
    await of.fleet.restart("echo")
    await turns()
    assert of.status().state == "InService"


async def until_given_up(of):
    """End each container that starts, until no more are; returns seconds, and how many started."""
    began, before = of.clock.now, len(of.launcher.containers)
    while of.clock.armed:
        for each in of.launcher.running:
            each.end()
        await of.advance(0.25)
    return of.clock.now - began, len(of.launcher.containers) - before


async def test_what_ends_and_was_never_ready_is_given_up_within_a_minute(of):
    of.launcher.troubles.extend(["Connection refused"] * STARTS_IN_VAIN)
    await of.apply(endpoint())
    seconds, more = await until_given_up(of)
    assert (of.status().state, 1 + more) == ("Failed", ENDS_IN_VAIN)
    assert 30 < seconds < 60
    assert of.status().reason.startswith("the container ended with status 3")


async def test_what_there_is_no_engine_for_is_given_up_soon_where_somebody_waits(of):
    none = LaunchError("there is no engine", passing=True, failure=StartFailure.NO_ENGINE)
    of.launcher.errors.extend([none] * STARTS_IN_VAIN)
    await of.apply(endpoint())
    await of.advance(5)
    assert (of.status().state, of.status().reason) == ("Failed", "there is no engine")
    assert len(of.launcher.errors) == STARTS_IN_VAIN - ENGINES_IN_VAIN


async def test_what_the_gateways_start_brings_back_waits_for_its_engine(of):
    none = LaunchError("there is no engine", passing=True, failure=StartFailure.NO_ENGINE)
    of.launcher.errors.extend([none] * (STARTS_IN_VAIN - 1))
    of.fleet.start([endpoint()])
    await of.advance(320)
    assert of.status().state == "InService"


async def test_what_has_served_is_tried_for_longer(of):
    await of.apply(endpoint())
    of.launcher.troubles.extend(["Connection refused"] * STARTS_IN_VAIN)
    of.launcher.running[0].end()
    await turns()
    seconds, started = await until_given_up(of)
    assert (of.status().state, started) == ("Failed", STARTS_IN_VAIN)
    assert seconds > 300


async def test_what_the_gateways_start_brings_back_is_tried_for_longer(of):
    """Nobody has changed it: what it needs may be away, as when all machines start at once."""
    of.launcher.troubles.extend(["Connection refused"] * STARTS_IN_VAIN)
    of.fleet.start([endpoint()])
    await turns()
    seconds, more = await until_given_up(of)
    assert (of.status().state, 1 + more) == ("Failed", STARTS_IN_VAIN)
    assert seconds > 300


async def test_what_is_never_ready_has_one_more_try(of):
    of.launcher.troubles.extend(["Connection refused"] * STARTS_IN_VAIN)
    await of.apply(endpoint(times=InstanceTimes(startup_timeout=20)))
    await of.advance(45, step=1)
    assert (of.status().state, len(of.launcher.containers)) == ("Failed", TIMEOUTS_IN_VAIN)
    assert "is not ready after 20 s" in of.status().reason


async def test_starts_that_fail_in_several_ways_are_added_up(of):
    of.launcher.troubles.extend(["Connection refused"] * STARTS_IN_VAIN)
    of.launcher.passing(STARTS_IN_VAIN // 2)
    await of.apply(endpoint(times=InstanceTimes(startup_timeout=20)))
    await of.advance(100, step=1)
    assert (of.status().state, len(of.launcher.containers)) == ("Failed", 1)


async def test_many_that_fail_together_are_one_failure(of):
    many = STARTS_IN_VAIN + 3
    of.launcher.passing(many)
    await of.apply(endpoint(instances=many))
    assert of.status().state == "Creating"
    await of.advance(1)
    assert of.states() == ["InService"] * many
    for each in of.launcher.running:
        each.end()
    await turns()
    await of.advance(1.25)
    assert of.states() == ["InService"] * many


async def test_the_last_one_that_failed_is_shown(of):
    of.launcher.passing(1, "the first time")
    await of.apply(endpoint())
    assert _reasons(of) == ["the first time"]
    of.launcher.passing(1, "the second time")
    await of.advance(1)
    assert _reasons(of) == ["the second time"]


async def test_one_that_lived_long_is_replaced_though_others_were_given_up(of, caplog):
    await of.apply(endpoint(instances=2))
    long_lived, other = of.launcher.containers
    await of.advance(PROVEN_AFTER, step=5)
    of.launcher.lasting("the program was removed")
    other.end()
    await of.advance(1)
    assert of.states() == ["InService"]
    assert caplog.text.count("instances are not started any more") == 1
    long_lived.end()
    await turns()
    assert of.status().state == "InService"
    await of.advance(1)
    assert of.states() == ["InService", "InService"]


def _reasons(of):
    (status,) = of.status().variants
    return [each.reason for each in status.instances]


async def test_how_many_were_replaced_is_known_of_all_versions(of):
    of.launcher.passing(2)
    await of.apply(endpoint())
    await of.advance(2)
    await of.fleet.restart("echo")
    await turns()
    assert of.states() == ["InService"]
    assert of.status().variants[0].restarts == 2


async def test_whoever_can_crash_a_container_does_not_end_its_endpoint(of):
    await of.apply(endpoint())
    for _ in range(20):
        of.launcher.running[-1].end()
        await of.advance(61, step=1)
        assert of.states() == ["InService"]
    assert of.status().state == "InService"
    assert of.status().variants[0].restarts == 20


async def test_to_wait_for_what_another_gives_back_is_not_in_vain(of):
    of.launcher.errors.extend(LaunchError("taken", passing=True, waits=True) for _ in range(20))
    await of.apply(endpoint())
    await of.advance(1000, step=1)
    assert of.status().state == "InService"


async def test_no_more_drain_unwell_than_there_are_to_be(of):
    await of.apply(endpoint())
    leases = []
    for _ in range(3):
        leases.append(of.router.lease("echo"))
        of.launcher.running[-1].trouble = "/ping was answered with status 500"
        await of.advance(40, step=0.5)
    cut = [each for each in of.launcher.containers if not each.running]
    assert len(cut) == 2, "those that drain for longest"
    assert of.states() == ["Draining", "InService"]
