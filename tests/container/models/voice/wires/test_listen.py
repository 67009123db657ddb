"""partway.container.models.voice.wires.listen: what Deepgram's clients send and get."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from partway import __version__
from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import encode
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.wires.listen_messages import (
    MOST_IGNORED,
    Configure,
    message_of,
)
from partway.container.testing import Query, serving
from tests.container.models.voice.sounds import silence, sounds, tone

PATH = "v1/listen"
STUB = VoiceSettings(hears="stub", turns="stub")


@asynccontextmanager
async def listening(query: Query = (), settings: VoiceSettings = STUB) -> AsyncIterator[Any]:
    async with serving(Voice(settings)) as served, served.stream(PATH, query) as client:
        yield client


async def say(client: ClientConnection, kind: str, **members: Any) -> None:
    await client.send(json.dumps({"type": kind, **members}))


async def told(client: ClientConnection) -> list[dict[str, Any]]:
    """The messages up to the end of the stream."""
    return [json.loads(message) async for message in client]


def transcripts(messages: list[dict[str, Any]]) -> list[str]:
    return [
        each["channel"]["alternatives"][0]["transcript"]
        for each in messages
        if each["type"] == "Results"
    ]


async def test_each_byte_of_an_utterance_and_of_the_end():
    audio = sounds(1.0, 0.8, 0.5).tobytes()
    async with listening({"model": "nova-3", "language": "de"}) as client:
        await client.send(audio)
        first = await client.recv()
        await say(client, "CloseStream")
        last = await client.recv()
        await client.wait_closed()
        assert (client.close_code, client.close_reason) == (1000, "")
    assert first == (
        '{"type":"Results","channel_index":[0,1],"duration":1.5,"start":0.7,"is_final":true,'
        '"speech_final":true,"from_finalize":false,"channel":{"alternatives":[{"transcript":'
        '"one two","confidence":1.0,"words":['
        '{"word":"one","start":1.0,"end":1.4,"confidence":1.0,"punctuated_word":"one"},'
        '{"word":"two","start":1.4,"end":1.8,"confidence":1.0,"punctuated_word":"two"}'
        '],"languages":["de"]}]},"metadata":{"request_id":"-","model_info":{"name":"stub",'
        f'"version":"{__version__}","arch":"stub"}},"model_uuid":""}}}}'
    )
    created = json.loads(last)["created"]
    assert last == (
        '{"type":"Metadata","transaction_key":"deprecated","request_id":"-",'
        f'"sha256":"{hashlib.sha256(audio).hexdigest()}","created":"{created}",'
        '"duration":2.3,"channels":1}'
    )


async def test_finalize_hears_what_came_before_and_exactly_one_answer_says_so():
    async with listening() as client:
        await client.send(sounds(0.5, 1.2).tobytes())
        await say(client, "Finalize")
        await client.send(tone(0.8).tobytes())
        await say(client, "Finalize")
        await client.send(silence(2.0).tobytes())
        await say(client, "Finalize")
        await say(client, "CloseStream")
        messages = await told(client)
    assert transcripts(messages) == ["one two three", "one two", ""]
    flags = [(m["is_final"], m["speech_final"], m["from_finalize"]) for m in messages[:-1]]
    assert flags == [(True, True, True)] * 3
    assert messages[-1]["type"] == "Metadata"


async def test_the_end_hears_what_came_before():
    async with listening() as client:
        await client.send(sounds(0.5, 1.2).tobytes())
        await say(client, "CloseStream")
        messages = await told(client)
    assert transcripts(messages) == ["one two three"]
    assert not messages[0]["from_finalize"]


async def test_interims_and_events_of_speech_are_told_if_they_are_asked_for():
    query = {"interim_results": "true", "vad_events": "true", "utterance_end_ms": "1000"}
    async with listening(query) as client:
        await client.send(sounds(0.5, 1.2).tobytes())
        started = json.loads(await client.recv())
        interim = json.loads(await client.recv())
        await client.send(sounds(2.0, 0.4, 3.0).tobytes())
        await say(client, "CloseStream")
        messages = await told(client)
    assert started == {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.5}
    assert (interim["is_final"], interim["speech_final"]) == (False, False)
    finals = [m for m in messages if m["type"] == "UtteranceEnd" or m.get("is_final")]
    assert [m["type"] for m in finals] == ["Results", "UtteranceEnd"] * 2
    assert [m["last_word_end"] for m in finals[1::2]] == [1.7, 4.1]


async def test_without_endpointing_no_pause_is_the_end_of_speech():
    async with listening({"endpointing": "false"}) as client:
        await client.send(sounds(0.5, 0.4, 1.0, 0.4).tobytes())
        await say(client, "CloseStream")
        messages = await told(client)
    assert [m.get("speech_final") for m in messages] == [False, True, None]


async def test_endpointing_is_the_silence_after_speech():
    async with listening({"endpointing": "1200"}) as client:
        await client.send(sounds(0.5, 0.4, 1.0, 0.4, 1.3).tobytes())
        await say(client, "CloseStream")
        assert transcripts(await told(client)) == ["one two three four"]


@pytest.mark.parametrize(
    ("encoding", "rate"), [("mulaw", 8000), ("alaw", 8000), ("linear16", 48000)]
)
@pytest.mark.parametrize("channels", [1, 2])
async def test_each_encoding_is_heard(encoding, rate, channels):
    audio = sounds(0.5, 0.8, 0.6, rate=rate).repeat(channels)
    query = {"encoding": encoding, "sample_rate": str(rate), "channels": str(channels)}
    async with listening(query) as client:
        await client.send(encode(audio, encoding))
        await say(client, "CloseStream")
        messages = await told(client)
    assert transcripts(messages) == ["one two"]
    assert messages[-1]["channels"] == channels
    assert messages[-1]["duration"] == pytest.approx(1.9, abs=0.01)


async def test_keyterms_reach_the_engine_and_configure_replaces_them(monkeypatch):
    seen = []

    def hear(self: object, audio: object, options: Any) -> Transcript:
        seen.append(options.keyterms)
        return Transcript("x")

    monkeypatch.setattr(StubHearing, "hear", hear)
    query = [("keyterm", "Partway"), ("keyterm", "Sage Maker"), ("keywords", "bidi:2")]
    async with listening(query) as client:
        await client.send(tone(0.5).tobytes())
        await say(client, "Finalize")
        await client.recv()
        await say(client, "Configure", keyterms=["new"], features={"numerals": True})
        assert await client.recv() == (
            '{"type":"ConfigureSuccess","request_id":"-","keyterms":["new"]}'
        )
        await say(client, "Configure")
        assert await client.recv() == '{"type":"ConfigureSuccess","request_id":"-"}'
        await say(client, "Configure", keyterms=["x"] * 101)
        failure = json.loads(await client.recv())
        await client.send(tone(0.5).tobytes())
        await say(client, "CloseStream")
        await told(client)
    assert failure["type"] == "ConfigureFailure"
    assert failure["code"] == "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"
    assert failure["description"].startswith("101 keyterms of 101 characters were given; there may")
    assert seen == [("Partway", "Sage Maker", "bidi"), ("new",)]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("{", "the message is not a JSON object"),
        ("[]", "the message is not a JSON object"),
        (
            "{}",
            "type: None was given; it must be one of KeepAlive, Finalize, CloseStream, Configure",
        ),
        ('{"type":"Speak"}', "type: 'Speak' was given"),
        ('{"type":["KeepAlive"]}', "type: ['KeepAlive'] was given"),
        ('{"type":"Configure","keyterms":"x"}', "keyterms must be an array of strings"),
        ('{"type":"Configure","keyterms":[1]}', "keyterms must be an array of strings"),
    ],
)
async def test_a_message_that_is_none_is_refused_and_the_stream_goes_on(message, says):
    async with listening() as client:
        await client.send(message)
        refused = json.loads(await client.recv())
        await say(client, "KeepAlive")
        await client.send(tone(0.4).tobytes())
        await say(client, "CloseStream")
        assert transcripts(await told(client)) == ["one"]
    assert (refused["type"], refused["variant"], refused["message"]) == (
        *("Error", "SchemaError"), message,
    )  # fmt: skip
    assert refused["description"].startswith(says)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"encoding": "opus"}, "encoding: 'opus' was given; it must be one of linear16"),
        ({"sample_rate": "7000"}, "sample_rate: 7000 was given; it must be 8000 to 48000"),
        ({"sample_rate": "x"}, "sample_rate: 'x' was given; it must be a whole number"),
        ({"channels": "9"}, "channels: 9 was given"),
        ({"endpointing": "soon"}, "endpointing: 'soon' was given"),
        ({"utterance_end_ms": "-1"}, "utterance_end_ms: '-1' was given"),
        ({"vad_events": "1"}, "vad_events: '1' was given; it must be true or false"),
        ([("keyterm", "x")] * 101, "101 keyterms of 101 characters were given"),
    ],
)
async def test_a_query_out_of_range_is_refused_before_the_stream_opens(query, says):
    with pytest.raises(InvalidStatus) as refused:
        async with listening(query):
            pass
    assert refused.value.response.status_code == 400
    assert refused.value.response.body.decode().startswith(says)


async def test_a_container_that_does_not_hear_names_the_setting():
    with pytest.raises(InvalidStatus) as refused:
        async with listening(settings=VoiceSettings()):
            pass
    assert refused.value.response.status_code == 501
    assert refused.value.response.body.decode() == (
        "v1/listen needs an engine that hears, and none is configured: set PARTWAY_VOICE_HEARS, "
        "such as faster-whisper:/opt/ml/model\n"
    )


async def test_what_is_ignored_is_named_once_in_the_log(caplog):
    query = {"diarize": "true", "redact": "pci", "search": "x", "numerals": "false", "zzz": "1"}
    with caplog.at_level(logging.INFO, "partway.container.voice"):
        async with listening(query) as client:
            for _ in range(2):
                await say(client, "Configure", features={"numerals": True})
                await client.recv()
            await say(client, "CloseStream")
            await told(client)
    lines = [record.message for record in caplog.records if "ignores" in record.message]
    assert len(lines) == 2
    assert "diarize, redact, search, zzz" in lines[0]
    assert "features" in lines[1]


async def test_the_names_of_what_is_ignored_are_bounded():
    many = {f"{at}{'x' * 100}": 1 for at in range(1_000)}
    asked = message_of(json.dumps({"type": "Configure", **many}))
    assert isinstance(asked, Configure)
    assert len(asked.ignored) == MOST_IGNORED
    assert max(map(len, asked.ignored)) <= 40


async def test_an_engine_that_fails_is_named_and_finalize_is_answered(monkeypatch):
    def hear(self: object, audio: object, options: object) -> Transcript:
        raise ModelError("the ear is ill")

    monkeypatch.setattr(StubHearing, "hear", hear)
    async with listening() as client:
        await client.send(tone(0.5).tobytes())
        await say(client, "Finalize")
        error, result = json.loads(await client.recv()), json.loads(await client.recv())
        monkeypatch.undo()
        await client.send(tone(0.5).tobytes())
        await say(client, "CloseStream")
        assert transcripts(await told(client)) == ["one"]
    assert error == {
        "type": "Error", "variant": "HearingFailed", "description": "the ear is ill", "message": "",
    }  # fmt: skip
    assert result["from_finalize"]
    assert transcripts([result]) == [""]
