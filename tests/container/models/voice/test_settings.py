"""partway.container.models.voice.settings: what variables may have."""

from __future__ import annotations

import pytest

from partway.container.errors import SettingsRefused
from partway.container.models.voice.settings import VoiceSettings


def test_all_variables():
    words = {"HEARS": "a", "SPEAKS": "b", "ANSWERS": "c", "TURNS": "d", "LANGUAGE": "e"}
    numbers = {"HEARING_THREADS": "2", "SPEAKING_THREADS": "3", "QUEUE": "0", "STREAMS": "5"}
    times = {"ENDPOINTING_MS": "500", "EAGER_MS": "0"}
    more = {"SYSTEM": "f", "INTERRUPTS": "0", "MIN_WORDS": "4"}
    texts = words | numbers | times | more
    given = {f"PARTWAY_VOICE_{name}": text for name, text in texts.items()}
    assert given.keys() == VoiceSettings.variables().keys()
    assert VoiceSettings.from_environment(given) == VoiceSettings(
        hears="a",
        speaks="b",
        answers="c",
        turns="d",
        language="e",
        system="f",
        hearing_threads=2,
        speaking_threads=3,
        queue=0,
        streams=5,
        endpointing_ms=500,
        eager_ms=0,
        interrupts=False,
        min_words=4,
    )


def test_an_empty_variable_is_unset():
    unset = dict.fromkeys(VoiceSettings.variables(), "")
    assert VoiceSettings.from_environment(unset) == VoiceSettings()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("HEARING_THREADS", "0", "is '0'; it must be a whole number from 1 to 64"),
        ("QUEUE", "-1", "is '-1'; it must be a whole number from 0 to 10000"),
        ("ENDPOINTING_MS", "9", "is '9'; it must be a whole number from 10 to 10000"),
        ("EAGER_MS", "1.5", "is '1.5'; it must be"),
        ("MIN_WORDS", "9" * 5000, "is '9999999999999999999999999999999999999999'; it must be"),
        ("INTERRUPTS", "yes", "is 'yes'; it must be 0 or 1"),
    ],
)
def test_a_variable_out_of_range_is_named(name, text, says):
    with pytest.raises(ValueError, match=f"^PARTWAY_VOICE_{name} {says}"):
        VoiceSettings.from_environment({f"PARTWAY_VOICE_{name}": text})


@pytest.mark.parametrize(
    ("answers", "given", "says"),
    [
        ("chat", {}, "PARTWAY_CHAT_UPSTREAM is not set, or is empty; it must be the base URL"),
        ("text:/model", {"PARTWAY_TEXT_THREADS": "x"}, "PARTWAY_TEXT_THREADS is 'x'; it must be"),
        ("text", {"PARTWAY_TEXT_THREAD": "1"}, "PARTWAY_TEXT_THREAD: this variable is unknown"),
    ],
)
def test_the_settings_of_the_model_that_answers_are_checked_too(answers, given, says):
    named = {"PARTWAY_VOICE_ANSWERS": answers, **given}
    with pytest.raises(SettingsRefused, match=f"^{says}"):
        VoiceSettings.from_environment(named)
    with pytest.raises(SettingsRefused) as caught:
        VoiceSettings.from_environment({**named, "PARTWAY_VOICE_QUEUE": "x"})
    assert [line.partition(" ")[0].rstrip(":") for line in str(caught.value).splitlines()] == [
        "PARTWAY_VOICE_QUEUE",
        says.partition(" ")[0].rstrip(":"),
    ]


def test_the_settings_of_a_model_that_does_not_answer_are_not_read():
    given = {"PARTWAY_VOICE_ANSWERS": "stub", "PARTWAY_TEXT_THREADS": "x"}
    assert VoiceSettings.from_environment(given).answers == "stub"
