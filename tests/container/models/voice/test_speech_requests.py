"""partway.container.models.voice.speech_requests: OpenAI's requests, with the stub for a voice."""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice import speech_requests
from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.speech_requests import read_speech_request
from partway.container.testing import Served, serving
from tests.container.models.voice.programs import install

TEXT = "Hello there my friend. And here is some more."
SETTINGS = VoiceSettings(speaks="stub", turns="stub")

#: Writes its options, then its input backwards.
FFMPEG = """
import sys
CODE
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(" ".join(sys.argv[1:]).encode() + b"|" + data[::-1])
"""


class Failing(StubSpeech):
    """Fails before its audio, or after it."""

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        if "early" not in text:
            yield np.ones(self.rate, np.int16)
        raise ModelError("no voice for it")


@dataclass
class Got:
    status: int
    content_type: str
    length: str | None
    body: bytes

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


async def ask(served: Served, /, **members: Any) -> Got:
    body = json.dumps({"input": TEXT, "model": "tts-1", "voice": "alloy", **members})
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/audio/speech", data=body) as answer,
    ):
        length = answer.headers.get("Content-Length")
        return Got(answer.status, answer.headers["Content-Type"], length, await answer.read())


def tones(text: str = TEXT, speed: float = 1.0) -> bytes:
    return np.concatenate(list(StubSpeech().speak(text, SpeakingOptions(speed=speed)))).tobytes()


@pytest.fixture
async def served(anyio_backend, monkeypatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("PATH", "/nowhere")  # there is no ffmpeg
    async with serving(Voice(SETTINGS)) as served:
        yield served


async def test_pcm_comes_in_chunks(served):
    got = await ask(served, response_format="pcm")
    assert (got.status, got.content_type, got.length) == (200, "audio/pcm", None)
    assert got.body == tones()


@pytest.mark.parametrize("format_name", ["wav", None])
async def test_a_whole_wav(format_name, served):
    got = await ask(served, response_format=format_name)
    assert (got.content_type, got.length) == ("audio/wav", str(len(got.body)))
    with wave.open(io.BytesIO(got.body)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(file.getnframes()) == tones()


@pytest.mark.parametrize("asked", ["audio", "a long text"])
async def test_a_wav_in_chunks(asked, served, monkeypatch):
    if asked == "audio":
        got = await ask(served, response_format="wav", stream_format="audio")
    else:
        monkeypatch.setattr(speech_requests, "MAX_WHOLE_WAV", 50_000)
        got = await ask(served, response_format="wav")
    assert (got.content_type, got.length) == ("audio/wav", None)
    assert got.body[:8] == b"RIFF\xff\xff\xff\xff"
    assert got.body[44:] == tones()


async def test_events(served):
    got = await ask(served, response_format="pcm", stream_format="sse")
    assert got.content_type == "text/event-stream"
    lines = [line.removeprefix(b"data: ") for line in got.body.split(b"\n\n")[:-1]]
    *deltas, done = map(json.loads, lines)
    assert done["type"] == "speech.audio.done"
    assert set(done["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}
    assert {each["type"] for each in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(each["audio"]) for each in deltas) == tones()


async def test_options(served):
    got = await ask(
        served, response_format="pcm", speed=2, voice={"id": "x"}, instructions="softly"
    )
    assert got.body == tones(speed=2)


@pytest.mark.parametrize("format_name", ["mp3", "opus", "aac", "flac"])
async def test_other_formats_need_ffmpeg(format_name, served):
    got = await ask(served, response_format=format_name)
    assert got.status == 400
    assert got.error.startswith(f"response_format is '{format_name}', which needs ffmpeg")
    assert got.error.endswith("it must be pcm or wav")


@pytest.mark.parametrize(
    ("format_name", "content_type", "options"),
    [
        ("mp3", "audio/mpeg", "-f mp3"),
        (None, "audio/mpeg", "-f mp3"),
        ("opus", "audio/ogg", "-c:a libopus -f ogg"),
        ("aac", "audio/aac", "-c:a aac -f adts"),
        ("flac", "audio/flac", "-f flac"),
    ],
)
async def test_other_formats_by_ffmpeg(
    format_name, content_type, options, anyio_backend, tmp_path, monkeypatch
):
    install(tmp_path, monkeypatch, "ffmpeg", FFMPEG)
    async with serving(Voice(SETTINGS)) as served:
        got = await ask(served, response_format=format_name)
    assert got.content_type == content_type
    command, _, audio = got.body.partition(b"|")
    assert command.decode() == (
        f"-hide_banner -loglevel error -f s16le -ar 24000 -ac 1 -i pipe:0 {options} pipe:1"
    )
    assert audio[::-1] == tones()


async def test_ffmpeg_is_looked_for_once(served, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "ffmpeg", FFMPEG)
    assert (await ask(served, response_format="mp3")).status == 400
    assert (await ask(served)).content_type == "audio/wav"


async def test_a_failing_ffmpeg(anyio_backend, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "ffmpeg", FFMPEG, "sys.exit('no such encoder')")
    async with serving(Voice(SETTINGS)) as served:
        got = await ask(served, response_format="mp3")
    assert (got.status, got.error) == (500, "ffmpeg has ended with status 1: no such encoder")


@pytest.fixture
async def failing(anyio_backend) -> AsyncIterator[Served]:
    async with serving(Voice(VoiceSettings(speaks=f"{__name__}:Failing", turns="stub"))) as served:
        yield served


@pytest.mark.parametrize("format_name", ["pcm", "wav"])
async def test_a_failure_before_the_audio_has_a_status(format_name, failing):
    got = await ask(failing, response_format=format_name, input="early")
    assert (got.status, got.error) == (500, "no voice for it")


async def test_a_failure_amid_the_audio(failing):
    got = await ask(failing, response_format="pcm", stream_format="sse")
    assert got.body.startswith(b'data: {"type":"speech.audio.delta"')
    assert b'data: {"error":{"message":"no voice for it"' in got.body
    with pytest.raises(aiohttp.ClientPayloadError):
        await ask(failing, response_format="pcm")
    assert (await ask(failing, response_format="wav")).status == 500


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"input": ""}, "input has 0 characters; it must have 1 to 4096"),
        ({"input": None}, "input is missing; it must be a string of 1 to 4096 characters"),
        ({"input": "x" * 4097}, "input has 4097 characters; it must have 1 to 4096"),
        ({"input": ["x"]}, "input is ['x']; it must be a string"),
        ({"voice": 5}, "voice is 5; it must be a string"),
        ({"voice": "x" * 513}, "voice has 513 characters; it must have at most 512"),
        ({"voice": {"id": 5}}, "voice.id is 5; it must be a string"),
        ({"response_format": "midi"}, "response_format is 'midi'; it must be one of pcm, wav, mp3"),
        ({"stream_format": "x"}, "stream_format is 'x'; it must be one of audio, sse"),
        ({"speed": 5}, "speed is 5; it must be a number from 0.25 to 4"),
        ({"speed": True}, "speed is True; it must be a number from 0.25 to 4"),
        ({"speed": 10**400}, "it must be a number from 0.25 to 4"),
    ],
)
def test_requests_that_are_refused(members, reason):
    with pytest.raises(ModelError) as refused:
        read_speech_request(json.dumps({"input": "x", **members}).encode())
    assert reason in refused.value.reason
    assert refused.value.status == 400


@pytest.mark.parametrize(("body", "status"), [(b"[]", 400), (b"\xff", 400), (b" " * 70_000, 413)])
async def test_bodies_that_are_refused(body, status, served):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/audio/speech", data=body) as answer,
    ):
        assert answer.status == status
        assert (await answer.json())["error"]["type"] == "invalid_request_error"


async def test_bodies_that_arrive_are_bounded(served, monkeypatch):
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 1_000)
    got = await ask(served, input="x" * 1_000)
    assert got.status == 503
    assert got.error.startswith("the bodies of all requests under way exceed")
    for _ in range(2):  # the bytes are free for the next
        assert (await ask(served, input="x" * 900)).status == 200


async def test_without_an_engine(anyio_backend):
    async with serving(Voice(VoiceSettings(turns="stub"))) as served:
        got = await ask(served)
        assert got.status == 501
        assert "set PARTWAY_VOICE_SPEAKS, such as espeak-ng" in got.error
