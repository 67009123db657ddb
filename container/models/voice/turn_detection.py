"""Turn detection: an engine that finds out when somebody speaks, and when a turn is over."""

from __future__ import annotations

from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.interfaces import Samples, SpeechDetector, Turns


class TurnDetection:
    """The turn detection of all streams.

    Args:
        pool: the engine with its threads.
    """

    def __init__(self, pool: EnginePool[Turns]) -> None:
        self._pool = pool

    def detector(self) -> SpeechDetector:
        """Make the detector of one stream; it computes on the event loop."""
        return self._pool.engine.detector()

    async def is_complete(self, audio: Samples) -> bool:
        """Return whether a turn sounds complete; on a thread.

        Raises:
            Exception: any exception of the engine, or of its threads.
        """
        return await self._pool.run(self._pool.engine.is_complete, audio)
