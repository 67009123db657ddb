"""tests.pairwise: which of a test's cases are kept."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.pairwise import covering, thinned


def pairs(cases):
    return {
        (one, case[one], two, case[two])
        for case in cases
        for one, two in combinations(range(len(case)), 2)
    }


@pytest.mark.parametrize(
    ("sizes", "at_most"),
    [((2, 2), 4), ((13, 5), 65), ((2, 2, 2), 6), ((13, 5, 2, 2), 70), ((3, 3, 5, 2, 2), 20)],
    ids=str,
)
def test_every_two_values_meet(sizes, at_most):
    cases = list(product(*map(range, sizes)))
    kept = [cases[at] for at in covering(cases)]
    assert pairs(kept) == pairs(cases)
    assert len(kept) <= at_most
    assert kept == sorted(kept)


def test_what_never_meets_is_not_asked_for():
    cases = [case for case in product(range(3), range(3), range(2)) if case[:2] != (1, 1)]
    assert pairs([cases[at] for at in covering(cases)]) == pairs(cases)


TESTS = """
import pytest


@pytest.fixture(params=["x", "y"])
def given(request):
    return request.param


@pytest.mark.pairwise
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize(("second", "its_name"), [(1, "one"), (2, "two")])
def test_marked(first, second, its_name, given):
    pass


@pytest.mark.pairwise
@pytest.mark.parametrize("number", [1, 2, 3])
def test_marked_with_one(number):
    pass


@pytest.mark.pairwise
def test_marked_with_none():
    pass


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("second", [1, 2])
def test_not_marked(first, second, given):
    pass
"""


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("test_it.py", 4 + 3 + 1 + 8),
        ("test_it.py::test_marked", 4),
        ("test_it.py::test_marked[x-1-one-1]", 1),
        ("test_it.py::test_marked[y-2-two-1]", 1),
    ],
)
def test_a_marked_test_has_fewer_cases(tmp_path, what, count):
    names = []

    class Collecting:
        def pytest_collection_modifyitems(self, items):
            names.extend(item.name for item in thinned(items))

    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["--collect-only", "-q", "--import-mode=importlib", "-c", "/dev/null"]
    # At its end one of them looks five times through all that this process has.
    options += [f"-pno:{name}" for name in ("cacheprovider", "unraisableexception")]
    pytest.main([str(tmp_path / what), *options], plugins=[Collecting()])
    assert len(names) == count, names
