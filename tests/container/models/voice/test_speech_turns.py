"""partway.container.models.voice.speech_turns: when turns begin, pause and end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.engines.stub_turns import LoudnessDetector
from partway.container.models.voice.speech_turns import (
    LongSilence,
    Pause,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
    TurnEnded,
    TurnOptions,
    TurnTaking,
)
from tests.container.models.voice.sounds import silence, sounds, tone

OPTIONS = TurnOptions(endpointing=0.4, eager=0.16, patience=2.0)


def taking(**changes: object) -> TurnTaking:
    options = {"endpointing": 0.4, "eager": 0.16, "patience": 2.0, **changes}
    return TurnTaking(LoudnessDetector(), TurnOptions(**options))


def test_a_turn_begins_pauses_and_ends():
    turns = taking()
    assert turns.feed(sounds(0.5, 1.0, 0.38)) == [SpeechStarted(0.5), Pause(1.5)]
    assert turns.is_open
    assert turns.feed(silence(0.02)) == [SpeechStopped(1.5), TurnEnded(0.5, 1.5)]
    assert not turns.is_open
    assert turns.end() == []


def test_speech_after_a_short_pause_belongs_to_the_turn():
    events = taking().feed(sounds(0.5, 1.0, 0.3, 1.0, 0.1, 0.5, 0.5))
    assert events == [
        *(SpeechStarted(0.5), Pause(1.5), SpeechResumed(1.8), SpeechResumed(2.9)),
        *(Pause(3.4), SpeechStopped(3.4), TurnEnded(0.5, 3.4)),
    ]


def test_an_incomplete_turn_has_more_patience_until_it_resumes():
    turns = taking()
    turns.feed(sounds(0.5, 1.0, 0.2))
    turns.judge(complete=False)
    assert turns.feed(silence(1.7)) == []
    assert turns.feed(silence(0.1)) == [SpeechStopped(1.5), TurnEnded(0.5, 1.5)]
    turns.feed(tone(1.0))
    turns.judge(complete=False)  # too early: there is no pause
    assert TurnEnded(3.5, 4.5) in turns.feed(silence(0.4))


def test_a_commit_ends_the_turn_and_what_goes_on_is_the_next_one():
    turns = taking()
    turns.feed(sounds(0.5, 1.0))
    assert turns.commit() == [SpeechStopped(1.5), TurnEnded(0.5, 1.5)]
    assert turns.commit() == []
    assert turns.feed(tone(0.5)) == [SpeechStarted(1.5)]
    assert turns.end() == [SpeechStopped(2.0), TurnEnded(1.5, 2.0)]


def test_speech_that_ended_just_before_a_commit_begins_no_turn():
    turns = taking()
    turns.feed(sounds(0.5, 1.01))  # half a block is not judged
    assert turns.commit() == [SpeechStopped(1.51), TurnEnded(0.5, 1.51)]
    assert turns.feed(silence(2.0)) == []
    assert not turns.is_open


def test_what_is_cleared_is_no_turn():
    turns = taking()
    turns.feed(sounds(0.5, 1.0, 0.2))
    turns.clear()
    assert turns.feed(silence(1.0)) == []
    assert turns.end() == []


def test_a_long_silence_is_reported_once_after_each_turn():
    turns = taking(long_silence=1.0)
    events = turns.feed(sounds(2.0, 0.5, 3.0, 0.5, 0.9, 0.5, 1.0))
    silences = [each for each in events if isinstance(each, LongSilence)]
    assert silences == [LongSilence(2.5), LongSilence(7.4)]


def test_without_endpointing_only_a_commit_ends_a_turn():
    turns = taking(endpointing=None)
    assert not [e for e in turns.feed(sounds(0.5, 1, 9, 1, 9)) if isinstance(e, TurnEnded)]
    assert turns.commit() == [SpeechStopped(11.5), TurnEnded(0.5, 11.5)]


def test_the_end_of_the_audio_ends_the_turn():
    turns = taking()
    turns.feed(sounds(0.5, 1.0, 0.1))
    assert turns.end() == [SpeechStopped(1.5), TurnEnded(0.5, 1.5)]


@given(
    seconds=st.lists(st.sampled_from([0.06, 0.2, 0.3, 0.5, 1.2]), min_size=1, max_size=7),
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=9),
)
def test_the_sizes_of_the_pieces_do_not_matter(seconds, sizes):
    audio = sounds(*seconds)
    whole = TurnTaking(LoudnessDetector(), OPTIONS)
    expected = whole.feed(audio) + whole.end()
    turns = TurnTaking(LoudnessDetector(), OPTIONS)
    events = []
    rounds = math.ceil(len(audio) / sum(sizes))
    for cut in np.split(audio, np.cumsum(sizes * rounds)[: len(sizes) * rounds]):
        events += turns.feed(cut)
    assert events + turns.end() == expected
    assert turns.position == pytest.approx(len(audio) / 16_000)
