"""partway.gateway.fleet.instance: one life, from the order to the end."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    InstanceTimes,
    OneContainer,
    Variant,
)
from partway.gateway.fleet.launchers.launcher import Loss
from partway.gateway.fleet.limits import UNREACHABLE_TIMEOUT
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.network.dialling import Address, OutOfDescriptors
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.fleet.fakes import PROGRAM, endpoint, turns


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


async def test_nothing_is_known_of_its_health_until_it_has_answered(of):
    of.launcher.troubles.append("Connection refused")
    await of.apply(endpoint())
    (starting,) = of.status().variants[0].instances
    assert (starting.state, starting.health) == ("Starting", "unknown")
    of.launcher.containers[0].trouble = None
    await of.advance(1)
    (serving,) = of.status().variants[0].instances
    assert (serving.state, serving.health) == ("InService", "healthy")


async def test_what_answers_in_its_place_is_never_served_by(of):
    of.launcher.impostors.append("another process holds its port 1")
    await of.apply(endpoint())
    (status,) = of.status().variants
    assert (of.states(), of.launcher.containers[0].signals) == (["Failed"], ["KILL"])
    assert status.trouble == ("the container cannot be reached: another process holds its port 1")
    await of.advance(0.75)
    assert of.states() == ["InService"]


async def test_three_missed_pings_and_it_is_replaced(of):
    await of.apply(endpoint())
    first = of.launcher.containers[0]
    with of.router.lease("echo"):
        first.trouble = "/ping was answered with status 500"
        await of.advance(31)
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


async def test_why_it_is_not_ready_is_told_after_seconds_and_logged_once_a_minute(of, caplog):
    refused, elsewhere = "Connection refused", "nothing listens on 1; this process listens on 2"
    of.launcher.troubles.append(refused)
    await of.apply(endpoint())
    (container,) = of.launcher.containers
    container.misplaced = elsewhere

    def reason():
        return of.status().variants[0].instances[0].reason

    def warnings():
        return [each.msg.fields for each in caplog.records if "is not ready" in str(each.msg)]

    await of.advance(2.5)
    assert (reason(), warnings()) == (refused, [])
    await of.advance(1)
    assert (reason(), warnings()) == (elsewhere, [])
    await of.advance(7)
    (first,) = warnings()
    assert (first["seconds"], first["reason"]) == (10, elsewhere)
    container.misplaced = ""
    container.trouble = "/ping was answered with status 502"
    await of.advance(55, step=1)
    assert reason() == "/ping was answered with status 502"
    assert len(warnings()) == 1
    await of.advance(5, step=1)
    assert [each["reason"] for each in warnings()][1:] == ["/ping was answered with status 502"]
    container.trouble = None
    await of.advance(6, step=1)
    assert (of.states(), reason()) == (["InService"], "")
    await of.advance(120, step=2)
    assert len(warnings()) == 2


async def test_a_fault_in_the_watch_of_a_slow_start_is_logged_and_ends_no_start(of, caplog):
    of.launcher.troubles.append("Connection refused")
    await of.apply(endpoint())
    (container,) = of.launcher.containers
    container.misplaced = ValueError("a line of /proc/net/tcp with too few words")
    await of.advance(3.5)
    (line,) = [each for each in caplog.records if each.exc_info]
    assert str(line.msg).startswith("the gateway failed to find out why an instance is not ready")
    assert line.exc_info[1] is container.misplaced
    assert of.states() == ["Starting"]
    container.trouble = None
    await of.advance(2)
    assert of.states() == ["InService"]


def beside_one_of_somebodys():
    """An endpoint whose instances have a container of ours, and one that somebody else runs."""
    own = OneContainer(hostname="own", source=PROGRAM)
    its = OneContainer(hostname="its", source=Attached((Address("127.0.0.1", 9),)))
    return endpoint("echo", Variant(source=Containers((own, its))))


async def test_what_somebody_else_runs_beside_ours_restarts_nothing(of):
    await of.apply(beside_one_of_somebodys())
    own, its = of.launcher.containers
    await of.advance(11)
    its.trouble = "Connection refused"
    await of.advance(600, step=2)
    assert (of.states(), of.launcher.containers) == (["InService"], [own, its])
    (status,) = of.status().variants
    assert status.restarts == 0
    assert status.instances[0].reason == "its: Connection refused"
    with pytest.raises(ServiceUnavailable, match=r"do not answer their pings.*log says") as refused:
        of.router.lease("echo")
    assert "Connection refused" not in refused.value.message, "it may name the container's place"
    its.trouble = None
    await of.advance(11)
    of.router.lease("echo")


async def test_what_is_written_for_vertex_ai_is_not_started_anew_for_its_health(of):
    await of.apply(endpoint(vertex=VertexContainer(), times=InstanceTimes().of_vertex))
    (only,) = of.launcher.containers
    only.trouble = "/health was answered with status 503"
    await of.advance(29, step=2)
    of.router.lease("echo")
    await of.advance(600, step=2)
    assert (of.states(), of.launcher.containers) == (["InService"], [only])
    with pytest.raises(ServiceUnavailable, match="do not answer their pings"):
        of.router.lease("echo")
    only.trouble = None
    await of.advance(11)
    of.router.lease("echo")
    only.end("ended with status 3")  # that is another thing
    await of.advance(1)
    assert of.status().variants[0].restarts == 1


async def test_ready_is_what_was_launched(of):
    of.launcher.troubles.extend([None, "Connection refused"])
    await of.apply(beside_one_of_somebodys())
    assert of.states() == ["InService"]
    of.router.lease("echo")
    of.launcher.containers[0].trouble = "/ping was answered with status 500"
    await of.advance(31)
    assert of.status().variants[0].restarts == 1


async def test_one_that_cannot_be_asked_stays_as_it_is(of):
    """The gateway has no file descriptor left: that says nothing of its containers."""
    await of.apply(endpoint())
    (container,) = of.launcher.containers
    container.trouble = OutOfDescriptors("Too many open files")
    await of.advance(120, step=2)
    assert (of.states(), container.signals) == (["InService"], [])
    container.trouble = "Connection refused"
    await of.advance(31)
    assert container.signals == ["TERM"]


async def test_one_that_starts_while_nobody_can_be_asked(of):
    of.launcher.troubles.append(OutOfDescriptors("Too many open files"))
    await of.apply(endpoint())
    (starting,) = of.status().variants[0].instances
    assert (starting.state, starting.reason) == (
        "Starting",
        "it could not be pinged: Too many open files",
    )
    of.launcher.containers[0].trouble = None
    await of.advance(1)
    assert of.states() == ["InService"]


async def test_with_the_first_end_of_several_nothing_more_is_taken(of):
    """The others take their time to die; what came meanwhile would go to the dead one."""
    each = tuple(OneContainer(hostname=name, source=PROGRAM) for name in ("pre", "model"))
    await of.apply(endpoint("echo", Variant(source=Containers(each))))
    pre, model = of.launcher.containers
    pre.slow_to_die = True
    model.end("ended with status 1")
    await turns()
    assert (of.states(), pre.signals) == (["InService"], ["KILL"])
    with pytest.raises(ServiceUnavailable):
        of.router.lease("echo")
    await of.advance(60, step=2)
    assert of.states() == ["InService"], "its pings are nobody's to judge by"
    pre.end("was ended by SIGKILL")
    await turns()
    (status,) = of.status().variants
    assert status.trouble == "the container model ended with status 1"
    await of.advance(1)
    of.router.lease("echo")


# --- One that is lost ----------------------------------------------------------------------------


async def test_one_out_of_reach_is_out_of_rotation_at_once_and_comes_back(of):
    ends = []
    await of.apply(endpoint(instances=2))
    first, second = of.launcher.containers
    lease = of.router.lease("echo")
    mine, other = (first, second) if lease.place.container == first.address else (second, first)
    lease.ends_by(lambda: ends.append("drained"), lambda: ends.append("lost"))
    mine.is_lost(Loss.UNREACHABLE)
    assert (of.states(), ends) == (["InService", "Unreachable"], ["lost"])
    for _ in range(20):
        with of.router.lease("echo") as another:
            assert another.place.container == other.address
    mine.trouble = "no answer"
    await of.advance(100)
    assert of.states() == ["InService", "Unreachable"], "it misses no ping"
    mine.is_lost(None)
    await of.advance(15)
    assert of.states() == ["InService", "Unreachable"], "it has to answer first"
    mine.trouble = None
    await of.advance(10)
    assert of.states() == ["InService", "InService"]
    assert len(of.launcher.containers) == 2
    assert mine.signals == []


async def test_one_that_answers_no_ping_once_its_place_does_is_replaced(of):
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    first.is_lost(None)
    first.trouble = "Connection refused"
    await of.advance(31)
    assert of.states() == ["InService"]
    assert first.signals == ["TERM"]
    assert len(of.launcher.containers) == 2


async def test_without_pings_one_is_back_with_its_place(of):
    await of.apply(endpoint(times=InstanceTimes(ping_interval=0)))
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    assert of.states() == ["Unreachable"]
    with pytest.raises(ServiceUnavailable, match="its instances cannot be reached"):
        of.router.lease("echo")
    first.is_lost(None)
    assert of.states() == ["InService"]


async def test_one_out_of_reach_that_is_gone_is_replaced(of):
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    first.end("is gone: its host left the cluster")
    await turns()
    assert of.status().variants[0].trouble == "the container is gone: its host left the cluster"
    await of.advance(0.75)
    assert of.states() == ["InService"]


async def test_one_that_stays_out_of_reach_is_given_up_and_replaced(of):
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    for loss in (Loss.UNREACHABLE, None, Loss.UNREACHABLE):
        await of.advance(UNREACHABLE_TIMEOUT - 20, step=10)
        first.is_lost(loss)
    await of.advance(UNREACHABLE_TIMEOUT - 10, step=10)
    assert (of.states(), first.signals) == (["Unreachable"], [])
    await of.advance(10)
    assert first.signals == ["KILL"]
    assert of.status().variants[0].trouble == "the container was ended by SIGKILL"
    await of.advance(1)
    assert of.states() == ["InService"]
    assert len(of.launcher.containers) == 2


async def test_one_that_is_stopped_is_not_given_up_later(of):
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    of.fleet.remove("echo")
    await turns()
    await of.advance(UNREACHABLE_TIMEOUT + 10, step=10)
    assert first.signals == ["TERM"]


@pytest.mark.parametrize("moment", ["starting", "ready"])
async def test_one_that_is_lost_before_it_serves(of, moment):
    of.launcher.troubles.append("Connection refused")
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    assert of.states() == ["Starting"]
    if moment == "starting":
        first.is_lost(None)
    first.trouble = None
    await of.advance(1)
    assert of.states() == ["Unreachable" if moment == "ready" else "InService"]


async def test_one_out_of_reach_can_be_stopped(of):
    await of.apply(endpoint())
    (first,) = of.launcher.containers
    first.is_lost(Loss.UNREACHABLE)
    of.fleet.remove("echo")
    await turns()
    assert of.fleet.describe() == ()
    assert first.signals == ["TERM"]


async def test_one_of_several_out_of_reach_takes_all_out_of_rotation(of):
    source = Containers(
        (
            OneContainer(hostname="pre", source=PROGRAM),
            OneContainer(hostname="model", source=PROGRAM),
        )
    )
    await of.apply(endpoint("echo", Variant(source=source)))
    of.launcher.containers[1].is_lost(Loss.UNREACHABLE)
    assert of.states() == ["Unreachable"]
    of.launcher.containers[1].is_lost(None)
    await of.advance(10)
    assert of.states() == ["InService"]


# --- The time for an address ---------------------------------------------------------------------


async def test_one_that_has_no_address_in_its_time_is_tried_again(of):
    of.launcher.address_timeout = 10.0
    of.launcher.held = asyncio.Event()
    await of.apply(endpoint())
    await of.advance(9.75)
    assert of.states() == ["Pending"]
    await of.advance(0.25)
    assert of.status().variants[0].trouble == "it has no address after 10 s"
    of.launcher.held.set()
    await of.advance(0.75)
    assert of.states() == ["InService"]
