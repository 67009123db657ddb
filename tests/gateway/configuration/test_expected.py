"""What a value must be: the words for it, and which values are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from partway.gateway.configuration.expected import (
    FilePath,
    Flag,
    FolderPath,
    Moment,
    Size,
    Strings,
    adapter,
    array,
    keys_of,
    number,
    parts_of,
    secret,
    table_or,
    taken_apart,
    text,
    whole,
    whole_of,
    words_of,
)

Port = Annotated[int, whole(0, 65_535)]
Even = Annotated[int, whole_of("an even number", lambda value: value % 2 == 0)]
Seconds = Annotated[float, number(above=0, most=600, unit="seconds")]
Share = Annotated[float, number(least=0, most=1)]
Lower = Annotated[str, text("small letters", str.islower)]
Two = Annotated[tuple[Lower, ...], array("two strings at most", least=1, most=2)]


@dataclass(frozen=True)
class Inner:
    port: Port = 1


Short = Annotated[Any, table_or("a table, or true", Inner, lambda value: value is True)]


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = Inner()
    short: Short = None
    map: dict[Lower, Inner] = field(default_factory=dict)
    way: Literal["in", "out"] = "in"


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)

#: A type, its words, values that are taken, with what becomes of them, and values that are not.
TYPES = [
    (Port, "a whole number from 0 to 65535", {0: 0, 65_535: 65_535}, [-1, 65_536, 1.0, True, "1"]),
    (Annotated[int, whole(1, unit="bytes")], "a whole number of bytes, 1 or more",
     {1: 1, 10**400: 10**400}, [0, 1.5, False]),
    (Even, "an even number", {2: 2}, [1, 2.0, "2", True]),
    (Seconds, "a finite number of seconds above 0 and at most 600", {1: 1.0, 600: 600.0},
     [0, 600.1, float("nan"), float("inf"), True, "1", 10**400]),
    (Share, "a finite number from 0 to 1", {0: 0.0, 0.5: 0.5}, [-0.1, 1.1]),
    (Annotated[float, number(above=0)], "a finite number above 0", {1e300: 1e300},
     [0, float("inf"), float("nan"), 10**400]),
    (Lower, "small letters", {"a": "a"}, ["A", "", 1, True]),
    (str, "a string", {"": "", "a": "a"}, [1, True, NOON, []]),
    (Flag, "true or false", {True: True, False: False}, [1, 0, "true", "yes"]),
    (FilePath, "a file's path", {"a/b": Path("a/b"), Path("c"): Path("c")}, ["", 1, True, []]),
    (FolderPath, "a folder's path", {"a": Path("a"), Path("c"): Path("c")}, ["", 1]),
    (Size, ("a whole number of bytes above 0, or a size in KiB, MiB, GiB or TiB, such as 2GiB; "
     "at most 1024TiB"),
     {1: 1, "7": 7, "2GiB": 2 << 30, "1.5 KiB": 1536, "0.001MiB": 1048, "1024TiB": 1 << 50},
     [0, -1, 1.0, True, "", "0", "0.1", "-1", "1e3", "2GB", "2 gib", "GiB", "1.5.5KiB", " 1",
      "1025TiB", (1 << 50) + 1, 10**400, "9" * 400]),
    (Moment, "a date and time with its zone, such as 2026-12-01T00:00:00Z", {NOON: NOON},
     [NOON.replace(tzinfo=None), date(2026, 12, 1), "2026-12-01T00:00:00Z", 1]),
    (Literal["in", "out"], "'in' or 'out'", {"in": "in"}, ["up", 1, True, [], {}]),
    (Literal["a", "b", "c"], "'a', 'b' or 'c'", {"c": "c"}, ["d"]),
]  # fmt: skip


def check(hint: Any, value: object) -> Any:
    return adapter(hint).validate_python([value])[0]


def said(check: Any, value: object) -> object:
    """What a check makes of a value, or says of it."""
    try:
        return check.validate_python([value])
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False)


@pytest.mark.parametrize(("hint", "words", "right", "wrong"), TYPES)
def test_what_stands_alone_is_checked_as_pydantic_would(hint, words, right, wrong):
    for each in (hint, hint | None):
        theirs = TypeAdapter(list[each], config=ConfigDict(extra="forbid"))
        assert isinstance(adapter(each), SchemaValidator)
        for value in (*right, *wrong, None, b"a", [], {}, object):
            assert said(adapter(each), value) == said(theirs, value)


@pytest.mark.parametrize(
    "hint",
    [Inner, Short, Two, dict[Lower, Lower], Annotated[int, secret("a number")]],
    ids=["a table", "a short one", "an array", "a map", "a secret"],
)
def test_what_has_parts_is_pydantics_to_check(hint):
    assert isinstance(adapter(hint), TypeAdapter)


@pytest.mark.parametrize(("hint", "words", "right", "wrong"), TYPES)
def test_what_a_type_takes(hint, words, right, wrong):
    assert words_of(hint) == words == words_of(hint | None)
    for value, becomes in right.items():
        found = check(hint, value)
        assert found == becomes
        assert type(found) is type(becomes)
    for value in wrong:
        with pytest.raises(ValidationError):
            check(hint, value)


def test_arrays():
    assert words_of(Two) == "two strings at most"
    assert check(Two, ["a", "b"]) == ("a", "b")
    assert check(Strings, ["a", "b", "a"]) == frozenset({"a", "b"})
    for wrong in ([], ["a", "b", "c"], ["A"], "a", {"a": 1}, 1):
        with pytest.raises(ValidationError):
            check(Two, wrong)


def test_of_a_long_array_the_first_fault_is_enough():
    with pytest.raises(ValidationError) as caught:
        check(Strings, [1] * 100_000)
    assert caught.value.error_count() == 1
    with pytest.raises(ValidationError) as caught:
        check(Annotated[tuple[Inner, ...], array("tables", stop=False)], [1] * 3)
    assert caught.value.error_count() == 3


def test_tables():
    found = check(Outer, {"name": "a", "inner": {"port": 2}, "map": {"x": {"port": 3}}})
    assert found == Outer("a", Inner(2), None, {"x": Inner(3)})
    for key in ("short", "inner", "map"):
        assert check(Outer, {"name": "a", key: {}})
    assert check(Outer, {"name": "a", "short": True}).short is True
    assert check(Outer, {"name": "a", "short": {"port": 3}}).short == Inner(3)
    for wrong in (
        {},
        {"name": "a", "nam": "b"},
        {"name": "a", "inner": {"prt": 1}},
        {"name": "a", "short": False},
        {"name": "a", "short": {"prt": 1}},
        {"name": "a", "map": {"X": {}}},
        {"name": "a", "map": {"x": {"prt": 1}}},
    ):
        with pytest.raises(ValidationError):
            check(Outer, wrong)


def test_what_a_table_has():
    assert list(keys_of(Outer) or ()) == ["name", "inner", "short", "map", "way"]
    assert keys_of(Outer | None) == keys_of(Outer)
    assert keys_of(Short) == keys_of(Inner) == {"port": Port}
    assert keys_of(dict[Lower, Inner]) is keys_of(str) is None
    assert parts_of(dict[Lower, Inner]) == (Lower, Inner)
    assert parts_of(Two) == (Lower,)
    assert parts_of(Strings) == (str,)
    assert parts_of(Port) == parts_of(Inner) == ()
    assert taken_apart(Port | None) == (int, whole_like(Port))


def whole_like(hint: Any) -> Any:
    return hint.__metadata__[0]


@dataclass(frozen=True)
class WithoutANote:
    inner: tuple[int, ...] = ()


@pytest.mark.parametrize(
    "hint",
    [int, float, bool, datetime, Path, int | None, int | str, tuple[str, ...], dict[str, int],
     Annotated[tuple[int, ...], array("numbers")], WithoutANote, Any],
)  # fmt: skip
def test_a_type_that_does_not_say_enough_is_refused_when_it_is_first_used(hint):
    with pytest.raises(TypeError, match="needs a note beside it"):
        adapter(hint)
