"""Which checks a mutant is tried on: what costs little always, what costs much by the draw."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.checks import ALL
from tests.gateway.workbench.conformance.mutants.registry import Mutant

#: Areas that send 16 MiB, or repeat something hundreds of times: four fifths of a run's CPU time.
#: Those of a group are drawn together, since one requires the other.
HEAVY: Final = (("sizes",), ("wear", "leaks"))

#: One in so many mutants is tried on a group of heavy areas that is not its own.
ONE_IN: Final = 24

_BY_ID: Final = {check.id: check for check in ALL}


def drawn(mutant: Mutant) -> list[str]:
    """The ids of the checks that a mutant is tried on.

    These are the areas of its own roots, all that is not heavy and requires nothing heavy, and each
    group of heavy areas for one mutant in :data:`ONE_IN`: which, its name says, so that it is the
    same ones each time. What they require, a run tries too.
    """
    own = {_area(id) for id in mutant.root}
    left_out = {
        area
        for group in HEAVY
        if crc32(f"{mutant.name} {group[0]}".encode()) % ONE_IN
        for area in group
        if area not in own
    }
    return [
        check.id
        for check in ALL
        if _area(check.id) in own or not left_out & {_area(id) for id in _with_required(check)}
    ]


def _area(id: str) -> str:
    return id.partition(".")[0]


def _with_required(check: Check) -> set[str]:
    """Ids of a check and of all that it requires, which are tried before it."""
    found = {check.id}
    for required in check.requires:
        found |= _with_required(_BY_ID[required])
    return found
