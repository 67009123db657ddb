"""A host that falls silent under a hundred streams: a link between network namespaces is cut.

Run by ``make silent-host``; needs Linux, root and ``ip``. The gateway, the far container and the
link are real. The test's clock is the gateway's own log.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest

from partway import ClientStream, PartwayError, StreamRefused, connect
from tests.gateway.far_host import FarHost
from tests.wire.peers import soon

STREAMS = 100
NEAR_STREAMS = 10
#: Seconds from the first dial that timed out to the end of the last stream, as the docs promise.
PROMISED = 6.0
#: Seconds that a busy machine may add.
SLACK = 4.0


@pytest.fixture
def host() -> Iterator[FarHost]:
    with FarHost() as host:
        yield host


@asynccontextmanager
async def running(*words: str, log: Path) -> AsyncIterator[str]:
    """A command that says where it listens; gives that."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        line = (await soon(process.stdout.readline(), f"{words}; its log: {log}")).decode()
        assert line.startswith("listening on "), log
        yield line.split()[2]
    finally:
        process.kill()
        await process.wait()


def container(host: str) -> list[str]:
    words = ["-m", "partway.container", "serve", "--model", "echo", "--host", host, "--port", "0"]
    return [sys.executable, *words]


@pytest.fixture(params=[1, 2], ids=["one-process", "two-workers"])
async def gateway(
    request: pytest.FixtureRequest, host: FarHost, tmp_path: Path, anyio_backend: object
) -> AsyncIterator[tuple[str, Path]]:
    """The gateway of a container on the far host, and of a near one; its URL and its log."""
    async with AsyncExitStack() as started:
        urls = {
            "far": await started.enter_async_context(
                running(*host.command(*container(host.address)), log=tmp_path / "far.log")
            ),
            "near": await started.enter_async_context(
                running(*container("127.0.0.1"), log=tmp_path / "near.log")
            ),
        }
        settings = tmp_path / "partway.toml"
        tables = [
            f'[endpoints.{name}]\nurl = "{url}"\nhealth_ping_interval = 1000\n'
            for name, url in urls.items()
        ]
        settings.write_text("\n".join(tables), "utf-8")
        log = tmp_path / "gateway.log"
        words = ["-m", "partway.gateway.cli.main", "serve", "--config", str(settings)]
        words += ["--port", "0", "--log-format", "text", "--workers", str(request.param)]
        url = await started.enter_async_context(running(sys.executable, *words, log=log))
        yield url, log


async def echo(stream: ClientStream, said: bytes) -> None:
    """Say something, and hear it."""
    await stream.send_bytes(said)
    assert (await soon(anext(stream), "an echo")).payload == said


async def talk(stream: ClientStream) -> None:
    """Say something all the time, so that bytes are in flight when the link is cut."""
    with suppress(PartwayError):
        for number in itertools.count():
            await stream.send_bytes(b"%d" % number)
            await asyncio.sleep(0.05)


async def end_of(stream: ClientStream) -> str:
    """Hear a stream to its end; what that says."""
    try:
        async for _ in stream:
            pass
    except PartwayError as error:
        return str(error)
    return "a clean end"


def times(log: Path, pattern: str) -> list[float]:
    """When lines that contain a pattern were written, in epoch seconds."""
    lines = [line for line in log.read_text("utf-8").splitlines() if re.search(pattern, line)]
    return [datetime.fromisoformat(line.split()[0]).timestamp() for line in lines]


@pytest.mark.clause("1.5-3")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("cut", [FarHost.cut_behind_the_gateway, FarHost.cut_at_the_gateway])
async def test_streams_end_soon_after_the_first_dial_that_times_out(gateway, host, cut):
    url, log = gateway
    async with AsyncExitStack() as opened:

        async def streams(endpoint: str, count: int) -> list[ClientStream]:
            return [await opened.enter_async_context(connect(url, endpoint)) for _ in range(count)]

        idle, talking = await streams("far", STREAMS // 2), await streams("far", STREAMS // 2)
        near = await streams("near", NEAR_STREAMS)
        for stream in (*idle, *talking, *near):
            await echo(stream, b"before")
        async with asyncio.TaskGroup() as tasks:
            for stream in talking:
                tasks.create_task(talk(stream))
            cut(host)
            with pytest.raises(StreamRefused):  # of the dials that time out this is the first
                await streams("far", 1)
            ends = [tasks.create_task(end_of(each)) for each in (*idle, *talking)]
            said = {await asyncio.wait_for(each, 60) for each in ends}
        assert said == {"1006: Abnormal Closure: the container's connection ended without a Close"}
        for stream in near:
            await echo(stream, b"after")
    lost = times(log, "stream ended endpoint=far .*cause=container_lost")
    assert len(lost) == STREAMS
    (dialled,) = times(log, "refused .*endpoint=far")
    assert max(lost) - dialled < PROMISED + SLACK
