"""partway.container.models.voice.transcription_requests: OpenAI's requests, heard by the stub."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.programs import install
from tests.container.models.voice.sounds import sounds, tone
from tests.container.models.voice.test_wav_files import written

WAV = written(sounds(0.5, 0.8, 0.2).tobytes(), 2)

SETTINGS = VoiceSettings(hears="stub", turns="stub")

#: Writes a tone, unless its input says otherwise; its options go to stderr.
FFMPEG = """
import pathlib, sys
name = sys.argv[sys.argv.index("-i") + 1].removeprefix("file:")
data = pathlib.Path(name).read_bytes()
if data == b"bad":
    sys.exit(f"{name}: Invalid data found")
sys.stdout.buffer.write(data[3:])
"""


@dataclass
class Got:
    status: int
    content_type: str
    text: str

    @property
    def error(self) -> str:
        return str(json.loads(self.text)["error"]["message"])


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setenv("PATH", "/nowhere")  # there is no ffmpeg
    async with serving(Voice(SETTINGS)) as found:
        yield found


async def ask(served: Served, *fields: tuple[str, str], file: bytes | None = WAV) -> Got:
    form = aiohttp.FormData(default_to_multipart=True)
    if file is not None:
        form.add_field("file", file, filename="a.wav", content_type="audio/wav")
    for name, value in fields:
        form.add_field(name, value)
    url = f"{served.url}/v1/audio/transcriptions"
    async with aiohttp.ClientSession() as session, session.post(url, data=form) as answer:
        return Got(answer.status, answer.headers["Content-Type"], await answer.text())


async def test_each_form_of_an_answer(served):
    plain = await ask(served, ("model", "whisper-1"))
    assert (plain.status, plain.content_type) == (200, "application/json")
    assert plain.text == '{"text":"one two","usage":{"type":"duration","seconds":2}}'
    text = await ask(served, ("response_format", "text"))
    assert (text.content_type, text.text) == ("text/plain; charset=utf-8", "one two\n")
    srt = await ask(served, ("response_format", "srt"))
    assert srt.text == "1\n00:00:00,500 --> 00:00:01,300\none two\n\n"
    vtt = await ask(served, ("response_format", "vtt"))
    assert vtt.text == "WEBVTT\n\n00:00:00.500 --> 00:00:01.300\none two\n\n"


async def test_verbose_json_has_times(served):
    verbose = ("response_format", "verbose_json")
    usual = json.loads((await ask(served, verbose, ("language", "de"))).text)
    assert (usual["language"], usual["duration"]) == ("de", 1.5)
    assert [(s["start"], s["end"]) for s in usual["segments"]] == [(0.5, 1.3)]
    assert "words" not in usual
    word = ("timestamp_granularities[]", "word")
    words = json.loads((await ask(served, verbose, word)).text)
    assert "segments" not in words
    assert words["words"] == [
        {"word": "one", "start": 0.5, "end": 0.9},
        {"word": "two", "start": 0.9, "end": 1.3},
    ]


async def test_a_long_file_is_heard_in_parts_with_times_from_its_beginning(served):
    audio = np.concatenate([sounds(1.0, 0.4, 25.0, 0.4, 11.0), sounds(0.0, 0.4, 1.0)])
    file = written(audio.tobytes(), 2)
    verbose = ("response_format", "verbose_json")
    word = ("timestamp_granularities[]", "word")
    found = json.loads((await ask(served, verbose, word, file=file)).text)
    assert found["text"].startswith("one")
    first, last = found["words"][0], found["words"][-1]
    assert (first["start"], last["end"]) == pytest.approx((1.0, 38.2), abs=0.03)
    assert last["start"] == pytest.approx(37.8, abs=0.05)
    streamed = await ask(served, ("stream", "true"), file=file)
    assert streamed.content_type == "text/event-stream"
    *deltas, done = [json.loads(line[6:]) for line in streamed.text.split("\n\n") if line]
    assert len(deltas) == 2
    assert {each["type"] for each in deltas} == {"transcript.text.delta"}
    assert "".join(each["delta"] for each in deltas) == found["text"] == done["text"]
    assert done["type"] == "transcript.text.done"


async def test_a_failure_is_an_answer_before_the_first_event_and_an_event_after_it(
    served, monkeypatch
):
    calls = []

    def hear(self: object, audio: object, options: Any) -> Transcript:
        calls.append(options.prompt)
        if len(calls) in (1, 3):
            raise ModelError("the ear is ill")
        return Transcript("some")

    monkeypatch.setattr(StubHearing, "hear", hear)
    file = written(tone(40.0).tobytes(), 2)
    fields = (("stream", "true"), ("prompt", "p"))
    early = await ask(served, *fields, file=file)
    assert (early.status, early.error) == (500, "the ear is ill")
    late = await ask(served, *fields, file=file)
    assert late.status == 200
    first, second = [json.loads(line[6:]) for line in late.text.split("\n\n") if line]
    assert first == {"type": "transcript.text.delta", "delta": "some"}
    assert second["error"]["message"] == "the ear is ill"
    assert calls == ["p"] * 3


@pytest.mark.parametrize(
    ("fields", "file", "says"),
    [
        ((), None, "the form has no file; it must have one, named file"),
        ((), b"", "file is empty; it must be an audio file"),
        ((), b"ID3", "file is no WAV file, and reading other kinds needs ffmpeg, which is not"),
        ((), b"RIFF    WAVE", "file: the WAV file has no data"),
        ((("response_format", "docx"),), WAV, "response_format is 'docx'; it must be one of json,"),
        ((("stream", "1"),), WAV, "stream is '1'; it must be one of true, false"),
        (
            (("stream", "true"), ("response_format", "srt")),
            *(WAV, "response_format is 'srt' with stream; it must be json or text"),
        ),
        (
            (("timestamp_granularities[]", "letter"),),
            *(WAV, "timestamp_granularities[] is 'letter'; it must be word or segment"),
        ),
        ((("prompt", "x" * 16_385),), WAV, "prompt has 16385 bytes; it must have at most 16384"),
        ((("a", "b"),) * 64, WAV, "the form has over 64 fields"),
    ],
)
async def test_what_is_wrong_is_named(served, fields, file, says):
    got = await ask(served, *fields, file=file)
    assert got.status == 400
    assert got.error.startswith(says)


@pytest.mark.parametrize(
    ("content_type", "body", "says"),
    [
        ("application/json", b"{}", "the content type is 'application/json'; it must be multipart"),
        ("multipart/form-data", b"x", "the body is no multipart/form-data: "),
        ("multipart/form-data; boundary=a", b"x", "the body is no multipart/form-data: "),
        ("multipart/form-data; boundary=a", b"--a\r\n\r\nx\r\n--a--", "a part of the form has no"),
        ("multipart/form-data; boundary=a", b"--a\r\nx\r\n\r\ny\r\n--a--", "a part of the form"),
    ],
)
async def test_a_body_that_is_no_form_is_named(served, content_type, body, says):
    url = f"{served.url}/v1/audio/transcriptions"
    headers = {"Content-Type": content_type}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["error"]["message"].startswith(says)


async def test_fields_without_effect_are_named_in_the_log(served, caplog):
    with caplog.at_level(logging.INFO, "partway.container.voice"):
        assert (await ask(served, ("temperature", "0"), ("include[]", "logprobs"))).status == 200
    (line,) = [each.message for each in caplog.records if "ignored" in each.message]
    assert "include[], temperature" in line


async def test_other_files_are_read_by_ffmpeg(anyio_backend, monkeypatch, tmp_path):
    install(tmp_path, monkeypatch, "ffmpeg", FFMPEG)
    async with serving(Voice(SETTINGS)) as served:
        got = await ask(served, file=b"ID3" + sounds(0.5, 0.8).tobytes())
        assert json.loads(got.text)["text"] == "one two"
        bad = await ask(served, file=b"bad")
    assert (bad.status, bad.error) == (
        400,
        "file is no audio file that ffmpeg reads: file: Invalid data found",
    )


async def test_a_body_and_its_audio_count_together(served, monkeypatch):
    file = written(tone(10.0).tobytes(), 2)  # at the rate of hearing, so its audio is as large
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 3 * len(file) // 2)
    got = await ask(served, file=file)
    assert (got.status, got.error[:24]) == (503, "the bodies of all reques")
    assert (await ask(served, file=written(tone(5.0).tobytes(), 2))).status == 200


async def test_audio_counts_until_its_answer_has_ended(served, monkeypatch):
    file = written(tone(40.0).tobytes(), 2)
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 5 * len(file) // 2)
    begun, may = threading.Semaphore(0), threading.Event()

    def hear(self: object, audio: object, options: Any) -> Transcript:
        begun.release()
        assert options.prompt != "wait" or may.wait(30)
        return Transcript("some")

    monkeypatch.setattr(StubHearing, "hear", hear)
    first = asyncio.create_task(ask(served, ("stream", "true"), ("prompt", "wait"), file=file))
    assert await asyncio.to_thread(begun.acquire, timeout=30)
    second = asyncio.create_task(ask(served, file=file))
    done, _ = await asyncio.wait((second,), timeout=10)
    may.set()
    assert done
    assert (second.result().status, second.result().error[:24]) == (503, "the bodies of all reques")
    assert "transcript.text.done" in (await first).text
    for fields in ((), (("stream", "true"),), ()):  # the bytes are free for the next
        assert (await ask(served, *fields, file=file)).status == 200


async def test_a_container_that_does_not_hear_names_the_setting():
    async with serving(Voice(VoiceSettings())) as served:
        got = await ask(served)
    assert got.status == 501
    assert got.error.startswith("v1/audio/transcriptions needs an engine that hears, and none is")
