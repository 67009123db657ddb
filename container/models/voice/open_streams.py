"""The streams of a voice model that are open, a limited number at a time.

All streams of a process share one core: one stream too many delays the audio of all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from partway.container.errors import Busy
from partway.container.models.voice.settings import variable_of


class OpenStreams:
    """Counts the open streams.

    Args:
        limit: of the streams that are open at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    def check(self) -> None:
        """Check whether one more stream may be opened.

        Raises:
            Busy: none may; the reason names the setting.
        """
        if self._count >= self._limit:
            raise Busy(
                f"{self._count} voice streams are open, and {variable_of('streams')} allows no "
                "more in this container"
            )

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a stream for as long as it is open.

        Raises:
            Busy: as :meth:`check`. Others may have been opened since their check.
        """
        self.check()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
