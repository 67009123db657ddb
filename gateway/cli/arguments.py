"""Flags that several commands share, and the values of flags."""

from __future__ import annotations

import argparse
import os
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


def whole_number(text: str) -> int:
    """Read the value of a flag that takes a whole number; the setting itself has the bounds.

    Raises:
        argparse.ArgumentTypeError: the value is no whole number.
    """
    with suppress(ValueError):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} was given; it must be a whole number")


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Add ``--gateway URL``, the gateway that a command is a client of."""
    parser.add_argument(
        "--gateway",
        metavar="URL",
        default=os.environ.get("PARTWAY_URL", "http://127.0.0.1:8090"),
        help="the gateway's URL, http:// or https:// (PARTWAY_URL, else http://127.0.0.1:8090)",
    )


def region() -> str:
    """Return the region that AWS's tools would take; they pass over a variable that is empty."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
