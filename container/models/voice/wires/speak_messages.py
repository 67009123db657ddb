"""Messages of ``v1/speak``, as Deepgram's clients send and read them.

https://developers.deepgram.com/reference/text-to-speech/speak-streaming
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from partway.container.models.chat.json_objects import (
    MAX_DEPTH,
    object_of,
    quoted,
    whole_characters,
)
from partway.container.models.openai_events import json_text
from partway.container.models.voice.limits import MAX_SPEAK_CHARACTERS

#: A word with its pronunciation, as Deepgram's voices read it within a text. Other engines speak
#: the word alone.
_PRONOUNCED: Final = re.compile(r'\\?\{\s*"word"\s*:\s*("(?:[^"\\]|\\.)*")[^{}]*\}')


class SpeakRefused(ValueError):
    """A message that is not taken.

    Attributes:
        code: Deepgram's code for such a fault.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SpeakText:
    text: str


@dataclass(frozen=True, slots=True)
class SpeakFlush:
    """Speak the rest of the text, and say when that is done."""


@dataclass(frozen=True, slots=True)
class SpeakClear:
    """Forget all text that was not spoken."""


@dataclass(frozen=True, slots=True)
class SpeakClose:
    """Speak the rest of the text, then close the stream."""


SpeakMessage: TypeAlias = SpeakText | SpeakFlush | SpeakClear | SpeakClose

_PLAIN: Final[Mapping[str, SpeakMessage]] = {
    "Flush": SpeakFlush(),
    "Clear": SpeakClear(),
    "Close": SpeakClose(),
}


def read_speak_message(message: str | bytes) -> SpeakMessage:
    """Read a client's message; unknown members are ignored.

    Raises:
        SpeakRefused: it is no message of this wire, or its text is too long.
    """
    members = object_of(message)
    if members is None:
        raise SpeakRefused(
            "DATA-0000",
            f"a message is no JSON object; it must be one, nested at most {MAX_DEPTH} deep",
        )
    kind = members.get("type")
    if kind == "Speak":
        return speak_text_of(members)
    if isinstance(kind, str) and kind in _PLAIN:
        return _PLAIN[kind]
    raise SpeakRefused(
        "DATA-0000",
        f"a message has the type {quoted(kind)}; it must be one of Speak, {', '.join(_PLAIN)}",
    )


def speak_text_of(members: Mapping[str, object]) -> SpeakText:
    """Read the text of a message.

    Raises:
        SpeakRefused: it has none, or a longer one than a message may have.
    """
    text = members.get("text")
    if not isinstance(text, str):
        raise SpeakRefused("DATA-0000", f"Speak: text is {quoted(text)}; it must be a string")
    if len(text) > MAX_SPEAK_CHARACTERS:
        raise SpeakRefused(
            "DATA-0001",
            f"Speak: text has {len(text)} characters; it must have at most "
            f"{MAX_SPEAK_CHARACTERS}, and is not spoken",
        )
    return SpeakText(without_pronunciations(text))


def without_pronunciations(text: str) -> str:
    """Return a text in which words stand for Deepgram's objects that pronounce them."""
    return _PRONOUNCED.sub(_word_of, text)


def _word_of(found: re.Match[str]) -> str:
    try:
        word = json.loads(found[1], strict=False)
    except ValueError:  # such as the escape \q: then the text means itself
        return found[0]
    return whole_characters(str(word))


# --- Events --------------------------------------------------------------------------------------


def speak_metadata(request_id: str, engine: str, version: str) -> str:
    """Return the first event; the model's UUID is made of the engine's name."""
    return _event(
        "Metadata",
        request_id=request_id,
        model_name=engine,
        model_version=version,
        model_uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, engine)),
    )


def speak_flushed(sequence_id: int) -> str:
    return _event("Flushed", sequence_id=sequence_id)


def speak_cleared(sequence_id: int) -> str:
    return _event("Cleared", sequence_id=sequence_id)


def speak_warning(code: str, description: str) -> str:
    """Return a warning; LiveKit reads ``warn_msg``, pipecat and Deepgram's SDK ``description``."""
    return _event("Warning", description=description, code=code, warn_msg=description)


def speak_error(code: str, reason: str) -> str:
    return _event("Error", description=reason, message=reason, variant=code)


def _event(kind: str, **members: Any) -> str:
    return json_text({"type": kind, **members})
