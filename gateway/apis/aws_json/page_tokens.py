"""The page tokens of lists, which answers name ``NextToken``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any, Final

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_PAGE_TOKEN

#: Base64's characters for URLs; Python's decoder accepts others too.
_TOKEN: Final = re.compile("[A-Za-z0-9_-]*")


def token_of(list_asked_for: Any, position: Any) -> str:
    """Return a token with a list's next position, and a digest that binds it to the list.

    A token holds no secret. An invented token only starts the list at another position.

    Args:
        list_asked_for: the operation and its filters, as JSON.
        position: the last position of the page before, as JSON.
    """
    whole = json.dumps([position, _digest(list_asked_for, position)], separators=(",", ":"))
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def position_of(list_asked_for: Any, token: str) -> Any:
    """Return the position where a list continues.

    Args:
        list_asked_for: the operation and its filters, as JSON.

    Raises:
        ValidationException: the token is not one of this list.
    """
    if len(token) > MAX_PAGE_TOKEN or not _TOKEN.fullmatch(token):
        raise bad_token()
    try:
        padded = token + "=" * (-len(token) % 4)
        position, digest = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, TypeError, RecursionError):
        raise bad_token() from None
    if digest != _digest(list_asked_for, position):
        raise bad_token()
    return position


def bad_token() -> ValidationException:
    return ValidationException(
        "The NextToken is not valid; it must come from an answer of the same operation with "
        "the same members."
    )


def _digest(list_asked_for: Any, position: Any) -> str:
    text = json.dumps([list_asked_for, position], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
