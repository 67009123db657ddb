"""The header Content-Type."""

from __future__ import annotations


def media_type_of(content_type: str) -> str:
    """Return the media type of a header's value, in lower case and without its parameters."""
    return content_type.partition(";")[0].strip().lower()
