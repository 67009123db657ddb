"""Several gateways and an operator in a cluster that has a cluster's own times: what they lose.

The clocks are the gateways' own logs. Each check prints its figures beside the marks.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateways import measure
from partway.gateway.client import ConnectionLost, ModelStreamFailed, StreamRefused
from tests.interop.kubernetes import session_container
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import DEFAULT_TIMES
from tests.interop.kubernetes.gateway_clients import (
    ask_for_session,
    error_of,
    load,
    open_stream,
    open_streams,
    talk,
)
from tests.interop.kubernetes.gateways import (
    GATEWAYS,
    GATEWAYS_NODE,
    NODES,
    REPLICAS,
    Gateway,
    Scene,
    several_gateways,
)

pytestmark = pytest.mark.timeout(400)

#: Open streams of each gateway while something happens.
STREAMS = 12
#: Marks, in seconds: from a change of the slices to its effect at a gateway.
READINESS = 1.0
#: From a host's silence: until its pods are out of rotation, until its streams have ended, and
#: until another pod serves.
OUT_OF_ROTATION, ENDS, REPLACED = 5.0, 6.0, 15.0
#: How much later a busy machine may be.
BUSY = 2.0
#: Seconds for which the API server is away.
FROZEN, KILLED = 60.0, float(os.environ.get("API_SERVER_KILLED", "10"))
#: Streams of one principal, and the mark of how many of them several gateways admit.
SHARE, ADMITTED = 300, range(270, 331)
#: Sessions of each kind and gateway, and the mark of how many find their instance.
SESSIONS, FOUND = 50, 0.99
#: The mark of a message's CPU with three gateways, as a multiple of its CPU with one.
CPU = 1.2
#: Seconds for anything else.
PATIENCE = 60.0

#: The log's line of a stream whose container is lost.
LOST = "stream ended .*cause=container_lost"


async def eventually(met: Callable[[], Any], awaited: str, patience: float = PATIENCE) -> None:
    """Wait for a condition, which may ask the cluster: it is looked at in another thread."""
    deadline = time.monotonic() + patience
    while not await asyncio.to_thread(met):
        assert time.monotonic() < deadline, awaited
        await asyncio.sleep(0.05)


def judge(what: str, seconds: float, mark: float) -> None:
    print(f"{what}: {seconds:.2f} s; the mark is {mark:g} s")
    assert seconds < mark * BUSY, what


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(cluster_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that notices the loss of a node as late as clusters do."""
    logs = tmp_path_factory.mktemp("cluster")
    images = {"sessions": {"entrypoint": [sys.executable, session_container.__file__]}}
    with Cluster.start(
        cluster_programs, logs, nodes=NODES, times=DEFAULT_TIMES, images=images
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def gateways(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    settings = f"max_streams_per_principal = {SHARE}\n"
    folder = tmp_path_factory.mktemp("gateways")
    with several_gateways(cluster, "models", folder, settings, (2, 1, 1)) as scene:
        scene.serve("chat", "echo")
        yield scene


@pytest.fixture
def scene(gateways: Scene) -> Scene:
    """Three gateways that have three pods of ``chat``."""
    gateways.settle()
    return gateways


async def test_readiness_reaches_all_gateways(scene: Scene) -> None:
    """1 to 8 and back: no stream fails."""
    async with load(scene.gateways * 3):
        for number in (1, 8, 1):
            await asyncio.to_thread(scene.scale, number)
            await eventually(lambda number=number: len(scene.ready()) == number, "they are ready")
            seen = time.time()
            for each in scene.gateways:
                await eventually(
                    lambda each=each, number=number: each.in_rotation() == number, "it follows"
                )
                last = max(each.times("instance (in rotation|draining|gone|out of).*=chat "))
                judge(f"{number} pods: {each.name} has followed after", last - seen, READINESS)


@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_the_api_server_is_away(scene: Scene, how: str) -> None:
    server = scene.cluster.api_server
    away, back, seconds = {
        "frozen": (server.freeze, server.thaw, FROZEN),
        "killed": (server.kill, server.start, KILLED),
    }[how]
    async with AsyncExitStack() as up:
        streams = [
            stream for each in scene.gateways for stream in await open_streams(up, each, STREAMS)
        ]
        async with load(scene.gateways) as loads:
            begun = time.time()
            await asyncio.to_thread(away)
            opened = [each.opened for each in loads]
            await asyncio.sleep(seconds)
            print(f"opened while it was {how} for {seconds:g} s:")
            print([each.opened - before for each, before in zip(loads, opened, strict=True)])
            await asyncio.to_thread(back)
            await eventually(scene.answers, "the API server is back")
            returned = datetime.now(UTC)
            await asyncio.to_thread(scene.scale, REPLICAS + 2)
            for each in scene.gateways:
                await eventually(
                    lambda each=each: each.in_rotation() == REPLICAS + 2, "new pods are found"
                )
            # Meanwhile the cluster may call all nodes lost.
            await eventually(lambda: scene.has_heard_of_nodes(returned), "nodes are heard of")
            for each in scene.gateways:
                assert not each.times("instance out of rotation", begun)
        for stream in streams:
            await talk(stream)


async def test_a_gateway_that_is_killed(scene: Scene) -> None:
    """Only its own streams end, and its clients go on at the others."""
    *others, killed = scene.gateways
    async with AsyncExitStack() as up:
        streams = {each.name: await open_streams(up, each, STREAMS) for each in scene.gateways}
        async with load(others):
            begun = time.monotonic()
            await asyncio.to_thread(killed.kill)
            for number, stream in enumerate(streams.pop(killed.name)):
                assert isinstance(await error_of(stream), ConnectionLost)
                await open_stream(up, others[number % len(others)])
            print(f"{STREAMS} clients have gone on after {time.monotonic() - begun:.2f} s")
            for each in others:
                await eventually(lambda each=each: each.live_gateways() == 2, "two are counted")
            print(f"two gateways are counted after {time.monotonic() - begun:.2f} s")
        for stream in [each for kept in streams.values() for each in kept]:
            await talk(stream)


async def admitted(up: AsyncExitStack, gateways: list[Gateway]) -> list[Gateway]:
    """Open a stream of the same principal at each; return those that were admitted."""
    found = []
    for each in gateways:
        try:
            await open_stream(up, each)
        except StreamRefused as refused:
            if refused.status != 503:
                raise
        else:
            found.append(each)
    return found


async def test_the_share_of_a_principal(scene: Scene) -> None:
    """It is divided by the gateways that live; a client is refused at one that is full."""
    *others, lost = scene.gateways
    async with AsyncExitStack() as up:
        even = await admitted(up, scene.gateways * (SHARE // GATEWAYS))
        further = await admitted(up, scene.gateways * 20)
        number = len(even) + len(further)
        print(f"{len(even)} of {SHARE} even streams are admitted, and {len(further)} of 60 more")
        assert len(even) in ADMITTED
        assert number in ADMITTED
        await asyncio.to_thread(lost.kill)
        for each in others:
            await eventually(lambda each=each: each.live_gateways() == 2, "two are counted")
        again = await admitted(up, others * (2 * SHARE // GATEWAYS))
        number -= (even + further).count(lost)
        print(f"a gateway is lost: {number} are left, and {len(again)} more come to the others")
        assert number + len(again) in ADMITTED


async def test_streams_of_a_principal_that_are_spread_at_random(scene: Scene) -> None:
    drawn = random.Random(39).choices(scene.gateways, k=SHARE)
    async with AsyncExitStack() as up:
        number = len(await admitted(up, drawn))
    print(f"{number} of {SHARE} streams are admitted, spread at random")
    assert number in ADMITTED


async def test_sessions_whose_gateway_is_lost(scene: Scene) -> None:
    """The others know the instance by the session's id; a client may have made the id, too."""
    if not scene.ready("sessions"):
        await asyncio.to_thread(scene.serve, "sessions", "sessions")
    *others, lost = scene.gateways
    at = [lost] * SESSIONS + others * (SESSIONS // 2)
    begun = [await ask_for_session(each, "sessions", "NEW_SESSION") for each in at]
    begun += [await ask_for_session(each, "sessions", f"own-{n}") for n, each in enumerate(at)]
    assert {each.pod for each in begun} == scene.ready("sessions"), "each pod has sessions"
    await asyncio.to_thread(lost.kill)
    found = [
        (await ask_for_session(gateway, "sessions", each.id)).pod == each.pod
        for each in begun
        for gateway in others
    ]
    print(f"{sum(found)} of {len(found)} requests find their instance")
    assert sum(found) >= FOUND * len(found)


async def test_cpu_for_each_message(scene: Scene) -> None:
    """A few short rounds; ``make bench-gateways`` has longer ones."""
    found = await measure(scene.gateways, rounds=3, seconds=1.0, rate=200, streams=STREAMS)
    print(f"three gateways take {statistics.median(found.ratios):.2f} times as much CPU for each")
    print(f"message as one; the mark is {CPU}; the rounds: {[f'{n:.2f}' for n in found.ratios]}")
    assert min(found.ratios) < CPU


async def test_a_host_that_is_cut_off(scene: Scene) -> None:
    """Its pod is reported, deleted by the operator, and replaced on another node.

    The last one here, so that none has to wait until that node's kubelet is back.
    """
    pods = await asyncio.to_thread(scene.pods)
    lost = next(each for each in pods if each["spec"]["nodeName"] != GATEWAYS_NODE)
    node = scene.cluster.nodes[lost["spec"]["nodeName"]]
    before = {each["metadata"]["name"] for each in pods}
    # A gateway may hear of the deletion before it has missed enough pings itself.
    out = rf"instance (out of|draining|gone).*container={re.escape(lost['status']['podIP'])}:"
    async with AsyncExitStack() as up:
        streams = [
            stream for each in scene.gateways for stream in await open_streams(up, each, STREAMS)
        ]
        async with load(scene.gateways):
            cut = time.time()
            node.cut()
            up.callback(node.mend)
            for each in scene.gateways:
                await eventually(lambda each=each: each.times(out, cut), "it is out of rotation")
                took = each.times(out, cut)[0] - cut
                judge(f"{each.name} has it out of rotation after", took, OUT_OF_ROTATION)
            ended = 0
            for each in scene.gateways:
                await eventually(
                    lambda each=each: len(each.times(LOST, cut)) >= STREAMS // REPLICAS, "they end"
                )
                times = each.times(LOST, cut)
                ended += len(times)
                judge(f"{each.name} has ended {len(times)} streams after", max(times) - cut, ENDS)

            def successors() -> set[str]:
                return scene.ready() - before

            await eventually(successors, "another pod is ready")
            (other,) = successors()
            serves = f"instance in rotation .*instance=chat-chat-{re.escape(other)}-"
            for each in scene.gateways:
                await eventually(lambda each=each: each.times(serves), "it takes streams")
                took = each.times(serves)[0] - cut
                judge(f"{each.name} sends streams to the replacement after", took, REPLACED)
            (pod,) = (each for each in scene.pods() if each["metadata"]["name"] == other)
            assert scene.cluster.nodes[pod["spec"]["nodeName"]] is not node
            await eventually(lambda: not scene.reports(), "no report is left")
        for stream in streams:
            try:
                await talk(stream)
            except ModelStreamFailed as error:
                ended -= error.code == "1006"
        assert ended == 0, "a stream has ended that was on another host"
