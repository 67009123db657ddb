"""Answers of OpenAI's API: media types, JSON, and server-sent events."""

from __future__ import annotations

import json
from typing import Any, Final

#: The media types of a whole answer and of one in events.
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

#: The data of the last event.
DONE: Final = b"[DONE]"


def json_of(value: object) -> bytes:
    return json_text(value).encode()


def json_text(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def server_sent_event(data: bytes) -> bytes:
    """Return an event of one line: JSON text has no line ends."""
    return b"data: %b\n\n" % data


def typed_event(kind: str, **members: Any) -> bytes:
    """Return an event whose data is an object with a ``type``."""
    return server_sent_event(json_of({"type": kind, **members}))
