"""OpenAI's client, audio and Realtime: prints one JSON object of all that it got.

``openai_client.py BASE_URL MODEL KEY WAV PCM``: the WAV file and the PCM file, mono at 24 kHz, have
the same audio.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import openai

BASE, MODEL, KEY, WAV, PCM = sys.argv[1:]
RATE = 24_000
#: Bytes in 20 ms.
CHUNK = RATE // 50 * 2
AUDIO = Path(PCM).read_bytes()


def audio() -> dict[str, Any]:
    client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)

    def transcribed(**options: Any) -> Any:
        with Path(WAV).open("rb") as file:
            return client.audio.transcriptions.create(model=MODEL, file=file, **options)

    verbose = transcribed(
        response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    with client.audio.speech.with_streaming_response.create(
        model=MODEL, voice="alloy", input="Hello there. And more.", response_format="pcm"
    ) as spoken:
        pieces = [len(piece) for piece in spoken.iter_bytes()]
    try:
        client.audio.speech.create(model=MODEL, voice="alloy", input="", response_format="pcm")
        refused = None
    except openai.BadRequestError as error:
        refused = error.message
    return {
        "json": transcribed().text,
        "text": transcribed(response_format="text"),
        "srt": transcribed(response_format="srt"),
        "words": [word.word for word in verbose.words],
        "segments": len(verbose.segments),
        "stream": [[event.type, getattr(event, "text", "")] for event in transcribed(stream=True)],
        "speech": sum(pieces),
        "refused": refused,
    }


async def converse() -> dict[str, Any]:
    """Hold a spoken turn, interrupt its answer by speaking, then a turn in text."""
    async with (
        openai.AsyncOpenAI(base_url=BASE, api_key=KEY) as client,
        client.realtime.connect(model=MODEL) as connection,
    ):
        events: list[Any] = []

        async def until(*kinds: str) -> Any:
            async with asyncio.timeout(20):
                while True:
                    event = await connection.recv()
                    events.append(event)
                    if event.type in kinds:
                        return event

        async def say() -> None:
            for start in range(0, len(AUDIO), CHUNK):
                chunk = base64.b64encode(AUDIO[start : start + CHUNK]).decode()
                await connection.input_audio_buffer.append(audio=chunk)

        await until("session.created")
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Answer briefly.",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": RATE},
                        "transcription": {"model": "whisper-1"},
                        "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                    },
                    "output": {"format": {"type": "audio/pcm", "rate": RATE}, "voice": "alloy"},
                },
            }
        )
        await until("session.updated")
        await say()
        await until("response.output_audio.delta")
        await say()  # interrupts the answer
        interrupted = await until("response.done")
        answered = await until("response.done")
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}],
            }
        )
        await connection.response.create(response={"output_modalities": ["text"]})
        text = await until("response.done")
        await connection.send({"type": "nonsense"})
        error = await until("error")
    return {
        "types": [event.type for event in events],
        "heard": [
            event.transcript
            for event in events
            if event.type == "conversation.item.input_audio_transcription.completed"
        ],
        "interrupted": interrupted.response.status,
        "answered": answered.response.status,
        "audio": sum(
            len(base64.b64decode(event.delta))
            for event in events
            if event.type == "response.output_audio.delta"
            and event.response_id == answered.response.id
        ),
        "text": text.response.output[0].content[0].text,
        "error": error.error.message,
    }


async def transcribe() -> dict[str, Any]:
    """Hold a transcription session whose turns the client ends."""
    async with (
        openai.AsyncOpenAI(base_url=BASE, api_key=KEY) as client,
        client.realtime.connect(model=MODEL, extra_query={"intent": "transcription"}) as connection,
    ):
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": RATE},
                        "transcription": {"model": "whisper-1"},
                        "turn_detection": None,
                    }
                },
            }
        )
        await connection.input_audio_buffer.append(audio=base64.b64encode(AUDIO).decode())
        await connection.input_audio_buffer.commit()
        types = []
        async with asyncio.timeout(20):
            async for event in connection:
                types.append(event.type)
                if event.type.endswith("transcription.completed"):
                    return {"types": types, "heard": event.transcript}
    raise AssertionError(types)


print(
    json.dumps(
        {
            "audio": audio(),
            "converse": asyncio.run(converse()),
            "transcribe": asyncio.run(transcribe()),
        }
    )
)
