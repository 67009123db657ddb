"""workbench.dev.container: one process group, from start to end. Shells stand for models."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.workbench.dev import container as module
from partway.gateway.workbench.dev.container import MAX_LINE, Container, _Output
from tests.gateway.fleet.waiting import soon, until_gone
from tests.gateway.workbench.dev.conftest import READY, shell

Start = Callable[..., Awaitable[Container]]


@pytest.fixture
async def start(anyio_backend: object, no_leaks: None, leash: Leash) -> AsyncIterator[Start]:
    """Runs shell scripts as containers."""
    started = []

    async def start(
        script: str, on_ready: Callable[[], None] = lambda: None, **options: float
    ) -> Container:
        container = Container(shell(script), READY, on_ready, leash, **options)
        await container.start()
        started.append(container)
        return container

    yield start
    for container in started:
        container.kill()
        await soon(container.over.wait())


async def ready(start: Start, script: str) -> Container:
    event = asyncio.Event()
    container = await start(script, event.set)
    await soon(event.wait())
    assert container.ready
    return container


# --- Starting and printing -----------------------------------------------------------------------


async def test_the_ready_line_is_ours_and_the_rest_goes_on(start, capfdbinary):
    container = await ready(start, "echo loading; ready; echo a model; echo to the log >&2; exit 3")
    await soon(container.over.wait())
    assert container.ended.status == 3
    assert capfdbinary.readouterr() == (b"loading\na model\n", b"to the log\n")


async def test_one_that_never_gets_ready(start, capfdbinary):
    container = await start("printf 'no line end'; exit 1")
    await soon(container.over.wait())
    assert (container.ready, container.ended.status) == (False, 1)
    assert capfdbinary.readouterr().out == b"no line end"


async def test_one_that_takes_too_long_to_get_ready(start, caplog):
    container = await start("sleep 1000", start_timeout=0.05)
    await soon(container.over.wait())
    assert container.ended.status == -signal.SIGKILL
    assert "not ready after 0.05 s" in caplog.text


async def test_it_has_no_input(start, capfdbinary):
    container = await start("read line || echo none")
    await soon(container.over.wait())
    assert capfdbinary.readouterr().out == b"none\n"


@pytest.mark.parametrize("size", [1, 2, 7, 33, 34, 35, 1000])
def test_output_cut_anywhere(capfdbinary, size):
    said = []
    output = _Output(READY, lambda: said.append(True))
    text = f"first\n{READY}x\n{READY}\nrest\n{READY}\nlast".encode()
    for at in range(0, len(text), size):
        output.feed(text[at : at + size])
    output.flush()
    assert said == [True]
    assert capfdbinary.readouterr().out == f"first\n{READY}x\nrest\n{READY}\nlast".encode()


def test_a_line_without_end_is_not_held(capfdbinary):
    output = _Output(READY, lambda: pytest.fail("it is not ready"))
    output.feed(b"x" * MAX_LINE)
    assert capfdbinary.readouterr().out == b""
    output.feed(b"x")
    assert capfdbinary.readouterr().out == b"x" * (MAX_LINE + 1)


# --- Ending --------------------------------------------------------------------------------------

WAIT = "while :; do sleep 0.02; done"


@pytest.mark.clause("1.1-1")
async def test_sigterm_ends_it(start):
    container = await ready(start, f"trap 'exit 5' TERM; ready; {WAIT}")
    await soon(container.end())
    assert container.ended.status == 5
    await soon(container.end())  # again: nothing is left to do


async def test_a_second_sigterm_hastens_it(start):
    container = await ready(
        start, f"trap 'asked=1$asked; [ $asked = 1 ] || exit 6' TERM; ready; {WAIT}"
    )
    began = time.monotonic()
    await soon(container.end())
    assert container.ended.status == 6
    assert time.monotonic() - began >= module.HASTEN_AFTER


@pytest.mark.clause("1.1-1")
async def test_sigkill_comes_last(start, caplog):
    container = await ready(start, f"trap '' TERM; ready; {WAIT}")
    began = time.monotonic()
    await soon(container.end(timeout=0.5))
    assert container.ended.status == -signal.SIGKILL
    assert time.monotonic() - began >= 0.5
    assert "did not end within 0.5 s of SIGTERM" in caplog.text


async def test_killed_while_it_is_being_ended(start):
    container = await ready(start, f"trap '' TERM; ready; {WAIT}")
    ending = asyncio.create_task(container.end())
    container.kill()
    await soon(ending)
    assert container.ended.status == -signal.SIGKILL


async def test_what_it_has_started_ends_with_it(start, capfdbinary):
    container = await ready(start, "sleep 1000 & echo $!; ready")
    await soon(container.over.wait())
    assert container.ended.status == 0
    await until_gone(int(capfdbinary.readouterr().out))
