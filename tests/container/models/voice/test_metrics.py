"""partway.container.models.voice.metrics: engines on the page that Prometheus reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from partway.container.workers import Threads

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Reader:
    """Reads letters for :class:`Counting`."""

    def __init__(self) -> None:
        self.metrics = CollectorRegistry()
        self.letters = Counter("reader_letters", "Letters read", registry=self.metrics)

    def read(self, text: str) -> None:
        self.letters.inc(len(text))


class Counting:
    """Answers by a part of its own, which has threads and metrics."""

    def load(self, place: object) -> None:
        self.pools = (EnginePool(Reader(), "answering", Threads()),)

    async def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        (pool,) = self.pools
        await pool.run(pool.engine.read, messages[-1]["content"])
        yield {"content": "Yes."}


async def figures(served: Served) -> dict[str, float]:
    """The samples of engines, by their names and the values of their labels."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/metrics") as response,
    ):
        assert response.status == 200
        families = list(text_string_to_metric_families(await response.text()))
    assert len({family.name for family in families}) == len(families)
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.startswith("partway_container_")
    }


async def speak(served: Served) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/speak", data=b'{"text": "hi"}') as response,
    ):
        await response.read()
        return response.status


async def test_jobs_of_each_engine_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may = threading.Event(), threading.Event()
    made = StubSpeech.speak

    def slow(self: StubSpeech, text: str, options: Any) -> Any:
        begun.set()
        assert may.wait(30)
        return made(self, text, options)

    monkeypatch.setattr(StubSpeech, "speak", slow)
    settings = VoiceSettings(speaks="stub", turns="stub", queue=0)
    async with serving(Voice(settings)) as served:
        assert set((await figures(served)).values()) == {0.0}
        first = asyncio.create_task(speak(served))
        assert await asyncio.to_thread(begun.wait, 30)
        assert await speak(served) == 503
        found = await figures(served)
        may.set()
        assert await first == 200
    jobs = "partway_voice_jobs"
    assert found == {
        f"{jobs}_running speaking": 1,
        f"{jobs}_waiting speaking": 0,
        f"{jobs}_refused_total speaking": 1,
        **{f"{jobs}_{name} turn": 0 for name in ("running", "waiting", "refused_total")},
    }


async def test_an_engines_own_metrics_and_threads_are_on_the_page() -> None:
    settings = VoiceSettings(answers=f"{__name__}:Counting", turns="stub")
    model = Voice(settings)
    async with serving(model) as served:
        assert model.engines.answers is not None
        asked = [{"role": "user", "content": "hello"}]
        assert [each async for each in model.engines.answers.answer(asked, {})]
        found = await figures(served)
    assert found["reader_letters_total"] == 5
    assert found["partway_voice_jobs_running answering"] == 0
