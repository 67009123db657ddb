"""partway.gateway.fleet.fleet: endpoints come, are asked for, and go."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.fleet import FleetStopping, NoSuchEndpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.errors import InputValidationError, ServiceUnavailable
from tests.gateway.fleet.fakes import endpoint, turns


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


class TestStopping:
    async def test_its_end_is_told_when_it_is_no_more(self, of):
        left = []
        of.fleet.on_end = lambda names: left.append(sorted(names))
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        await turns()
        assert left == []
        lease.__exit__(None, None, None)
        await turns()
        assert left == [[]]

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

    async def test_a_second_word_reaches_also_what_has_a_successor_by_its_name(self, of):
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        await of.apply(endpoint())
        of.fleet.hasten()
        await turns()
        assert not of.launcher.containers[0].running
        lease.__exit__(None, None, None)

    async def test_what_is_being_deleted_is_not_restarted(self, of):
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        with pytest.raises(ServiceUnavailable, match="'echo' is being deleted"):
            await of.fleet.restart("echo")
        lease.__exit__(None, None, None)
        await turns()
        assert of.fleet.describe() == ()
        assert of.launcher.running == []

    async def test_who_waits_for_a_restart_hears_of_the_end(self, of):
        await of.apply(endpoint())
        of.launcher.troubles.append("Connection refused")
        waiting = asyncio.ensure_future(of.fleet.restart("echo"))
        await turns()
        of.fleet.remove("echo")
        await turns()
        with pytest.raises(ServiceUnavailable, match="'echo' is being deleted"):
            await waiting

    async def test_a_stream_that_outlives_its_instance_leaves_nothing_behind(self, of):
        await of.apply(endpoint())
        lease = of.router.lease("echo")
        of.launcher.containers[0].end()
        await turns()
        (instance,) = of.status().variants[0].instances
        assert (instance.state, instance.streams) == ("Failed", 1)
        assert not lease.move()
        lease.__exit__(None, None, None)
        (instance,) = of.status().variants[0].instances
        assert instance.streams == 0
        assert not of.router.load(instance.id).served

    async def test_a_fleet_that_stops_takes_no_changes(self, of):
        await of.apply(endpoint())
        await of.fleet.stop()
        assert of.launcher.running == []
        with pytest.raises(FleetStopping):
            of.fleet.apply(endpoint())


async def test_a_name_that_is_none_says_which_there_are(of):
    await of.apply(endpoint("a"))
    await of.apply(endpoint("b"))
    with pytest.raises(NoSuchEndpoint, match="no endpoint 'c'; the endpoints are: a, b"):
        await of.fleet.restart("c")


async def test_what_somebody_else_runs_is_not_restarted(of):
    address = Address("127.0.0.1", 1)
    await of.apply(Endpoint.attached("far", address, StreamPolicy()))
    with pytest.raises(InputValidationError, match="the gateway did not start the containers"):
        await of.fleet.restart("far")


async def test_a_gateway_that_stops_takes_no_changes_from_the_first_moment(of):
    await of.apply(endpoint())
    of.fleet.take_no_changes()
    with pytest.raises(FleetStopping):
        of.fleet.apply(endpoint(instances=2))
    assert len(of.launcher.running) == 1


async def test_somebody_is_told_of_each_endpoint_that_has_changed(of):
    told = []
    of.fleet.on_change = told.append
    await of.apply(endpoint("a"))
    await of.apply(endpoint("b"))
    assert set(told) == {"a", "b"}
    told.clear()
    of.fleet.remove("a")
    await turns()
    assert set(told) == {"a"}
    assert of.fleet.status("a") is None
    assert of.fleet.status("b") == of.status("b")


async def test_new_instances_where_the_old_ones_are_what_they_are_to_be(of):
    await of.apply(endpoint())
    (before,) = of.launcher.running
    of.fleet.apply(endpoint())
    await turns()
    assert of.launcher.running == [before]
    of.fleet.apply(endpoint(), anew=True)
    await turns()
    (after,) = of.launcher.running
    assert after is not before
    assert of.states() == ["InService"]


async def test_whether_what_serves_is_what_was_asked_for_last(of):
    of.launcher.held = asyncio.Event()
    await of.apply(endpoint())
    assert not of.status().is_latest
    of.launcher.held.set()
    await turns()
    assert of.status().is_latest
    of.launcher.lasting()
    await of.apply(endpoint(environment=(("A", "1"),)))
    status = of.status()
    assert (str(status.state), status.is_latest) == ("InService", False)
    await of.apply(endpoint())
    assert of.status().is_latest


async def test_which_change_was_given_up_and_what_serves(of):
    def configured(config, **environment):
        about = tuple(environment.items())
        return dataclasses.replace(endpoint(environment=about), config=config)

    await of.apply(configured("one"))
    assert of.status().note == ""
    of.launcher.lasting("no such program")
    await of.apply(configured("two", A="2"))
    assert of.status().reason == "no such program"
    assert of.status().note == "the update to two was given up; one still serves"
    await of.apply(configured("three", A="3"))
    assert of.status().note == ""
    of.launcher.lasting("no such program")
    with pytest.raises(ServiceUnavailable):
        await of.fleet.restart("echo")
    assert of.status().note == "the last change was given up; the previous version still serves"
