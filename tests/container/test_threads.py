"""Calls on threads: what comes back, and what must not."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from partway.container.threads import in_thread, ordinary, post
from tests.container.wire import until


async def test_a_result_comes_back() -> None:
    def call(number: int) -> tuple[int, str, bool]:
        thread = threading.current_thread()
        return number, thread.name, thread.daemon

    assert await in_thread(call, 5, name="a-name") == (5, "a-name", True)


async def test_an_exception_comes_back_as_itself() -> None:
    def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there") as caught:
        await in_thread(fail, name="x")
    assert caught.traceback[-1].name == "fail"


@pytest.mark.parametrize(
    "raised",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(1),
        StopAsyncIteration(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_would_mean_something_else_in_a_task(raised: BaseException) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(RuntimeError, match=type(raised).__name__) as caught:
        await in_thread(fail, name="x")
    assert caught.value.__cause__ is raised


def test_what_is_ordinary_stays_what_it_is() -> None:
    for error in (ValueError(), MemoryError(), TimeoutError(), RecursionError()):
        assert ordinary(error) is error


@pytest.mark.parametrize("fails", [False, True])
async def test_nobody_waits_for_it_any_more(fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()
    returned = threading.Event()

    def call() -> None:
        go_on.wait(5)
        returned.set()
        if fails:
            raise ValueError

    future = in_thread(call, name="x")
    future.cancel()
    go_on.set()
    await until(returned.is_set)
    await in_thread(lambda: None, name="x")  # what the first one posts has come before
    assert future.cancelled()
    assert not caplog.get_records("call")


def test_a_closed_loop_is_told_nothing() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    post(loop, logging.error, "never called")
