"""vLLM's dialect of Realtime, which AWS's sample for Voxtral speaks: transcription alone.

``input_audio_buffer.commit`` begins an utterance, ``append`` adds audio, and ``commit`` with
``final`` ends it. The audio is mono, 16 bits, at 16 kHz.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server/#realtime-api
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import HEARING_RATE, HearingOptions
from partway.container.models.voice.limits import MAX_ITEM_TEXT, MAX_NAME
from partway.container.models.voice.listener import ListenerOptions, SpeechListener
from partway.container.models.voice.utterances import Final as FinalText
from partway.container.models.voice.utterances import HearingFailed
from partway.container.models.voice.wires.dialects import obey_all, unknown_type
from partway.container.models.voice.wires.realtime_events import event
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent, audio_of
from partway.container.stream import Stream

_KNOWN: Final = ("session.update", "input_audio_buffer.append", "input_audio_buffer.commit")


class VllmRealtime:
    """One stream.

    Args:
        first: the client's first message.

    Raises:
        ModelError: no engine hears.
        RealtimeFault: the message is refused.
    """

    def __init__(self, stream: Stream, engines: Engines, first: ClientEvent) -> None:
        engines.need("transcription", "hears")
        assert engines.hearing is not None
        self._stream = stream
        language = first.members.text("language", engines.settings.language, most=MAX_NAME)
        options = ListenerOptions(
            audio=AudioFormat("linear16", HEARING_RATE, 1),
            hearing=HearingOptions(language=language),
            endpointing=engines.settings.endpointing_ms / 1000,
            eager=engines.settings.eager_ms / 1000,
        )
        self._listener = SpeechListener(engines.hearing, engines.turns, options)
        self._text = ""  # since the last final commit

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream until its input ends; the text of all audio is told."""
        async with self._listener, asyncio.TaskGroup() as group:
            group.create_task(self._tell())
            await obey_all(messages, self._take, self._refuse)
            await self._listener.end()

    async def _take(self, message: ClientEvent) -> None:
        match message.kind:
            case "input_audio_buffer.append":
                await self._listener.feed(audio_of(message.members, "audio"))
            case "input_audio_buffer.commit":
                # A commit that is not final begins an utterance: its audio follows.
                if message.members.flag("final", default=False):
                    await self._listener.commit()
            case "session.update":
                pass  # a container has one model
            case _:
                raise unknown_type(message, _KNOWN)

    async def _tell(self) -> None:
        async for found in self._listener.events():
            match found:
                case FinalText(transcript=transcript, reason=reason):
                    await self._tell_piece(transcript.text)
                    if reason == "commit":
                        await self._tell_whole()
                case HearingFailed(reason=failure, ending=reason):
                    await self._tell_error(failure, "processing_error")
                    if reason == "commit":
                        self._text = ""
        if self._text:  # the input has ended without a final commit
            await self._tell_whole()

    async def _tell_piece(self, text: str) -> None:
        if text:
            delta = f" {text}" if self._text else text
            if len(self._text) < MAX_ITEM_TEXT:
                self._text += delta
            await self._stream.send(event("transcription.delta", delta=delta))

    async def _tell_whole(self) -> None:
        text, self._text = self._text, ""
        await self._stream.send(event("transcription.done", text=text, usage=None))

    async def _refuse(self, fault: RealtimeFault) -> None:
        await self._tell_error(fault.message, fault.code)

    async def _tell_error(self, reason: str, code: str) -> None:
        await self._stream.send(event("error", error=reason, code=code))
