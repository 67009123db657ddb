"""The messages of ``v2/listen``, both ways.

https://developers.deepgram.com/docs/flux and the models of deepgram-sdk 7.17 describe them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from partway.container.models.chat.json_objects import object_of, quoted
from partway.container.models.openai_events import json_text
from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.wires.listen_messages import (
    CloseStream,
    MessageFault,
    are_texts,
    further_names,
)

_CONFIGURE: Final = ("thresholds", "keyterms", "language_hints")


@dataclass(frozen=True, slots=True)
class ForceEndTurn:
    """The turn is over now."""


@dataclass(frozen=True, slots=True)
class FluxConfigure:
    """Changes of the stream's wishes, of which None leaves the earlier ones.

    Attributes:
        thresholds: by their names; their values are not checked yet.
        ignored: the beginnings of the names of some further members.
    """

    thresholds: Mapping[str, object] | None
    keyterms: tuple[str, ...] | None
    hints: tuple[str, ...] | None
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableConfigure:
    """A ``Configure`` with a member of another form, which is answered by a failure."""

    reason: str


ClientMessage: TypeAlias = CloseStream | ForceEndTurn | FluxConfigure | UnreadableConfigure

_PLAIN: Final[Mapping[str, ClientMessage]] = {
    "CloseStream": CloseStream(),
    "ForceEndTurn": ForceEndTurn(),
}


def flux_message_of(text: str) -> ClientMessage:
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
    return _configure_of(message)


def _configure_of(message: Mapping[str, Any]) -> FluxConfigure | UnreadableConfigure:
    thresholds = message.get("thresholds")
    if not isinstance(thresholds, dict | None):
        return UnreadableConfigure(
            f"thresholds: {quoted(thresholds)} was given; it must be an object"
        )
    keyterms, hints = message.get("keyterms"), message.get("language_hints")
    if isinstance(keyterms, str):
        keyterms = [keyterms]
    for name, value in (("keyterms", keyterms), ("language_hints", hints)):
        if value is not None and not are_texts(value):
            return UnreadableConfigure(
                f"{name}: {quoted(value)} was given; it must be an array of strings"
            )
    return FluxConfigure(
        thresholds,
        None if keyterms is None else tuple(keyterms),
        None if hints is None else tuple(hints),
        further_names(message, {"type", *_CONFIGURE}),
    )


# --- To the client -------------------------------------------------------------------------------


def flux_event(kind: str, request_id: str, sequence_id: int, **members: Any) -> str:
    """Write an event; ``sequence_id`` counts the stream's events from 0."""
    return json_text(
        {"type": kind, "request_id": request_id, "sequence_id": sequence_id, **members}
    )


def flux_words(transcript: Transcript, start: float) -> list[dict[str, Any]]:
    """Return the words of a text, whose times count from ``start``.

    LiveKit takes a text only by its words. So an engine without times of words has words all the
    same, without times.
    """
    if not transcript.words:
        confidence = round(transcript.confidence, 4)
        return [{"word": word, "confidence": confidence} for word in transcript.text.split()]
    return [
        {
            "word": word.text,
            "confidence": round(word.confidence, 4),
            "start": round(start + word.start, 3),
            "end": round(start + word.end, 3),
        }
        for word in transcript.words
    ]


def configured(
    thresholds: Mapping[str, Any], keyterms: Sequence[str], hints: Sequence[str]
) -> dict[str, Any]:
    """Return the members of ``ConfigureSuccess``: all wishes as they are now."""
    members: dict[str, Any] = {"thresholds": dict(thresholds), "keyterms": list(keyterms)}
    if hints:
        members["language_hints"] = list(hints)
    return members


def not_configured(code: str, reason: str) -> dict[str, Any]:
    """Return the members of ``ConfigureFailure``; pipecat reads ``error_code``."""
    return {"code": code, "error_code": code, "description": reason}
