"""The user's turns in a Realtime session: from the audio buffer to items with their text."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from partway.container.errors import ModelError
from partway.container.models.voice.conversation import ConversationItems, Item, Part, new_id
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.limits import MAX_ITEM_TEXT
from partway.container.models.voice.listener import ListenerOptions, SpeechListener
from partway.container.models.voice.speech_turns import SpeechStarted, SpeechStopped
from partway.container.models.voice.utterances import (
    Ending,
    HearingFailed,
    Interim,
    ListenerEvent,
    Utterance,
)
from partway.container.models.voice.utterances import Final as UtteranceHeard
from partway.container.models.voice.wires import realtime_events as events
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_listening import TurnSettings, hearing_options
from partway.container.models.voice.wires.realtime_session import SessionSettings

#: Seconds of silence that end a turn which the turn model holds for incomplete.
_PATIENCE: Final = {"low": 8.0, "medium": 4.0, "auto": 4.0, "high": 2.0}

Send = Callable[[str], Awaitable[None]]
#: Tells the client that the user speaks; only the first call counts.
Announce = Callable[[], Awaitable[None]]


class TurnHandler(Protocol):
    """The part of a session that acts upon the user's turns."""

    async def speech_began(self, announce: Announce) -> None:
        """Act upon speech; ``announce`` tells the client of it, now or later."""

    async def words_heard(self, count: int, announce: Announce) -> None:
        """Act upon the words of a turn that is not over."""

    async def turn_heard(self, item: Item, *, wants_response: bool) -> None:
        """Act upon a turn whose text is known, or could not be heard."""


@dataclass(slots=True)
class _Turn:
    """A turn that waits for its text.

    Attributes:
        wants_response: known with the text.
        told: set once the client knows of the turn.
    """

    item: Item
    previous: str | None
    wants_response: bool = False
    seconds: float = 0.0
    told: asyncio.Event = field(default_factory=asyncio.Event)


class UserTurns:
    """Listens with the session's settings, and puts each turn into the conversation.

    1. A turn becomes an item once its speech is over, before its text is known.
    2. Turns get their texts in order.
    3. After a change of settings, turns that are over still get their texts.

    Args:
        engines: hear, and find turns.
        conversation: takes the items.
        send: sends an event to the client.
        handler: told of speech and of texts.
        group: runs the listening.
    """

    def __init__(
        self,
        engines: Engines,
        conversation: ConversationItems,
        send: Send,
        handler: TurnHandler,
        group: asyncio.TaskGroup,
    ) -> None:
        self.engines = engines
        self._conversation = conversation
        self.send = send
        self.handler = handler
        self._group = group
        self._ear: _Ear | None = None
        self._listening: asyncio.Task[None] | None = None
        self._came = 0.0  # seconds of audio before this listener's

    @property
    def is_speaking(self) -> bool:
        """Whether the user is in the middle of a turn."""
        return self._ear is not None and self._ear.speaking is not None

    async def configure(self, settings: SessionSettings) -> None:
        """Listen with these settings from now on."""
        hearing = self.engines.hearing
        if hearing is None:
            return
        await self.end()
        options = _options(settings, self.engines)
        self._ear = _Ear(self, hearing, options, settings)
        self._listening = self._group.create_task(self._ear.run(self._came))

    async def append(self, audio: bytes) -> None:
        """Add audio; waits while too many turns wait for their text.

        Raises:
            RealtimeFault: no engine hears.
        """
        await self._heard().listener.feed(audio)

    async def commit(self) -> None:
        """End the turn now.

        Raises:
            RealtimeFault: no audio has come since the last turn, or no engine hears.
        """
        await self._heard().commit()

    def clear(self) -> None:
        """Drop the audio of the turn that is not over."""
        self._heard().clear()

    async def end(self) -> None:
        """End the audio; return once the texts of all turns are known."""
        if self._ear is not None and self._listening is not None:
            await self._ear.listener.end()
            self._came += self._ear.listener.position
            await asyncio.wait((self._listening,))
            self._ear = None

    def close(self) -> None:
        """Forget the handler, and what listens; nothing follows."""
        self._ear = self._listening = None
        del self.handler

    def _heard(self) -> _Ear:
        if self._ear is None:
            raise RealtimeFault(
                "this container hears nothing: PARTWAY_VOICE_HEARS must name an engine",
                code="hearing_not_configured",
            )
        return self._ear

    # --- For the listening -----------------------------------------------------------------------

    def over(self, item_id: str) -> _Turn:
        """Put a turn into the conversation; its text follows."""
        item = Item(item_id, role="user", content=[Part("input_audio")], hearing=asyncio.Event())
        return _Turn(item, self._conversation.add(item))

    async def tell(self, turn: _Turn, *, stopped_ms: int | None) -> None:
        """Tell the client of a turn that is over."""
        item, previous = turn.item, turn.previous
        if stopped_ms is not None:
            await self.send(events.speech_stopped(item.id, stopped_ms))
        await self.send(events.committed(item.id, previous))
        await self.send(events.item_added(item, previous))
        await self.send(events.item_done(item, previous))
        turn.told.set()

    async def heard(self, turn: _Turn, text: str, *, is_reported: bool) -> None:
        turn.item.heard(text)
        self._conversation.measure(turn.item)
        if is_reported:
            if text:
                await self.send(events.transcription_delta(turn.item.id, text))
            await self.send(events.transcription_completed(turn.item.id, text, turn.seconds))
        await self.handler.turn_heard(turn.item, wants_response=turn.wants_response)

    async def unheard(self, turn: _Turn, reason: str, *, is_reported: bool) -> None:
        turn.item.unheard(ModelError(reason))
        if is_reported:
            await self.send(events.transcription_failed(turn.item.id, reason))
        await self.handler.turn_heard(turn.item, wants_response=turn.wants_response)


class _Ear:
    """One listener of a session, with the turns that wait for their texts.

    Attributes:
        speaking: the id of the item that the open turn becomes; None if nobody speaks.
    """

    def __init__(
        self,
        turns: UserTurns,
        hearing: Hearing,
        options: ListenerOptions,
        settings: SessionSettings,
    ) -> None:
        self._turns = turns
        self.listener = SpeechListener(hearing, turns.engines.turns, options)
        self._detection = settings.turn_detection
        self._is_reported = settings.transcribing is not None
        self.speaking: str | None = None
        self._start_ms = 0  # of the open turn
        self._is_told = False  # the client knows that somebody speaks
        self._waiting: deque[_Turn] = deque()
        #: Numbers of utterances before which the client has cleared a turn.
        self._cleared: deque[int] = deque()
        self._said: list[str] = []  # earlier pieces of a long turn
        self._seconds = 0.0  # of these
        self._failure: str | None = None  # of the first of them that could not be heard

    async def commit(self) -> None:
        if not self.listener.is_speaking:
            raise RealtimeFault(
                "the input audio buffer is empty: append audio before you commit it",
                code="input_audio_buffer_commit_empty",
            )
        await self.listener.commit()
        if self._detection is None:
            turn = self._turns.over(new_id("item"))
            self._waiting.append(turn)
            await self._turns.tell(turn, stopped_ms=None)

    def clear(self) -> None:
        next_number = self.listener.clear()
        if next_number not in self._cleared:
            self._cleared.append(next_number)
        self.speaking = None

    async def run(self, came: float) -> None:
        """Act upon all that is heard, until the audio has ended and every text is known.

        Args:
            came: seconds of the session's audio before this listener's.
        """
        async with self.listener:
            async for event in self.listener.events():
                await self._on(event, came)

    async def _on(self, event: ListenerEvent, came: float) -> None:
        match event:
            case SpeechStarted(at) if self._detection is not None:
                self.speaking = new_id("item")
                start = round((came + at) * 1000) - self._detection.prefix_padding_ms
                self._start_ms, self._is_told = max(0, start), False
                await self._turns.handler.speech_began(self._announce)
            case SpeechStopped(at) if self.speaking is not None:
                item_id, self.speaking = self.speaking, None
                turn = self._turns.over(item_id)
                self._waiting.append(turn)
                stopped = round((came + at) * 1000) if self._is_told else None
                await self._turns.tell(turn, stopped_ms=stopped)
            case Interim(_, transcript):
                count = len(transcript.text.split())
                await self._turns.handler.words_heard(count, self._announce)
            case UtteranceHeard(utterance, transcript, reason):
                self._add(utterance)
                if sum(map(len, self._said)) < MAX_ITEM_TEXT:
                    self._said.append(transcript.text)
                if reason != "cut":
                    await self._settle(reason)
            case HearingFailed(utterance, failure, reason):
                self._add(utterance)
                self._failure = self._failure or failure
                if reason != "cut":
                    await self._settle(reason)

    def _add(self, utterance: Utterance) -> None:
        """Add a piece to those of its turn; those of a turn that was cleared are dropped."""
        while self._cleared and utterance.id >= self._cleared[0]:
            self._cleared.popleft()
            self._forget_pieces()
        self._seconds += utterance.duration

    def _forget_pieces(self) -> None:
        self._said.clear()
        self._seconds = 0.0
        self._failure = None

    async def _announce(self) -> None:
        if not self._is_told and self.speaking is not None:
            self._is_told = True
            await self._turns.send(events.speech_started(self.speaking, self._start_ms))

    def _wants_response(self, ending: Ending) -> bool:
        """Whether the session answers a turn by itself: a client that commits asks for it."""
        detection = self._detection
        return detection is not None and detection.create_response and ending != "commit"

    async def _settle(self, ending: Ending) -> None:
        """Give the text to the turn that has waited longest."""
        text = " ".join(filter(None, self._said))
        seconds, failure = self._seconds, self._failure
        self._forget_pieces()
        if self._waiting:
            turn = self._waiting.popleft()
            turn.wants_response = self._wants_response(ending)
        elif text:  # a word that no detector has found
            turn = self._turns.over(new_id("item"))
            await self._turns.tell(turn, stopped_ms=None)
        else:
            return
        turn.seconds = seconds
        await turn.told.wait()
        if failure is None:
            await self._turns.heard(turn, text, is_reported=self._is_reported)
        else:
            await self._turns.unheard(turn, failure, is_reported=self._is_reported)


def _options(settings: SessionSettings, engines: Engines) -> ListenerOptions:
    detection = settings.turn_detection
    silence = None if detection is None else detection.silence_ms / 1000
    eager = engines.settings.eager_ms / 1000
    return ListenerOptions(
        audio=settings.input_format,
        hearing=hearing_options(settings.transcribing, engines.settings.language),
        interims=bool(settings.interrupting_words),
        endpointing=silence,
        eager=min(eager, silence or eager),
        patience=_patience(detection),
    )


def _patience(detection: TurnSettings | None) -> float:
    """Return the seconds of silence that end a turn which sounds incomplete."""
    if detection is None:
        return 0.0
    silence = detection.silence_ms / 1000
    is_judged = detection.kind == "semantic_vad"
    return max(silence, _PATIENCE[detection.eagerness]) if is_judged else silence
