"""Listening to one stream: audio in, turns and texts out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from partway.container.errors import log_failure, reason_of
from partway.container.models.voice.audio_formats import AudioFormat, AudioReader
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.limits import MAX_UTTERANCE
from partway.container.models.voice.listener_events import Heard, ListenerEvents, NotHeard
from partway.container.models.voice.speech_turns import (
    STEP,
    LongSilence,
    Pause,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
    TurnEnded,
    TurnEvent,
    TurnOptions,
    TurnTaking,
)
from partway.container.models.voice.turn_detection import TurnDetection
from partway.container.models.voice.utterances import (
    CUT_WITHIN,
    AudioWindow,
    Ending,
    Interim,
    ListenerEvent,
    Utterance,
    loudness,
    quietest,
)

_log = logging.getLogger("partway.container.voice")

_T = TypeVar("_T")

#: Seconds of audio around an utterance that are heard with it.
_LEAD = 0.3
_TAIL = 0.4
#: Seconds of audio that are kept while nobody speaks: a detector finds a begin only later.
_KEPT = 1.5
#: Seconds before a commit in which a word may be that no detector has found yet.
_UNSURE = 1.0
#: Samples above it (-41 dB of full scale) may be such a word.
_AUDIBLE = 300.0
#: Seconds of an utterance until its first interim text, and between two of them.
_FIRST_INTERIM = 0.6
_INTERIM_EVERY = 1.0
#: Bytes that are taken at a time; other tasks get a turn between two of them.
_SLICE = 1 << 15


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The wishes of a stream's client.

    Attributes:
        audio: the form of the audio.
        hearing: the wishes for each utterance.
        interims: whether texts of unfinished utterances are wanted.
        resumptions: whether it is reported that an utterance goes on after a pause.
        endpointing: seconds of silence that end an utterance; None if only a commit ends one, and
            nothing is said about speech.
        eager: seconds of silence after which an utterance is heard before it is over; 0 for none.
        patience: seconds of silence that end an utterance which sounds incomplete.
        long_silence: seconds of silence that are reported after speech; 0 for none.
    """

    audio: AudioFormat
    hearing: HearingOptions = field(default_factory=HearingOptions)
    interims: bool = False
    resumptions: bool = False
    endpointing: float | None = 0.4
    eager: float = 0.16
    patience: float = 2.0
    long_silence: float = 0.0

    @property
    def turns(self) -> TurnOptions:
        return TurnOptions(self.endpointing, self.eager, self.patience, self.long_silence)


class SpeechListener:
    """Listens to one stream, as an asynchronous context manager; leaving it gives up all hearing.

    One task feeds audio, and one takes :meth:`events`. Texts come in the order of the utterances.
    The begin and the end of speech are reported at once, before the texts of earlier utterances.

    Attributes:
        hearing_options: the wishes for later utterances; they may be replaced.
    """

    def __init__(self, hearing: Hearing, turns: TurnDetection, options: ListenerOptions) -> None:
        self.hearing_options = options.hearing
        self._hearing = hearing
        self._detection = turns
        self._manual = options.endpointing is None
        self._interims = options.interims
        self._resumptions = options.resumptions
        self._reader = AudioReader(options.audio)
        self._turns = TurnTaking(turns.detector(), options.turns)
        self._window = AudioWindow()
        self._number = 1  # of the utterance that is open, or comes next
        self._begin: float | None = None  # of the open utterance's audio
        self._taken_until = 0.0  # the end of the last utterance's audio
        self._eager: asyncio.Task[Heard] | None = None  # began at the last pause
        self._interim: asyncio.Task[None] | None = None
        self._interim_at = 0.0
        self._events = ListenerEvents()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        self._events.clear()
        self._window.drop_before(self._window.end)
        del self._reader  # with its resampler

    # --- The stream's input ----------------------------------------------------------------------

    @property
    def position(self) -> float:
        """Seconds of audio that have come."""
        return self._window.end

    @property
    def turn_options(self) -> TurnOptions:
        """The rules of turns; they may be replaced, unless only a commit ends a turn."""
        return self._turns.options

    @turn_options.setter
    def turn_options(self, options: TurnOptions) -> None:
        self._turns.options = options

    @property
    def is_speaking(self) -> bool:
        """Whether an utterance is open."""
        return self._begin is not None

    async def feed(self, data: bytes) -> None:
        """Add audio in the stream's format; wait while too many utterances wait for their text."""
        for begin in range(0, len(data), _SLICE):
            if begin:
                await asyncio.sleep(0)
            await self._events.until_room()
            if len(audio := self._reader.feed(data[begin : begin + _SLICE])):
                self._take(audio)

    async def commit(self) -> None:
        """End the utterance now: exactly one text, or failure, will tell of the commit.

        It waits while too many utterances wait for their text, as :meth:`feed` does.
        """
        await self._events.until_room()
        if not self._over("commit", self._turns.commit()):
            self._commit_nothing()

    def clear(self) -> int:
        """Drop the audio of the open utterance, and its events that nobody has taken yet.

        Returns:
            The number of the next utterance. Pieces of the dropped one that were cut have lower
            numbers, and may still be reported.
        """
        self._turns.clear()
        self._forget_open()
        self._taken_until = self._window.end
        self._events.drop_of(self._number)
        return self._number

    async def end(self) -> None:
        """End the audio: :meth:`events` ends after the text of the last utterance."""
        await self._events.until_room()
        self._take(self._reader.end())
        self._over("end", self._turns.end())
        self._events.end()

    # --- Its output ------------------------------------------------------------------------------

    def events(self) -> AsyncIterator[ListenerEvent]:
        """Yield what happens, until all is reported after :meth:`end`."""
        return self._events.all()

    # --- Audio -----------------------------------------------------------------------------------

    def _take(self, audio: Samples) -> None:
        if self._manual:
            self._window.add(audio)
            self._begin = self._taken_until if self._window.end > self._taken_until else None
        else:
            # An utterance ends with the audio that was there: it must not reach into the next one.
            for begin in range(0, len(audio), STEP):
                step = audio[begin : begin + STEP]
                self._window.add(step)
                for event in self._turns.feed(step):
                    self._on(event)
        if self._begin is not None and self._window.end - self._begin >= MAX_UTTERANCE:
            self._cut(self._begin)
        if self._interims and self._begin is not None:
            self._want_interim(self._begin)
        kept = self._window.end - _KEPT if self._begin is None else self._begin
        self._window.drop_before(max(kept, self._taken_until) if self._manual else kept)

    def _on(self, event: TurnEvent) -> None:
        match event:
            case SpeechStarted(at):
                self._begin = max(at - _LEAD, self._taken_until, self._window.start)
                self._interim_at = self._begin + _FIRST_INTERIM - _INTERIM_EVERY
                self._events.add(event)
            case SpeechResumed():
                self._give_up_eager()
                if self._resumptions:
                    self._events.add(event)
            case Pause(at):
                self._pause(at)
            case SpeechStopped():
                self._events.add(event)
            case TurnEnded(_, end):
                self._finish(min(end + _TAIL, self._window.end), "endpoint")
            case LongSilence():
                self._events.add_silence(event)

    def _pause(self, at: float) -> None:
        """Hear an utterance that may be over, and judge whether it is."""
        if self._begin is None:
            return
        self._give_up_eager()
        utterance = self._utterance(self._begin, min(at + _TAIL, self._window.end))
        self._eager = self._spawn(self._hear_eagerly(utterance))
        self._spawn(self._judge(utterance, self._eager))

    def _over(self, reason: Ending, events: list[TurnEvent]) -> bool:
        """End the open utterance at this moment; return False if there is none."""
        now = self._window.end
        for event in events:
            if isinstance(event, SpeechStarted | SpeechStopped):
                self._on(event)
        if self._begin is None:
            if self._manual or not self._may_have_missed_a_word():
                return False
            self._begin = max(now - _UNSURE, self._taken_until, self._window.start)
        if self._eager is not None and self._is_audible(self._turns.judged):
            self._give_up_eager()  # somebody may have gone on
        self._finish(now, reason)
        return True

    def _may_have_missed_a_word(self) -> bool:
        return self._is_audible(max(self._turns.judged - 0.1, self._taken_until))

    def _is_audible(self, since: float) -> bool:
        audio = self._window.between(since, self._window.end)
        return len(audio) > 0 and loudness(audio) > _AUDIBLE

    def _commit_nothing(self) -> None:
        """Report a commit with the last text that is not reported yet, or with an empty one."""
        if self._events.commit_last():
            return
        now = self._window.end
        self._begin = now
        self._finish(now, "commit")

    def _cut(self, begin: float) -> None:
        latest = begin + MAX_UTTERANCE
        earliest = latest - CUT_WITHIN
        cut = earliest + quietest(self._window.between(earliest, latest))
        self._give_up_eager()  # that text ends at the pause, not at the cut
        self._finish(cut, "cut")
        self._begin = cut

    # --- Texts -----------------------------------------------------------------------------------

    def _utterance(self, begin: float, end: float) -> Utterance:
        return Utterance(self._number, begin, self._window.between(begin, end))

    def _finish(self, end: float, reason: Ending) -> None:
        """Hear the open utterance, which ends at ``end``."""
        assert self._begin is not None, "an utterance is open"
        utterance = self._utterance(self._begin, end)
        text = self._spawn(self._hear_finally(utterance, self._eager))
        self._eager = None  # the task above has it
        self._forget_open()
        self._taken_until = end
        self._number += 1
        self._events.add_utterance(utterance, reason, text)

    def _forget_open(self) -> None:
        self._begin = None
        self._give_up_eager()
        if self._interim is not None:
            self._interim.cancel()
            self._interim = None

    def _give_up_eager(self) -> None:
        if self._eager is not None:
            self._eager.cancel()
            self._eager = None

    def _want_interim(self, begin: float) -> None:
        """Hear the open utterance so far, unless there is other work to do."""
        now = self._window.end
        idle = self._interim is None and self._eager is None and not self._events.wait_for_texts
        if now - self._interim_at >= _INTERIM_EVERY and idle and self._hearing.is_idle:
            self._interim_at = now
            self._interim = self._spawn(self._hear_interim(self._utterance(begin, now)))

    async def _hear_interim(self, utterance: Utterance) -> None:
        self._report_interim(utterance, await self._hear(utterance))
        self._interim = None

    async def _hear_eagerly(self, utterance: Utterance) -> Heard:
        text = await self._hear(utterance)
        if self._interims:
            self._report_interim(utterance, text, paused=True)
        return text

    def _report_interim(self, utterance: Utterance, text: Heard, *, paused: bool = False) -> None:
        if isinstance(text, Transcript) and text.text and utterance.id == self._number:
            self._events.add(Interim(utterance, text, paused))

    async def _hear_finally(self, utterance: Utterance, eager: asyncio.Task[Heard] | None) -> Heard:
        """Return the text that was heard eagerly, or hear it now."""
        if eager is not None:
            text = await eager
            if isinstance(text, Transcript):
                return text
        return await self._hear(utterance)

    async def _hear(self, utterance: Utterance) -> Heard:
        try:
            return await self._hearing.transcribe(utterance.audio, self.hearing_options)
        except Exception as error:
            log_failure(_log, "hearing", error)
            return NotHeard(reason_of(error))

    async def _judge(self, utterance: Utterance, eager: asyncio.Task[Heard]) -> None:
        """Judge whether the turn is complete, unless it has ended or goes on meanwhile.

        Args:
            utterance: the turn so far.
            eager: hears it; it is the listener's own until somebody speaks again.
        """
        try:
            complete = await self._detection.is_complete(utterance.audio)
        except Exception as error:
            log_failure(_log, "turn detection", error)
            return
        if self._eager is eager and utterance.id == self._number:
            self._turns.judge(complete=complete)

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
