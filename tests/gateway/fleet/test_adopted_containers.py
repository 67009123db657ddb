"""Containers of an engine that a killed gateway process has started, and the next one's fleet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import Endpoint, Image, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.gateway.fleet.kept_machine import Machine, entries, kept, serving, subreaper
from tests.gateway.fleet.launchers.fake_engine import FakeEngine
from tests.gateway.fleet.waiting import eventually

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone can"),
    pytest.mark.usefixtures("docker_host", "answering"),
]


@pytest.fixture
async def answering(fake: FakeEngine) -> AsyncIterator[None]:
    """All containers answer all that they are asked with 200."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    yield
    server.close()
    await server.wait_closed()


@pytest.fixture(params=["data", "no data"])
async def machine(
    request: pytest.FixtureRequest, tmp_path: Path, fake: FakeEngine, answering: None
) -> AsyncIterator[Machine]:
    async with subreaper():
        machine = Machine(tmp_path / "data" if request.param == "data" else None)
        yield machine
        await machine.close()
        assert fake.containers == {}


def of(instances: int, name: str = "echo", **environment: str) -> Endpoint:
    variables = tuple(sorted(environment.items()))
    variant = Variant(source=Image("model:1"), instances=instances, environment=variables)
    return Endpoint(name, StreamPolicy(), (variant,))


async def test_a_container_goes_on(machine, fake):
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    before, ids = list(fake.containers), set(kept(first.kept, "instance/"))
    await machine.kill_first()
    following = machine.next()
    await following.starts(of(2))
    assert list(fake.containers) == before
    assert {f"instance/{each.id}" for each in following.instances()} == ids
    ends, stays = (each.removeprefix("instance/") for each in sorted(ids))
    (its,) = (each for name, each in fake.containers.items() if name.endswith(ends))
    its.end(3)
    await eventually(lambda: ends not in [each.id for each in following.instances()])
    assert stays in [each.id for each in following.instances()]


async def test_nothing_is_ended_that_has_open_work(machine, fake):
    """A removed endpoint's container drains, and is removed once nothing is open on it."""
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    before = list(fake.containers)
    open_on = min(kept(first.kept, "instance/")).removeprefix("instance/")
    await machine.kill_first()
    following = machine.next()
    following.counts.elsewhere[f"instance {open_on} streams"] = 1
    await following.starts()
    await eventually(lambda: len(fake.containers) == 1)
    (left,) = fake.containers
    assert left in before
    assert left.endswith(open_on)
    following.counts.elsewhere.clear()
    following.router.load(open_on).check_idle()
    await eventually(lambda: fake.containers == {})
    await eventually(lambda: entries(machine.kept) == (0, 0))


async def test_one_of_another_image_drains_beside_a_new_one(machine, fake):
    first = machine.first()
    first.call("apply", of(1))
    await eventually(lambda: serving(first) == 1)
    (before,) = fake.containers
    (name,) = (each.removeprefix("instance/") for each in kept(first.kept, "instance/"))
    await machine.kill_first()
    fake.image_ids["model:1"] = "sha256:2"
    following = machine.next()
    following.counts.elsewhere[f"instance {name} streams"] = 1
    await following.starts(of(1))
    assert (len(fake.containers), before in fake.containers) == (2, True)
    assert name not in [each.id for each in following.instances()]
    await eventually(lambda: following.router.load(name).on_idle.__name__ == "set")
    following.counts.elsewhere.clear()
    following.router.load(name).check_idle()
    await eventually(lambda: len(fake.containers) == 1 and before not in fake.containers)
