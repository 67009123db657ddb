"""The principal that made a model or an endpoint configuration, as it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: The member that keeps the principal's name.
_MAKER: Final = "made_by"


def kept_of_maker(principal: str | None) -> Mapping[str, Any]:
    """The kept members of what is new; a principal of None, without authentication, adds none."""
    return {} if principal is None else {_MAKER: principal}


def maker_of(kept: Mapping[str, Any]) -> str:
    """The principal's name; empty if it is not written down."""
    maker: str = kept.get(_MAKER, "")
    return maker
