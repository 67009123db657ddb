"""A stream of chat completion requests: each is answered by its chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from partway.container.errors import ModelError
from partway.container.models.text.chat_completions import ChatAsk, chat_of
from partway.container.models.text.openai_answers import OpenAIAnswer
from partway.container.models.text.replies import TextReply
from partway.container.models.text.request_members import Refused, members_of
from partway.container.stream import Stream
from partway.protocol.openai.errors import error_body

#: Begins the answer to a request.
Begin = Callable[[ChatAsk], Awaitable[tuple[OpenAIAnswer, TextReply]]]


class ChunkStream:
    """Answers each message, a chat completion request, with one message for each chunk.

    ``[DONE]`` is the last message of an answer. A message that comes during an answer ends the
    answer. An invalid or failed request is answered with an error, and the stream goes on.

    Args:
        begin: begins a reply; its ``close()`` is called at the answer's end.
    """

    def __init__(self, begin: Begin, stream: Stream) -> None:
        self._begin = begin
        self._stream = stream
        self._message: str | bytes | None = None
        self._reply: TextReply | None = None

    async def run(self) -> None:
        """Answer all requests until the input has ended."""
        async with asyncio.TaskGroup() as group:
            answering: asyncio.Task[None] | None = None
            async for message in self._stream.messages():
                self._message = message
                if self._reply is not None:
                    self._reply.close()
                if answering is None or answering.done():
                    answering = group.create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while self._message is not None:
            message, self._message = self._message, None
            try:
                await self._answer(message)
            except ModelError as error:
                await self._stream.send(error_body(error.reason, error.status).decode())

    async def _answer(self, message: str | bytes) -> None:
        members = members_of(message)
        if members is None:
            raise Refused("a message must be a chat completion request: a JSON object")
        answer, reply = await self._begin(chat_of({**members, "stream": True}))
        self._reply = reply
        if self._message is not None:  # it came while the reply began
            reply.close()
        try:
            async with aclosing(answer.events(reply)) as events:
                async for data in events:
                    if self._message is not None:
                        return
                    await self._stream.send(data.decode())
        finally:
            self._reply = None
            reply.close()
