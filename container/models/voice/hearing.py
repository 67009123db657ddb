"""Hearing: an engine that turns speech into text, on its own threads."""

from __future__ import annotations

from typing import TypeAlias

from partway.container.batching import Batcher
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    HearingOptions,
    Hears,
    Samples,
    Transcript,
)

#: Utterances that are heard in one call, and the longest time in seconds that one waits for others.
_MOST_TOGETHER = 8
_BATCH_WAIT = 0.02
#: The least that is sent to an engine: a shorter piece has no word.
_LEAST_SAMPLES = HEARING_RATE // 50


_Heard: TypeAlias = tuple[Samples, HearingOptions]


class Hearing:
    """The hearing of all streams.

    An engine that has ``hear_many`` hears the utterances of several streams in one call. The method
    takes a list of pairs, audio and options, and returns a transcript for each.

    Args:
        pool: the engine with its threads.
    """

    def __init__(self, pool: EnginePool[Hears]) -> None:
        self._pool = pool
        self._under_way = 0
        hear_many = getattr(pool.engine, "hear_many", None)
        self._batcher: Batcher[_Heard, Transcript] | None = None
        if hear_many is not None:
            self._batcher = Batcher(pool, hear_many, max_size=_MOST_TOGETHER, max_wait=_BATCH_WAIT)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being heard: only then is work done that may be in vain."""
        return not self._under_way

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        """Return the text of some audio; cancelling gives the job up.

        Raises:
            Busy: the engine has too much to do; the reason names it.
            Exception: any exception of the engine.
        """
        if len(audio) < _LEAST_SAMPLES:
            return Transcript("")
        self._under_way += 1
        try:
            if self._batcher is not None:
                return await self._batcher.run((audio, options))
            return await self._pool.run(self._pool.engine.hear, audio, options)
        finally:
            self._under_way -= 1
