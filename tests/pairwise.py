"""Of a test's cases so many that every two values of its parameters meet in one of them.

A test of four parameters has the product of them all for its cases, and most of these repeat one
another: what a case finds hangs on one value, or on two that meet. A test marked ``pairwise``
keeps, for every two values of any two of its parameters, a case that has both; event loops and
dialects are parameters like others. Where three have to meet, the test is not marked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import pytest

Case = Sequence[Hashable]


def covering(cases: Sequence[Case]) -> list[int]:
    """The places of the cases that are kept, in their order.

    One after the other, always the one with the most pairs that none before it has; the first of
    those that have as many. So the same cases are kept wherever they are collected.

    Args:
        cases: the values of each, one for each parameter.
    """
    pairs = [
        {(one, case[one], two, case[two]) for one, two in combinations(range(len(case)), 2)}
        for case in cases
    ]
    if len(cases[0]) < 2:
        return list(range(len(cases)))
    missing = set().union(*pairs)
    kept = []
    while missing:
        best = max(range(len(cases)), key=lambda at: len(pairs[at] & missing))
        missing -= pairs[best]
        kept.append(best)
    return sorted(kept)


def thinned(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Collected tests, without the cases that those marked ``pairwise`` can do without.

    A case that is asked for by its id is a product of its own, and is kept.
    """
    tests: dict[tuple[object, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("pairwise") is not None:
            tests.setdefault((item.parent, item.originalname), []).append(item)  # type: ignore[attr-defined]
    dropped: set[pytest.Item] = set()
    for cases in tests.values():
        kept = covering([_values(item) for item in cases])
        dropped |= set(cases) - {cases[at] for at in kept}
    return [item for item in items if item not in dropped]


def _values(item: pytest.Item) -> list[Hashable]:
    """What tells this case's values from those of others, one for each parameter.

    Parameters that are given together are one, and so is each fixture's.
    """
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    values: list[Hashable] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        values.append(tuple(id(params.pop(name)) for name in names))
    return values + [id(value) for value in params.values()]
