"""partway.container.models.voice.wires.speak_messages: exact events, and messages of clients."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.wires.speak_messages import (
    SpeakClear,
    SpeakClose,
    SpeakFlush,
    SpeakRefused,
    SpeakText,
    read_speak_message,
    speak_cleared,
    speak_error,
    speak_flushed,
    speak_metadata,
    speak_warning,
)


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ('{"type": "Speak", "text": "Hello "}', SpeakText("Hello ")),
        (b'{"text":"","type":"Speak","more":1}', SpeakText("")),
        ('{"type": "Flush"}', SpeakFlush()),
        ('{"type": "Clear"}', SpeakClear()),
        (b'{"type":"Close"}', SpeakClose()),
    ],
)
def test_messages(message, read):
    assert read_speak_message(message) == read


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hello", "a message is no JSON object"),
        (b"\xff", "a message is no JSON object"),
        ("[" * 100_000, "a message is no JSON object"),
        ("[]", "a message is no JSON object"),
        ("{}", "the type None; it must be one of Speak, Flush, Clear, Close"),
        ('{"type":"KeepAlive"}', "the type 'KeepAlive'; it must be one of"),
        ('{"type":["Flush"]}', "it must be one of"),
        ('{"type":"Speak"}', "Speak: text is None; it must be a string"),
        ('{"type":"Speak","text":5}', "Speak: text is 5; it must be a string"),
        (
            json.dumps({"type": "Speak", "text": "x" * 2001}),
            "2001 characters; it must",
        ),
    ],
)
def test_messages_that_are_refused(message, reason):
    with pytest.raises(SpeakRefused, match=reason):
        read_speak_message(message)


@given(st.text() | st.binary())
def test_any_message_is_read_or_refused(message):
    with suppress(SpeakRefused):
        read_speak_message(message)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        # As pipecat writes it.
        ('Take \\{"word": "dupilumab", "pronounce": "duːpˈɪl"\\} now', "Take dupilumab now"),
        ('{"word":"a","pronounce":"b"}{"word": "c \\"d\\"", "pronounce":"b"}', 'ac "d"'),
        ('a {b} {"c": 1}', 'a {b} {"c": 1}'),
        ('say {"word":"\\q","pronounce":"b"}', 'say {"word":"\\q","pronounce":"b"}'),
        ('{"word":"\\ud800","pronounce":"b"}', "?"),
    ],
)
def test_pronunciations(text, spoken):
    assert read_speak_message(json.dumps({"type": "Speak", "text": text})) == SpeakText(spoken)


def test_events():
    assert speak_flushed(0) == '{"type":"Flushed","sequence_id":0}'
    assert speak_cleared(7) == '{"type":"Cleared","sequence_id":7}'
    assert speak_warning("C", "é") == (
        '{"type":"Warning","description":"é","code":"C","warn_msg":"é"}'
    )
    assert speak_error("C", "x") == (
        '{"type":"Error","description":"x","message":"x","variant":"C"}'
    )
    assert speak_metadata("id", "stub", "1") == (
        '{"type":"Metadata","request_id":"id","model_name":"stub","model_version":"1",'
        '"model_uuid":"3b04375d-8290-540d-b83d-2bc200acdad3"}'
    )
