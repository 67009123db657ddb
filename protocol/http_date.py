"""The Date of a response, which clients set their clocks by (clause 2.2-1)."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache


def http_date() -> str:
    """The time now, as RFC 9110 §5.6.7 has it."""
    return _second(int(time.time()))


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """A date, written once a second: it costs as much as all else of a head."""
    return formatdate(seconds, usegmt=True)
