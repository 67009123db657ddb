"""The forms in which sound travels to a voice assistant: Realtime events, or bare samples."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from picows import WSFrame, WSMsgType

#: Seconds of the audio in one message of a client.
FRAME: Final = 0.02

Samples = NDArray[np.int16]


class Wire(Protocol):
    """How sound travels.

    Attributes:
        rate: samples per second, in both directions.
        greeting: whether the server speaks first.
        hello: the client's first messages.
    """

    rate: int
    greeting: bool
    hello: Sequence[bytes]
    kind: WSMsgType

    def frame(self, samples: Samples) -> bytes:
        """Return the message that carries samples."""

    def read(self, frame: WSFrame) -> tuple[str, bytes, dict[str, Any]]:
        """Return the type of a message, the samples in it, and its members."""


class Realtime:
    """OpenAI's Realtime events.

    Args:
        instructions: for the assistant.
    """

    rate = 24_000
    greeting = True
    kind = WSMsgType.TEXT

    def __init__(self, instructions: str = "", most_tokens: int = 0) -> None:
        session: dict[str, Any] = {
            "type": "realtime",
            "audio": {"input": {"transcription": {"model": "any", "language": "en"}}},
        }
        if instructions:
            session["instructions"] = instructions
        if most_tokens:
            session["max_output_tokens"] = most_tokens
        self.hello: Sequence[bytes] = [event("session.update", session=session)]

    def frame(self, samples: Samples) -> bytes:
        audio = base64.b64encode(samples.tobytes())
        return b'{"type":"input_audio_buffer.append","audio":"%b"}' % audio

    def read(self, frame: WSFrame) -> tuple[str, bytes, dict[str, Any]]:
        members = json.loads(frame.get_payload_as_memoryview().tobytes())
        kind = members["type"]
        audio = members.get("delta", "") if kind == "response.output_audio.delta" else ""
        return kind, base64.b64decode(audio), members


class Bare:
    """Samples in binary messages, and types of events in text: ``response.done``."""

    rate = 16_000
    greeting = False
    hello: Sequence[bytes] = ()
    kind = WSMsgType.BINARY

    def frame(self, samples: Samples) -> bytes:
        return samples.tobytes()

    def read(self, frame: WSFrame) -> tuple[str, bytes, dict[str, Any]]:
        if frame.msg_type == WSMsgType.TEXT:
            return frame.get_payload_as_utf8_text(), b"", {}
        return "response.output_audio.delta", frame.get_payload_as_bytes(), {}


def event(kind: str, **members: object) -> bytes:
    return json.dumps({"type": kind, **members}).encode()
