"""A conversation in plain text on one stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

from partway.container.errors import ModelError
from partway.container.models.chat.settings import ChatSettings
from partway.container.stream import Stream
from partway.protocol.parts import CompletionState, DataType, PayloadPart

#: Yields the data of a chat completion's events.
Events = Callable[[bytes], AsyncIterator[bytes]]


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
        self._turns: list[dict[str, str]] = []

    async def run(self) -> None:
        """Answer all messages until the input has ended.

        Raises:
            ModelError: the upstream fails.
        """
        async with asyncio.TaskGroup() as group:
            answering: asyncio.Task[None] | None = None
            async for message in self._stream.messages():
                if answering is not None and not answering.done():
                    answering.cancel()
                    with suppress(asyncio.CancelledError):
                        await answering
                    await self._send("", last=True)
                self._add("user", _text(message))
                answering = group.create_task(self._answer())

    async def _answer(self) -> None:
        said: list[str] = []
        try:
            async with aclosing(self._events(self._request())) as events:  # type: ignore[type-var]
                async for data in events:
                    if piece := text_of(data):
                        await self._send(piece, last=False)
                        said.append(piece)
        finally:
            if said:
                self._add("assistant", "".join(said))
        await self._send("", last=True)

    def _request(self) -> bytes:
        system = self._settings.system
        first = [{"role": "system", "content": system}] if system else []
        request = {"messages": [*first, *self._turns], "stream": True}
        model = {"model": self._settings.model}
        return json.dumps({**model, **self._settings.options, **request}).encode()

    def _add(self, role: str, content: str) -> None:
        self._turns.append({"role": role, "content": content})
        del self._turns[: -self._settings.max_turns]

    async def _send(self, text: str, *, last: bool) -> None:
        completion = CompletionState.COMPLETE if last else CompletionState.PARTIAL
        await self._stream.send_part(PayloadPart(text.encode(), DataType.UTF8, completion))


def text_of(data: bytes) -> str:
    """Return the text of a chat completion's chunk; empty for one without text.

    Raises:
        ModelError: the chunk is an error, or no JSON object.
    """
    try:
        chunk: Any = json.loads(data)
    except ValueError:
        chunk = None
    if not isinstance(chunk, dict):
        raise ModelError("the upstream sent an event that is no JSON object")
    if error := chunk.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        raise ModelError(f"the upstream failed: {str(message)[:200]}")
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    delta = first.get("delta") if isinstance(first, dict) else None
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else ""


def _text(message: str | bytes) -> str:
    if isinstance(message, str):
        return message
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ModelError("the message is not UTF-8 text", status=400) from None
