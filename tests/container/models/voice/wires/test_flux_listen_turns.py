"""partway.container.models.voice.wires.flux_listen_turns: the order of the events about turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from partway.container.models.voice.interfaces import HEARING_RATE, HeardWord, Transcript
from partway.container.models.voice.speech_turns import SpeechResumed, SpeechStarted, SpeechStopped
from partway.container.models.voice.utterances import Final, HearingFailed, Interim, Utterance
from partway.container.models.voice.wires.flux_listen_turns import FluxTurns


def utterance(number: int, start: float = 0.0, seconds: float = 1.0) -> Utterance:
    return Utterance(number, start, np.zeros(round(seconds * HEARING_RATE), np.int16))


def told(*events: Any, eager: float | None = 0.5) -> list[dict[str, Any]]:
    turns = FluxTurns(eager, ())
    return [info for event in events for info in turns.on(event)]


def named(infos: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(each["event"], each["turn_index"], each["transcript"]) for each in infos]


def test_a_turn_begins_after_the_end_of_the_one_before_it():
    infos = told(
        SpeechStarted(0.5),
        SpeechStopped(1.0),
        SpeechStarted(2.0),
        SpeechResumed(2.5),
        Interim(utterance(2), Transcript("two"), paused=True),
        Final(utterance(1), Transcript("one"), "endpoint"),
        Interim(utterance(2), Transcript("two"), paused=True),
        Final(utterance(2), Transcript("two"), "endpoint"),
    )
    assert named(infos) == [
        ("StartOfTurn", 0, ""),
        ("EndOfTurn", 0, "one"),
        ("StartOfTurn", 1, ""),
        ("EagerEndOfTurn", 1, "two"),
        ("EndOfTurn", 1, "two"),
    ]
    assert [each["audio_window_start"] for each in infos] == [0.5, 0.5, 2.0, 2.0, 2.0]


def test_a_likely_end_is_taken_back_before_another_text():
    infos = told(
        SpeechStarted(0.0),
        Interim(utterance(1), Transcript("one"), paused=True),
        Interim(utterance(1), Transcript("on")),  # was asked for before the pause
        Final(utterance(1), Transcript("one two"), "commit"),
    )
    assert named(infos) == [
        ("StartOfTurn", 0, ""),
        ("EagerEndOfTurn", 0, "one"),
        ("TurnResumed", 0, "one"),
        ("EndOfTurn", 0, "one two"),
    ]
    assert [each["end_of_turn_confidence"] for each in infos] == [0.0, 0.5, 0.0, 1.0]
    assert [each.get("trigger") for each in infos] == [None, None, None, "manual"]


def test_a_likely_end_is_taken_back_by_its_own_turn_alone():
    infos = told(
        SpeechStarted(0.0),
        Interim(utterance(1), Transcript("one"), paused=True),
        SpeechStarted(1.0),
        SpeechResumed(1.5),  # the second turn's
        Final(utterance(1), Transcript("one"), "endpoint"),
        Interim(utterance(2), Transcript("two"), paused=True),
        Final(utterance(2), Transcript("two"), "endpoint"),
    )
    assert named(infos) == [
        ("StartOfTurn", 0, ""),
        ("EagerEndOfTurn", 0, "one"),
        ("EndOfTurn", 0, "one"),
        ("StartOfTurn", 1, ""),
        ("EagerEndOfTurn", 1, "two"),
        ("EndOfTurn", 1, "two"),
    ]


def test_a_likely_end_is_taken_back_where_the_turn_goes_on_after_a_cut():
    infos = told(
        SpeechStarted(0.0),
        Interim(utterance(1), Transcript("one", language="en"), paused=True),
        Final(utterance(1), Transcript("one", language="en"), "cut"),
        Final(utterance(2), Transcript("two", language="en"), "endpoint"),
    )
    assert named(infos) == [
        ("StartOfTurn", 0, ""),
        ("EagerEndOfTurn", 0, "one"),
        ("TurnResumed", 0, "one"),
        ("Update", 0, "one"),
        ("EndOfTurn", 0, "one two"),
    ]
    assert infos[-1]["languages"] == ["en"]


def test_a_turn_has_all_its_pieces():
    words = (HeardWord("Two.", 0.25, 0.5, 0.9),)
    infos = told(
        SpeechStarted(1.0),
        Final(utterance(1, 1.0, 30.0), Transcript("one"), "cut"),
        HearingFailed(utterance(2, 31.0, 30.0), "busy", "cut"),
        Final(utterance(3, 61.0), Transcript("Two.", 0.9, words, "en"), "endpoint"),
    )
    assert named(infos) == [
        ("StartOfTurn", 0, ""),
        ("Update", 0, "one"),
        ("Update", 0, "one"),
        ("EndOfTurn", 0, "one Two."),
    ]
    end = infos[-1]
    assert end["words"] == [
        {"word": "one", "confidence": 1.0},
        {"word": "Two.", "confidence": 0.9, "start": 61.25, "end": 61.5},
    ]
    assert (end["audio_window_start"], end["audio_window_end"]) == (1.0, 62.0)
    assert end["languages"] == ["en"]


def test_a_turn_is_bounded():
    pieces = [Final(utterance(n + 1, 30.0 * n, 30.0), Transcript("x"), "cut") for n in range(12)]
    infos = told(SpeechStarted(0.0), *pieces)
    ended = [at for at, each in enumerate(infos) if each["event"] == "EndOfTurn"]
    assert ended == [10]
    assert infos[10]["trigger"] == "timeout"
    assert infos[10]["transcript"] == "x" * 1 + " x" * 9
    assert named(infos[11:]) == [("StartOfTurn", 1, ""), ("Update", 1, "x"), ("Update", 1, "x x")]


def test_a_word_that_no_detector_has_found_is_a_turn_and_silence_is_none():
    assert named(told(Final(utterance(1), Transcript("one"), "end"))) == [
        ("StartOfTurn", 0, ""),
        ("EndOfTurn", 0, "one"),
    ]
    assert told(Final(utterance(1), Transcript(""), "end")) == []


def test_a_client_that_does_not_ask_is_told_of_no_likely_end():
    infos = told(
        SpeechStarted(0.0),
        Interim(utterance(1), Transcript("one"), paused=True),
        SpeechResumed(1.0),
        Final(utterance(1), Transcript("one two"), "endpoint"),
        eager=None,
    )
    assert [each["event"] for each in infos] == ["StartOfTurn", "Update", "EndOfTurn"]
