"""``v2/listen``: audio in, turns out, as clients of Deepgram's Flux expect it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.ignored_names import IgnoredNames, log_ignored
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.listener import SpeechListener
from partway.container.models.voice.utterances import HearingFailed
from partway.container.models.voice.wires.flux_listen_messages import (
    FluxConfigure,
    ForceEndTurn,
    UnreadableConfigure,
    configured,
    flux_event,
    flux_message_of,
    not_configured,
)
from partway.container.models.voice.wires.flux_listen_query import (
    FluxListenQuery,
    checked_hints,
    language_of,
)
from partway.container.models.voice.wires.flux_listen_turns import FluxTurns
from partway.container.models.voice.wires.listen_messages import CloseStream, MessageFault
from partway.container.models.voice.wires.listen_query import checked_keyterms
from partway.container.stream import Stream

_log = logging.getLogger("partway.container.voice")

PATH: Final = "v2/listen"


class FluxListenStream:
    """One stream of ``v2/listen``.

    A fault of a message or of the engine is an event, and the stream goes on.

    Raises:
        ModelError: the query is refused.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        assert engines.hearing is not None, "the stream was admitted"
        self._stream = stream
        self._settings = engines.settings
        self._query = FluxListenQuery.read(stream.query, engines.settings)
        self._thresholds = self._query.thresholds
        self._listener = SpeechListener(engines.hearing, engines.turns, self._query.options)
        trigger = self._thresholds.trigger(self._settings)
        self._turns = FluxTurns(self._thresholds.eager, self._query.hints, trigger)
        self._ignored = IgnoredNames(_log, "v2/listen ignores a member of Configure")
        self._sequence_id = 0
        self._sending = asyncio.Lock()  # events are sent in the order of their numbers

    async def run(self) -> None:
        """Serve the stream, until its client ends the audio and all turns are told."""
        log_ignored(_log, "parameters are ignored", PATH, self._query.ignored)
        await self._send("Connected")
        async with self._listener, asyncio.TaskGroup() as group:
            group.create_task(self._tell())
            await self._listen()

    async def _send(self, kind: str, **members: Any) -> None:
        async with self._sending:
            event = flux_event(kind, self._stream.id, self._sequence_id, **members)
            self._sequence_id += 1
            await self._stream.send(event)

    # --- From the client -------------------------------------------------------------------------

    async def _listen(self) -> None:
        async for message in self._stream.messages():
            if isinstance(message, bytes):
                await self._listener.feed(message)
                continue
            try:
                asked = flux_message_of(message)
            except MessageFault as fault:
                await self._send("Error", code="UNPARSABLE_CLIENT_MESSAGE", description=str(fault))
                continue
            if isinstance(asked, CloseStream):
                break
            if isinstance(asked, ForceEndTurn):
                if self._listener.is_speaking:
                    await self._listener.commit()
            else:
                await self._configure(asked)
        await self._listener.end()

    async def _configure(self, asked: FluxConfigure | UnreadableConfigure) -> None:
        """Answer with exactly one event; a failure changes nothing."""
        if isinstance(asked, UnreadableConfigure):
            await self._refuse("CONFIGURE_INVALID", asked.reason)
            return
        self._ignored.note(asked.ignored)
        wishes = self._listener.hearing_options
        hints = self._turns.hints
        try:
            thresholds = self._thresholds.changed(asked.thresholds or {})
            if asked.hints is not None:
                hints = checked_hints(asked.hints)
        except ModelError as error:
            await self._refuse("CONFIGURE_INVALID", error.reason)
            return
        try:
            terms = wishes.keyterms if asked.keyterms is None else checked_keyterms(asked.keyterms)
        except ModelError as error:
            await self._refuse("CONFIGURE_KEYTERM_LIMIT_EXCEEDED", error.reason)
            return
        language = language_of(hints, self._settings)
        self._listener.hearing_options = replace(wishes, keyterms=terms, language=language)
        self._listener.turn_options = thresholds.turns(self._settings)
        self._thresholds = thresholds
        self._turns.eager, self._turns.hints = thresholds.eager, hints
        self._turns.silence = thresholds.trigger(self._settings)
        await self._send("ConfigureSuccess", **configured(thresholds.members(), terms, hints))

    async def _refuse(self, code: str, reason: str) -> None:
        await self._send("ConfigureFailure", **not_configured(code, reason))

    # --- To the client ---------------------------------------------------------------------------

    async def _tell(self) -> None:
        async for event in self._listener.events():
            if isinstance(event, HearingFailed):
                await self._send("Warning", code="HEARING_FAILED", description=event.reason)
            for info in self._turns.on(event):
                await self._send("TurnInfo", **info)
