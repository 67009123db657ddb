"""Places, and what was found, in words."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from partway.gateway.configuration.messages import (
    TableRefused,
    each_line,
    error_of,
    given,
    may_be_shown,
    path_of,
    unknown,
    unknown_among,
)

MOMENT = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((), ""),
        (("port",), "port"),
        (("endpoints", "echo", "url"), "endpoints.echo.url"),
        (("rule", 0, "close", "code"), "rule#1.close.code"),
        (("messages", 1), "messages#2"),
        (("endpoints", "a b", "url"), "endpoints.'a b'.url"),
        (("endpoints", "", "url"), "endpoints.''.url"),
        (("endpoints", "a\x1b[2J", "url"), r"endpoints.'a\x1b[2J'.url"),
        (("x" * 50,), f"'{'x' * 39}…'"),
    ],
)
def test_a_place_is_named_by_its_whole_path(place, path):
    assert path_of(place) == path


@pytest.mark.parametrize(
    ("value", "found", "with_its_kind", "of_a_secret"),
    [
        ("x y", "'x y'", "the string 'x y'", "a string"),
        ("", "an empty string", "an empty string", "an empty string"),
        ("x" * 100, f"'{'x' * 59}…'", f"the string '{'x' * 59}…'", "a string"),
        ("\x1b", r"'\x1b'", r"the string '\x1b'", "a string"),
        (True, "true", "the boolean true", "a boolean"),
        (8090, "8090", "the number 8090", "a number"),
        (1.5, "1.5", "the number 1.5", "a number"),
        (float("nan"), "nan", "the number nan", "a number"),
        (1 << 2000, *["a number of very many digits"] * 3),
        (MOMENT, *[f"{start}2026-12-01T12:30:00+00:00" for start in ("", "the date and time ")],
         "a date and time"),
        (date(2026, 12, 1), "2026-12-01", "the date 2026-12-01", "a date"),
        (time(12, 30), "12:30:00", "the time 12:30:00", "a time"),
        ([], *["an empty array"] * 3),
        ([1, 2], *["an array of 2"] * 3),
        ({"a": 1}, *["a table"] * 3),
        (b"no", "b'no'", "the bytes b'no'", "a bytes"),
    ],
)  # fmt: skip
def test_what_was_found(value, found, with_its_kind, of_a_secret):
    assert given(value) == f"{found} was given"
    assert given(value, kind=True) == f"{with_its_kind} was given"
    assert given(value, secret=True) == f"{of_a_secret} was given"
    assert given(value, kind=True, secret=True) == f"{of_a_secret} was given"


@pytest.mark.parametrize(
    ("key", "known", "said"),
    [
        ("lifetme", ["url", "lifetime"], "this key is unknown; the nearest known one is lifetime"),
        ("x", ["url", "lifetime"], "this key is unknown; it must be one of url, lifetime"),
        ("x", [], "this key is unknown; its table must be empty"),
        ("u" * 1_000_000, ["url"], "this key is unknown; it must be one of url"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(key, known, said):
    assert unknown(key, known) == said


def test_an_unknown_key_that_is_not_shown():
    said = "this has an unknown key, which is not shown; it must be one of name, keys"
    assert unknown_among(["name", "keys"]) == said


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("tokn", True),
        ("a_b", True),
        ("a" * 25, False),
        ("Secret", False),
        ("s3cret", False),
        ("", False),
    ],
)
def test_a_key_that_could_be_a_secret_is_not_shown(key, shown):
    assert may_be_shown(key) is shown


def test_a_line_for_each_fault_and_ten_of_them():
    faults = [(("a", number), "it is wrong") for number in range(12)]
    lines = str(error_of("f.toml", faults[:10])).splitlines()
    assert lines == [f"f.toml: a#{number}: it is wrong" for number in range(1, 11)]
    *first, last = str(error_of("f.toml", faults)).splitlines()
    assert (first, last) == (lines, "f.toml: there are 2 more faults")
    assert str(error_of("PARTWAY_PORT", [((), "it is wrong")])) == "PARTWAY_PORT: it is wrong"


def test_what_each_line_begins_with():
    assert each_line("f: ", "a: it is wrong\nb: so is it") == "f: a: it is wrong\nf: b: so is it"


def test_keys_that_do_not_go_together():
    refused = TableRefused("it must be alone", "refuse")
    assert str(refused) == "refuse: it must be alone"
    assert refused.within(("rule", 0)) == (("rule", 0, "refuse"), "it must be alone")
    whole = TableRefused("it must have one of a, b")
    assert str(whole) == "it must have one of a, b"
    assert whole.within(("rule", 0)) == (("rule", 0), "it must have one of a, b")
