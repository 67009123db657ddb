"""Tests of how workers divide the test modules among them."""

from __future__ import annotations

from pathlib import Path

from tests.shares import modules_below, share


def test_every_module_is_in_one_share() -> None:
    modules = ["tests.d", "tests.a", "tests.c", "tests.b"]

    shares = [share(modules, number, 3) for number in range(3)]

    assert shares == [["tests.a", "tests.d"], ["tests.b"], ["tests.c"]]


def test_modules_have_the_names_that_pytest_gives_them() -> None:
    assert __name__ in modules_below(Path(__file__).parent)
