"""OpenAI's Realtime API on a stream: a conversation by voice, or transcription alone.

https://platform.openai.com/docs/api-reference/realtime
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from multidict import MultiMapping

from partway.container.errors import cause_of, log_failure, reason_of, without_frames
from partway.container.models.ignored_names import IgnoredNames
from partway.container.models.voice.conversation import (
    ConversationItems,
    Item,
    ItemExists,
    NoSuchItem,
)
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import ANSWER_AFTER_INPUT
from partway.container.models.voice.wires import realtime_events as events
from partway.container.models.voice.wires import realtime_messages as messages
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_item_hearing import ItemHearing, check_length
from partway.container.models.voice.wires.realtime_response import Response
from partway.container.models.voice.wires.realtime_session import first_settings
from partway.container.models.voice.wires.realtime_turns import Announce, UserTurns
from partway.container.stream import Stream, StreamClosed

log = logging.getLogger("partway.container.voice")

#: Each name is logged once in a process.
_ignored: Final = IgnoredNames(log, "a member of a session has no effect")
_TRANSCRIPTION: Final = "transcription"


def realtime_needs(query: MultiMapping[str], engines: Engines) -> tuple[str, ...]:
    """Return the settings of the engines that a session cannot do without.

    A conversation may be in writing, and a session that says nothing of its intent may transcribe.
    """
    transcribes = query.get("intent") == _TRANSCRIPTION or engines.answers is None
    return ("hears",) if transcribes else ()


class RealtimeStream:
    """One Realtime session.

    1. There is one response at a time. Speech of the user ends it, if the session says so; then
       the conversation keeps the part that can have been heard.
    2. An event that cannot be obeyed is answered with an ``error`` event, and changes nothing.
    3. When the input ends, turns get their texts, and the last one its response.

    Args:
        stream: the client's; its query may have ``model``, and ``intent=transcription``.
        engines: hear, answer and speak.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        self._stream = stream
        self._send = stream.send
        self._engines = engines
        is_transcription = stream.query.get("intent") == _TRANSCRIPTION
        self._settings = first_settings(
            engines, stream.query.get("model", ""), is_transcription=is_transcription
        )
        self._conversation = ConversationItems()
        self._response: Response | None = None
        self._is_owed = False  # a turn that wants a response has none yet
        self._group: asyncio.TaskGroup
        self._items: ItemHearing
        self._turns: UserTurns

    def created(self, **further: object) -> str:
        """Return the event that begins the session.

        Args:
            further: members for clients of other dialects.
        """
        return events.event("session.created", session=self._settings.members(), **further)

    async def run(self, received: AsyncIterator[str | bytes] | None = None) -> None:
        """Hold the session until the client's input has ended.

        Args:
            received: the client's messages, if :meth:`created` has been sent; by default it is sent
                here.
        """
        try:
            await self._hold(received)
        finally:
            # These know this object: without them it is freed at once, not by the collector.
            self._turns.close()
            self._response = None

    async def _hold(self, received: AsyncIterator[str | bytes] | None) -> None:
        async with asyncio.TaskGroup() as self._group:
            self._items = ItemHearing(
                self._engines, self._conversation, self._group, self._stream.id
            )
            self._turns = UserTurns(
                self._engines, self._conversation, self._send, self, self._group
            )
            await self._turns.configure(self._settings)
            if received is None:
                await self._send(self.created())
                received = self._stream.messages()
            async for message in received:
                await self._obey(message)
            await self._end()
            self._items.stop()

    async def _end(self) -> None:
        """Give a client that has ended its input the texts and the answers that it waits for.

        A WebSocket client cannot say whether it still listens, so a long answer is cut.
        A client that has left waits for nothing: its handler is cancelled.
        """
        await self._turns.end()
        try:
            async with asyncio.timeout(ANSWER_AFTER_INPUT):
                while (response := self._response) is not None:
                    await response.closed.wait()
        except TimeoutError:
            if (response := self._response) is not None:
                response.stop()
                await self._over(response, "client_cancelled")

    # --- The client's events ---------------------------------------------------------------------

    async def _obey(self, message: str | bytes) -> None:
        event_id = ""
        try:
            event = messages.event_of(message)
            event_id = event.id
            await self._on(event.parse())
        except RealtimeFault as fault:
            await self._send(events.error_event(fault, event_id))

    async def _on(self, message: messages.Message) -> None:
        match message:
            case messages.AudioAppend(audio):
                await self._turns.append(audio)
            case messages.AudioCommit():
                await self._turns.commit()
            case messages.AudioClear():
                self._turns.clear()
                await self._send(events.event("input_audio_buffer.cleared"))
                self._answer_what_is_owed()
            case messages.SessionUpdate():
                await self._update(message)
            case messages.ItemCreate():
                await self._create_item(message)
            case messages.ItemTruncate():
                await self._truncate(message)
            case messages.ItemDelete(item_id):
                await self._delete(item_id)
            case messages.ItemRetrieve(item_id):
                item = self._find(item_id, "retrieve")
                await self._send(
                    events.event("conversation.item.retrieved", item=events.shown_item(item))
                )
            case messages.ResponseCreate():
                await self._create_response(message)
            case messages.ResponseCancel(response_id):
                await self._cancel_response(response_id)

    async def _update(self, update: messages.SessionUpdate) -> None:
        before = self._settings
        self._settings = found = before.updated(update.session)
        _ignored.note(found.ignored)
        if found.listening != before.listening:
            await self._turns.configure(found)
        await self._send(events.event("session.updated", session=found.members()))

    # --- Items -----------------------------------------------------------------------------------

    async def _create_item(self, create: messages.ItemCreate) -> None:
        item = create.item
        check_length(create.audio, self._settings.input_format)
        try:
            previous = self._conversation.add(item, create.previous)
        except ItemExists:
            raise RealtimeFault(
                f"item.id: the conversation has an item {item.id!r} already; leave the id out, or "
                "choose another one",
                code="item_create_duplicate_item_id",
                param="item.id",
            ) from None
        except NoSuchItem:
            raise RealtimeFault(
                f"previous_item_id: the conversation has no item {create.previous!r}",
                code="item_create_invalid_previous_item_id",
                param="previous_item_id",
            ) from None
        await self._items.hear(item, create.audio, self._settings)
        await self._send(events.item_added(item, previous))
        await self._send(events.item_done(item, previous))

    async def _truncate(self, truncate: messages.ItemTruncate) -> None:
        item = self._find(truncate.item_id, "truncate")
        end, spoken = truncate.audio_end_ms, item.spoken
        if spoken is None:
            raise RealtimeFault(
                f"item_id: {item.id!r} has no audio; it must be a message of the assistant that "
                "was spoken",
                code="item_truncate_invalid_item_id",
                param="item_id",
            )
        if end > spoken.sent_ms + 1:  # a client may round up
            raise RealtimeFault(
                f"audio_end_ms is {end}; the item's audio has {spoken.sent_ms} ms, and it must be "
                "within them",
                param="audio_end_ms",
            )
        item.content[0].text = spoken.truncate(end)
        await self._send(
            events.event(
                "conversation.item.truncated", item_id=item.id, content_index=0, audio_end_ms=end
            )
        )

    async def _delete(self, item_id: str) -> None:
        self._find(item_id, "delete")
        self._conversation.delete(item_id)
        await self._send(events.event("conversation.item.deleted", item_id=item_id))

    def _find(self, item_id: str, what: str) -> Item:
        try:
            return self._conversation.find(item_id)
        except NoSuchItem:
            raise RealtimeFault(
                f"item_id: the conversation has no item {item_id[:60]!r}",
                code=f"item_{what}_invalid_item_id",
                param="item_id",
            ) from None

    # --- Responses -------------------------------------------------------------------------------

    async def _create_response(self, create: messages.ResponseCreate) -> None:
        if not self._settings.answers:
            raise RealtimeFault(
                "a transcription session has no responses; the session's type must be realtime",
                code="invalid_session_type",
            )
        settings = self._settings.responding(create.response)
        self._check_no_response()
        context = None if create.context is None else await self._context(create.context)
        self._check_no_response()  # a turn's may have begun meanwhile
        self._is_owed = False
        self._begin(
            Response(
                self._engines,
                settings,
                None if create.is_apart else self._conversation,
                self._conversation if context is None else context,
                create.metadata,
                self._send,
            )
        )

    def _check_no_response(self) -> None:
        if self._response is not None:
            raise RealtimeFault(
                f"the conversation has an active response already, {self._response.id}; wait for "
                "its response.done, or cancel it",
                code="conversation_already_has_active_response",
            )

    async def _context(self, given: Sequence[messages.ItemCreate | str]) -> list[Item]:
        items = []
        for each in given:
            if isinstance(each, str):
                items.append(self._find(each, "reference"))
            else:
                await self._items.hear(each.item, each.audio, self._settings)
                items.append(each.item)
        return items

    async def _cancel_response(self, response_id: str) -> None:
        response = self._response
        if response is None or response_id not in ("", response.id):
            raise RealtimeFault(
                "Cancellation failed: there is no such active response",
                code="response_cancel_not_active",
                param="response_id" if response_id else "",
            )
        response.stop()
        await self._over(response, "client_cancelled")
        self._answer_what_is_owed()

    def _begin(self, response: Response) -> None:
        self._response = response
        response.start(self._group, self._respond(response))

    async def _respond(self, response: Response) -> None:
        try:
            await response.run()
        except asyncio.CancelledError as error:
            raise without_frames(error) from None
        except Exception as error:
            cause = cause_of(error)
            if isinstance(cause, StreamClosed):
                raise
            log_failure(log, "response", cause, request_id=self._stream.id)
            await response.fail(reason_of(cause))
        if response.closed.is_set():  # otherwise it was stopped, and has yet to say its end
            self._response = None
            self._answer_what_is_owed()

    async def _over(self, response: Response, reason: str) -> None:
        """Wait for the end of a response that was stopped."""
        await response.stopped(reason)
        if self._response is response:
            self._response = None

    def _answer_what_is_owed(self) -> None:
        may = self._response is None and not self._turns.is_speaking
        if self._is_owed and may:
            self._is_owed = False
            settings, conversation = self._settings, self._conversation
            self._begin(
                Response(self._engines, settings, conversation, conversation, None, self._send)
            )

    # --- The user's turns ------------------------------------------------------------------------

    async def speech_began(self, announce: Announce) -> None:
        """End the response in progress, unless more words are needed for that."""
        response, needed = self._response, self._settings.interrupting_words
        if response is None or needed is None:
            await announce()
        elif needed == 0:
            response.stop()
            await announce()
            await self._over(response, "turn_detected")

    async def words_heard(self, count: int, announce: Announce) -> None:
        """End the response in progress, once the user has said enough."""
        response, needed = self._response, self._settings.interrupting_words
        if response is not None and needed and count >= needed:
            response.stop()
            await announce()
            await self._over(response, "turn_detected")

    async def turn_heard(self, item: Item, *, wants_response: bool) -> None:
        """Answer a turn; one without words is not answered."""
        words = len(item.text.split())
        response, needed = self._response, self._settings.interrupting_words
        is_aside = response is not None and needed is not None and words < needed
        if wants_response and self._settings.answers and not is_aside:
            self._is_owed = self._is_owed or words > 0 or item.failure is not None
            if response is not None and needed:
                response.stop()
                await self._over(response, "turn_detected")
        self._answer_what_is_owed()
