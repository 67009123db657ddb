"""A launcher whose instances live in another network namespace. Run by ``make far-launcher``.

It needs Linux, root and ``ip``. The agent, its programs, the gateway and the link are real.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import Endpoint, InstanceTimes, Program, Source, Variant
from partway.gateway.fleet.launchers.launcher import Launcher, Loss
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from tests.frame_factory import TEXT
from tests.gateway.far_host import FarHost
from tests.gateway.fleet.launchers.contract import (
    GRACE,
    TRIED,
    LauncherContract,
    ask,
    order_for,
    processes_of,
    until_ready,
)
from tests.gateway.fleet.launchers.far_launcher import FarLauncher
from tests.gateway.fleet.waiting import Output, eventually, soon
from tests.wire.peers import ENDPOINT, RAW, STREAM_PATH, RunningGateway, upgrade_request

pytestmark = pytest.mark.timeout(180)

CUTS = [FarHost.cut_behind_the_gateway, FarHost.cut_at_the_gateway]

StartAgent = Callable[[], Awaitable["Agent"]]


class Agent:
    """An agent on the far host.

    Attributes:
        address: where it listens.
    """

    def __init__(self, process: asyncio.subprocess.Process, address: Address) -> None:
        self._process = process
        self.address = address

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@pytest.fixture(scope="module")
def host() -> Iterator[FarHost]:
    with FarHost() as host:
        yield host


@asynccontextmanager
async def agent_on(host: FarHost, folder: Path) -> AsyncIterator[Agent]:
    module = "tests.gateway.fleet.launchers.far_agent"
    command = host.command(sys.executable, "-m", module, host.address, "0", str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    port = int((await soon(process.stdout.readline())).split()[-1])
    agent = Agent(process, Address(host.address, port))
    try:
        yield agent
    finally:
        await agent.kill()


@pytest.fixture
async def start_agent(
    anyio_backend: object, host: FarHost, tmp_path: Path
) -> AsyncIterator[StartAgent]:
    """Starts agents; they are killed at the end, and their programs with them."""
    async with AsyncExitStack() as started:
        numbers = iter(range(10))

        async def start() -> Agent:
            folder = tmp_path / f"agent-{next(numbers)}"
            folder.mkdir()
            return await started.enter_async_context(agent_on(host, folder))

        yield start
        host.mend()


@pytest.fixture
async def agent(start_agent: StartAgent) -> Agent:
    return await start_agent()


@pytest.fixture
async def launcher(agent: Agent, no_leaks: None) -> AsyncIterator[FarLauncher]:
    launcher = FarLauncher([agent.address])
    yield launcher
    await launcher.aclose()


class TestFarLauncher(LauncherContract):
    read_only = False

    @pytest.fixture
    def launcher(self, launcher: FarLauncher) -> Launcher:
        return launcher

    @pytest.fixture
    def source(self) -> Source:
        return Program((sys.executable, str(TRIED)))

    @pytest.fixture
    def unknown(self) -> Source:
        return Program(("no-such-program",))


# --- A container, and its place ------------------------------------------------------------------

TRIED_PROGRAM = Program((sys.executable, str(TRIED)))


async def test_its_address_is_on_the_far_host(launcher, host):
    container = await soon(launcher.launch(order_for(TRIED_PROGRAM)))
    assert container.address.host == host.address
    await until_ready(container)
    await container.verify()
    assert await soon(container.stop(GRACE)) is True


async def test_model_data_are_brought_to_its_place_once_for_a_version(launcher, tmp_path):
    archive = tmp_path / "model.tar.gz"
    (tmp_path / "weights").write_text("1 2 3")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "weights", "weights")
    order = order_for(TRIED_PROGRAM, archive)
    for number in range(2):  # the second needs no source
        one = replace(order, instance=f"{order.instance}-{number}")
        container = await soon(launcher.launch(one))
        archive.unlink(missing_ok=True)
        await until_ready(container)
        assert await ask(container, "/model") == '{"weights": "1 2 3"}'
        assert await soon(container.stop(GRACE)) is True
    launcher.release(order.version)


async def test_more_output_than_a_page_arrives_whole(launcher):
    output = Output()
    said = b"".join(b"%d\n" % number for number in range(40_000))
    container = await soon(launcher.launch(order_for(Program(("seq", "0", "39999")))))
    container.pass_output(output.take)
    assert str(await soon(container.wait())) == "ended with status 0"
    assert output.data == said


@pytest.mark.parametrize("cut", CUTS)
async def test_it_is_out_of_reach_and_comes_back(launcher, host, cut):
    losses = []
    order = order_for(TRIED_PROGRAM)
    container = await soon(launcher.launch(order))
    container.watch(lambda: losses.append(container.loss))
    await until_ready(container)
    cut(host)
    await eventually(lambda: losses == [Loss.UNREACHABLE])
    assert len(processes_of(order.instance)) == 1
    host.mend()
    await eventually(lambda: losses == [Loss.UNREACHABLE, None])
    assert await ask(container, "/ping") == ""
    assert await soon(container.stop(GRACE)) is True


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_one_that_cannot_be_reached_is_given_up_in_the_end(launcher, host, how):
    container = await soon(launcher.launch(order_for(TRIED_PROGRAM)))
    await until_ready(container)
    host.cut_behind_the_gateway()
    if how == "kill":
        container.kill()
    else:
        assert await soon(container.stop(0.1)) is False
    end = str(await soon(container.wait()))
    assert end == "could not be killed: its host does not answer"


async def test_with_its_agent_it_is_gone(launcher, agent):
    order = order_for(TRIED_PROGRAM)
    container = await soon(launcher.launch(order))
    await until_ready(container)
    await agent.kill()
    assert str(await soon(container.wait())) == "is gone: the agent of its host has ended"
    await eventually(lambda: processes_of(order.instance) == [])


# --- Instances of a gateway ----------------------------------------------------------------------

ECHO = Program((sys.executable, "-P", "-m", "partway.container", "serve", "--model", "echo"))
TIMES = InstanceTimes(startup_timeout=60, ping_interval=1, ping_timeout=10)


class Fleet:
    """A gateway whose only endpoint has one instance, launched elsewhere."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway

    @property
    def variant(self):
        (status,) = self.gateway.gateway.fleet.describe()
        return status.variants[0]

    def is_all(self, *states: str) -> bool:
        return sorted(str(each.state) for each in self.variant.instances) == sorted(states)

    async def stream(self):
        client = await self.gateway.connect()
        await client.upgrade(upgrade_request(STREAM_PATH, RAW))
        await self.echoes(client)
        return client

    async def echoes(self, client) -> None:
        client.send_frame(TEXT, b"hello")
        assert (await soon(client.frame())).payload == b"hello"


@pytest.fixture
def serve(gateway_for, monkeypatch: pytest.MonkeyPatch):
    """Serves an instance that a launcher launches."""

    async def serve(launcher: FarLauncher) -> Fleet:
        monkeypatch.setattr(Provisions, "_launcher", lambda _self, _variant: launcher)
        variant = Variant(source=ECHO, times=TIMES)
        endpoint = Endpoint(ENDPOINT, StreamPolicy(), (variant,))
        return Fleet(await gateway_for(endpoints=(endpoint,)))

    return serve


@pytest.mark.clause("1.5-3")
@pytest.mark.parametrize("cut", CUTS)
async def test_streams_of_one_out_of_reach_end_and_it_serves_again(serve, host, agent, cut):
    fleet = await serve(FarLauncher([agent.address]))
    await eventually(lambda: fleet.is_all("InService"))
    (before,) = fleet.variant.instances
    await fleet.stream()
    cut(host)
    await eventually(lambda: fleet.is_all("Unreachable"))
    assert fleet.variant.serving == 0
    await eventually(lambda: fleet.gateway.causes() == {"container_lost": 1})
    host.mend()
    await eventually(lambda: fleet.is_all("InService"))
    await fleet.stream()
    (after,) = fleet.variant.instances
    assert (after.id, fleet.variant.restarts) == (before.id, 0)


async def test_one_whose_agent_was_killed_is_replaced_at_another_place(serve, start_agent):
    first, second = await start_agent(), await start_agent()
    fleet = await serve(FarLauncher([first.address, second.address]))
    await eventually(lambda: fleet.is_all("InService"))
    (before,) = fleet.variant.instances
    await fleet.stream()
    await first.kill()
    await eventually(lambda: fleet.is_all("InService") and fleet.variant.restarts)
    (after,) = fleet.variant.instances
    assert after.id != before.id
    await fleet.stream()
    await eventually(lambda: fleet.gateway.causes() == {"container_lost": 1})


async def test_a_place_without_an_answer_is_left_for_another(serve, agent):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Address(*silent.getsockname())
        fleet = await serve(FarLauncher([place, agent.address], address_timeout=1.0))
        await eventually(lambda: "it has no address after 1 s" in fleet.variant.trouble)
        await eventually(lambda: fleet.is_all("InService"))
        await fleet.stream()
