"""Locations of files as text: ``s3://BUCKET/KEY``, an absolute path, or ``file://`` and a path.

No function here looks at a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from partway.gateway.storage.places.place import StorageFailed

SCHEME: Final = "s3://"

_FILE: Final = "file:"

#: S3's rules for bucket names.
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def is_local(location: str) -> bool:
    """Whether a location is on this machine: an absolute path, or a ``file:`` URL."""
    return location.startswith(("/", _FILE))


def split_url(url: str) -> tuple[str, str]:
    """Return bucket and key of ``s3://bucket/key``.

    Raises:
        StorageFailed: the URL names no bucket.
    """
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise StorageFailed(
            f"{url}: {bucket!r} is not a bucket's name; the address must be s3://BUCKET/KEY, the "
            "bucket's name of 3 to 63 small letters, digits, dots and hyphens"
        )
    return bucket, key


def plain_path(location: str) -> str:
    """Return the path of a location that is written in the only form that permissions use.

    A path has many spellings. A permission for one spelling must not open another path's file.

    Raises:
        ValueError: the location is written differently; the message says what it must be.
    """
    named = _written(location)
    parts = [] if named is None else named.split("/")[1:]
    if named is None or any(each in ("", ".", "..") for each in parts):
        raise ValueError(
            f"{location!r} must be an absolute path, also after file://, with no part of it empty, "
            ". or .. and nothing in it percent-encoded"
        )
    return named


def path_as_named(location: str) -> Path | None:
    """Return a location's path, with ``..`` resolved in the text; None if it names no path."""
    try:
        named = path_of_location(location)
    except ValueError:  # not a valid URL
        return None
    return None if named is None else flat_path(named)


def path_of_location(location: str) -> Path | None:
    """Return a location's path, with percent-encoding decoded; None if it names no path.

    Raises:
        ValueError: the location is not a valid URL.
    """
    written = _written(location, decoded=unquote)
    return None if written is None else Path(written)


def flat_path(path: Path) -> Path:
    """Return a path with ``..`` resolved in the text."""
    return Path(os.path.normpath(path))


def checked_arn(location: str) -> str:
    """Return the ARN that permissions use for a location.

    AWS has no ARN for a path of this machine. It is ``arn:partway:files:::`` and the path.

    Raises:
        ValueError: a path is not written in the form that permissions use.
    """
    return arn_of_location(location if location.startswith(SCHEME) else plain_path(location))


def arn_of_location(location: str) -> str:
    """Return the ARN of ``s3://bucket/key``, or of a path that is in the form of permissions."""
    if location.startswith(SCHEME):
        return f"arn:aws:s3:::{location.removeprefix(SCHEME)}"
    return f"arn:partway:files:::{location}"


def _encoded_never(path: str) -> str:
    return "" if "%" in path else path


def _written(location: str, decoded: Callable[[str], str] = _encoded_never) -> str | None:
    """Return the path in a location as it is written; None if it is not on this machine.

    Args:
        location: an absolute path, or ``file:///…``.
        decoded: decodes the path of a URL.
    """
    if location.startswith(_FILE):
        parts = urlsplit(location)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            return None
        location = decoded(parts.path)
    return location if location.startswith("/") and "\0" not in location else None
