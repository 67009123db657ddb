"""partway.gateway.cli.arguments: values of flags, what is said of wrong ones, and the region."""

from __future__ import annotations

import argparse

import pytest

from partway.gateway.cli.arguments import region, seconds, whole_number


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.25", 0.25), ("3600", 3600.0)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "3600.1", "nan", "inf", "soon", ""])
def test_what_is_no_time(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match="a number of seconds over 0 and at most 3600"
    ):
        seconds(text)


def test_a_whole_number():
    assert whole_number("8090") == 8090
    for text in ("abc", "1.5", "", "9" * 5000):
        with pytest.raises(argparse.ArgumentTypeError, match=r"it must be a whole number$"):
            whole_number(text)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, "us-east-1"),
        ("eu-west-1", "eu-north-1", "eu-west-1"),
        (None, "eu-north-1", "eu-north-1"),
        ("", "eu-north-1", "eu-north-1"),
        ("", "", "us-east-1"),
    ],
)
def test_region(monkeypatch, first, second, expected):
    for name, value in (("AWS_REGION", first), ("AWS_DEFAULT_REGION", second)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert region() == expected
