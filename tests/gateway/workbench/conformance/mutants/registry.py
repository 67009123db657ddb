"""What a mutant is, and how one is started."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.gateway.workbench.conformance.mutants.base import Container
from tests.gateway.workbench.conformance.mutants.base_stream import Stream

Broken = TypeVar("Broken", type[Container], type[Stream])

#: The words that start a mutant, before its name and ``serve``; the repository is where it runs.
PROGRAM = (sys.executable, "-m", "tests.gateway.workbench.conformance.mutants")


@dataclass(frozen=True)
class Mutant:
    """One container with one fault.

    Attributes:
        name: of it.
        breaks: what is wrong with it, in one line.
        root: ids of the checks that must fail; every other one passes, is blocked or skipped.
        container: its class.
        command: as an ENTRYPOINT in exec form.
        fast: whether a fast run finds it; else the root alone is tried, in its full time.
    """

    name: str
    breaks: str
    root: frozenset[str]
    container: type[Container]
    command: tuple[str, ...]
    fast: bool


MUTANTS: dict[str, Mutant] = {}


def mutant(
    *root: str, command: tuple[str, ...] = (), fast: bool = True
) -> Callable[[Broken], Broken]:
    """List a class as a mutant: ``NoPong`` is ``no-pong``, its docstring says what it breaks.

    Args:
        root: as :class:`Mutant` has it.
        command: where the fault is in how it is started.
        fast: as :class:`Mutant` has it.
    """

    def take(broken: Broken) -> Broken:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", broken.__name__).lower()
        if issubclass(broken, Stream):
            container: type[Container] = type(broken.__name__, (Container,), {"stream": broken})
        else:
            container = broken
        if name in MUTANTS:
            raise ValueError(f"there are two mutants {name}")
        assert broken.__doc__, f"{name} does not say what it breaks"
        MUTANTS[name] = Mutant(
            name=name,
            breaks=broken.__doc__.splitlines()[0],
            root=frozenset(root),
            container=container,
            command=command or (*PROGRAM, name),
            fast=fast,
        )
        return broken

    return take
