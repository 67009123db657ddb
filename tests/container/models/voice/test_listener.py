"""partway.container.models.voice.listener: which texts come of a stream's audio, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.engines.stub_turns import LoudnessDetector, StubTurns
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.limits import MAX_UNHEARD_UTTERANCES
from partway.container.models.voice.listener import ListenerOptions, SpeechListener
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.speech_turns import (
    LongSilence,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
)
from partway.container.models.voice.turn_detection import TurnDetection
from partway.container.models.voice.utterances import Final, HearingFailed, Interim
from partway.container.workers import Threads
from tests.container.models.voice.sounds import silence, sounds, tone

PCM = AudioFormat()


class GatedHearing(StubHearing):
    """Hears nothing until its gate opens; counts what it was asked for."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.heard: list[float] = []
        self.fails = False

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        self.asked.set()
        self.gate.wait(60)
        self.heard.append(len(audio) / 16_000)
        if self.fails:
            raise ModelError("the ear is ill")
        return super().hear(audio, options)


class Incomplete(StubTurns):
    """Takes no turn for complete."""

    def is_complete(self, audio: Samples) -> bool:
        return False


@asynccontextmanager
async def listening(
    engine: Any = None, turns: Any = None, **options: Any
) -> AsyncIterator[SpeechListener]:
    hearing = EnginePool(engine or StubHearing(), "hearing", Threads())
    turning = EnginePool(turns or StubTurns(), "turn", Threads())
    wishes = ListenerOptions(PCM, **options)
    try:
        async with SpeechListener(Hearing(hearing), TurnDetection(turning), wishes) as listener:
            yield listener
    finally:
        hearing.close()
        turning.close()


async def texts(listener: SpeechListener) -> list[tuple[str, str]]:
    """The text and the reason of each utterance, until the end."""
    return [
        (event.transcript.text, event.reason)
        async for event in listener.events()
        if isinstance(event, Final)
    ]


async def upto(listener: SpeechListener, kind: type) -> list[Any]:
    """The events up to the first of a kind."""
    seen = []
    async for event in listener.events():
        seen.append(event)
        if isinstance(event, kind):
            break
    return seen


async def test_an_utterance_has_its_text_its_times_and_its_audio():
    async with listening() as listener:
        await listener.feed(sounds(1.0, 0.8, 1.0).tobytes())
        started, stopped, final = await upto(listener, Final)
    assert (started, stopped) == (SpeechStarted(1.0), SpeechStopped(1.8))
    assert (final.transcript.text, final.reason) == ("one two", "endpoint")
    assert final.utterance.id == 1
    assert (final.utterance.start, final.utterance.end) == (0.7, 2.2)
    assert np.array_equal(final.utterance.audio, sounds(0.3, 0.8, 0.4))


async def test_texts_come_in_order_and_the_end_waits_for_all():
    async with listening() as listener:
        for seconds in (0.4, 1.2, 0.8):
            await listener.feed(sounds(0.5, seconds, 0.6).tobytes())
        await listener.feed(tone(0.4).tobytes())
        await listener.end()
        assert await texts(listener) == [
            *(("one", "endpoint"), ("one two three", "endpoint")),
            *(("one two", "endpoint"), ("one", "end")),
        ]


async def test_a_commit_hears_all_that_came_before_it():
    async with listening() as listener:
        await listener.feed(sounds(0.5, 1.2).tobytes())
        await listener.commit()
        await listener.feed(tone(0.8).tobytes())
        await listener.commit()
        await listener.end()
        assert await texts(listener) == [("one two three", "commit"), ("one two", "commit")]


async def test_nothing_is_told_of_speech_that_was_cleared():
    async with listening() as listener:
        await listener.feed(sounds(0.5, 0.4).tobytes())
        assert listener.clear() == 1
        await listener.feed(sounds(0.6, 0.8, 0.6).tobytes())
        started, stopped, final = await upto(listener, Final)
    assert (started, stopped) == (SpeechStarted(1.5), SpeechStopped(2.3))
    assert final.transcript.text == "one two"


async def test_speech_that_goes_on_after_a_commit_begins_before_it_ends():
    async with listening() as listener:
        await listener.feed(sounds(0.5, 0.8).tobytes())
        await listener.commit()
        await listener.feed(tone(0.4).tobytes())
        await listener.end()
        events = [event async for event in listener.events()]
    edges = [event for event in events if isinstance(event, SpeechStarted | SpeechStopped)]
    assert edges[:2] == [SpeechStarted(0.5), SpeechStopped(1.3)]
    assert edges[2:] == [SpeechStarted(1.3), SpeechStopped(1.7)]
    assert [each.transcript.text for each in events if isinstance(each, Final)] == [
        "one two",
        "one",
    ]


async def test_a_commit_hears_a_word_that_no_detector_has_found_yet():
    class Deaf(StubTurns):
        def detector(self) -> Any:
            detector = super().detector()
            detector.feed = lambda audio: []
            return detector

    async with listening(turns=Deaf()) as listener:
        await listener.feed(sounds(3.0, 0.2).tobytes())
        await listener.commit()
        await listener.feed(silence(3.0).tobytes())
        await listener.commit()
        await listener.end()
        assert await texts(listener) == [("one", "commit"), ("", "commit")]


async def test_a_commit_without_anything_new_tells_of_the_last_text_or_of_none():
    engine = GatedHearing()
    async with listening(engine) as listener:
        await listener.feed(sounds(0.5, 0.4, 0.5).tobytes())
        await upto(listener, SpeechStopped)
        await listener.commit()  # the text is not there yet
        await listener.commit()
        engine.gate.set()
        await listener.end()
        assert await texts(listener) == [("one", "commit"), ("", "commit")]


@pytest.mark.parametrize("seconds", [0.02, 0.1, 3.0])
async def test_pieces_of_any_size_make_the_same_utterances(seconds):
    audio = sounds(0.5, 0.4, 0.16, 0.8, 1.0).tobytes()
    size = int(seconds * 32_000)
    async with listening(endpointing=0.1) as listener:
        for begin in range(0, len(audio), size):
            await listener.feed(audio[begin : begin + size])
        await listener.end()
        heard = [each.utterance async for each in listener.events() if isinstance(each, Final)]
    times = [time for each in heard for time in (each.start, each.end)]
    assert times == pytest.approx([0.2, 1.0, 1.0, 1.96], abs=0.02)


async def test_what_is_cleared_is_not_heard():
    async with listening() as listener:
        await listener.feed(sounds(0.5, 1.2).tobytes())
        listener.clear()
        await listener.feed(sounds(1.0, 0.4, 0.5).tobytes())
        await listener.end()
        assert await texts(listener) == [("one", "endpoint")]


async def test_without_endpointing_only_commits_end_utterances_and_nothing_is_said_of_speech():
    async with listening(endpointing=None) as listener:
        await listener.feed(sounds(0.5, 0.4, 3.0, 0.4, 1.0).tobytes())
        await listener.commit()
        await listener.feed(sounds(0.1).tobytes())
        await listener.end()
        events = [event async for event in listener.events()]
    assert [type(event) for event in events] == [Final, Final]
    assert (events[0].utterance.start, events[0].utterance.end) == (0.0, 5.3)
    assert events[0].transcript.text.endswith("eight nine")


@pytest.mark.parametrize("endpointing", [0.4, None])
async def test_a_long_utterance_is_cut_where_it_is_quietest(endpointing):
    audio = np.concatenate([tone(27.0), silence(0.15), tone(9.0), silence(1.0)])
    async with listening(endpointing=endpointing) as listener:
        await listener.feed(audio.tobytes())
        await listener.commit()
        await listener.end()
        finals = [each async for each in listener.events() if isinstance(each, Final)]
    assert [final.reason for final in finals] == ["cut", "commit"]
    assert finals[0].utterance.end == pytest.approx(27.075, abs=0.03)
    assert finals[1].utterance.start == finals[0].utterance.end


async def test_no_word_is_heard_twice_where_a_pause_is_cut():
    audio = np.concatenate([tone(26.0), silence(0.3), tone(3.2), silence(2.0)])
    async with listening(endpointing=5.0) as listener:
        await listener.feed(audio.tobytes())
        await listener.end()
        finals = [each async for each in listener.events() if isinstance(each, Final)]
    assert [final.reason for final in finals] == ["cut", "end"]
    assert [len(final.transcript.text.split()) for final in finals] == [65, 8]


async def test_silence_is_not_kept():
    async with listening() as listener:
        for _ in range(60):
            await listener.feed(silence(1.0).tobytes())
        assert listener.position == 60.0
        assert listener._window.start >= 58.0


async def test_a_pause_is_heard_before_the_turn_is_over_and_only_once():
    engine = GatedHearing()
    async with listening(engine, endpointing=1.0) as listener:
        await listener.feed(sounds(0.5, 0.4, 0.3).tobytes())
        assert await asyncio.to_thread(engine.asked.wait, 60)
        engine.gate.set()
        await listener.feed(silence(1.0).tobytes())
        await listener.end()
        assert await texts(listener) == [("one", "endpoint")]
    assert len(engine.heard) == 1


async def test_a_turn_that_goes_on_after_a_pause_is_heard_as_a_whole():
    async with listening(endpointing=1.0) as listener:
        await listener.feed(sounds(0.5, 0.4, 0.6).tobytes())
        await listener.feed(sounds(0.0, 0.6, 1.5).tobytes())
        await listener.end()
        assert await texts(listener) == [("one two three four", "endpoint")]


async def test_an_incomplete_turn_is_given_patience():
    async with listening(turns=Incomplete(), endpointing=0.4, patience=2.0) as listener:
        judged = asyncio.Event()
        judge = listener._turns.judge
        listener._turns.judge = lambda *, complete: (judge(complete=complete), judged.set())
        await listener.feed(sounds(0.5, 0.4, 0.2).tobytes())
        await judged.wait()
        await listener.feed(sounds(1.5, 0.4, 3.0).tobytes())
        await listener.end()
        (final,) = [each async for each in listener.events() if isinstance(each, Final)]
    assert final.utterance.start == pytest.approx(0.2)
    assert final.utterance.end == pytest.approx(3.4)


async def test_a_judgement_of_an_earlier_pause_does_not_count():
    judged, late = asyncio.Event(), asyncio.Event()

    async def is_complete(audio: Samples) -> bool:
        if len(audio) > 16_000 * 0.5:  # the later pause
            judged.set()
            return True
        await late.wait()
        return False

    turns: Any = SimpleNamespace(detector=LoudnessDetector, is_complete=is_complete)
    hearing = EnginePool(StubHearing(), "hearing", Threads())
    options = ListenerOptions(PCM, endpointing=1.0, patience=9.0)
    async with SpeechListener(Hearing(hearing), turns, options) as listener:
        await listener.feed(sounds(0.0, 0.2, 0.18, 0.2, 0.18).tobytes())
        await judged.wait()
        judging = set(listener._tasks)
        late.set()
        await asyncio.wait(judging)
        await listener.feed(silence(1.0).tobytes())
        await listener.end()
        assert await texts(listener) == [("one", "endpoint")]
    hearing.close()


async def test_interim_texts_grow():
    async with listening(interims=True) as listener:
        seen = []
        for _ in range(3):
            await listener.feed(tone(1.2).tobytes())
            seen.append((await upto(listener, Interim))[-1])
        await listener.end()
        finals = await texts(listener)
    assert [each.transcript.text.count(" ") + 1 for each in seen] == [3, 6, 9]
    assert {each.utterance.id for each in seen} == {1}
    assert len(finals) == 1


async def test_a_text_of_a_pause_is_told_as_one_and_so_is_its_end():
    async with listening(interims=True, resumptions=True) as listener, asyncio.timeout(20):
        await listener.feed(sounds(0.5, 0.4, 0.2).tobytes())
        while not (await upto(listener, Interim))[-1].paused:
            pass  # an earlier text
        await listener.feed(tone(0.4).tobytes())
        assert (await upto(listener, SpeechResumed))[-1] == SpeechResumed(1.1)


async def test_the_rules_of_turns_may_be_replaced():
    async with listening(endpointing=0.4) as listener:
        listener.turn_options = replace(listener.turn_options, endpointing=1.5)
        await listener.feed(sounds(0.5, 0.4, 1.0, 0.4, 2.0).tobytes())
        await listener.end()
        assert await texts(listener) == [("one two three four", "endpoint")]


async def test_a_long_silence_comes_after_the_text_before_it():
    engine = GatedHearing()
    async with listening(engine, long_silence=1.0) as listener:
        await listener.feed(sounds(0.5, 0.4, 2.0).tobytes())
        await upto(listener, SpeechStopped)
        assert not listener._events._events
        engine.gate.set()
        final, quiet = await upto(listener, LongSilence)
    assert isinstance(final, Final)
    assert quiet == LongSilence(0.9)


async def test_a_failure_is_told_and_the_stream_goes_on():
    engine = GatedHearing()
    engine.gate.set()
    engine.fails = True
    async with listening(engine) as listener:
        await listener.feed(sounds(0.5, 0.4, 0.5).tobytes())
        failed = (await upto(listener, HearingFailed))[-1]
        engine.fails = False
        await listener.feed(sounds(0.5, 0.4, 0.5).tobytes())
        final = (await upto(listener, Final))[-1]
    assert (failed.reason, failed.ending) == ("the ear is ill", "endpoint")
    assert final.transcript.text == "one"


async def test_the_input_waits_while_too_many_utterances_are_unheard():
    engine = GatedHearing()
    async with listening(engine) as listener:
        spoken = b"".join(sounds(0.5, 0.6, 0.5).tobytes() for _ in range(20))
        feeding = asyncio.create_task(listener.feed(spoken))
        for _ in range(1000):  # more turns of the loop than the whole audio takes
            await asyncio.sleep(0)
        assert not feeding.done()
        assert len(listener._events._unheard) <= MAX_UNHEARD_UTTERANCES + 1
        engine.gate.set()
        taking = asyncio.create_task(texts(listener))
        await feeding
        await listener.end()
        assert len(await taking) == 20


async def test_leaving_gives_up_all_that_is_heard():
    engine = GatedHearing()
    before = len(asyncio.all_tasks())
    async with listening(engine) as listener:
        await listener.feed(sounds(0.5, 0.4, 0.5, 0.4).tobytes())
        assert listener._tasks
    assert not listener._tasks
    assert len(asyncio.all_tasks()) <= before + 2  # the pools that end
    engine.gate.set()


def test_settings_make_engines():
    settings = VoiceSettings(hears="stub", turns="stub")
    engines = Engines.load(settings, Path())
    assert engines.hearing is not None
    assert engines.answers is None
    engines.close()
