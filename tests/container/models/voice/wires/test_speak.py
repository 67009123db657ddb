"""partway.container.models.voice.wires.speak: a served stream, with the stub for a voice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from partway.container.errors import ModelError
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving

HERE = f"{__name__}:"
SETTINGS = VoiceSettings(speaks="stub", turns="stub")


class Held(StubSpeech):
    """Speaks as the stub does, each word when it may; notes what it does."""

    may: threading.Semaphore
    begun: list[str]
    closed: threading.Event

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        self.begun.append(text)
        try:
            for samples in super().speak(text * (1000 if "endless" in text else 1), options):
                assert self.may.acquire(timeout=30)
                if "fail" in text:
                    raise ModelError("no voice for it")
                if "break" in text:
                    raise RuntimeError("of nobody's concern")
                yield samples
        finally:
            self.closed.set()


@pytest.fixture
async def served(anyio_backend) -> AsyncIterator[Served]:
    async with serving(Voice(SETTINGS)) as served:
        yield served


@pytest.fixture
async def held(anyio_backend, monkeypatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(Held, "may", threading.Semaphore(0), raising=False)
    monkeypatch.setattr(Held, "begun", [], raising=False)
    monkeypatch.setattr(Held, "closed", threading.Event(), raising=False)
    async with serving(Voice(VoiceSettings(speaks=f"{HERE}Held", turns="stub"))) as served:
        yield served
        Held.may.release(1000)


class Client:
    def __init__(self, socket: Any) -> None:
        self._socket = socket

    async def say(self, kind: str, **members: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **members}))

    async def speak(self, text: str) -> None:
        await self.say("Speak", text=text)

    async def receive(self) -> bytes | dict[str, Any]:
        async with asyncio.timeout(30):
            message = await self._socket.recv()
        return message if isinstance(message, bytes) else json.loads(message)

    async def until(self, kind: str) -> tuple[bytes, dict[str, Any]]:
        """The audio before an event, and the event; another event is a fault."""
        audio = b""
        while isinstance(message := await self.receive(), bytes):
            audio += message
        assert message["type"] == kind, message
        return audio, message

    async def closed(self) -> tuple[bytes, int]:
        audio = b""
        with suppress(ConnectionClosed):
            while isinstance(message := await self.receive(), bytes):
                audio += message
        return audio, self._socket.close_code

    def abort(self) -> None:
        self._socket.transport.abort()


@asynccontextmanager
async def talking(served: Served, **query: str) -> AsyncIterator[Client]:
    async with served.stream("v1/speak", query) as socket:
        client = Client(socket)
        assert (await client.until("Metadata"))[0] == b""
        yield client


def tones(text: str, speed: float = 1.0) -> bytes:
    return np.concatenate(list(StubSpeech().speak(text, SpeakingOptions(speed=speed)))).tobytes()


async def test_text_that_comes_word_by_word(served):
    """As LiveKit sends it; the segments follow each other on one stream."""
    text = "Hello there my friend. This is the second sentence, which is the last one."
    async with talking(served, encoding="linear16", sample_rate="24000") as client:
        for number in range(2):
            for word in text.split():
                await client.speak(f"{word} ")
            await client.say("Flush")
            audio, flushed = await client.until("Flushed")
            assert audio == tones(text)
            assert flushed == {"type": "Flushed", "sequence_id": number}


async def test_a_phrase_is_spoken_before_its_flush(served):
    async with talking(served) as client:
        await client.speak("The first sentence. The sec")
        audio = await client.receive()
        assert isinstance(audio, bytes)
        await client.speak("ond one.")
        await client.say("Flush")
        rest, _ = await client.until("Flushed")
        assert audio + rest == tones("The first sentence. The second one.")


async def test_a_flush_without_text(served):
    async with talking(served) as client:
        await client.say("Flush")
        assert await client.until("Flushed") == (b"", {"type": "Flushed", "sequence_id": 0})


async def test_nothing_is_lost_at_the_end(served):
    async with talking(served) as client:
        await client.speak("The first sentence. And more")
        await client.say("Close")
        assert await client.closed() == (tones("The first sentence. And more"), 1000)


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ({"sample_rate": "48000"}, 4),
        ({"sample_rate": "8000"}, 2 / 3),
        ({"encoding": "mulaw"}, 1 / 3),
        ({"encoding": "alaw", "sample_rate": "16000"}, 2 / 3),
    ],
)
async def test_formats(query, size, served):
    async with talking(served, **query) as client:
        await client.speak("Hello there")
        await client.say("Flush")
        audio, _ = await client.until("Flushed")
        assert len(audio) == pytest.approx(len(tones("Hello there")) / 2 * size, abs=8)


async def test_a_wav_container_begins_once(served):
    async with talking(served, container="wav", encoding="mulaw") as client:
        for first in (True, False):
            await client.speak("Hello")
            await client.say("Flush")
            audio, _ = await client.until("Flushed")
            assert audio.startswith(b"RIFF\xff\xff\xff\xffWAVEfmt ") == first


async def test_speed_and_parameters_without_effect(served, caplog):
    caplog.set_level("INFO", "partway.container.voice")
    query = {"speed": "2", "model": "aura-2-helena-en", "mip_opt_out": "true", "bit_rate": "1"}
    async with talking(served, **query) as client:
        await client.speak("Hello")
        await client.say("Flush")
        assert (await client.until("Flushed"))[0] == tones("Hello", speed=2.0)
    assert "parameters are ignored path=v1/speak names=" in caplog.text
    assert "bit_rate, mip_opt_out" in caplog.text


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"encoding": "mp3"}, "encoding is 'mp3'; it must be one of linear16, mulaw, alaw"),
        ({"sample_rate": "x"}, "sample_rate is 'x'; it must be a whole number"),
        ({"sample_rate": "96000"}, "sample_rate: 96000 was given; it must be 8000 to 48000"),
        ({"container": "ogg"}, "container is 'ogg'; it must be one of none, wav"),
        ({"speed": "9"}, "speed is '9'; it must be a number from 0.25 to 4"),
        ({"speed": "nan"}, "speed is 'nan'; it must be a number from 0.25 to 4"),
    ],
)
async def test_queries_that_are_refused(query, reason, served):
    with pytest.raises(InvalidStatus) as refused:
        async with served.stream("v1/speak", query):
            pass
    assert refused.value.response.status_code == 400
    assert reason in refused.value.response.body.decode()


async def test_without_an_engine():
    async with serving(Voice(VoiceSettings(turns="stub"))) as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.stream("v1/speak"):
                pass
        assert refused.value.response.status_code == 501
        assert b"PARTWAY_VOICE_SPEAKS" in refused.value.response.body


async def test_clear_ends_the_audio(held):
    async with talking(held) as client:
        await client.speak("One phrase of many words. And a second phrase follows. And the r")
        await client.say("Flush")
        Held.may.release()
        assert isinstance(await client.receive(), bytes)
        await client.say("Clear")
        audio, cleared = await client.until("Cleared")
        assert audio == b""
        assert cleared == {"type": "Cleared", "sequence_id": 0}
        Held.may.release(1000)  # the abandoned phrase ends at its next piece
        await client.speak("Something else.")
        await client.say("Flush")
        audio, flushed = await client.until("Flushed")
        assert audio == tones("Something else.")
        assert flushed["sequence_id"] == 1
        await client.say("Clear")
        assert (await client.until("Cleared"))[1]["sequence_id"] == 1
    assert Held.begun == ["One phrase of many words.", "Something else."]


async def test_clear_drops_text_that_is_no_phrase_yet(served):
    async with talking(served) as client:
        await client.speak("Forget")
        await client.say("Clear")
        await client.until("Cleared")
        await client.speak("it all.")
        await client.say("Flush")
        assert (await client.until("Flushed"))[0] == tones("it all.")


async def test_a_client_that_leaves_ends_its_phrase(held):
    async with talking(held) as client:
        await client.speak("An endless phrase. And another one. ")
        Held.may.release()
        assert isinstance(await client.receive(), bytes)
        client.abort()
    async with asyncio.timeout(30):
        while not Held.closed.is_set():
            Held.may.release()
            await asyncio.sleep(0.001)
    assert Held.begun == ["An endless phrase."]


@pytest.mark.parametrize(
    ("verb", "reason"),
    [("fail", "no voice for it"), ("break", "the model failed: RuntimeError")],
)
async def test_a_phrase_that_fails_is_named_and_the_stream_goes_on(verb, reason, held):
    Held.may.release(1000)
    async with talking(held) as client:
        await client.speak(f"This must {verb}. Then the next. ")
        await client.say("Flush")
        audio, error = await client.until("Error")
        assert audio == b""
        assert error["description"] == f"a phrase is not spoken to its end: {reason}"
        audio, _ = await client.until("Flushed")
        assert audio == tones("Then the next.")


async def test_messages_that_are_refused_lose_nothing(served):
    async with talking(served) as client:
        await client.speak("Hello ")
        await client.speak("x" * 2001)
        assert (await client.until("Error"))[1]["variant"] == "DATA-0001"
        await client.say("Shout")
        assert (await client.until("Error"))[1]["variant"] == "DATA-0000"
        await client.say("Flush")
        assert (await client.until("Flushed"))[0] == tones("Hello")


async def test_text_and_flushes_that_wait_are_bounded(held, monkeypatch):
    module = "partway.container.models.voice.wires.text_speaker"
    monkeypatch.setattr(f"{module}.MAX_UNSPOKEN", 100)
    monkeypatch.setattr(f"{module}.MAX_UNSPOKEN_FLUSHES", 2)
    async with talking(held) as client:
        sentence = "This has forty-five characters, or a few more. "
        await client.speak(sentence)
        await client.speak(sentence)
        await client.speak(sentence)
        assert (await client.until("Warning"))[1]["code"] == "TEXT_QUEUE_FULL"
        for _ in range(3):
            await client.say("Flush")
        assert (await client.until("Warning"))[1]["code"] == "FLUSH_QUEUE_FULL"
        Held.may.release(1000)
        audio, _ = await client.until("Flushed")
        assert audio == tones(sentence * 2)
        await client.until("Flushed")
        await client.speak(sentence)
        await client.say("Flush")
        assert (await client.until("Flushed"))[0] == tones(sentence)
