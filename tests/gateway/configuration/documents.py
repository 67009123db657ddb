"""TOML files for tests: any value, written as TOML, at any key of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")

#: What is said of a file that begins with thousands of brackets.
TOO_DEEP = (
    "line 1: there are more than 32 arrays or tables within one another; there must be at most 32"
)

#: Anything that a key may have in TOML, small and large.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.sampled_from([0, 1, -1, 2**64, 10**400]),
        st.floats(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from(["", "x" * 1000, "\x00", "close", "http://127.0.0.1:1"]),
        st.dates(),
        st.times(),
        st.datetimes(),
        st.datetimes(timezones=st.timezones()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text('ab"\n é[key]', max_size=5), inner, max_size=3),
    ),
    max_leaves=6,
)


def as_toml(table: dict[str, Any]) -> str:
    """A document with these keys; every table in it is an inline one."""
    return "\n".join(f"{_string(key)} = {_written(value)}" for key, value in table.items())


def _string(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


def _written(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _string(value)
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case _:
            pairs = (f"{_string(key)} = {_written(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"


def taken_or_refused(read: Callable[[], _T], refusal: type[Exception], called: object) -> _T | None:
    """What a file becomes; None for one that is refused, by that exception, each line of which
    begins with what the file is called.
    """
    try:
        return read()
    except refusal as error:
        lines = str(error).splitlines()
    assert lines
    for line in lines:
        assert line.startswith(f"{called}: ")
        assert line.isprintable()
    return None


def with_any(known: dict[str, Any], keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A table that is right but for one key, which may be any of ``keys``, or any at all.

    Args:
        known: the table.
        keys: what it may have.
    """
    changed = st.tuples(st.one_of(st.sampled_from(keys), st.text("abc.", max_size=4)), VALUES)
    return changed.map(lambda change: known | dict([change]))
