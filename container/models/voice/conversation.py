"""The items of one conversation, and its history as the user has heard it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Protocol

from partway.container.errors import ModelError
from partway.container.models.voice.limits import MAX_ITEMS, MAX_REMEMBERED

#: Characters that count for each part, be it empty.
_PART_SIZE: Final = 64


class Spoken(Protocol):
    """The record of an answer's audio."""

    @property
    def sent_ms(self) -> int:
        """Milliseconds of audio that were sent."""

    def truncate(self, heard_ms: int) -> str:
        """Return the words within the milliseconds that a client says were heard."""


@dataclass(slots=True)
class Part:
    """A part of a message.

    Attributes:
        kind: ``input_text``, ``input_audio``, ``input_image``, ``output_text`` or ``output_audio``.
        text: the text, or the transcript of audio.
        image_url: of an image.
        detail: how closely the model looks at an image; empty for the usual.
    """

    kind: str
    text: str = ""
    image_url: str = ""
    detail: str = ""

    @property
    def size(self) -> int:
        """Characters that the part keeps."""
        return _PART_SIZE + len(self.text) + len(self.image_url) + len(self.detail)


@dataclass(slots=True)
class Item:
    """An item of a conversation.

    Attributes:
        id: unique in its conversation.
        kind: ``message``, ``function_call`` or ``function_call_output``.
        role: of a message: ``user``, ``assistant`` or ``system``.
        status: ``in_progress``, ``completed`` or ``incomplete``.
        call_id: of a call and of its output.
        spoken: of an answer with audio.
        hearing: done once the text of a user's audio is known; None if there is nothing to wait
            for.
        failure: why the audio could not be heard; None if it was.
    """

    id: str
    kind: str = "message"
    role: str = ""
    status: str = "completed"
    content: list[Part] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
    spoken: Spoken | None = None
    hearing: asyncio.Event | None = None
    failure: ModelError | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        return " ".join(part.text for part in self.content if part.text)

    @property
    def size(self) -> int:
        """Characters that the item keeps."""
        own = (self.id, self.call_id, self.name, self.arguments, self.output)
        return sum(map(len, own)) + sum(part.size for part in self.content)

    def heard(self, text: str) -> None:
        """Set the text of the user's audio."""
        unheard = (part for part in self.content if part.kind == "input_audio" and not part.text)
        next(unheard).text = text
        self._settle()

    def unheard(self, failure: ModelError) -> None:
        """Record that the user's audio could not be heard."""
        self.failure = failure
        self._settle()

    def _settle(self) -> None:
        if self.hearing is not None:
            self.hearing.set()


class NoSuchItem(Exception):
    """No item has the id."""


class ItemExists(Exception):
    """An item has the id already."""


class ConversationItems:
    """The items, the oldest first; the oldest are dropped where they are too many.

    An item that has grown since it was added must be measured again.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._sizes: dict[int, int] = {}  # as measured, by the identity of each item
        self._size = 0  # of all items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last_id(self) -> str | None:
        return self._items[-1].id if self._items else None

    def find(self, item_id: str) -> Item:
        """Return an item.

        Raises:
            NoSuchItem: there is no such item.
        """
        return self._items[self._place(item_id)]

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Add an item, and return the id of the item before it; None if it is the first.

        Args:
            item: an empty id is replaced by a new one.
            after: the id of the item that it follows, ``root`` for none; None to append it.

        Raises:
            ItemExists: the item's id is taken.
            NoSuchItem: there is no item ``after``.
        """
        item.id = item.id or new_id("item")
        if any(each.id == item.id for each in self._items):
            raise ItemExists(item.id)
        at = len(self._items) if after is None else self._after(after)
        before = self._items[at - 1].id if at else None
        self._items.insert(at, item)
        self._sizes[id(item)] = 0
        self.measure(item)
        return before

    def measure(self, item: Item) -> None:
        """Count what an item keeps now; the oldest others are dropped if that is too much."""
        if id(item) not in self._sizes:
            return  # it was deleted, or dropped
        size = item.size
        self._size += size - self._sizes[id(item)]
        self._sizes[id(item)] = size
        while len(self._items) > 1 and (
            len(self._items) > MAX_ITEMS or self._size > MAX_REMEMBERED
        ):
            self._remove(0 if self._items[0] is not item else 1)

    def delete(self, item_id: str) -> None:
        """Delete an item.

        Raises:
            NoSuchItem: there is no such item.
        """
        self._remove(self._place(item_id))

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(self._items)

    def _after(self, item_id: str) -> int:
        return 0 if item_id == "root" else self._place(item_id) + 1

    def _place(self, item_id: str) -> int:
        for at, item in enumerate(self._items):
            if item.id == item_id:
                return at
        raise NoSuchItem(item_id)

    def _remove(self, at: int) -> None:
        item = self._items.pop(at)
        self._size -= self._sizes.pop(id(item))


async def heard_all(items: Iterable[Item]) -> None:
    """Wait until the text of all audio is known.

    Raises:
        ModelError: the user's last message could not be heard.
    """
    failure: ModelError | None = None
    for item in items:
        if item.hearing is not None:
            await item.hearing.wait()
        if item.role == "user":
            failure = item.failure
    if failure is not None:
        raise failure


def chat_messages(items: Iterable[Item], instructions: str) -> list[dict[str, Any]]:
    """Return the messages of a chat completion request.

    Turns of one role in a row are joined: some chat templates refuse them. A call is left out
    until it has its output, and so is an output without its call.
    """
    items = list(items)
    outputs = {item.call_id: item.output for item in items if item.kind == "function_call_output"}
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in items:
        if item.kind == "function_call" and item.call_id in outputs:
            _add_call(messages, item, outputs[item.call_id])
        elif item.kind == "message":
            _add_message(messages, item)
    return list(_joined(messages))


def _add_call(messages: list[dict[str, Any]], item: Item, output: str) -> None:
    function = {"name": item.name, "arguments": item.arguments or "{}"}
    call = {"id": item.call_id, "type": "function", "function": function}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": item.call_id, "content": output})


def _add_message(messages: list[dict[str, Any]], item: Item) -> None:
    if content := _content(item):
        messages.append({"role": item.role, "content": content})


def _joined(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for role, turns in groupby(messages, _joining_role):
        if role:
            yield {"role": role, "content": "\n".join(each["content"] for each in turns)}
        else:
            yield from turns


def _joining_role(message: Mapping[str, Any]) -> str:
    """Return the role under which a message is joined to its neighbours; empty if it is not."""
    is_text = isinstance(message["content"], str) and message["role"] != "tool"
    return message["role"] if is_text else ""


def _content(item: Item) -> str | list[dict[str, Any]]:
    if not any(part.image_url for part in item.content):
        return item.text
    parts: list[dict[str, Any]] = []
    for part in item.content:
        if part.image_url:
            image = {"url": part.image_url}
            detail = {"detail": part.detail} if part.detail else {}
            parts.append({"type": "image_url", "image_url": {**image, **detail}})
        elif part.text:
            parts.append({"type": "text", "text": part.text})
    return parts


def new_id(kind: str) -> str:
    """Make an id such as ``item_…``."""
    return f"{kind}_{uuid.uuid4().hex[:20]}"
