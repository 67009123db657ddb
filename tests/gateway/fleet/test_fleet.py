"""partway.gateway.fleet.fleet: endpoints as they are to be, and as they are."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from partway.gateway.fleet.fleet import FleetStopping, NoSuchEndpoint
from partway.protocol.errors import InputValidationError, ServiceUnavailable
from tests.gateway.fleet.fakes import FakeFleet, endpoint, turns, variant


@pytest.fixture
async def of():
    fake = FakeFleet()
    yield fake
    fake.fleet.hasten()
    await fake.fleet.stop()


async def test_an_endpoint_comes_up(of):
    of.fleet.start([endpoint(instances=2)])
    assert not of.fleet.is_ready
    with pytest.raises(ServiceUnavailable, match="its instances are being started"):
        of.router.lease("echo")
    assert await of.fleet.settled(30)
    assert of.fleet.is_ready
    assert of.status().state == "InService"
    assert of.states() == ["InService", "InService"]
    with of.router.lease("echo") as lease:
        assert lease.place.endpoint == "echo"
        assert lease.variant == "AllTraffic"
        assert lease.place.container in [each.address for each in of.launcher.containers]


async def test_who_asks_too_long_for_it_goes_on_without(of):
    of.launcher.troubles.append("Connection refused")
    of.fleet.start([endpoint()])
    waiting = asyncio.ensure_future(of.fleet.settled(30))
    await turns()
    await of.advance(30.5)
    assert await waiting is False
    assert of.fleet.is_ready
    assert of.status().state == "Creating"


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
    of.fleet.restart("echo")
    await turns()
    assert of.status().state == "InService"


async def test_a_crash_is_noticed_at_once_and_told_with_what_was_printed(of):
    await of.apply(endpoint(instances=2))
    first = of.launcher.containers[0]
    of.outputs[first.order.instance].feed(b"one\ntwo\nthree\n")
    first.end("ended with status 3")
    await turns()
    (status,) = of.status().variants
    assert status.trouble == ("the container ended with status 3\nit printed last:\ntwo\nthree")
    for _ in range(20):
        with of.router.lease("echo") as lease:
            assert lease.place.container == of.launcher.containers[1].address
    await of.advance(0.75)
    assert of.states() == ["InService", "InService"]
    assert of.status().variants[0].restarts == 1
    assert of.status().variants[0].trouble == ""


async def test_what_answers_in_its_place_is_never_served_by(of):
    of.launcher.impostors.append("does not listen: its port 1 is held by process 7 (nginx)")
    await of.apply(endpoint())
    (status,) = of.status().variants
    assert (of.states(), of.launcher.containers[0].signals) == (["Failed"], ["KILL"])
    assert status.trouble == (
        "the container does not listen: its port 1 is held by process 7 (nginx)"
    )
    await of.advance(0.75)
    assert of.states() == ["InService"]


async def test_three_missed_pings_and_it_is_replaced(of):
    await of.apply(endpoint())
    first = of.launcher.containers[0]
    with of.router.lease("echo"):
        first.trouble = "/ping was answered with status 500"
        await of.advance(16)
        assert of.states() == ["Draining", "InService"]
        assert of.launcher.running == of.launcher.containers
        with of.router.lease("echo") as other:
            assert other.place.container == of.launcher.containers[1].address
    await turns()
    assert first.signals == ["TERM"]
    assert of.states() == ["InService"]


@pytest.mark.clause("1.1-3")
async def test_not_ready_within_eight_minutes_is_a_failed_launch(of):
    of.launcher.troubles.append("/ping was answered with status 503")
    await of.apply(endpoint())
    await of.advance(479, step=5)
    assert of.states() == ["Starting"]
    await of.advance(1.25)
    (status,) = of.status().variants
    assert "is not ready after 480 s: /ping was answered with status 503" in status.trouble
    assert of.launcher.containers[0].signals == ["KILL"]
    await of.advance(1)
    assert of.states() == ["InService"]


class TestChange:
    async def test_more_and_fewer_instances_keep_those_that_are_there(self, of):
        await of.apply(endpoint(instances=1))
        await of.apply(endpoint(instances=3))
        assert of.states() == ["InService"] * 3
        first = of.launcher.containers[0]
        await of.apply(endpoint(instances=1))
        assert of.launcher.running == [first]
        assert of.states() == ["InService"]

    async def test_another_version_takes_over_when_it_is_up(self, of):
        await of.apply(endpoint())
        of.launcher.troubles.append("Connection refused")
        await of.apply(endpoint(environment=(("A", "1"),)))
        assert of.status().state == "Updating"
        old, new = of.launcher.containers
        lease = of.router.lease("echo")
        assert lease.place.container == old.address
        new.trouble = None
        await of.advance(6)
        assert of.status().state == "InService"
        with of.router.lease("echo") as later:
            assert later.place.container == new.address
        assert old.running
        lease.__exit__(None, None, None)
        await turns()
        assert old.signals == ["TERM"]

    async def test_one_that_does_not_come_up_leaves_the_old_one_serving(self, of):
        await of.apply(endpoint(instances=2))
        of.launcher.lasting("the image has no label")
        await of.apply(endpoint(instances=3, environment=(("A", "1"),)))
        status = of.status()
        assert (status.state, status.reason) == ("InService", "the image has no label")
        assert of.launcher.running == of.launcher.containers[:2]
        assert of.states() == ["InService", "InService"]

    async def test_a_change_in_the_midst_of_another_takes_its_place(self, of):
        await of.apply(endpoint())
        of.launcher.troubles.append("Connection refused")
        await of.apply(endpoint(environment=(("A", "1"),)))
        await of.apply(endpoint(environment=(("A", "2"),)))
        old, never, new = of.launcher.containers
        assert of.launcher.running == [new]
        assert "TERM" in never.signals
        assert old.signals == ["TERM"]
        assert new.order.variant.environment == (("A", "2"),)

    async def test_weights_alone_start_nothing(self, of):
        one = endpoint("echo", variant(name="A"), variant(name="B"))
        await of.apply(one)
        await of.apply(
            endpoint("echo", variant(name="A", weight=0.0), variant(name="B", weight=3.0))
        )
        assert len(of.launcher.containers) == 2
        assert {of.router.lease("echo").variant for _ in range(20)} == {"B"}
        assert of.router.lease("echo", "A").variant == "A"

    async def test_a_variant_that_is_no_more_drains(self, of):
        await of.apply(endpoint("echo", variant(name="A"), variant(name="B")))
        await of.apply(endpoint("echo", variant(name="B")))
        assert [each.order.variant.name for each in of.launcher.running] == ["B"]
        with pytest.raises(InputValidationError, match="it has 'B'"):
            of.router.lease("echo", "A")

    async def test_a_policy_alone_is_that_of_the_next_stream(self, of):
        await of.apply(endpoint())
        policy = dataclasses.replace(endpoint().policy, lifetime=7.0)
        await of.apply(endpoint(policy=policy))
        assert len(of.launcher.containers) == 1
        assert of.router.lease("echo").place.policy.lifetime == 7.0

    async def test_the_same_again_changes_nothing(self, of):
        await of.apply(endpoint())
        before = of.status()
        await of.apply(endpoint())
        assert of.status() == before

    async def test_new_instances_on_demand(self, of):
        await of.apply(endpoint())
        of.fleet.restart("echo")
        await turns()
        old, new = of.launcher.containers
        assert (old.running, new.running) == (False, True)


class TestStopping:
    async def test_what_is_open_drains_and_is_cut_when_its_time_is_over(self, of):
        await of.apply(endpoint())
        (container,) = of.launcher.containers
        cut = []
        lease = of.router.lease("echo")
        lease.ends_by(lambda: cut.append(of.clock.now))
        began = of.clock.now
        of.fleet.remove("echo")
        await turns()
        with pytest.raises(ServiceUnavailable, match="is being deleted"):
            of.router.lease("echo")
        await of.advance(299, step=5)
        assert not cut
        await of.advance(2)
        assert cut == [began + 300]
        assert container.running
        lease.__exit__(None, None, None)
        await turns()
        assert container.signals == ["TERM"]
        assert of.fleet.describe() == ()
        with pytest.raises(InputValidationError, match="there is no endpoint 'echo'"):
            of.router.lease("echo")

    async def test_one_that_is_still_being_launched_is_not_waited_for(self, of):
        of.launcher.held = asyncio.Event()
        await of.apply(endpoint())
        of.fleet.remove("echo")
        await turns()
        assert of.fleet.describe() == ()
        assert of.launcher.containers == []

    async def test_one_that_starts_is_told_to_end(self, of):
        of.launcher.troubles.append("Connection refused")
        await of.apply(endpoint())
        of.fleet.remove("echo")
        await turns()
        assert of.launcher.containers[0].signals == ["TERM"]
        assert of.fleet.describe() == ()

    async def test_a_second_word_kills(self, of):
        of.launcher.stubborn = True
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        await turns()
        of.fleet.hasten()
        await turns()
        assert of.launcher.containers[0].signals == ["TERM", "KILL"]
        assert of.fleet.describe() == ()
        lease.__exit__(None, None, None)

    async def test_a_name_can_be_had_again_while_the_old_one_drains(self, of):
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        await turns()
        await of.apply(endpoint())
        _, new = of.launcher.containers
        assert of.router.lease("echo").place.container == new.address
        lease.__exit__(None, None, None)
        await turns()
        assert of.launcher.running == [new]
        assert of.status().state == "InService"

    async def test_a_fleet_that_stops_takes_no_changes(self, of):
        await of.apply(endpoint())
        await of.fleet.stop()
        assert of.launcher.running == []
        with pytest.raises(FleetStopping):
            of.fleet.apply(endpoint())


async def test_a_name_that_is_none_says_which_there_are(of):
    await of.apply(endpoint("a"))
    await of.apply(endpoint("b"))
    with pytest.raises(NoSuchEndpoint, match="no endpoint 'c'; there are: a, b"):
        of.fleet.restart("c")
