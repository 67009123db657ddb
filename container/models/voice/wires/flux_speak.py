"""One stream of ``v2/speak``: text in, turns of audio out, as clients of Deepgram's Flux expect."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from multidict import MultiDict, MultiMapping

from partway import __version__
from partway.container.errors import ModelError
from partway.container.models.ignored_names import log_ignored
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import MAX_UNSPOKEN
from partway.container.models.voice.speech_formats import SpeechQuery, read_speech_query, speed_of
from partway.container.models.voice.wires.flux_speak_messages import (
    FluxSpeakMessage,
    SpeakConfigure,
    SpeakInterrupt,
    flux_connected,
    flux_speak_error,
    flux_speak_event,
    flux_speak_warning,
    read_flux_speak_message,
)
from partway.container.models.voice.wires.flux_speak_turns import SpokenTurn
from partway.container.models.voice.wires.speak_messages import (
    SpeakClose,
    SpeakFlush,
    SpeakRefused,
    SpeakText,
)
from partway.container.models.voice.wires.text_speaker import (
    Flushed,
    PhraseBegun,
    PhraseEnded,
    PhraseFailed,
    Spoken,
    SpokenAudio,
    TextSpeaker,
    TooMuchText,
)
from partway.container.stream import Stream

_log = logging.getLogger("partway.container.voice")

#: A parameter of ``v1/speak`` alone: a stream of Flux has bare audio.
_NOT_HERE: Final = "container"


class FluxSpeakStream:
    """The handler of one stream.

    1. A turn is the text up to a ``Flush``. Its audio comes between ``SpeechStarted`` and
       ``SpeechMetadata``; then ``Flushed`` follows.
    2. ``Interrupt`` ends the turn that is being spoken, and drops those that wait. No audio of them
       follows ``SpeechInterrupted``.
    3. After ``Close``, or the end of the input, the rest is spoken; ``SessionMetadata`` is last.
    4. A fault of a message or of the engine is an event; the stream goes on.

    Args:
        stream: the client's.
        engines: those of the container; one of them speaks.

    Raises:
        ModelError: the query has a parameter that is out of range.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        assert engines.speaking is not None, "checked before the stream is accepted"
        self._stream = stream
        self._rate = engines.speaking.rate
        self._engine = engines.settings.speaks.partition(":")[0]
        self._query = read_flux_speech_query(stream.query)
        self._speaker: TextSpeaker[None] = TextSpeaker(engines.speaking, self._query, stream.id)
        # The turn that is spoken, and those that wait. Flushes bound their number.
        self._turns: deque[SpokenTurn] = deque()
        self._takes_text = False  # the last turn is not flushed
        self._session_ms = 0  # of the audio of earlier turns, as far as it was played
        self._interrupted_at: int | None = None  # milliseconds of the session's audio
        self._characters = 0

    async def run(self) -> None:
        """Speak until the client has closed the stream.

        Raises:
            ExceptionGroup: the stream is over.
        """
        log_ignored(_log, "parameters are ignored", self._stream.path, self._query.ignored)
        await self._stream.send(flux_connected(self._stream.id, self._engine, __version__))
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._speak())
            async for message in self._stream.messages():
                said = await self._read(message)
                if isinstance(said, SpeakClose):
                    break
                if isinstance(said, SpeakInterrupt) and await self._may_interrupt(said):
                    speaking.cancel()
                    await asyncio.wait((speaking,))
                    await self._interrupt(said.played_ms)
                    speaking = group.create_task(self._speak())
            self._speaker.end()
        await self._end_session()
        self._stream.close()

    # --- Messages --------------------------------------------------------------------------------

    async def _read(self, message: str | bytes) -> FluxSpeakMessage | None:
        """Take a message; return it unless it is refused."""
        try:
            said = read_flux_speak_message(message)
            if isinstance(said, SpeakText):
                self._take_text(said.text)
            elif isinstance(said, SpeakFlush):
                await self._take_flush()
            elif isinstance(said, SpeakConfigure):
                await self._configure(said.members)
        except SpeakRefused as refused:
            await self._stream.send(flux_speak_error(refused.code, refused.reason))
            return None
        except TooMuchText as refused:
            await self._stream.send(flux_speak_warning(refused.code, str(refused)))
            return None
        return said

    def _take_text(self, text: str) -> None:
        if not text:
            return
        turn = self._turns[-1] if self._takes_text else SpokenTurn(self._rate)
        turn.check(text)
        self._check_waiting(text)
        self._speaker.add(text)
        turn.add(text)
        if not self._takes_text:
            self._turns.append(turn)
            self._takes_text = True

    def _check_waiting(self, text: str) -> None:
        """Check whether the turns that wait may have more text; the speaker counts no spaces.

        Raises:
            TooMuchText: they may not.
        """
        waiting = sum(turn.characters for turn in islice(self._turns, 1, None))
        if waiting + len(text) > MAX_UNSPOKEN:
            raise TooMuchText(
                "TEXT_QUEUE_FULL",
                f"a text of {len(text)} characters is not spoken: turns of {waiting} characters "
                f"wait already, and they may have at most {MAX_UNSPOKEN}",
            )

    async def _take_flush(self) -> None:
        if not self._takes_text:
            reason = "a Flush has no effect: no text came since the last one"
            await self._stream.send(flux_speak_warning("NO_ACTIVE_SPEECH", reason))
            return
        self._speaker.flush(None)
        self._takes_text = False

    async def _configure(self, members: Mapping[str, Any]) -> None:
        speed = members.get("speed")
        if speed is not None:
            try:
                self._speaker.options = replace(self._speaker.options, speed=speed_of(speed))
            except ModelError as error:
                wrong: dict[str, Any] = {"field": "speed", "description": error.reason}
                if isinstance(speed, int | float):
                    wrong["value"] = speed
                failure = flux_speak_event("ConfigureFailure", code="SPEED_OUT_OF_RANGE", **wrong)
                await self._stream.send(failure)
                return
        applied = {"speed": self._speaker.options.speed}
        await self._stream.send(flux_speak_event("ConfigureSuccess", applied=applied))

    # --- Interruptions ---------------------------------------------------------------------------

    async def _may_interrupt(self, asked: SpeakInterrupt) -> bool:
        """Return whether there is a turn to interrupt, at an offset that is new; otherwise warn."""
        if not self._turns:
            reason = "an Interrupt has no effect: nothing is being spoken"
            await self._stream.send(flux_speak_warning("NO_ACTIVE_SPEECH", reason))
            return False
        played, before = asked.played_ms, self._interrupted_at
        if played is None or before is None or played > before:
            return True
        reason = (
            f"an Interrupt has no effect: its playback_offset is {played}; it must be more than "
            f"{before}, where an earlier one was"
        )
        await self._stream.send(flux_speak_warning("INVALID_INTERRUPT_OFFSET", reason))
        return False

    async def _interrupt(self, played_ms: int | None) -> None:
        """Drop all turns, of which there is one at least; nothing speaks now."""
        turn = self._turns[0]
        self._turns.clear()
        self._takes_text = False
        self._speaker.clear()
        told: dict[str, Any] = {}
        made_ms = self._session_ms + turn.playback.sent_ms
        if played_ms is not None:
            spoken, rest = turn.split(played_ms - self._session_ms)
            told = {"text_spoken": spoken, "text_remaining": rest}
        at = made_ms if played_ms is None else played_ms
        self._interrupted_at = at
        self._session_ms = min(at, made_ms)
        self._characters += turn.characters
        event = flux_speak_event(
            "SpeechInterrupted", audio_played_ms=at, **told, metadata=turn.metadata()
        )
        await self._stream.send(event)

    # --- Audio -----------------------------------------------------------------------------------

    async def _speak(self) -> None:
        """Send what is spoken, in order, until its end."""
        async with aclosing(self._speaker.spoken()) as events:
            async for event in events:
                await self._tell(event)

    async def _tell(self, event: Spoken[None]) -> None:
        match event:
            case PhraseBegun(phrase):
                turn = self._turns[0]
                turn.has_words = True
                turn.playback.begin(phrase)
                await self._begin(turn)
            case SpokenAudio(audio, seconds):
                if audio:
                    await self._stream.send(audio)
                if seconds:
                    self._turns[0].playback.add(seconds)
            case PhraseEnded():
                self._turns[0].playback.end_phrase()
            case PhraseFailed(reason):
                await self._stream.send(flux_speak_error("NET-0000", reason))
            case Flushed():
                await self._end_turn(is_flushed=True)

    async def _begin(self, turn: SpokenTurn) -> None:
        if not turn.has_begun:
            turn.has_begun = True
            await self._stream.send(flux_speak_event("SpeechStarted", speech_id=turn.id))

    async def _end_turn(self, *, is_flushed: bool) -> None:
        turn = self._turns[0]
        await self._begin(turn)
        if not turn.has_words:
            reason = "a turn has no audio: its text has no words"
            await self._stream.send(flux_speak_warning("NO_SYNTHESIZABLE_TEXT", reason))
        await self._stream.send(flux_speak_event("SpeechMetadata", **turn.metadata()))
        if is_flushed:
            await self._stream.send(flux_speak_event("Flushed", speech_id=turn.id))
        # Last: an interruption while these wait to be sent is one of this turn.
        self._turns.popleft()
        self._session_ms += turn.playback.sent_ms
        self._characters += turn.characters

    async def _end_session(self) -> None:
        """Report the last turn, which needs no ``Flush`` before ``Close``, and all of them."""
        if self._turns:
            await self._end_turn(is_flushed=False)
        totals = {
            "total_audio_duration_ms": self._session_ms,
            "total_input_character_count": self._characters,
            "total_billable_character_count": self._characters,
        }
        await self._stream.send(flux_speak_event("SessionMetadata", **totals))


def read_flux_speech_query(query: MultiMapping[str]) -> SpeechQuery:
    """Read a query.

    Raises:
        ModelError: a parameter is out of range; the status is 400.
    """
    here = MultiDict(query)
    had = here.popall(_NOT_HERE, None) is not None
    found = read_speech_query(here)
    return replace(found, ignored=(*found.ignored, _NOT_HERE)) if had else found
