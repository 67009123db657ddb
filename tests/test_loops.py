"""tests.loops: which loop a test is left with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.loops import LOOPS, drawn, loop_of


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
    assert {*drawn(names, other=True)} == {*names} - {*kept}


def test_what_has_one_loop_or_none_is_kept():
    names = ["a.py::test", *(f"a.py::test[{number}-uvloop]" for number in range(20))]
    assert drawn(names) == names
    assert drawn(names, other=True) == names


def test_a_run_with_the_option_has_those_that_it_names(capfd):
    """Of a module whose tests all run on both loops."""
    what = [str(ROOT / "tests" / "gateway" / "timing" / "test_clock.py"), "--collect-only", "-q"]
    run = [sys.executable, "-m", "pytest", *what, "--loops=other"]
    subprocess.run(run, cwd=ROOT, check=True)
    out = capfd.readouterr().out
    cases = [line for line in out.splitlines() if "::" in line]
    assert f"{len(cases)}/{2 * len(cases)} tests collected" in out
    for case in cases:
        kind = loop_of(case)
        both = [case.replace(f"[{kind}]", f"[{loop}]") for loop in LOOPS]
        assert drawn(both, other=True) == [case]
