"""partway.container.models.voice.wires.flux_speak: a served stream, with the stub for a voice."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from partway import __version__
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.wires import test_speak
from tests.container.models.voice.wires.held_message import HeldMessage
from tests.container.models.voice.wires.test_speak import Client, Held, tones

STUB = VoiceSettings(speaks="stub", turns="stub")
RATE = 24_000
OFFSET = {"type": "time_ms", "value": 70}


def milliseconds(audio: bytes) -> int:
    return round(len(audio) / 2 / RATE * 1000)


@pytest.fixture
async def served(anyio_backend) -> AsyncIterator[Served]:
    async with serving(Voice(STUB)) as served:
        yield served


@pytest.fixture
async def held(anyio_backend, monkeypatch) -> AsyncIterator[Served]:
    """A container whose voice speaks each word when it may."""
    monkeypatch.setattr(Held, "may", threading.Semaphore(0), raising=False)
    monkeypatch.setattr(Held, "begun", [], raising=False)
    monkeypatch.setattr(Held, "closed", threading.Event(), raising=False)
    name = f"{test_speak.__name__}:Held"
    async with serving(Voice(VoiceSettings(speaks=name, turns="stub"))) as served:
        yield served
        Held.may.release(1000)


@asynccontextmanager
async def talking(served: Served, **query: str) -> AsyncIterator[Client]:
    async with served.stream("v2/speak", {"model": "flux-haley-en", **query}) as socket:
        client = Client(socket)
        audio, connected = await client.until("Connected")
        assert (audio, connected["model_version"]) == (b"", __version__)
        assert len(connected["model_uuids"]) == 1
        yield client


async def turn(client: Client) -> tuple[bytes, dict[str, Any]]:
    """The audio of a whole turn, and its metadata."""
    before, started = await client.until("SpeechStarted")
    audio, metadata = await client.until("SpeechMetadata")
    after, flushed = await client.until("Flushed")
    assert before == after == b""
    assert started["speech_id"] == metadata["speech_id"] == flushed["speech_id"]
    return audio, metadata


async def test_the_audio_of_a_turn_is_between_its_two_events(served):
    text = "Hello there my friend. This is the second sentence, which is the last one."
    async with talking(served) as client:
        found = set()
        for _ in range(2):
            for word in text.split():
                await client.speak(f"{word} ")
            await client.say("Flush")
            audio, metadata = await turn(client)
            found.add(metadata.pop("speech_id"))
            assert audio == tones(text)
            assert metadata == {
                "type": "SpeechMetadata",
                "audio_duration_ms": milliseconds(audio),
                "input_character_count": len(text) + 1,
                "billable_character_count": len(text) + 1,
                "controls_applied": {
                    "pronunciations_applied": 0,
                    "breaks_applied": 0,
                    "pronunciation_warnings": 0,
                },
            }
    assert len(found) == 2
    assert {each[:6] for each in found} == {"dg_sp_"}


async def test_turns_are_spoken_in_order(held):
    async with talking(held) as client:
        for text in ("The first.", "The second."):
            await client.speak(text)
            await client.say("Flush")
        Held.may.release(1000)
        assert (await turn(client))[0] == tones("The first.")
        assert (await turn(client))[0] == tones("The second.")


async def test_nothing_is_lost_at_the_end(served):
    async with talking(served) as client:
        await client.speak("The first sentence. And more")
        await client.say("Close")
        await client.until("SpeechStarted")
        audio, _ = await client.until("SpeechMetadata")
        assert audio == tones("The first sentence. And more")
        session = (await client.until("SessionMetadata"))[1]
        assert session == {
            "type": "SessionMetadata",
            "total_audio_duration_ms": milliseconds(audio),
            "total_input_character_count": 28,
            "total_billable_character_count": 28,
        }
        assert await client.closed() == (b"", 1000)


async def test_an_interruption_ends_the_audio_and_says_what_was_heard(held):
    async with talking(held) as client:
        await client.speak("Before.")
        await client.say("Flush")
        Held.may.release()
        before, _ = await turn(client)
        first, second = "The first phrase here.", " And a second phrase of words. And the r"
        await client.speak(first + second)
        await client.say("Flush")
        await client.speak("A turn that waits.")
        await client.until("SpeechStarted")
        Held.may.release(5)
        audio = b""
        while len(audio) <= len(tones(first)):
            audio += await client.receive()
        offset = milliseconds(before + tones(first))
        await client.say("Interrupt", playback_offset={"type": "time_ms", "value": offset})
        rest, told = await client.until("SpeechInterrupted")
        Held.may.release(1000)  # the abandoned phrase ends at its next piece
        assert told["audio_played_ms"] == offset
        assert (told["text_spoken"], told["text_remaining"]) == (first, second)
        assert told["metadata"]["audio_duration_ms"] == milliseconds(audio + rest)
        await client.speak("Something else.")
        await client.say("Flush")
        audio, _ = await turn(client)
        assert audio == tones("Something else.")
        await client.say("Close")
        session = (await client.until("SessionMetadata"))[1]
    assert session["total_audio_duration_ms"] == offset + milliseconds(audio)
    assert "A turn that waits." not in Held.begun


async def test_an_offset_after_all_audio_counts_no_more_than_was_made(served):
    async with talking(served) as client:
        await client.speak("Nobody hears")
        await client.say("Interrupt", playback_offset={"type": "time_ms", "value": 5000})
        _, told = await client.until("SpeechInterrupted")
        assert told["audio_played_ms"] == 5000
        await client.say("Close")
        session = (await client.until("SessionMetadata"))[1]
    assert session["total_audio_duration_ms"] == 0
    assert session["total_input_character_count"] == len("Nobody hears")


async def test_a_turn_lasts_until_its_last_event_is_sent(served, monkeypatch):
    held = HeldMessage(monkeypatch, lambda message: "Flushed" in str(message))
    async with talking(served) as client:
        await client.speak("The first turn.")
        await client.say("Flush")
        await client.speak("The second turn.")
        await client.until("SpeechStarted")
        first = (await client.until("SpeechMetadata"))[1]
        await held.waits.wait()
        await client.say("Interrupt")
        ended = (await client.until("SpeechInterrupted"))[1]
        assert ended["metadata"]["speech_id"] == first["speech_id"]
        await client.say("Close")
        session = (await client.until("SessionMetadata"))[1]
    assert session["total_input_character_count"] == len("The first turn.")


async def test_audio_that_was_not_sent_does_not_count(served, monkeypatch):
    held = HeldMessage(monkeypatch, lambda message: isinstance(message, bytes))
    async with talking(served) as client:
        await client.speak("The first sentence. And more")
        await client.until("SpeechStarted")
        await held.waits.wait()
        await client.say("Interrupt")
        audio, ended = await client.until("SpeechInterrupted")
    assert (audio, ended["audio_played_ms"]) == (b"", 0)
    assert ended["metadata"]["audio_duration_ms"] == 0


async def test_an_interruption_without_an_offset_has_no_texts(held):
    async with talking(held) as client:
        await client.speak("A phrase that nobody hears. And more.")
        await client.until("SpeechStarted")
        await client.say("Interrupt")
        _, told = await client.until("SpeechInterrupted")
        Held.may.release(1000)
        assert set(told) == {"type", "audio_played_ms", "metadata"}
        assert told["audio_played_ms"] == 0


async def test_text_that_is_no_phrase_yet_is_interrupted(served):
    async with talking(served) as client:
        await client.speak("Forget")
        await client.say("Interrupt")
        _, told = await client.until("SpeechInterrupted")
        assert told["metadata"]["input_character_count"] == 6
        await client.speak("it all.")
        await client.say("Flush")
        assert (await turn(client))[0] == tones("it all.")


async def test_what_has_no_effect_is_a_warning(held):
    async with talking(held) as client:
        await client.speak("")
        for kind in ("Interrupt", "Flush"):
            await client.say(kind)
            assert (await client.until("Warning"))[1]["code"] == "NO_ACTIVE_SPEECH"
        await client.speak("  ")
        await client.say("Flush")
        await client.until("SpeechStarted")
        assert (await client.until("Warning"))[1]["code"] == "NO_SYNTHESIZABLE_TEXT"
        assert (await client.until("SpeechMetadata"))[1]["audio_duration_ms"] == 0
        await client.until("Flushed")
        for text in ("One phrase.", "Another one."):
            await client.speak(text)
            await client.say("Interrupt", playback_offset=OFFSET)
        await client.until("SpeechInterrupted")
        code = "INVALID_INTERRUPT_OFFSET"
        message = await client.receive()
        while isinstance(message, bytes) or message["type"] == "SpeechStarted":
            message = await client.receive()
        Held.may.release(1000)
        assert (message["type"], message["code"]) == ("Warning", code)
        assert message["description"].endswith(
            "is 70; it must be more than 70, where an earlier one was"
        )


async def test_the_speed_is_configured(served):
    async with talking(served, speed="2") as client:
        await client.say("Configure")
        assert (await client.until("ConfigureSuccess"))[1]["applied"] == {"speed": 2.0}
        await client.say("Configure", speed=9)
        failure = (await client.until("ConfigureFailure"))[1]
        assert failure == {
            "type": "ConfigureFailure",
            "code": "SPEED_OUT_OF_RANGE",
            "field": "speed",
            "description": "speed is 9; it must be a number from 0.25 to 4",
            "value": 9,
        }
        await client.say("Configure", speed="fast")
        assert "value" not in (await client.until("ConfigureFailure"))[1]
        await client.say("Configure", speed=0.5)
        assert (await client.until("ConfigureSuccess"))[1]["applied"] == {"speed": 0.5}
        await client.speak("Hello")
        await client.say("Flush")
        assert (await turn(client))[0] == tones("Hello", speed=0.5)


async def test_a_phrase_that_fails_is_named_and_the_stream_goes_on(held):
    Held.may.release(1000)
    async with talking(held) as client:
        await client.speak("This must fail. Then the next. ")
        await client.say("Flush")
        await client.until("SpeechStarted")
        _, error = await client.until("Error")
        assert error["code"] == "NET-0000"
        assert error["description"] == "a phrase is not spoken to its end: no voice for it"
        assert (await client.until("SpeechMetadata"))[0] == tones("Then the next.")


@pytest.mark.parametrize(
    ("message", "code", "says"),
    [
        ({"type": "Clear"}, "MESSAGE-0000", "a message has the type 'Clear'; it must be one of"),
        ({"type": "Speak", "text": "x" * 2001}, "DATA-0001", "Speak: text has 2001 characters"),
        ({"type": "Speak"}, "DATA-0000", "Speak: text is None; it must be a string"),
        (
            {"type": "Interrupt", "playback_offset": {"type": "bytes", "value": 1}},
            *("DATA-0000", "Interrupt: playback_offset is {'type': 'bytes', 'value': 1}; it must"),
        ),
        (
            {"type": "Interrupt", "playback_offset": {"type": "time_ms", "value": True}},
            *("DATA-0000", "Interrupt: playback_offset is {'type': 'time_ms', 'value': True};"),
        ),
        (
            {"type": "Interrupt", "playback_offset": {"type": "time_ms", "value": -1}},
            *("DATA-0000", "Interrupt: playback_offset is {'type': 'time_ms', 'value': -1}; it"),
        ),
        (
            {"type": "Interrupt", "playback_offset": {"type": "time_ms", "value": 1_000_000_001}},
            *("DATA-0000", "Interrupt: playback_offset is {'type': 'time_ms', 'value': 1000000"),
        ),
    ],
)
async def test_messages_that_are_refused_lose_nothing(message, code, says, served):
    async with talking(served) as client:
        await client.speak("Hello ")
        await client.say(**{"kind": message["type"], **without_type(message)})
        error = (await client.until("Error"))[1]
        assert (error["code"], error["description"][: len(says)]) == (code, says)
        await client.say("Flush")
        assert (await turn(client))[0] == tones("Hello")


def without_type(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "type"}


async def test_text_and_flushes_that_wait_are_bounded(held, monkeypatch):
    module = "partway.container.models.voice.wires.text_speaker"
    monkeypatch.setattr(f"{module}.MAX_UNSPOKEN", 100)
    monkeypatch.setattr(f"{module}.MAX_UNSPOKEN_FLUSHES", 2)
    async with talking(held) as client:
        sentence = "This has forty-five characters, or a few more. "
        for _ in range(2):  # what is interrupted waits no more
            await client.speak(sentence)
            await client.speak(sentence)
            await client.until("SpeechStarted")
            await client.say("Interrupt")
            await client.until("SpeechInterrupted")
        await client.speak(sentence)
        await client.until("SpeechStarted")
        for _ in range(2):
            await client.speak(sentence)
        assert (await client.until("Warning"))[1]["code"] == "TEXT_QUEUE_FULL"
        await client.say("Flush")
        for _ in range(2):
            await client.speak("x")
            await client.say("Flush")
        assert (await client.until("Warning"))[1]["code"] == "FLUSH_QUEUE_FULL"
        Held.may.release(1000)
        audio, metadata = await client.until("SpeechMetadata")
        assert audio == tones(sentence * 2)
        assert metadata["input_character_count"] == 2 * len(sentence)


async def test_a_turn_that_is_too_long_is_bounded_and_the_next_one_spoken(served, monkeypatch):
    monkeypatch.setattr("partway.container.models.voice.wires.flux_speak_turns.MAX_ANSWER", 10)
    async with talking(served) as client:
        for text in ("Hello ", "there ", "you."):
            await client.speak(text)
        assert (await client.until("Warning"))[1]["code"] == "TURN_TOO_LONG"
        for text in ("", "Another."):
            await client.speak(text)
            await client.say("Flush")
            audio, _ = await turn(client)
            assert audio == tones(text or "Hello you.")


async def test_the_spaces_of_turns_that_wait_are_bounded(held, monkeypatch):
    monkeypatch.setattr("partway.container.models.voice.wires.flux_speak.MAX_UNSPOKEN", 100)
    async with talking(held) as client:
        await client.speak("This turn is spoken.")
        await client.say("Flush")
        await client.until("SpeechStarted")
        for size in (50, 50, 1):
            await client.speak(" " * size)
        assert (await client.until("Warning"))[1]["code"] == "TEXT_QUEUE_FULL"
        Held.may.release(1000)
        await client.until("SpeechMetadata")


async def test_a_query_out_of_range_is_refused_and_a_container_of_audio_is_ignored(served, caplog):
    with pytest.raises(InvalidStatus) as refused:
        async with served.stream("v2/speak", {"encoding": "mp3"}):
            pass
    assert refused.value.response.status_code == 400
    caplog.set_level("INFO", "partway.container.voice")
    async with talking(served, container="wav", expressivity="1") as client:
        await client.speak("Hello")
        await client.say("Flush")
        assert (await turn(client))[0] == tones("Hello")
    assert "path=v2/speak names=" in caplog.text
    assert "expressivity, container" in caplog.text


async def test_without_an_engine():
    async with serving(Voice(VoiceSettings(turns="stub"))) as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.stream("v2/speak"):
                pass
        assert refused.value.response.status_code == 501
