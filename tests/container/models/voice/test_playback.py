"""partway.container.models.voice.playback: how much can have been heard, by a clock of the test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.limits import PLAYBACK_AHEAD
from partway.container.models.voice.playback import Playback

RATE = 8_000
TIMES = st.integers(0, 12_000)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Answer:
    """An answer whose phrases are sent one after the other."""

    def __init__(self) -> None:
        self.time = Time()
        self.playback = Playback(RATE, lambda: self.time.now, self.time.sleep)
        self.sent = 0

    async def phrase(self, text: str, seconds: float) -> None:
        self.playback.begin(text)
        await self.audio(seconds)
        self.playback.end_phrase()

    async def audio(self, seconds: float) -> None:
        async for piece in self.playback.paced(np.zeros(round(RATE * seconds), np.int16)):
            self.sent += len(piece)
            ahead = self.playback.sent_ms - self.playback.heard_ms
            assert 0 <= ahead <= PLAYBACK_AHEAD * 1000 + 1


async def test_audio_is_sent_at_most_half_a_second_ahead():
    answer = Answer()
    await answer.phrase("A phrase of four seconds", 4.0)
    assert answer.sent == 4 * RATE
    assert answer.time.now == pytest.approx(103.5)
    assert answer.playback.sent_ms == 4000
    assert answer.playback.heard_ms == 3500
    await answer.time.sleep(10)
    assert answer.playback.heard_ms == 4000


async def test_a_client_that_had_nothing_to_play_hears_no_more():
    answer = Answer()
    await answer.phrase("one", 1.0)
    await answer.time.sleep(20)
    await answer.phrase("two", 1.0)
    assert answer.playback.heard_ms == 1500


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        (-5, ""),
        (0, ""),
        (430, ""),
        (450, "four"),  # four of nine characters
        (999, "four five"),
        (1000, "four five"),
        (1100, "four five"),
        (1300, "four five six,"),
        (1999, "four five six, seven eight"),
        (9000, "four five six, seven eight"),
    ],
)
async def test_the_words_that_were_heard(heard, text):
    answer = Answer()
    await answer.phrase("four five", 1.0)
    await answer.phrase("six, seven eight", 1.0)
    await answer.phrase("", 0.0)
    assert answer.playback.heard_text(heard) == text


async def test_a_phrase_whose_end_is_unknown():
    answer = Answer()
    answer.playback.begin("word " * 15)  # 75 characters, so five seconds
    await answer.audio(1.0)
    await answer.time.sleep(10)
    assert answer.playback.heard_text() == "word word word"
    await answer.audio(9.0)
    await answer.time.sleep(10)
    assert answer.playback.heard_text() == ("word " * 15).strip()


async def test_before_any_phrase():
    playback = Answer().playback
    assert (playback.heard_ms, playback.sent_ms, playback.heard_text()) == (0, 0, "")


@given(st.lists(st.tuples(st.text("ab ,", max_size=30), st.floats(0, 2)), max_size=5), TIMES, TIMES)
async def test_more_is_heard_later(phrases, earlier, later):
    earlier, later = sorted((earlier, later))
    answer = Answer()
    for text, seconds in phrases:
        await answer.phrase(text, seconds)
    said = answer.playback.heard_text(earlier).split()
    assert answer.playback.heard_text(later).split()[: len(said)] == said
    everything = " ".join(text for text, _ in phrases).split()
    assert everything[: len(said)] == said
