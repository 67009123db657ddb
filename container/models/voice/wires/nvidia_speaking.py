"""NVIDIA's dialect for speaking: synthesis as its speech NIMs serve it.

``input_text.append`` adds text, and ``commit`` has it spoken. ``done`` is answered by
``conversation.item.speech.completed``, after the last audio of the text before it.

https://docs.nvidia.com/nim/riva/tts/latest/realtime-tts.html
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Self

from partway.container.errors import log_failure, reason_of
from partway.container.models.voice.audio_formats import (
    LEAST_RATE,
    MOST_RATE,
    AudioFormat,
    AudioWriter,
)
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.limits import MAX_NAME, MAX_UNSPOKEN
from partway.container.models.voice.wires.dialects import (
    kept_session,
    nvidia_error,
    obey_all,
    unknown_type,
)
from partway.container.models.voice.wires.realtime_events import event
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent
from partway.container.stream import Stream, StreamClosed

_log = logging.getLogger("partway.container.voice")

_UPDATE: Final = "synthesize_session.update"
_ENDS: Final = ("session.end",)
_KNOWN: Final = (_UPDATE, "input_text.append", "input_text.commit", "input_text.done", *_ENDS)
#: The rate of a session that names none.
_USUAL_RATE: Final = 22_050
#: Bytes of audio in an event.
_MOST_AUDIO: Final = 24_000
#: Texts that wait to be spoken; the input of a client that commits more waits.
_MOST_WAITING: Final = 16


class NvidiaSpeaking:
    """One stream.

    Args:
        first: the client's first message.

    Raises:
        ModelError: no engine speaks.
        RealtimeFault: the session is refused.
    """

    def __init__(self, stream: Stream, engines: Engines, first: ClientEvent) -> None:
        engines.need("synthesis", "speaks")
        assert engines.speaking is not None
        self._stream = stream
        self._speaking = engines.speaking
        self._voice, _ = _session_of(first.members)
        self._text = ""
        #: Texts to speak, each with its voice; None for the end of an utterance.
        self._waiting: asyncio.Queue[tuple[str, _Voice] | None] = asyncio.Queue(_MOST_WAITING)

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream until its input ends; all text is spoken.

        After ``session.end`` the client takes no more audio.
        """
        conversation = {"id": f"conv_{self._stream.id}"}
        await self._stream.send(event("conversation.created", conversation=conversation))
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._speak_all())
            if await obey_all(messages, self._take, self._refuse, _ENDS):
                await self._commit()
                await self._waiting.join()
            speaking.cancel()

    async def _take(self, message: ClientEvent) -> None:
        match message.kind:
            case "input_text.append":
                self._append(message.members)
            case "input_text.commit":
                await self._commit()
                await self._stream.send(event("input_text.committed"))
            case "input_text.done":
                await self._commit()
                await self._waiting.put(None)
            case "synthesize_session.update":
                self._voice, session = _session_of(message.members)
                await self._stream.send(event("synthesize_session.updated", session=session))
            case _:
                raise unknown_type(message, _KNOWN)

    def _append(self, members: Members) -> None:
        text = self._text + members.needed("text")
        if len(text) > MAX_UNSPOKEN:
            raise RealtimeFault(
                f"text: {len(text)} characters would wait for input_text.commit; they must be at "
                f"most {MAX_UNSPOKEN}",
                param="text",
            )
        self._text = text

    async def _commit(self) -> None:
        text, self._text = self._text, ""
        if text.strip():
            await self._waiting.put((text, self._voice))

    async def _speak_all(self) -> None:
        while True:
            item = await self._waiting.get()
            if item is None:
                completed = event("conversation.item.speech.completed", is_last_result=True)
                await self._stream.send(completed)
            else:
                await self._speak(*item)
            self._waiting.task_done()

    async def _speak(self, text: str, voice: _Voice) -> None:
        """Speak a text; an engine's error is told, and the stream goes on."""
        writer = AudioWriter(self._speaking.rate, voice.audio)
        try:
            async with aclosing(self._speaking.speak_text(text, voice.options)) as pieces:
                async for piece in pieces:
                    await self._send_audio(writer.feed(piece))
            await self._send_audio(writer.end())
        except StreamClosed:
            raise
        except Exception as error:
            log_failure(_log, "speaking", error, request_id=self._stream.id)
            failed = nvidia_error("server_error", "speaking_failed", reason_of(error))
            await self._stream.send(failed)

    async def _send_audio(self, audio: bytes) -> None:
        for start in range(0, len(audio), _MOST_AUDIO):
            piece = base64.b64encode(audio[start : start + _MOST_AUDIO]).decode()
            await self._stream.send(event("conversation.item.speech.data", audio=piece))

    async def _refuse(self, fault: RealtimeFault) -> None:
        await self._stream.send(nvidia_error("invalid_request_error", fault.code, fault.message))


@dataclass(frozen=True, slots=True)
class _Voice:
    """The voice of a session, and the form of its audio."""

    options: SpeakingOptions
    audio: AudioFormat

    @classmethod
    def of(cls, session: Members) -> Self:
        """Read a session.

        Raises:
            RealtimeFault: a member has another value than it may have.
        """
        text = session.inner("input_text_synthesis")
        audio = session.inner("output_audio_params")
        audio.one_of("audio_format", ("LINEAR_PCM",), "LINEAR_PCM")
        audio.whole("num_channels", 1, 1, 1)
        rate = audio.whole("sample_rate_hz", LEAST_RATE, MOST_RATE, _USUAL_RATE)
        language = text.text("language_code", most=MAX_NAME).partition("-")[0].lower()
        options = SpeakingOptions(voice=text.text("voice_name", most=MAX_NAME), language=language)
        return cls(options, AudioFormat("linear16", rate, 1))


def _session_of(members: Members) -> tuple[_Voice, Mapping[str, Any]]:
    """Return the voice of a message's session, and the session as answers repeat it.

    Raises:
        RealtimeFault: a member has another value than it may have, or the session is too long.
    """
    return _Voice.of(members.inner("session")), kept_session(members)
