"""The events of a listener, in order and bounded, between its audio and its wire."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.limits import MAX_LISTENER_EVENTS, MAX_UNHEARD_UTTERANCES
from partway.container.models.voice.speech_turns import LongSilence, SpeechStarted, SpeechStopped
from partway.container.models.voice.utterances import (
    Ending,
    Final,
    HearingFailed,
    Interim,
    ListenerEvent,
    Utterance,
)


@dataclass(frozen=True, slots=True)
class NotHeard:
    """The reason why an utterance could not be heard."""

    reason: str


#: The text of an utterance, or the reason why it has none.
Heard: TypeAlias = Transcript | NotHeard


@dataclass(slots=True)
class _Unheard:
    """An utterance that is over, with the task that hears it."""

    utterance: Utterance
    reason: Ending
    text: asyncio.Task[Heard]


class ListenerEvents:
    """Events that wait to be taken, and utterances that wait for their texts.

    Texts come in the order of the utterances, with the long silences between them. All other events
    come at once, before the texts of earlier utterances.
    """

    def __init__(self) -> None:
        self._unheard: deque[_Unheard | LongSilence] = deque()
        self._events: deque[ListenerEvent] = deque()
        self._ended = False
        self._changed = asyncio.Event()  # there may be an event
        self._room = asyncio.Event()  # there may be room for one

    @property
    def wait_for_texts(self) -> bool:
        """Whether an utterance waits for its text."""
        return bool(self._unheard)

    async def until_room(self) -> None:
        """Wait while too many utterances wait for their text, or too many events are untaken."""
        while (
            len(self._unheard) >= MAX_UNHEARD_UTTERANCES or len(self._events) >= MAX_LISTENER_EVENTS
        ):
            self._room.clear()
            await self._room.wait()

    async def all(self) -> AsyncIterator[ListenerEvent]:
        """Yield each event, until all texts have come after :meth:`end`."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._room.set()
                yield event
            if self._ended and not self._unheard:
                return
            self._changed.clear()
            await self._changed.wait()

    def add(self, event: ListenerEvent) -> None:
        """Add an event that comes at once."""
        self._events.append(event)
        self._room.set()
        self._changed.set()

    def add_silence(self, event: LongSilence) -> None:
        """Add a silence, which comes after the texts of the utterances before it."""
        self._unheard.append(event)
        self._settle()

    def add_utterance(
        self, utterance: Utterance, reason: Ending, text: asyncio.Task[Heard]
    ) -> None:
        """Add an utterance that is over.

        Args:
            utterance: the next one.
            reason: why it is over.
            text: hears it.
        """
        self._unheard.append(_Unheard(utterance, reason, text))
        text.add_done_callback(lambda _: self._settle())

    def commit_last(self) -> bool:
        """Let the last text that has not come tell of a commit; return whether one can."""
        last = next((each for each in reversed(self._unheard) if isinstance(each, _Unheard)), None)
        if last is None or last.reason not in ("endpoint", "cut"):
            return False
        last.reason = "commit"
        return True

    def end(self) -> None:
        """Note that no utterance follows."""
        self._ended = True
        self._changed.set()

    def drop_of(self, number: int) -> None:
        """Drop the untaken events of the open utterance: its begin, and its interim texts.

        Args:
            number: the utterance's.
        """
        edges = [each for each in self._events if isinstance(each, SpeechStarted | SpeechStopped)]
        begin = edges[-1] if edges and isinstance(edges[-1], SpeechStarted) else None
        self._events = deque(
            each
            for each in self._events
            if each is not begin and not (isinstance(each, Interim) and each.utterance.id == number)
        )

    def clear(self) -> None:
        """Drop all that waits."""
        self._unheard.clear()
        self._events.clear()

    def _settle(self) -> None:
        """Report all texts that are known, in order."""
        while self._unheard:
            first = self._unheard[0]
            if isinstance(first, LongSilence):
                self._unheard.popleft()
                self.add(first)
                continue
            if not first.text.done() or first.text.cancelled():
                return
            self._unheard.popleft()
            text = first.text.result()
            if isinstance(text, Transcript):
                self.add(Final(first.utterance, text, first.reason))
            else:
                self.add(HearingFailed(first.utterance, text.reason, first.reason))
        self._room.set()
        self._changed.set()
