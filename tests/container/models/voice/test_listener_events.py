"""partway.container.models.voice.listener_events: the order of events, and their bounds."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.limits import MAX_LISTENER_EVENTS, MAX_UNHEARD_UTTERANCES
from partway.container.models.voice.listener_events import Heard, ListenerEvents, NotHeard
from partway.container.models.voice.speech_turns import LongSilence, SpeechStarted, SpeechStopped
from partway.container.models.voice.utterances import Final, HearingFailed, ListenerEvent, Utterance

pytestmark = pytest.mark.usefixtures("anyio_backend")


class Ear:
    """Hears utterances when a test says so."""

    def __init__(self, events: ListenerEvents) -> None:
        self._events = events
        self.heard: list[asyncio.Future[Heard]] = []

    def utter(self) -> Utterance:
        """Add an utterance that waits for its text."""
        heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self.heard.append(heard)
        utterance = Utterance(len(self.heard), 0.0, np.zeros(16, np.int16))

        async def text() -> Heard:
            return await heard

        self._events.add_utterance(utterance, "endpoint", asyncio.create_task(text()))
        return utterance


async def test_texts_come_in_order_and_all_else_at_once() -> None:
    events = ListenerEvents()
    ear = Ear(events)
    first, second = ear.utter(), ear.utter()
    events.add_silence(LongSilence(3.0))
    ear.heard[1].set_result(NotHeard("ill"))
    events.add(SpeechStarted(4.0))
    taken: list[ListenerEvent] = []
    async for event in events.all():
        taken.append(event)
        if event == SpeechStarted(4.0):
            assert events.wait_for_texts
            ear.heard[0].set_result(Transcript("one"))
            events.end()
    assert taken == [
        SpeechStarted(4.0),
        Final(first, Transcript("one"), "endpoint"),
        HearingFailed(second, "ill", "endpoint"),
        LongSilence(3.0),
    ]


async def test_a_commit_is_told_with_the_last_text_once() -> None:
    events = ListenerEvents()
    ear = Ear(events)
    assert not events.commit_last()
    ear.utter()
    ear.utter()
    events.add_silence(LongSilence(3.0))
    assert events.commit_last()
    assert not events.commit_last()  # that text tells of another commit
    for heard in ear.heard:
        heard.set_result(Transcript(""))
    events.end()
    reasons = [each.reason async for each in events.all() if isinstance(each, Final)]
    assert reasons == ["endpoint", "commit"]


@pytest.mark.parametrize("many", ["utterances", "events"])
async def test_the_input_waits_for_room(many: str) -> None:
    events = ListenerEvents()
    ear = Ear(events)
    if many == "utterances":
        for _ in range(MAX_UNHEARD_UTTERANCES):
            ear.utter()
    else:
        for at in range(MAX_LISTENER_EVENTS):
            events.add(SpeechStopped(at))
    waiting = asyncio.create_task(events.until_room())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    for heard in ear.heard[:1]:
        heard.set_result(Transcript(""))
    assert await anext(events.all())
    await waiting
    events.clear()
    assert not events.wait_for_texts
    for heard in ear.heard[1:]:
        heard.set_result(Transcript(""))
