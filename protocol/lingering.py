"""How long what ends may take to hand over its last bytes (clause 1.5-13)."""

from __future__ import annotations

from partway.protocol import limits


class Lingering:
    """How long a connection or stream that is ending is kept: while its unsent bytes shrink.

    The owner looks at what is unsent when the end begins, then every :attr:`interval` seconds; it
    ends the connection when :meth:`look` says so. What counts as unsent is the owner's to say: it
    cannot wait for bytes that it cannot see, such as those that TLS has handed on to its own
    transport.

    Rules:
        1. The connection lives on while fewer bytes are unsent than at the last look
           (clause 1.5-13).
        2. However steadily they shrink, the connection ends after FINISH_TIMEOUT, in whole
           intervals and after at least one of them.

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
        """Whether the connection lives for another interval, with ``unsent`` bytes unsent now."""
        self._looks_left -= 1
        shrinks = unsent < self._unsent_before
        self._unsent_before = unsent
        return shrinks and self._looks_left > 0
