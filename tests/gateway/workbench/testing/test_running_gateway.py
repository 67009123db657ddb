"""A gateway beside a test: what clients find there, and each fault as they see it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import botocore.session
import pytest
import websockets.asyncio.client
import websockets.sync.client

from partway.gateway.client import (
    ClientStream,
    ModelStreamFailed,
    PartwayError,
    PlatformStreamFailed,
    StreamRefused,
    connect,
    credentials_from_environment,
)
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.workbench.intermediary.faults import Fault
from partway.gateway.workbench.testing import running_gateway as running
from partway.gateway.workbench.testing.running_gateway import (
    CloseEarly,
    CloseWith,
    Cut,
    Delay,
    DropPongs,
    Empty,
    Fragmented,
    GatewayDidNotRun,
    Refuse,
    RunningGateway,
    Split,
    Stall,
    Throttle,
    log_shown,
)
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close
from tests.conftest import ROOT, open_sockets

#: Seconds for a whole conversation.
PATIENCE = 20.0

Open = Callable[..., AbstractAsyncContextManager[ClientStream]]


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    with RunningGateway() as gateway:
        yield gateway


@pytest.fixture(params=["http2", "websocket", "cleartext"])
def open_stream(gateway: RunningGateway, request: pytest.FixtureRequest) -> Open:
    """Opens a stream with our client, over each of its transports, and without TLS."""
    return opener(gateway, request.param)


def opener(gateway: RunningGateway, how: str) -> Open:
    @asynccontextmanager
    async def opened(**asked: str) -> AsyncIterator[ClientStream]:
        async with (
            asyncio.timeout(PATIENCE),
            connect(
                gateway.http_url if how == "cleartext" else gateway.url,
                gateway.endpoint_name,
                transport="websocket" if how == "websocket" else "http2",
                credentials=gateway.credentials,
                region=gateway.region,
                ca=None if how == "cleartext" else gateway.ca_file,
                **asked,
            ) as stream,
        ):
            yield stream

    return opened


async def rest(stream: ClientStream) -> list[bytes]:
    return [part.payload async for part in stream]


async def heard(open_stream: Open, *said: str) -> tuple[list[bytes], PartwayError | None]:
    """A whole conversation: what came back, and how it ended."""
    parts: list[bytes] = []
    async with open_stream() as stream:
        try:
            for text in said:
                await stream.send_text(text)
                part = await stream.receive()
                assert part is not None
                parts.append(part.payload)
            await stream.end_input()
            async for part in stream:
                parts.append(part.payload)
        except PartwayError as error:
            return parts, error
    return parts, None


# --- Clients -------------------------------------------------------------------------------------


async def test_a_stream_reaches_the_container_and_comes_back(
    gateway: RunningGateway, open_stream: Open
) -> None:
    gateway.container.on("hi", Fragmented("Ge", "ne", "rating"))
    async with open_stream(path="v1/listen", query="model=general") as stream:
        await stream.send_text("hi")
        await stream.send_text("Hel", partial=True)
        await stream.send_text("lo")
        await stream.end_input()
        assert [part async for part in stream] == [
            PayloadPart(b"Ge", DataType.UTF8, CompletionState.PARTIAL),
            PayloadPart(b"ne", DataType.UTF8, CompletionState.PARTIAL),
            PayloadPart(b"rating", DataType.UTF8, CompletionState.COMPLETE),
            PayloadPart(b"Hel", DataType.UTF8, CompletionState.PARTIAL),
            PayloadPart(b"lo", DataType.UTF8, CompletionState.COMPLETE),
        ]
    (seen,) = gateway.container.streams
    assert (seen.path, seen.query) == ("v1/listen", "model=general")
    assert seen.messages == ["hi", "Hello"]
    assert seen.close == Close(1000)


async def test_a_cancelled_stream_is_seen_as_one(
    gateway: RunningGateway, open_stream: Open
) -> None:
    async with open_stream() as stream:
        await stream.send_text("hi")
        await stream.receive()
        await stream.close(cancel=True)
    (seen,) = gateway.container.streams
    await asyncio.to_thread(gateway.container.wait_for, lambda: seen.ended)
    assert seen.close is not None
    assert seen.close.code == 1001


async def test_who_does_not_sign_is_refused(gateway: RunningGateway) -> None:
    with pytest.raises(StreamRefused) as refused:
        async with connect(gateway.http_url, gateway.endpoint_name):
            pass
    assert refused.value.error == "MissingAuthenticationTokenException"


def test_a_browser_finds_it_by_its_url_alone(gateway: RunningGateway) -> None:
    trust = ssl.create_default_context(cafile=gateway.ca_file)

    # Not by the synchronous client, whose two threads share one TLS connection: once in a thousand
    # handshakes on a busy machine it never reads the answer, whoever gives that.
    async def ask(*, tls: bool) -> None:
        async with (
            asyncio.timeout(PATIENCE),
            websockets.asyncio.client.connect(
                gateway.websocket_url("v1/chat", "user=42&lang=%C3%A4", tls=tls),
                ssl=trust if tls else None,
                origin="https://page.example",
                subprotocols=["payloadpart.v1.json"],
                proxy=None,
            ) as client,
        ):
            part = {"Bytes": base64.b64encode(b"hi").decode(), "DataType": "UTF8"}
            await client.send(json.dumps({"PayloadPart": part}))
            answer = json.loads(await client.recv())
            assert base64.b64decode(answer["PayloadPart"]["Bytes"]) == b"hi"

    for tls in (False, True):
        asyncio.run(ask(tls=tls))
    assert [stream.path for stream in gateway.container.streams] == ["v1/chat"] * 2
    assert gateway.container.streams[0].query == "user=42&lang=%C3%A4"


def test_without_a_token_a_url_opens_nothing(gateway: RunningGateway) -> None:
    with (
        pytest.raises(websockets.exceptions.InvalidStatus),
        websockets.sync.client.connect(gateway.websocket_url(token=False), proxy=None),
    ):
        pass


def test_botocore_finds_it_by_its_environment(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It signs, and trusts the CA."""
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in gateway.environment.items():
        monkeypatch.setenv(name, value)
    client = botocore.session.Session().create_client("sagemaker-runtime")
    assert client.meta.endpoint_url == gateway.url
    answer = client.invoke_endpoint(EndpointName=gateway.endpoint_name, Body=b"hi")
    assert answer["Body"].read() == b"hi"
    assert credentials_from_environment(os.environ) == gateway.credentials


# --- Faults --------------------------------------------------------------------------------------


async def test_a_refused_upgrade(gateway: RunningGateway, open_stream: Open) -> None:
    refusing = gateway.faults.add(Refuse(429, "slow down"))
    with pytest.raises(StreamRefused) as refused:
        async with open_stream():
            pass
    assert (refused.value.original_status, refused.value.original_message) == (429, "slow down")
    assert gateway.container.streams == []
    assert refusing.applied == 1


async def test_a_close_after_some_parts(gateway: RunningGateway, open_stream: Open) -> None:
    gateway.faults.add(CloseEarly(1012, "restarting", after=2))
    parts, error = await heard(open_stream, "one", "two", "three")
    assert parts == [b"one", b"two"]
    assert isinstance(error, ModelStreamFailed)
    assert (error.code, error.message) == ("1012", "restarting")


async def test_a_frame_that_is_cut_and_the_next_stream_is_sound(
    gateway: RunningGateway, open_stream: Open
) -> None:
    cutting = gateway.faults.add(Cut(after=1), streams=1)
    parts, error = await heard(open_stream, "one", "two")
    assert parts == [b"one"]
    assert isinstance(error, ModelStreamFailed)
    assert (error.code, error.reconnect) == ("1006", True)
    assert await heard(open_stream, "one", "two") == ([b"one", b"two"], None)
    assert (cutting.applied, len(gateway.container.streams)) == (1, 2)


async def test_pongs_that_are_dropped() -> None:
    with RunningGateway(ping_interval=0.05, pings_unanswered=2) as gateway:
        gateway.faults.add(DropPongs())
        async with opener(gateway, "http2")() as stream:
            with pytest.raises(PlatformStreamFailed, match="ping"):
                await stream.receive()


async def test_a_container_that_falls_silent(short_linger: float) -> None:
    with RunningGateway(answer_timeout=0.1) as gateway:
        gateway.faults.add(Stall(after=1))
        async with opener(gateway, "http2")() as stream:
            await stream.send_text("one")
            await stream.send_text("two")
            await stream.end_input()
            part = await stream.receive()
            assert part is not None
            assert part.payload == b"one"
            with pytest.raises(PlatformStreamFailed):
                await stream.receive()


@pytest.mark.parametrize("fault", [Delay(0.1), Throttle(bytes_per_second=1000)], ids=str)
async def test_parts_that_come_late_or_slowly(gateway: RunningGateway, fault: Fault) -> None:
    gateway.faults.add(fault)
    began = time.monotonic()
    assert await heard(opener(gateway, "http2"), "x" * 100) == ([b"x" * 100], None)
    assert time.monotonic() - began >= 0.09


async def test_parts_in_more_parts_than_were_sent(
    gateway: RunningGateway, open_stream: Open
) -> None:
    gateway.container.says_first("äbc")
    gateway.faults.add(Split(into=2), path="v1/split")
    gateway.faults.add(Empty(), path="v1/empty")
    async with open_stream(path="v1/split") as stream:
        await stream.end_input()
        split = await rest(stream)
        assert len(split) == 2
        assert b"".join(split).decode() == "äbc"
    async with open_stream(path="v1/empty") as stream:
        await stream.end_input()
        assert await rest(stream) == [b"", "äbc".encode(), b""]


async def test_faults_are_for_streams_that_open_afterwards(
    gateway: RunningGateway, open_stream: Open
) -> None:
    async with open_stream() as before:
        gateway.faults.add(CloseEarly(1013))
        await before.send_text("hi")
        assert await before.receive() is not None
    assert (await heard(open_stream, "hi"))[1] is not None
    gateway.faults.clear()
    assert await heard(open_stream, "hi") == ([b"hi"], None)


async def test_faults_that_are_added_leave_the_count_of_the_others(
    gateway: RunningGateway, open_stream: Open
) -> None:
    first = gateway.faults.add(CloseEarly(1012), streams=1)
    assert (await heard(open_stream, "hi"))[1] is not None
    second = gateway.faults.add(CloseEarly(1013), streams=1)
    error = (await heard(open_stream, "hi"))[1]
    assert isinstance(error, ModelStreamFailed)
    assert error.code == "1013"
    assert (first.applied, second.applied) == (1, 1)
    assert await heard(open_stream, "hi") == ([b"hi"], None)


def test_faults_that_do_not_go_together_are_refused_where_they_are_written(
    gateway: RunningGateway,
) -> None:
    with pytest.raises(ValueError, match="alone"):
        gateway.faults.add(Refuse(), Delay())
    with pytest.raises(ValueError, match="streams: 0 was given; it must be 1 or more"):
        gateway.faults.add(Delay(), streams=0)
    for no_fault in (Delay, {"cut": True}):
        with pytest.raises(TypeError, match="was given; it must be a fault, such as Cut"):
            gateway.faults.add(no_fault)


# --- Its life ------------------------------------------------------------------------------------


def test_settings_of_its_streams() -> None:
    with RunningGateway(normal_close="end") as gateway:
        gateway.container.replies_with(CloseWith(1000))

        async def talk() -> list[bytes]:
            async with opener(gateway, "http2")() as stream:
                await stream.send_text("hi")
                return await rest(stream)

        assert asyncio.run(talk()) == []


def test_a_setting_that_is_unknown_or_wrong_is_an_error_that_says_what_it_must_be() -> None:
    with pytest.raises(
        TypeError, match=r"ping_intervall: .* the nearest known one is ping_interval$"
    ):
        RunningGateway(ping_intervall=1)
    with pytest.raises(
        TypeError, match="ping_interval: 'fast' was given; it must be a finite number"
    ):
        RunningGateway(ping_interval="fast")


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SettingsError("no such thing")

    monkeypatch.setattr(running, "Gateway", fails)
    with pytest.raises(GatewayDidNotRun, match="did not start: no such thing"), RunningGateway():
        pass
    assert not _threads()


def test_nothing_is_left_of_it_even_if_a_stream_is_open() -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir())) if open_sockets() else 0
    with RunningGateway() as gateway:
        directory = gateway.ca_file.parent.parent
        client = ExitStack()
        stream = client.enter_context(
            websockets.sync.client.connect(gateway.websocket_url(), proxy=None)
        )
        stream.send("hi")
        assert stream.recv(5) == "hi"
        began = time.monotonic()
    assert time.monotonic() - began < 5
    with pytest.raises(websockets.exceptions.ConnectionClosed):
        stream.recv(5)
    client.close()
    assert not directory.exists()
    assert not _threads()
    assert gateway.container.streams[0].ended
    if descriptors:
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def test_two_of_them_know_nothing_of_each_other(gateway: RunningGateway) -> None:
    with RunningGateway() as other:
        assert other.url != gateway.url
        assert other.secret_access_key != gateway.secret_access_key
        with urlopen(f"{other.http_url}/healthz", timeout=5) as answer:
            assert answer.status == 200


def test_a_level_that_somebody_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("partway")
    monkeypatch.setattr(log, "level", logging.NOTSET)
    with log_shown():
        assert log.level == logging.INFO
    assert log.level == logging.NOTSET
    log.setLevel(logging.ERROR)
    with log_shown():
        assert log.level == logging.ERROR
    assert log.level == logging.ERROR


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "partway-gateway"]


# --- As a stranger's test has it -----------------------------------------------------------------

#: What the page's shorter examples leave out.
AROUND = """
import pytest
import websockets.sync.client
from partway.gateway.client import PlatformStreamFailed
from partway.gateway.workbench.testing.running_gateway import DropPongs

pytestmark = pytest.mark.partway(ping_interval=60.0)

async def listen(url, **how):
    async with connect(url, "model", **how) as stream:
        await stream.receive()

@pytest.mark.partway(5)
def test_whose_mark_has_no_names(partway_gateway):
    pass

def test_that_fails(partway_gateway):
    with pytest.raises(PlatformStreamFailed):
        asyncio.run(listen(partway_gateway.http_url))
"""

PAGE = ROOT / "docs" / "how-to" / "test-a-client-with-pytest.md"
PLUGINS = ("xdist", "partway.gateway.workbench.testing.plugin", "no:cacheprovider")
PYTEST = (sys.executable, "-m", "pytest", *(f"-p{plugin}" for plugin in PLUGINS))


def test_a_stranger_follows_the_page_with_processes_side_by_side(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    tests = [block for block in blocks if re.search(r"^def test_", block, re.MULTILINE)]
    (tmp_path / "test_client.py").write_text("\n\n".join([tests[0], AROUND, *tests[1:]]))
    done = subprocess.run(
        [*PYTEST, "-q", "-n", "2", "--strict-markers", "-W", "error"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert len(tests) == 4
    assert "1 failed, 4 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "@pytest.mark.partway: 5 was given; it must be settings by name" in done.stdout
    assert "error=MissingAuthenticationTokenException" in done.stdout  # the failed test's log
