"""partway.container.models.voice.speaking: audio of phrases from an engine's threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import numpy as np
import pytest

from partway.container.errors import Busy, ModelError
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.speaking import Speaking
from partway.container.workers import Threads

OPTIONS = SpeakingOptions()


@asynccontextmanager
async def speaking(engine: Any, **threads: int) -> AsyncIterator[Speaking]:
    pool: EnginePool[Any] = EnginePool(engine, "speaking", Threads(**threads))
    try:
        yield Speaking(pool)
    finally:
        pool.close()


async def spoken(voice: Speaking, text: str) -> Samples:
    return np.concatenate([piece async for piece in voice.speak_text(text, OPTIONS)])


class Slow(StubSpeech):
    """Speaks a sample a time, each when it may; notes what it does."""

    def __init__(self) -> None:
        self.may = threading.Semaphore(0)
        self.begun: list[str] = []
        self.closed = threading.Event()

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        self.begun.append(text)
        try:
            while True:
                assert self.may.acquire(timeout=30)
                yield np.ones(self.rate, np.int16)
        finally:
            self.closed.set()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (another thread's)
            await asyncio.sleep(0.001)


async def test_a_text_sounds_as_its_phrases():
    engine = StubSpeech()
    async with speaking(engine) as voice:
        assert voice.rate == engine.rate
        assert voice.voices == engine.voices
        text = "This is a first sentence. This is the second one, and here it ends."
        expected = np.concatenate(list(engine.speak(text, OPTIONS)))
        assert np.array_equal(await spoken(voice, text), expected)


async def test_a_phrase_is_spoken_in_one():
    engine = Slow()
    async with speaking(engine) as voice:
        engine.may.release()
        phrase = "This is a sentence. And here, in the same breath, is another one."
        async with aclosing(voice.speak(phrase, OPTIONS)) as audio:
            await anext(audio)
        engine.may.release()
        await until(engine.closed.is_set)
        assert engine.begun == [phrase]


async def test_pieces_grow():
    class Fine(StubSpeech):
        def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
            return iter([np.ones(240, np.int16)] * 2000)  # 20 s

    async with speaking(Fine()) as voice:
        lengths = [len(piece) async for piece in voice.speak("text", OPTIONS)]
    assert lengths[:6] == [480, 960, 1920, 3840, 7680, 15360]
    assert sum(lengths) == 480_000
    assert max(lengths) < 72_000  # 3 s


async def test_a_client_that_takes_nothing_holds_no_thread():
    class Long(StubSpeech):
        def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
            minutes = 25 if text == "long" else 0.01
            return iter([np.ones(100, np.int16)] * int(minutes * 60 * 10))

    engine = Long()
    engine.rate = 1_000
    async with (
        speaking(engine) as voice,
        aclosing(voice.speak("long", OPTIONS)) as untaken,
    ):
        await anext(untaken)
        async with asyncio.timeout(30):
            assert len(await spoken(voice, "short")) == 600
        assert 100 + sum([len(piece) async for piece in untaken]) == 1_500_000


async def test_a_client_that_leaves_ends_the_phrase_and_those_after_it():
    engine = Slow()
    async with speaking(engine) as voice:
        engine.may.release()
        text = "One phrase of many. And one more."
        async with aclosing(voice.speak_text(text, OPTIONS)) as audio:
            assert len(await anext(audio)) == engine.rate
        engine.may.release()
        await until(engine.closed.is_set)
        assert engine.begun == ["One phrase of many."]


async def test_a_cancelled_task_ends_the_phrase():
    engine = Slow()
    async with speaking(engine) as voice:
        task = asyncio.create_task(spoken(voice, "text"))
        await until(lambda: engine.begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.may.release()
        await until(engine.closed.is_set)


async def test_an_engine_that_returns_an_iterator_with_an_end():
    class Endless:
        def __init__(self) -> None:
            self.closed = threading.Event()

        def __iter__(self) -> Iterator[Samples]:
            return self

        def __next__(self) -> Samples:
            return np.ones(24_000, np.int16)

        def close(self) -> None:
            self.closed.set()

    endless = Endless()
    engine = StubSpeech()
    engine.speak = lambda text, options: endless  # type: ignore[method-assign, assignment]
    async with speaking(engine) as voice, aclosing(voice.speak("text", OPTIONS)) as audio:
        await anext(audio)
    await until(endless.closed.is_set)


async def test_an_overloaded_engine_is_named():
    engine = Slow()
    async with speaking(engine, queue=0) as voice:
        task = asyncio.create_task(spoken(voice, "text"))
        await until(lambda: engine.begun)
        with pytest.raises(Busy, match="the speaking engine is busy"):
            await spoken(voice, "another")
        task.cancel()
        await asyncio.wait((task,))
        engine.may.release()
        await until(engine.closed.is_set)


async def test_a_failing_engine():
    class Failing(StubSpeech):
        def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
            yield np.ones(self.rate, np.int16)
            raise ModelError("no voice")

    async with speaking(Failing()) as voice:
        audio = voice.speak("text", OPTIONS)
        assert len(await anext(audio)) == voice.rate
        with pytest.raises(ModelError, match="no voice"):
            await anext(audio)
