"""Hearing the audio of items that a Realtime client adds, in order, one at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import numpy as np

from partway.container.errors import ModelError, log_failure, reason_of
from partway.container.models.voice.audio_formats import AudioFormat, AudioReader
from partway.container.models.voice.conversation import ConversationItems, Item
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import HEARING_RATE, HearingOptions, Samples
from partway.container.models.voice.limits import (
    MAX_ITEM_SECONDS,
    MAX_UNHEARD_ITEMS,
    MAX_UTTERANCE,
)
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_listening import hearing_options
from partway.container.models.voice.wires.realtime_session import SessionSettings

_log = logging.getLogger("partway.container.voice")

#: Bytes that are decoded at a time; other tasks get a turn between two of them.
_SLICE: Final = 1 << 15


def check_length(audio: bytes, form: AudioFormat) -> None:
    """Refuse audio that is too long for an item.

    Raises:
        RealtimeFault: it is.
    """
    seconds = len(audio) / (form.rate * form.frame_bytes)
    if seconds > MAX_ITEM_SECONDS:
        raise RealtimeFault(
            f"item.content has {seconds:.0f} s of audio; it must have at most "
            f"{MAX_ITEM_SECONDS:.0f} s: append longer audio to the input audio buffer",
            param="item.content",
        )


class ItemHearing:
    """Hears the items of one session.

    Another stream's audio gets a turn after each piece of an item, of 30 s at most.

    Args:
        engines: hear.
        conversation: may have the items.
        group: runs the hearing.
        request_id: of the stream, for the log.
    """

    def __init__(
        self,
        engines: Engines,
        conversation: ConversationItems,
        group: asyncio.TaskGroup,
        request_id: str,
    ) -> None:
        self._engines = engines
        self._conversation = conversation
        self._group = group
        self._request_id = request_id
        self._room = asyncio.Semaphore(MAX_UNHEARD_ITEMS)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def hear(self, item: Item, audio: bytes, settings: SessionSettings) -> None:
        """Begin to hear an item; wait while too many items wait for their text.

        Args:
            item: gets the text later. Nothing is done without audio.
            audio: in the session's format.
            settings: the session's.

        Raises:
            RealtimeFault: the audio is too long.
        """
        if not audio:
            return
        check_length(audio, settings.input_format)
        item.hearing = asyncio.Event()
        await self._room.acquire()
        task = self._group.create_task(self._hear(item, audio, settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Give up the items whose text is not known yet."""
        for task in self._tasks:
            task.cancel()

    async def _hear(self, item: Item, audio: bytes, settings: SessionSettings) -> None:
        try:
            async with self._turn:
                item.heard(await self._text_of(audio, settings))
            self._conversation.measure(item)
        except Exception as error:
            log_failure(_log, "hearing", error, request_id=self._request_id)
            item.unheard(ModelError(reason_of(error)))
        finally:
            self._room.release()

    async def _text_of(self, audio: bytes, settings: SessionSettings) -> str:
        if self._engines.hearing is None:
            raise ModelError("this container hears nothing")
        options = hearing_options(settings.transcribing, self._engines.settings.language)
        samples = await _samples_of(audio, settings.input_format)
        return await _heard(self._engines.hearing, samples, options)


async def _samples_of(audio: bytes, form: AudioFormat) -> Samples:
    reader = AudioReader(form)
    slices = []
    for begin in range(0, len(audio), _SLICE):
        slices.append(reader.feed(audio[begin : begin + _SLICE]))
        await asyncio.sleep(0)
    return np.concatenate([*slices, reader.end()])


async def _heard(hearing: Hearing, samples: Samples, options: HearingOptions) -> str:
    size = int(MAX_UTTERANCE * HEARING_RATE)
    texts = []
    for begin in range(0, len(samples), size):
        found = await hearing.transcribe(samples[begin : begin + size], options)
        texts.append(found.text)
    return " ".join(filter(None, texts))
