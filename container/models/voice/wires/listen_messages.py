"""The messages of ``v1/listen``, both ways.

JSON has no spaces: ``deepgram-sagemaker`` searches it for ``"type":"Metadata"``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from partway.container.models.chat.json_objects import object_of, quoted, whole_characters
from partway.container.models.openai_events import json_text
from partway.container.models.voice.interfaces import HeardWord, Transcript
from partway.container.models.voice.utterances import Utterance

#: Most characters of a message that are quoted in the refusal of it.
_MOST_QUOTED: Final = 200
#: Most unknown members of a message, and characters of each, that are named.
MOST_IGNORED: Final = 64
_MOST_NAMED: Final = 40
_PUNCTUATION: Final = '.,!?;:"“”„»«()[]{}…¿¡。，！？、'


# --- From the client -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The client is there, and silent."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """All audio so far is to be heard now."""


@dataclass(frozen=True, slots=True)
class CloseStream:
    """No audio follows."""


@dataclass(frozen=True, slots=True)
class Configure:
    """Changes of the stream's wishes.

    Attributes:
        keyterms: replace the earlier ones; None leaves them.
        ignored: the beginnings of the names of some further members.
    """

    keyterms: tuple[str, ...] | None
    ignored: tuple[str, ...]


ClientMessage: TypeAlias = KeepAlive | Finalize | CloseStream | Configure

_PLAIN: Final[Mapping[str, ClientMessage]] = {
    "KeepAlive": KeepAlive(),
    "Finalize": Finalize(),
    "CloseStream": CloseStream(),
}


class MessageFault(Exception):
    """A client's message is refused; the text says why."""


def message_of(text: str) -> ClientMessage:
    """Read a client's message in text.

    Raises:
        MessageFault: no client may send such a message.
    """
    message = object_of(text)
    if message is None:
        raise MessageFault("the message is not a JSON object")
    kind = message.get("type")
    if isinstance(kind, str) and kind in _PLAIN:
        return _PLAIN[kind]
    if kind != "Configure":
        known = ", ".join((*_PLAIN, "Configure"))
        raise MessageFault(f"type: {quoted(kind)} was given; it must be one of {known}")
    terms = message.get("keyterms")
    if terms is not None and not are_texts(terms):
        raise MessageFault("keyterms must be an array of strings")
    ignored = further_names(message, {"type", "keyterms"})
    return Configure(None if terms is None else tuple(terms), ignored)


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def further_names(message: Mapping[str, Any], known: Collection[str]) -> tuple[str, ...]:
    """Return the beginnings of the names of some members that are not known."""
    further = islice(message.keys() - set(known), MOST_IGNORED)
    return tuple(sorted(name[:_MOST_NAMED] for name in further))


# --- To the client -------------------------------------------------------------------------------


def results(
    utterance: Utterance,
    transcript: Transcript,
    metadata: Mapping[str, Any],
    *,
    is_final: bool,
    speech_final: bool,
    from_finalize: bool,
) -> str:
    """Write ``Results``, whose times count from the beginning of the stream."""
    alternative: dict[str, Any] = {
        "transcript": transcript.text,
        "confidence": round(transcript.confidence, 4),
        "words": [_word(word, utterance.start) for word in transcript.words],
    }
    if transcript.language:
        alternative["languages"] = [transcript.language]
    return _text(
        "Results",
        channel_index=[0, 1],
        duration=round(utterance.duration, 3),
        start=round(utterance.start, 3),
        is_final=is_final,
        speech_final=speech_final,
        from_finalize=from_finalize,
        channel={"alternatives": [alternative]},
        metadata=metadata,
    )


def _word(word: HeardWord, start: float) -> dict[str, Any]:
    bare = word.text.strip(_PUNCTUATION).lower()
    return {
        "word": bare or word.text,
        "start": round(start + word.start, 3),
        "end": round(start + word.end, 3),
        "confidence": round(word.confidence, 4),
        "punctuated_word": word.text,
    }


def speech_started(at: float) -> str:
    return _text("SpeechStarted", channel=[0, 1], timestamp=round(at, 3))


def utterance_end(last_word_end: float) -> str:
    return _text("UtteranceEnd", channel=[0, 1], last_word_end=round(last_word_end, 3))


def metadata(request_id: str, sha256: str, created: str, duration: float, channels: int) -> str:
    """Write ``Metadata``, the last message of a stream."""
    return _text(
        "Metadata",
        transaction_key="deprecated",
        request_id=request_id,
        sha256=sha256,
        created=created,
        duration=round(duration, 3),
        channels=channels,
    )


def configure_success(request_id: str, keyterms: Sequence[str] | None) -> str:
    terms = {} if keyterms is None else {"keyterms": list(keyterms)}
    return _text("ConfigureSuccess", request_id=request_id, **terms)


def configure_failure(request_id: str, code: str, description: str) -> str:
    return _text("ConfigureFailure", request_id=request_id, code=code, description=description)


def error(variant: str, description: str, message: str = "") -> str:
    """Write ``Error``.

    Args:
        variant: the kind of error.
        description: its reason.
        message: the client's message that is at fault; the beginning of it is quoted.
    """
    beginning = whole_characters(message[:_MOST_QUOTED])
    return _text("Error", variant=variant, description=description, message=beginning)


def _text(kind: str, **members: Any) -> str:
    return json_text({"type": kind, **members})
