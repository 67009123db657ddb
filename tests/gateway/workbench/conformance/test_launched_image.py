"""partway.gateway.workbench.conformance.launched_image, on an engine that is none.

What a real one does is in ``tests/gateway/fleet/launchers/engine_check.py``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.workbench.conformance import launched_image
from partway.gateway.workbench.conformance.launched_image import LaunchedImage
from tests.gateway.fleet.launchers.fake_engine import GOOD, FakeEngine
from tests.gateway.fleet.waiting import eventually, soon


@pytest.fixture
async def fake(anyio_backend, no_leaks, tmp_path, monkeypatch) -> AsyncIterator[FakeEngine]:
    fake = FakeEngine(tmp_path / "engine.sock")
    await fake.start()
    monkeypatch.setenv("DOCKER_HOST", fake.where)
    yield fake
    await fake.stop()


@pytest.fixture
async def launched(fake) -> AsyncIterator[LaunchedImage]:
    launched = LaunchedImage("model:1", {"WORD": "hello"})
    yield launched
    await soon(launched.aclose())
    assert fake.containers == {}
    assert not launched.model_dir.exists(), "it was made for it"


async def serve(fake: FakeEngine, take: object) -> asyncio.Server:
    """What answers where the engine publishes its port."""
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    return server


async def test_it_is_started_and_ended(launched, fake):
    assert (await soon(launched.configuration())).entrypoint == tuple(GOOD["Entrypoint"])
    assert (launched.pid, launched.status, launched.port) == (None, None, 0)
    assert await soon(launched.start()) == launched.address
    assert (launched.pid, launched.status, launched.port) == (4321, None, fake.port)
    container = await fake.container()
    assert container.request["Env"] == ["WORD=hello"]
    (mount,) = container.request["HostConfig"]["Mounts"]
    assert (mount["Source"], mount["ReadOnly"]) == (str(launched.model_dir), True)
    container.says(b"a word\n")
    await eventually(lambda: launched.output == "a word\n")
    assert not await soon(launched.ended(0))
    await soon(launched.terminate())
    assert await soon(launched.ended(30))
    assert (launched.pid, launched.status) == (None, 143)


async def test_each_start_is_a_container_of_its_own(launched, fake):
    names = set()
    for _ in range(2):
        await soon(launched.start())
        names |= set(fake.containers)
        await soon(launched.kill())
        await eventually(lambda: fake.containers == {})
        fake.asked.clear()
    assert len(names) == 2
    assert await soon(launched.ended(0)), "there is none"


async def test_what_cannot_be_started(launched, fake):
    fake.images["model:1"] = {**GOOD, "Labels": {}}
    with pytest.raises(LaunchError, match="there is no label"):
        await soon(launched.start())
    assert not await soon(launched.accepts())
    await soon(launched.terminate())


async def test_an_engine_accepts_and_hangs_up_where_nothing_listens(launched, fake, monkeypatch):
    listening = False

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if listening:
            await reader.read()
        writer.close()

    server = await serve(fake, take)
    await soon(launched.start())
    with monkeypatch.context() as patched:  # a busy machine may take longer than an engine does
        patched.setattr(launched_image, "_HANGS_UP", 60.0)
        assert not await soon(launched.accepts())
    listening = True
    assert await soon(launched.accepts())
    assert await soon(launched.listening(30)) is not None
    server.close()
    await eventually(lambda: not server.is_serving())
    assert not await soon(launched.accepts())


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="needs Linux's /proc")
async def test_processes_are_looked_at_that_are_the_containers_for_certain(
    launched, fake, monkeypatch
):
    monkeypatch.setattr(FakeEngine, "pid", os.getpid())
    await soon(launched.start())
    assert launched.footprint() is None, "another machine's number is somebody else's here"
    group = Path("/proc/self/cgroup").read_text().strip()  # noqa: ASYNC240 (the kernel's own)
    monkeypatch.setattr(FakeEngine, "id", group)
    await soon(launched.kill())
    fake.asked.clear()
    await soon(launched.start())
    footprint = launched.footprint()
    assert footprint is not None
    assert footprint.descriptors > 0
    await soon(launched.kill())
    assert launched.footprint() is None
