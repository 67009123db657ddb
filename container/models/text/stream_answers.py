"""Forms of an answer on a stream: one text message in fragments, or messages in JSON."""

from __future__ import annotations

from typing import Protocol

from partway.container.errors import ModelError
from partway.container.models.openai_events import json_text
from partway.container.models.text.generation import Finish
from partway.container.models.text.openai_answers import usage_members
from partway.container.models.text.replies import Usage
from partway.container.stream import Stream
from partway.protocol.openai.errors import error_body
from partway.protocol.parts import CompletionState, DataType, PayloadPart


class StreamAnswer(Protocol):
    """The answer to one request."""

    async def piece(self, text: str) -> None: ...

    async def end(self, text: str, finish: Finish, usage: Usage) -> None:
        """Send the last piece, which may be empty, and the end."""

    async def fail(self, error: ModelError) -> None:
        """Answer with an error.

        Raises:
            ModelError: the error, where only a Close can tell of it.
        """


class PlainAnswer:
    """One text message; its last fragment is COMPLETE."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def piece(self, text: str) -> None:
        await self._send(text, CompletionState.PARTIAL)

    async def end(self, text: str, finish: Finish, usage: Usage) -> None:
        await self._send(text, CompletionState.COMPLETE)

    async def fail(self, error: ModelError) -> None:
        raise error

    async def _send(self, text: str, completion: CompletionState) -> None:
        await self._stream.send_part(PayloadPart(text.encode(), DataType.UTF8, completion))


class JsonAnswer:
    """Messages of type ``text``, and one of type ``end``; or an error in OpenAI's form."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def piece(self, text: str) -> None:
        if text:
            await self._send({"type": "text", "text": text})

    async def end(self, text: str, finish: Finish, usage: Usage) -> None:
        await self.piece(text)
        await self._send({"type": "end", "finish_reason": finish, "usage": usage_members(usage)})

    async def fail(self, error: ModelError) -> None:
        await self._stream.send(error_body(error.reason, error.status).decode())

    async def _send(self, event: dict[str, object]) -> None:
        await self._stream.send(json_text(event))
