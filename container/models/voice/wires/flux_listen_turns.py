"""The turns of a stream of ``v2/listen``, as events about them.

1. ``StartOfTurn`` begins a turn as soon as there is speech, before there is a text.
2. ``Update`` has the text of the turn so far.
3. ``EagerEndOfTurn`` has a text that was heard at a pause, if the client asks for such texts.
   ``TurnResumed`` takes it back: somebody speaks again, or the final text is another one.
4. ``EndOfTurn`` has the final text, which no further event of the turn follows.

A turn begins only after the end of the one before it, so its begin may wait for that one's text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.limits import MAX_ITEM_SECONDS
from partway.container.models.voice.speech_turns import SpeechResumed, SpeechStarted
from partway.container.models.voice.utterances import (
    Ending,
    HearingFailed,
    Interim,
    ListenerEvent,
    Utterance,
)
from partway.container.models.voice.utterances import Final as FinalText
from partway.container.models.voice.wires.flux_listen_messages import flux_words

#: The members of a ``TurnInfo``, but for those of every event.
TurnInfo: TypeAlias = dict[str, Any]

#: Why a turn ended, by why its last utterance did. A turn that is cut has lasted too long.
_TRIGGER: Final[dict[Ending, str]] = {
    "commit": "manual",
    "end": "manual",
    "cut": "timeout",
}


@dataclass(slots=True)
class _Text:
    """A text that was heard from ``start`` to ``end``, in seconds from the stream's beginning."""

    start: float
    end: float
    text: str = ""
    words: list[dict[str, Any]] = field(default_factory=list)
    languages: tuple[str, ...] = ()

    def with_next(self, utterance: Utterance, transcript: Transcript) -> _Text:
        languages = (*self.languages, transcript.language)
        return _Text(
            self.start,
            utterance.end,
            " ".join(filter(None, (self.text, transcript.text))),
            self.words + flux_words(transcript, utterance.start),
            tuple(dict.fromkeys(filter(None, languages))),
        )


class FluxTurns:
    """Tells of the turns of one stream.

    Attributes:
        eager: the confidence of ends that are only likely; None if they are not told.
        hints: the languages that the client holds for likely.
        silence: the trigger of a turn that silence ends.
    """

    def __init__(self, eager: float | None, hints: tuple[str, ...], silence: str = "model") -> None:
        self.eager = eager
        self.hints = hints
        self.silence = silence
        self._index = 0
        self._next = 1  # the utterance whose text comes next
        # Of the turn that is told, and of those that have begun meanwhile: their texts so far. The
        # listener bounds them, since it has a bounded number of unheard utterances.
        self._turns: deque[_Text] = deque()
        self._predicted: _Text | None = None  # was told as the likely end

    def on(self, event: ListenerEvent) -> list[TurnInfo]:
        """Take an event of the listener; return the events that it causes."""
        match event:
            case SpeechStarted(at):
                self._turns.append(_Text(at, at))
                return [self._start()] if len(self._turns) == 1 else []
            case SpeechResumed() if len(self._turns) == 1:
                return self._resumed()
            case Interim(utterance, transcript, paused) if utterance.id == self._next:
                return self._so_far(utterance, transcript, paused=paused)
            case FinalText(utterance, transcript, reason):
                self._next = utterance.id + 1
                return self._heard(utterance, transcript, reason)
            case HearingFailed(utterance, _, reason):
                self._next = utterance.id + 1
                return self._heard(utterance, Transcript(""), reason)
        return []

    def _start(self) -> TurnInfo:
        return self._info("StartOfTurn", self._turns[0])

    def _resumed(self) -> list[TurnInfo]:
        """Take the likely end back, if there is one."""
        if self._predicted is None:
            return []
        predicted, self._predicted = self._predicted, None
        return [self._info("TurnResumed", predicted)]

    def _so_far(
        self, utterance: Utterance, transcript: Transcript, *, paused: bool
    ) -> list[TurnInfo]:
        if self._predicted is not None or not self._turns:
            return []  # a text of before the pause comes late
        text = self._turns[0].with_next(utterance, transcript)
        if not paused or self.eager is None:
            return [self._info("Update", text)]
        self._predicted = text
        return [self._info("EagerEndOfTurn", text, self.eager)]

    def _heard(
        self, utterance: Utterance, transcript: Transcript, reason: Ending
    ) -> list[TurnInfo]:
        """Add a final text to its turn, and end the turn unless the speech goes on."""
        told = []
        if not self._turns:  # a word that no detector has found
            if not transcript.text:
                return []
            self._turns.append(_Text(utterance.start, utterance.start))
            told.append(self._start())
        text = self._turns[0].with_next(utterance, transcript)
        goes_on = reason == "cut"
        if goes_on or (self._predicted is not None and self._predicted.text != text.text):
            told += self._resumed()
        if goes_on and text.end - text.start < MAX_ITEM_SECONDS:
            self._turns[0] = text
            return [*told, self._info("Update", text)]
        told.append(self._info("EndOfTurn", text, 1.0, trigger=_TRIGGER.get(reason, self.silence)))
        self._index += 1
        self._predicted = None
        if goes_on:
            self._turns[0] = _Text(text.end, text.end)
        else:
            self._turns.popleft()
        if self._turns:
            told.append(self._start())
        return told

    def _info(self, event: str, text: _Text, confidence: float = 0.0, **members: Any) -> TurnInfo:
        if text.languages:
            members["languages"] = list(text.languages)
        if self.hints:
            members["languages_hinted"] = list(self.hints)
        return {
            "event": event,
            "turn_index": self._index,
            "audio_window_start": round(text.start, 3),
            "audio_window_end": round(text.end, 3),
            "transcript": text.text,
            "words": text.words,
            "end_of_turn_confidence": confidence,
            **members,
        }
