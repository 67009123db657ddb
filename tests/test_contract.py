"""The contract page and the tests that claim its clauses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.conftest import (
    NOT_YET,
    REQUIRED_SECTIONS,
    ROOT,
    claims,
    contract_ids,
    required_ids,
    why_not_whole_suite,
)


def test_an_id_is_defined_once():
    assert [id for id, count in Counter(contract_ids()).items() if count > 1] == []


def test_ids_of_a_section_are_numbered_without_a_gap():
    sections: dict[str, list[int]] = {}
    for id in contract_ids():
        section, number = id.rsplit("-", 1)
        sections.setdefault(section, []).append(int(number))
    assert {name: sorted(numbers) for name, numbers in sections.items()} == {
        name: list(range(1, len(numbers) + 1)) for name, numbers in sections.items()
    }


def test_what_is_required_exists():
    sections = {id.rsplit("-", 1)[0] for id in contract_ids()}
    assert set(REQUIRED_SECTIONS) <= sections
    assert set(contract_ids()) >= NOT_YET


def test_no_test_claims_a_clause_that_does_not_exist(request):
    known = set(contract_ids())
    unknown = sorted(
        {f"{item.nodeid}: {id}" for id, item in claims(request.session.items) if id not in known}
    )
    assert not unknown, "\n".join(unknown)


def test_every_required_clause_is_claimed_by_a_test(request):
    narrowed = why_not_whole_suite(request.config)
    if narrowed is not None:
        pytest.skip(f"needs the whole suite: {narrowed}")
    claimed = {id for id, _ in claims(request.session.items)}
    missing = required_ids() - claimed
    assert not missing, f"no test claims {', '.join(sorted(missing))}"


# --- From a clause to its code -------------------------------------------------------------------

_PATH = re.compile(r"`((?:protocol|gateway|container|tests)/[^`]+)`")
_RANGE = re.compile(r"(\d(?:\.\d)?)-(\d+)(?: to (\d(?:\.\d)?)-(\d+))?")


def cited(text: str) -> set[str]:
    """The clauses that a module names, ranges (``1.2-1 to 1.2-5``) included."""
    ids = set()
    for section, first, until, last in _RANGE.findall(text):
        ids |= {f"{section}-{n}" for n in range(int(first), int(last if until else first) + 1)}
    return ids


def test_code_names_each_clause_that_is_kept():
    modules = [
        path
        for room in ("protocol", "gateway", "container")
        for path in (ROOT / room).rglob("*.py")
    ]
    named = {id for path in modules for id in cited(path.read_text("utf-8"))}
    assert set(contract_ids()) - named == NOT_YET


def test_the_topics_lead_somewhere():
    paths = _PATH.findall((ROOT / "docs" / "reference" / "where.md").read_text("utf-8"))
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []
