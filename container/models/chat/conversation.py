"""A conversation in plain text on one stream."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.chat.json_objects import object_of
from partway.container.models.chat.upstream import AsksUpstreams
from partway.container.session import Session
from partway.protocol.limits import KIB
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import INVALID_DATA, TOO_BIG

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


class PlainConversation(Session[AsksUpstreams]):
    """Each message is the user's next turn, and gets one message, fragment by fragment.

    1. A message that comes during a reply ends the reply: the request to the upstream is cancelled,
       and the reply's message ends with an empty last fragment.
    2. The conversation remembers, of a reply, the part that was sent.
    3. The last fragment of a reply is empty and COMPLETE.
    """

    async def opened(self) -> None:
        self._turns = RememberedTurns(self.model.settings.max_turns)

    async def text(self, message: str) -> None:
        if await self.interrupt():
            await self._send("", last=True)
        if len(message) > MAX_MESSAGE:
            raise ModelError(
                f"the message has {len(message)} characters; it must have at most {MAX_MESSAGE}",
                code=TOO_BIG,
            )
        self._turns.add("user", message)
        self.spawn(self._answer())

    async def binary(self, message: bytes) -> None:
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise ModelError("the message is not UTF-8 text", code=INVALID_DATA) from None
        await self.text(text)

    async def _answer(self) -> None:
        said: list[str] = []
        size = 0
        try:
            async with aclosing(self.model.upstreams.events(self._request())) as events:
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
        settings = self.model.settings
        first = [{"role": "system", "content": settings.system}] if settings.system else []
        request = {"messages": [*first, *self._turns.all], "stream": True}
        return json.dumps({"model": settings.model, **settings.options, **request}).encode()

    async def _send(self, text: str, *, last: bool) -> None:
        completion = CompletionState.COMPLETE if last else CompletionState.PARTIAL
        await self.stream.send_part(PayloadPart(text.encode(), DataType.UTF8, completion))


def piece_of(data: bytes) -> str:
    """Return the text of a chat completion's chunk; empty for one without text.

    Raises:
        ModelError: the chunk is an error, or no JSON object.
    """
    delta = first_choice(data).get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else ""


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
