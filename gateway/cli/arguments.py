"""Values of flags that several commands have."""

from __future__ import annotations

import argparse
from contextlib import suppress


def seconds(text: str) -> float:
    """A time that ends.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    with suppress(ValueError):
        value = float(text)
        if 0 < value <= 3600:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not over 0 and at most 3600 seconds")
