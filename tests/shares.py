"""A worker's share of the test modules, imported before it collects them all.

Every worker of pytest-xdist collects the whole suite, and begins when the others do. In a fresh
clone each module's asserts are rewritten when it is first imported, which takes longer than
anything else in collecting, and workers that come to a module at the same time each rewrite it for
themselves. So each begins with modules of its own, and finds those of the others rewritten.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest


def share(modules: Sequence[str], number: int, count: int) -> list[str]:
    """The modules that worker ``number`` of ``count``, counted from 0, begins with."""
    return sorted(modules)[number::count]


def modules_below(folder: Path) -> list[str]:
    """Names of the test modules in a folder at the top of the checkout, as pytest names them."""
    return [
        ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for path in folder.rglob("test_*.py")
    ]


def import_own(config: pytest.Config, folder: Path) -> None:
    """Import this worker's share of the folder's test modules, if this is a worker.

    A module that cannot be imported is imported again when it is collected, and reported then.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for name in share(modules_below(folder), number, worker["workercount"]):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)
