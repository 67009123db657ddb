"""partway.gateway.fleet.processes.strays: many containers in one look."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection

import pytest

from partway.gateway.fleet.processes.strays import Strays
from tests.gateway.fleet.processes import eventually, soon


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The marks of each look."""
    looks: list[set[str]] = []
    monkeypatch.setattr(
        "partway.gateway.fleet.processes.strays.kill_marked", lambda marks: looks.append(set(marks))
    )
    return looks


async def test_those_that_come_meanwhile_share_the_next_look(anyio_backend, no_leaks, monkeypatch):
    looks: list[set[str]] = []
    goes_on = threading.Event()

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert goes_on.wait(30)

    monkeypatch.setattr("partway.gateway.fleet.processes.strays.kill_marked", look)
    strays = Strays()
    first = asyncio.create_task(strays.kill("a"))
    await eventually(lambda: looks)
    others = [asyncio.create_task(strays.kill(mark)) for mark in "bcd"]
    await asyncio.sleep(0)
    goes_on.set()
    await soon(asyncio.gather(first, *others))
    assert looks == [{"a"}, {"b", "c", "d"}]


async def test_it_goes_on_for_whoever_waits_no_longer(anyio_backend, no_leaks, monkeypatch):
    """A waiter has a second; a look that is under way may take longer than that."""
    looks: list[set[str]] = []
    goes_on = threading.Event()

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert goes_on.wait(30)

    monkeypatch.setattr("partway.gateway.fleet.processes.strays.kill_marked", look)
    strays = Strays()
    waiting = [asyncio.create_task(strays.kill(mark)) for mark in "ab"]
    await eventually(lambda: looks)
    late = asyncio.create_task(strays.kill("c"))
    await asyncio.sleep(0)
    for task in (*waiting, late):
        task.cancel()
    await asyncio.wait((*waiting, late))
    goes_on.set()
    await eventually(lambda: strays._looking is None)
    assert looks == [{"a", "b"}, {"c"}]


async def test_nobody_waits_for_the_looks_of_others(anyio_backend, no_leaks, monkeypatch):
    looks: list[set[str]] = []
    turns = threading.Semaphore(0)

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert turns.acquire(timeout=30)

    monkeypatch.setattr("partway.gateway.fleet.processes.strays.kill_marked", look)
    strays = Strays()
    first = asyncio.create_task(strays.kill("a"))
    await eventually(lambda: looks)
    second = asyncio.create_task(strays.kill("b"))
    await asyncio.sleep(0)
    turns.release()
    await soon(first)
    assert not second.done()
    turns.release()
    await soon(second)


async def test_whoever_waits_no_longer_is_looked_for_all_the_same(anyio_backend, no_leaks, looks):
    strays = Strays()
    waiting = asyncio.create_task(strays.kill("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    await soon(strays.kill("b"))
    assert set().union(*looks) == {"a", "b"}
