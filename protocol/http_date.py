"""The Date of a response, which clients set their clocks by (clause 2.2-1)."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache
from typing import Final

_SECONDS: Final = tuple(f"{second:02} GMT" for second in range(60))


def http_date(now: float) -> str:
    """Format a time, in seconds since 1970, by RFC 9110 §5.6.7."""
    return _second(int(now))


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """Format a date; cached for its second."""
    minutes, second = divmod(seconds, 60)
    return _minute(minutes) + _SECONDS[second]


@lru_cache(maxsize=1)
def _minute(minutes: int) -> str:
    """Format a date without its seconds; cached for its minute.

    Formatting costs as much as the rest of a head, and most responses begin in a second of their
    own.
    """
    return formatdate(60 * minutes, usegmt=True).removesuffix("00 GMT")
