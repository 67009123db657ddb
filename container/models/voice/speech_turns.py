"""Turns in one stream of audio, by the times of its speech.

A turn

1. begins with the first speech, and goes on over pauses that are shorter than the endpointing;
2. pauses once silence lasts ``eager`` seconds; a model may then judge whether the turn is complete;
3. ends once silence lasts ``endpointing`` seconds, or ``patience`` seconds if the turn was judged
   incomplete; or by :meth:`TurnTaking.commit`.

All times are seconds from the beginning of the audio. Nothing depends on the clock, nor on the
sizes of the pieces in which the audio comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    Samples,
    SpeechDetector,
    SpeechEdge,
)

#: Samples that are fed at a time: between two of them, the state is brought up to date.
STEP: Final = HEARING_RATE // 50
#: Speech that goes on by less after a commit was over before it, and was not yet known to be.
_LEAST_CARRIED: Final = 0.06
#: Seconds until speech that goes on after a commit is sure to be speech.
_SURE: Final = 0.5
#: Rounding of sums of times.
_TINY: Final = 1e-6


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """The rules of a stream's turns.

    Attributes:
        endpointing: seconds of silence that end a turn; None if only a commit ends one.
        eager: seconds of silence that make a pause; 0 reports none.
        patience: seconds of silence that end a turn which was judged incomplete.
        long_silence: seconds of silence that are reported once after each turn; 0 reports none.
    """

    endpointing: float | None = 0.4
    eager: float = 0.16
    patience: float = 2.0
    long_silence: float = 0.0


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """A turn begins."""

    at: float


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """A turn goes on after a pause."""

    at: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Nobody speaks any more; the turn may be over.

    Attributes:
        at: the end of the speech.
    """

    at: float


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The speech of a turn is over; the end of the turn follows at once.

    Attributes:
        at: the end of the speech.
    """

    at: float


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over.

    Attributes:
        start: the begin of its first speech.
        end: the end of its last one.
    """

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class LongSilence:
    """Nobody has spoken for ``long_silence`` seconds.

    Attributes:
        since: the end of the last speech.
    """

    since: float


TurnEvent: TypeAlias = (
    SpeechStarted | SpeechResumed | Pause | SpeechStopped | TurnEnded | LongSilence
)


class TurnTaking:
    """Finds the turns of one stream.

    Attributes:
        options: the rules from now on; they may be replaced.
        position: seconds of audio that have come.
    """

    def __init__(self, detector: SpeechDetector, options: TurnOptions) -> None:
        self.options = options
        self._detector = detector
        self._samples = 0
        self._speaking = False
        self._start: float | None = None  # of the open turn
        self._stopped = 0.0  # the end of its last speech, once nobody speaks
        self._paused = False  # its pause was reported
        self._incomplete = False  # it was judged so
        self._carried = False  # it goes on from before a commit, and may be no turn
        self._silent_since: float | None = None  # a long silence is to be reported

    @property
    def position(self) -> float:
        return self._samples / HEARING_RATE

    @property
    def judged(self) -> float:
        """Seconds of audio about which the detector has decided."""
        return self._detector.judged

    @property
    def is_open(self) -> bool:
        """Whether a turn has begun and has not ended."""
        return self._start is not None and not self._carried

    def feed(self, audio: Samples) -> list[TurnEvent]:
        """Add audio at ``HEARING_RATE``; return the events that it causes."""
        events: list[TurnEvent] = []
        for begin in range(0, len(audio), STEP):
            step = audio[begin : begin + STEP]
            self._samples += len(step)
            for edge in self._detector.feed(step):
                events += self._edge(edge)
            events += self._time_passes()
        return events

    def judge(self, *, complete: bool) -> None:
        """Note the judgement of the turn that paused last; a resumed turn ignores it."""
        if self._paused:
            self._incomplete = not complete

    def commit(self) -> list[TurnEvent]:
        """End the open turn now; speech that goes on belongs to the next turn."""
        events = self._ended(self.position) if self.is_open else []
        self._forget()
        return events

    def clear(self) -> None:
        """Drop the open turn; speech that goes on belongs to the next turn."""
        self._silent_since = None
        self._forget()

    def end(self) -> list[TurnEvent]:
        """End the audio, and the open turn."""
        events: list[TurnEvent] = []
        for edge in self._detector.end():
            events += self._edge(edge)
        if self.is_open:
            events += self._ended(self.position)
        return events

    # --- Inside ----------------------------------------------------------------------------------

    def _edge(self, edge: SpeechEdge) -> list[TurnEvent]:
        self._speaking = edge.begins
        if edge.begins:
            return self._begin(edge.at)
        if self._start is None:
            return []
        if self._carried and edge.at < self._start + _LEAST_CARRIED:
            self._start = None  # the speech was over before the commit
            self._carried = False
            return []
        events = self._confirm()
        self._stopped = edge.at
        self._paused = self._incomplete = False
        return events

    def _begin(self, at: float) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        if self._start is not None and self._is_over(at):
            events += self._ended(self._stopped)
        self._silent_since = None
        self._paused = self._incomplete = False
        if self._start is not None:
            return [*events, SpeechResumed(at)]
        self._start = at
        return [*events, SpeechStarted(at)]

    def _time_passes(self) -> list[TurnEvent]:
        judged = self._detector.judged
        events: list[TurnEvent] = []
        if self._start is not None and self._speaking:
            if self._carried and judged >= self._start + _SURE:
                events += self._confirm()
        elif self._start is not None:
            silence = judged - self._stopped
            eager = self.options.eager
            if eager and not self._paused and silence >= eager - _TINY:
                self._paused = True
                events.append(Pause(self._stopped))
            if self._is_over(judged):
                events += self._ended(self._stopped)
        since = self._silent_since
        if since is not None and judged - since >= self.options.long_silence - _TINY:
            self._silent_since = None
            events.append(LongSilence(since))
        return events

    def _confirm(self) -> list[TurnEvent]:
        """Report that a turn goes on from before a commit."""
        if not self._carried or self._start is None:
            return []
        self._carried = False
        return [SpeechStarted(self._start)]

    def _is_over(self, now: float) -> bool:
        endpointing = self.options.endpointing
        if endpointing is None:
            return False
        silence = self.options.patience if self._incomplete else endpointing
        return now - self._stopped >= silence - _TINY

    def _ended(self, end: float) -> list[TurnEvent]:
        """End the open turn, whose speech ends at ``end`` if somebody still speaks."""
        assert self._start is not None, "a turn is open"
        end = end if self._speaking else self._stopped
        events: list[TurnEvent] = [SpeechStopped(end), TurnEnded(self._start, end)]
        self._start = None
        self._paused = self._incomplete = False
        if self.options.long_silence:
            self._silent_since = end
        return events

    def _forget(self) -> None:
        """Begin anew at this position."""
        self._paused = self._incomplete = False
        self._carried = self._speaking
        self._start = self.position if self._speaking else None
