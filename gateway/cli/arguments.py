"""Reads the values of flags that several commands have."""

from __future__ import annotations

import argparse
from contextlib import suppress


def seconds(text: str) -> float:
    """Read the value of a flag that takes seconds: a number over 0 and at most 3600.

    Raises:
        argparse.ArgumentTypeError: the value is not such a number.
    """
    with suppress(ValueError):
        value = float(text)
        if 0 < value <= 3600:
            return value
    raise argparse.ArgumentTypeError(
        f"{text!r} was given; it must be a number of seconds over 0 and at most 3600"
    )
