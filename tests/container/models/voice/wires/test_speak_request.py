"""partway.container.models.voice.wires.speak_request: Deepgram's requests, with the stub."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import numpy as np
import pytest

from partway.container.models.voice.engines.stub_speech import StubSpeech
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.programs import install

TEXT = "Hello there my friend. And here is some more."
SETTINGS = VoiceSettings(speaks="stub", turns="stub")


def tones(text: str = TEXT) -> bytes:
    return np.concatenate(list(StubSpeech().speak(text, SpeakingOptions()))).tobytes()


@pytest.fixture
async def served(anyio_backend, monkeypatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("PATH", "/nowhere")  # there is no ffmpeg
    async with serving(Voice(SETTINGS)) as served:
        yield served


async def ask(served: Served, body: Any, **query: str) -> tuple[int, str, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/speak", params=query, data=data) as answer,
    ):
        return answer.status, answer.headers["Content-Type"], await answer.read()


async def test_audio_as_livekit_and_pipecat_ask_for_it(served):
    query = {"encoding": "linear16", "container": "none", "sample_rate": "24000", "bit_rate": "1"}
    got = await ask(served, {"text": TEXT}, **query, model="aura-2-helena-en", mip_opt_out="false")
    assert got == (200, "audio/l16;rate=24000", tones())


@pytest.mark.parametrize(
    ("query", "content_type", "tag", "size"),
    [
        ({}, "audio/wav", 1, 1),
        ({"encoding": "mulaw", "sample_rate": "8000.0"}, "audio/wav", 7, 1 / 6),
    ],
)
async def test_a_wav_is_usual(query, content_type, tag, size, served):
    status, kind, body = await ask(served, {"text": TEXT}, **query)
    assert (status, kind, body[:8], body[20]) == (200, content_type, b"RIFF\xff\xff\xff\xff", tag)
    assert len(body) - 44 == pytest.approx(len(tones()) * size, abs=8)


async def test_a_text_without_words_has_a_header(served):
    assert len((await ask(served, {"text": " "}))[2]) == 44


async def test_ffmpeg(served, tmp_path, monkeypatch):
    status, _, body = await ask(served, {"text": TEXT}, encoding="mp3")
    assert status == 400
    assert json.loads(body)["err_msg"].startswith("encoding is 'mp3', which needs ffmpeg")
    echo = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    install(tmp_path, monkeypatch, "ffmpeg", echo)
    async with serving(Voice(SETTINGS)) as equipped:
        for query in ({}, {"encoding": "mp3", "sample_rate": "48000", "container": "x"}):
            assert await ask(equipped, {"text": TEXT}, **query) == (200, "audio/mpeg", tones())


@pytest.mark.parametrize(
    ("body", "query", "status", "reason"),
    [
        ({}, {}, 400, "whose text is a string"),
        ({"text": 5}, {}, 400, "whose text is a string"),
        (b"\xff", {}, 400, "whose text is a string"),
        ({"text": "x" * 2001}, {}, 413, "2001 characters; it must have at most 2000"),
        (b" " * 70_000, {}, 413, "the body has 70000 bytes"),
        ({"text": "x"}, {"encoding": "midi"}, 400, "encoding is 'midi'; it must be one of"),
        ({"text": "x"}, {"sample_rate": "1"}, 400, "it must be 8000 to 48000"),
    ],
)
async def test_requests_that_are_refused(body, query, status, reason, served):
    got = await ask(served, body, **query)
    assert got[:2] == (status, "application/json")
    assert reason in json.loads(got[2])["err_msg"]


async def test_bodies_that_arrive_are_bounded(served, monkeypatch):
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 1_000)
    status, _, body = await ask(served, {"text": "x" * 1_000})
    assert status == 503
    assert json.loads(body)["err_msg"].startswith("the bodies of all requests under way exceed")
    for _ in range(2):  # the bytes are free for the next
        assert (await ask(served, {"text": "x" * 900}))[0] == 200


async def test_without_an_engine(anyio_backend):
    async with serving(Voice(VoiceSettings(turns="stub"))) as served:
        status, _, body = await ask(served, {"text": TEXT})
        assert status == 501
        assert b"PARTWAY_VOICE_SPEAKS" in body
