"""The container's path and query in a client's own URL (clause 3-6)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from partway.protocol.errors import InputValidationError
from partway.protocol.http.targets import QUERY, SEGMENT

#: Servers behind the container's may decode a segment once more, and see another path.
_HIDDEN: Final = re.compile(r"[/\\%\x00-\x1f\x7f]")

#: Parameters that authenticate the caller; the container does not get them.
_CREDENTIALS: Final = re.compile(r"access_token|X-Amz-.*", re.IGNORECASE)


def container_target(path: str, query: str) -> str:
    """Return the path and query of a request at the container.

    Args:
        path: the container's raw path, without a slash in front.
        query: the client's raw query; a token or signature in it is left out.

    Raises:
        InputValidationError: path or query violates RFC 3986, the path has dot segments, or it is
            not UTF-8.
    """
    if not all(map(_is_segment, path.split("/"))) or not QUERY.fullmatch(query):
        raise InputValidationError(
            "the container's path must be segments of UTF-8 without '.', '..' and encoded slashes, "
            "and path and query must be percent-encoded (RFC 3986)",
            "InvalidPath",
        )
    kept = [
        pair
        for pair in query.split("&")
        if pair and not _CREDENTIALS.fullmatch(unquote(pair.partition("=")[0]))
    ]
    return f"/{path}?{'&'.join(kept)}" if kept else f"/{path}"


def raw_part(path: str, pattern: re.Pattern[str], group: str) -> str:
    """Return a part of a raw path; the values that a route hands over are percent-decoded.

    Args:
        pattern: of the route that has matched the path.
    """
    match = pattern.fullmatch(path)
    assert match is not None, "the route has matched it"
    return match[group] or ""


def _is_segment(segment: str) -> bool:
    if SEGMENT.fullmatch(segment) is None:
        return False
    try:
        name = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return False  # such as %c0%ae: servers that take it for a longer form of "." see dots
    is_dots = name.partition(";")[0] in (".", "..")
    return not is_dots and not _HIDDEN.search(name)
