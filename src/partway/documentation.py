"""The address of the documentation, for an installation without a checkout."""

from __future__ import annotations

from typing import Final

#: The folder ``docs`` of the repository; the project's metadata names its first page.
DOCUMENTATION: Final = "https://github.com/partway/partway/blob/main/docs"


def page(path: str) -> str:
    """Return the address of a page, by its path in ``docs``."""
    return f"{DOCUMENTATION}/{path}"
