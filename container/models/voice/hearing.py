"""Hearing: an engine that turns speech into text, on its own threads."""

from __future__ import annotations

from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    HearingOptions,
    Hears,
    Samples,
    Transcript,
)

#: The least that is sent to an engine: a shorter piece has no word.
_LEAST_SAMPLES = HEARING_RATE // 50


class Hearing:
    """The hearing of all streams.

    Args:
        pool: the engine with its threads.
    """

    def __init__(self, pool: EnginePool[Hears]) -> None:
        self._pool = pool
        self._under_way = 0

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
            return await self._pool.run(self._pool.engine.hear, audio, options)
        finally:
            self._under_way -= 1
