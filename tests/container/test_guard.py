"""The guard of the loop: whom it stops, and whom it leaves alone."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from partway.container import guard
from partway.container.errors import HandlerBlocked
from partway.container.guard import LoopGuard, watch

LIMIT = 0.2

T = TypeVar("T")


@pytest.fixture
async def running_guard(anyio_backend: object) -> AsyncIterator[LoopGuard]:
    guard = LoopGuard(limit=LIMIT, warning=0.1)
    guard.start()
    yield guard
    guard.stop()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def for_ever() -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pass


def handling(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task in which a handler runs."""
    context = contextvars.copy_context()
    context.run(watch)
    return asyncio.get_running_loop().create_task(coroutine, context=context)


async def spin() -> None:
    for_ever()


async def with_a_task_of_its_own() -> None:
    await asyncio.gather(spin())


async def sleep() -> None:
    time.sleep(10)  # noqa: ASYNC251 (the fault that is looked for)


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("handler", [spin, sleep, with_a_task_of_its_own])
@pytest.mark.usefixtures("running_guard")
async def test_a_handler_that_keeps_the_loop_is_stopped(handler: object) -> None:
    began = time.monotonic()
    task = handling(handler())  # type: ignore[operator]
    await asyncio.wait((task,))
    assert isinstance(task.exception(), HandlerBlocked)
    assert str(task.exception()) == (
        "the model blocked the event loop for 0.2 s: run computations on a worker"
    )
    assert time.monotonic() - began < 9


STOPPED = """
import asyncio, threading, time
from partway.container.guard import LoopGuard, watch

async def handler():
    print("hangs", flush=True)
    time.sleep(30)

async def main():
    for _ in range(30):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    LoopGuard(limit=0.4).start()
    watch()
    await handler()

asyncio.run(main())
"""


def test_a_process_that_was_stopped_goes_on_watching() -> None:
    """An alarm that came due meanwhile goes to any of its threads, and wakes no other."""
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hangs\n"
        for _ in range(20):  # an alarm comes due in some of these stops
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        try:
            _, errors = process.communicate(timeout=40)
        finally:
            process.kill()
    assert b"HandlerBlocked" in errors


@pytest.mark.usefixtures("running_guard")
async def test_one_that_catches_it_and_goes_on_is_stopped_again() -> None:
    caught = 0

    async def stubborn() -> None:
        nonlocal caught
        while caught < 2:
            try:
                for_ever()
            except HandlerBlocked:
                caught += 1
        for_ever()

    task = handling(stubborn())
    await asyncio.wait((task,))
    assert caught == 2
    assert isinstance(task.exception(), HandlerBlocked)


@pytest.mark.usefixtures("running_guard")
async def test_handlers_that_take_turns_are_left_alone() -> None:
    async def polite() -> int:
        deadline = time.monotonic() + 2 * LIMIT
        turns = 0
        while time.monotonic() < deadline:
            await asyncio.sleep(0)
            turns += 1
        return turns

    tasks = [handling(polite()) for _ in range(2)]
    assert all(await asyncio.gather(*tasks))


@pytest.mark.usefixtures("running_guard")
async def test_a_crowd_of_short_handlers_is_left_alone() -> None:
    """All in one turn of the loop: whoever is the last of them keeps it no longer than others."""

    async def short() -> str:
        time.sleep(0.01)  # noqa: ASYNC251 (a little work)
        return "done"

    crowd = [handling(short()) for _ in range(60)]
    assert await asyncio.gather(*crowd) == ["done"] * 60


@pytest.mark.usefixtures("running_guard")
async def test_an_import_is_not_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.6)\nready = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    async def lazy() -> bool:
        import slow_to_import  # type: ignore[import-not-found]

        return bool(slow_to_import.ready)

    try:
        assert await handling(lazy())
    finally:
        sys.modules.pop("slow_to_import", None)


async def test_code_that_may_not_be_interrupted_is_not(
    running_guard: LoopGuard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The runtime's own, within a handler's task: what it does would be left half done."""
    own = {"__name__": "partway.container.outgoing", "time": time}
    exec("def busy():\n end = time.monotonic() + 0.5\n while time.monotonic() < end: pass", own)

    async def handler() -> str:
        own["busy"]()  # type: ignore[operator]
        return "done"

    assert await handling(handler()) == "done"


@pytest.mark.parametrize(
    ("module", "may"),
    [
        ("chat", True),
        ("numpy.linalg", True),
        ("partway.container.models.echo", True),
        ("containers", True),
        ("partway.container.websocket_stream", False),
        ("partway.protocol.connections.websocket", False),
        ("asyncio.locks", False),
        ("logging", False),
        ("threading", False),
        ("namedtuple_Frame", False),
        ("_weakrefset", False),
        ("codecs", False),
    ],
)
def test_whose_code_it_is(module: str, may: bool) -> None:
    names = {"__name__": module, "sys": sys}
    exec("def frame(): return sys._getframe()", names)
    assert guard._interruptible(names["frame"]()) is may  # type: ignore[operator]


@pytest.mark.usefixtures("running_guard")
async def test_other_tasks_are_left_alone_and_the_log_speaks_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def other() -> str:
        time.sleep(2 * LIMIT)  # noqa: ASYNC251 (the fault that is looked for)
        return "done"

    with caplog.at_level(logging.WARNING, "partway.container.guard"):
        assert await asyncio.create_task(other()) == "done"
        await asyncio.sleep(LIMIT)  # the guard's next beat
    (record,) = caplog.records
    assert "run computations on a worker" in record.getMessage()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_alarm_while_the_loop_does_not_run_stops_nobody(new_loop) -> None:
    async def started() -> LoopGuard:
        guard = LoopGuard(limit=LIMIT, warning=0.1)
        guard.start()
        return guard

    with asyncio.Runner(loop_factory=new_loop) as runner:
        guard = runner.run(started())
        signal.raise_signal(signal.SIGALRM)
        guard.stop()
