"""The events that Realtime clients send, parsed.

https://platform.openai.com/docs/api-reference/realtime-client-events
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from partway.container.limits import MAX_MESSAGE_BYTES
from partway.container.models.chat.json_objects import MAX_DEPTH, object_of
from partway.container.models.voice.conversation import Item, Part
from partway.container.models.voice.limits import (
    MAX_ITEM_PARTS,
    MAX_ITEM_TEXT,
    MAX_METADATA,
    MAX_METADATA_NAME,
    MAX_METADATA_VALUE,
    MAX_NAME,
)
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault

_MOST_MS: Final = 24 * 3600 * 1000

_KINDS: Final = ("message", "function_call", "function_call_output")
_STATUSES: Final = ("completed", "incomplete", "in_progress")
_ROLES: Final = ("user", "assistant", "system", "developer")
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_AUDIOS: Final = frozenset({"audio", "input_audio", "output_audio"})
_PARTS: Final = (*sorted(_TEXTS | _AUDIOS), "input_image")


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    session: Members


@dataclass(frozen=True, slots=True)
class AudioAppend:
    audio: bytes


@dataclass(frozen=True, slots=True)
class AudioCommit:
    pass


@dataclass(frozen=True, slots=True)
class AudioClear:
    pass


@dataclass(frozen=True, slots=True)
class ItemCreate:
    """A new item.

    Attributes:
        previous: the id of the item that it follows, ``root`` for none; None to append it.
        audio: of a user's message, in the session's format; empty for none.
    """

    item: Item
    previous: str | None
    audio: bytes


@dataclass(frozen=True, slots=True)
class ItemTruncate:
    item_id: str
    audio_end_ms: int


@dataclass(frozen=True, slots=True)
class ItemDelete:
    item_id: str


@dataclass(frozen=True, slots=True)
class ItemRetrieve:
    item_id: str


@dataclass(frozen=True, slots=True)
class ResponseCreate:
    """A response that the client asks for.

    Attributes:
        response: the members that differ from the session's.
        is_apart: whether the response stays out of the conversation.
        context: the items to answer to; None for the conversation.
        metadata: repeated in the response's events.
    """

    response: Members
    is_apart: bool
    context: tuple[ItemCreate | str, ...] | None
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ResponseCancel:
    """The end of a response.

    Attributes:
        response_id: empty for the one in progress.
    """

    response_id: str


Message = (
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | ItemCreate
    | ItemTruncate
    | ItemDelete
    | ItemRetrieve
    | ResponseCreate
    | ResponseCancel
)


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """A client's event before its members are read.

    Attributes:
        kind: its ``type``.
        id: the client's ``event_id``; empty for none.
    """

    kind: str
    id: str
    members: Members

    def parse(self) -> Message:
        """Return the message.

        Raises:
            RealtimeFault: the type is unknown, or a member has another form.
        """
        parse = _PARSERS.get(self.kind)
        if parse is None:
            raise RealtimeFault(
                f"type is {self.kind[:60]!r}; it must be one of {', '.join(sorted(_PARSERS))}",
                param="type",
            )
        return parse(self.members)


def event_of(text: str | bytes) -> ClientEvent:
    """Return a client's event.

    Raises:
        RealtimeFault: the text is not a JSON object with a ``type``.
    """
    found = object_of(text)
    if found is None:
        raise RealtimeFault(
            f"an event must be a JSON object with a type, nested at most {MAX_DEPTH} deep",
            code="invalid_json",
        )
    members = Members(found)
    event_id = found.get("event_id")
    shown = event_id[:512] if isinstance(event_id, str) else ""
    return ClientEvent(members.needed("type"), shown, members)


def _session_update(event: Members) -> SessionUpdate:
    if not event.has("session"):
        raise event.fault("session", "an object")
    return SessionUpdate(event.inner("session"))


def _append(event: Members) -> AudioAppend:
    return AudioAppend(audio_of(event, "audio"))


def _item_create(event: Members) -> ItemCreate:
    if not event.has("item"):
        raise event.fault("item", "an object")
    item, audio = _item_of(event.inner("item"))
    return ItemCreate(item, event.text("previous_item_id", most=MAX_NAME) or None, audio)


def _truncate(event: Members) -> ItemTruncate:
    event.whole("content_index", 0, 0, 0)
    if event.value("audio_end_ms") is None:
        raise event.fault("audio_end_ms", "a number of milliseconds")
    end = event.whole("audio_end_ms", 0, _MOST_MS, 0)
    return ItemTruncate(event.needed("item_id"), end)


def _response_create(event: Members) -> ResponseCreate:
    response = event.inner("response")
    metadata = _metadata_of(response)
    context = None
    if response.value("input") is not None:
        context = tuple(_referred(each) for each in response.objects("input", 1024))
    is_apart = response.text("conversation", "auto") == "none"
    return ResponseCreate(response, is_apart, context, metadata)


def _metadata_of(response: Members) -> Mapping[str, str] | None:
    metadata = response.inner("metadata")
    kept: dict[str, str] | None = response.value("metadata")
    if kept is None:
        return None
    if len(kept) > MAX_METADATA or max(map(len, kept), default=0) > MAX_METADATA_NAME:
        raise response.fault(
            "metadata",
            f"an object of at most {MAX_METADATA} members, with names of at most "
            f"{MAX_METADATA_NAME} characters",
        )
    for name in kept:
        metadata.text(name, most=MAX_METADATA_VALUE)
    return kept


def _referred(given: Members) -> ItemCreate | str:
    if given.text("type") == "item_reference":
        return given.needed("id")
    item, audio = _item_of(given)
    return ItemCreate(item, None, audio)


_PARSERS: Final[Mapping[str, Callable[[Members], Message]]] = {
    "session.update": _session_update,
    "transcription_session.update": _session_update,
    "input_audio_buffer.append": _append,
    "input_audio_buffer.commit": lambda _: AudioCommit(),
    "input_audio_buffer.clear": lambda _: AudioClear(),
    "conversation.item.create": _item_create,
    "conversation.item.truncate": _truncate,
    "conversation.item.delete": lambda event: ItemDelete(event.needed("item_id")),
    "conversation.item.retrieve": lambda event: ItemRetrieve(event.needed("item_id")),
    "response.create": _response_create,
    "response.cancel": lambda event: ResponseCancel(event.text("response_id")),
}


def _item_of(given: Members) -> tuple[Item, bytes]:
    kind = given.one_of("type", _KINDS, "message")
    status = given.one_of("status", _STATUSES, "completed")
    name = given.text("id", most=MAX_NAME)
    if kind == "function_call":
        call = Item(name, kind, status=status, call_id=given.needed("call_id", most=MAX_NAME))
        call.name = given.needed("name", most=MAX_NAME)
        call.arguments = given.text("arguments", "{}")
        return call, b""
    if kind == "function_call_output":
        answer = Item(name, kind, status=status, call_id=given.needed("call_id", most=MAX_NAME))
        answer.output = given.text("output")
        return answer, b""
    role = given.one_of("role", _ROLES)
    role = "system" if role == "developer" else role
    parts, audio = [], bytearray()
    for each in given.objects("content", MAX_ITEM_PARTS):
        part, heard = _part_of(each, role)
        parts.append(part)
        audio += heard
    return Item(name, kind, role=role, status=status, content=parts), bytes(audio)


def _part_of(given: Members, role: str) -> tuple[Part, bytes]:
    kind = given.one_of("type", _PARTS)
    if kind == "input_image":
        if role != "user":
            raise given.fault("type", "a part of text: only a user's message has images")
        url = given.needed("image_url", most=4 * MAX_ITEM_TEXT)
        return Part(kind, image_url=url, detail=given.text("detail", most=MAX_NAME)), b""
    if kind in _TEXTS:
        text = given.text("text")
        return Part("output_text" if role == "assistant" else "input_text", text), b""
    text = given.text("transcript")
    if role == "assistant":
        return Part("output_audio", text), b""
    audio = audio_of(given, "audio") if given.value("audio") and not text else b""
    return Part("input_audio", text), audio


def audio_of(given: Members, name: str) -> bytes:
    """Return a member that is audio in base64.

    Raises:
        RealtimeFault: it is missing, or something else.
    """
    if given.value(name) is None:
        raise RealtimeFault(
            f"{given.path_of(name)} is missing; it must be base64 of audio",
            code="missing_required_parameter",
            param=given.path_of(name),
        )
    try:
        return binascii.a2b_base64(given.text(name, most=MAX_MESSAGE_BYTES), strict_mode=True)
    except (binascii.Error, ValueError):
        raise given.fault(name, "base64 of audio") from None
