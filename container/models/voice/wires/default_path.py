"""Streams on the default path: the first message chooses the dialect.

Clients of these dialects name no path. vLLM's clients wait for ``session.created`` before they send
anything, so it is sent at once. NVIDIA's clients ignore events whose type they do not know.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Final

from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.wires.dialects import Dialect, unknown_type
from partway.container.models.voice.wires.nvidia_hearing import NvidiaHearing
from partway.container.models.voice.wires.nvidia_speaking import NvidiaSpeaking
from partway.container.models.voice.wires.realtime import RealtimeStream, realtime_needs
from partway.container.models.voice.wires.realtime_events import error_event
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent, event_of
from partway.container.models.voice.wires.speech_stream import SpeechStream
from partway.container.models.voice.wires.vllm_realtime import VllmRealtime
from partway.container.stream import Stream

_VLLM: Final = frozenset({"session.update", "input_audio_buffer.commit"})
_NVIDIA_HEARING: Final = frozenset({"transcription_session.update"})
_NVIDIA_SPEAKING: Final = frozenset({"synthesize_session.update", "input_text.append"})
_VLLM_SPEAKING: Final = frozenset({"session.config"})
#: Types of the Realtime API that a conversation can begin with.
_REALTIME: Final = frozenset(
    {
        "conversation.item.create",
        "input_audio_buffer.append",
        "input_audio_buffer.clear",
        "response.create",
    }
)
_FIRST: Final = sorted(_VLLM | _VLLM_SPEAKING | _NVIDIA_HEARING | _NVIDIA_SPEAKING | _REALTIME)


class DefaultPath:
    """One stream on the default path."""

    def __init__(self, stream: Stream, engines: Engines) -> None:
        self._stream = stream
        self._engines = engines
        self._realtime = RealtimeStream(stream, engines)

    async def run(self) -> None:
        """Serve the stream; a first message that is refused leaves the choice to the next."""
        # vLLM has these members outside the session.
        created = self._realtime.created(id=f"sess-{self._stream.id}", created=int(time.time()))
        await self._stream.send(created)
        messages = self._stream.messages()
        async for raw in messages:
            event_id = ""
            try:
                first = event_of(raw)
                event_id = first.id
                dialect = self._dialect(first)
            except RealtimeFault as fault:
                await self._stream.send(error_event(fault, event_id))
                continue
            await dialect.run(_preceded(raw, messages))
            return

    def _dialect(self, first: ClientEvent) -> Dialect:
        """Return the dialect of a first message.

        Raises:
            RealtimeFault: the message is no dialect's, or is refused.
            ModelError: the dialect needs an engine that is not configured.
        """
        if first.kind in _NVIDIA_HEARING:
            return NvidiaHearing(self._stream, self._engines, first)
        if first.kind in _NVIDIA_SPEAKING:
            return NvidiaSpeaking(self._stream, self._engines, first)
        if first.kind in _VLLM_SPEAKING:
            return SpeechStream(self._stream, self._engines)
        if first.kind in _REALTIME or (first.kind in _VLLM and first.members.has("session")):
            self._engines.need("Realtime", *realtime_needs(self._stream.query, self._engines))
            return self._realtime
        if first.kind in _VLLM:
            return VllmRealtime(self._stream, self._engines, first)
        raise unknown_type(first, _FIRST)


async def _preceded(
    first: str | bytes, rest: AsyncIterator[str | bytes]
) -> AsyncIterator[str | bytes]:
    yield first
    async for message in rest:
        yield message
