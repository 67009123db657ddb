"""partway.gateway.cli.arguments: values of flags, and what is said of wrong ones."""

from __future__ import annotations

import argparse

import pytest

from partway.gateway.cli.arguments import seconds


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.25", 0.25), ("3600", 3600.0)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "3600.1", "nan", "inf", "soon", ""])
def test_what_is_no_time(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match="a number of seconds over 0 and at most 3600"
    ):
        seconds(text)
