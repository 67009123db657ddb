"""partway.container.models.voice.wires.realtime_session: what a session.update changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_listening import TurnSettings
from partway.container.models.voice.wires.realtime_session import SessionSettings

USUAL = SessionSettings(id="sess_1", model="any")


def updated(session: dict[str, Any], before: SessionSettings = USUAL) -> SessionSettings:
    return before.updated(Members(session, "session"))


def test_the_older_flat_form_means_the_same() -> None:
    older = {
        "modalities": ["text"],
        "voice": "a",
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "whisper-1"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
        "max_response_output_tokens": 50,
    }
    today = {
        "output_modalities": ["text"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {"model": "whisper-1"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
            },
            "output": {"voice": "a", "format": {"type": "audio/pcm", "rate": 24000}},
        },
        "max_output_tokens": 50,
    }
    assert updated(older) == updated(today) != USUAL


def test_a_response_may_have_the_older_flat_form() -> None:
    older = {
        "modalities": ["text"],
        "voice": "a",
        "speed": 2,
        "output_audio_format": "g711_ulaw",
        "max_response_output_tokens": 50,
    }
    today = {
        "output_modalities": ["text"],
        "audio": {"output": {"voice": "a", "speed": 2, "format": {"type": "audio/pcmu"}}},
        "max_output_tokens": 50,
    }
    found, expected = (USUAL.responding(Members(each, "response")) for each in (older, today))
    assert found == expected != USUAL
    assert (found.voice, found.speed) == ("a", 2)


def test_todays_form_wins_over_the_older_one() -> None:
    both = {"voice": "older", "audio": {"output": {"voice": "today"}}}
    assert updated(both).voice == "today"


def test_absent_members_stay_as_they_are() -> None:
    before = updated({"instructions": "Be kind.", "audio": {"output": {"speed": 1.5}}})
    after = updated({"audio": {"output": {"voice": "a"}}}, before)
    assert (after.instructions, after.speed, after.voice) == ("Be kind.", 1.5, "a")


def test_null_turns_detection_and_transcription_off() -> None:
    on = updated({"audio": {"input": {"transcription": {"model": "a"}}}})
    off = updated({"audio": {"input": {"transcription": None, "turn_detection": None}}}, on)
    assert off.transcribing is off.turn_detection is None
    again = updated({"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}, off)
    assert again.turn_detection == TurnSettings(kind="semantic_vad")


@pytest.mark.parametrize(
    ("given_format", "expected"),
    [
        ({"type": "audio/pcm", "rate": 16000}, AudioFormat("linear16", 16_000)),
        ({"type": "audio/pcm"}, AudioFormat("linear16", 24_000)),
        ({"type": "audio/pcma"}, AudioFormat("alaw", 8_000)),
        ("g711_alaw", AudioFormat("alaw", 8_000)),
    ],
)
def test_formats(given_format: object, expected: AudioFormat) -> None:
    assert updated({"audio": {"input": {"format": given_format}}}).input_format == expected


def test_a_function_may_be_named_in_either_form() -> None:
    flat = updated({"tool_choice": {"type": "function", "name": "time"}})
    nested = updated({"tool_choice": {"type": "function", "function": {"name": "time"}}})
    assert flat.tool_choice == nested.tool_choice == {"type": "function", "name": "time"}


def test_members_without_an_effect_are_named() -> None:
    session = {"tracing": "auto", "prompt": None, "audio": {"input": {"noise_reduction": {"a": 1}}}}
    assert updated(session).ignored == {"session.tracing", "session.audio.input.noise_reduction"}


def test_a_transcription_session_always_reports_texts() -> None:
    settings = updated({"type": "transcription"})
    assert settings.transcribing is not None
    assert settings.members()["object"] == "realtime.transcription_session"


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ({"audio": []}, r"session.audio is \[\]; it must be an object"),
        ({"instructions": 1}, "session.instructions is 1; it must be a string"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}},
            "session.audio.input.format.rate is 1; it must be a whole number from 8000 to 48000",
        ),
        (
            {"audio": {"output": {"speed": 9}}},
            "session.audio.output.speed is 9; it must be a number from 0.25 to 4",
        ),
        ({"tools": [{"type": "function"}]}, r"session.tools\[0\].name is missing"),
        (
            {"tools": [{"name": "a", "parameters": {"a": [{}] * 100_000}}]},
            r"session.tools has [0-9]+ bytes of JSON; it must have at most 262144",
        ),
        ({"max_output_tokens": 0}, "session.max_output_tokens is 0; it must be a whole number"),
    ],
)
def test_a_wrong_value_is_named(session: dict[str, Any], message: str) -> None:
    with pytest.raises(RealtimeFault, match=message):
        updated(session)


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(
                ["type", "audio", "input", "output", "format", "rate", "turn_detection", "tools"]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(some.dictionaries(some.sampled_from(["audio", "type", "tools", "voice"]), _JSON))
def test_any_json_changes_the_settings_or_is_refused(session: dict[str, Any]) -> None:
    with suppress(RealtimeFault):
        assert updated(session).members()["id"] == "sess_1"
