"""partway.gateway.service: a service that fails keeps nothing else of its gateway from the end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

import pytest

from partway.gateway.fleet.endpoint import Endpoint, Program, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.service import Service
from partway.gateway.settings.settings import Settings
from partway.gateway.settings_reload import Reloading
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.waiting import eventually
from tests.wire.peers import soon

ENDS = ("close_to_new", "drain", "stop", "aclose")

#: Writes its id into a file, and listens nowhere.
PROGRAM = """
import os, sys, time
with open(sys.argv[1], "w") as file:
    print(os.getpid(), file=file)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing of a gateway is left once it has drained."""


class Failing(Service):
    """Raises in one of its methods.

    Args:
        method: its name.
    """

    def __init__(self, method: str) -> None:
        async def fail(*_: object) -> None:
            raise RuntimeError(f"a fault in {method}")

        setattr(self, method, fail)


class Noting(Service):
    """Notes which methods of the end were called."""

    def __init__(self, _: Gateway) -> None:
        self.called: list[str] = []

    async def close_to_new(self) -> None:
        self.called.append("close_to_new")

    async def drain(self, grace: float) -> None:
        await asyncio.sleep(0)  # another one's failure cancels it here, if it cancels anything
        self.called.append("drain")

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self.called.append("stop")

    async def aclose(self) -> None:
        self.called.append("aclose")


def gateway_with(*methods: str, **settings: object) -> tuple[Gateway, list[Noting]]:
    """A gateway whose services fail in these methods, with a service before them and one behind."""
    gateway = Gateway(Settings(apis=frozenset(), shutdown_hard=0.1, **settings))
    before = gateway.service(Noting)
    for each in methods:
        gateway.service(lambda _, method=each: Failing(method))
    return gateway, [before, gateway.service(lambda each: Noting(each))]


@pytest.mark.parametrize("method", ENDS)
async def test_the_end_goes_on_past_a_service_that_fails(tmp_path, caplog, method):
    file = tmp_path / "pid"
    program = Program((sys.executable, "-c", PROGRAM, str(file)))
    slow = Endpoint("slow", StreamPolicy(), (Variant(source=program),))
    gateway, others = gateway_with(method, port=0, endpoints=(slow,))
    await gateway.start()

    async def pid() -> int:
        while not (file.exists() and file.read_text().endswith("\n")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return int(file.read_text())

    process = await soon(pid(), "the program runs")
    try:
        await gateway.drain()
        assert [each.called for each in others] == [list(ENDS)] * 2
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert f"a fault in {method}" in caplog.text
    assert "a service has failed service=Failing" in caplog.messages
    assert gateway.end_has_failed


class FailingAtOnce(Service):
    """Raises in one of its methods that is no coroutine."""

    def __init__(self, method: str) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError(f"a fault in {method}")

        setattr(self, method, fail)


@pytest.mark.parametrize("method", ["on_listening", "keep_only", "take_settings", "hasten"])
async def test_a_service_that_fails_keeps_no_other_from_being_called(caplog, method):
    gateway = Gateway(Settings(apis=frozenset(), port=0, shutdown_hard=0.1))
    called: list[str] = []

    def noting(name: str) -> Service:
        service = Service()
        setattr(service, method, lambda *_: called.append(name))
        return service

    gateway.service(lambda _: noting("before"))
    gateway.service(lambda _: FailingAtOnce(method))
    gateway.service(lambda _: noting("behind"))
    await gateway.start()
    match method:
        case "keep_only":
            gateway.fleet.on_end(())
        case "take_settings":
            loop_clock, settings = LoopClock(), gateway.settings
            reloading = Reloading(
                *(settings, lambda: settings, gateway.fleet, loop_clock, None),
                services=gateway.services,
            )
            reloading.reload()
            await eventually(lambda: len(called) == 2)
            await reloading.stop()
        case "hasten":
            gateway.hasten()
    assert called == ["before", "behind"]
    assert caplog.messages.count("a service has failed service=FailingAtOnce") == 1
    await gateway.drain()
    assert not gateway.end_has_failed


async def test_a_start_that_fails_ends_all_that_has_begun(caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway, others = gateway_with("drain", "stop", "aclose", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await gateway.start()
    assert [each.called for each in others] == [["drain", "stop", "aclose"]] * 2
    for method in ("drain", "stop", "aclose"):
        assert f"a fault in {method}" in caplog.text


async def test_a_service_that_cannot_start_ends_all_that_has_begun():
    attached = Endpoint.attached("echo", Address("127.0.0.1", 1), StreamPolicy())
    gateway, others = gateway_with("start", port=0, endpoints=(attached,))
    with pytest.raises(RuntimeError, match="a fault in start"):
        await gateway.start()
    assert [each.called for each in others] == [["drain", "stop", "aclose"]] * 2
