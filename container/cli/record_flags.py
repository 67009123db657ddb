"""Flags of the commands for record files, defined without importing any decoder."""

from __future__ import annotations

import argparse
from typing import Final

#: Same as :data:`partway.protocol.formats.RECORD_TYPES`, whose import takes a fifth of a second.
TYPES: Final = (
    "text/csv",
    "text/libsvm",
    "application/json",
    "application/jsonlines",
    "application/x-recordio-protobuf",
    "application/x-npy",
)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name the file and say how to read it."""
    parser.add_argument("file", metavar="FILE", help="records; - is standard input")
    parser.add_argument(
        "--from",
        dest="from_type",
        metavar="TYPE",
        help=f"the file's media type, by default as it looks: {', '.join(TYPES)}; "
        "'text/csv; label_size=1' for a column of labels",
    )
    parser.add_argument(
        "--width", type=int, metavar="N", help="features of each record (as the first one has)"
    )
    parser.add_argument(
        "--index-base",
        type=int,
        choices=(0, 1),
        default=0,
        help="number of the first feature in text/libsvm (0)",
    )
