"""Conversation on one stream: each request is answered by one message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from partway.container.errors import Busy
from partway.container.models.text.generation_request import Ask, Sampling, ask_of
from partway.container.models.text.prompts import Conversation
from partway.container.models.text.replies import TextReply
from partway.container.stream import Stream
from partway.protocol.parts import CompletionState, DataType, PayloadPart

#: Begins the next reply of a conversation.
Begin = Callable[[Conversation, Sampling], Awaitable[TextReply]]


@dataclass(slots=True, eq=False)
class _Request:
    """A request, from its arrival to its answer.

    Attributes:
        interrupted: whether a later request has come, which cuts the answer.
        reply: the answer while it is generated; None before and after.
    """

    ask: Ask
    interrupted: bool = False
    reply: TextReply | None = None

    def answered_by(self, reply: TextReply) -> None:
        """Note that the reply has begun; end it if a later request came meanwhile."""
        self.reply = reply
        if self.interrupted:
            reply.close()

    def interrupt(self) -> None:
        self.interrupted = True
        if self.reply is not None:
            self.reply.close()


class ConversationStream:
    """A conversation on a stream.

    1. Each request gets one text message, whose fragments are sent as they are sampled. The last
       fragment is COMPLETE. It is empty if the reply ends with a token without text.
    2. A request interrupts the current one and all waiting ones: their messages are cut. With
       ``queue`` it waits for its turn.
    3. The conversation is remembered; of an interrupted reply, the part that was sent.
    4. An invalid or failed request closes the stream with a code and a reason.

    Args:
        begin: begins a reply, on which the caller must call ``close()``.
        queued: most requests that wait for their turn.
    """

    def __init__(self, begin: Begin, stream: Stream, queued: int) -> None:
        self._begin = begin
        self._stream = stream
        self._queued = queued
        self._conversation = Conversation()
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None

    async def run(self) -> None:
        """Answer all requests until the input has ended."""
        async with asyncio.TaskGroup() as group:
            answering: asyncio.Task[None] | None = None
            async for message in self._stream.messages():
                self._take(ask_of(message))
                if answering is None or answering.done():
                    answering = group.create_task(self._answer_all())

    def _take(self, ask: Ask) -> None:
        if not ask.queue:
            for request in (self._current, *self._waiting):
                if request is not None:
                    request.interrupt()
        if len(self._waiting) >= self._queued:
            raise Busy(f"{self._queued} requests of this stream are waiting, and that is the limit")
        self._waiting.append(_Request(ask))

    async def _answer_all(self) -> None:
        while self._waiting:
            self._current = self._waiting.popleft()
            try:
                await self._answer(self._current)
            finally:
                self._current = None

    async def _answer(self, request: _Request) -> None:
        if request.interrupted:
            await self._send("", last=True)
            return
        self._conversation.ask(request.ask)
        reply = await self._begin(self._conversation, request.ask.sampling)
        try:
            request.answered_by(reply)
            while reply.finish is None:
                piece = await reply.next()
                await self._send(piece, last=reply.finish is not None)
        finally:
            reply.close()
        self._conversation.answered(reply.text)

    async def _send(self, text: str, *, last: bool) -> None:
        completion = CompletionState.COMPLETE if last else CompletionState.PARTIAL
        await self._stream.send_part(PayloadPart(text.encode(), DataType.UTF8, completion))
