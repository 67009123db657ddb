"""partway.container.models.voice.wires.vllm_realtime: transcription as vLLM's clients ask."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.models.voice.wires import vllm_realtime
from tests.container.models.voice.sounds import silence, sounds
from tests.container.models.voice.wires.failing_engines import HEARS_SECOND
from tests.container.models.voice.wires.json_client import JsonClient, client

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def begin(stream: JsonClient) -> None:
    """Say what vLLM's clients say before their audio."""
    await stream.until("session.created")
    await stream.send("session.update", model="mistralai/Voxtral-Mini-4B-Realtime-2602")
    await stream.send("input_audio_buffer.commit")


async def test_an_utterance():
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.2, 1.2, 0.1))
        await stream.send("input_audio_buffer.commit", final=True)
        delta, done = await stream.until("transcription.done")
        assert (delta["type"], delta["delta"]) == ("transcription.delta", "one two three")
        assert (done["text"], done["usage"]) == ("one two three", None)


async def test_pauses_make_pieces_of_one_text():
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.4, 1.0, 0.8, 1.0))
        await stream.send("input_audio_buffer.commit", final=True)
        *deltas, done = await stream.until("transcription.done")
        assert [event["delta"] for event in deltas] == ["one", " one two"]
        assert done["text"] == "one one two"


async def test_one_utterance_after_another():
    async with client() as stream:
        await begin(stream)
        for words in ("one", "one two"):
            await stream.send("input_audio_buffer.commit", final=False)
            await stream.append(sounds(0.1, 0.4 * len(words.split()), 0.1))
            await stream.send("input_audio_buffer.commit", final=True)
            assert (await stream.until("transcription.done"))[-1]["text"] == words


async def test_silence_is_an_empty_text():
    async with client() as stream:
        await begin(stream)
        await stream.append(silence(0.5))
        await stream.send("input_audio_buffer.commit", final=True)
        assert (await stream.next())["text"] == ""


async def test_input_that_ends_without_a_commit_is_still_heard():
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.8))
        closing = asyncio.create_task(stream.connection.close())
        assert (await stream.until("transcription.done"))[-1]["text"] == "one two"
        await closing


async def test_a_text_without_end_is_bounded_and_its_pieces_are_not(monkeypatch):
    monkeypatch.setattr(vllm_realtime, "MAX_ITEM_TEXT", 5)
    async with client() as stream:
        await begin(stream)
        for _ in range(4):
            await stream.append(sounds(0.1, 0.4, 1.0))
        await stream.send("input_audio_buffer.commit", final=True)
        *deltas, done = await stream.until("transcription.done")
        assert [event["delta"] for event in deltas] == ["one", " one", " one", " one"]
        assert done["text"] == "one one"


@pytest.mark.parametrize(
    ("kind", "members", "code"),
    [
        ("input_audio_buffer.append", {"audio": "a"}, "invalid_value"),
        ("input_audio_buffer.append", {"audio": 7}, "invalid_value"),
        ("input_audio_buffer.commit", {"final": "yes"}, "invalid_value"),
        ("response.create", {}, "unknown_event"),
    ],
)
async def test_a_refused_message_loses_nothing(kind, members, code):
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.4))
        await stream.send(kind, **members)
        refused = await stream.next()
        assert (refused["type"], refused["code"]) == ("error", code)
        assert "must be" in refused["error"]
        await stream.append(sounds(0.0, 0.4, 0.1))
        await stream.send("input_audio_buffer.commit", final=True)
        assert (await stream.until("transcription.done"))[-1]["text"] == "one two"


async def test_an_utterance_that_cannot_be_heard_is_told_and_the_next_one_heard():
    async with client(hears=HEARS_SECOND, eager_ms=0) as stream:
        await begin(stream)
        for _ in range(2):
            await stream.append(sounds(0.1, 0.4, 0.1))
            await stream.send("input_audio_buffer.commit", final=True)
        failed, *rest = await stream.until("transcription.done")
        assert failed["type"] == "error"
        assert "the ear is full" in failed["error"]
        assert rest[-1]["text"] == "one"
