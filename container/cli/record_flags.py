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
    parser.add_argument("file", metavar="FILE", help="the file of records; - reads standard input")
    parser.add_argument(
        "--from",
        dest="from_type",
        metavar="TYPE",
        help=f"the file's media type, guessed by default: {', '.join(TYPES)}; "
        "'text/csv; label_size=1' for a column of labels",
    )
    parser.add_argument(
        "--width",
        type=int,
        metavar="N",
        help="number of features per record (that of the first one)",
    )
    parser.add_argument(
        "--index-base",
        type=int,
        choices=(0, 1),
        default=0,
        help="index of the first feature in text/libsvm (0)",
    )
