"""A conversation in plain text on one stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.chat.interruptions import InterruptibleAnswer
from partway.container.models.chat.json_objects import object_of
from partway.container.models.chat.settings import ChatSettings
from partway.container.stream import Stream
from partway.protocol.limits import KIB
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import INVALID_DATA, TOO_BIG

#: Yields the data of a chat completion's events.
Events = Callable[[bytes], AsyncGenerator[bytes]]

#: Characters of one message, and of all remembered turns: 256 Ki of English are some 64 thousand
#: tokens, more than most contexts.
MAX_MESSAGE: Final = 256 * KIB
MAX_REMEMBERED: Final = 4 * MAX_MESSAGE


class RememberedTurns:
    """The remembered turns of a conversation; a user's and the assistant's alternate.

    Some chat templates refuse others, so turns of one role in a row are joined.

    Args:
        most: turns.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.all: list[dict[str, str]] = []

    def add(self, role: str, content: str) -> None:
        """Add a turn; the oldest ones are dropped where they are too many, up to a user's."""
        turns = self.all
        if turns and turns[-1]["role"] == role:
            content = f"{turns.pop()['content']}\n{content}"
        turns.append({"role": role, "content": content})
        size = sum(len(turn["content"]) for turn in turns)
        while len(turns) > 1 and (
            len(turns) > self._most or size > MAX_REMEMBERED or turns[0]["role"] != "user"
        ):
            size -= len(turns.pop(0)["content"])


class PlainConversation:
    """Each message is the user's next turn, and gets one message, fragment by fragment.

    1. A message that comes during a reply ends the reply: the request to the upstream is cancelled,
       and the reply's message ends with an empty last fragment.
    2. The conversation remembers, of a reply, the part that was sent.
    3. The last fragment of a reply is empty and COMPLETE.

    Args:
        stream: the client's.
        events: asks the upstream.
        settings: the model's.
    """

    def __init__(self, stream: Stream, events: Events, settings: ChatSettings) -> None:
        self._stream = stream
        self._events = events
        self._settings = settings
        self._turns = RememberedTurns(settings.max_turns)

    async def run(self) -> None:
        """Answer all messages until the input has ended.

        Raises:
            ExceptionGroup: of a ModelError: the upstream fails, or a message is not taken.
        """
        async with asyncio.TaskGroup() as group:
            current = InterruptibleAnswer(group)
            async for message in self._stream.messages():
                if await current.end():
                    await self._send("", last=True)
                self._turns.add("user", _text(message))
                current.begin(self._answer())

    async def _answer(self) -> None:
        said: list[str] = []
        size = 0
        try:
            async with aclosing(self._events(self._request())) as events:
                async for data in events:
                    piece = piece_of(data)
                    if not piece:
                        continue
                    await self._send(piece, last=False)
                    size += len(piece)
                    if size <= MAX_MESSAGE:
                        said.append(piece)
        finally:
            if said:
                self._turns.add("assistant", "".join(said))
        await self._send("", last=True)

    def _request(self) -> bytes:
        system = self._settings.system
        first = [{"role": "system", "content": system}] if system else []
        request = {"messages": [*first, *self._turns.all], "stream": True}
        model = {"model": self._settings.model}
        return json.dumps({**model, **self._settings.options, **request}).encode()

    async def _send(self, text: str, *, last: bool) -> None:
        completion = CompletionState.COMPLETE if last else CompletionState.PARTIAL
        await self._stream.send_part(PayloadPart(text.encode(), DataType.UTF8, completion))


def piece_of(data: bytes) -> str:
    """Return the text of a chat completion's chunk; empty for one without text.

    Raises:
        ModelError: the chunk is an error, or no JSON object.
    """
    delta = first_choice(data).get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    return well_formed(content) if isinstance(content, str) else ""


def first_choice(data: bytes) -> dict[str, Any]:
    """Return the first choice of a completion's chunk; an empty object for one without.

    Raises:
        ModelError: the chunk is an error, or no JSON object.
    """
    chunk = object_of(data)
    if chunk is None:
        raise ModelError("the upstream sent an event that is not a JSON object")
    if error := chunk.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        raise ModelError(f"the upstream failed: {str(message)[:200]}")
    choices: Any = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def well_formed(text: str) -> str:
    """Return text without halves of surrogate pairs, which JSON can have."""
    return text.encode("utf-8", "replace").decode()


def _text(message: str | bytes) -> str:
    if isinstance(message, bytes):
        try:
            message = message.decode()
        except UnicodeDecodeError:
            raise ModelError("the message is not UTF-8 text", code=INVALID_DATA) from None
    if len(message) > MAX_MESSAGE:
        raise ModelError(
            f"the message has {len(message)} characters; it must have at most {MAX_MESSAGE}",
            code=TOO_BIG,
        )
    return message
