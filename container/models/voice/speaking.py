"""Speaking: an engine that turns text into speech, on its own threads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

import numpy as np

from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.interfaces import Samples, SpeakingOptions, Speaks
from partway.container.models.voice.phrases import phrases_of

#: Seconds of the first piece of a phrase. Each piece is twice as long as the one before, up to the
#: second length; a later one has an eighth of the phrase so far. Half an hour has fewer than 64
#: pieces, which a thread may make ahead: a client that takes none of them holds no thread.
_FIRST_PIECE: Final = 0.02
_DOUBLED_PIECE: Final = 0.64
_SHARE_OF_PHRASE: Final = 1 / 8


class Speaking:
    """The speaking of all streams and requests.

    Args:
        pool: the engine with its threads.
    """

    def __init__(self, pool: EnginePool[Speaks]) -> None:
        self._pool = pool

    @property
    def rate(self) -> int:
        """Samples per second of the audio."""
        return self._pool.engine.rate

    @property
    def voices(self) -> Sequence[str]:
        """Names that a client may ask for; empty if there is one voice only."""
        return self._pool.engine.voices

    async def speak(self, phrase: str, options: SpeakingOptions) -> AsyncGenerator[Samples]:
        """Yield the audio of a phrase, piece by piece.

        Closing the generator ends the phrase at the engine's next piece.

        Raises:
            Busy: the engine has too much to do; the reason names it.
            Exception: any exception of the engine.
        """
        async with aclosing(self._pool.iterate(self._pieces, phrase, options)) as pieces:
            async for piece in pieces:
                yield piece

    async def speak_text(self, text: str, options: SpeakingOptions) -> AsyncGenerator[Samples]:
        """Yield the audio of a whole text, as :meth:`speak` does.

        Each phrase is one job of the engine, so that a long text holds no other stream up.
        """
        for phrase in phrases_of(text):
            async with aclosing(self.speak(phrase, options)) as pieces:
                async for piece in pieces:
                    yield piece

    def _pieces(self, phrase: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield a phrase's audio in pieces that grow; on a thread."""
        engine = self._pool.engine
        waiting: list[Samples] = []
        length = total = 0
        least = _FIRST_PIECE * engine.rate
        made = engine.speak(phrase, options)
        try:
            for samples in made:
                waiting.append(samples)
                length += len(samples)
                if length >= least:
                    yield np.concatenate(waiting)
                    total += length
                    waiting, length = [], 0
                    doubled = min(2 * least, _DOUBLED_PIECE * engine.rate)
                    least = max(doubled, total * _SHARE_OF_PHRASE)
            if length:
                yield np.concatenate(waiting)
        finally:
            close = getattr(made, "close", None)  # an engine may return any iterator
            if close is not None:
                close()
