"""partway.importing: what is imported to stay is out of the garbage collector's sight."""

from __future__ import annotations

import subprocess
import sys

import pytest

from partway.importing import import_to_stay

#: Imports a module that makes as much as a command's, and says what the collector has done.
PROGRAM = """
import gc, sys
from partway.importing import import_to_stay
sys.path.insert(0, sys.argv[1])
{before}
looks = []
gc.callbacks.append(lambda phase, what: looks.append(what["generation"]))
module = import_to_stay("made")
seen = {{id(each) for each in gc.get_objects()}}
print(len(looks), id(module.KEPT) in seen, gc.isenabled())
"""


def said(tmp_path, before: str = "", module: str = "KEPT = [[] for _ in range(100_000)]") -> str:
    (tmp_path / "made.py").write_text(module)
    program = PROGRAM.format(before=before)
    command = [sys.executable, "-c", program, str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_collector_looks_at_nothing_of_it(tmp_path):
    assert said(tmp_path) == "0 False True\n"


def test_what_is_imported_already_is_left_as_it_is(tmp_path):
    assert said(tmp_path, "import made; gc.collect()") == "0 True True\n"


def test_a_collector_that_was_off_stays_off(tmp_path):
    assert said(tmp_path, "gc.disable()") == "0 True False\n"


def test_after_a_fault_the_collector_is_on_again(tmp_path):
    (tmp_path / "faulty.py").write_text("1 / 0")
    command = (
        "import gc, sys; sys.path.insert(0, sys.argv[1])\n"
        "from partway.importing import import_to_stay\n"
        "try: import_to_stay('faulty')\n"
        "except ZeroDivisionError: print(gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_a_module_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        import_to_stay("partway.nowhere")
