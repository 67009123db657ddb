"""partway.container.models.voice.wires.speech_stream: speech as vLLM-Omni's clients ask for it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.wires.speech_stream import PATH
from tests.container.models.voice.programs import install
from tests.container.models.voice.wires.failing_engines import BREAKS_FIRST, SPEAKS_SECOND
from tests.container.models.voice.wires.json_client import PATIENCE, JsonClient, client, voice

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TWO = "Hello from a gateway. It speaks again."
STREAMED = {"response_format": "pcm", "stream_audio": True}


class SpeaksHalf(StubSpeech):
    """Notes the wishes of each text, and breaks off in a text that says so."""

    wishes: list[SpeakingOptions] = []  # noqa: RUF012

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        self.wishes.append(options)
        yield np.ones(3 * self.rate, np.int16)
        if "half" in text:
            raise RuntimeError("of nobody's concern")


HALF = f"{__name__}:SpeaksHalf"


class Endless(StubSpeech):
    """Speaks a text that says so until its generator is closed."""

    closed = threading.Event()

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        try:
            while "endless" in text:
                yield np.ones(self.rate, np.int16)
            yield from super().speak(text, options)
        finally:
            if "endless" in text:
                self.closed.set()


@dataclass
class Utterance:
    """The events of an utterance, and the audio of each of its sentences."""

    events: list[dict[str, Any]]
    audio: list[list[bytes]]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def whole(self) -> list[bytes]:
        return [b"".join(messages) for messages in self.audio]


class SpeechClient(JsonClient):
    """Sends JSON, and takes JSON and binary messages."""

    async def receive(self) -> bytes | dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            message = await self.connection.recv()
        return message if isinstance(message, bytes) else json.loads(message)

    async def say(self, *texts: str) -> Utterance:
        """Send an utterance, and take its answer."""
        for text in texts:
            await self.send("input.text", text=text)
        await self.send("input.done")
        return await self.utterance()

    async def utterance(self) -> Utterance:
        got = Utterance([], [])
        while "session.done" not in got.kinds:
            message = await self.receive()
            if isinstance(message, bytes):
                got.audio[-1].append(message)
                continue
            got.events.append(message)
            if message["type"] == "audio.start":
                got.audio.append([])
        return got


@asynccontextmanager
async def talking(config: dict[str, Any], **settings: Any) -> AsyncIterator[SpeechClient]:
    """A client whose session is configured."""
    async with voice(**settings) as served, served.stream(PATH) as connection:
        talker = SpeechClient(connection)
        await talker.send("session.config", **config)
        yield talker


def tones(text: str, speed: float = 1.0) -> bytes:
    return np.concatenate(list(StubSpeech().speak(text, SpeakingOptions(speed=speed)))).tobytes()


async def test_streamed_audio_has_its_events_in_order():
    async with talking(STREAMED) as stream:
        got = await stream.say(TWO)
    audio = tones(TWO)
    place = {"utterance_index": 0, "sentence_index": 0}
    assert got.events == [
        {
            "type": "audio.start",
            **place,
            "sentence_text": TWO,
            "format": "pcm",
            "sample_rate": 24_000,
        },
        {"type": "audio.done", **place, "total_bytes": len(audio), "error": False},
        {"type": "session.done", "utterance_index": 0, "total_sentences": 1},
    ]
    assert got.whole == [audio]
    assert len(got.audio[0]) > 1
    assert all(len(data) % 2 == 0 for data in got.audio[0])  # clients read samples


async def test_utterances_follow_each_other_on_a_stream():
    async with talking(STREAMED) as stream:
        assert (await stream.say("Hello ", "from ", "a gateway.")).whole == [
            tones("Hello from a gateway.")
        ]
        again = await stream.say("Again.")
        assert again.whole == [tones("Again.")]
        assert {event["utterance_index"] for event in again.events} == {1}
        empty = await stream.say("  ")
        assert empty.events == [
            {"type": "session.done", "utterance_index": 2, "total_sentences": 0}
        ]


async def test_a_long_utterance_is_one_sentence_where_audio_is_streamed():
    text = "Hello from a gateway. " * 20
    async with talking(STREAMED) as stream:
        got = await stream.say(text)
    assert got.events[-1]["total_sentences"] == 1
    assert got.whole == [tones(text)]


@pytest.mark.parametrize("granularity", ["sentence", "clause"])
async def test_a_sentence_is_spoken_before_the_end_of_its_utterance(granularity):
    async with talking(STREAMED | {"split_granularity": granularity}) as stream:
        await stream.send("input.text", text="Hello from a gateway. It spe")
        started = await stream.receive()
        assert started["sentence_text"] == "Hello from a gateway."
        while not (isinstance(said := await stream.receive(), dict)):
            pass
        assert said["type"] == "audio.done"
        rest = await stream.say("aks again.")
        assert rest.events[0]["sentence_text"] == "It speaks again."
        assert rest.events[0]["sentence_index"] == 1
        assert rest.events[-1]["total_sentences"] == 2


async def test_without_stream_audio_a_message_is_a_file():
    async with talking({}) as stream:
        got = await stream.say(TWO)
    ((file,),) = got.audio
    with wave.open(io.BytesIO(file)) as read:
        assert (read.getframerate(), read.getnchannels()) == (24_000, 1)
        assert read.readframes(read.getnframes()) == tones(TWO)
    assert got.events[0]["format"] == "wav"
    assert "sample_rate" not in got.events[0]
    assert got.of("audio.done")[0]["total_bytes"] == len(file)


async def test_a_long_text_is_several_files():
    text = "Hello from a gateway. " * 20
    async with talking({"response_format": "pcm"}) as stream:
        got = await stream.say(text)
    assert len(got.audio) > 1
    assert all(len(messages) == 1 for messages in got.audio)
    assert b"".join(got.whole) == tones(text)


async def test_a_file_that_is_too_long_is_refused_and_the_next_one_sent(monkeypatch):
    module = "partway.container.models.voice.wires.speech_stream"
    monkeypatch.setattr(f"{module}.MAX_SPEECH_FILE", 60_000)
    async with talking({}) as stream:
        got = await stream.say(TWO)
        assert got.kinds == ["audio.start", "error", "audio.done", "session.done"]
        assert "60000 bytes" in got.events[1]["message"]
        assert "stream_audio" in got.events[1]["message"]
        assert "action" not in got.events[1]  # nothing was sent
        assert (got.events[2]["error"], got.events[2]["total_bytes"]) == (True, 0)
        assert (await stream.say("Hi.")).kinds == ["audio.start", "audio.done", "session.done"]


async def test_a_compressed_format_is_made_by_ffmpeg(monkeypatch, tmp_path):
    code = "import sys\nsys.stdout.buffer.write(b'mp3:' + sys.stdin.buffer.read()[::-1])\n"
    install(tmp_path, monkeypatch, "ffmpeg", code)
    async with talking({"response_format": "mp3"}) as stream:
        got = await stream.say("Hello.")
    assert got.audio == [[b"mp3:" + tones("Hello.")[::-1]]]
    assert got.events[0]["format"] == "mp3"


async def test_audio_in_json_ends_with_an_empty_chunk():
    async with talking(STREAMED | {"word_timestamps": True}) as stream:
        got = await stream.say(TWO)
    assert got.audio == [[]]
    assert got.events[0]["word_timestamps"] is True
    *chunks, last = got.of("audio.chunk")
    assert b"".join(base64.b64decode(chunk["audio_b64"]) for chunk in chunks) == tones(TWO)
    assert [chunk["chunk_id"] for chunk in [*chunks, last]] == list(range(len(chunks) + 1))
    assert chunks[0]["chunk_start_ms"] == 0
    for one, following in pairwise(chunks):
        assert one["chunk_end_ms"] == following["chunk_start_ms"]
    duration = round(1000 * len(tones(TWO)) / 48_000)
    assert chunks[-1]["chunk_end_ms"] == duration
    assert last == {
        "type": "audio.chunk",
        "utterance_index": 0,
        "sentence_index": 0,
        "chunk_id": len(chunks),
        "chunk_start_ms": 0,
        "chunk_end_ms": duration,
        "sample_rate": 24_000,
        "audio_b64": "",
        "timestamps": None,
    }


@pytest.mark.parametrize(
    ("wish", "options"),
    [
        ({"voice": "af_heart"}, SpeakingOptions(voice="af_heart")),
        ({"speaker": "vivian", "language": "English"}, SpeakingOptions("vivian", 1.0, "en")),
        ({"language": "Auto"}, SpeakingOptions()),
        ({"language": "pt-BR", "speed": 2}, SpeakingOptions("", 2.0, "pt")),
    ],
)
async def test_the_configuration_reaches_the_engine(wish, options, monkeypatch):
    monkeypatch.setattr(SpeaksHalf, "wishes", [])
    async with talking(STREAMED | wish, speaks=HALF) as stream:
        await stream.say("Hello.")
    assert SpeaksHalf.wishes == [options]


async def test_a_configuration_may_change_between_utterances(caplog):
    caplog.set_level("INFO", "partway.container.voice")
    async with talking({"model": "any", "task_type": "Base"}) as stream:
        await stream.send("input.text", text="")  # begins no utterance
        await stream.send("session.config", task_type="Base", **STREAMED)
        await stream.send("input.text", text="Hello.")
        await stream.send("session.config", speed=2, **STREAMED)
        refused = await stream.receive()
        assert "input.done" in refused["message"]
        assert (await stream.say()).whole == [tones("Hello.")]
        await stream.send("session.config", speed=2, task_type="Base", **STREAMED)
        assert (await stream.say("Hello.")).whole == [tones("Hello.", 2.0)]
    noted = [line for line in caplog.text.splitlines() if "session.config has no effect" in line]
    assert len(noted) == 1
    assert "task_type" in noted[0]


@pytest.mark.parametrize(
    ("kind", "members", "named"),
    [
        ("session.config", {"response_format": "ogg"}, "response_format is 'ogg'"),
        ("session.config", {"stream_audio": True, "response_format": "wav"}, "must be pcm"),
        ("session.config", {"stream_audio": "yes"}, "stream_audio is 'yes'"),
        ("session.config", {"word_timestamps": True}, "set stream_audio too"),
        ("session.config", {"speed": 9}, "speed is 9"),
        ("session.config", {"split_granularity": "word"}, "split_granularity is 'word'"),
        ("session.config", {"voice": "v" * 600}, "voice has 600 characters"),
        ("session.config", {"response_format": "mp3"}, "ffmpeg"),
        ("input.text", {"text": 7}, "text is 7"),
        ("input.text", {"text": "a" * 32_769}, "32769 characters"),
        ("input.nothing", {}, "type is 'input.nothing'"),
    ],
)
async def test_a_refused_message_loses_nothing(kind, members, named, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    async with talking(STREAMED) as stream:
        if not kind.startswith("session"):
            await stream.send("input.text", text="Hello ")
        await stream.send(kind, **members)
        refused = await stream.receive()
        assert refused["type"] == "error"
        assert named in refused["message"]
        rest = "there." if not kind.startswith("session") else "Hello there."
        assert (await stream.say(rest)).whole == [tones("Hello there.")]


async def test_text_that_waits_is_bounded():
    async with talking(STREAMED) as stream:
        await stream.send("input.text", text="Hello. ")
        await stream.send("input.text", text="a" * 32_768)
        assert "32775 characters would wait" in (await stream.receive())["message"]
        assert (await stream.say()).whole == [tones("Hello.")]


@pytest.mark.parametrize("kind", ["input.text", "input.done"])
async def test_text_before_the_configuration_is_refused(kind):
    async with voice() as served, served.stream(PATH) as connection:
        stream = SpeechClient(connection)
        await stream.send(kind, text="Hello.")
        assert f"{kind} came before session.config" in (await stream.receive())["message"]
        await stream.connection.send(b"\xff")
        assert "JSON object" in (await stream.receive())["message"]
        await stream.send("session.config", **STREAMED)
        assert (await stream.say("Hello.")).whole == [tones("Hello.")]


@pytest.mark.parametrize(
    ("engine", "reason"), [(SPEAKS_SECOND, "the mouth is full"), (BREAKS_FIRST, "RuntimeError")]
)
async def test_a_sentence_that_fails_is_told_and_the_next_one_spoken(engine, reason):
    async with talking(STREAMED | {"split_granularity": "sentence"}, speaks=engine) as stream:
        got = await stream.say(TWO)
    assert got.kinds == [
        *("audio.start", "error", "audio.done"),
        *("audio.start", "audio.done", "session.done"),
    ]
    assert reason in got.events[1]["message"]
    assert [event["error"] for event in got.of("audio.done")] == [True, False]
    assert got.whole == [b"", tones("It speaks again.")]
    assert got.events[-1]["total_sentences"] == 2


async def test_a_message_has_a_second_of_audio_at_most():
    async with talking(STREAMED, speaks=HALF) as stream:
        assert [len(data) for data in (await stream.say("Hello.")).audio[0]] == [48_000] * 3


async def test_audio_that_breaks_off_is_to_be_discarded():
    async with talking(STREAMED, speaks=HALF) as stream:
        got = await stream.say("Only half of it.")
    (failed,) = got.of("error")
    assert (failed["partial_audio"], failed["action"]) == (True, "discard")
    assert got.of("audio.done")[0]["total_bytes"] == len(got.whole[0]) > 0


async def test_a_close_ends_the_stream_at_once():
    async with talking(STREAMED) as stream:
        await stream.send("input.text", text="Never spoken.")
        await stream.send("session.close")
        assert await stream.rest() == []
        assert stream.connection.close_code == 1000


async def test_the_end_of_the_input_has_the_rest_spoken():
    async with talking(STREAMED | {"word_timestamps": True}) as stream:
        await stream.send("input.text", text="Hello.")
        closing = asyncio.create_task(stream.connection.close())
        events = await stream.rest()
        await closing
    audio = b"".join(base64.b64decode(event.get("audio_b64", "")) for event in events)
    assert audio == tones("Hello.")
    assert events[-1]["type"] == "session.done"


async def test_a_client_that_leaves_ends_its_sentence(monkeypatch):
    monkeypatch.setattr(Endless, "closed", threading.Event())
    async with voice(speaks=f"{__name__}:Endless", speaking_threads=1) as served:
        async with served.stream(PATH) as connection:
            leaving = SpeechClient(connection)
            await leaving.send("session.config", **STREAMED)
            await leaving.send("input.text", text="An endless sentence.")
            await leaving.send("input.done")
            assert (await leaving.receive())["type"] == "audio.start"
            assert isinstance(await leaving.receive(), bytes)
            connection.transport.abort()
        async with served.stream(PATH) as connection:
            stream = SpeechClient(connection)
            await stream.send("session.config", **STREAMED)
            assert (await stream.say("Hello.")).whole == [tones("Hello.")]
        assert Endless.closed.is_set()


async def test_without_an_engine():
    async with voice(speaks="") as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.stream(PATH):
                pass
    assert refused.value.response.status_code == 501
    assert b"PARTWAY_VOICE_SPEAKS" in refused.value.response.body


async def test_it_is_spoken_on_the_default_path():
    """AWS's sample for Voxtral TTS names no path, and ignores ``session.created``."""
    async with client() as opened:
        stream = SpeechClient(opened.connection)
        await stream.send("session.config", model="any", voice="casual_male", response_format="wav")
        got = await stream.say(TWO)
    assert got.kinds == ["session.created", "audio.start", "audio.done", "session.done"]
    assert got.whole[0].endswith(tones(TWO))
