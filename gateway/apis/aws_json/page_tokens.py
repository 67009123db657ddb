"""Where a list goes on: what stands in a ``NextToken``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any, Final

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_PAGE_TOKEN

#: Base64's characters for URLs, all of which a token has; Python's decoder takes others too.
_TOKEN: Final = re.compile("[A-Za-z0-9_-]*")


def token_of(list_asked_for: Any, position: Any) -> str:
    """Return a token: where a list goes on, and a digest by which it is known to be this list's.

    It holds no secret, and gives whoever makes one up nothing but another beginning.

    Args:
        list_asked_for: the operation and its filters, as JSON has them.
        position: the last place of the page before, likewise.
    """
    whole = json.dumps([position, _digest(list_asked_for, position)], separators=(",", ":"))
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def position_of(list_asked_for: Any, token: str) -> Any:
    """Return where a list goes on.

    Args:
        list_asked_for: the operation and its filters, as JSON has them.
        token: as its caller gives it.

    Raises:
        ValidationException: it is none that this list has answered.
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
    """The error of a token that no such list has answered."""
    return ValidationException(
        "The NextToken is not valid; it must be one that the same list has answered, asked for "
        "with the same members."
    )


def _digest(list_asked_for: Any, position: Any) -> str:
    text = json.dumps([list_asked_for, position], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
