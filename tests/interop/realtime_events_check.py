"""Every event of the Realtime wire, parsed by the strict models of pipecat and of openai.

Run by ``make interop-voice``. These clients build their models from OpenAI's documentation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partway.container.errors import Busy, ModelError
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from tests.container.models.voice.wires.realtime_client import Answering, RealtimeClient, session
from tests.interop.served_api import ended, interpreter

pytestmark = pytest.mark.timeout(180)

PROGRAM = Path(__file__).with_name("voice_clients") / "event_parser.py"
INTERPRETERS = {
    "pipecat": ("PIPECAT_PYTHON", "pipecat-ai[openai]"),
    "openai": ("VOICE_PYTHON", "openai[realtime]"),
}
TOOL = {"type": "function", "name": "time", "parameters": {"type": "object"}}
LONG = "This is a long answer that goes on and on, and has many more words than anybody hears."

#: Every type that the wire sends.
TYPES = {
    *("error", "session.created", "session.updated", "input_audio_buffer.committed"),
    *("input_audio_buffer.cleared", "input_audio_buffer.speech_started"),
    *("input_audio_buffer.speech_stopped", "conversation.item.added", "conversation.item.done"),
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed",
    *("conversation.item.truncated", "conversation.item.deleted", "conversation.item.retrieved"),
    *("response.created", "response.done", "response.output_item.added"),
    *("response.output_item.done", "response.content_part.added", "response.content_part.done"),
    *("response.output_text.delta", "response.output_text.done", "response.output_audio.delta"),
    *("response.output_audio.done", "response.output_audio_transcript.delta"),
    *("response.output_audio_transcript.done", "response.function_call_arguments.delta"),
    "response.function_call_arguments.done",
}


class Ill:
    """Hears nothing."""

    is_idle = True

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        raise Busy("the hearing engine is busy")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the clients' models matter."""
    return "asyncio"


async def conversation(client: RealtimeClient) -> None:
    """Hold a conversation with most of the events."""
    semantic = {"type": "semantic_vad", "eagerness": "high"}
    await client.configure(audio={"input": {"turn_detection": semantic}})
    transcription = {"model": "any", "language": "en", "prompt": "numbers"}
    detection = {"type": "server_vad", "threshold": 0.6}
    await client.configure(
        type="realtime",
        instructions="Be kind.",
        audio={
            "input": {"transcription": transcription, "turn_detection": detection},
            "output": {"speed": 4.0, "voice": "any"},
        },
    )
    await client.say(0.8, 0.6)
    item = (await client.until("response.done"))[-1]["response"]["output"][0]
    await client.send(
        "conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=100
    )
    await client.until("conversation.item.truncated")
    await client.retrieve(item["id"])
    await client.send("conversation.item.delete", item_id=item["id"])
    await client.send("input_audio_buffer.clear")
    await client.send("nonsense", event_id="mine")
    await client.tell("hello", output_modalities=["text"], metadata={"a": "b"})
    await client.until("response.done")
    await client.tell("time?", tools=[TOOL], tool_choice="required", max_output_tokens=9)
    call = (await client.until("response.done"))[-1]["response"]["output"][0]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ten"}
    await client.send("conversation.item.create", item=output)
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")


async def interrupted(client: RealtimeClient) -> None:
    await client.tell("hello")
    await client.until("response.output_audio.delta")
    await client.say(0.4)
    await client.until("response.done")


async def incomplete(client: RealtimeClient) -> None:
    await client.configure(max_output_tokens=1)
    await client.tell("hello")
    await client.until("response.done")


async def all_events() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for scene, engines in (
        (conversation, {}),
        (interrupted, {"answers": Answering(LONG)}),
        (failed, {"answers": Answering("Well,", ModelError("it is ill"))}),
        (incomplete, {}),
        (unheard, {"hearing": Ill()}),
    ):
        async with session(**engines) as client:
            await scene(client)
            found += client.events
    async with session(intent="transcription") as client:
        await client.say(0.8, 0.6)
        await client.until("conversation.item.input_audio_transcription.completed")
        found += client.events
    return found


async def failed(client: RealtimeClient) -> None:
    await client.tell("hello")
    await client.until("response.done")


async def unheard(client: RealtimeClient) -> None:
    await client.configure(audio={"input": {"transcription": {"model": "any"}}})
    await client.say(0.8, 0.6)
    await client.until("response.done")


@pytest.mark.parametrize("client", INTERPRETERS)
async def test_a_client_parses_every_event(client: str, tmp_path: Path) -> None:
    python = interpreter(*INTERPRETERS[client], "interop-voice")
    events = await all_events()
    if client == "pipecat":  # it has no transcription sessions
        events = [each for each in events if each.get("session", {}).get("type") != "transcription"]
    lines = tmp_path / "events"
    lines.write_text("\n".join(json.dumps(event) for event in events), "utf-8")
    done = await ended(python, str(PROGRAM), client, str(lines), environment={}, directory=tmp_path)
    assert done.status == 0, done.errors
    result = json.loads(done.output.splitlines()[-1])
    assert not result["faults"], "\n".join(result["faults"])
    assert set(result["parsed"]) == TYPES
