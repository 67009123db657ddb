"""Conversation on one stream: each request is answered in text, or in JSON."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from partway.container.errors import Busy, ModelError
from partway.container.models.text.generation_request import Ask
from partway.container.models.text.prompts import Conversation
from partway.container.models.text.replies import TextReply, Usage
from partway.container.models.text.request_members import Refused, members_of
from partway.container.models.text.sampling_options import Sampling
from partway.container.models.text.stream_answers import JsonAnswer, PlainAnswer, StreamAnswer
from partway.container.models.text.stream_session import (
    StreamSession,
    is_session,
    opens_session,
    session_of,
)
from partway.container.stream import Stream

#: Begins the next reply of a conversation.
Begin = Callable[[Conversation, Sampling], Awaitable[TextReply]]

_NOTHING = Usage(0, 0)


@dataclass(slots=True, eq=False)
class _Request:
    """A request, from its arrival to its answer.

    Attributes:
        superseded: number of earlier requests that end, without a reply, before this one begins.
        interrupted: whether a later request has come, which cuts the answer.
        reply: the answer while it is generated; None before and after.
    """

    ask: Ask
    answer: StreamAnswer
    superseded: int = 0
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

    1. Messages are plain text, unless the first one is a session in JSON.
    2. Each request gets one answer, sent piece by piece as it is sampled.
    3. A request interrupts the current one and supersedes all waiting ones, whose answers are
       empty. In JSON, a request with ``queue`` waits for its turn.
    4. The conversation is remembered; of an interrupted reply, the part that was sent. A request
       that was interrupted before its first piece is forgotten.
    5. In plain text an invalid or failed request closes the stream with a code and a reason. In
       JSON its answer is an error, and the stream goes on.

    Args:
        begin: begins a reply, on which the caller must call ``close()``.
        queued: most requests that wait for their turn.
    """

    def __init__(self, begin: Begin, stream: Stream, queued: int) -> None:
        self._begin = begin
        self._stream = stream
        self._queued = queued
        self._session: StreamSession | None = None
        #: The system's turn for the requests that come next; None once the conversation has it.
        self._system: str | None = None
        self._conversation = Conversation()
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None

    async def run(self) -> None:
        """Answer all requests until the input has ended."""
        async with asyncio.TaskGroup() as group:
            answering: asyncio.Task[None] | None = None
            async for message in self._stream.messages():
                try:
                    self._take(message)
                except ModelError as error:
                    await self._answer_form().fail(error)
                if self._waiting and (answering is None or answering.done()):
                    answering = group.create_task(self._answer_all())

    def _take(self, message: str | bytes) -> None:
        session = self._session
        if session is None:
            session = self._session = StreamSession(in_json=opens_session(message))
        if not session.in_json:
            self._add(_Request(session.ask_of_text(message), self._answer_form()))
            return
        members = members_of(message)
        if members is None:
            raise Refused("the message must be a JSON object: a request, or a session")
        if is_session(members):
            self._session = session = session_of(members)
            self._system = session.system if session.system is not None else self._system
        else:
            self._add(_Request(session.ask_of_members(members), self._answer_form()))

    def _answer_form(self) -> StreamAnswer:
        in_json = self._session is not None and self._session.in_json
        return JsonAnswer(self._stream) if in_json else PlainAnswer(self._stream)

    def _add(self, request: _Request) -> None:
        """Let a request wait for its turn; without ``queue``, it is the next.

        Raises:
            Busy: too many requests wait.
        """
        if not request.ask.queue:
            if self._current is not None:
                self._current.interrupt()
            request.superseded = sum(each.superseded + 1 for each in self._waiting)
            self._waiting.clear()
        elif len(self._waiting) >= self._queued:
            raise Busy(f"{self._queued} requests of this stream are waiting, and that is the limit")
        self._waiting.append(request)

    async def _answer_all(self) -> None:
        while self._waiting:
            self._current = request = self._waiting.popleft()
            try:
                await self._answer(request)
            except ModelError as error:
                await request.answer.fail(error)
            finally:
                self._current = None

    async def _answer(self, request: _Request) -> None:
        for _ in range(request.superseded):
            await request.answer.end("", "cancelled", _NOTHING)
        if request.interrupted:
            await request.answer.end("", "cancelled", _NOTHING)
            return
        if self._system is not None:
            self._conversation.instruct(self._system)
            self._system = None
        before = list(self._conversation.turns)
        self._conversation.ask(request.ask)
        try:
            reply = await self._begin(self._conversation, request.ask.sampling)
        except ModelError:  # without its reply the turn would stand in the way of the next one
            self._conversation.turns = before
            raise
        try:
            request.answered_by(reply)
            async for piece in reply.pieces():
                if reply.finish is None:
                    await request.answer.piece(piece)
                else:
                    await request.answer.end(piece, reply.finish, reply.usage)
        finally:
            reply.close()
            if reply.text or reply.finish in ("stop", "length"):
                self._conversation.answered(reply.text)
            else:  # a model that sees an empty reply gives another one
                self._conversation.turns = before
