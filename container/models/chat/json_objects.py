"""JSON objects of clients and upstreams, whatever they send."""

from __future__ import annotations

import json
from typing import Any


def object_of(text: str | bytes) -> dict[str, Any] | None:
    """Return a JSON object; None for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
