"""``v1/listen``: audio in, transcripts out, as Deepgram's clients expect it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from partway import __version__
from partway.container.errors import ModelError
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.listener import SpeechListener
from partway.container.models.voice.speech_turns import LongSilence, SpeechStarted
from partway.container.models.voice.utterances import (
    Final as FinalText,
)
from partway.container.models.voice.utterances import (
    HearingFailed,
    Interim,
    ListenerEvent,
    Utterance,
)
from partway.container.models.voice.wires import listen_messages as messages
from partway.container.models.voice.wires.listen_messages import (
    CloseStream,
    Configure,
    Finalize,
    MessageFault,
)
from partway.container.models.voice.wires.listen_query import ListenQuery, checked_keyterms
from partway.container.stream import Stream
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.voice")

_TOO_MANY_KEYTERMS: Final = "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"


class ListenStream:
    """One stream of ``v1/listen``.

    Audio that came before ``Finalize`` or ``CloseStream`` is heard before it is answered.

    Raises:
        ModelError: the query is refused.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        assert engines.hearing is not None, "the stream was admitted"
        self._stream = stream
        self._query = ListenQuery.read(stream.query, engines.settings)
        self._listener = SpeechListener(engines.hearing, engines.turns, self._query.options)
        self._digest = hashlib.sha256()
        self._created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        engine = engines.settings.hears.partition(":")[0]
        self._metadata = {
            "request_id": stream.id,
            "model_info": {"name": engine, "version": __version__, "arch": engine},
            "model_uuid": "",
        }
        self._last_word_end: float | None = None  # not yet told by UtteranceEnd
        self._ignored: set[str] = set()

    async def run(self) -> None:
        """Serve the stream, until its client ends the audio and all is told."""
        self._log_ignored(self._query.ignored)
        async with self._listener, asyncio.TaskGroup() as group:
            group.create_task(self._tell())
            await self._listen()

    # --- From the client -------------------------------------------------------------------------

    async def _listen(self) -> None:
        async for message in self._stream.messages():
            if isinstance(message, bytes):
                self._digest.update(message)
                await self._listener.feed(message)
                continue
            try:
                asked = messages.message_of(message)
            except MessageFault as fault:
                await self._stream.send(messages.error("SchemaError", str(fault), message))
                continue
            if isinstance(asked, CloseStream):
                break
            if isinstance(asked, Finalize):
                await self._listener.commit()
            elif isinstance(asked, Configure):
                await self._configure(asked)
        await self._listener.end()

    async def _configure(self, asked: Configure) -> None:
        self._log_ignored(asked.ignored)
        if asked.keyterms is not None:
            try:
                terms = checked_keyterms(asked.keyterms)
            except ModelError as error:
                await self._stream.send(
                    messages.configure_failure(self._stream.id, _TOO_MANY_KEYTERMS, error.reason)
                )
                return
            wishes = self._listener.hearing_options
            self._listener.hearing_options = replace(wishes, keyterms=terms)
        await self._stream.send(messages.configure_success(self._stream.id, asked.keyterms))

    def _log_ignored(self, names: Collection[str]) -> None:
        """Name what has no effect, each name once in a stream, up to a bounded number."""
        new = set(names) - self._ignored
        if new and len(self._ignored) < messages.MOST_IGNORED:
            self._ignored |= new
            named = ", ".join(sorted(new))[:200]
            _log.info(
                LogLine("v1/listen ignores parameters", names=named, request_id=self._stream.id)
            )

    # --- To the client ---------------------------------------------------------------------------

    async def _tell(self) -> None:
        async for event in self._listener.events():
            await self._tell_event(event)
        await self._stream.send(
            messages.metadata(
                self._stream.id,
                self._digest.hexdigest(),
                self._created,
                self._listener.position,
                self._query.options.audio.channels,
            )
        )

    async def _tell_event(self, event: ListenerEvent) -> None:
        match event:
            case SpeechStarted(at) if self._query.tells_speech:
                await self._stream.send(messages.speech_started(at))
            case Interim(utterance, transcript):
                await self._tell_text(utterance, transcript, is_final=False)
            case FinalText(utterance, transcript, reason):
                await self._tell_text(
                    utterance,
                    transcript,
                    is_final=True,
                    speech_final=reason != "cut" and (self._query.ends_speech or reason == "end"),
                    from_finalize=reason == "commit",
                )
                self._note_last_word(utterance, transcript)
            case HearingFailed(utterance, reason, ending):
                await self._stream.send(messages.error("HearingFailed", reason))
                if ending == "commit":
                    empty = Transcript("", 0.0)
                    await self._tell_text(utterance, empty, is_final=True, from_finalize=True)
            case LongSilence() if self._last_word_end is not None:
                await self._stream.send(messages.utterance_end(self._last_word_end))
                self._last_word_end = None

    async def _tell_text(
        self,
        utterance: Utterance,
        transcript: Transcript,
        *,
        is_final: bool,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> None:
        await self._stream.send(
            messages.results(
                utterance,
                transcript,
                self._metadata,
                is_final=is_final,
                speech_final=speech_final,
                from_finalize=from_finalize,
            )
        )

    def _note_last_word(self, utterance: Utterance, transcript: Transcript) -> None:
        if transcript.words:
            self._last_word_end = utterance.start + transcript.words[-1].end
        elif transcript.text:
            self._last_word_end = utterance.end
