"""Locations of files as texts: ``s3://BUCKET/KEY``, an absolute path, or ``file://`` and one.

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

#: By S3's rules for names of buckets.
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def is_local(location: str) -> bool:
    """Whether a location is meant to be on this machine: an absolute path, or a ``file:`` URL."""
    return location.startswith(("/", _FILE))


def split_url(url: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``.

    Raises:
        StorageFailed: it names no bucket.
    """
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise StorageFailed(
            f"{url}: {bucket!r} is no name of a bucket; the address must be s3://BUCKET/KEY, the "
            "bucket's name of 3 to 63 small letters, digits, dots and hyphens"
        )
    return bucket, key


def plain_path(location: str) -> str:
    """The path that a location names, if it is written as leave is asked for it.

    A path has many spellings. Leave for one of them must not be leave for another's file.

    Raises:
        ValueError: it is written in another way; the message says what it must be.
    """
    named = _written(location)
    parts = [] if named is None else named.split("/")[1:]
    if named is None or any(each in ("", ".", "..") for each in parts):
        raise ValueError(
            f"{location!r} must be an absolute path, or file:// and one, no part of it empty, . or "
            ".. and nothing in it percent-encoded"
        )
    return named


def path_as_named(location: str) -> Path | None:
    """The path that a location names, with ``..`` resolved by its text; None if it names none."""
    try:
        named = path_of_location(location)
    except ValueError:  # a URL that is none
        return None
    return None if named is None else flat_path(named)


def path_of_location(location: str) -> Path | None:
    """The path that a location names, percent-encoded or not; None if it names none.

    Raises:
        ValueError: it is no URL.
    """
    written = _written(location, decoded=unquote)
    return None if written is None else Path(written)


def flat_path(path: Path) -> Path:
    """A path with ``..`` resolved by its text."""
    return Path(os.path.normpath(path))


def checked_arn(location: str) -> str:
    """The ARN by which leave is asked for a location.

    AWS has no ARN for a path of this machine: it is ``arn:partway:files:::`` and the path.

    Raises:
        ValueError: a path is written in another way than the one that leave is asked for.
    """
    return arn_of_location(location if location.startswith(SCHEME) else plain_path(location))


def arn_of_location(location: str) -> str:
    """The same of ``s3://bucket/key``, or of a path that is plain already."""
    if location.startswith(SCHEME):
        return f"arn:aws:s3:::{location.removeprefix(SCHEME)}"
    return f"arn:partway:files:::{location}"


def _encoded_never(path: str) -> str:
    return "" if "%" in path else path


def _written(location: str, decoded: Callable[[str], str] = _encoded_never) -> str | None:
    """The path that a location has, letter by letter; None if that is nothing on this machine.

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
