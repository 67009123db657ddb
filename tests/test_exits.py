"""tests.exits: a coroutine that exits fails, and nothing else does."""

from __future__ import annotations

import argparse

import pytest

from tests.exits import failing


@pytest.mark.xfail(raises=AssertionError, reason="it exits")
async def test_a_test_that_parses_a_wrong_word_fails():
    argparse.ArgumentParser().parse_args(["--unknown"])


async def test_its_status_is_told_and_where_it_exited():
    async def exits(status):
        raise SystemExit(status)

    with pytest.raises(AssertionError, match="the test exited, with status 3") as caught:
        await failing(exits)(3)
    assert isinstance(caught.value.__cause__, SystemExit)


async def test_what_else_is_raised_stays_what_it_is():
    async def breaks():
        raise LookupError

    with pytest.raises(LookupError):
        await failing(breaks)()
