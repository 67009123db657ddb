"""partway.gateway.cli.arguments: values of flags, what is said of wrong ones, and the region."""

from __future__ import annotations

import argparse

import pytest

from partway.gateway.cli.arguments import region, seconds


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.25", 0.25), ("3600", 3600.0)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "3600.1", "nan", "inf", "soon", ""])
def test_what_is_no_time(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match="a number of seconds over 0 and at most 3600"
    ):
        seconds(text)


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
