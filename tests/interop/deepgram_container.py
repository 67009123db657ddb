"""A container that speaks as Deepgram's do, whose words a test can foresee.

Audio is 16-bit PCM, and the first sample of a message is the word that is heard in it.
``v1/listen`` and ``v1/speak`` take the messages that Deepgram's clients send, refuse a query with a
parameter that Deepgram does not know, and give up a client that says nothing for a while (section 6
of the contract).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from partway import Model, ModelError, Stream
from partway.container.model import Opening, route
from partway.protocol.websocket.close_codes import INTERNAL_ERROR

#: What can be heard; the index of each is the sample that stands for it.
WORDS = ("nothing", "hello", "from", "a", "gateway", "of", "ours")

#: Seconds after which a client that says nothing is given up.
SILENCE = 12.0

#: Samples of speech for each character of a text.
PER_CHARACTER = 480

#: Parameters that Deepgram knows; any other one is refused.
LISTENING = {
    *("callback", "channels", "detect_entities", "diarize", "dictation", "encoding", "endpointing"),
    *("interim_results", "keyterm", "keywords", "language", "mip_opt_out", "multichannel"),
    *("numerals", "profanity_filter", "punctuate", "redact", "replace", "sample_rate", "search"),
    *("smart_format", "utterance_end_ms", "vad_events", "version"),
}
SPEAKING = {"encoding", "mip_opt_out", "sample_rate", "speed"}

MODELS = {"nova-3", "aura-2-helena-en", "aura-2-thalia-en"}


def spoken(word: str, size: int = 640) -> bytes:
    """Audio in which a word is heard: 20 ms at 16 kHz unless another size is asked for."""
    return WORDS.index(word).to_bytes(2, "little") + bytes(size - 2)


def speech(text: str) -> bytes:
    """What is spoken for a text; it is no UTF-8, so nobody takes it for a message."""
    return b"\xff\x7f" * (PER_CHARACTER * len(text))


class Deepgram(Model):
    """Both services.

    Attributes:
        streams: those that were accepted and are not over, in their order.
        told: the types of the messages in text that have come, and ``audio`` for each binary one.
        refuses: how many streams are refused next, with 503.
        silence: seconds after which a client that says nothing is given up.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.told: list[str] = []
        self.refuses = 0
        self.silence = SILENCE

    def fail(self, reason: str, code: int = INTERNAL_ERROR) -> None:
        """End the streams, as a model does whose GPU has gone."""
        for stream in list(self.streams):
            stream.close(code, reason)

    async def admit(self, opening: Opening) -> None:
        if self.refuses:
            self.refuses -= 1
            raise ModelError("all places are taken, said Deepgram", status=503)
        if opening.query.get("model") not in MODELS:
            raise ModelError("no such model, said Deepgram", status=400)

    @route("v1/listen", query=LISTENING, required={"model"})
    async def listen(self, stream: Stream) -> None:
        """Audio in, transcripts out."""
        heard: list[str] = []

        async def say(*, final: bool, finalized: bool = False) -> None:
            result = {
                "type": "Results",
                "channel_index": [0, 1],
                "duration": 1.0,
                "start": 0.0,
                "is_final": final,
                "speech_final": final,
                "from_finalize": finalized,
                "channel": {
                    "alternatives": [
                        {"transcript": " ".join(heard), "confidence": 1.0, "words": []}
                    ]
                },
                "metadata": {
                    "request_id": stream.id,
                    "model_info": {"name": "nova-3", "version": "1", "arch": "nova-3"},
                    "model_uuid": "",
                },
            }
            await stream.send(json.dumps(result))

        async for message in self._messages(stream):
            match message:
                case bytes():
                    heard.append(WORDS[int.from_bytes(message[:2], "little")])
                    await say(final=False)
                case {"type": "Finalize"}:
                    await say(final=True, finalized=True)
                    heard.clear()
                case {"type": "CloseStream"}:
                    if heard:
                        await say(final=True)
                    return

    @route("v1/speak", query=SPEAKING, required={"model"})
    async def speak(self, stream: Stream) -> None:
        """Text in, audio out."""
        text = ""
        flushes = 0
        async for message in self._messages(stream):
            match message:
                case {"type": "Speak", "text": str(more)}:
                    text += more
                case {"type": "Flush"}:
                    if text:
                        await stream.send(speech(text))
                    await stream.send(json.dumps({"type": "Flushed", "sequence_id": flushes}))
                    text = ""
                    flushes += 1
                case {"type": "Clear"}:
                    text = ""
                    await stream.send(json.dumps({"type": "Cleared", "sequence_id": flushes}))
                case {"type": "Close"}:
                    return

    async def _messages(self, stream: Stream) -> AsyncIterator[bytes | dict[str, Any]]:
        """What the client says, until it ends its input or is silent for too long."""
        messages = aiter(stream.messages())
        self.streams.append(stream)
        try:
            while True:
                async with asyncio.timeout(self.silence):
                    message = await anext(messages)
                said = message if isinstance(message, bytes) else json.loads(message)
                self.told.append("audio" if isinstance(said, bytes) else said["type"])
                yield said
        except StopAsyncIteration:
            pass
        except TimeoutError:
            raise ModelError(f"nothing was said for {self.silence:g} s, said Deepgram") from None
        finally:
            self.streams.remove(stream)
