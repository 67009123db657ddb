"""Deepgram's SDK: prints one JSON object of all that it got.

``deepgram_client.py sagemaker ENDPOINT REGION PCM`` goes by SageMaker's API, with AWS's credentials
from the environment; ``deepgram_client.py websocket URL TOKEN PCM`` opens WebSockets below the URL.
PCM is a file, mono at 16 kHz.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from deepgram import AsyncDeepgramClient
from deepgram.core.events import EventType
from deepgram.speak.v1.types import SpeakV1Text
from deepgram.speak.v2.types import SpeakV2Speak
from deepgram_connection import client_of

RATE = 16_000
#: Bytes in 20 ms.
CHUNK = RATE // 50 * 2
AUDIO = Path(sys.argv[4]).read_bytes()
TEXT = "Hello from a gateway of ours. It speaks."


class Met:
    """Messages of a connection, as they come."""

    def __init__(self, connection: Any) -> None:
        self.messages: list[Any] = []
        self.errors: list[str] = []
        self._new = asyncio.Event()
        connection.on(EventType.MESSAGE, self._message)
        connection.on(EventType.ERROR, lambda error: self.errors.append(repr(error)))

    def _message(self, message: Any) -> None:
        self.messages.append(message)
        self._new.set()

    async def until(self, found: Any) -> None:
        """Wait for a message that fits."""
        while not any(found(message) for message in self.messages):
            self._new.clear()
            await asyncio.wait_for(self._new.wait(), 20)


async def listen(deepgram: AsyncDeepgramClient, audio: bytes) -> dict[str, Any]:
    options = {"encoding": "linear16", "sample_rate": RATE, "interim_results": "true"}
    options |= {"vad_events": "true", "endpointing": 300, "utterance_end_ms": "1000"}
    async with deepgram.listen.v1.connect(model="nova-3", **options) as connection:
        met = Met(connection)
        listening = asyncio.create_task(connection.start_listening())
        for start in range(0, len(audio), CHUNK):
            await connection.send_media(audio[start : start + CHUNK])
        await connection.send_keep_alive()
        await met.until(lambda message: getattr(message, "speech_final", False))
        for start in range(0, len(audio) // 2, CHUNK):
            await connection.send_media(audio[start : start + CHUNK])
        await connection.send_finalize()
        await met.until(lambda message: getattr(message, "from_finalize", False))
        await connection.send_close_stream()
        await listening
    results = [message for message in met.messages if message.type == "Results"]
    return {
        "types": [message.type for message in met.messages],
        "errors": met.errors,
        "finals": [
            [
                result.channel.alternatives[0].transcript,
                result.speech_final,
                bool(result.from_finalize),
            ]
            for result in results
            if result.is_final
        ],
        "words": [
            [word.word, word.punctuated_word, word.start < word.end]
            for word in next(r for r in results if r.is_final).channel.alternatives[0].words
        ],
        "request_ids": len({result.metadata.request_id for result in results}),
        "seconds": met.messages[-1].duration,
    }


async def speak(deepgram: AsyncDeepgramClient) -> dict[str, Any]:
    async with deepgram.speak.v1.connect(
        model="aura-2-thalia-en", encoding="linear16", sample_rate=RATE
    ) as connection:
        met = Met(connection)
        listening = asyncio.create_task(connection.start_listening())
        flushed = 0

        async def say(text: str) -> None:
            nonlocal flushed
            flushed += 1
            await connection.send_text(SpeakV1Text(type="Speak", text=text))
            await connection.send_flush()
            await met.until(lambda _: sum(map(is_flushed, met.messages)) == flushed)

        await say(TEXT)
        await say("Again.")
        await connection.send_close()
        await listening
    told = [message if isinstance(message, bytes) else message.type for message in met.messages]
    audio: list[Any] = []
    for each in told:  # consecutive audio as one number
        if isinstance(each, bytes) and audio and isinstance(audio[-1], int):
            audio[-1] += len(each)
        else:
            audio.append(len(each) if isinstance(each, bytes) else each)
    return {"met": audio, "errors": met.errors}


async def listen_to_turns(deepgram: AsyncDeepgramClient, audio: bytes) -> dict[str, Any]:
    """Listen by Flux."""
    options = {"encoding": "linear16", "sample_rate": RATE, "eager_eot_threshold": 0.5}
    async with deepgram.listen.v2.connect(model="flux-general-en", **options) as connection:
        met = Met(connection)
        listening = asyncio.create_task(connection.start_listening())
        for start in range(0, len(audio), CHUNK):
            await connection.send_media(audio[start : start + CHUNK])
        await met.until(lambda message: getattr(message, "event", "") == "EndOfTurn")
        await connection.send_close_stream()
        await listening
    turns = [message for message in met.messages if message.type == "TurnInfo"]
    return {
        "first": met.messages[0].type,
        "events": [turn.event for turn in turns],
        "ends": [[turn.transcript, turn.trigger] for turn in turns if turn.event == "EndOfTurn"],
        "errors": met.errors,
    }


async def speak_turns(deepgram: AsyncDeepgramClient) -> dict[str, Any]:
    """Speak by Flux: a whole turn, and one that is interrupted before its first phrase."""
    audio = {"encoding": "linear16", "sample_rate": RATE}
    async with deepgram.speak.v2.connect(model="flux-haley-en", **audio) as connection:
        met = Met(connection)
        listening = asyncio.create_task(connection.start_listening())
        await connection.send_speak(SpeakV2Speak(text=TEXT))
        await connection.send_flush()
        await met.until(lambda message: getattr(message, "type", "") == "SpeechMetadata")
        await connection.send_speak(SpeakV2Speak(text="Never"))
        await connection.send_interrupt()
        await met.until(lambda message: getattr(message, "type", "") == "SpeechInterrupted")
        await connection.send_close()
        await listening
    spoken = [message for message in met.messages if isinstance(message, bytes)]
    return {
        "types": [message.type for message in met.messages if not isinstance(message, bytes)],
        "audio": sum(map(len, spoken)),
        "errors": met.errors,
    }


def is_flushed(message: Any) -> bool:
    return getattr(message, "type", "") == "Flushed"


async def main() -> None:
    deepgram = client_of(*sys.argv[1:4])
    got = {
        "listen": await listen(deepgram, AUDIO),
        "speak": await speak(deepgram),
        "turns": await listen_to_turns(deepgram, AUDIO),
        "answers": await speak_turns(deepgram),
    }
    print(json.dumps(got))


asyncio.run(main())
