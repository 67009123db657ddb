"""Bodies of predict that a gateway passes on unread, to a container that reads them (clause 1.1-9).

What instances must be is said by :mod:`partway.protocol.prediction`, for the gateway and for the
runtime alike. A container says with an answer that it has read the request so, and how many
instances it has found; the gateway may pass the next body of their connection on as it came. Both
say so to each other alone: the header is named by ``Connection``, and what is between the two, if
it knows HTTP, passes neither on (RFC 9110 §7.6.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from multidict import istr

#: The header of a container's answer: how many instances there were, or that they are refused; and
#: by which rules. These are counted: a body read by others than the gateway's own is no use to it.
INSTANCES_HEADER: Final = istr("X-Partway-Instances")
RULES: Final = "rules=1"
REFUSED: Final = "refused"

#: The header of a request whose body nobody has read, and what says that TF Serving's columns are
#: read too.
UNREAD_HEADER: Final = istr("X-Partway-Unread")
INSTANCES: Final = "instances"
COLUMNS: Final = "columns"

_CONNECTION: Final = istr("Connection")

#: No body has so many instances that they take more digits.
_MAX_DIGITS: Final = 12


def unread_lines(*, columns: bool) -> str:
    """The lines of a request's head that say that its body is unread.

    Args:
        columns: whether TF Serving's columns are to be read.
    """
    form = COLUMNS if columns else INSTANCES
    return f"{UNREAD_HEADER}: {form}; {RULES}\r\n{_CONNECTION}: {UNREAD_HEADER}\r\n"


def unread_form(headers: Mapping[str, str]) -> str | None:
    """How a request's body is to be read that nobody has read: INSTANCES or COLUMNS; else None.

    Args:
        headers: the request's, by case-insensitive names.
    """
    form, _, rules = headers.get(UNREAD_HEADER, "").partition("; ")
    return form if form in (INSTANCES, COLUMNS) and rules == RULES else None


def instances_headers(found: int | str, *, keeps: bool) -> dict[str, str]:
    """The headers of an answer that say how its request was read.

    Args:
        found: how many instances there were, or REFUSED.
        keeps: whether the connection may have another request.
    """
    options = INSTANCES_HEADER if keeps else f"{INSTANCES_HEADER}, close"
    return {INSTANCES_HEADER: f"{found}; {RULES}", _CONNECTION: options}


def instances_found(headers: Mapping[str, str]) -> int | None:
    """How many instances a container says that it has read, 0 where they are refused.

    Args:
        headers: the answer's, by case-insensitive names.

    Returns:
        None where it does not say so to its connection's other end.
    """
    stated = headers.get(INSTANCES_HEADER)
    if stated is None:
        return None
    options = (each.strip().lower() for each in headers.get(_CONNECTION, "").split(","))
    found, _, rules = stated.partition("; ")
    if rules != RULES or INSTANCES_HEADER.lower() not in options:
        return None
    if found == REFUSED:
        return 0
    is_number = found.isascii() and found.isdecimal() and len(found) <= _MAX_DIGITS
    return int(found) if is_number else None
