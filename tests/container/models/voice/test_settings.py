"""partway.container.models.voice.settings: what variables may have."""

from __future__ import annotations

import pytest

from partway.container.models.voice.settings import VARIABLES, VoiceSettings


def test_all_variables():
    words = {"HEARS": "a", "SPEAKS": "b", "ANSWERS": "c", "TURNS": "d", "LANGUAGE": "e"}
    numbers = {"HEARING_THREADS": "2", "SPEAKING_THREADS": "3", "QUEUE": "0", "MIN_WORDS": "4"}
    more = {"SYSTEM": "f", "ENDPOINTING_MS": "500", "EAGER_MS": "0", "INTERRUPTS": "0"}
    given = {f"PARTWAY_VOICE_{name}": text for name, text in (words | numbers | more).items()}
    assert given.keys() == VARIABLES
    assert VoiceSettings.from_environment(given) == VoiceSettings(
        *("a", "b", "c", "d", "e", "f", 2, 3, 0, 500, 0), interrupts=False, min_words=4
    )


def test_an_empty_variable_is_unset():
    assert VoiceSettings.from_environment(dict.fromkeys(VARIABLES, "")) == VoiceSettings()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("HEARING_THREADS", "0", "is '0'; it must be a whole number, 1 to 64"),
        ("QUEUE", "-1", "is '-1'; it must be a whole number, 0 to 10000"),
        ("ENDPOINTING_MS", "9", "is '9'; it must be a whole number, 10 to 10000"),
        ("EAGER_MS", "1.5", "is '1.5'; it must be"),
        ("MIN_WORDS", "9" * 5000, "is '9999999999999999999999999999999999999999'; it must be"),
        ("INTERRUPTS", "yes", "is 'yes'; it must be 0 or 1"),
    ],
)
def test_a_variable_out_of_range_is_named(name, text, says):
    with pytest.raises(ValueError, match=f"^PARTWAY_VOICE_{name} {says}"):
        VoiceSettings.from_environment({f"PARTWAY_VOICE_{name}": text})
