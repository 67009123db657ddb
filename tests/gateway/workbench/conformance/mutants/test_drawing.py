"""Of the draw: it leaves out no area of a mutant's own, and over all mutants no check."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.run import chosen
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
from tests.gateway.workbench.conformance.mutants.drawing import HEAVY, drawn


def areas(ids: Iterable[str]) -> set[str]:
    return {id.partition(".")[0] for id in ids}


def test_their_own_areas_are_whole_and_only_what_is_heavy_is_left_out():
    heavy = {area for group in HEAVY for area in group}
    for mutant in MUTANTS.values():
        tried, own = drawn(mutant), areas(mutant.root)
        for check in ALL:
            if check.id not in tried:
                assert not own & areas([check.id]), f"{mutant.name} is broken in this area"
                assert (heavy - own) & areas(each.id for each in chosen(ALL, [check.id])), check.id


@pytest.mark.parametrize("area", [area for group in HEAVY for area in group])
def test_what_is_heavy_is_tried_on_mutants_of_other_areas(area):
    others = [each for each in MUTANTS.values() if area not in areas(each.root)]
    whole = {check.id for check in ALL if check.id.startswith(f"{area}.")}
    trying = [each for each in others if whole <= set(drawn(each))]
    assert 5 <= len(trying) <= len(others) / 12
    assert len(set().union(*(areas(each.root) for each in trying))) >= 3
