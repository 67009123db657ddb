"""``google.api.HttpBody`` in JSON: bytes and their type, as Google's REST clients send them."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from partway.protocol.json.base64_text import decoded, encoded
from partway.protocol.json.strict import NotJson, parsed


class HttpBody(NamedTuple):
    """A body of any type.

    Attributes:
        content_type: its media type; empty for none.
    """

    content_type: str
    data: bytes


def read_http_body(text: bytes) -> HttpBody:
    """Unwrap ``{"httpBody": {"contentType": …, "data": …}}``; raises ValueError for other text."""
    try:
        found = parsed(text)
    except NotJson as error:
        raise ValueError(f"the body is not JSON: {error.why}") from None
    body = found.get("httpBody", {}) if isinstance(found, dict) else None
    if not isinstance(body, dict):
        raise ValueError('the body must be {"httpBody": {"contentType": …, "data": …}}')  # noqa: TRY004 (the client's)
    content_type, data = body.get("contentType", ""), body.get("data", "")
    if not isinstance(content_type, str) or not isinstance(data, str):
        raise ValueError("httpBody: contentType and data must be strings")  # noqa: TRY004
    try:
        return HttpBody(content_type, decoded(data))
    except ValueError as error:
        raise ValueError(f"httpBody: data: {error}; the string must be base64") from None


def write_http_body(body: HttpBody) -> bytes:
    """Wrap an answer, or a piece of one: ``{"contentType": …, "data": …}``."""
    return orjson.dumps({"contentType": body.content_type, "data": encoded(body.data)})
