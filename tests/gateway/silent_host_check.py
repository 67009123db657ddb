"""A host that falls silent under a hundred streams: a link between network namespaces is cut.

Run by ``make silent-host``; needs Linux, root and ``ip``. The gateway, the far container and the
link are real. The test's clock is the gateway's own log.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest

from partway import ClientStream, PartwayError, StreamRefused, connect
from tests.wire.peers import soon

STREAMS = 100
NEAR_STREAMS = 10
#: Seconds from the first dial that timed out to the end of the last stream, as the docs promise.
PROMISED = 6.0
#: Seconds that a busy machine may add.
SLACK = 4.0

#: Namespaces of test runs side by side have links of their own.
NUMBER = os.getpid() % 250
NETWORK = f"10.213.{NUMBER}.0/30"
GATEWAY_HOST, FAR_HOST = f"10.213.{NUMBER}.1", f"10.213.{NUMBER}.2"
LINK, FAR_LINK, FAR = f"pwg{os.getpid()}", f"pwf{os.getpid()}", f"partway{os.getpid()}"


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def far(*words: str) -> list[str]:
    """A command that runs on the far host."""
    return ["ip", "netns", "exec", FAR, *words]


@pytest.fixture
def link() -> Iterator[None]:
    """A far host, and the link to it."""
    ip("netns", "add", FAR)
    # Without the link its network is unreachable. A default route could lead to a proxy that
    # accepts connections to any address.
    ip("route", "add", "unreachable", NETWORK, "metric", "4096")
    try:
        ip("link", "add", LINK, "type", "veth", "peer", "name", FAR_LINK, "netns", FAR)
        ip("address", "add", f"{GATEWAY_HOST}/30", "dev", LINK)
        ip("link", "set", LINK, "up")
        for words in (
            ("address", "add", f"{FAR_HOST}/30", "dev", FAR_LINK),
            ("link", "set", FAR_LINK, "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", FAR, *words)
        yield
    finally:
        ip("netns", "delete", FAR)
        ip("route", "delete", "unreachable", NETWORK, "metric", "4096")
        with suppress(AssertionError):  # it has gone with its other end
            ip("link", "delete", LINK)


def cut_behind_the_gateway() -> None:
    """Packets leave the gateway's host and are lost; dials time out."""
    ip("-n", FAR, "address", "delete", f"{FAR_HOST}/30", "dev", FAR_LINK)
    ip("-n", FAR, "link", "set", FAR_LINK, "arp", "off")


def cut_at_the_gateway() -> None:
    """No packet leaves, and dials fail at once."""
    ip("link", "set", LINK, "down")


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
    request: pytest.FixtureRequest, link: None, tmp_path: Path, anyio_backend: object
) -> AsyncIterator[tuple[str, Path]]:
    """The gateway of a container on the far host, and of a near one; its URL and its log."""
    async with AsyncExitStack() as started:
        urls = {
            "far": await started.enter_async_context(
                running(*far(*container(FAR_HOST)), log=tmp_path / "far.log")
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
@pytest.mark.parametrize("cut", [cut_behind_the_gateway, cut_at_the_gateway])
async def test_streams_end_soon_after_the_first_dial_that_times_out(gateway, cut):
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
            cut()
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
