"""The head of an HTTP/1.1 response, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from partway.protocol.http_date import http_date

#: The header of a chunked body, and the chunk that ends it (RFC 9112 §7.1).
CHUNKED: Final = "Transfer-Encoding: chunked\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

#: Statuses whose responses have no body (RFC 9110 §6.4.1).
BODILESS: Final = frozenset({204, 304})

_REASONS: Final = {int(status): status.phrase for status in HTTPStatus}


def response_head(
    version: str,
    status: int,
    headers: Mapping[str, str],
    further: str = "",
    *,
    keeps: bool,
    now: float,
) -> bytes:
    """Make the head of a response to a request of a ``version``.

    ``further`` holds valid header lines with their line ends, such as the header that frames the
    body. ``keeps`` says whether the connection is kept for another request (RFC 9112 §9.3).
    ``now`` is in seconds since 1970.

    Raises:
        ValueError: a header has a line break.
    """
    if keeps:
        connection = "Connection: keep-alive\r\n" if version == "1.0" else ""
    else:
        connection = "Connection: close\r\n" if version == "1.1" and status != 101 else ""
    head = (
        f"HTTP/{version} {status} {_REASONS.get(status, '')}\r\n"
        f"{_lines(headers)}{further}Date: {http_date(now)}\r\n{connection}\r\n"
    )
    return head.encode("utf-8", "surrogateescape")


def _lines(headers: Mapping[str, str]) -> str:
    """Raise ValueError for a header that would be more than one line."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise ValueError("a header of a response must be one line")
    return lines
