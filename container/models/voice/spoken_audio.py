"""The audio of a whole text, as the body of an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from partway.container.models.voice.audio_formats import AudioFormat, AudioWriter
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.wav_header import wav_header


async def spoken_audio(
    speaking: Speaking, text: str, options: SpeakingOptions, form: AudioFormat
) -> AsyncGenerator[bytes]:
    """Yield the audio of a text as it is made; no piece is empty.

    Raises:
        Exception: any exception of the engine.
    """
    writer = AudioWriter(speaking.rate, form)
    async with aclosing(speaking.speak_text(text, options)) as pieces:
        async for piece in pieces:
            if data := writer.feed(piece):
                yield data
    if data := writer.end():
        yield data


async def in_wav(audio: AsyncGenerator[bytes], form: AudioFormat) -> AsyncGenerator[bytes]:
    """Yield audio after the header of a file whose length is not known.

    Args:
        audio: closed with this.
        form: its format.
    """
    async with aclosing(audio):
        header = wav_header(form, None)
        async for data in audio:
            yield header + data
            header = b""
    if header:
        yield header


class BegunAudio(AsyncIterator[bytes]):
    """Audio whose first piece is there; its owner must close it.

    Args:
        first: the first piece; it may be empty.
        rest: the pieces after it; closed with this.
    """

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes]) -> None:
        self._first = first
        self._rest = rest

    @classmethod
    async def begin(cls, audio: AsyncGenerator[bytes]) -> BegunAudio:
        """Wait for the first piece, so that an early failure still has a status of its own.

        Raises:
            Exception: any exception of the audio.
        """
        return cls(await anext(audio, b""), audio)

    async def __anext__(self) -> bytes:
        if first := self._first:
            self._first = b""
            return first
        return await anext(self._rest)

    async def aclose(self) -> None:
        await self._rest.aclose()
