"""One response of a Realtime session: its items, their events, and its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.voice.conversation import (
    ConversationItems,
    Item,
    chat_messages,
    heard_all,
    new_id,
)
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.limits import MAX_ANSWER
from partway.container.models.voice.wires import realtime_events as events
from partway.container.models.voice.wires.realtime_answer import (
    ResponseMessage,
    Send,
    SpokenAnswer,
    WrittenAnswer,
)
from partway.container.models.voice.wires.realtime_session import SessionSettings
from partway.container.models.voice.wires.realtime_tools import ToolCalls, chat_options

#: Why an answer was cut by its engine, by the reasons of chat completions.
_CUTS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseOutput:
    """The events of a response, in order, and the items that they announce.

    An announcement that was interrupted is completed before anything else is sent: a client never
    sees the end of something that has not begun.

    Args:
        response_id: of the response.
        conversation: takes the items; None for a response that stays out of it.
        send: sends an event.
    """

    def __init__(
        self, response_id: str, conversation: ConversationItems | None, send: Send
    ) -> None:
        self.items: list[Item] = []
        self._response_id = response_id
        self._conversation = conversation
        self._send = send
        self._owed: deque[str] = deque()
        self._turn = asyncio.Lock()

    async def delta(self, text: str) -> None:
        """Send an event that is left out if its task is cancelled before."""
        async with self._turn:
            await self._pay()
            await self._send(text)

    async def owe(self, *texts: str) -> None:
        """Send events; a cancellation leaves the rest to the next call."""
        self._owed += texts
        async with self._turn:
            await self._pay()

    def announce(self, item: Item) -> events.ResponsePlace:
        """Add an item to the response and to the conversation; the next events tell of it."""
        previous = None if self._conversation is None else self._conversation.add(item)
        place = events.ResponsePlace(self._response_id, item, len(self.items), previous)
        self.items.append(item)
        self._owed.append(place.item_added())
        if self._conversation is not None:
            self._owed.append(events.item_added(item, previous))
        return place

    async def done(self, place: events.ResponsePlace, *texts: str) -> None:
        """Send the last events of an item, and say that it is done."""
        self._owed += texts
        if self._conversation is not None:
            self._conversation.measure(place.item)
            self._owed.append(events.item_done(place.item, place.previous))
        await self.owe(place.item_done())

    async def _pay(self) -> None:
        while self._owed:
            await self._send(self._owed[0])
            self._owed.popleft()


class Response:
    """A response, from ``response.created`` to ``response.done``.

    Args:
        engines: answer, and speak.
        settings: the session's, with the wishes for this response.
        conversation: takes the response's items; None for a response that stays out of it.
        context: the items to answer to, as they are when the answer begins.
        metadata: repeated in the response's events.
        send: sends an event.

    Attributes:
        id: unique, ``resp_…``.
        closed: set once ``response.done`` is sent.
    """

    def __init__(
        self,
        engines: Engines,
        settings: SessionSettings,
        conversation: ConversationItems | None,
        context: Sequence[Item] | ConversationItems,
        metadata: Mapping[str, str] | None,
        send: Send,
    ) -> None:
        self.id = new_id("resp")
        self.closed = asyncio.Event()
        self._engines = engines
        self._settings = settings
        self._context = context
        self._metadata = metadata
        self._output = ResponseOutput(self.id, conversation, send)
        self._tasks: set[asyncio.Task[None]] = set()  # that are not over
        self._answer: ResponseMessage | None = None
        self._calls = ToolCalls()
        self._size = 0  # characters of the answer
        self._cut: str | None = None
        self._is_created = False
        self._is_ending = False
        self._is_stopped = False  # and must be finished by who has stopped it

    # --- Its life --------------------------------------------------------------------------------

    def start(self, group: asyncio.TaskGroup, run: Coroutine[Any, Any, None]) -> None:
        """Start the task in which :meth:`run` is called."""
        self._spawn(group, run)

    async def run(self) -> None:
        """Answer, and say how that ended.

        Raises:
            Exception: an engine has failed, or a group of exceptions; :meth:`fail` is next.
        """
        await self._create()
        await heard_all(_items_of(self._context))
        items = _items_of(self._context)
        await self._generate(chat_messages(items, self._settings.instructions))
        if self._cut is None:
            await self._close("completed", None)
        else:
            await self._close("incomplete", {"type": "incomplete", "reason": self._cut})

    def stop(self) -> None:
        """Stop answering and speaking: nothing is sent any more but the response's last events."""
        if self._is_ending:
            return
        self._is_ending = self._is_stopped = True
        for task in list(self._tasks):  # the children too, or one sends before its parent ends it
            task.cancel()

    async def stopped(self, reason: str) -> None:
        """Return once the response that was stopped has said its last events.

        Args:
            reason: ``turn_detected`` or ``client_cancelled``.
        """
        if not self._is_stopped:  # it ends by itself, or by another call
            await self.closed.wait()
            return
        self._is_stopped = False
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._finish("cancelled", {"type": "cancelled", "reason": reason})

    async def fail(self, reason: str) -> None:
        """End the response by an engine's failure."""
        error = {"type": "server_error", "code": "engine_failed", "message": reason}
        await self._close("failed", {"type": "failed", "error": error})

    def _spawn(self, group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        task = group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self) -> None:
        if not self._is_created:
            self._is_created = True
            shown = self._shown("in_progress", None)
            await self._output.owe(events.event("response.created", response=shown))

    async def _close(self, status: str, details: Mapping[str, Any] | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            await self._finish(status, details)

    async def _finish(self, status: str, details: Mapping[str, Any] | None) -> None:
        await self._create()
        answer = self._answer
        if answer is not None:
            is_cut = status in ("cancelled", "failed")
            answer.item.status = "completed" if status == "completed" else "incomplete"
            await self._output.done(answer.place, *answer.closing(is_cut=is_cut))
        shown = self._shown(status, details)
        await self._output.owe(events.event("response.done", response=shown))
        self.closed.set()

    def _shown(self, status: str, details: Mapping[str, Any] | None) -> dict[str, Any]:
        settings = self._settings
        shown = {
            "output_modalities": [settings.modality],
            "max_output_tokens": settings.max_output_tokens or "inf",
            "audio": {"output": settings.shown_output()},
            "metadata": self._metadata,
        }
        return events.shown_response(self.id, status, self._output.items, details, shown)

    # --- Its answer ------------------------------------------------------------------------------

    async def _generate(self, messages: list[dict[str, Any]]) -> None:
        if self._engines.answers is None:
            raise ModelError(
                "this container answers nothing: PARTWAY_VOICE_ANSWERS must name an engine"
            )
        async with asyncio.TaskGroup() as group:
            answering = self._engines.answers.answer(messages, chat_options(self._settings))
            async with aclosing(answering) as deltas:
                async for delta in deltas:
                    await self._take(delta, group)
                    if self._cut is not None:
                        break
            if self._answer is not None:
                self._answer.end()
            if self._cut is None:  # otherwise a call's arguments may lack their end
                for call in self._calls.items():
                    await self._send_call(call)

    async def _take(self, delta: Mapping[str, Any], group: asyncio.TaskGroup) -> None:
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._grow(content)
            if self._answer is not None or content.strip():
                answer = self._answer or await self._announce(group)
                await answer.add(content)
        for call in delta.get("tool_calls") or ():
            self._grow(self._calls.add(call))
        reason = delta.get("finish_reason")
        self._cut = self._cut or (_CUTS.get(reason) if isinstance(reason, str) else None)

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_ANSWER:
            self._cut = "max_output_tokens"

    async def _announce(self, group: asyncio.TaskGroup) -> ResponseMessage:
        """Begin the message of the response."""
        settings, speaking = self._settings, self._engines.speaking
        is_spoken = settings.modality == "audio" and speaking is not None
        part = "output_audio" if is_spoken else "output_text"
        item = events.new_message(part)
        place = self._output.announce(item)
        if speaking is None or not is_spoken:
            self._answer = WrittenAnswer(place, self._output.delta)
        else:
            voice = settings.voice if settings.voice in speaking.voices else ""
            options = SpeakingOptions(voice=voice, speed=settings.speed)
            spoken = SpokenAnswer(
                place, self._output.delta, speaking, options, settings.output_format
            )
            self._answer = spoken
            self._spawn(group, spoken.make())
            self._spawn(group, spoken.play())
        await self._output.owe(place.part_added())
        return self._answer

    async def _send_call(self, item: Item) -> None:
        """Send a call of a function; a client never sees a part of its arguments alone."""
        arguments, item.arguments = item.arguments, ""
        item.status = "in_progress"
        place = self._output.announce(item)
        item.arguments, item.status = arguments, "completed"
        await self._output.done(place, place.arguments_delta(arguments), place.arguments_done())


def _items_of(context: Sequence[Item] | ConversationItems) -> Sequence[Item]:
    return context.items if isinstance(context, ConversationItems) else context
