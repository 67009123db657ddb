"""Parsing of JSON request bodies, whose structure is bounded before parsing.

A body of a megabyte that consists of brackets would cost the parser fifty times its bytes, and a
deeply nested body would exhaust the stack.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from partway.gateway.apis.control.errors import SerializationException
from partway.gateway.apis.control.limits import MAX_JSON_DEPTH, MAX_JSON_VALUES

#: A string is one match, even without a closing quote; so the scan is one pass over the body.
_MARKS: Final = re.compile(
    rb"""
    " [^"\\]*+ (?: \\ (?: . | \Z ) [^"\\]*+ )*+ (?: " | \Z )
    | [\[\]{},]
    """,
    re.VERBOSE | re.DOTALL,
)

#: An escape may be half of a surrogate pair, which has no UTF-8.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def members_of(body: bytes) -> dict[str, Any]:
    """Return the object in a request's body; an empty body is an empty object.

    Raises:
        SerializationException: the body is not a JSON object, or has a larger structure than any
            input.
    """
    if not body.strip():
        return {}
    _check_bounds(body)
    try:
        members = json.loads(body.decode(), parse_constant=_refuse_constant)
        if _SURROGATE.search(body):
            json.dumps(members, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # ValueError includes bytes that are not UTF-8
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
    raise ValueError(name)  # Python accepts NaN and Infinity, which are not JSON
