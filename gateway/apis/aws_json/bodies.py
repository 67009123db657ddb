"""Bodies of JSON requests, bounded before they are parsed: they may be anybody's.

A body of a megabyte that is nothing but brackets would cost its parser fifty times its bytes, and
one that is deep enough its stack.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from partway.gateway.apis.control.errors import SerializationException
from partway.gateway.apis.control.limits import MAX_JSON_DEPTH, MAX_JSON_VALUES

#: A string is one step, also one that has no end; so the whole scan is one pass over the body.
_MARKS: Final = re.compile(
    rb"""
    " [^"\\]*+ (?: \\ (?: . | \Z ) [^"\\]*+ )*+ (?: " | \Z )
    | [\[\]{},]
    """,
    re.VERBOSE | re.DOTALL,
)

#: Half of a pair may be among the escapes; there is no UTF-8 of it.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def members_of(body: bytes) -> dict[str, Any]:
    """Return the object that a request's body is; an empty body is an empty object.

    Args:
        body: of the request, whole.

    Raises:
        SerializationException: the body is not an object in JSON, or larger in its structure than
            any input is.
    """
    if not body.strip():
        return {}
    _check_bounds(body)
    try:
        members = json.loads(body.decode(), parse_constant=_refuse_constant)
        if _SURROGATE.search(body):
            json.dumps(members, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # the former is also that of bytes that are not UTF-8
        raise SerializationException("the request's body must be JSON in UTF-8") from None
    if not isinstance(members, dict):
        raise SerializationException("the request's body must be a JSON object")
    return members


def _check_bounds(body: bytes) -> None:
    depth = values = 0
    for mark in _MARKS.finditer(body):
        kind = mark[0]
        if kind.startswith(b'"'):
            continue
        values += kind not in b"]}"
        depth += (kind in b"[{") - (kind in b"]}")
        if depth > MAX_JSON_DEPTH:
            raise SerializationException(
                f"the request's body is nested too deeply; it must have at most {MAX_JSON_DEPTH} "
                "objects and arrays within one another"
            )
        if values > MAX_JSON_VALUES:
            raise SerializationException(
                f"the request's body has too many values; it must have at most {MAX_JSON_VALUES}"
            )


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are Python's, not JSON's
