"""partway.gateway.fleet.deployment: a change comes up beside what serves."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest

from partway.protocol.errors import InputValidationError
from tests.gateway.fleet.fakes import endpoint, turns, variant


async def test_more_and_fewer_instances_keep_those_that_are_there(of):
    await of.apply(endpoint(instances=1))
    await of.apply(endpoint(instances=3))
    assert of.states() == ["InService"] * 3
    first = of.launcher.containers[0]
    await of.apply(endpoint(instances=1))
    assert of.launcher.running == [first]
    assert of.states() == ["InService"]


async def test_another_version_takes_over_when_it_is_up(of):
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


async def test_an_endpoint_that_stays_in_service_says_so_once(of, caplog):
    caplog.set_level(logging.INFO, "partway.fleet")
    await of.apply(endpoint(instances=2))
    since = of.status().since
    of.launcher.containers[0].end("was ended by SIGKILL")
    await of.advance(1)
    assert of.states() == ["InService", "InService"]
    assert of.status().since == since
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.startswith("endpoint ")] == [
        "endpoint endpoint=echo state=Creating",
        "endpoint endpoint=echo state=InService",
    ]


async def test_one_that_does_not_come_up_leaves_the_old_one_serving(of):
    await of.apply(endpoint(instances=2))
    of.launcher.lasting("the image has no label")
    await of.apply(endpoint(instances=3, environment=(("A", "1"),)))
    status = of.status()
    assert (status.state, status.reason) == ("InService", "the image has no label")
    assert of.launcher.running == of.launcher.containers[:2]
    assert of.states() == ["InService", "InService"]


async def test_a_change_in_the_midst_of_another_takes_its_place(of):
    await of.apply(endpoint())
    of.launcher.troubles.append("Connection refused")
    await of.apply(endpoint(environment=(("A", "1"),)))
    await of.apply(endpoint(environment=(("A", "2"),)))
    old, never, new = of.launcher.containers
    assert of.launcher.running == [new]
    assert "TERM" in never.signals
    assert old.signals == ["TERM"]
    assert new.order.variant.environment == (("A", "2"),)


async def test_weights_alone_start_nothing(of):
    one = endpoint("echo", variant(name="A"), variant(name="B"))
    await of.apply(one)
    await of.apply(endpoint("echo", variant(name="A", weight=0.0), variant(name="B", weight=3.0)))
    assert len(of.launcher.containers) == 2
    assert {of.router.lease("echo").variant for _ in range(20)} == {"B"}
    assert of.router.lease("echo", "A").variant == "A"


async def test_a_variant_that_is_no_more_drains(of):
    await of.apply(endpoint("echo", variant(name="A"), variant(name="B")))
    await of.apply(endpoint("echo", variant(name="B")))
    assert [each.order.variant.name for each in of.launcher.running] == ["B"]
    with pytest.raises(InputValidationError, match="it has 'B'"):
        of.router.lease("echo", "A")


async def test_a_policy_alone_is_that_of_the_next_stream(of):
    await of.apply(endpoint())
    policy = dataclasses.replace(endpoint().policy, lifetime=7.0)
    await of.apply(endpoint(policy=policy))
    assert len(of.launcher.containers) == 1
    assert of.router.lease("echo").place.policy.lifetime == 7.0


async def test_the_same_again_changes_nothing(of):
    await of.apply(endpoint())
    before = of.status()
    await of.apply(endpoint())
    assert of.status() == before


async def test_new_instances_on_demand(of):
    await of.apply(endpoint())
    await of.fleet.restart("echo")
    await turns()
    old, new = of.launcher.containers
    assert (old.running, new.running) == (False, True)


async def test_the_same_again_is_tried_again_if_it_has_failed(of):
    await of.apply(endpoint())
    of.launcher.lasting("the image is not there")
    await of.apply(endpoint(environment=(("A", "1"),)))
    await of.apply(endpoint(environment=(("A", "1"),)))
    assert (of.status().state, of.status().reason) == ("InService", "")
    (running,) = of.launcher.running
    assert running.order.variant.environment == (("A", "1"),)


async def test_weights_can_be_taken_from_what_is_out_of_service(of):
    await of.apply(endpoint("echo", variant(name="A"), variant(name="B")))
    of.launcher.troubles.append("Connection refused")
    of.launcher.containers[0].end()
    await of.advance(2)
    await of.apply(endpoint("echo", variant(name="A", weight=0.0), variant(name="B")))
    assert of.status().state == "InService"
    assert [each.weight for each in of.router.table["echo"]] == [0.0, 1.0]


async def test_a_change_in_the_midst_of_another_keeps_what_it_starts_too(of):
    await of.apply(endpoint())
    of.launcher.troubles.extend(["Connection refused"] * 2)
    await of.apply(endpoint(instances=3))
    await of.apply(endpoint(instances=3, weight=2.0))
    assert len(of.launcher.containers) == 3
    await of.apply(endpoint(instances=2, weight=2.0))
    assert len(of.launcher.running) == 2
    await of.apply(endpoint(environment=(("A", "1"),)))
    assert len(of.launcher.containers) == 4


async def test_a_restart_in_the_midst_of_a_change_goes_back_to_as_many_as_serve(of):
    await of.apply(endpoint())
    of.launcher.troubles.extend(["Connection refused"] * 4)
    await of.apply(endpoint(instances=2))
    restarting = asyncio.ensure_future(of.fleet.restart("echo"))
    await turns()
    assert of.states() == ["InService", "Starting", "Starting"]
    await of.apply(endpoint(instances=2, weight=2.0))
    assert of.states() == ["InService", "Starting", "Starting"]
    for each in of.launcher.running:
        each.trouble = None
    await of.advance(6)
    await restarting
    assert of.states() == ["InService", "InService"]
    assert of.launcher.containers[0] not in of.launcher.running


async def test_what_is_told_to_stop_is_not_counted_as_one_that_serves(of):
    await of.apply(endpoint(instances=3))
    of.launcher.troubles.extend(["Connection refused"] * 2)
    of.fleet.apply(endpoint(instances=1))
    assert len(of.router.table["echo"][0].instances) == 1
    await of.apply(endpoint(instances=3))
    assert of.status().state == "Updating"


async def test_each_state_has_one_line(of, caplog):
    caplog.set_level("INFO", "partway.fleet")
    await of.apply(endpoint(instances=2))
    of.launcher.containers[0].end()
    await of.advance(1)
    of.launcher.lasting("the image is not there")
    await of.apply(endpoint(environment=(("A", "1"),)))
    await of.apply(endpoint())
    of.fleet.remove("echo")
    await turns()
    lines = [str(each.msg) for each in caplog.records]
    assert [line.split(" ", 1)[1] for line in lines if line.startswith("endpoint ")] == [
        "endpoint=echo state=Creating",
        "endpoint=echo state=InService",
        "endpoint=echo state=Updating",
        'endpoint=echo state=InService reason="the image is not there"',
        "endpoint=echo state=Updating",
        "endpoint=echo state=InService",
        "endpoint=echo state=Deleting",
        "deleted endpoint=echo",
    ]


async def test_the_gateways_end_deletes_no_endpoint(of, caplog):
    await of.apply(endpoint())
    caplog.set_level("INFO", "partway.fleet")
    stopping = asyncio.create_task(of.fleet.stop())
    await turns()
    assert of.status().state == "Stopping"
    assert of.status().state.service_word == "Deleting"
    for container in of.launcher.containers:
        container.end()
    await of.advance(60)
    await stopping
    lines = [str(each.msg) for each in caplog.records]
    assert [line for line in lines if line.startswith("endpoint ")] == [
        "endpoint endpoint=echo state=Stopping"
    ]


async def test_what_has_come_up_in_part_serves_until_its_successor_is_up(of):
    of.launcher.troubles.extend([None, "Connection refused", "Connection refused"])
    await of.apply(endpoint(instances=2))
    await of.apply(endpoint(environment=(("A", "1"),)))
    assert of.status().state == "Updating"
    with of.router.lease("echo") as lease:
        assert lease.place.container == of.launcher.containers[0].address
    for each in of.launcher.running:
        each.trouble = None
    await of.advance(6)
    assert of.launcher.running == of.launcher.containers[2:]


async def test_what_serves_is_not_left_for_what_has_nothing_in_service(of):
    of.launcher.troubles.extend(["Connection refused"] * 2)
    await of.apply(endpoint("echo", variant(name="B", instances=2), variant(name="A")))
    *kept, other = of.launcher.containers
    await of.apply(endpoint("echo", variant(name="B")))
    with of.router.lease("echo") as lease:
        assert lease.place.container == other.address
    kept[0].trouble = None
    await of.advance(6)
    assert of.status().state == "InService"
    with of.router.lease("echo") as lease:
        assert lease.place.container == kept[0].address


async def test_what_was_kept_and_is_given_up_leaves_what_serves(of):
    await of.apply(endpoint("echo", variant(name="A"), variant(name="B")))
    of.launcher.troubles.append("Connection refused")
    of.launcher.containers[1].end("was ended by SIGKILL")
    await of.advance(1)
    await of.apply(endpoint("echo", variant(name="B")))
    assert of.status().state == "Updating"
    of.launcher.lasting("there is no such program")
    of.launcher.containers[2].end("was ended by SIGKILL")
    await of.advance(5)
    status = of.status()
    assert (status.state, status.reason) == ("InService", "there is no such program")
    with of.router.lease("echo") as lease:
        assert lease.variant == "A"


async def test_where_nothing_served_some_of_each_variant_is_better_than_nothing(of, caplog):
    of.launcher.errors.append(None)
    of.launcher.passing(12, "all GPUs are taken")
    await of.apply(endpoint(instances=2))
    assert of.status().state == "Creating"
    await of.advance(320)
    status = of.status()
    assert (status.state, status.reason) == ("InService", "all GPUs are taken")
    assert of.states() == ["InService"]
    of.router.lease("echo")
    assert "endpoint has fewer instances than desired" in caplog.text


async def test_not_if_a_variant_has_none(of):
    of.launcher.errors.append(None)
    of.launcher.lasting("all GPUs are taken")
    await of.apply(endpoint("echo", variant(name="A"), variant(name="B")))
    assert of.status().state == "Failed"
    assert of.launcher.running == []


async def test_what_comes_up_beside_a_version_that_is_lost_serves(of):
    of.launcher.lasting("there is no such program")
    await of.apply(endpoint())
    of.launcher.errors.clear()
    await of.apply(endpoint(environment=(("A", "1"),)))
    assert of.status().state == "InService"
    of.launcher.lasting("the program has gone")
    of.launcher.containers[-1].end()
    await of.advance(1)
    assert (of.status().state, of.status().reason) == ("Failed", "the program has gone")
    of.launcher.errors.append(None)
    of.launcher.passing(12, "all GPUs are taken")
    await of.apply(endpoint(environment=(("A", "2"),), instances=2))
    of.router.lease("echo")
    await of.advance(320)
    assert (of.status().state, of.status().reason) == ("InService", "all GPUs are taken")
