"""The message of a Realtime response, spoken or written, as it comes from its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from partway.container.models.voice.audio_formats import AudioFormat, AudioWriter
from partway.container.models.voice.conversation import Item
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.phrases import PhraseCutter
from partway.container.models.voice.playback import Playback
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.wires.realtime_events import ResponsePlace

#: Pieces of audio that are made before they may be sent: the next phrase is made while the one
#: before is heard.
_MADE_AHEAD: Final = 8

Send = Callable[[str], Awaitable[None]]


class ResponseMessage(Protocol):
    """The message of a response; its item's text is the part that the user has, or will have."""

    place: ResponsePlace

    @property
    def item(self) -> Item: ...

    async def add(self, piece: str) -> None:
        """Add text."""

    def end(self) -> None:
        """End the text."""

    def closing(self, *, is_cut: bool) -> list[str]:
        """Return the events that end the message's part.

        Args:
            is_cut: whether the message ends here, whatever is left of it.
        """


class WrittenAnswer:
    """A message of text.

    Args:
        place: of the message.
        send: sends an event.
    """

    def __init__(self, place: ResponsePlace, send: Send) -> None:
        self.place = place
        self._send = send

    @property
    def item(self) -> Item:
        return self.place.item

    async def add(self, piece: str) -> None:
        self.item.content[0].text += piece
        await self._send(self.place.text_delta(piece))

    def end(self) -> None:
        """End the text: there is nothing to wait for."""

    def closing(self, *, is_cut: bool) -> list[str]:
        return [self.place.text_done(), self.place.part_done()]


@dataclass(frozen=True, slots=True)
class _PhraseBegins:
    text: str


class SpokenAnswer:
    """A message of audio with its transcript, phrase by phrase.

    1. A phrase's transcript is sent with its first audio.
    2. Audio is sent no earlier than :class:`Playback` allows.
    3. The next phrase is made while the one before is sent.

    Args:
        place: of the message.
        send: sends an event.
        speaking: the engine.
        options: voice and speed.
        audio: the format of the audio.
    """

    def __init__(
        self,
        place: ResponsePlace,
        send: Send,
        speaking: Speaking,
        options: SpeakingOptions,
        audio: AudioFormat,
    ) -> None:
        self.place = place
        self._send = send
        self._speaking = speaking
        self._options = options
        self._writer = AudioWriter(speaking.rate, audio)
        self._playback = Playback(speaking.rate)
        self.item.spoken = self._playback
        self._cutter = PhraseCutter()
        #: Phrases to speak: their response bounds the answer's text. None is the end.
        self._phrases: asyncio.Queue[str | None] = asyncio.Queue()
        self._made: asyncio.Queue[_PhraseBegins | Samples | None] = asyncio.Queue(_MADE_AHEAD)

    @property
    def item(self) -> Item:
        return self.place.item

    async def add(self, piece: str) -> None:
        """Add text, which is spoken as soon as it makes a phrase."""
        for phrase in self._cutter.add(piece):
            self._phrases.put_nowait(phrase)

    def end(self) -> None:
        """End the text; its audio follows."""
        for phrase in self._cutter.end():
            self._phrases.put_nowait(phrase)
        self._phrases.put_nowait(None)

    def closing(self, *, is_cut: bool) -> list[str]:
        if is_cut:
            self.item.content[0].text = self._playback.heard_text()
        return [self.place.audio_done(), self.place.transcript_done(), self.place.part_done()]

    async def make(self) -> None:
        """Make the audio of all phrases, ahead of their sending."""
        while (phrase := await self._phrases.get()) is not None:
            await self._made.put(_PhraseBegins(phrase))
            async with aclosing(self._speaking.speak(phrase, self._options)) as pieces:
                async for piece in pieces:
                    await self._made.put(piece)
        await self._made.put(None)

    async def play(self) -> None:
        """Send the audio of all phrases, each with its transcript."""
        part = self.item.content[0]
        has_begun = False
        while (made := await self._made.get()) is not None:
            if isinstance(made, _PhraseBegins):
                delta = made.text
                if has_begun:
                    self._playback.end_phrase()
                    delta = f" {delta}"
                has_begun = True
                part.text += delta
                self._playback.begin(made.text)
                await self._send(self.place.transcript_delta(delta))
                continue
            async with aclosing(self._playback.paced(made)) as pieces:
                async for piece in pieces:
                    await self._send_audio(self._writer.feed(piece))
        if has_begun:
            self._playback.end_phrase()
        await self._send_audio(self._writer.end())

    async def _send_audio(self, audio: bytes) -> None:
        if audio:
            await self._send(self.place.audio_delta(audio))
