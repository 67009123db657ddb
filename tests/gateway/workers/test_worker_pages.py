"""partway.gateway.workers.worker_pages: one collection for all scrapes, and counters that last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from partway.gateway.timing.clock import LoopClock
from partway.gateway.workers import worker_pages as module
from partway.gateway.workers.messages import GiveMetrics
from partway.gateway.workers.worker_pages import WorkerPages


def registry_of(number: int, endpoint: str = "e") -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("ends", "Ends", ["endpoint"], registry=registry).labels(endpoint).inc(number)
    Gauge("open", "Open", registry=registry).set(number)
    Gauge("process_fds", "Descriptors", registry=registry).set(number)
    return registry


def page_of(number: int, endpoint: str = "e") -> str:
    return generate_latest(registry_of(number, endpoint)).decode()


class Scene:
    """Pages of a parent that has counted 1, and its workers by their numbers.

    Attributes:
        answers: the page of each worker; None for one that does not answer.
    """

    def __init__(self) -> None:
        self.answers: dict[int, str | None] = {}
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.pages = WorkerPages(registry_of(1), self._ask, LoopClock())
        self._call_soon: Callable[..., object] = asyncio.get_running_loop().call_soon

    def _ask(self, message: GiveMetrics) -> set[int]:
        self.asked += 1
        self.was_asked.set()
        for worker, page in self.answers.items():
            if page is not None:
                self._call_soon(self.pages.came, worker, message.number, page)
        return {*self.answers}

    async def value(self, series: str = 'ends_total{endpoint="e"}') -> float | None:
        """Scrape, and return the value of a series; None without one."""
        page = (await self.pages.page()).decode()
        values = [line.split()[-1] for line in page.splitlines() if line.startswith(f"{series} ")]
        return float(values[0]) if values else None


@pytest.fixture
async def scene(anyio_backend, monkeypatch):
    monkeypatch.setattr(module, "METRICS_AGE", 0)
    monkeypatch.setattr(module, "METRICS_TIMEOUT", 0.01)
    scene = Scene()
    yield scene
    await scene.pages.aclose()


async def test_scrapes_at_the_same_time_share_a_collection(scene):
    scene.answers = {1: page_of(10), 2: page_of(100)}
    assert await asyncio.gather(*(scene.value() for _ in range(20))) == [111] * 20
    assert scene.asked == 1


async def test_a_scrape_that_is_given_up_takes_no_other_along(scene):
    scene.answers = {1: page_of(10)}
    first, second = (asyncio.create_task(scene.value()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 11
    assert first.cancelled()


async def test_a_page_is_kept_for_a_time(scene, monkeypatch):
    monkeypatch.setattr(module, "METRICS_AGE", 1000)
    scene.answers = {1: page_of(10)}
    assert await scene.value() == 11
    scene.answers = {1: page_of(20)}
    assert await scene.value() == 11


@pytest.mark.parametrize("late", [None, ""])
async def test_a_worker_that_does_not_answer_counts_as_before(scene, late):
    """So does one whose page is too long."""
    scene.answers = {1: page_of(10), 2: page_of(100)}
    assert await scene.value() == 111
    scene.answers = {1: late, 2: page_of(200)}
    assert await scene.value() == 211


async def test_the_counters_of_an_ended_worker_last(scene):
    scene.answers = {1: page_of(10), 2: page_of(100)}
    await scene.value()
    scene.pages.ended(1)
    del scene.answers[1]
    assert await scene.value() == 111
    assert await scene.value("open") == 101
    assert await scene.value('process_fds{worker="1"}') is None
    scene.answers[1] = page_of(3)  # the next one in its place
    assert await scene.value() == 114
    scene.pages.ended(1)
    scene.pages.ended(1)
    scene.answers[1] = page_of(4)
    assert await scene.value() == 118


async def test_an_end_ends_the_wait(scene, monkeypatch):
    monkeypatch.setattr(module, "METRICS_TIMEOUT", 1000)
    scene.answers = {1: None}
    scrape = asyncio.create_task(scene.value())
    await scene.was_asked.wait()
    scene.pages.ended(1)
    assert await scrape == 1


async def test_an_endpoint_that_is_gone_takes_its_counters_along(scene):
    scene.answers = {1: page_of(10, "gone"), 2: page_of(100)}
    assert await scene.value('ends_total{endpoint="gone"}') == 10
    scene.pages.ended(1)
    scene.pages.keep_only({"e"})
    del scene.answers[1]
    assert await scene.value('ends_total{endpoint="gone"}') is None
    assert await scene.value() == 101
