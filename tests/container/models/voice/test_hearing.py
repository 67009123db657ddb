"""partway.container.models.voice.hearing, and the threads of an engine."""

from __future__ import annotations

import asyncio
import threading

import pytest

from partway.container.errors import Busy
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.workers import Threads
from tests.container.models.voice.sounds import silence, tone

OPTIONS = HearingOptions()


class Together(StubHearing):
    """Hears several utterances in one call."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def hear_many(self, batch: list[tuple[Samples, HearingOptions]]) -> list[Transcript]:
        self.calls.append(len(batch))
        return [self.hear(audio, options) for audio, options in batch]


class Slow(StubHearing):
    """Hears nothing until its gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        self.gate.wait(60)
        return Transcript("late")


async def test_utterances_of_several_streams_are_heard_in_one_call():
    engine = Together()
    pool = EnginePool(engine, "hearing", Threads())
    hearing = Hearing(pool)
    audio = [tone(0.4 * n) for n in range(1, 9)]
    texts = await asyncio.gather(*(hearing.transcribe(each, OPTIONS) for each in audio))
    assert [len(each.text.split()) for each in texts] == list(range(1, 9))
    assert engine.calls == [8]
    pool.close()


async def test_a_busy_engine_is_named_and_goes_on():
    engine = Slow()
    pool = EnginePool(engine, "hearing", Threads(queue=1))
    hearing = Hearing(pool)
    asked = [asyncio.create_task(hearing.transcribe(tone(0.1), OPTIONS)) for _ in range(3)]
    done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = done
    says = "the hearing engine is busy: every worker is busy, and 1 jobs wait already"
    with pytest.raises(Busy, match=says):
        await refused
    assert not hearing.is_idle
    engine.gate.set()
    assert {each.text for each in await asyncio.gather(*waiting)} == {"late"}
    assert hearing.is_idle
    pool.close()


async def test_audio_without_a_word_asks_no_engine():
    pool = EnginePool(Slow(), "hearing", Threads())
    assert (await Hearing(pool).transcribe(silence(0.01), OPTIONS)).text == ""
    pool.close()
