"""partway.container.models.voice.wires.nvidia_speaking: synthesis as NVIDIA's clients ask."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.container.models.voice.wires.failing_engines import BREAKS_FIRST, SPEAKS_SECOND
from tests.container.models.voice.wires.json_client import JsonClient, client, voice

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

COMPLETED = "conversation.item.speech.completed"


async def begin(stream: JsonClient, **audio: Any) -> None:
    """Say what pipecat's service says first."""
    await stream.send(
        "synthesize_session.update",
        session={
            "input_text_synthesis": {"voice_name": "Aria", "language_code": "en-US"},
            "output_audio_params": {"sample_rate_hz": 16_000, **audio},
        },
    )
    await stream.until("synthesize_session.updated")


def audio_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(
        base64.b64decode(event["audio"])
        for event in events
        if event["type"] == "conversation.item.speech.data"
    )


async def said(stream: JsonClient, text: str) -> bytes:
    """Have a text spoken to its end."""
    await stream.send("input_text.append", text=text)
    await stream.send("input_text.commit")
    await stream.send("input_text.done")
    return audio_of(await stream.until(COMPLETED))


async def test_committed_text_is_spoken_and_its_end_told():
    async with client() as stream:
        await begin(stream)
        first = await said(stream, "Hello from a gateway.")
        again = await said(stream, "Hello from a gateway. And once more.")
        assert 0 < len(first) < len(again)


async def test_the_rate_is_the_sessions():
    async with client() as stream:
        await begin(stream, sample_rate_hz=8_000)
        slow = await said(stream, "Hello from a gateway.")
        await begin(stream, sample_rate_hz=16_000)
        assert len(await said(stream, "Hello from a gateway.")) == pytest.approx(
            2 * len(slow), rel=0.01
        )


async def test_pieces_of_a_text_are_one_text():
    async with client() as stream:
        await begin(stream)
        whole = await said(stream, "Hello from a gateway.")
        for piece in ("Hello ", "from a ", "gateway."):
            await stream.send("input_text.append", text=piece)
        await stream.send("input_text.done")  # commits what is left
        assert audio_of(await stream.until(COMPLETED)) == whole


async def test_text_without_a_session():
    async with client() as stream:
        assert await said(stream, "Hello.")


async def test_input_that_ends_has_its_text_spoken():
    async with client() as stream:
        await begin(stream)
        await stream.send("input_text.append", text="Hello.")
        await stream.send("input_text.done")
        await stream.until(COMPLETED)
        await stream.send("session.end")
        assert await stream.rest() == []
        assert stream.connection.close_code == 1000


@pytest.mark.parametrize(
    ("kind", "members", "named"),
    [
        ("input_text.append", {"text": 7}, "text"),
        ("input_text.append", {"text": "a" * 100_001}, "characters"),
        ("input_text.nothing", {}, "input_text.nothing"),
        (
            "synthesize_session.update",
            {"session": {"output_audio_params": {"audio_format": "OGGOPUS"}}},
            "LINEAR_PCM",
        ),
        (
            "synthesize_session.update",
            {"session": {"output_audio_params": {"num_channels": 2}}},
            "num_channels",
        ),
        ("synthesize_session.update", {"session": {"unknown": "x" * 600_000}}, "session has 600"),
    ],
)
async def test_a_refused_message_loses_nothing(kind, members, named):
    async with client() as stream:
        await begin(stream)
        whole = await said(stream, "Hello there.")
        await stream.send("input_text.append", text="Hello ")
        await stream.send(kind, **members)
        refused = await stream.next()
        assert named in refused["error"]["message"] == refused["message"]
        await stream.send("input_text.append", text="there.")
        await stream.send("input_text.done")
        assert audio_of(await stream.until(COMPLETED)) == whole


async def test_a_first_session_that_is_too_long_may_be_mended():
    async with client() as stream:
        await stream.until("session.created")
        await stream.send("synthesize_session.update", session={"unknown": "x" * 600_000})
        assert "session has 600" in (await stream.next())["error"]["message"]
        await begin(stream)


@pytest.mark.parametrize(
    ("engine", "reason"), [(SPEAKS_SECOND, "the mouth is full"), (BREAKS_FIRST, "RuntimeError")]
)
async def test_a_text_that_cannot_be_spoken_is_told_and_the_next_one_spoken(engine, reason):
    async with client(speaks=engine) as stream:
        await begin(stream)
        await stream.send("input_text.append", text="Hello.")
        await stream.send("input_text.done")
        failed, completed = await stream.until(COMPLETED)
        assert (failed["type"], completed["type"]) == ("error", COMPLETED)
        assert reason in failed["message"]
        assert await said(stream, "Hello.")


async def test_a_client_that_leaves_while_it_is_spoken_to_leaves_the_engine_to_the_next():
    async with voice(speaking_threads=1) as served:
        async with served.stream() as connection:
            leaving = JsonClient(connection)
            await begin(leaving)
            await leaving.send("input_text.append", text="Hello from a gateway of ours. " * 500)
            await leaving.send("input_text.commit")
            await leaving.until("conversation.item.speech.data")
            connection.transport.abort()
        async with served.stream() as connection:
            stream = JsonClient(connection)
            await begin(stream)
            assert await said(stream, "Hello.")
