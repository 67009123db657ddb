"""Messages of ``v2/speak``, as clients of Deepgram's Flux send and read them.

https://developers.deepgram.com/docs/flux-tts/client-messages and the models of deepgram-sdk 7.17
describe them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from partway.container.models.chat.json_objects import MAX_DEPTH, object_of, quoted
from partway.container.models.openai_events import json_text
from partway.container.models.voice.wires.speak_messages import (
    SpeakClose,
    SpeakFlush,
    SpeakRefused,
    SpeakText,
    speak_text_of,
)

#: Most milliseconds of audio that a client may have played: some 11 days.
_MOST_PLAYED: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SpeakInterrupt:
    """The turn that is being spoken is over.

    Attributes:
        played_ms: milliseconds of the session's audio that the client has played; None if unknown.
    """

    played_ms: int | None


@dataclass(frozen=True, slots=True)
class SpeakConfigure:
    """A change of the stream's wishes.

    Attributes:
        members: its members; they are not checked yet.
    """

    members: Mapping[str, Any]


FluxSpeakMessage: TypeAlias = SpeakText | SpeakFlush | SpeakInterrupt | SpeakConfigure | SpeakClose

_KINDS: Final = ("Speak", "Flush", "Interrupt", "Configure", "Close")


def read_flux_speak_message(message: str | bytes) -> FluxSpeakMessage:
    """Read a client's message; unknown members are ignored.

    Raises:
        SpeakRefused: it is no message of this wire, or its text is too long.
    """
    members = object_of(message)
    if members is None:
        raise SpeakRefused(
            "MESSAGE-0000",
            f"a message is no JSON object; it must be one, nested at most {MAX_DEPTH} deep",
        )
    match kind := members.get("type"):
        case "Speak":
            return speak_text_of(members)
        case "Flush":
            return SpeakFlush()
        case "Interrupt":
            return SpeakInterrupt(_played_of(members.get("playback_offset")))
        case "Configure":
            return SpeakConfigure(members)
        case "Close":
            return SpeakClose()
    raise SpeakRefused(
        "MESSAGE-0000",
        f"a message has the type {quoted(kind)}; it must be one of {', '.join(_KINDS)}",
    )


def _played_of(offset: object) -> int | None:
    if offset is None:
        return None
    match offset:
        case {"type": "time_ms", "value": bool()}:
            pass
        case {"type": "time_ms", "value": int() | float() as value} if 0 <= value <= _MOST_PLAYED:
            return round(value)
    raise SpeakRefused(
        "DATA-0000",
        f"Interrupt: playback_offset is {quoted(offset)}; it must be an object whose type is "
        f"time_ms, and whose value is a number from 0 to {_MOST_PLAYED}",
    )


# --- Events --------------------------------------------------------------------------------------


def flux_speak_event(kind: str, **members: Any) -> str:
    return json_text({"type": kind, **members})


def flux_connected(request_id: str, engine: str, version: str) -> str:
    """Return the first event; the model's UUID is made of the engine's name."""
    return flux_speak_event(
        "Connected",
        request_id=request_id,
        model_name=engine,
        model_version=version,
        model_uuids=[str(uuid.uuid5(uuid.NAMESPACE_URL, engine))],
    )


def flux_speak_warning(code: str, description: str) -> str:
    return flux_speak_event("Warning", code=code, description=description)


def flux_speak_error(code: str, description: str) -> str:
    return flux_speak_event("Error", code=code, description=description)
