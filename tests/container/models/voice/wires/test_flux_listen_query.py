"""partway.container.models.voice.wires.flux_listen_query: the rules of turns by thresholds."""

from __future__ import annotations

import pytest

from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.speech_turns import TurnOptions
from partway.container.models.voice.wires.flux_listen_query import (
    Thresholds,
    checked_hints,
    language_of,
)


@pytest.mark.parametrize(
    ("endpointing_ms", "wishes", "endpointing", "patience"),
    [
        (400, {}, 0.4, 5.0),
        (400, {"eot_threshold": 0.9, "eot_timeout_ms": 700}, 0.4, 0.7),
        (800, {"eot_timeout_ms": 700}, 0.7, 0.7),
        (400, {"eot_threshold": 1}, 5.0, 5.0),
        (400, {"eot_threshold": "1.0", "eot_timeout_ms": "60000"}, 60.0, 60.0),
    ],
)
def test_the_timeout_ends_any_turn(endpointing_ms, wishes, endpointing, patience):
    settings = VoiceSettings(endpointing_ms=endpointing_ms, eager_ms=100)
    turns = Thresholds().changed(wishes).turns(settings)
    assert turns == TurnOptions(endpointing, 0.1, patience)


@pytest.mark.parametrize(
    ("hints", "kept", "language"),
    [
        ([], (), "en"),
        (["de"], ("de",), "de"),
        (["", "de"], ("de",), "de"),
        (["de", "fr"], ("de", "fr"), "en"),
    ],
)
def test_a_single_hint_is_the_language(hints, kept, language):
    assert checked_hints(hints) == kept
    assert language_of(kept, VoiceSettings(language="en")) == language


def test_a_change_leaves_what_it_does_not_name_and_null_is_the_usual_value():
    changed = Thresholds().changed(
        {"eager_eot_threshold": 0.5, "eot_threshold": 0.8, "eot_timeout_ms": 900}
    )
    assert changed == Thresholds(0.5, 0.8, 900)
    assert changed.changed({"eot_threshold": 0.9}) == Thresholds(0.5, 0.9, 900)
    nulls = dict.fromkeys(("eager_eot_threshold", "eot_threshold", "eot_timeout_ms"))
    assert changed.changed(nulls) == Thresholds()
