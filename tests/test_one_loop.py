"""tests.one_loop: which loop a test is left with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.one_loop import LOOPS, drawn, loop_of


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("a.py::test", None),
        ("a.py::test[asyncio]", "asyncio"),
        ("a.py::test[1-uvloop-x]", "uvloop"),
        ("a.py::test_uvloop[1]", None),
        ("a.py::test[my uvloop]", None),
    ],
)
def test_the_loop_of_a_case(name, loop):
    assert loop_of(name) == loop


def test_of_two_loops_one_is_kept_and_both_are_drawn():
    tests = [f"a.py::test[{number}-LOOP]" for number in range(100)]
    names = [test.replace("LOOP", loop) for test in tests for loop in LOOPS]
    kept = drawn(names)
    assert len(kept) == len(tests)
    assert {name.replace("asyncio", "LOOP").replace("uvloop", "LOOP") for name in kept} == {*tests}
    assert 30 < sum(loop_of(name) == "uvloop" for name in kept) < 70
    assert drawn(names[::-1]) == kept[::-1], "whatever their order"


def test_what_has_one_loop_or_none_is_kept():
    names = ["a.py::test", *(f"a.py::test[{number}-uvloop]" for number in range(20))]
    assert drawn(names) == names


def test_a_run_with_the_flag_has_half_of_the_cases(capfd):
    """Of a module whose tests all run on both loops."""
    counts = []
    for options in ([], ["--one-loop"]):
        what = [str(ROOT / "tests" / "gateway" / "test_clock.py"), "--collect-only", "-q"]
        subprocess.run([sys.executable, "-m", "pytest", *what, *options], cwd=ROOT, check=True)
        counts.append(capfd.readouterr().out.count("::"))
    assert counts[0] == 2 * counts[1] > 0
