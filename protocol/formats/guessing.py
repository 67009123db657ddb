"""Guessing a record file's media type from its first bytes and its name."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from partway.protocol.formats.recordio import MAGIC

#: Bytes of a file that are examined.
LOOKED_AT: Final = 4096

_ENDINGS: Final = {
    ".csv": "text/csv",
    ".libsvm": "text/libsvm",
    ".svm": "text/libsvm",
    ".svmlight": "text/libsvm",
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".jsonlines": "application/jsonlines",
    ".ndjson": "application/jsonlines",
    ".rec": "application/x-recordio-protobuf",
    ".recordio": "application/x-recordio-protobuf",
    ".pbr": "application/x-recordio-protobuf",
    ".npy": "application/x-npy",
}
#: An object with a member that only a whole body has.
_BODY: Final = re.compile(
    rb'\{\s*("(instances|inputs|configuration|parameters|signature_name|id|columns|'
    rb'dataframe_split|dataframe_records)"|$)'
)
#: Arrays on lines of their own, without commas in between.
_ARRAY_A_LINE: Final = re.compile(rb"\][ \t]*\r?\n[ \t]*\[")
_PAIR: Final = re.compile(rb"(^|\s)[0-9]+:\S")


def type_by_name(name: str) -> str | None:
    """Return the media type for a file name's suffix; None for an unknown suffix."""
    return _ENDINGS.get(PurePath(name).suffix.lower())


def type_by_content(beginning: bytes) -> str | None:
    """Guess a file's media type from its beginning.

    Args:
        beginning: its first :data:`LOOKED_AT` bytes, or all of a shorter file.

    Returns:
        The type of a file of records; None if it cannot be one.
    """
    if beginning.startswith(b"\x93NUMPY"):
        return "application/x-npy"
    if beginning.startswith(MAGIC):
        return "application/x-recordio-protobuf"
    text = beginning.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if text.startswith((b"{", b"[")):
        return json_type(text)
    # A bare record begins with the tag of its features and their length.
    if re.search(rb"[\x00-\x08\x0e-\x1f]", beginning):
        return "application/x-recordio-protobuf" if beginning[:1] == b"\x0a" else None
    # Only LibSVM has comments; they begin like this.
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2].lstrip(b" \t\r\n")
    if not text:
        return None
    return "text/libsvm" if _PAIR.search(text.partition(b"\n")[0]) else "text/csv"


def json_type(text: bytes) -> str:
    """Return the JSON type of a text that begins with a brace or a bracket."""
    if text.startswith(b"["):
        return "application/jsonlines" if _ARRAY_A_LINE.search(text) else "application/json"
    return "application/json" if _BODY.match(text) else "application/jsonlines"
