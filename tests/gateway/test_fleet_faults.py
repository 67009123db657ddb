"""Containers that fail in every way, as processes behind a gateway: streams go where they can."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from partway.gateway.fleet import instance_group as group
from partway.gateway.fleet.endpoint import Endpoint, InstanceTimes, Program, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.limits import CONTAINER_CONNECT_TIMEOUT
from partway.gateway.ports import Ports
from tests.frame_factory import TEXT
from tests.gateway.fleet.waiting import eventually, soon, until_gone
from tests.wire.peers import ENDPOINT, RAW, STREAM_PATH, upgrade_request

CONTAINER = str(Path(__file__).with_name("faulty_container.py"))

#: A busy machine may take long for a ping, and a stream is to end by itself in these tests.
TIMES = InstanceTimes(startup_timeout=60, ping_interval=0.1, ping_timeout=10, stop_timeout=30)
HASTY = replace(TIMES, ping_timeout=0.5)

#: Open all the time while an endpoint changes, and coming one after the other meanwhile.
OPEN_STREAMS = 200
PASSING_STREAMS = 8

POLICY = StreamPolicy(connect_timeout=10, handshake_timeout=10)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """What is started again is so at once, and pinged early."""
    monkeypatch.setattr("partway.gateway.fleet.instance_group.RESTART_SHORTEST", 0.05)
    monkeypatch.setattr("partway.gateway.fleet.health.ping_pace.EXTRA_PING_AFTER", 0.05)


class Fleet:
    """A gateway with one endpoint of real processes."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.fleet = gateway.gateway.fleet

    @property
    def variant(self):
        (status,) = self.fleet.describe()
        return status.variants[0]

    @property
    def state(self):
        (status,) = self.fleet.describe()
        return str(status.state)

    @property
    def states(self):
        return Counter(str(each.state) for each in self.variant.instances)

    @property
    def starting(self):
        return self.states["Pending"] + self.states["Starting"]

    def change(self, **keys):
        (endpoint,) = self.gateway.gateway.settings.endpoints
        variant = replace(endpoint.variants[0], **keys)
        self.fleet.apply(replace(endpoint, variants=(variant,)))

    async def serves(self, count, restarts=0):
        def is_so():
            return self.states == {"InService": count} and self.variant.restarts >= restarts

        await eventually(is_so)

    async def stream(self):
        """A stream, with the number of its container's process."""
        client = await self.gateway.connect()
        await client.upgrade(upgrade_request(STREAM_PATH, RAW))
        client.pid = int(await say(client, "who"))
        return client

    async def neighbours(self):
        """Two streams to the two instances."""
        one, other = await self.stream(), await self.stream()
        assert one.pid != other.pid, "who has least open has the next"
        return one, other


async def say(client, word):
    client.send_frame(TEXT, word.encode())
    answer = await client.frame()
    assert answer.opcode == TEXT, answer
    return answer.payload.decode()


async def leave(client):
    client.send_close(1000)
    assert (await close_of(client))[0] == 1000


async def close_of(client):
    last = (await client.until_close())[-1]
    return int.from_bytes(last.payload[:2], "big"), last.payload[2:].decode()


@pytest.fixture
async def fleet_of(gateway_for):
    """Starts a gateway; takes the containers' arguments, and of their variant what is otherwise."""

    async def start(*arguments, instances=2, times=TIMES, policy=POLICY):
        program = Program((sys.executable, "-S", CONTAINER, *arguments))
        variant = Variant(source=program, instances=instances, times=times)
        endpoint = Endpoint(ENDPOINT, policy, (variant,))
        return Fleet(await gateway_for(endpoints=(endpoint,)))

    return start


async def test_a_gateway_that_begins_to_listen_is_not_ready(fleet_of, monkeypatch):
    ready, begin, open_ports = [], Gateway.start_behind, Ports.open

    async def start(self, front):
        front.fleet = self.fleet
        await begin(self, front)

    async def listen(self):
        ready.append(self.fleet.is_ready)
        await open_ports(self)

    monkeypatch.setattr(Gateway, "start_behind", start)
    monkeypatch.setattr(Ports, "open", listen)
    await fleet_of("unready", instances=1)
    assert ready == [False]


async def test_one_that_exits_at_its_start_is_tried_to_an_end(fleet_of, monkeypatch):
    monkeypatch.setattr(group, "STARTS_IN_VAIN", 3)
    fleet = await fleet_of("exit", instances=1)
    await eventually(lambda: fleet.state == "Failed")
    assert fleet.variant.restarts <= 2
    (status,) = fleet.fleet.describe()
    assert "the container ended with status 1\nit printed last:\nthere is no model" in status.reason
    refused = await fleet.gateway.request(upgrade_request(STREAM_PATH, RAW))
    assert refused.status == 503
    assert "there is no model" not in refused.body.decode()


async def test_one_that_exits_in_the_midst_of_a_stream_ends_that_one_alone(fleet_of):
    fleet = await fleet_of()
    await fleet.serves(2)
    one, other = await fleet.neighbours()
    one.send_frame(TEXT, b"exit")
    code, reason = await close_of(one)
    assert (code, reason[:5]) == (4424, "1006 ")
    assert await say(other, "on") == "on"
    # Who comes before it is seen meets what is left of its socket, and has been asked.
    await eventually(lambda: fleet.states["InService"] == 1 or fleet.variant.restarts)
    assert (await fleet.stream()).pid != one.pid
    await fleet.serves(2, restarts=1)
    assert await say(other, "and on") == "and on"
    await until_gone(one.pid)


async def test_one_that_is_killed_is_replaced(fleet_of):
    fleet = await fleet_of(instances=1)
    await fleet.serves(1)
    pid = (await fleet.stream()).pid
    os.kill(pid, signal.SIGKILL)
    await fleet.serves(1, restarts=1)
    assert (await fleet.stream()).pid != pid


async def test_one_that_is_never_ready_is_killed_and_tried_to_an_end(fleet_of, monkeypatch):
    monkeypatch.setattr(group, "STARTS_IN_VAIN", 2)
    fleet = await fleet_of("unready", times=replace(TIMES, startup_timeout=1), instances=1)
    await eventually(lambda: fleet.state == "Failed")
    (status,) = fleet.fleet.describe()
    assert "is not ready after 1 s: " in status.reason
    assert not containers()


@pytest.mark.parametrize("pings", ["500", "slow"])
async def test_one_whose_pings_fail_is_replaced_and_its_streams_end_by_themselves(fleet_of, pings):
    fleet = await fleet_of(times=HASTY if pings == "slow" else TIMES)
    await fleet.serves(2)
    one, other = await fleet.neighbours()
    assert await say(one, pings) == pings
    await eventually(lambda: fleet.states["InService"] == 2 and fleet.states["Draining"])
    assert await say(one, "still here") == "still here"
    assert (await fleet.stream()).pid != one.pid
    await leave(one)
    await until_gone(one.pid)
    assert await say(other, "on") == "on"


async def test_what_an_instance_does_not_take_goes_to_another_one_and_only_once(fleet_of):
    fleet = await fleet_of(times=replace(TIMES, ping_interval=1000))
    await fleet.serves(2)
    one, other = await fleet.neighbours()
    assert await say(one, "refuse") == "refuse"
    third = [await fleet.stream() for _ in range(3)]
    assert {each.pid for each in third} == {other.pid}
    assert await say(other, "refuse") == "refuse"
    refused = await fleet.gateway.request(upgrade_request(STREAM_PATH, RAW))
    assert refused.status == 424


async def test_one_that_refuses_connections_is_pinged_early_and_replaced(fleet_of):
    fleet = await fleet_of()
    await fleet.serves(2)
    one, _ = await fleet.neighbours()
    assert await say(one, "refuse") == "refuse"
    await eventually(lambda: fleet.states["InService"] == 2 and fleet.states["Draining"])
    await leave(one)
    await until_gone(one.pid)


async def test_one_that_accepts_nothing_any_more_refuses_in_time_and_is_replaced(fleet_of):
    """Nothing waits for its pings: the one stream that it does not accept counts against it."""
    times = replace(TIMES, ping_interval=1000, pings_missed=1)
    policy = replace(POLICY, connect_timeout=CONTAINER_CONNECT_TIMEOUT)
    fleet = await fleet_of(instances=1, times=times, policy=policy)
    await fleet.serves(1)
    one = await fleet.stream()
    assert await say(one, "deaf") == "deaf"
    began = time.monotonic()
    refused = await fleet.gateway.request(upgrade_request(STREAM_PATH, RAW))
    assert time.monotonic() - began >= CONTAINER_CONNECT_TIMEOUT
    assert refused.status == 424
    assert "within 250 ms" in refused.body.decode()
    await eventually(lambda: fleet.states["InService"] == 1 and fleet.states["Draining"])
    assert (await fleet.stream()).pid != one.pid
    assert await say(one, "still here") == "still here"
    await leave(one)
    await until_gone(one.pid)


async def test_one_that_is_stopped_takes_no_streams_and_is_replaced(fleet_of):
    """The system accepts for it, so it has been asked, and nobody else is asked the same."""
    times = replace(HASTY, stop_timeout=0.2)
    fleet = await fleet_of(times=times, policy=replace(POLICY, handshake_timeout=1))
    await fleet.serves(2)
    one, _ = await fleet.neighbours()
    await leave(one)
    os.kill(one.pid, signal.SIGSTOP)
    await fleet.serves(2, restarts=1)
    streams = await soon(asyncio.gather(*(fleet.stream() for _ in range(4))))
    assert one.pid not in {each.pid for each in streams}
    await until_gone(one.pid)  # SIGTERM waits for a process that is stopped


async def test_one_that_ignores_sigterm_is_killed_with_all_it_has_forked(fleet_of):
    fleet = await fleet_of("stubborn", instances=1, times=replace(TIMES, stop_timeout=0.2))
    await fleet.serves(1)
    stream = await fleet.stream()
    child = int(await say(stream, "fork"))
    await leave(stream)
    fleet.fleet.remove(ENDPOINT)
    await until_gone(stream.pid)
    await until_gone(child)


async def test_what_one_that_ends_has_forked_ends_too(fleet_of):
    fleet = await fleet_of(instances=1)
    await fleet.serves(1)
    stream = await fleet.stream()
    child = int(await say(stream, "fork"))
    stream.send_frame(TEXT, b"exit")
    assert (await close_of(stream))[0] == 4424
    await until_gone(child)


async def test_changes_under_load_cut_no_stream_and_refuse_none(fleet_of):
    """Three instances, one, three, and another version, while streams are open and others come.

    Requests come too, and not one of them fails.
    """
    fleet = await fleet_of(instances=3)
    await fleet.serves(3)
    open_streams = await soon(asyncio.gather(*(fleet.stream() for _ in range(OPEN_STREAMS))))
    changed = asyncio.Event()
    passing = [asyncio.create_task(_until(changed, fleet)) for _ in range(PASSING_STREAMS)]
    asking = [asyncio.create_task(_ask_until(changed, fleet)) for _ in range(PASSING_STREAMS)]
    for instances, environment in ((1, ()), (3, ()), (3, (("VERSION", "2"),))):
        fleet.change(instances=instances, environment=environment)
        await eventually(lambda: fleet.state == "InService" and fleet.starting == 0)
        assert await soon(asyncio.gather(*(say(each, "on") for each in open_streams)))
    changed.set()
    assert min(await soon(asyncio.gather(*passing))) > 0  # how many is the machine's affair
    assert min(await soon(asyncio.gather(*asking))) > 0
    newest = {(await fleet.stream()).pid for _ in range(6)}
    assert newest.isdisjoint(each.pid for each in open_streams)
    assert fleet.states["InService"] == 3
    await soon(asyncio.gather(*(leave(each) for each in open_streams)))
    await eventually(lambda: fleet.states == {"InService": 3})
    assert fleet.variant.restarts == 0


async def _until(changed, fleet):
    """Streams one after the other, each said something; returns how many."""
    count = 0
    while not changed.is_set():
        stream = await fleet.stream()
        assert await say(stream, "hello") == "hello"
        await leave(stream)
        stream.abort()
        count += 1
    return count


async def _ask_until(changed, fleet):
    """Requests one after the other, each answered; returns how many."""
    count = 0
    client = await fleet.gateway.connect()
    while not changed.is_set():
        body = b"request %d" % count
        client.send(
            b"POST /endpoints/%b/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
            % (ENDPOINT.encode(), len(body), body)
        )
        response = await client.response()
        assert (response.status, response.body) == (200, body)
        count += 1
    client.abort()
    return count


def containers():
    """Our containers that run."""
    return [
        each.pid for each in psutil.Process().children() if CONTAINER in " ".join(each.cmdline())
    ]
