"""Upgrades and changed settings under 200 open streams and 500 requests per second."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from tests.gateway.apis.aws_client import aws
from tests.gateway.workers.killed_processes_check import container, replace, settings
from tests.gateway.workers.paced_load import PATIENCE, PacedLoad
from tests.gateway.workers.test_workers import Gateway, start
from tests.interop.aws_sdk import KEY, Part, Sdk, SdkStream

__all__ = ["container", "start"]

pytestmark = pytest.mark.timeout(600)

STREAMS = 200
UPGRADES = 3
RELOADS = 20

#: Streams of AWS's SDK, if ``SDK_PYTHON`` names an interpreter that has it.
SDK_STREAMS = 4

#: Seconds between two calls of the control plane.
CALL_PAUSE = 0.1

#: Seconds of load before a change, and after it.
MEASURED = 5.0

#: Seconds between two looks at the processes, and for what they wait for.
LOOK_PAUSE = 0.25
LONGEST = 90.0

#: Seconds between two reloads.
RELOAD_PAUSE = 0.5


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": importlib.util.find_spec("uvloop") is not None}


class Calls:
    """Calls of the control plane by boto3, one after the other; none is repeated."""

    def __init__(self) -> None:
        self.times: list[float] = []

    @contextmanager
    def going_on(self, port: int) -> Iterator[None]:
        over = threading.Event()
        failed: list[str] = []

        def call() -> None:
            with closing(aws("sagemaker", port)) as client:
                while not over.wait(CALL_PAUSE):
                    began = time.monotonic()
                    try:
                        client.list_endpoints()
                    except Exception as error:  # counted, with its reason
                        failed.append(repr(error))
                    self.times.append(time.monotonic() - began)

        thread = threading.Thread(target=call)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert failed == []


class SdkEcho:
    """A stream of AWS's SDK."""

    def __init__(self, stream: SdkStream) -> None:
        self._stream = stream

    async def echo(self, text: bytes) -> bytes:
        await self._stream.send(text, data_type="BINARY", completion="COMPLETE")
        part = await self._stream.receive(PATIENCE)
        assert isinstance(part, Part), part
        return part.payload

    async def finish(self) -> None:
        await self._stream.end_input()
        assert await self._stream.rest() == []
        await self._stream.close()


class Scene:
    def __init__(self, gateway: Gateway, tls_url: str, path: Path, url: str) -> None:
        self.gateway = gateway
        self.load = PacedLoad(gateway.port)
        self.calls = Calls()
        self._tls_url = tls_url
        self._path = path
        self._url = url

    def change(self, number: int) -> None:
        replace(self._path, settings(self._url, number))
        self.gateway.process.send_signal(signal.SIGHUP)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[None]:
        """Open all streams; at the end each is ended in order."""
        async with AsyncExitStack() as stack:
            await self.load.open_streams(STREAMS)
            if python := os.environ.get("SDK_PYTHON"):
                sdk = await stack.enter_async_context(self._sdk(python))
                client = await sdk.client(self._tls_url, KEY)
                for _ in range(SDK_STREAMS):
                    await self.load.add(SdkEcho(await client.open("echo")))
            yield
            opened = await self.load.finish_streams()
            assert opened == STREAMS + (SDK_STREAMS if python else 0)

    def _sdk(self, python: str) -> contextlib.AbstractAsyncContextManager[Sdk]:
        folder = self._path.parent
        return Sdk.start(python, folder / "partway" / "tls" / "ca.pem", folder / "sdk.log")


@pytest.fixture
async def scene(start, container, tmp_path) -> AsyncIterator[Scene]:
    path = tmp_path / "partway.toml"
    path.write_text(settings(container, 3))
    gateway = start("--config", str(path), "--tls-port", "0", XDG_DATA_HOME=str(tmp_path))
    tls_url = gateway.listening().replace("127.0.0.1", "localhost")
    with (tmp_path / "gateway.log").open("wb") as log:
        copy = threading.Thread(
            target=lambda: [log.write(line) for line in gateway.process.stderr], daemon=True
        )
        copy.start()
        scene = Scene(gateway, tls_url, path, container)
        async with scene.load:
            with scene.calls.going_on(gateway.port):
                yield scene
        gateway.process.terminate()
        await asyncio.to_thread(copy.join)
        assert gateway.process.wait() == 0


def processes(scene: Scene) -> set[int]:
    """The gateway process and the workers; to ask often costs the load its pace."""
    return {each.pid for each in scene.gateway.forked()}


async def until_seldom(condition: Callable[[], bool]) -> float:
    """Wait for a condition that nothing tells of; return the seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < LONGEST, "it has not come about"
        await asyncio.sleep(LOOK_PAUSE)
    return time.monotonic() - began


async def test_upgrades_cut_no_stream_and_fail_no_request(scene):
    load = scene.load
    for number in range(UPGRADES):
        async with scene.streams():
            load.figures()
            await asyncio.sleep(MEASURED)
            print(f"\nbefore upgrade {number}: {load.figures()}")
            old = processes(scene)
            scene.gateway.process.send_signal(signal.SIGUSR2)
            taken = await until_seldom(lambda old=old: len(processes(scene) - old) == len(old))
            print(f"during, {taken:.1f} s: {load.figures()}")
            await asyncio.sleep(MEASURED)
            print(f"after: {load.figures()}")
            load.check()
        taken = await until_seldom(lambda old=old: not processes(scene) & old)
        print(f"the old workers had ended {taken:.1f} s after their streams")
        load.check()
    print(f"HTTP/2 requests given back by GOAWAY: {load.given_back}")
    print(f"HTTP/2 connections for requests: {load.connections_made}")
    print(f"{len(scene.calls.times)} calls, longest {max(scene.calls.times):.1f} s")


async def test_reloads_cut_no_stream_and_fail_no_request(scene):
    load = scene.load
    async with scene.streams():
        load.figures()
        await asyncio.sleep(MEASURED)
        print(f"\nbefore: {load.figures()}")
        for number in range(RELOADS):
            scene.change(number)
            await asyncio.sleep(RELOAD_PAUSE)
        print(f"during {RELOADS} reloads: {load.figures()}")
        load.check()
    load.check()
    print(f"{len(scene.calls.times)} calls, longest {max(scene.calls.times):.1f} s")
