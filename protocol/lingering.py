"""Time limits for delivering the last bytes of a connection or stream (clause 1.5-13)."""

from __future__ import annotations

from partway.protocol import limits


class Lingering:
    """Decides how long an ending connection or stream is kept: while its unsent bytes shrink.

    The owner counts the unsent bytes when the end begins, and then every :attr:`interval` seconds.
    It ends the connection when :meth:`look` returns False. The owner decides which bytes count as
    unsent. It cannot count bytes that it cannot see, such as those that TLS has passed to its own
    transport.

    Rules:
        1. The connection lives on while fewer bytes are unsent than at the last look
           (clause 1.5-13).
        2. However steadily they shrink, the connection ends after FINISH_TIMEOUT, rounded to whole
           intervals, at least one.

    Args:
        unsent: bytes that are unsent as the end begins.
        interval: seconds between two looks, LINGER_TIMEOUT by default.
    """

    __slots__ = ("_looks_left", "_unsent_before", "interval")

    def __init__(self, unsent: int, interval: float | None = None) -> None:
        self.interval = limits.LINGER_TIMEOUT if interval is None else interval
        self._looks_left = round(limits.FINISH_TIMEOUT / self.interval)
        self._unsent_before = unsent

    def look(self, unsent: int) -> bool:
        """Return whether the connection may live for another interval."""
        self._looks_left -= 1
        shrinks = unsent < self._unsent_before
        self._unsent_before = unsent
        return shrinks and self._looks_left > 0
